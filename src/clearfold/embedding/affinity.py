"""How alike samples are, and how alike new samples are to the fitted ones.

`Points` are samples known by their features, `Distances` samples known only by their distances to each other.
Both answer the same questions, so that an embedding does not care which of them it was given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn import config_context
from sklearn.neighbors import NearestNeighbors

from clearfold.embedding.spectral import Matrix
from clearfold.errors import InputError

Indices: TypeAlias = "np.ndarray[Any, np.dtype[np.intp]]"
Features: TypeAlias = Any
"""n x m numbers, a float array or a csr_array."""

Exact: TypeAlias = "Callable[[Indices, Indices], Matrix]"
"""Rows and columns -> squared distances that do not depend on where in a table they stand."""

CANCELLATION = 1e-3
"""Squared distances below this share of the squared norms are computed again from differences."""
TIE = 1e-9
"""Distances within this relative difference are compared again exactly, then by index."""
ROUNDING = 1e-12
"""Squared distances found by matrix products are trusted to this share of the largest squared norm."""
TREE_UP_TO = 12
"""A KD-tree finds neighbours faster than matrix products up to this number of features."""
FINDER_FROM = 200_000
"""Below this number of pairs, comparing all of them directly is faster than any finder."""
BLOCK_BYTES = 2**23
"""Rows are compared in blocks whose table of distances stays below this size."""


def blocks(rows: int, columns: int) -> Iterator[slice]:
    """Slices over rows such that rows x columns numbers fit BLOCK_BYTES."""
    step = max(1, BLOCK_BYTES // (8 * max(columns, 1)))
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


def gaussian(squared: Matrix, bandwidth: float) -> Matrix:
    """exp(-D^2 / 2 s^2), written over the squared distances."""
    np.multiply(squared, -0.5 / bandwidth**2, out=squared)
    return np.exp(squared, out=squared)


def exponential(squared: Matrix, bandwidth: float, power: float) -> Matrix:
    """exp(-D^p / s), written over the squared distances."""
    if power != 2:
        np.power(squared, power / 2, out=squared) if power != 1 else np.sqrt(squared, out=squared)
    np.multiply(squared, -1.0 / bandwidth, out=squared)
    return np.exp(squared, out=squared)


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
        return _squared_norms(self._shifted)

    @cached_property
    def _widened(self) -> Matrix:
        return np.column_stack([self._shifted, np.ones(self.size), self._norms])

    def vary(self) -> bool:
        """Whether any feature differs among the samples by more than rounding."""
        columns = (_as_array(self.X[:, [j]]) for j in range(self.X.shape[1]))
        return any(np.ptp(column) > 1e-13 * np.abs(column).max() for column in columns)

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
            self._compare(self.X[rows], out=table[rows, : rows.stop], own=rows.start)
        return _symmetric(table)

    def own_squared(self, rows: slice) -> Matrix:
        """Squared distances of some fitted samples to all."""
        return self.squared_to(self.X[rows]) if self._squared is None else self._squared[rows]

    def squared_to(self, X: Features) -> Matrix:
        """Squared distances of new samples (rows) to the fitted ones (columns)."""
        table = np.empty((X.shape[0], self.size))
        self._compare(X, out=table)
        return table

    def exact(self, X: Features, indices: Indices) -> Matrix:
        """Distances of row i of X to the fitted samples indices[i], from differences."""
        return np.sqrt(_pairs(X, self.X, np.repeat(np.arange(X.shape[0]), indices.shape[1]), indices.ravel())).reshape(
            indices.shape
        )

    def neighbors(self, k: int) -> tuple[Indices, Matrix]:
        """k nearest other samples of each sample, ties to the lowest index: indices and distances, nearest first."""
        if self._squared is not None:
            squared, exact = self._squared, partial(_pairs, self.X, self.X)
            return self.once(("neighbors", k), lambda: _nearest_others(squared, k, exact))
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
            lengths = np.sqrt(_pairs(X, self.X, i, j))
            inside = lengths < radius
            return sparse.csr_array((lengths[inside], (i[inside], j[inside])), shape=(len(found), self.size))
        parts = []
        for rows in blocks(X.shape[0], self.size):
            table = self.squared_to(X[rows])
            i, j = np.nonzero(np.abs(table - radius**2) <= TIE * radius**2)
            table[i, j] = _pairs(X[rows], self.X, i, j)
            parts.append(_below(np.sqrt(table, out=table), radius))
        return sparse.csr_array(sparse.vstack(parts, format="csr"))

    def local_gram(self, X: Features, indices: Indices) -> Matrix:
        """Inner products of the differences of each row of X to its neighbours: rows x k x k."""
        k = indices.shape[1]
        gram = np.empty((len(indices), k, k))
        for rows in blocks(len(indices), k * self.X.shape[1]):
            near = _as_array(self.X[indices[rows].ravel()])
            here = _as_array(X[rows])
            offsets = near.reshape(-1, k, self.X.shape[1]) - here[:, None, :]
            gram[rows] = offsets @ offsets.transpose(0, 2, 1)
        return gram

    def own_local_gram(self, indices: Indices) -> Matrix:
        """`local_gram` of the fitted samples themselves."""
        return self.local_gram(self.X, indices) if self._squared is None else _gram_of(self._squared, indices)

    def _compare(self, X: Features, *, out: Matrix, own: int | None = None) -> None:
        """Squared distances of X to the first fitted samples, as many as `out` has columns.

        |x|^2 + |z|^2 - 2 x.z around the centre of the samples, for many samples one product of rows (-2x, |x|^2, 1) and
        (z, 1, |z|^2);
        pairs where that cancels are computed from differences.
        With `own`, X are the fitted samples from that one on, and distances to themselves are zero.
        """
        count = out.shape[1]
        shifted = X if sparse.issparse(X) else X - self._shift
        norms = _squared_norms(shifted)
        if sparse.issparse(X):
            out[...] = (-2.0 * shifted @ self._shifted[:count].T).toarray()
            out += norms[:, None] + self._norms[None, :count]
        elif X.shape[1] > count:
            np.matmul(shifted, self._shifted[:count].T, out=out)
            out *= -2.0
            out += norms[:, None]
            out += self._norms[None, :count]
        else:
            wide = np.column_stack([-2.0 * shifted, norms, np.ones(len(norms))])
            np.matmul(wide, self._widened[:count].T, out=out)
        if own is not None:
            np.fill_diagonal(out[:, own:], np.inf)
        limit = CANCELLATION * (norms + self._norms.max())
        suspect = np.flatnonzero(out.min(axis=1) < limit)
        if len(suspect):
            self._repair(X, suspect, out, limit)
        if own is not None:
            np.fill_diagonal(out[:, own:], 0.0)

    def _repair(self, X: Features, rows: Indices, out: Matrix, limit: Matrix) -> None:
        """Compute entries of the rows that are below their row's limit again, from differences."""
        lost = [np.flatnonzero(out[row] < limit[row]) for row in rows]
        counts = np.fromiter(map(len, lost), dtype=np.intp, count=len(lost))
        if counts.sum() > 0.1 * len(rows) * out.shape[1] and not sparse.issparse(X):
            out[rows] = cdist(X[rows], self.X[: out.shape[1]], "sqeuclidean")
            return
        i, j = np.repeat(rows, counts), np.concatenate(lost)
        out[i, j] = _pairs(X, self.X, i, j)

    def _nearest(self, X: Features, k: int, *, leave_out_self: bool) -> tuple[Indices, Matrix]:
        indices, distances = np.empty((X.shape[0], k), dtype=np.intp), np.empty((X.shape[0], k))
        pending = np.arange(X.shape[0])
        if self._finder is not None and X.shape[0] * self.size > FINDER_FROM:
            pending = self._found(X, indices, distances, leave_out_self)
        for block in blocks(len(pending), self.size):
            at = pending[block]
            squared = self.squared_to(X[at])
            if leave_out_self:
                squared[np.arange(len(at)), at] = np.inf
            indices[at] = nearest_columns(squared, k, partial(_pairs, X[at], self.X))
            distances[at] = self.exact(X[at], indices[at])
        return indices, distances

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
            lengths[i, j] = np.sqrt(_pairs(X, self.X, i, found[i, j]))
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
        return bool(self.D.any())

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
        return np.square(_not_negative(D))

    def neighbors(self, k: int) -> tuple[Indices, Matrix]:
        """k nearest other samples of each sample, ties to the lowest index."""
        return _nearest_others(np.square(self.D), k)

    def neighbors_of(self, D: Matrix, k: int) -> tuple[Indices, Matrix]:
        """k nearest fitted samples of each new sample."""
        indices = nearest_columns(_not_negative(D), k)
        return indices, np.take_along_axis(D, indices, axis=1)

    def within(self, radius: float) -> sparse.csr_array:
        """Sparse distances below a radius; the diagonal and coincident samples are stored zeros."""
        return _below(self.D, radius)

    def within_of(self, D: Matrix, radius: float) -> sparse.csr_array:
        """Sparse distances below a radius of new samples (rows) to the fitted ones (columns)."""
        return _below(_not_negative(D), radius)

    def local_gram(self, D: Matrix, indices: Indices) -> Matrix:
        """(d_xi^2 + d_xj^2 - d_ij^2) / 2 over the neighbours i, j of each row x (FINE eq. 11, its square put right)."""
        own = np.take_along_axis(D, indices, axis=1) ** 2
        between = self.D[indices[:, :, None], indices[:, None, :]] ** 2
        return 0.5 * (own[:, :, None] + own[:, None, :] - between)

    def own_local_gram(self, indices: Indices) -> Matrix:
        """`local_gram` of the fitted samples themselves."""
        return _gram_of(np.square(self.D), indices)


