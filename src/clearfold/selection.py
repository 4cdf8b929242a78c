"""Filters to compare with, how stable a selection is, and a selector for pipelines.

A filter gives one value for each feature, finite and never negative: larger is better, a constant one gets 0.
X is an array, a DataFrame or a sparse matrix (made dense block by block); y a label for each row.
Rows labelled -1 are unlabelled and left out, unless -1 is one of only two labels and so has to be a class.
A y with fractions is an outcome: `correlation`, `mrmr` and `forest` take one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import check_X_y
from sklearn.utils.validation import check_is_fitted, validate_data

from clearfold.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

Values: TypeAlias = NDArray[np.float64]
Table: TypeAlias = "ArrayLike | pd.DataFrame | sparse.sparray | sparse.spmatrix"
Labels: TypeAlias = "ArrayLike | pd.Series[Any]"
Sets: TypeAlias = "Sequence[Iterable[Hashable]] | NDArray[Any]"

VARIANCE_FLOOR = 1e-12
"""A variance within classes counts as at least this share of the total, so that no value is infinite."""
REDUNDANCY_FLOOR = 1e-3
"""A mean correlation counts as at least this much, so that relevance is never divided by about nothing."""
NORMAL_975 = 1.959963984540054
"""Half width of a 95 % interval in standard errors."""
BLOCK = 1024
"""Columns worked on at a time."""


# ---------------------------------------------------------------------------------------------------- filters


def welch_t(X: Table, y: Labels) -> Values:
    """|m1 - m2| / sqrt(v1/n1 + v2/n2); for more classes the square root of Welch's F, the same for two."""
    X, codes, names = _labelled(X, y)
    alone = names[np.bincount(codes) < 2]
    if alone.size:
        raise InputError(
            f"class {alone[0]!r} has one sample; Welch's t needs two or more in each class: "
            "add samples, drop the class, or use 'gini' or 'fisher'"
        )
    return _by_block(X, lambda x: np.sqrt(_welch_f(_Moments.of(x, codes))))


def t_pooled(X: Table, y: Labels) -> Values:
    """|m1 - m2| / sqrt(v/n1 + v/n2), v pooled; for more classes the square root of the F of all means."""
    X, codes, names = _labelled(X, y)
    return np.sqrt(_between_by_within(X, codes) * (len(codes) - len(names)) / (len(names) - 1))


def fisher(X: Table, y: Labels) -> Values:
    """(m1 - m2)^2 / (v1 + v2), variances divided by n; for more than two classes `fisher_general`."""
    X, codes, names = _labelled(X, y)
    if len(names) > 2:
        return _between_by_within(X, codes)
    return _by_block(X, lambda x: _fisher_two(_Moments.of(x, codes)))


def fisher_general(X: Table, y: Labels) -> Values:
    """sum_c n_c (m_c - m)^2 / sum_c n_c v_c: the sum of squares between classes over the one within them."""
    X, codes, _ = _labelled(X, y)
    return _between_by_within(X, codes)


def gini(X: Table, y: Labels) -> Values:
    """max over thresholds of G - (n_L G_L + n_R G_R) / n, G = 1 - sum_c p_c^2: the best single split."""
    X, codes, names = _labelled(X, y)
    return _by_block(X, lambda x: _best_split(x, codes, len(names)))


def correlation(X: Table, y: Labels) -> Values:
    """|corr(x_j, y)| with an outcome (here -1 is a number) or with two classes."""
    X, y = _checked(X, y)
    return _correlation(X, _as_outcome(y))


def mrmr(X: Table, y: Labels, *, n_features: int = 50) -> Values:
    """Relevance over redundancy, greedily: F / mean |corr| with those chosen (Ding and Peng 2005, FCQ).

    F is that of the analysis of variance, or of the correlation when y is an outcome. The values give the
    ranking and no more: the first feature chosen gets `n_features`, the last 1, the others less by their F.
    Correlations need all columns: here sparse X becomes dense as a whole.
    """
    X, y = _checked(X, y)
    if _is_outcome(y):
        squared = _correlation(X, _as_outcome(y)) ** 2
        relevance = squared / np.maximum(1 - squared, VARIANCE_FLOOR)
    else:
        X, codes, _ = _labelled(X, y)
        relevance = _between_by_within(X, codes)
    chosen = _greedy(relevance, _unit_columns(X), n_features)
    values = relevance / (2 * relevance.max() or 1.0)
    values[chosen] = np.arange(len(chosen), 0, -1)
    return values


