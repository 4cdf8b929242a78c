"""Nearest neighbours by products in single precision, provably the same as by exact distances.

For each query x one product gives the scores L of all fitted samples z, close to |z|^2 - 2 x.z = |x - z|^2 - |x|^2.
Rounding in single precision is bounded, whatever the order of the sums, by c (|x|^2 + 2 |z|^2), c = (m + 8) 2^-24.
Scores are made of (1 - 2c) |z|^2, so that L <= d^2 - (1 - c) |x|^2, and from |z|^2 <= 2 |x|^2 + 2 d^2

    d^2 <= (L + (1 + 9c) |x|^2) / (1 - 8c).

With the k-th smallest of some scores for L, the right side bounds the k-th distance, and a sample whose score is above
the limit that follows is farther. The few others are compared by exact differences, ties to the lowest index.
Queries that leave more than a few, because samples lie close together far from the centre, are not decided here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clearfold.embedding.distances import Indices, pairs_squared, squared_norms
from clearfold.embedding.spectral import Matrix

Scores = NDArray[np.float32]

MOST_FEATURES = 1000
"""With more, the bound on rounding is too wide to decide much."""
MEMBERS = (24, 12, 8, 6, 4, 3, 2, 1)
"""Columns are looked at in classes of one of these numbers, by the smallest score of each class."""
BLOCK_ROWS, BLOCK_BYTES = 512, 2**24
FAR = 1e6
"""Queries with a larger squared distance from the centre, the farthest fitted sample's being 1, are not compared."""
NEVER = np.float32(1e30)
"""A score that no sample reaches."""


@dataclass(frozen=True)
class Found:
    """indices, distances : nearest first, for each query; undecided : queries whose rows are not filled in."""

    indices: Indices
    distances: Matrix
    undecided: Indices


class Singles:
    """Fitted samples around their centre, in single precision: columns (z, (1 - 2c) |z|^2) within the unit ball."""

    def __init__(self, fitted: Matrix, centre: Matrix) -> None:
        self._exact, self._centre = fitted, centre
        size, features = fitted.shape
        centred = fitted - centre
        norms = squared_norms(centred)
        self._scale = float(np.sqrt(norms.max()))
        self._share = (features + 8) * 2.0**-24
        self._columns = np.zeros((features + 1, -(-size // MEMBERS[0]) * MEMBERS[0]), np.float32)
        self._columns[-1] = NEVER  # columns that only fill up the last class
        if not self._in_range():
            return
        centred /= self._scale
        self._columns[:-1, :size] = centred.T
        self._columns[-1, :size] = norms * ((1 - 2 * self._share) / self._scale**2)

    def nearest(self, X: Matrix, k: int, *, leave_out_self: bool = False) -> Found:
        """k nearest fitted samples of each row of X, ties to the lowest index.

        With leave_out_self, X are the fitted samples.
        """
        width = self._columns.shape[1]
        step = max(32, min(BLOCK_ROWS, BLOCK_BYTES // (4 * width)))
        buffer = np.empty((min(step, len(X)), width), np.float32)
        found = Found(np.empty((len(X), k), np.intp), np.empty((len(X), k)), np.arange(len(X)))
        if not self._in_range():
            return found
        undecided: list[Any] = []
        for start in range(0, len(X), step):
            stop = min(start + step, len(X))
            queries, norms = self._queries(X[start:stop])
            table = np.matmul(queries, self._columns, out=buffer[: stop - start])
            if leave_out_self:
                np.fill_diagonal(table[:, start:], NEVER)
            i, j, too_many = self._candidates(table, norms, k)
            if start == 0 and 2 * len(too_many) > stop:
                return found  # these samples are not for single precision
            self._fill(found, X, start + i, j)
            undecided.append(start + too_many)
        return Found(found.indices, found.distances, np.concatenate(undecided))

    def _in_range(self) -> bool:
        """Whether squares of the samples are numbers."""
        return 1e-100 < self._scale < 1e100

    def _queries(self, X: Matrix) -> tuple[Scores, Matrix]:
        """Rows (-2 x, 1) and squared norms, in units of the farthest fitted sample's."""
        centred = X - self._centre
        centred /= self._scale
        norms = squared_norms(centred)
        centred[norms > FAR] = 0.0
        rows = np.ones((len(X), len(self._columns)), np.float32)
        np.multiply(centred, -2.0, out=rows[:, :-1], casting="same_kind")
        return rows, np.minimum(norms, 2 * FAR)

    def _candidates(self, table: Scores, norms: Matrix, k: int) -> tuple[Indices, Indices, Indices]:
        """Rows and columns of all that can be among the k nearest, in this order; and rows with too many of them.

        With q classes, column j is in class j modulo q. The k smallest of the classes' minima are k samples.
        """
        size = len(self._exact)
        members = next(count for count in MEMBERS if count == 1 or 8 * k * count <= size)
        by_class = table.reshape(len(table), members, -1)
        low = by_class.min(axis=1)
        limit = self._limits(np.partition(low, k - 1, axis=1)[:, k - 1], norms)
        open_classes = low <= limit[:, None]
        too_many = np.flatnonzero((np.count_nonzero(open_classes, axis=1) > 4 * k + 16) | (norms > FAR))
        open_classes[too_many] = False
        i, group = np.divmod(np.flatnonzero(open_classes), low.shape[1])
        entry, member = np.divmod(np.flatnonzero(by_class[i, :, group] <= limit[i, None]), members)
        place = np.sort(i[entry] * size + (group[entry] + low.shape[1] * member))
        i, j = np.divmod(place, size)
        return i, j, too_many

    def _limits(self, kth: Scores, norms: Matrix) -> Scores:
        """Scores above which no sample is among the k nearest, from the k-th smallest of some scores."""
        c = self._share
        limits = (kth + (1 + 9 * c) * norms) / (1 - 8 * c) - (1 - c) * norms + 1e-35  # where numbers vanish
        return np.nextafter(limits.astype(np.float32), np.float32(np.inf))

    def _fill(self, found: Found, X: Matrix, i: Indices, j: Indices) -> None:
        """The nearest of the candidates j of rows i, by exact distances."""
        k = found.indices.shape[1]
        lengths = pairs_squared(X, self._exact, i, j)
        if len(X) == 1 and len(i):  # one query is soon told from others, and often asked
            order = np.argsort(lengths, kind="stable")[:k]
            found.indices[0], found.distances[0] = j[order], np.sqrt(lengths[order])
            return
        first = np.flatnonzero(np.diff(i, prepend=-1))
        row, count = i[first], np.diff(first, append=len(i))
        table = np.full((len(row), count.max(initial=k)), np.inf)
        table[np.repeat(np.arange(len(row)), count), np.arange(len(i)) - np.repeat(first, count)] = lengths
        order = np.argsort(table, axis=1, kind="stable")[:, :k]  # candidates come by index: ties stay in that order
        found.indices[row] = j[first[:, None] + order]
        found.distances[row] = np.sqrt(np.take_along_axis(table, order, axis=1))
