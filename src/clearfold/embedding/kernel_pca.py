"""Kernel principal component analysis."""

from __future__ import annotations

from typing import Any

from clearfold.embedding.affinity import gaussian
from clearfold.embedding.distances import Features, blocks
from clearfold.embedding.estimator import SpectralEmbedder
from clearfold.embedding.operator import Centred, Operator, _Projection
from clearfold.embedding.samples import Samples
from clearfold.embedding.spectral import Matrix


class KernelPCA(SpectralEmbedder):
    """T = Z sqrt(L) of K = H exp(-D^2 / 2 s^2) H (VINK section 2.1; FINE eq. 7 and 8 with the missing root).

    Parameters
    ----------
    n_components : int or "elbow"
    bandwidth : s, or "median" for the median distance of the training samples
    metric : "euclidean", or "precomputed" for a table of distances

    Attributes
    ----------
    embedding_ : (n, h) coordinates; eigenvalues_ : (h,)
    bandwidth_ : the s that was used
    eigengap_ : smallest relative gap between neighbouring eigenvalues

    Notes
    -----
    Memory grows with n^2 (one table of n x n), time with n^2 for each Lanczos step.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> KernelPCA(n_components=2).fit(load_iris().data).embedding_.shape
    (150, 2)
    """

    _COMPARED_AT_ONCE = 1024
    _rule: _Projection

    def __init__(
        self, *, n_components: int | str = 2, bandwidth: float | str = "median", metric: str = "euclidean"
    ) -> None:
        self.n_components = n_components
        self.bandwidth = bandwidth
        self.metric = metric

    def _operator(self, samples: Samples, y: Any = None) -> Operator:
        squared = samples.squared()
        self.bandwidth_ = self._bandwidth(samples, squared)
        return Centred(gaussian(squared, self.bandwidth_))

    def _place(self, X: Features) -> Matrix:
        squared = self._fitted.comparing(X)
        parts = blocks(self._fitted.size, X.shape[0])
        return self._rule.added((part, gaussian(squared(part), self.bandwidth_)) for part in parts)
