"""The fitted samples, and how new ones are compared with them.

`Points` are samples known by their features, `Distances` samples known only by their distances to each other.
Both answer the same questions, so that an embedding does not care which of them it was given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn import config_context
from sklearn.neighbors import NearestNeighbors

from clearfold.embedding.distances import (
    TIE,
    Features,
    Indices,
    as_array,
    below,
    blocks,
    check_distances,
    gram_of,
    nearest_columns,
    nearest_others,
    not_negative,
    own_products,
    pairs_squared,
    squared_norms,
    symmetric,
)
from clearfold.embedding.singles import MOST_FEATURES, Singles
from clearfold.embedding.spectral import Matrix

CANCELLATION = 1e-3
"""Squared distances below this share of the squared norms are computed again from differences."""
ROUNDING = 1e-12
"""Squared distances found by matrix products are trusted to this share of the largest squared norm."""
TREE_UP_TO = 12
"""A KD-tree finds neighbours faster than matrix products up to this number of features."""
FINDER_FROM = 200_000
"""Below this number of pairs, comparing all of them directly is faster than any finder."""
LEAST = 1e-140
"""Differences below this count as none: their squares vanish."""
SINGLES_FROM = 1000
"""From this number of fitted samples on they are compared in single precision first."""


@dataclass(frozen=True)
class _Compared:
    """Samples that are compared with others: as they are, around a centre, and their squared norms there."""

    X: Features
    shifted: Features
    norms: Matrix

    @classmethod
    def of(cls, X: Features, shifted: Features) -> _Compared:
        return cls(X, shifted, squared_norms(shifted))

    @cached_property
    def wide(self) -> Matrix:
        """Rows (-2x, |x|^2, 1)."""
        return np.column_stack([-2.0 * self.shifted, self.norms, np.ones(len(self.norms))])


class Points:
    """Samples known by their features, compared by Euclidean distance."""

    def __init__(self, X: Features, *, copy: bool = True) -> None:
        self.X = sparse.csr_array(X, copy=copy) if sparse.issparse(X) else np.array(X, order="C", copy=copy or None)
        self.size = int(self.X.shape[0])
        self._squared: Matrix | None = None
        self._known: dict[Any, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {"X": self.X, "size": self.size, "_squared": None, "_known": {}}

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """What `make` gives, made once for each key while distances are remembered."""
        if self._squared is None:
            return make()
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    @cached_property
    def _shift(self) -> Matrix:
        """Centre of the samples: distances lose fewest digits around it (sparse samples stay where they are)."""
        return np.zeros(self.X.shape[1]) if sparse.issparse(self.X) else self.X.mean(axis=0)

    @cached_property
    def _shifted(self) -> Features:
        return self.X if sparse.issparse(self.X) else self.X - self._shift

    @cached_property
    def _norms(self) -> Matrix:
        return squared_norms(self._shifted)

    @cached_property
    def _widened(self) -> Matrix:
        return np.column_stack([self._shifted, np.ones(self.size), self._norms])

    def vary(self) -> bool:
        """Whether any feature differs among the samples by more than rounding."""
        columns = (as_array(self.X[:, [j]]) for j in range(self.X.shape[1]))
        return any(np.ptp(column) > max(LEAST, 1e-13 * np.abs(column).max()) for column in columns)

    def alike(self, X: Features) -> Features:
        """X, dense or sparse as the fitted samples are."""
        if sparse.issparse(X) == sparse.issparse(self.X):
            return X
        return X.toarray() if sparse.issparse(X) else sparse.csr_array(X)

    def remember_distances(self) -> Points:
        """Keep the full table of distances for repeated use."""
        self._squared = self.squared()
        return self

    def known_squared(self) -> Matrix | None:
        """The table of squared distances if it is remembered; not to be written to."""
        return self._squared

    def squared(self) -> Matrix:
        """n x n squared distances, a fresh table; zero exactly where samples coincide."""
        if self._squared is not None:
            return self._squared.copy()
        table = np.empty((self.size, self.size))
        for rows in blocks(self.size, self.size):
            own = _Compared(self.X[rows], self._shifted[rows], self._norms[rows])
            self._compare(own, slice(0, rows.stop), out=table[rows, : rows.stop], own=rows.start)
        return symmetric(table)

    def own_squared(self, rows: slice) -> Matrix:
        """Squared distances of some fitted samples to all."""
        return self.squared_to(self.X[rows]) if self._squared is None else self._squared[rows]

    def squared_to(self, X: Features) -> Matrix:
        """Squared distances of new samples (rows) to the fitted ones (columns)."""
        return self.comparing(X)(slice(0, self.size))

    def comparing(self, X: Features) -> Callable[[slice], Matrix]:
        """`squared_to` for some of the fitted samples at a time."""
        new = _Compared.of(X, X if sparse.issparse(X) else X - self._shift)

        def squared(part: slice) -> Matrix:
            table = np.empty((X.shape[0], part.stop - part.start))
            self._compare(new, part, out=table)
            return table

        return squared

    def exact(self, X: Features, indices: Indices) -> Matrix:
        """Distances of row i of X to the fitted samples indices[i], from differences."""
        return np.sqrt(
            pairs_squared(X, self.X, np.repeat(np.arange(X.shape[0]), indices.shape[1]), indices.ravel())
        ).reshape(indices.shape)

    def neighbors(self, k: int) -> tuple[Indices, Matrix]:
        """k nearest other samples of each sample, ties to the lowest index: indices and distances, nearest first."""
        if self._squared is not None:
            squared, exact = self._squared, partial(pairs_squared, self.X, self.X)
            return self.once(("neighbors", k), lambda: nearest_others(squared, k, exact))
        return self._nearest(self.X, k, leave_out_self=True)

    def neighbors_of(self, X: Features, k: int) -> tuple[Indices, Matrix]:
        """k nearest fitted samples of each new sample."""
        return self._nearest(X, k, leave_out_self=False)

    def within(self, radius: float) -> sparse.csr_array:
        """Sparse distances below a radius; the diagonal and coincident samples are stored zeros."""
        return self.within_of(self.X, radius)

    def within_of(self, X: Features, radius: float) -> sparse.csr_array:
        """Sparse distances below a radius of new samples (rows) to the fitted ones (columns)."""
        if not sparse.issparse(X) and X.shape[1] <= TREE_UP_TO:
            with config_context(assume_finite=True):
                found = self._finder.radius_neighbors(X - self._shift, radius * (1 + TIE), return_distance=False)
            counts = np.fromiter(map(len, found), dtype=np.intp, count=len(found))
            i, j = np.repeat(np.arange(len(found)), counts), np.concatenate(found)
            lengths = np.sqrt(pairs_squared(X, self.X, i, j))
            inside = lengths < radius
            return sparse.csr_array((lengths[inside], (i[inside], j[inside])), shape=(len(found), self.size))
        parts = []
        for rows in blocks(X.shape[0], self.size):
            table = self.squared_to(X[rows])
            i, j = np.nonzero(np.abs(table - radius**2) <= TIE * radius**2)
            table[i, j] = pairs_squared(X[rows], self.X, i, j)
            parts.append(below(np.sqrt(table, out=table), radius))
        return sparse.csr_array(sparse.vstack(parts, format="csr"))

    def local_gram(self, X: Features, indices: Indices) -> Matrix:
        """Inner products of the differences of each row of X to its neighbours: rows x k x k."""
        k = indices.shape[1]
        gram = np.empty((len(indices), k, k))
        for rows in blocks(len(indices), k * self.X.shape[1]):
            near = as_array(self.X[indices[rows].ravel()])
            here = as_array(X[rows])
            offsets = near.reshape(-1, k, self.X.shape[1]) - here[:, None, :]
            gram[rows] = offsets @ offsets.transpose(0, 2, 1)
        return gram

    def own_local_gram(self, indices: Indices) -> Matrix:
        """`local_gram` of the fitted samples themselves."""
        return self.local_gram(self.X, indices) if self._squared is None else gram_of(self._squared, indices)

    def _compare(self, new: _Compared, part: slice, *, out: Matrix, own: int | None = None) -> None:
        """Squared distances of new samples to a part of the fitted ones.

        |x|^2 + |z|^2 - 2 x.z around the centre of the samples, for many samples one product of rows (-2x, |x|^2, 1) and
        (z, 1, |z|^2);
        pairs where that cancels are computed from differences.
        With `own`, X are the fitted samples from that one on, and distances to themselves are zero.
        """
        if sparse.issparse(new.X):
            out[...] = (-2.0 * new.shifted @ self._shifted[part].T).toarray()
            out += new.norms[:, None] + self._norms[None, part]
        elif new.X.shape[1] > out.shape[1]:
            if own == 0:
                own_products(new.shifted, out=out)
            else:
                np.matmul(new.shifted, self._shifted[part].T, out=out)
            out *= -2.0
            out += new.norms[:, None]
            out += self._norms[None, part]
        else:
            np.matmul(new.wide, self._widened[part].T, out=out)
        if own is not None:
            np.fill_diagonal(out[:, own:], np.inf)
        limit = CANCELLATION * (new.norms + self._norms.max())
        suspect = np.flatnonzero(out.min(axis=1) < limit)
        if len(suspect):
            self._repair(new.X, suspect, out, limit, part)
        if own is not None:
            np.fill_diagonal(out[:, own:], 0.0)

    def _repair(self, X: Features, rows: Indices, out: Matrix, limit: Matrix, part: slice) -> None:
        """Compute entries of the rows that are below their row's limit again, from differences."""
        lost = [np.flatnonzero(out[row] < limit[row]) for row in rows]
        counts = np.fromiter(map(len, lost), dtype=np.intp, count=len(lost))
        if counts.sum() > 0.1 * len(rows) * out.shape[1] and not sparse.issparse(X):
            out[rows] = cdist(X[rows], self.X[part], "sqeuclidean")
            return
        i, j = np.repeat(rows, counts), np.concatenate(lost)
        out[i, j] = pairs_squared(X, self.X, i, part.start + j)

    def _nearest(self, X: Features, k: int, *, leave_out_self: bool) -> tuple[Indices, Matrix]:
        indices, distances = np.empty((X.shape[0], k), dtype=np.intp), np.empty((X.shape[0], k))
        pending, many = np.arange(X.shape[0]), X.shape[0] * self.size > FINDER_FROM
        if self._singles is not None and not (many and X.shape[1] <= TREE_UP_TO):
            found = self._singles.nearest(X, k, leave_out_self=leave_out_self)
            indices, distances, pending = found.indices, found.distances, found.undecided
        if many and len(pending) == X.shape[0] and self._finder is not None:
            pending = self._found(X, indices, distances, leave_out_self)
        for block in blocks(len(pending), self.size):
            at = pending[block]
            squared = self.squared_to(X[at])
            if leave_out_self:
                squared[np.arange(len(at)), at] = np.inf
            indices[at] = nearest_columns(squared, k, partial(pairs_squared, X[at], self.X))
            distances[at] = self.exact(X[at], indices[at])
        return indices, distances

    @cached_property
    def _singles(self) -> Singles | None:
        """The samples in single precision, if they are many and dense."""
        if sparse.issparse(self.X) or self.size < SINGLES_FROM or self.X.shape[1] > MOST_FEATURES:
            return None
        return Singles(self.X, self._shift)

    @cached_property
    def _finder(self) -> Any:
        """Finds candidates for neighbours: a tree for few features, matrix products for many."""
        if sparse.issparse(self.X):
            return None
        algorithm = "kd_tree" if self.X.shape[1] <= TREE_UP_TO else "brute"
        return NearestNeighbors(algorithm=algorithm).fit(self._shifted)

    def _found(self, X: Features, indices: Indices, distances: Matrix, leave_out_self: bool) -> Indices:
        """Fill in the neighbours that are beyond doubt; return the rows where rounding or a tie could decide."""
        k = indices.shape[1]
        ask = min(k + 1 + leave_out_self, self.size)
        with config_context(assume_finite=True):
            lengths, found = self._finder.kneighbors(X - self._shift, ask)
        limit = CANCELLATION * self._norms.max()
        doubt = np.zeros(len(found), dtype=bool)
        if self.X.shape[1] > TREE_UP_TO:
            i, j = np.nonzero(np.square(lengths) < limit)
            lengths[i, j] = np.sqrt(pairs_squared(X, self.X, i, found[i, j]))
        if leave_out_self:
            own = found == np.arange(len(found))[:, None]
            lengths[own] = np.inf
            doubt |= ~own.any(axis=1)
        order = np.lexsort((found, lengths), axis=1)
        order = order[:, : ask - leave_out_self]
        lengths, found = np.take_along_axis(lengths, order, 1), np.take_along_axis(found, order, 1)
        indices[:] = found[:, :k]
        distances[:] = lengths[:, :k]
        gaps = np.diff(np.square(lengths), axis=1) <= TIE * np.square(lengths[:, 1:]) + ROUNDING * self._norms.max()
        doubt |= gaps.any(axis=1)
        return np.flatnonzero(doubt)


