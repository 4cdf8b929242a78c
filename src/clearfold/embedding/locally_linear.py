"""Locally linear embedding."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from clearfold.embedding.distances import Features, Indices
from clearfold.embedding.estimator import SpectralEmbedder, at_known
from clearfold.embedding.neighbors import check_neighbors
from clearfold.embedding.operator import Operator, Reconstruction
from clearfold.embedding.samples import Samples
from clearfold.embedding.spectral import Matrix
from clearfold.errors import InputError, NullSpaceWarning, warn

RIDGE = 1e-3


class LocallyLinearEmbedding(SpectralEmbedder):
    """T = Z sqrt(lmax - mu) of M = (I - W)'(I - W), W the weights that rebuild each sample from its neighbours.

    Weights solve (C + 1e-3 tr(C) I) w = 1 with C the local Gram matrix, then sum to 1. FINE eq. 12 prints
    (I - W)(I - W'): wrong, the constant vector is then not in its null space.

    Where the neighbour relation has more than two closed groups of samples, coordinates would be arbitrary:
    neighbours are added until it has not, with a warning. New samples: barycentric weights times coordinates.

    Parameters
    ----------
    n_components : int or "elbow"
    n_neighbors : neighbours of each sample, itself not counted
    metric : "euclidean", or "precomputed" for a table of distances

    Attributes
    ----------
    embedding_ : (n, h) coordinates; eigenvalues_ : (h,), lmax - mu
    n_neighbors_ : neighbours that were used
    null_dimension_ : closed groups of samples; 1 is healthy, with 2 the first coordinate only tells them apart
    n_connected_components_, n_duplicates_ : health of the neighbour graph
    eigengap_ : smallest relative gap between neighbouring mu

    Notes
    -----
    A new sample that coincides with a fitted one gets its coordinates (weights alone would miss them by the ridge).

    Examples
    --------
    >>> from sklearn.datasets import make_swiss_roll
    >>> X, _ = make_swiss_roll(500, random_state=0)
    >>> LocallyLinearEmbedding(n_components=2, n_neighbors=12).fit(X).embedding_.shape
    (500, 2)
    """

    def __init__(self, *, n_components: int | str = 2, n_neighbors: int = 5, metric: str = "euclidean") -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.metric = metric

    def _operator(self, samples: Samples, y: Any = None) -> Operator:
        check_neighbors(self.n_neighbors, samples.size)
        indices = self._closed_enough(samples)
        weights = barycentric(samples.own_local_gram(indices))
        start = np.arange(0, weights.size + 1, weights.shape[1])
        return Reconstruction(sparse.csr_array((weights.ravel(), indices.ravel(), start), shape=(samples.size,) * 2))

    def _place(self, X: Features) -> Matrix:
        indices, distances = self._fitted.neighbors_of(X, self.n_neighbors_)
        weights = barycentric(self._fitted.local_gram(X, indices))
        start = np.arange(0, weights.size + 1, weights.shape[1])
        rows = sparse.csr_array((weights.ravel(), indices.ravel(), start), shape=(len(indices), self._fitted.size))
        return at_known(self._rule(rows), indices, distances, self.embedding_)

    def _closed_enough(self, samples: Samples) -> Indices:
        """Neighbours of each sample, as many as leave at most two closed groups."""
        k = self.n_neighbors
        while True:
            indices, distances = samples.neighbors(k)
            closed, parts = closed_groups(indices)
            if closed <= 2 or k == samples.size - 1:
                break
            k = min(k + max(1, k // 4), samples.size - 1)
        self.n_neighbors_, self.null_dimension_, self.n_connected_components_ = k, closed, parts
        self.n_duplicates_ = _duplicates(indices, distances)
        if closed > 2:
            raise InputError(
                f"the samples fall into {closed} groups that no number of neighbours joins: "
                "locally linear coordinates are arbitrary. Remove duplicate samples, or use another embedding."
            )
        if k > self.n_neighbors:
            warn(
                f"with n_neighbors={self.n_neighbors} the coordinates would be arbitrary (several groups know only "
                f"themselves); n_neighbors={k} was used instead. Set it yourself to choose otherwise.",
                NullSpaceWarning,
            )
        elif closed == 2:
            warn(
                "two groups of samples know only themselves: the first coordinate tells them apart, no more. "
                "Raise n_neighbors.",
                NullSpaceWarning,
            )
        return indices


def barycentric(gram: Matrix) -> Matrix:
    """Weights of each row's neighbours, summing to 1: solve (C + 1e-3 tr(C) I) w = 1 for every C at once."""
    ridge = RIDGE * np.trace(gram, axis1=1, axis2=2)
    ridge[ridge == 0] = RIDGE
    k = gram.shape[1]
    gram = gram + ridge[:, None, None] * np.eye(k)
    weights = np.linalg.solve(gram, np.ones((len(gram), k, 1)))[:, :, 0]
    normalised: Matrix = weights / weights.sum(axis=1, keepdims=True)
    return normalised


def closed_groups(indices: Indices) -> tuple[int, int]:
    """Number of smallest groups of samples whose neighbours all lie inside the group, and of connected parts."""
    size, k = indices.shape
    start = np.arange(0, size * k + 1, k)
    arrows = sparse.csr_array((np.ones(size * k), indices.ravel(), start), shape=(size, size))
    parts, _ = csgraph.connected_components(arrows, directed=True, connection="weak")
    count, group = csgraph.connected_components(arrows, directed=True, connection="strong")
    leaves = group[np.repeat(np.arange(size), k)] != group[indices.ravel()]
    open_groups = np.unique(np.repeat(group, k)[leaves])
    return int(count - len(open_groups)), int(parts)


def _duplicates(indices: Indices, distances: Matrix) -> int:
    i, j = np.nonzero(distances == 0)
    same = sparse.coo_array((np.ones(len(i)), (i, indices[i, j])), shape=(len(indices),) * 2)
    return len(indices) - int(csgraph.connected_components(same, directed=False)[0])
