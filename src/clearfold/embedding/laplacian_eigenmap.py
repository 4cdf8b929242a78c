"""Laplacian eigenmap."""

from __future__ import annotations

from typing import Any

import numpy as np

from clearfold.embedding.affinity import gaussian
from clearfold.embedding.distances import TIE, Features
from clearfold.embedding.estimator import SpectralEmbedder, at_known
from clearfold.embedding.operator import Laplacian, Operator
from clearfold.embedding.samples import Samples
from clearfold.embedding.spectral import Matrix
from clearfold.errors import DisconnectedGraphWarning, warn


class LaplacianEigenmap(SpectralEmbedder):
    """T = Z / sqrt(mu) of L = diag(W1) - W, W = exp(-D^2 / 2 s^2) on the neighbour graph (K = L^+ in VINK and FINE).

    The Laplacian is not normalised, as in both papers; scikit-learn's is. New samples are placed by their row of the
    eigen-equation, f(x) = W(x) f / (d(x) - mu), with edges by the same rule as in fit: a fitted sample is joined to x
    if it is among the k nearest of x, or x is nearer to it than its own k-th neighbour.

    Parameters
    ----------
    n_components : int or "elbow"
    n_neighbors : neighbours of each sample, itself not counted
    bandwidth : s, or "median" for the median distance of the training samples
    metric : "euclidean", or "precomputed" for a table of distances

    Attributes
    ----------
    embedding_ : (n, h) coordinates; eigenvalues_ : (h,), 1 / mu
    bandwidth_ : the s that was used
    n_connected_components_, bridges_, n_duplicates_ : health of the neighbour graph
    n_parts_ : parts of the graph joined by weights above rounding; above 1 where a bridge is too long for s
    eigengap_ : smallest relative gap between neighbouring eigenvalues

    Notes
    -----
    A new sample that coincides with a fitted one gets its coordinates; with duplicates in training, those of the first.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from clearfold.errors import DuplicateSamplesWarning
    >>> import warnings; warnings.simplefilter("ignore", DuplicateSamplesWarning)  # iris has one repeated flower
    >>> LaplacianEigenmap(n_components=2, n_neighbors=30).fit(load_iris().data).embedding_.shape
    (150, 2)
    """

    def __init__(
        self,
        *,
        n_components: int | str = 2,
        n_neighbors: int = 5,
        bandwidth: float | str = "median",
        metric: str = "euclidean",
    ) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.bandwidth = bandwidth
        self.metric = metric

    def _operator(self, samples: Samples, y: Any = None) -> Operator:
        graph = self._graph(samples)
        self.bandwidth_ = self._bandwidth(samples)
        self._reach = graph.distances[:, -1]
        operator = Laplacian(graph.matrix(gaussian(np.square(graph.lengths), self.bandwidth_)))
        self.n_parts_ = operator.n_parts
        if operator.n_parts > 1:
            warn(
                f"with bandwidth {self.bandwidth_:.4g} the weights between {operator.n_parts} parts of the graph "
                "vanish: coordinates describe each part on its own and do not tell the parts apart. "
                "Raise bandwidth or n_neighbors.",
                DisconnectedGraphWarning,
            )
        return operator

    def _place(self, X: Features) -> Matrix:
        squared = self._fitted.squared_to(X)
        near, lengths = self._fitted.neighbors_of(X, self.n_neighbors)
        joined = squared <= np.square(self._reach) * (1 + TIE)
        np.put_along_axis(joined, near, True, axis=1)
        weights = np.where(joined, gaussian(squared, self.bandwidth_), 0.0)
        return at_known(self._rule(weights), near, lengths, self.embedding_)
