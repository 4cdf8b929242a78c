"""Outlines of all objects at once: perimeter, and the polygon through the middles of the pixel sides at the border.

Each side of a pixel that faces another label is walked along with the object on the right hand. Which side comes next
follows from two pixels ahead. Pixels that touch at a corner belong together, so an object in one piece has one outer
outline, and one more for every hole.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph

from clearfold.features import kernels, walks
from clearfold.features.grid import Grid, Integers

Floats: TypeAlias = NDArray[np.float64]

DIAGONAL = np.sqrt(0.5)
"""Length of an outline's step round a corner; straight on it is 1."""
STEPS = np.zeros(50)
STEPS[[5, 7, 15, 17, 25, 27]], STEPS[[21, 33]], STEPS[[13, 23]] = 1.0, np.sqrt(2.0), (1.0 + np.sqrt(2.0)) / 2.0
"""The length that a border pixel stands for, by 1 + 2 (border pixels beside it) + 10 (those across a corner)."""


@dataclass(frozen=True)
class Outlines:
    """The outer outline of each object; of several pieces that of the largest, in reading order the first.

    start : where the points of each object start, and after the last
    y, x : doubled, from the middle of the object's box on, so that it does not matter where an object lies
    straight : whether the step to the next point is straight on
    perimeter : length of the line through border pixels (Benkrid and Crookes), holes included, in pixels
    euler : pieces minus holes of each object; plain : whether it has one outline alone
    """

    start: Integers
    y: Integers
    x: Integers
    straight: NDArray[np.bool_]
    perimeter: Floats
    euler: Integers
    plain: NDArray[np.bool_]

    @cached_property
    def owner(self) -> Integers:
        """The object of each point."""
        return np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))

    @cached_property
    def following(self) -> Integers:
        """The point after each."""
        after = np.arange(1, len(self.y) + 1)
        after[self.start[1:] - 1] = self.start[:-1]
        return after

    @cached_property
    def steps(self) -> Floats:
        """Length of the step from each point to the next, in pixels."""
        return np.where(self.straight, 1.0, DIAGONAL)

    @cached_property
    def length(self) -> Floats:
        """Length of each outline, in pixels."""
        straight = np.add.reduceat(self.straight, self.start[:-1], dtype=np.int64)
        return straight + DIAGONAL * (np.diff(self.start) - straight)


def outlines(grid: Grid) -> Outlines:
    """Walk round every object."""
    edges, trace = kernels.compiled(walks.edges), kernels.compiled(walks.trace)
    if edges is None or trace is None:
        return _outlines(_borders(grid))
    runs, boxes = grid.runs, grid.runs.boxes
    corners = np.stack([boxes.top, boxes.left, boxes.bottom, boxes.right])
    start = np.append(runs.first, len(runs.row))
    up, codes = edges(grid.cells, grid.width, corners, start, runs.row, runs.column, runs.length)
    sides = 2 * int(up.sum()) + 2 * len(runs.row)  # as many face down as up; each run has two more
    start, y, x, straight, euler, plain = trace(grid.cells, grid.width, corners, up, sides)
    return Outlines(start, y, x, straight, codes @ STEPS, euler, plain)


def _outlines(borders: _Borders) -> Outlines:
    """All walks of all objects at the same time, one step after the other."""
    sides, count = _sides(borders), borders.grid.count
    first = np.full(count, -1)
    first[sides.label[::-1] - 1] = np.arange(len(sides.label))[::-1]
    walked, start = _walk(sides.following, first)
    others = np.ones(len(sides.label), bool)
    others[walked] = False
    turns = np.bincount(sides.label - 1, weights=sides.turn, minlength=count)
    plain = np.ones(count, bool)
    if others.any():
        plain[sides.label[others] - 1] = False
        walked, start = _with_larger(sides, walked, start, np.flatnonzero(others))
    boxes, owner = borders.grid.runs.boxes, sides.label[walked] - 1
    y, x = sides.y[walked] - 2 * boxes.middle_row[owner], sides.x[walked] - 2 * boxes.middle_column[owner]
    straight = sides.turn[walked] == 0
    return Outlines(start, y, x, straight, borders.perimeter, np.round(turns / 4).astype(np.int64), plain)