class Distances:
    """Samples known only by their distances to each other."""

    def __init__(self, D: Matrix) -> None:
        self.D = check_distances(D)
        self.size = len(self.D)

    def vary(self) -> bool:
        """Whether any two samples are apart."""
        return bool(self.D.max() > LEAST)

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """What `make` gives."""
        return make()

    def alike(self, D: Matrix) -> Matrix:
        """Distances as they are."""
        return D

    def remember_distances(self) -> Distances:
        """The table is already at hand."""
        return self

    def squared(self) -> Matrix:
        """n x n squared distances, a fresh table."""
        return np.square(self.D)

    def own_squared(self, rows: slice) -> Matrix:
        """Squared distances of some fitted samples to all."""
        return np.square(self.D[rows])

    def squared_to(self, D: Matrix) -> Matrix:
        """Squared distances of new samples (rows) to the fitted ones (columns)."""
        return np.square(not_negative(D))

    def comparing(self, D: Matrix) -> Callable[[slice], Matrix]:
        """`squared_to` for some of the fitted samples at a time."""
        return lambda part: np.square(not_negative(D[:, part]))

    def neighbors(self, k: int) -> tuple[Indices, Matrix]:
        """k nearest other samples of each sample, ties to the lowest index."""
        return nearest_others(np.square(self.D), k)

    def neighbors_of(self, D: Matrix, k: int) -> tuple[Indices, Matrix]:
        """k nearest fitted samples of each new sample."""
        indices = nearest_columns(not_negative(D), k)
        return indices, np.take_along_axis(D, indices, axis=1)

    def within(self, radius: float) -> sparse.csr_array:
        """Sparse distances below a radius; the diagonal and coincident samples are stored zeros."""
        return below(self.D, radius)

    def within_of(self, D: Matrix, radius: float) -> sparse.csr_array:
        """Sparse distances below a radius of new samples (rows) to the fitted ones (columns)."""
        return below(not_negative(D), radius)

    def local_gram(self, D: Matrix, indices: Indices) -> Matrix:
        """(d_xi^2 + d_xj^2 - d_ij^2) / 2 over the neighbours i, j of each row x (FINE eq. 11, its square put right)."""
        own = np.take_along_axis(D, indices, axis=1) ** 2
        between = self.D[indices[:, :, None], indices[:, None, :]] ** 2
        return 0.5 * (own[:, :, None] + own[:, None, :] - between)

    def own_local_gram(self, indices: Indices) -> Matrix:
        """`local_gram` of the fitted samples themselves."""
        return gram_of(np.square(self.D), indices)


Samples: TypeAlias = Points | Distances


def as_samples(X: Features, metric: str) -> Samples:
    """Samples by features ("euclidean") or by a square table of distances ("precomputed")."""
    return Distances(np.asarray(X)) if metric == "precomputed" else Points(X)
