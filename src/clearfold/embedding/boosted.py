"""Boosted spectral embedding: the graph embedding of samples compared by a boosted metric."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from clearfold.embedding.affinity import median_power
from clearfold.embedding.estimator import checked
from clearfold.embedding.graph_embedding import GraphEmbedding
from clearfold.embedding.metric import BoostedMetric
from clearfold.embedding.precision import Separation, separation, warn_of_strangers
from clearfold.embedding.samples import Points
from clearfold.embedding.spectral import Matrix


class BoostedGraphEmbedding(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """W = exp(-D / s), D the boosted metric, then W y = lambda D y (BoSE eq. 5 and 1): GraphEmbedding o BoostedMetric.

    Parameters
    ----------
    n_components : int or "elbow"
    n_features, learner, repeated : of `BoostedMetric`
    labels : also draw known labels together and apart in the graph (semi-supervised graph embedding on the boosted
        metric); new samples are placed without
    bandwidth : s, "median" of D^power, or half of it, at which near samples count more
    power, neighborhood, axis_scaling : of `GraphEmbedding`

    Attributes
    ----------
    embedding_ : (n, h) coordinates; eigenvalues_ : (h,) lambda
    metric_ : the fitted BoostedMetric; graph_ : the fitted GraphEmbedding
    classes_ : the labels

    Notes
    -----
    Training samples are judged on labels that the metric has seen: `separation` shows what is left on others.
    Ranking by the boosted distances themselves, `metric_.transform`, is often as good: always look at both.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> e = BoostedGraphEmbedding().fit(X[::2], y[::2])
    >>> print(e.separation(X[1::2], y[1::2]))
    average precision among 285 training samples 0.8... (chance 0.5...), among 284 held-out samples 0.8...
    """

    def __init__(
        self,
        *,
        n_components: int | str = 3,
        n_features: int = 4,
        learner: str = "gamma",
        repeated: bool = False,
        labels: bool = False,
        bandwidth: float | str = "half-median",
        power: float = 1.0,
        neighborhood: float | str | None = None,
        axis_scaling: bool = True,
    ) -> None:
        self.n_components = n_components
        self.n_features = n_features
        self.learner = learner
        self.repeated = repeated
        self.labels = labels
        self.bandwidth = bandwidth
        self.power = power
        self.neighborhood = neighborhood
        self.axis_scaling = axis_scaling

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the metric from the labelled rows and the coordinates of all.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n, m)
        y : labels, -1 or missing where unknown
        """
        table = checked(self, X, reset=True, least=2)
        metric = BoostedMetric(n_features=self.n_features, learner=self.learner, repeated=self.repeated)
        self.metric_ = metric.fit(table, y)
        self.classes_ = metric.classes_
        points = metric.transform(table)
        half = isinstance(self.bandwidth, str) and self.bandwidth == "half-median"
        self.graph_ = GraphEmbedding(
            n_components=self.n_components,
            bandwidth=median_power(Points(points).squared(), self.power) / 2 if half else self.bandwidth,
            power=self.power,
            neighborhood=self.neighborhood,
            axis_scaling=self.axis_scaling,
        ).fit(points, y if self.labels else None)
        self.embedding_: Matrix = self.graph_.embedding_
        self.eigenvalues_ = self.graph_.eigenvalues_
        self._labels = np.asarray(y)
        return self

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Matrix:
        """`fit`, then the coordinates of the same rows."""
        return self.fit(X, y).embedding_

    def transform(self, X: Any) -> Matrix:
        """Coordinates of new samples; each one's depend on nothing but itself and the fitted samples."""
        check_is_fitted(self, "embedding_")
        return self.graph_._transform(self.metric_.transform(checked(self, X, reset=False)))

    def isolated(self, X: Any) -> Any:
        """Which new samples have (almost) no affinity to any fitted one: their coordinates are those of the nearest."""
        check_is_fitted(self, "embedding_")
        return self.graph_.isolated(self.metric_.transform(checked(self, X, reset=False)))

    def separation(self, X: Any, y: Any) -> Separation:
        """How well classes separate among the training samples, and among these other ones."""
        check_is_fitted(self, "embedding_")
        warn_of_strangers(self.classes_, y)
        return separation(self.embedding_, self._labels, np.asarray(self.transform(X)), y)

    @property
    def _n_features_out(self) -> int:
        return int(self.embedding_.shape[1])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags
