"""The boosted metric: features that tell classes apart, weighted by how well they do."""

from __future__ import annotations

from typing import Any, Protocol, Self

import numpy as np
from scipy import sparse
from scipy.special import digamma, gammaln, polygamma, xlogy
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from clearfold.embedding.estimator import checked, in_range
from clearfold.embedding.samples import LEAST
from clearfold.embedding.spectral import Matrix
from clearfold.errors import InputError

LARGEST_SHAPE = 1e8
"""A class in which a feature hardly varies has a gamma density as narrow as this shape allows."""


class BoostedMetric(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """d(x, z)^2 = sum_g alpha_g (x_g - z_g)^2 over the features that AdaBoost picks (BoSE eq. 4).

    `transform` gives z-scores of these features times sqrt(alpha): plain Euclidean distances afterwards.

    Parameters
    ----------
    n_features : how many features to pick, G; with repeated picks the number of rounds
    learner : what one feature decides by. "gamma" is the paper's: a gamma density for each class and Bayes' rule;
        "stump" is one threshold, fitted anew to the weights of each round, for features of any shape
    repeated : let a feature be picked again, its alphas added; else every pick is a new feature, as the paper's count
        of features suggests

    Attributes
    ----------
    features_ : column numbers, in order of their first pick; alphas_ : their weights
    picks_, errors_ : the feature of each round and its weighted error
    mean_, scale_ : of the training rows; classes_ : the labels
    n_features_in_, feature_names_in_

    Notes
    -----
    Labels of -1 (or missing) are unknown: these rows take part in the z-scores only. Many classes: alpha is
    (ln((1 - e) / e) + ln(C - 1)) / 2 and picking stops at e = 1 - 1 / C (SAMME). Errors are kept at 1 / (2n) or
    above, so that a perfect feature has a finite weight. Constant features are never picked.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> BoostedMetric(n_features=4).fit(X, y).transform(X).shape
    (569, 4)
    """

    def __init__(self, *, n_features: int = 4, learner: str = "gamma", repeated: bool = False) -> None:
        self.n_features = n_features
        self.learner = learner
        self.repeated = repeated

    def fit(self, X: Any, y: Any) -> Self:
        """Pick and weigh features.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n, m)
        y : labels, -1 or missing where unknown
        """
        if y is None:
            raise InputError(f"{type(self).__name__} requires y to be passed, but the target y is None. Give labels.")
        X = _dense(in_range(checked(self, X, reset=True, least=2)))
        self.classes_, codes = read_labels(y, len(X))
        if (
            not isinstance(self.n_features, int | np.integer)
            or isinstance(self.n_features, bool)
            or self.n_features < 1
        ):
            raise InputError(f"n_features={self.n_features!r} came; a whole number of at least 1 is wanted.")
        if self.learner not in LEARNERS:
            raise InputError(f"learner={self.learner!r} came; {' or '.join(map(repr, LEARNERS))} is wanted.")
        self.mean_, self.scale_ = X.mean(axis=0), X.std(axis=0)
        varies = self.scale_ > np.maximum(LEAST, 1e-13 * np.abs(self.mean_))
        self.scale_ = np.where(varies, self.scale_, 1.0)
        known = codes >= 0
        self.learner_ = LEARNERS[self.learner](X[known], codes[known])
        self._boost(codes[known], varies & (np.ptp(X[known], axis=0) > 0))
        return self

    def transform(self, X: Any) -> Matrix:
        """Features times sqrt(alpha), as z-scores of the training rows: (n, picked features)."""
        check_is_fitted(self, "alphas_")
        X = _dense(in_range(checked(self, X, reset=False)))
        at = self.features_
        return (X[:, at] - self.mean_[at]) / self.scale_[at] * np.sqrt(self.alphas_)

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Names of the picked features."""
        check_is_fitted(self, "alphas_")
        names = getattr(self, "feature_names_in_", None)
        if input_features is not None:
            if names is not None and not np.array_equal(names, input_features):
                raise InputError("input_features is not equal to feature_names_in_. Pass the names seen in fit.")
            names = np.asarray(input_features, dtype=object)
            if len(names) != self.n_features_in_:
                raise InputError(
                    f"input_features should have length equal to number of features ({self.n_features_in_}), "
                    f"got {len(names)}"
                )
        if names is None:
            names = np.array([f"x{i}" for i in range(self.n_features_in_)], dtype=object)
        return names[self.features_]

    def _boost(self, codes: Any, usable: Any) -> None:
        """AdaBoost over features; sets what was picked."""
        n, n_classes = len(codes), len(self.classes_)
        weights = np.full(n, 1.0 / n)
        usable = usable.copy()
        picks, alphas, errors = [], [], []
        for _ in range(self.n_features):
            error = np.where(usable, self.learner_.errors(weights), np.inf)
            best = int(error.argmin())
            if not error[best] < 1.0 - 1.0 / n_classes - 1e-12:
                break
            kept = max(float(error[best]), 0.5 / n)
            alpha = 0.5 * (np.log((1 - kept) / kept) + np.log(n_classes - 1))
            picks.append(best)
            alphas.append(alpha)
            errors.append(float(error[best]))
            weights = weights * np.exp(2 * alpha * self.learner_.missed(best, weights))
            weights /= weights.sum()
            usable[best] &= self.repeated
        if not picks:
            raise InputError(
                "no feature tells the classes apart better than chance: there is no boosted metric. Check that X "
                "varies (a single constant feature cannot be used), that labels belong to their rows, or try "
                "learner='stump'."
            )
        self.picks_, self.errors_, self.pick_alphas_ = np.array(picks), np.array(errors), np.array(alphas)
        self.features_ = np.array(list(dict.fromkeys(picks)))
        self.alphas_ = np.array([self.pick_alphas_[self.picks_ == feature].sum() for feature in self.features_])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


class Learner(Protocol):
    """One weak learner for each feature, on labelled rows."""

    def errors(self, weights: Matrix) -> Matrix: ...  # noqa: D102

    def missed(self, feature: int, weights: Matrix) -> Any: ...  # noqa: D102


class GammaLearner:
    """Bayes' rule with a maximum-likelihood gamma density for each class and training frequencies (BoSE eq. 2 and 3).

    Features that are not positive everywhere are shifted: x - min + .01 sd, kept positive for later rows.
    """

    def __init__(self, X: Matrix, codes: Any) -> None:
        low = X.min(axis=0)
        self.shift = np.where(low <= 0, 0.01 * X.std(axis=0) - low, 0.0)
        self.parameters = np.stack([fit_gamma((X + self.shift)[codes == c]) for c in range(int(codes.max()) + 1)])
        self.prior = np.bincount(codes) / len(codes)
        self._wrong = self.decide(X) != codes[:, None]

    def log_joint(self, X: Matrix) -> Matrix:
        """log of prior times density: classes x rows x features."""
        x = np.maximum(X + self.shift, np.finfo(float).tiny)
        shape, scale = np.moveaxis(self.parameters, 2, 0)[:, :, None, :]
        log_density = xlogy(shape - 1, x) - x / scale - shape * np.log(scale) - gammaln(shape)
        return log_density + np.log(self.prior)[:, None, None]

    def posterior(self, X: Matrix) -> Matrix:
        """Probability of each class given each feature alone: classes x rows x features."""
        joint = self.log_joint(X)
        joint = np.exp(joint - joint.max(axis=0))
        return joint / joint.sum(axis=0)

    def decide(self, X: Matrix) -> Any:
        """Class of largest posterior for each row and feature."""
        return self.log_joint(X).argmax(axis=0)

    def errors(self, weights: Matrix) -> Matrix:
        """Weighted error of each feature."""
        return weights @ self._wrong

    def missed(self, feature: int, weights: Matrix) -> Any:
        """Which rows a feature gets wrong."""
        return self._wrong[:, feature]


def fit_gamma(X: Matrix) -> Matrix:
    """Maximum-likelihood (shape, scale) of each column: ln k - digamma(k) = ln(mean) - mean(ln), by Newton's method."""
    mean = X.mean(axis=0)
    mean = np.where(mean > 0, mean, 1.0)
    gap = np.log(mean) - np.log(np.maximum(X, np.finfo(float).tiny)).mean(axis=0)
    gap = np.maximum(gap, 0.5 / LARGEST_SHAPE)
    shape = (3 - gap + np.sqrt((gap - 3) ** 2 + 24 * gap)) / (12 * gap)
    for _ in range(30):
        # in ln k, where the equation is almost a straight line
        step = (np.log(shape) - digamma(shape) - gap) / (1 - shape * polygamma(1, shape))
        shape = shape * np.exp(np.clip(-step, -2, 2))
        if np.abs(step).max(initial=0.0) < 1e-14:
            break
    shape = np.clip(shape, None, LARGEST_SHAPE)
    return np.column_stack([shape, np.maximum(mean / shape, np.finfo(float).tiny)])


class StumpLearner:
    """The threshold on each feature with the least weighted error, each side given its heaviest class."""

    def __init__(self, X: Matrix, codes: Any) -> None:
        self.codes = codes
        self._order = np.argsort(X, axis=0, kind="stable")
        self._cut = np.diff(np.take_along_axis(X, self._order, axis=0), axis=0) > 0

    def _left(self, weights: Matrix, columns: Any) -> tuple[Matrix, Matrix]:
        """Class weights up to each cut (classes x cuts x features) and in all (classes)."""
        hot = np.equal.outer(np.arange(int(self.codes.max()) + 1), self.codes) * weights
        return np.cumsum(hot[:, self._order[:, columns]], axis=1)[:, :-1], hot.sum(axis=1)

    def _right(self, weights: Matrix, columns: Any) -> Matrix:
        """Weight that each cut gets right; nothing between equal values."""
        left, total = self._left(weights, columns)
        right = left.max(axis=0) + (total[:, None, None] - left).max(axis=0)
        return np.where(self._cut[:, columns], right, 0.0)

    def errors(self, weights: Matrix) -> Matrix:
        """Weighted error of each feature at its best threshold."""
        parts = np.array_split(np.arange(self._order.shape[1]), max(1, self._order.size // 500_000))
        return np.concatenate([1.0 - self._right(weights, part).max(axis=0, initial=0.0) for part in parts])

    def missed(self, feature: int, weights: Matrix) -> Any:
        """Which rows the best threshold of a feature gets wrong."""
        cut = int(self._right(weights, [feature])[:, 0].argmax())
        left, total = self._left(weights, [feature])
        below = np.zeros(len(self.codes), dtype=bool)
        below[self._order[: cut + 1, feature]] = True
        side = left[:, cut, 0]
        return np.where(below, side.argmax(), (total - side).argmax()) != self.codes


LEARNERS: dict[str, Any] = {"gamma": GammaLearner, "stump": StumpLearner}


def read_labels(y: Any, n_samples: int) -> tuple[Any, Any]:
    """Classes in order, and the number of each row's class, -1 where unknown (-1, None or NaN); two or more of each."""
    import pandas as pd

    y = pd.Series(np.asarray(y, dtype=object).ravel())
    if len(y) != n_samples:
        raise InputError(
            f"{len(y)} labels came for {n_samples} samples. Give one label for each row of X, -1 where unknown."
        )
    unknown = np.array([value is None or value != value or _is_minus_one(value) for value in y])
    if unknown.all():
        raise InputError(
            "no labelled sample came: every label is -1 or missing. Give some labels, at least two classes."
        )
    known = np.array(y[~unknown].tolist())
    if known.dtype.kind == "f" and not (known == np.round(known)).all():
        raise InputError(
            "Unknown label type: continuous values came as labels; classes are wanted. Cut them into classes."
        )
    names, codes = np.unique(known, return_inverse=True)
    if len(names) < 2:
        raise InputError(f"only one class came among the labelled samples ({names[0]}); at least two are wanted.")
    counts = np.bincount(codes)
    if counts.min() < 2:
        lonely = ", ".join(str(name) for name in names[counts < 2][:5])
        raise InputError(f"a class with a single sample came ({lonely}). Merge it with another class, or drop it.")
    every = np.full(n_samples, -1)
    every[~unknown] = codes
    return names, every


def _is_minus_one(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool) and bool(value == -1)


def _dense(X: Any) -> Matrix:
    return X.toarray() if sparse.issparse(X) else X
