"""Points in single precision, in tiles that fit a processor's cache: a first look at which of them are near.

Of few coordinates a tile holds neighbours, so that one whose box is too far away need not be looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clearfold.archive.store import Floats

BLOCK = 128
"""Points of which only the nearest is told apart in the first look."""
TILE = 33 * BLOCK
"""Points in a tile; no power of two, whose rows would all fall on the same lines of the cache."""
WIDE = 16
"""Coordinates from which on those of a point lie side by side; below, points do."""

Mask = NDArray[np.bool_]
Shorts = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Query:
    """A point as tiles are asked about it: what they are multiplied with, and how far the result may be off."""

    place: Floats
    factors: Shorts
    slack: float


@dataclass(frozen=True, eq=False)
class Tiles:
    """Points in single precision.

    memory : (tiles, h + 1, points of a tile), coordinates and below them |x|^2; the last tile is filled up with points
        at no distance. Of many coordinates (WIDE) the last two axes are swapped
    low, high : (tiles, h) corners of the box around each
    longest : the largest |x|
    """

    memory: Shorts
    low: Floats
    high: Floats
    longest: float

    @classmethod
    def of(cls, places: Floats, width: int | None = None) -> Tiles:
        """Tiles of this width (None: just as wide as is needed)."""
        n, h = places.shape
        width = width or min(TILE, BLOCK * -(-max(n, 1) // BLOCK))
        rows = np.zeros((width * -(-max(n, 1) // width), h + 1), dtype=np.float32)
        with np.errstate(over="ignore"):  # what does not fit is infinite, and then all distances are measured
            rows[:n, :h] = places
            rows[:n, h] = np.einsum("ij,ij->i", rows[:n, :h], rows[:n, :h])
        longest = float(np.sqrt(rows[:n, h].max(initial=0.0)))
        rows[n:, h] = np.inf
        tiles = rows.reshape(-1, width, h + 1)
        starts = np.arange(0, max(n, 1), width)
        low, high = (f.reduceat(places, starts) if n else np.zeros((1, h)) for f in (np.minimum, np.maximum))
        memory = tiles if h >= WIDE else np.ascontiguousarray(tiles.transpose(0, 2, 1))
        return cls(memory, low, high, longest)

    def more(self, full: int, places: Floats) -> Tiles:
        """The first `full` tiles and these points."""
        last = Tiles.of(places, TILE if full else None)
        if not full:
            return last
        memory, low, high = (
            np.concatenate([one[:full], two])
            for one, two in ((self.memory, last.memory), (self.low, last.low), (self.high, last.high))
        )
        return Tiles(memory, low, high, max(self.longest, last.longest))

    @property
    def wide(self) -> bool:
        """Whether the coordinates of a point lie side by side."""
        return self.low.shape[1] >= WIDE

    @property
    def rows(self) -> Shorts:
        """(points, h + 1), where they are wide."""
        return self.memory.reshape(-1, self.memory.shape[2])

    def query(self, place: Floats) -> Query:
        """For a place around the same centre."""
        with np.errstate(over="ignore"):
            short = place.astype(np.float32)
        # a sum of h + 1 products is off by at most h + 3 roundings of what is added up
        sums = (self.longest + float(np.linalg.norm(place))) ** 2
        slack = 4.0 * (len(short) + 3) * float(np.finfo(np.float32).eps) * sums
        return Query(place, np.append(np.float32(-2.0) * short, np.float32(1.0)), slack)

    def minima(self, queries: Sequence[Query], allowed: Mask | None = None) -> Shorts:
        """(queries, blocks) the first look at the nearest point of each block; `allowed` in the order of the tiles."""
        factors, tiles = np.array([query.factors for query in queries]), self._tiles
        count, _, width = tiles.shape
        minima = np.empty((len(factors), count, width // BLOCK), dtype=np.float32)
        values = np.empty((len(factors), width), dtype=np.float32)
        for i, tile in enumerate(tiles):
            np.matmul(factors, tile, out=values)
            _bar(values, allowed, i)
            np.minimum.reduce(values.reshape(len(factors), -1, BLOCK), axis=2, out=minima[:, i])
        return minima.reshape(len(factors), -1)

    def near_minima(self, query: Query, k: int, allowed: Mask | None = None) -> Shorts:
        """(blocks,) the same for one query; infinite in tiles whose box is farther than the k nearest so far."""
        tiles = self._tiles
        count, _, width = tiles.shape
        beside = np.maximum(self.low - query.place, query.place - self.high)
        nearest = np.square(np.maximum(beside, 0.0)).sum(axis=1) - float(query.place @ query.place)
        minima = np.full((count, width // BLOCK), np.inf, dtype=np.float32)
        values = np.empty((1, width), dtype=np.float32)
        bound, look = np.inf, 1
        for seen, i in enumerate(np.argsort(nearest).tolist(), 1):
            if nearest[i] > bound:
                break
            np.matmul(query.factors, tiles[i], out=values[0])
            _bar(values, allowed, i)
            np.minimum.reduce(values.reshape(-1, BLOCK), axis=1, out=minima[i])
            if seen == look:  # after 1, 2, 4, 8 ... tiles
                bound, look = smallest(minima.reshape(-1), k) + query.slack, 2 * look
        return minima.reshape(-1)

    @property
    def _tiles(self) -> Shorts:
        return self.memory.transpose(0, 2, 1) if self.wide else self.memory


def _bar(values: Shorts, allowed: Mask | None, tile: int) -> None:
    """Put what is not allowed infinitely far away: `values` (queries, width) of one tile."""
    if allowed is not None:
        width = values.shape[1]
        barred = ~allowed[tile * width : (tile + 1) * width]
        np.copyto(values[:, : len(barred)], np.inf, where=barred)


def neighbors_together(places: Floats) -> NDArray[np.intp]:
    """An order of the points in which those that follow each other are neighbours, as a k-d tree has them."""
    n, h = places.shape
    if h >= WIDE or n < 4 * TILE:
        return np.arange(n)
    from scipy.spatial import cKDTree

    return np.asarray(cKDTree(places, leafsize=TILE // 4, compact_nodes=False).indices, dtype=np.intp)


def smallest(values: Shorts, k: int) -> float:
    """The k-th smallest; infinite of fewer."""
    return float(np.partition(values, k - 1)[k - 1]) if len(values) >= k else float("inf")
