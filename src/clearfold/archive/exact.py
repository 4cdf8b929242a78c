"""Nearest points, exactly: a first look in single precision, then distances of all that may be near in double.

The first look is a product of matrices: |x|^2 - 2 x q is smallest where x is nearest to q. Points lie in tiles that fit
a processor's cache (`tiles.py`). What rounding can hide is looked at again, so that nothing near is ever missed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clearfold.archive.search import can_index, most_alike
from clearfold.archive.store import Floats, Numbers
from clearfold.archive.tiles import BLOCK, TILE, Mask, Shorts, Tiles, neighbors_together, smallest

TOGETHER = 128
"""Queries that are looked at together."""


@dataclass(frozen=True, eq=False)
class Points:
    """Coordinates in memory: `numbers` (n,) ascending, `places` (n, h), and the same in single precision.

    order : (n,) the rows of the points as they lie in tiles
    tiles : those points, around the centre
    """

    numbers: Numbers
    places: Floats
    centre: Floats
    order: NDArray[np.intp]
    tiles: Tiles

    @classmethod
    def of(cls, numbers: Numbers, places: Floats) -> Points:
        """Points around their mean, so that single precision is not spent on where they lie."""
        centre = places.mean(axis=0) if len(places) else np.zeros(places.shape[1])
        order = neighbors_together(places)
        return cls(numbers, places, centre, order, Tiles.of(places[order] - centre))

    def more(self, numbers: Numbers, places: Floats) -> Points:
        """These and later ones; tiles that are full are taken as they are."""
        if not len(numbers):
            return self
        if not len(self.numbers):
            return Points.of(numbers, places)
        full = len(self.numbers) // TILE
        order = np.append(self.order, len(self.numbers) + np.arange(len(numbers)))
        places = np.concatenate([self.places, places])
        tiles = self.tiles.more(full, places[order[full * TILE :]] - self.centre)
        return Points(np.concatenate([self.numbers, numbers]), places, self.centre, order, tiles)

    def at(self, numbers: Numbers) -> Mask:
        """Which of the points have one of these numbers (ascending)."""
        mask = np.zeros(len(self.numbers), dtype=bool)
        mask[rows_with(self.numbers, numbers)] = True
        return mask

    def nearest(self, point: Floats, k: int, allowed: Mask | None = None) -> tuple[Numbers, Floats]:
        """Numbers and distances of the k nearest, and of all that are as near as the last of them; in no order."""
        query = self.tiles.query(point - self.centre)
        if self._few(k, allowed) or not np.isfinite(query.slack):
            return self._measured(point, k, self._all(allowed))
        if allowed is None and self.tiles.wide and can_index():
            rows = most_alike(-query.factors, self.tiles.rows, k, query.slack)
            if rows is not None:
                return self._measured(point, k, rows)
        minima = self.tiles.near_minima(query, k, None if allowed is None else allowed[self.order])
        return self._measured(point, k, self._rows(minima, k, query.slack, allowed))

    def nearest_each(self, points: Floats, k: int, allowed: Mask | None = None) -> list[tuple[Numbers, Floats]]:
        """`nearest` of each of several points: all are compared with a tile while it is in the cache."""
        queries = [self.tiles.query(point - self.centre) for point in points]
        if len(points) < 2 or self._few(k, allowed) or not all(np.isfinite(query.slack) for query in queries):
            return [self.nearest(point, k, allowed) for point in points]
        found: list[tuple[Numbers, Floats]] = []
        for begin in range(0, len(points), TOGETHER):
            some = queries[begin : begin + TOGETHER]
            minima = self.tiles.minima(some, None if allowed is None else allowed[self.order])
            for point, query, row in zip(points[begin:], some, minima, strict=False):
                found.append(self._measured(point, k, self._rows(row, k, query.slack, allowed)))
        return found

    def _few(self, k: int, allowed: Mask | None) -> bool:
        return (len(self.numbers) if allowed is None else int(allowed.sum())) <= k

    def _all(self, allowed: Mask | None) -> NDArray[np.intp]:
        return np.arange(len(self.numbers)) if allowed is None else np.flatnonzero(allowed)

    def _rows(self, minima: Shorts, k: int, slack: float, allowed: Mask | None) -> NDArray[np.intp]:
        """Rows in the blocks that may hold one of the k nearest: the k-th smallest minimum is a bound for the k-th."""
        blocks = np.flatnonzero(minima <= smallest(minima, k) + slack)
        places = (BLOCK * blocks[:, None] + np.arange(BLOCK)).reshape(-1)
        rows = self.order[places[: np.searchsorted(places, len(self.order))]]
        return rows if allowed is None else rows[allowed[rows]]

    def _measured(self, point: Floats, k: int, rows: NDArray[np.intp]) -> tuple[Numbers, Floats]:
        distances = distances_to(point, self.places[rows])
        if len(rows) > k:
            near = distances <= np.partition(distances, k - 1)[k - 1]
            rows, distances = rows[near], distances[near]
        return self.numbers[rows], distances


def rows_with(numbers: Numbers, wanted: Numbers) -> NDArray[np.intp]:
    """Rows of `numbers` (ascending) that hold one of the wanted numbers; those that are not there are left out."""
    if not len(numbers) or not len(wanted):
        return np.empty(0, dtype=np.intp)
    if int(numbers[-1]) - int(numbers[0]) + 1 == len(numbers):  # without gaps a number says where it is
        rows = wanted - numbers[0]
        return rows[(rows >= 0) & (rows < len(numbers))]
    rows = np.minimum(np.searchsorted(numbers, wanted), len(numbers) - 1)
    return rows[numbers[rows] == wanted]


def distances_to(point: Floats, places: Floats) -> Floats:
    """Euclidean distances, each computed in the same way whatever stands beside it."""
    apart = places - point
    return np.sqrt(np.einsum("ij,ij->i", apart, apart))
