"""Principal component analysis."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from clearfold.embedding.distances import Features
from clearfold.embedding.estimator import SpectralEmbedder
from clearfold.embedding.operator import Linear, Operator, Spectrum
from clearfold.embedding.samples import Points, Samples
from clearfold.embedding.spectral import Matrix


class PCA(SpectralEmbedder):
    """T = X V: directions of largest variance of the centred features.

    For more features than samples the n x n Gram matrix is decomposed, never the m x m covariance.

    Parameters
    ----------
    n_components : int or "elbow"

    Attributes
    ----------
    embedding_ : (n, h) coordinates
    eigenvalues_ : (h,) squared singular values of the centred features
    components_ : (h, m) directions; mean_ : (m,) column means
    eigengap_ : smallest relative gap between neighbouring eigenvalues

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> PCA(n_components=2).fit(load_iris().data).embedding_.shape
    (150, 2)
    """

    metric = "euclidean"
    _METRICS: ClassVar[tuple[str, ...]] = ("euclidean",)

    def __init__(self, *, n_components: int | str = 2) -> None:
        self.n_components = n_components

    def _operator(self, samples: Samples, y: Any = None) -> Operator:
        assert isinstance(samples, Points)
        return Linear(samples.X, samples.known_squared())

    def _samples(self, X: Any) -> Samples:
        return Points(self._features(X, reset=True, least=2), copy=False)

    def _store(self, samples: Samples, operator: Operator, spectrum: Spectrum) -> None:
        super()._store(samples, operator, spectrum)
        assert isinstance(operator, Linear)
        del self._fitted  # the rule needs no samples
        self.mean_ = operator.mean
        self.components_ = operator.loadings(spectrum).T

    def _place(self, X: Features) -> Matrix:
        return self._rule(X)

    def _placed(self, X: Any) -> tuple[Matrix, Any]:
        check_is_fitted(self, "embedding_")
        X = self._features(X, reset=False)
        return self._place(X), np.zeros(X.shape[0], dtype=bool)

    def _approximated_distances(self, operator: Operator, samples: Samples) -> Matrix:
        return np.sqrt(samples.squared())