def forest(
    X: Table, y: Labels, *, n_trees: int = 100, random_state: int | RandomState | None = None
) -> Values:
    """Mean decrease in impurity over a random forest (of variance, when y is an outcome); sums to 1."""
    X, y = _checked(X, y)
    if _is_outcome(y):
        trees = RandomForestRegressor(n_estimators=n_trees, max_features="sqrt", random_state=random_state)
        return np.asarray(trees.fit(X, y).feature_importances_, dtype=float)
    X, codes, _ = _labelled(X, y)
    trees = RandomForestClassifier(n_estimators=n_trees, random_state=random_state)
    return np.asarray(trees.fit(X, codes).feature_importances_, dtype=float)


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
    order = np.argsort(-_steady(np.asarray(values, dtype=float)), kind="stable")
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(1, len(order) + 1)
    return ranks


# -------------------------------------------------------------------------------------------------- stability


@dataclass(frozen=True)
class Stability:
    """How far the rounds agree on which features to select; intervals are 95 %."""

    jaccard: float
    jaccard_chance: float
    nogueira: float
    ci_low: float
    ci_high: float
    n_rounds: int
    n_selected: float
    n_features: int

    def __str__(self) -> str:
        return (
            f"{self.n_rounds} rounds, {self.n_selected:g} of {self.n_features} features selected\n"
            f"Jaccard  {self.jaccard:.3f} (chance {self.jaccard_chance:.3f})\n"
            f"Nogueira {self.nogueira:.3f} (95 % interval {self.ci_low:.3f} to {self.ci_high:.3f}, chance 0)"
        )

    def to_frame(self) -> pd.DataFrame:
        """One row, one column for each value."""
        import pandas as pd

        return pd.DataFrame([asdict(self)])


def stability(selections: ArrayLike) -> Stability:
    """Jaccard and Nogueira's stability of a boolean table: a row for each round, a column for each feature.

    >>> print(stability([[1, 1, 0, 0, 0], [1, 0, 1, 0, 0], [1, 1, 0, 0, 0]]))
    3 rounds, 2 of 5 features selected
    Jaccard  0.556 (chance 0.250)
    Nogueira 0.444 (95 % interval 0.148 to 0.741, chance 0)
    """
    chosen = _selections(np.asarray(selections))
    low, high = _interval(chosen)
    sizes = chosen.sum(axis=1)
    return Stability(
        jaccard=_mean_of_pairs(_overlap(chosen @ chosen.T, sizes)),
        jaccard_chance=_mean_of_pairs(_overlap(np.outer(sizes, sizes) / chosen.shape[1], sizes)),
        nogueira=_phi(chosen),
        ci_low=low,
        ci_high=high,
        n_rounds=len(chosen),
        n_selected=float(sizes.mean()),
        n_features=chosen.shape[1],
    )


def jaccard(a: Iterable[Hashable], b: Iterable[Hashable]) -> float:
    """|a and b| / |a or b|; 1 for two empty sets, which are equal.

    >>> jaccard(["area", "contrast"], ["area", "entropy", "contrast"])
    0.6666666666666666
    """
    first, second = set(a), set(b)
    return len(first & second) / len(first | second) if first or second else 1.0


def jaccard_matrix(sets: Sets) -> Values:
    """Jaccard of every pair of rounds; `sets` holds names or indices for each round, or a boolean table."""
    chosen = _indicator(sets)
    return _overlap(chosen @ chosen.T, chosen.sum(axis=1))