Samples: TypeAlias = Points | Distances


def as_samples(X: Features, metric: str) -> Samples:
    """Samples by features ("euclidean") or by a square table of distances ("precomputed")."""
    return Distances(np.asarray(X)) if metric == "precomputed" else Points(X)


def median_power(squared: Matrix, power: float = 1.0) -> float:
    """Median of D^power over all pairs, from the table of squared distances; 1 when every pair coincides."""
    pairs = np.concatenate([row[i + 1 :] for i, row in enumerate(squared)])
    middle = float(np.median(np.power(pairs, power / 2, out=pairs), overwrite_input=True))
    return middle if middle > 0 else 1.0


def nearest_columns(table: Matrix, k: int, exact: Exact | None = None) -> Indices:
    """Columns of the k smallest entries of each row, smallest first, ties to the lowest column.

    Entries within TIE of each other are settled by `exact(rows, columns)` where that is given.
    """
    reach = min(k + 1, table.shape[1])
    part = np.argpartition(table, reach - 1, axis=1)[:, :reach]
    value = np.take_along_axis(table, part, axis=1)
    order = np.lexsort((part, value), axis=1)
    part, value = np.take_along_axis(part, order, axis=1), np.take_along_axis(value, order, axis=1)
    chosen = part[:, :k].copy()
    for row in np.flatnonzero((value[:, 1:] <= value[:, :-1] * (1 + TIE)).any(axis=1)):
        near = np.flatnonzero(table[row] <= value[row, k - 1] * (1 + TIE))
        lengths = table[row, near] if exact is None else exact(np.full(len(near), row), near)
        chosen[row] = near[np.lexsort((near, lengths))][:k]
    return chosen


