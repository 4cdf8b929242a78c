"""One value for each feature, finite and never negative: larger is better, a constant one gets 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.utils import check_X_y
from sklearn.utils.validation import validate_data

from clearfold.errors import InputError
from clearfold.selection.columns import (
    VARIANCE_FLOOR,
    Moments,
    Values,
    best_split,
    between_by_within,
    by_block,
    correlation_with,
    fisher_two,
    orders,
    relevant_first,
    steady,
    unit_columns,
    welch_f,
)

if TYPE_CHECKING:
    import pandas as pd

Table: TypeAlias = "ArrayLike | pd.DataFrame | sparse.sparray | sparse.spmatrix"
Labels: TypeAlias = "ArrayLike | pd.Series[Any]"


def welch_t(X: Table, y: Labels) -> Values:
    """|m1 - m2| / sqrt(v1/n1 + v2/n2); for more classes the square root of Welch's F, the same for two."""
    X, codes, names = _labelled(X, y)
    alone = names[np.bincount(codes) < 2]
    if alone.size:
        raise InputError(
            f"class {alone[0]!r} has one sample; Welch's t needs two or more in each class: "
            "add samples, drop the class, or use 'gini' or 'fisher'"
        )
    return by_block(X, lambda x: np.sqrt(welch_f(Moments.of(x, codes))))


def t_pooled(X: Table, y: Labels) -> Values:
    """|m1 - m2| / sqrt(v/n1 + v/n2), v pooled; for more classes the square root of the F of all means."""
    X, codes, names = _labelled(X, y)
    return np.sqrt(between_by_within(X, codes) * (len(codes) - len(names)) / (len(names) - 1))


def fisher(X: Table, y: Labels) -> Values:
    """(m1 - m2)^2 / (v1 + v2), variances divided by n; for more than two classes `fisher_general`."""
    X, codes, names = _labelled(X, y)
    if len(names) > 2:
        return between_by_within(X, codes)
    return by_block(X, lambda x: fisher_two(Moments.of(x, codes)))


def fisher_general(X: Table, y: Labels) -> Values:
    """sum_c n_c (m_c - m)^2 / sum_c n_c v_c: the sum of squares between classes over the one within them."""
    X, codes, _ = _labelled(X, y)
    return between_by_within(X, codes)


def gini(X: Table, y: Labels) -> Values:
    """max over thresholds of G - (n_L G_L + n_R G_R) / n, G = 1 - sum_c p_c^2: the best single split."""
    X, codes, names = _labelled(X, y)
    return by_block(X, lambda x: best_split(x, codes, len(names)))


def correlation(X: Table, y: Labels) -> Values:
    """|corr(x_j, y)| with an outcome (here -1 is a number) or with two classes."""
    X, y = checked(X, y)
    return correlation_with(X, _as_outcome(y))


def mrmr(X: Table, y: Labels, *, n_features: int = 50) -> Values:
    """Relevance over redundancy, greedily: F / mean |corr| with those chosen (Ding and Peng 2005, FCQ).

    F is that of the analysis of variance, or of the correlation when y is an outcome. The values give the
    ranking and no more: the first feature chosen gets `n_features`, the last 1, the others less by their F.
    Correlations need all columns: here sparse X becomes dense as a whole.
    """
    X, y = checked(X, y)
    if _is_outcome(y):
        squared = correlation_with(X, _as_outcome(y)) ** 2
        relevance = squared / np.maximum(1 - squared, VARIANCE_FLOOR)
    else:
        X, codes, _ = _labelled(X, y)
        relevance = between_by_within(X, codes)
    chosen = relevant_first(relevance, unit_columns(X), n_features)
    values = relevance / (2 * relevance.max() or 1.0)
    values[chosen] = np.arange(len(chosen), 0, -1)
    return values