def mean_jaccard(sets: Sets) -> float:
    """Mean Jaccard over all pairs of rounds; by chance about k/(2m - k) for k of m features.

    That chance level is expected common over expected union, a little below the expected Jaccard itself:
    .0526 against .0579 for 5 of 50 features.
    """
    return _mean_of_pairs(jaccard_matrix(sets))


def nogueira(sets: Sets, n_features: int) -> float:
    """1 - mean_f s_f^2 / (k/m (1 - k/m)), s_f^2 the unbiased variance of selecting f: 0 by chance, 1 at best.

    Nogueira, Sechidis and Brown (2018), definition 4. Not a number when every round selects all or nothing.
    """
    return _phi(_indicator(sets, n_features))


def nogueira_interval(sets: Sets, n_features: int) -> tuple[float, float]:
    """95 % interval of `nogueira` by its asymptotic variance (corollary 9 of the paper), cut at 1.

    It speaks of rounds that are independent draws, and needs many: measured with some of 50 features favoured
    it covers .70 at 5 rounds, .84 at 10, .93 at 50, .94 at 100. At chance, where the asymptotic variance is
    twice the true one, it covers .98 or more from 30 rounds on.
    """
    return _interval(_indicator(sets, n_features))


# --------------------------------------------------------------------------------------------------- selector


class FilterSelector(SelectorMixin, BaseEstimator):  # type: ignore[misc]
    """Keeps the `n_features_to_select` features of largest filter value.

    `filter` is a name in `FILTERS` or `OUTCOME_FILTERS`; `random_state` serves the forest. After `fit`:
    `importances_` (they sum to 1; all 0 if every feature is constant), `ranking_` (1 is best), `support_`.
    """

    def __init__(
        self,
        *,
        filter: str = "t",
        n_features_to_select: int = 10,
        random_state: int | RandomState | None = None,
    ) -> None:
        self.filter = filter
        self.n_features_to_select = n_features_to_select
        self.random_state = random_state

    def fit(self, X: Table, y: Labels) -> FilterSelector:
        """Learn which features to keep."""
        X, y = _checked(X, y, self)
        values = self._filter()(X, y)
        self.importances_ = values / (values.sum() or 1.0)
        self.ranking_ = ranking(values)
        self.support_ = self.ranking_ <= self.n_features_to_select
        return self

    def _filter(self) -> Callable[..., Values]:
        known = FILTERS | OUTCOME_FILTERS
        if self.filter not in known:
            raise InputError(f"filter is {self.filter!r}; wanted one of {', '.join(known)}")
        k, m = self.n_features_to_select, self.n_features_in_
        if not isinstance(k, int | np.integer) or not 1 <= k <= m:
            raise InputError(
                f"n_features_to_select is {k!r} and X has {m} feature(s); wanted 1 to {m}: lower it"
            )
        options: dict[str, dict[str, Any]] = {
            "mrmr": {"n_features": k},
            "forest": {"random_state": self.random_state},
        }
        return partial(known[self.filter], **options.get(self.filter, {}))

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self)
        return self.support_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        return tags


# --------------------------------------------------------------------------------------- one block of columns


@dataclass(frozen=True)
class _Moments:
    """For each class (row) and feature (column): count, mean, squares around it; and the total variance."""

    counts: Values
    means: Values
    squares: Values
    variance: Values

    @classmethod
    def of(cls, block: Values, codes: NDArray[np.intp]) -> _Moments:
        x = _levelled(block)
        parts = [x[codes == code] for code in range(int(codes.max()) + 1)]
        means = np.array([part.mean(axis=0) for part in parts])
        squares = np.array(
            [((part - mean) ** 2).sum(axis=0) for part, mean in zip(parts, means, strict=True)]
        )
        return cls(np.array([[float(len(part))] for part in parts]), means, squares, (x**2).mean(axis=0))

    def floored(self, variance: Values) -> Values:
        """A divisor: not below its floor, and 1 for a constant feature."""
        return np.where(self.variance > 0, np.maximum(variance, VARIANCE_FLOOR * self.variance), 1.0)