def _nearest_others(squared: Matrix, k: int, exact: Exact | None = None) -> tuple[Indices, Matrix]:
    """k nearest other samples of each sample, and distances, from the full table of squared distances."""
    table = squared.copy()
    np.fill_diagonal(table, np.inf)
    indices = nearest_columns(table, k, exact)
    return indices, np.sqrt(np.take_along_axis(squared, indices, axis=1))


def _gram_of(squared: Matrix, indices: Indices) -> Matrix:
    """Inner products of the differences of each sample to its neighbours, from the full table of squared distances."""
    own = np.take_along_axis(squared, indices, axis=1)
    return 0.5 * (own[:, :, None] + own[:, None, :] - squared[indices[:, :, None], indices[:, None, :]])


def check_distances(D: Matrix) -> Matrix:
    """A square, symmetric table of distances that are not negative, with zeros on the diagonal."""
    if D.ndim != 2 or D.shape[0] != D.shape[1]:
        raise InputError(
            f"a table of distances of shape {D.shape} came; with metric='precomputed' fit wants a square one, n x n. "
            "Pass distances among the training samples, or metric='euclidean' with features."
        )
    D = _not_negative(np.asarray(D, dtype=np.float64))
    scale = float(D.max(initial=0.0)) or 1.0
    if np.abs(D - D.T).max(initial=0.0) > 1e-8 * scale:
        raise InputError(
            f"the table of distances is not symmetric (largest difference {np.abs(D - D.T).max():.3g}). "
            "Pass distances with d(i, j) = d(j, i), for instance (D + D.T) / 2."
        )
    if np.abs(np.diagonal(D)).max(initial=0.0) > 1e-8 * scale:
        worst = np.abs(np.diagonal(D)).max()
        raise InputError(
            f"the table of distances has {worst:.4g} on its diagonal, where a sample meets itself; 0 is wanted. "
            "Pass distances, not similarities."
        )
    D = _symmetric(D.copy())
    np.fill_diagonal(D, 0.0)
    return D


def _not_negative(D: Matrix) -> Matrix:
    if D.size and D.min() < 0:
        raise InputError(
            f"a distance of {D.min():.3g} came; distances are not negative. Pass distances, not similarities."
        )
    return D


def _symmetric(table: Matrix) -> Matrix:
    """The lower triangle copied onto the upper one, block by block."""
    for rows in blocks(len(table), len(table)):
        table[rows, rows.stop :] = table[rows.stop :, rows].T
        corner = table[rows, rows]
        corner[...] = np.tril(corner) + np.tril(corner, -1).T
    return table


def _below(table: Matrix, radius: float) -> sparse.csr_array:
    i, j = np.nonzero(table < radius)
    return sparse.csr_array((table[i, j], (i, j)), shape=table.shape)


def _as_array(table: Any) -> Matrix:
    return table.toarray() if sparse.issparse(table) else table


def _squared_norms(X: Features) -> Matrix:
    return np.asarray(X.multiply(X).sum(axis=1)).ravel() if sparse.issparse(X) else np.einsum("ij,ij->i", X, X)


def _pairs(X: Features, Y: Features, i: Indices, j: Indices) -> Matrix:
    """Squared distances of rows X[i] and Y[j], from differences, in bounded memory."""
    result = np.empty(len(i))
    for part in blocks(len(i), X.shape[1]):
        difference = X[i[part]] - Y[j[part]]
        result[part] = _squared_norms(sparse.csr_array(difference) if sparse.issparse(difference) else difference)
    return result
