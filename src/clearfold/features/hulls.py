"""Convex hulls of all objects at once, in whole numbers.

A pixel counts as the diamond of the middles of its four sides. Coordinates are doubled, so that all corners of
diamonds are integers and every question about a hull has an exact answer. A hull is two chains from top to bottom, the
left and the right one. All chains of all objects are bent at the same time: a point that does not stick out between
its neighbours cannot be a corner, so all such points go at once, until none is left.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from clearfold.features import kernels, walks
from clearfold.features.grid import Boxes, Integers, Runs

Floats: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]
EMPTY = 2**40
"""First column of a row without pixels."""


@dataclass(frozen=True)
class Rows:
    """First and last pixel of every object in every row of its box.

    start : where the rows of each object start, and after the last; row, left, right : of each row (columns, inclusive)
    """

    start: Integers
    row: Integers
    left: Integers
    right: Integers

    @cached_property
    def owner(self) -> Integers:
        """The object of each row."""
        return np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))


@dataclass(frozen=True)
class Hulls:
    """Corners of the hull of each object, going round once, in doubled coordinates.

    start : where the corners of each object start, and after the last
    inside : the rows of the pixels whose centres lie in the hull, its border included
    """

    start: Integers
    y: Integers
    x: Integers
    inside: Rows

    @property
    def area(self) -> Integers:
        """Pixels with their centre in the hull."""
        width = self.inside.right - self.inside.left + 1
        return np.add.reduceat(width, self.inside.start[:-1])

    @property
    def perimeter(self) -> Floats:
        """Length of the hull's border, in pixels."""
        dy, dx = self.y[self._next] - self.y, self.x[self._next] - self.x
        lengths = np.hypot(dy, dx) / 2
        return np.add.reduceat(lengths, self.start[:-1])

    @property
    def feret(self) -> tuple[Floats, Floats]:
        """Largest distance of two corners, and smallest distance of two parallel lines with the hull between them."""
        kernel = kernels.compiled(walks.calipers)
        if kernel is not None:
            longest, narrowest = kernel(self.start, self.y, self.x)
            return longest / 2, narrowest / 2
        count, first = np.diff(self.start), self.start[:-1]
        dy, dx = self.y[self._next] - self.y, self.x[self._next] - self.x
        furthest, widest = np.zeros_like(self.y), np.zeros_like(self.y)
        corner, end = np.arange(len(self.y)), np.repeat(self.start[1:], count)
        other, left = corner.copy(), np.repeat(count, count)
        for step in range(1, int(count.max())):
            if step > 1 and (alive := left[corner] > step).sum() < len(corner):
                corner, other = corner[alive], other[alive]
            other = other + 1
            other = np.where(other == end[corner], other - left[corner], other)
            down, along = self.y[other] - self.y[corner], self.x[other] - self.x[corner]
            furthest[corner] = np.maximum(furthest[corner], down**2 + along**2)
            widest[corner] = np.maximum(widest[corner], np.abs(dx[corner] * down - dy[corner] * along))
        widths = widest / np.sqrt(dy**2 + dx**2)
        return np.sqrt(np.maximum.reduceat(furthest, first)) / 2, np.minimum.reduceat(widths, first) / 2

    @cached_property
    def _next(self) -> Integers:
        after = np.arange(1, len(self.y) + 1)
        after[self.start[1:] - 1] = self.start[:-1]
        return after


def rows_of(runs: Runs, boxes: Boxes) -> Rows:
    """First and last pixel of each object in each row."""
    start = np.concatenate([[0], np.cumsum(boxes.height)]).astype(np.int64)
    row = np.arange(start[-1]) - np.repeat(start[:-1] - boxes.top, boxes.height)
    left, right = np.full(len(row), EMPTY), np.full(len(row), -EMPTY)
    at = start[runs.owner] + runs.row - boxes.top[runs.owner]
    new = np.flatnonzero(np.diff(at, prepend=-1))
    left[at[new]] = runs.column[new]
    ends = np.append(new[1:], len(at)) - 1
    right[at[new]] = (runs.column + runs.length - 1)[ends[: len(new)]]
    return Rows(start, row, left, right)


