"""Isometric mapping."""

from __future__ import annotations

from typing import Any

import numpy as np

from clearfold.embedding.distances import Features
from clearfold.embedding.estimator import SpectralEmbedder
from clearfold.embedding.operator import Centred, Operator
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
    Two tables of n x n; time grows with n^2 log n for the paths.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> e = Isomap(n_components=3, n_neighbors=10).fit(scale(load_breast_cancer().data))
    >>> e.embedding_.shape, e.n_connected_components_
    ((569, 3), 1)
    """

    def __init__(self, *, n_components: int | str = 2, n_neighbors: int = 5, metric: str = "euclidean") -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.metric = metric

    def _operator(self, samples: Samples, y: Any = None) -> Operator:
        self.geodesics_ = self._graph(samples).geodesics()
        kernel = np.square(self.geodesics_)
        kernel *= -0.5
        return Centred(kernel)

    def _place(self, X: Features) -> Matrix:
        indices, distances = self._fitted.neighbors_of(X, min(self.n_neighbors, self._fitted.size))
        paths = np.empty((len(indices), self._fitted.size))
        for row, (near, length) in enumerate(zip(indices, distances, strict=True)):
            np.min(self.geodesics_[near] + length[:, None], axis=0, out=paths[row])
        np.square(paths, out=paths)
        paths *= -0.5
        return self._rule(paths)

    def _approximated_distances(self, operator: Operator, samples: Samples) -> Matrix:
        return self.geodesics_
