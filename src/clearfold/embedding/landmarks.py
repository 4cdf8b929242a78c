"""Landmarks: for more samples than a square table holds."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.cluster import kmeans_plusplus
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from clearfold.embedding.estimator import SpectralEmbedder, checked
from clearfold.embedding.isomap import Isomap
from clearfold.embedding.spectral import Matrix
from clearfold.errors import InputError


class LandmarkEmbedding(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Fit an embedding on chosen samples, place the others by its own rule, block by block (an approximation).

    Parameters
    ----------
    embedding : the embedding to fit on the landmarks; Isomap() if None
    n_landmarks : how many; with fewer samples all of them
    selection : "kmeans++" (spread over the data) or "random"
    random_state : seed of the selection

    Attributes
    ----------
    embedding_ : (n, h) coordinates of all samples
    landmarks_ : row numbers of the landmarks, ascending
    fitted_ : the embedding fitted on them

    Notes
    -----
    Memory: X, the coordinates, and what the embedding needs for n_landmarks samples; blocks of 8 MiB besides.
    Time grows with n.

    Examples
    --------
    >>> from sklearn.datasets import make_swiss_roll
    >>> X, _ = make_swiss_roll(3000, random_state=0)
    >>> e = LandmarkEmbedding(embedding=Isomap(n_neighbors=10), n_landmarks=500, random_state=0).fit(X)
    >>> e.embedding_.shape, len(e.landmarks_)
    ((3000, 2), 500)
    """

    def __init__(
        self,
        *,
        embedding: SpectralEmbedder | None = None,
        n_landmarks: int = 2000,
        selection: str = "kmeans++",
        random_state: Any = None,
    ) -> None:
        self.embedding = embedding
        self.n_landmarks = n_landmarks
        self.selection = selection
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Choose landmarks, fit the embedding on them, place every row of X. y, if given, goes to the embedding."""
        self.fitted_ = clone(Isomap() if self.embedding is None else self.embedding)
        X = checked(self, X, reset=True, least=2)
        if y is not None and len(np.asarray(y)) != X.shape[0]:
            raise InputError(
                f"{len(np.asarray(y))} labels came for {X.shape[0]} samples. Give one label for each row of X."
            )
        self.landmarks_ = self._landmarks(X)
        self.fitted_.fit(X[self.landmarks_], None if y is None else np.asarray(y)[self.landmarks_])
        self.embedding_: Matrix = self.fitted_._transform(X)
        return self

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Matrix:
        """`fit`, then the coordinates of the same rows."""
        return self.fit(X, y).embedding_

    def transform(self, X: Any) -> Matrix:
        """Coordinates of new samples by the rule of the fitted embedding."""
        check_is_fitted(self, "embedding_")
        return self.fitted_._transform(checked(self, X, reset=False))

    def _landmarks(self, X: Any) -> Any:
        n_samples = X.shape[0]
        if not isinstance(self.n_landmarks, int | np.integer) or self.n_landmarks < 2:
            raise InputError(f"n_landmarks={self.n_landmarks!r} came; a whole number of at least 2 is wanted.")
        if self.selection not in ("kmeans++", "random"):
            raise InputError(f"selection={self.selection!r} came; 'kmeans++' or 'random' is wanted.")
        if n_samples <= self.n_landmarks:
            return np.arange(n_samples)
        random = check_random_state(self.random_state)
        if self.selection == "random":
            return np.sort(random.choice(n_samples, self.n_landmarks, replace=False))
        _, chosen = kmeans_plusplus(X, self.n_landmarks, random_state=random, n_local_trials=1)
        return np.unique(chosen)

    @property
    def _n_features_out(self) -> int:
        return int(self.embedding_.shape[1])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