def hulls(rows: Rows) -> Hulls:
    """The hull of the diamonds of the pixels in these rows."""
    kernel = kernels.compiled(walks.bend)
    if kernel is not None:
        start, y, x, first_inside, last_inside = kernel(rows.start, rows.row, rows.left, rows.right)
        return Hulls(start, y, x, Rows(rows.start, rows.row, first_inside, last_inside))
    left, right = _chain(rows, rows.left), _chain(rows, -rows.right)
    inside = Rows(rows.start, rows.row, left.first_pixel(rows), -right.first_pixel(rows))
    count = len(rows.start) - 1
    # down the left side, up the right one: order by object, side, and position along the side
    owner = np.concatenate([left.owner, right.owner])
    side = np.repeat([0, 1], [len(left.y), len(right.y)])
    along = np.concatenate([left.y, -right.y])
    order = np.lexsort((along, side, owner))
    y, x = np.concatenate([left.y, right.y])[order], np.concatenate([left.x, -right.x])[order]
    owner = owner[order]
    # a hull of one pixel in its first or last row has the same point on both sides
    same = (y == np.roll(y, -1)) & (x == np.roll(x, -1)) & (owner == np.roll(owner, -1))
    first = np.searchsorted(owner, np.arange(count))
    last = np.append(first[1:], len(owner)) - 1
    same[last] = (y[last] == y[first]) & (x[last] == x[first])
    start = np.concatenate([[0], np.cumsum(np.bincount(owner[~same], minlength=count))])
    return Hulls(start.astype(np.int64), y[~same], x[~same], inside)


@dataclass(frozen=True)
class _Chain:
    """Corners of the left side of each hull from top to bottom; `row_segment`: the corner above each row's middle."""

    owner: Integers
    y: Integers
    x: Integers
    row_segment: Integers

    def first_pixel(self, rows: Rows) -> Integers:
        """The first column whose pixel centre is not left of the chain, in each row."""
        above, below = self.row_segment, self.row_segment + 1
        height = self.y[below] - self.y[above]
        lean = (self.x[below] - self.x[above]) * (2 * rows.row - self.y[above]) + self.x[above] * height
        return -(-lean // (2 * height))


def _chain(rows: Rows, left: Integers) -> _Chain:
    """The left side of the hulls of pixels that start at these columns."""
    owner, y, x, present = _corners(rows, left)
    kept = np.flatnonzero(present)
    ys, xs, who = y[kept], x[kept], owner[kept]
    while True:
        # the middle one of three neighbours goes if it is not left of the line from the first to the third
        bend = (xs[1:-1] - xs[:-2]) * (ys[2:] - ys[:-2]) >= (xs[2:] - xs[:-2]) * (ys[1:-1] - ys[:-2])
        stays = np.ones(len(kept), bool)
        stays[1:-1] = ~bend | (who[2:] != who[:-2])
        if stays.all():
            break
        kept, ys, xs, who = kept[stays], ys[stays], xs[stays], who[stays]
    corner = np.zeros(len(y), np.int64)
    corner[kept] = 1
    # of the three corners of a row the second is in its middle: the segment starts at the last corner down to there
    return _Chain(who, ys, xs, np.cumsum(corner)[1::3] - 1)


def _corners(rows: Rows, left: Integers) -> tuple[Integers, Integers, Integers, Flags]:
    """Above, in the middle and below of each row: the corner furthest left, and whether there is one."""
    filled = left < EMPTY // 2
    owner = rows.owner
    same_object = np.append(owner[1:] == owner[:-1], False)
    next_left = np.where(same_object, np.append(left[1:], EMPTY), EMPTY)
    joined = np.append(False, (same_object & filled)[:-1])  # what the row above has put below it stands for both
    y = 2 * rows.row[:, None] + np.array([-1, 0, 1])
    x = np.stack([2 * left, 2 * left - 1, 2 * np.minimum(left, next_left)], axis=1)
    present = np.stack([filled & ~joined, filled, filled], axis=1)
    return np.repeat(owner, 3), y.ravel(), x.ravel(), present.ravel()