def _welch_f(of: _Moments) -> Values:
    """Welch (1951): F of means weighted by n_c / v_c."""
    weight = of.counts / of.floored(of.squares / (of.counts - 1))
    share = weight / weight.sum(axis=0)
    between = (weight * (of.means - (share * of.means).sum(axis=0)) ** 2).sum(axis=0)
    k = len(of.counts)
    spread = ((1 - share) ** 2 / (of.counts - 1)).sum(axis=0)
    return np.asarray(between / (k - 1) / (1 + 2 * (k - 2) / (k**2 - 1) * spread), dtype=float)


def _fisher_two(of: _Moments) -> Values:
    within = of.floored((of.squares / of.counts).sum(axis=0))
    return np.asarray((of.means[0] - of.means[1]) ** 2 / within, dtype=float)


def _between_by_within(X: Any, codes: NDArray[np.intp]) -> Values:
    def ratio(block: Values) -> Values:
        of = _Moments.of(block, codes)
        between = (of.counts * of.means**2).sum(axis=0)  # the means are around 0
        return np.asarray(between / len(codes) / of.floored(of.squares.sum(axis=0) / len(codes)), dtype=float)

    return _by_block(X, ratio)


def _best_split(x: Values, codes: NDArray[np.intp], n_classes: int) -> Values:
    """Class counts left of every threshold, for all columns at once; equal values are never split."""
    n = len(codes)
    order = np.argsort(x, axis=0, kind="stable")
    ordered = np.take_along_axis(x, order, axis=0)
    label = codes[order][:-1]
    left = np.arange(1, n)[:, None]
    purity = np.zeros(label.shape)
    for code, total in enumerate(np.bincount(codes, minlength=n_classes)):
        count = np.cumsum(label == code, axis=0)
        purity += count**2 / left + (total - count) ** 2 / (n - left)
    before = (np.bincount(codes) ** 2).sum() / n
    gain = np.where(ordered[1:] > ordered[:-1], purity - before, 0.0) / n
    return np.asarray(np.maximum(gain.max(axis=0), 0.0), dtype=float)


def _correlation(X: Any, outcome: Values) -> Values:
    target = _unit(outcome[:, None])[:, 0]
    return _by_block(X, lambda x: np.minimum(np.abs(target @ _unit(x)), 1.0))


def _greedy(relevance: Values, unit: Values, n_features: int) -> list[int]:
    """Indices in the order chosen: one matrix-vector product for each."""
    chosen: list[int] = []
    redundancy = np.zeros(len(relevance))
    gain = relevance
    for step in range(1, 1 + min(n_features, int(np.count_nonzero(relevance)))):
        chosen.append(int(np.argmax(_steady(gain))))
        redundancy += np.abs(unit[:, chosen[-1]] @ unit)
        gain = relevance / np.maximum(redundancy / step, REDUNDANCY_FLOOR)
        gain[chosen] = -1.0
    return chosen


def _levelled(block: Values) -> Values:
    """Columns around 0, a constant one exactly 0; scaled by powers of two, so that squares stay in range."""
    x = _scaled(block)
    x = _scaled(x - x[0])
    return np.asarray(x - x.mean(axis=0), dtype=float)


def _scaled(block: Values) -> Values:
    _, exponent = np.frexp(np.abs(block).max(axis=0))
    return np.asarray(np.ldexp(block, -exponent), dtype=float)


def _unit(block: Values) -> Values:
    x = _levelled(block)
    length = np.sqrt((x**2).sum(axis=0))
    return np.asarray(x / np.where(length > 0, length, 1.0), dtype=float)


def _steady(values: Values) -> Values:
    """Values that differ by rounding alone made equal: 12 digits of the mantissa."""
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.round(mantissa, 12), exponent)


def _blocks(X: Any) -> Iterable[Values]:
    """Dense blocks of columns."""
    dense = not sparse.issparse(X)
    columns = X if dense else sparse.csc_array(X)
    for start in range(0, X.shape[1], BLOCK):
        block = columns[:, start : start + BLOCK]
        yield np.ascontiguousarray(block if dense else block.toarray())


