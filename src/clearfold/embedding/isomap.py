"""Isometric mapping."""

from __future__ import annotations

from typing import Any

import numpy as np

from clearfold.embedding.distances import Features, blocks
from clearfold.embedding.estimator import SpectralEmbedder
from clearfold.embedding.operator import CentredSquares, Operator
from clearfold.embedding.paths import shortest_paths, squares_through
from clearfold.embedding.samples import Samples
from clearfold.embedding.spectral import Matrix


class Isomap(SpectralEmbedder):
    """T = Z sqrt(L) of K = -1/2 H G^2 H, G shortest paths over nearest neighbours (FINE eq. 10 prints K = G: wrong).

    A graph in several parts is joined by the shortest edges between them, with a warning.
    New samples: path lengths through their nearest fitted samples, then projection.

    Parameters
    ----------
    n_components : int or "elbow"
    n_neighbors : neighbours of each sample, itself not counted
    metric : "euclidean", or "precomputed" for a table of distances

    Attributes
    ----------
    embedding_ : (n, h) coordinates; eigenvalues_ : (h,)
    geodesics_ : (n, n) path lengths
    n_connected_components_, bridges_, n_duplicates_ : health of the neighbour graph
    eigengap_ : smallest relative gap between neighbouring eigenvalues

    Notes
    -----
    Memory grows with n^2 (one table of n x n), time too: for the paths with the edges, for the rest with each step.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> e = Isomap(n_components=3, n_neighbors=10).fit(scale(load_breast_cancer().data))
    >>> e.embedding_.shape, e.n_connected_components_
    ((569, 3), 1)
    """

    _COMPARED_AT_ONCE = 1024

    def __init__(self, *, n_components: int | str = 2, n_neighbors: int = 5, metric: str = "euclidean") -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.metric = metric

    def _operator(self, samples: Samples, y: Any = None) -> Operator:
        graph = self._graph(samples)
        self.geodesics_ = shortest_paths(graph.matrix(graph.lengths))
        return CentredSquares(self.geodesics_)

    def _place(self, X: Features) -> Matrix:
        indices, distances = self._fitted.neighbors_of(X, min(self.n_neighbors, self._fitted.size))
        coordinates = np.empty((len(indices), self._n_features_out))
        for rows in blocks(len(indices), self._fitted.size):
            coordinates[rows] = self._rule(squares_through(self.geodesics_, indices[rows], distances[rows]))
        return coordinates

    def _approximated_distances(self, operator: Operator, samples: Samples) -> Matrix:
        return self.geodesics_