@dataclass(frozen=True)
class _Borders:
    """Pixels that have another label above, below, left or right of them, in reading order."""

    cells: Integers
    label: NDArray[np.int32]
    grid: Grid

    @property
    def perimeter(self) -> Floats:
        """Each border pixel stands for a length that depends on the border pixels around it."""
        marked = np.zeros_like(self.grid.cells)
        marked[self.cells] = self.label
        width = self.grid.width
        code = np.ones(len(self.cells), np.int64)
        for offset, weight in [(1, 2), (width, 2), (width - 1, 10), (width + 1, 10)]:
            for neighbour in (self.cells - offset, self.cells + offset):
                code += weight * (marked[neighbour] == self.label)
        codes = np.bincount(50 * (self.label.astype(np.int64) - 1) + code, minlength=50 * self.grid.count)
        return codes.reshape(-1, 50) @ STEPS


def _borders(grid: Grid) -> _Borders:
    cells, width = grid.cells, grid.width
    across, down = cells[1:] != cells[:-1], cells[width:] != cells[:-width]
    differs = np.zeros(len(cells), bool)
    differs[1:] |= across
    differs[:-1] |= across
    differs[width:] |= down
    differs[:-width] |= down
    differs &= cells != 0
    found = np.flatnonzero(differs)
    return _Borders(found, cells[found], grid)


@dataclass(frozen=True)
class _Sides:
    """Sides of border pixels that face another label: the next one, and 1 for a turn to the right, -1 to the left."""

    label: NDArray[np.int32]
    y: Integers
    x: Integers
    turn: Integers
    following: Integers


def _sides(borders: _Borders) -> _Sides:
    """All sides, in reading order of their pixels; above, right, below, left."""
    cells, width = borders.grid.cells, borders.grid.width
    outward = np.array([-width, 1, width, -1])
    onward = np.array([1, width, -1, -width])
    faces = cells[borders.cells[:, None] + outward] != borders.label[:, None]
    pixel, side = np.nonzero(faces)
    number = (np.cumsum(faces) - 1).reshape(faces.shape)
    place = np.empty(len(cells), np.int32)  # read only where a border pixel was written
    place[borders.cells] = np.arange(len(borders.cells))
    cell, label = borders.cells[pixel], borders.label[pixel]
    ahead = cell + onward[side]
    beyond = ahead + outward[side]
    left, straight = cells[beyond] == label, cells[ahead] == label
    turn = np.where(left, -1, np.where(straight, 0, 1))
    target = np.where(left, beyond, np.where(straight, ahead, cell))
    following = number[place[target], (side + turn) % 4]
    y, x = 2 * (cell // width), 2 * (cell % width)
    return _Sides(label, y + np.array([-1, 0, 1, 0])[side], x + np.array([0, 1, 0, -1])[side], turn, following)


def _walk(following: Integers, first: Integers) -> tuple[Integers, Integers]:
    """The closed walks from these first sides: all sides in order, and where each walk starts."""
    steps, here, walks = [first], following[first], np.arange(len(first))
    numbers = [walks]
    while True:
        going = here != first[walks]
        here, walks = here[going], walks[going]
        if not len(here):
            break
        steps.append(here)
        numbers.append(walks)
        here = following[here]
    walk = np.concatenate(numbers)
    order = np.argsort(walk, kind="stable")
    start = np.concatenate([[0], np.cumsum(np.bincount(walk, minlength=len(first)))])
    return np.concatenate(steps)[order], start.astype(np.int64)


def _with_larger(sides: _Sides, walked: Integers, start: Integers, others: Integers) -> tuple[Integers, Integers]:
    """Outlines of other pieces take the place of the first one where they enclose more, or as much and are longer."""
    number = np.full(len(sides.label), -1)
    number[others] = np.arange(len(others))
    inner = number[sides.following[others]]
    links = sparse.coo_array((np.ones(len(others), bool), (np.arange(len(others)), inner)), (len(others),) * 2)
    _, part = csgraph.connected_components(links, directed=False)
    _, leader = np.unique(part, return_index=True)
    more, more_start = _walk(sides.following, others[leader])
    both = np.concatenate([walked, more])
    all_start = np.concatenate([start, start[-1] + more_start[1:]])
    owner = sides.label[both[all_start[:-1]]] - 1
    area = _enclosed(sides, both, all_start)
    order = np.lexsort((-np.diff(all_start), -area, owner))
    best = order[np.searchsorted(owner[order], np.arange(len(start) - 1))]
    kept = [both[all_start[i] : all_start[i + 1]] for i in best]
    lengths = [len(piece) for piece in kept]
    return np.concatenate(kept), np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _enclosed(sides: _Sides, walked: Integers, start: Integers) -> Integers:
    """Eight times the area inside each walk; negative for holes."""
    after = np.arange(1, len(walked) + 1)
    after[start[1:] - 1] = start[:-1]
    y, x = sides.y[walked], sides.x[walked]
    return np.add.reduceat(x * y[after] - x[after] * y, start[:-1])