def forest(X: Table, y: Labels, *, n_trees: int = 100, random_state: int | RandomState | None = None) -> Values:
    """Mean decrease in impurity over a random forest (of variance, when y is an outcome); sums to 1.

    Trees get the order of the values, which is all they use: as single floats, large ones would overflow and near ones
    be equal. Here sparse X becomes dense as a whole.
    """
    X, y = checked(X, y)
    if _is_outcome(y):
        trees = RandomForestRegressor(n_estimators=n_trees, max_features="sqrt", random_state=random_state)
        return np.asarray(trees.fit(orders(X), y).feature_importances_, dtype=float)
    X, codes, _ = _labelled(X, y)
    trees = RandomForestClassifier(n_estimators=n_trees, random_state=random_state)
    return np.asarray(trees.fit(orders(X), codes).feature_importances_, dtype=float)


FILTERS: dict[str, Callable[..., Values]] = {
    "t": welch_t,
    "fisher": fisher,
    "gini": gini,
    "mrmr": mrmr,
    "forest": forest,
}
"""By name, for labels."""

OUTCOME_FILTERS: dict[str, Callable[..., Values]] = {
    "correlation": correlation,
    "mrmr": mrmr,
    "forest": forest,
}
"""By name, for an outcome."""


def ranking(values: ArrayLike) -> NDArray[np.int64]:
    """Rank of each feature, 1 for the largest value; equal ones (up to rounding) by lowest index."""
    order = np.argsort(-steady(np.asarray(values, dtype=float)), kind="stable")
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(1, len(order) + 1)
    return ranks


# The border ------------------------------------------------------------------------------------------------


def checked(X: Any, y: Any, estimator: BaseEstimator | None = None) -> tuple[Any, NDArray[Any]]:
    """Finite numbers and a label or outcome for each row; an estimator remembers the features' names."""
    rules = {"accept_sparse": ["csr", "csc"], "dtype": np.float64}
    try:
        with np.errstate(invalid="ignore"):  # to find what is not finite, scikit-learn adds up numbers of any size
            X, y = validate_data(estimator, X, y, **rules) if estimator else check_X_y(X, y, **rules)
    except ValueError as error:
        raise InputError(
            f"X and y cannot be used: {error}\nWanted: finite numbers, samples in rows, and one label or "
            "outcome for each. Impute or drop what is missing."
        ) from error
    return X, np.asarray(y)


def _is_outcome(y: NDArray[Any]) -> bool:
    return bool(y.dtype.kind == "f" and (y != np.rint(y)).any())


def _as_outcome(y: NDArray[Any]) -> Values:
    """Numbers that differ; two classes become 0 and 1."""
    names, codes = _distinct(y)
    if len(names) < 2:
        raise InputError(f"y has one value, {names[0]!r}, for {len(y)} sample(s) (one class); wanted two or more")
    if len(names) == 2:
        return codes.astype(float)
    try:
        return y.astype(float)
    except ValueError as error:
        raise InputError(
            f"y has {len(names)} classes, {names[0]!r}, ...; wanted numbers or two classes: use 't' or 'gini'"
        ) from error


def _distinct(y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """The names of the classes and the class of each row."""
    try:
        return np.unique(y, return_inverse=True)
    except TypeError as error:
        raise InputError("y mixes kinds of labels, or some are missing; wanted one kind: drop the rest") from error


def _labelled(X: Any, y: Any) -> tuple[Any, NDArray[np.intp], NDArray[Any]]:
    """X, the class of each row as 0, 1, ..., and the names of the classes."""
    X, y = checked(X, y)
    if _is_outcome(y):
        raise InputError(
            f"y is an outcome ({y[0]}, ...); this filter wants labels: use {', '.join(OUTCOME_FILTERS)}, "
            "or cut y into classes"
        )
    names, codes = _distinct(y)
    unlabelled = [name == -1 for name in names.tolist()]
    if len(names) > 2 and any(unlabelled):
        known = codes != unlabelled.index(True)
        return _labelled(X[known], y[known])
    if len(names) < 2:
        raise InputError(f"y has one class, {names[0]!r}; wanted two or more: add samples of another class")
    if len(names) == len(y):
        raise InputError(
            f"y has {len(y)} classes for {len(y)} samples; wanted labels that repeat: is it an identifier?"
        )
    return X, codes, names
