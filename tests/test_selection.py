"""Filters give the numbers they define, however the data are written; stability is calibrated."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse, stats
from sklearn.datasets import make_classification
from sklearn.feature_selection import f_classif
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from clearfold import selection
from clearfold.errors import InputError
from clearfold.selection import FILTERS, OUTCOME_FILTERS, FilterSelector, columns, stability

CASES = ["base_n40_m12", "wide_n30_m200", "disconnected_constfeat_n36_m8", "duplicates_n26_m12"]
EXACT = {
    "t_welch": selection.welch_t,
    "t_pooled": selection.t_pooled,
    "fisher": selection.fisher,
    "fisher_general": selection.fisher_general,
    "gini": selection.gini,
}
SEEDED: dict[str, Callable[..., Any]] = {
    **{name: function for name, function in FILTERS.items() if name != "forest"},
    "t_pooled": selection.t_pooled,
    "fisher_general": selection.fisher_general,
    "forest": lambda X, y: selection.forest(X, y, n_trees=20, random_state=0),
}
seeds = st.integers(0, 10_000)


def sample(seed: int = 0, n: int = 30, m: int = 7, classes: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Every class at least four times; features of many scales; feature 0 follows the class."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % classes)
    X = rng.normal(size=(n, m)) * 10.0 ** rng.integers(-3, 4, size=m)
    X[:, 0] += y * np.abs(X[:, 0]).mean()
    return X, y


# --- the numbers


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", EXACT)
def test_filters_give_the_reference_numbers(vectors: Path, case: str, name: str) -> None:
    expected = np.load(vectors / "importance" / f"{case}.npz")
    values = EXACT[name](expected["X"], expected["y"])
    np.testing.assert_allclose(values, expected[name], rtol=1e-9, atol=1e-12)


def test_stability_gives_the_reference_numbers(vectors: Path) -> None:
    expected = np.load(vectors / "importance" / "stability.npz")
    sets, m = expected["sets"], int(expected["m"])
    np.testing.assert_allclose(selection.jaccard_matrix(sets), expected["jaccard"], rtol=1e-12)
    assert selection.mean_jaccard(sets) == pytest.approx(float(expected["mean_pairwise"]), rel=1e-12)
    assert selection.nogueira(sets, m) == pytest.approx(float(expected["nogueira"]), rel=1e-12)


@given(seeds)
@settings(max_examples=20, deadline=None)
def test_t_is_scipys(seed: int) -> None:
    X, y = sample(seed, n=23)
    welch = stats.ttest_ind(X[y == 0], X[y == 1], equal_var=False).statistic
    pooled = stats.ttest_ind(X[y == 0], X[y == 1], equal_var=True).statistic
    np.testing.assert_allclose(selection.welch_t(X, y), np.abs(welch), rtol=1e-9)
    np.testing.assert_allclose(selection.t_pooled(X, y), np.abs(pooled), rtol=1e-9)


@given(seeds)
@settings(max_examples=20, deadline=None)
def test_many_classes_pooled_t_is_the_root_of_the_analysis_of_variance(seed: int) -> None:
    X, y = sample(seed, classes=4)
    np.testing.assert_allclose(selection.t_pooled(X, y) ** 2, f_classif(X, y)[0], rtol=1e-8)
    np.testing.assert_array_equal(selection.fisher(X, y), selection.fisher_general(X, y))


def test_many_classes_welch_t_is_the_root_of_welchs_f() -> None:
    X, y = sample(3, n=31, classes=3)
    groups = [X[y == code, 2] for code in range(3)]
    n = np.array([len(group) for group in groups])
    mean = np.array([group.mean() for group in groups])
    weight = n / np.array([group.var(ddof=1) for group in groups])
    centre = np.average(mean, weights=weight)
    correction = np.sum((1 - weight / weight.sum()) ** 2 / (n - 1))
    f = np.sum(weight * (mean - centre) ** 2) / 2 / (1 + 2 * 1 / 8 * correction)
    assert selection.welch_t(X, y)[2] ** 2 == pytest.approx(f, rel=1e-9)


@given(seeds, st.integers(2, 4), st.booleans())
@settings(max_examples=20, deadline=None)
def test_gini_is_a_tree_of_one_split(seed: int, classes: int, coarse: bool) -> None:
    X, y = sample(seed, classes=classes)
    X = (np.round(X / X.std(axis=0)) if coarse else X).astype(np.float32).astype(float)  # trees use 32 bits
    np.testing.assert_allclose(selection.gini(X, y), [one_split(x, y) for x in X.T], atol=1e-12)


def one_split(x: np.ndarray, y: np.ndarray) -> float:
    tree = DecisionTreeClassifier(max_depth=1).fit(x[:, None], y).tree_
    if tree.node_count == 1:
        return 0.0
    children = (tree.weighted_n_node_samples[1:] * tree.impurity[1:]).sum() / len(y)
    return float(tree.impurity[0] - children)


def test_correlation_is_numpys_and_orders_two_classes_as_pooled_t() -> None:
    X, y = sample(5)
    outcome = X[:, 1] + X[:, 4]
    expected = [abs(np.corrcoef(x, outcome)[0, 1]) for x in X.T]
    np.testing.assert_allclose(selection.correlation(X, outcome), expected, rtol=1e-9)
    ranks = selection.ranking(selection.correlation(X, y))
    np.testing.assert_array_equal(ranks, selection.ranking(selection.t_pooled(X, y)))


def test_mrmr_chooses_as_its_definition_does() -> None:
    X, y = make_classification(80, 25, n_informative=5, n_redundant=8, random_state=3)
    relevance, corr = f_classif(X, y)[0], np.abs(np.corrcoef(X.T))
    chosen = [int(np.argmax(relevance))]
    while len(chosen) < 10:
        rest = [j for j in range(25) if j not in chosen]
        chosen.append(max(rest, key=lambda j: relevance[j] / max(corr[j, chosen].mean(), 1e-3)))
    values = selection.mrmr(X, y, n_features=10)
    np.testing.assert_array_equal(np.argsort(-values)[:10], chosen)
    np.testing.assert_array_equal(values[chosen], np.arange(10, 0, -1))
    assert np.delete(values, chosen).max() < 1


def test_mrmr_passes_over_a_copy() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    X = rng.normal(size=(60, 3)) + np.outer(y, [2.0, 0.0, 1.0])
    X[:, 1] = X[:, 0] * 5 - 3
    assert selection.ranking(selection.welch_t(X, y)).tolist() == [1, 2, 3]
    assert selection.ranking(selection.mrmr(X, y)).tolist() == [1, 3, 2]


@pytest.mark.parametrize("name", OUTCOME_FILTERS)
def test_outcome_filters_find_what_made_the_outcome(name: str) -> None:
    X, _ = sample(2, n=60)
    X /= X.std(axis=0)
    outcome = 2 * X[:, 3] + 0.3 * X[:, 5]
    options = {"random_state": 0} if name == "forest" else {}
    assert np.argmax(OUTCOME_FILTERS[name](X, outcome, **options)) == 3


# --- what must not matter


@pytest.mark.parametrize("name", [name for name in SEEDED if name != "forest"])
@given(seed=seeds, classes=st.integers(2, 4))
@settings(max_examples=15, deadline=None)
def test_rows_labels_units_and_columns_do_not_matter(name: str, seed: int, classes: int) -> None:
    X, y = sample(seed, classes=classes)
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(len(X)), rng.permutation(X.shape[1])
    units = rng.choice([-1, 1], X.shape[1]) * 10.0 ** rng.integers(-5, 5, X.shape[1])
    words = np.array(["d", "b", "c", "a"], dtype=object)[y]
    values = SEEDED[name](X, y)
    tolerance = {"rtol": 1e-7, "atol": 1e-10}
    np.testing.assert_allclose(SEEDED[name](X[rows], y[rows]), values, **tolerance)
    np.testing.assert_allclose(SEEDED[name](X, words), values, **tolerance)
    np.testing.assert_allclose(SEEDED[name](X, y + 7), values, **tolerance)
    np.testing.assert_allclose(SEEDED[name](X * units, y), values, **tolerance)
    np.testing.assert_allclose(SEEDED[name](X[:, columns], y), values[columns], **tolerance)


@pytest.mark.parametrize("name", SEEDED)
@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e30])
def test_values_are_finite_and_a_constant_feature_gets_0(name: str, scale: float) -> None:
    X, y = sample(1)
    X[:, 1], X[:, 2], X[:, 3], X[:, 4] = 0.1, y, y * 1e-3 + 5, 0.0  # constant, perfect, perfect, constant
    values = SEEDED[name](X * scale, y)
    assert np.isfinite(values).all()
    assert (values >= 0).all()
    assert values[1] == values[4] == 0


@pytest.mark.parametrize("name", SEEDED)
def test_nothing_but_constants_gives_0_and_no_warning(name: str) -> None:
    assert not SEEDED[name](np.full((8, 3), 0.1), np.arange(8) % 2).any()


@pytest.mark.parametrize("name", SEEDED)
@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csc_array, sparse.coo_array, pd.DataFrame])
def test_sparse_and_frames_give_what_arrays_give(
    name: str, kind: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "BLOCK", 3)
    X, y = sample(4)
    X[np.abs(X) < np.abs(X).mean(axis=0)] = 0
    np.testing.assert_allclose(SEEDED[name](kind(X), y), SEEDED[name](X, y), rtol=1e-12)


@pytest.mark.parametrize("name", SEEDED)
def test_unlabelled_rows_are_left_out_but_minus_one_and_one_are_classes(name: str) -> None:
    X, y = sample(6)
    partly = np.where(np.arange(len(y)) % 5 == 0, -1, y)
    known = partly != -1
    np.testing.assert_array_equal(SEEDED[name](X, partly), SEEDED[name](X[known], y[known]))
    np.testing.assert_array_equal(SEEDED[name](X, 2 * y - 1), SEEDED[name](X, y))


def test_ranking_gives_ties_to_the_lowest_index_also_up_to_rounding() -> None:
    assert selection.ranking([0.1, 0.3, 0.1 + 0.2, 0.3, 0.0]).tolist() == [4, 1, 2, 3, 5]
    X, y = sample(8, m=1)
    copies = X * 3.0 ** np.arange(-20, 20)
    for name in EXACT:
        assert selection.ranking(EXACT[name](copies, y)).tolist() == list(range(1, 41))


def test_forest_repeats_with_its_seed() -> None:
    X, y = sample(9)
    first, again = (selection.forest(X, y, random_state=3) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert first.sum() == pytest.approx(1)
    assert not np.array_equal(first, selection.forest(X, y, random_state=4))


# --- stability


def random_selections(rng: np.random.Generator, rounds: int, k: int, m: int) -> np.ndarray:
    return np.argsort(rng.random((rounds, m)), axis=1) < k


def test_equal_rounds_are_perfectly_stable() -> None:
    result = stability(np.tile([True, True, False, False, False], (6, 1)))
    assert (result.jaccard, result.nogueira, result.ci_low, result.ci_high) == (1, 1, 1, 1)
    assert (result.n_rounds, result.n_selected, result.n_features) == (6, 2, 5)
    assert result.jaccard_chance == pytest.approx(2 / (2 * 5 - 2))


@given(seeds)
@settings(max_examples=20, deadline=None)
def test_tables_and_sets_say_the_same(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = rng.random((5, 9)) < 0.4
    table[:, 0] = [True, False, False, False, False]
    sets = [np.flatnonzero(row).tolist() for row in table]
    names = [{f"shape.{index}" for index in chosen} for chosen in sets]
    result = stability(table)
    pairs = [selection.jaccard(a, b) for i, a in enumerate(sets) for b in sets[i + 1 :]]
    assert result.jaccard == pytest.approx(np.mean(pairs))
    for given_as in (table, sets, names):
        assert selection.mean_jaccard(given_as) == pytest.approx(result.jaccard)
        assert selection.nogueira(given_as, 9) == pytest.approx(result.nogueira)
        assert selection.nogueira_interval(given_as, 9) == pytest.approx((result.ci_low, result.ci_high))


@given(seeds)
@settings(max_examples=20, deadline=None)
def test_stability_ignores_the_order_of_rounds_and_features_and_stays_in_its_range(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = rng.random((6, 12)) < rng.uniform(0.1, 0.9, 12)
    table[0, :2] = [True, False]
    result = stability(table)
    shuffled = stability(table[rng.permutation(6)][:, rng.permutation(12)])
    assert list(vars(shuffled).values()) == pytest.approx(list(vars(result).values()))
    assert -1 / 5 - 1e-12 <= result.nogueira <= 1
    assert 0 <= result.jaccard <= 1
    assert result.ci_low <= result.nogueira <= result.ci_high <= 1


def test_the_variance_is_that_of_leaving_rounds_out() -> None:
    rng = np.random.default_rng(0)
    table = rng.random((400, 30)) < rng.uniform(0.05, 0.9, 30)
    result = stability(table)
    left_out = [selection.nogueira(np.delete(table, i, axis=0), 30) for i in range(400)]
    jackknife = np.sqrt(399 * np.var(left_out))
    assert (result.ci_high - result.ci_low) / 2 == pytest.approx(1.96 * jackknife, rel=0.02)


def test_random_rounds_are_at_chance_and_the_interval_covers_it() -> None:
    rng = np.random.default_rng(1)
    results = [stability(random_selections(rng, 50, 5, 50)) for _ in range(300)]
    assert np.mean([r.nogueira for r in results]) == pytest.approx(0, abs=0.002)
    common = np.arange(6)
    jaccard = np.sum(stats.hypergeom(50, 5, 5).pmf(common) * common / (10 - common))
    assert np.mean([r.jaccard for r in results]) == pytest.approx(jaccard, rel=0.02)
    assert results[0].jaccard_chance == pytest.approx(5 / (2 * 50 - 5))
    assert 0.9 < results[0].jaccard_chance / jaccard < 1  # a ratio of means: a little below the mean of ratios
    assert np.mean([r.ci_low <= 0 <= r.ci_high for r in results]) >= 0.95


def test_the_interval_covers_the_truth_when_features_are_favoured() -> None:
    rng = np.random.default_rng(2)
    p = np.repeat([0.9, 0.5, 0.03], [5, 5, 40])
    truth = 1 - np.mean(p * (1 - p)) / (p.mean() * (1 - p.mean()))
    results = [stability(rng.random((100, 50)) < p) for _ in range(400)]
    assert np.mean([r.nogueira for r in results]) == pytest.approx(truth, abs=0.005)
    assert np.mean([r.ci_low <= truth <= r.ci_high for r in results]) == pytest.approx(0.94, abs=0.03)


def test_rounds_of_all_or_nothing_have_no_corrected_stability() -> None:
    for table in (np.ones((3, 4), bool), np.zeros((3, 4), bool)):
        result = stability(table)
        assert (result.jaccard, result.jaccard_chance) == (1, 1)
        assert np.isnan([result.nogueira, result.ci_low, result.ci_high]).all()
    assert selection.jaccard([], []) == 1
    assert selection.jaccard([1], []) == 0


def test_stability_prints_itself_and_gives_a_frame() -> None:
    result = stability(random_selections(np.random.default_rng(0), 10, 3, 20))
    assert "10 rounds, 3 of 20 features selected" in str(result)
    assert "chance 0.081" in str(result)
    assert result.to_frame().loc[0].to_dict() == vars(result)


# --- the selector


@parametrize_with_checks(
    [
        FilterSelector(filter=name, n_features_to_select=1, random_state=0)
        for name in FILTERS | OUTCOME_FILTERS
        if name != "forest"
    ]
)
def test_selector_keeps_scikit_learns_contract(
    estimator: FilterSelector, check: Callable[[FilterSelector], None]
) -> None:
    check(estimator)


@pytest.mark.parametrize("name", FILTERS)
def test_selector_keeps_the_best_and_their_names(name: str) -> None:
    X, y = sample(7, n=60)
    frame = pd.DataFrame(X, columns=[f"texture.{j}" for j in range(7)], index=range(100, 160))
    chosen = FilterSelector(filter=name, n_features_to_select=3, random_state=0).fit(frame, y)
    assert chosen.importances_.sum() == pytest.approx(1)
    assert sorted(chosen.ranking_) == list(range(1, 8))
    np.testing.assert_array_equal(chosen.get_support(), chosen.ranking_ <= 3)
    np.testing.assert_array_equal(np.sort(chosen.importances_[chosen.support_]), np.sort(chosen.importances_)[-3:])
    kept = chosen.set_output(transform="pandas").transform(frame)
    pd.testing.assert_frame_equal(kept, frame[list(chosen.get_feature_names_out())])


def test_selector_works_in_pipelines_and_searches_and_does_not_leak() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    X = rng.normal(size=(80, 200))
    noise = make_pipeline(StandardScaler(), FilterSelector(n_features_to_select=5), LogisticRegression())
    assert cross_val_score(noise, X, y, cv=5, scoring="roc_auc").mean() == pytest.approx(0.5, abs=0.15)
    X[:, 11] += 3 * y
    grid = {"filterselector__filter": list(FILTERS), "filterselector__n_features_to_select": [1, 3]}
    search = GridSearchCV(noise, grid, cv=3, scoring="roc_auc").fit(X, y)
    assert search.best_score_ > 0.95
    assert search.best_estimator_[1].ranking_[11] == 1


def test_selector_takes_an_outcome_and_sparse_data() -> None:
    X, _ = sample(2)
    chosen = FilterSelector(filter="correlation", n_features_to_select=1).fit(sparse.csr_array(X), X[:, 4])
    assert chosen.get_support(indices=True).tolist() == [4]


# --- what cannot be used


@pytest.mark.parametrize("name", SEEDED)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: (X, np.zeros_like(y)), "one class"),
        (lambda X, y: (X, np.arange(len(y))), "identifier"),
        (lambda X, y: (np.where(X[3, 2] == X, np.nan, X), y), "contains NaN"),
        (lambda X, y: (np.where(X[3, 2] == X, np.inf, X), y), "contains infinity"),
        (lambda X, y: (X, y[:-1]), "inconsistent numbers of samples"),
        (lambda X, y: (X[:0], y[:0]), "0 sample"),
        (lambda X, y: (X[:, :0], y), "0 feature"),
        (lambda X, y: (X[:, 0], y), "2D array"),
        (lambda X, y: (X, np.array([None, *["a", "b"] * (len(y) // 2)][: len(y)], dtype=object)), "missing"),
        (lambda X, y: (X, np.where(y == 1, np.nan, y)), "contains NaN"),
        (lambda X, y: (X, None), "y"),
    ],
)
def test_bad_input_is_named(name: str, change: Callable[..., Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SEEDED[name](*change(*sample()))


@pytest.mark.parametrize("name", ["t", "fisher", "gini", "t_pooled", "fisher_general"])
def test_an_outcome_is_refused_where_labels_are_wanted(name: str) -> None:
    X, _ = sample()
    with pytest.raises(InputError, match="wants labels: use correlation, mrmr, forest"):
        SEEDED[name](X, X[:, 0])


def test_a_class_of_one_sample_is_named() -> None:
    X, y = sample()
    words = np.where(np.arange(len(y)) == 4, "rare", np.where(y == 1, "a", "b"))
    with pytest.raises(InputError, match=r"'rare'.* has one sample"):
        selection.welch_t(X, words)
    assert np.isfinite(selection.gini(X, words)).all()


def test_correlation_refuses_many_classes_of_words_and_one_value() -> None:
    X, y = sample(classes=3)
    with pytest.raises(InputError, match="3 classes"):
        selection.correlation(X, np.array(["a", "b", "c"])[y])
    with pytest.raises(InputError, match="one value"):
        selection.correlation(X, np.ones(len(y)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_features_to_select": 8}, "is 8 and X has 7"),
        ({"n_features_to_select": 0}, "wanted 1 to 7"),
        ({"n_features_to_select": 0.5}, "is 0.5"),
        ({"filter": "chi2", "n_features_to_select": 1}, "'chi2'; wanted one of t, fisher, gini"),
    ],
)
def test_selector_refuses_what_it_cannot_select(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        FilterSelector(**arguments).fit(*sample())


@pytest.mark.parametrize(
    "table", [[[True, False]], [True, False], np.zeros((3, 0), bool), [[0, 2], [1, 0]], [["a"], ["b"]]]
)
def test_stability_refuses_what_is_no_table_of_rounds(table: Any) -> None:
    with pytest.raises(InputError, match="two or more rounds"):
        stability(table)


def test_sets_that_contradict_themselves_are_refused() -> None:
    with pytest.raises(InputError, match="twice"):
        selection.nogueira(np.array([[0, 1, 1], [1, 0, 1]]), 3)
    with pytest.raises(InputError, match="name 4"):
        selection.nogueira([[0, 1], [2, 3]], 3)
    with pytest.raises(InputError, match="3 columns"):
        selection.nogueira(np.eye(3, dtype=bool), 4)
    with pytest.raises(InputError, match="two or more rounds"):
        selection.mean_jaccard([[0, 1]])
