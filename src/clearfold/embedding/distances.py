"""Tables of distances: exact where it matters, in bounded memory, ties settled by index."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse
from scipy.linalg.blas import dsyrk

from clearfold.embedding.spectral import Matrix
from clearfold.errors import InputError

Indices: TypeAlias = "np.ndarray[Any, np.dtype[np.intp]]"
Features: TypeAlias = Any
"""n x m numbers, a float array or a csr_array."""
Exact: TypeAlias = "Callable[[Indices, Indices], Matrix]"
"""Rows and columns -> squared distances that do not depend on where in a table they stand."""

TIE = 1e-9
"""Distances within this relative difference are compared again exactly, then by index."""
BLOCK_BYTES = 2**23
"""Rows are compared in blocks whose table of distances stays below this size."""
TILE = 256
"""A table is turned over in squares of this size, which stay in cache."""
CACHED = 2**16
"""As many numbers stay in cache while they are worked on."""


def blocks(rows: int, columns: int) -> Iterator[slice]:
    """Slices over rows such that rows x columns numbers fit BLOCK_BYTES."""
    step = max(1, BLOCK_BYTES // (8 * max(columns, 1)))
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


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


def nearest_others(squared: Matrix, k: int, exact: Exact | None = None) -> tuple[Indices, Matrix]:
    """k nearest other samples of each sample, and distances, from the full table of squared distances."""
    table = squared.copy()
    np.fill_diagonal(table, np.inf)
    indices = nearest_columns(table, k, exact)
    return indices, np.sqrt(np.take_along_axis(squared, indices, axis=1))


def own_products(rows: Matrix, *, out: Matrix) -> None:
    """X X' by half of the work of a product of two different tables."""
    out[...] = dsyrk(1.0, rows.T, trans=1)
    upper = np.triu_indices(len(rows), 1)
    out.T[upper] = out[upper]


def gram_of(squared: Matrix, indices: Indices) -> Matrix:
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
    D = not_negative(np.asarray(D, dtype=np.float64))
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
    D = symmetric(D.copy())
    np.fill_diagonal(D, 0.0)
    return D


def not_negative(D: Matrix) -> Matrix:
    """The table, if no distance in it is negative."""
    if D.size and D.min() < 0:
        raise InputError(
            f"a distance of {D.min():.3g} came; distances are not negative. Pass distances, not similarities."
        )
    return D


def symmetric(table: Matrix) -> Matrix:
    """The lower triangle copied onto the upper one, tile by tile."""
    size = len(table)
    tiles = [slice(start, min(start + TILE, size)) for start in range(0, size, TILE)]
    for place, rows in enumerate(tiles):
        for columns in tiles[place + 1 :]:
            table[rows, columns] = table[columns, rows].T
        corner = table[rows, rows]
        corner[...] = np.tril(corner) + np.tril(corner, -1).T
    return table


def below(table: Matrix, radius: float) -> sparse.csr_array:
    """Sparse distances below a radius; zeros among them are stored."""
    i, j = np.nonzero(table < radius)
    return sparse.csr_array((table[i, j], (i, j)), shape=table.shape)


def as_array(table: Any) -> Matrix:
    """A table as a dense array."""
    return table.toarray() if sparse.issparse(table) else table


def squared_norms(X: Features) -> Matrix:
    """Squared length of each row."""
    return np.asarray(X.multiply(X).sum(axis=1)).ravel() if sparse.issparse(X) else np.einsum("ij,ij->i", X, X)


def pairs_squared(X: Features, Y: Features, i: Indices, j: Indices) -> Matrix:
    """Squared distances of rows X[i] and Y[j], from differences, by as many as stay in cache."""
    result = np.empty(len(i))
    if sparse.issparse(X):
        for part in blocks(len(i), X.shape[1]):
            result[part] = squared_norms(sparse.csr_array(X[i[part]] - Y[j[part]]))
        return result
    step = max(1, CACHED // X.shape[1])
    for part in (slice(start, start + step) for start in range(0, len(i), step)):
        difference = X.take(i[part], axis=0)
        difference -= Y.take(j[part], axis=0)
        result[part] = squared_norms(difference)
    return result