def _by_block(X: Any, function: Callable[[Values], Values]) -> Values:
    return np.concatenate([function(block) for block in _blocks(X)])


def _unit_columns(X: Any) -> Values:
    return np.hstack([_unit(block) for block in _blocks(X)])


# ------------------------------------------------------------------------------------------------- the border


def _checked(X: Any, y: Any, estimator: BaseEstimator | None = None) -> tuple[Any, NDArray[Any]]:
    """Finite numbers and a label or outcome for each row; an estimator remembers the features' names."""
    rules = {"accept_sparse": ["csr", "csc"], "dtype": np.float64}
    try:
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
        raise InputError(
            f"y has one value, {names[0]!r}, for {len(y)} sample(s) (one class); wanted two or more"
        )
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
        raise InputError(
            "y mixes kinds of labels, or some are missing; wanted one kind: drop the rest"
        ) from error


def _labelled(X: Any, y: Any) -> tuple[Any, NDArray[np.intp], NDArray[Any]]:
    """X, the class of each row as 0, 1, ..., and the names of the classes."""
    X, y = _checked(X, y)
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


# --------------------------------------------------------------------------------------- tables of yes and no


def _selections(table: NDArray[Any]) -> Values:
    """Rounds x features as 0 and 1."""
    if table.ndim != 2 or len(table) < 2 or not table.shape[1] or not np.isin(table, (0, 1)).all():
        raise InputError(
            f"selections of shape {table.shape} and type {table.dtype} came; wanted True and False, "
            "a row for each of two or more rounds, a column for each feature"
        )
    return table.astype(float)


def _indicator(sets: Sets, n_features: int | None = None) -> Values:
    """The sets as 0 and 1; which column is whose does not matter to any measure here."""
    if isinstance(sets, np.ndarray) and sets.dtype == bool:
        if n_features not in (None, sets.shape[-1]):
            raise InputError(
                f"n_features is {n_features} and the table has {sets.shape[-1]} columns; wanted the same"
            )
        return _selections(sets)
    rounds = [list(names) for names in sets]
    if any(len(set(names)) < len(names) for names in rounds):
        raise InputError(
            "a set names a feature twice; wanted each once (a table of 0 and 1: make it boolean)"
        )
    column = {name: index for index, name in enumerate(dict.fromkeys(chain.from_iterable(rounds)))}
    if n_features is not None and n_features < len(column):
        raise InputError(f"n_features is {n_features} but the sets name {len(column)}; wanted all there were")
    table = np.zeros((len(rounds), max(n_features or 0, len(column), 1)), dtype=bool)
    for row, names in zip(table, rounds, strict=True):
        row[[column[name] for name in names]] = True
    return _selections(table)


def _overlap(common: Values, sizes: Values) -> Values:
    """common / union for every pair, 1 where both are empty."""
    union = sizes[:, None] + sizes - common
    return np.divide(common, union, out=np.ones_like(union), where=union > 0)


def _mean_of_pairs(matrix: Values) -> float:
    n = len(matrix)
    return float((matrix.sum() - np.trace(matrix)) / (n * (n - 1)))


def _phi(chosen: Values) -> float:
    share = chosen.mean()
    if share in (0, 1):
        return float("nan")
    return float(1 - chosen.var(axis=0, ddof=1).mean() / (share * (1 - share)))


def _interval(chosen: Values) -> tuple[float, float]:
    """phi +- 1.96 sqrt(4/M^2 sum_i (phi_i - mean phi)^2), phi_i the part of round i (theorem 7)."""
    phi, share = _phi(chosen), chosen.mean()
    if np.isnan(phi):
        return phi, phi
    size = chosen.mean(axis=1)
    agreement = (chosen * chosen.mean(axis=0)).mean(axis=1) - size * share
    part = (agreement + phi / 2 * (2 * size * share - size - share + 1)) / (share * (1 - share))
    half = float(NORMAL_975 * 2 * part.std() / np.sqrt(len(chosen)))
    return phi - half, min(1.0, phi + half)
