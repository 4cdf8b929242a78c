"""Numbers at the edge of what floating point can hold: a defined result or a clear refusal, never NaN, never a warning.

Warnings are errors in these tests, so that an overflow on the way is a failure even where the result looks right.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import clone

from archive_stores import FEATURES, frame_of
from clearfold import EmbeddingImportance, VoronoiSaliency, evaluate, selection
from clearfold.archive import Archive
from clearfold.embedding import (
    PCA,
    BeliefSpectralEmbedding,
    BoostedGraphEmbedding,
    BoostedMetric,
    GraphEmbedding,
    Isomap,
    KernelPCA,
    LaplacianEigenmap,
    LocallyLinearEmbedding,
)
from clearfold.embedding.locally_linear import barycentric
from clearfold.errors import ClearfoldError, ClearfoldWarning, InputError
from clearfold.importance import fine_importance, martingale_residuals
from clearfold.survival import CoxRisk, concordance, kaplan_meier, log_rank_z, risk_groups

EPS = float(np.finfo(float).eps)


def _plain(n: int = 40, m: int = 6) -> tuple[np.ndarray, np.ndarray]:
    y = np.arange(n) % 2
    X = np.random.default_rng(5).normal(size=(n, m))
    X[:, 0] += 2 * y
    return X, y


def _with(change: Callable[[np.ndarray], Any]) -> tuple[Any, np.ndarray]:
    X, y = _plain()
    return change(X), y


def _outlier(X: np.ndarray) -> np.ndarray:
    X[0, 0] = 1e300
    return X


def _minus_zero(X: np.ndarray) -> np.ndarray:
    X[::3] = -0.0
    return X


def _collinear(X: np.ndarray) -> np.ndarray:
    return np.column_stack([X[:, 0], X[:, 0] * (1 + 1e-9), X[:, 0] + 1e-9 * X[:, 1], X[:, 2], X[:, 2] - 1e-9 * X[:, 3]])


def _rare(count: int) -> tuple[np.ndarray, np.ndarray]:
    return np.random.default_rng(2).normal(size=(501, 4)), (np.arange(501) < count).astype(int)


UNITS = np.array([1.0, 1e-300, 1e300, 1e-310, 1e150, 1.0])
CASES: dict[str, Callable[[], tuple[Any, np.ndarray]]] = {
    "plain": lambda: _with(lambda X: X),
    "1e-310": lambda: _with(lambda X: X * 1e-310),
    "1e-300": lambda: _with(lambda X: X * 1e-300),
    "1e-200": lambda: _with(lambda X: X * 1e-200),
    "1e-150": lambda: _with(lambda X: X * 1e-150),
    "1e150": lambda: _with(lambda X: X * 1e150),
    "1e200": lambda: _with(lambda X: X * 1e200),
    "1e300": lambda: _with(lambda X: X * 1e300),
    "all units": lambda: _with(lambda X: X * UNITS),
    "smallest": lambda: _with(lambda X: np.sign(X) * 5e-324),
    "largest": lambda: _with(lambda X: X / np.abs(X).max() * 1.79e308),
    "outlier": lambda: _with(_outlier),
    "two samples": lambda: (_plain()[0][:2], np.array([0, 1])),
    "three samples": lambda: (_plain()[0][:3], np.array([0, 1, 1])),
    "four samples": lambda: (_plain()[0][:4], np.array([0, 1, 0, 1])),
    "one feature": lambda: _with(lambda X: X[:, :1]),
    "50,000 features": lambda: (np.random.default_rng(1).normal(size=(8, 50_000)), np.arange(8) % 2),
    "collinear": lambda: _with(_collinear),
    "copies": lambda: _with(lambda X: X[:, [0, 0, 0]]),
    "99 % duplicates": lambda: (_plain()[0][np.r_[np.zeros(198, int), 1, 2]], np.arange(200) % 2),
    "1 against 500": lambda: _rare(1),
    "2 against 499": lambda: _rare(2),
    "float32": lambda: _with(lambda X: X.astype(np.float32)),
    "int8": lambda: _with(lambda X: (20 * X).astype(np.int8)),
    "uint64": lambda: _with(lambda X: (np.abs(X) * 2**62).astype(np.uint64)),
    "bool": lambda: _with(lambda X: X > 0),
    "-0.0": lambda: _with(_minus_zero),
    "offset 1e12": lambda: _with(lambda X: X + 1e12),
    "offset 1e15": lambda: _with(lambda X: X + 1e15),
    "offset 1e300": lambda: _with(lambda X: X + 1e300),
}
ANY_UNIT = ("1e-310", "1e-300", "1e-200", "1e-150", "1e150", "1e200", "1e300", "all units", "float32")
"""The plain case in other units: what does not depend on them must not change."""


@pytest.fixture(autouse=True)
def _said_on_purpose() -> Any:
    """clearfold's own warnings are part of its answer; numpy's and everybody else's stay errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClearfoldWarning)
        yield


def attempted(work: Callable[[], Any]) -> Any:
    """What came out, or the words of a refusal; any other error is a failure."""
    try:
        return work()
    except ClearfoldError as error:
        refused = error
    assert len(str(refused)) > 20
    assert " nan" not in str(refused).lower()
    return refused


# Embeddings --------------------------------------------------------------------------------------------------

EMBEDDINGS: dict[str, Any] = {
    "PCA": PCA(n_components=1),
    "PCA of two": PCA(n_components=2),
    "KernelPCA": KernelPCA(n_components=2),
    "Isomap": Isomap(n_components=2, n_neighbors=3),
    "LaplacianEigenmap": LaplacianEigenmap(n_components=2, n_neighbors=3),
    "LocallyLinearEmbedding": LocallyLinearEmbedding(n_components=2, n_neighbors=3),
    "GraphEmbedding": GraphEmbedding(n_components=2),
    "GraphEmbedding mst": GraphEmbedding(n_components=2, neighborhood="mst"),
    "SSGE": GraphEmbedding(n_components=2),
    "BoostedGraphEmbedding": BoostedGraphEmbedding(n_components=2, n_features=2),
    "BoostedMetric": BoostedMetric(n_features=2),
    "BeliefSpectralEmbedding": BeliefSpectralEmbedding(n_trees=10, random_state=0),
}
LABELLED = ("SSGE", "BoostedGraphEmbedding", "BoostedMetric", "BeliefSpectralEmbedding")
SCALING = ("BoostedGraphEmbedding", "BoostedMetric", "BeliefSpectralEmbedding")
"""These bring features to one scale themselves."""


def _embedded(name: str, case: str) -> tuple[Any, np.ndarray]:
    X, y = CASES[case]()
    fitted = EMBEDDINGS[name].fit(X, y) if name in LABELLED else EMBEDDINGS[name].fit(X)
    return fitted, np.asarray(X, dtype=float)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", EMBEDDINGS)
def test_every_embedding_gives_finite_coordinates_or_refuses(name: str, case: str) -> None:
    done = attempted(lambda: _embedded(name, case))
    if isinstance(done, ClearfoldError):
        return
    fitted, X = done
    placed = fitted.transform(X)
    assert np.isfinite(placed).all()
    if not hasattr(fitted, "embedding_"):
        return
    assert np.isfinite(fitted.embedding_).all()
    assert np.ptp(fitted.embedding_, axis=0).min() > 0
    first = np.unique(X, axis=0, return_index=True)[1]  # of equal samples the first one's place is given
    size = np.abs(fitted.embedding_).max()
    rounding = 100 * EPS * np.abs(X).max() / np.ptp(X, axis=0).max()
    assert np.abs(placed - fitted.embedding_)[first].max() / size < 1e-6 + rounding


@pytest.mark.parametrize("scale", [2.0**-450, 2.0**450])
@pytest.mark.parametrize("name", EMBEDDINGS)
def test_the_unit_of_all_features_does_not_move_coordinates(name: str, scale: float) -> None:
    X, y = _plain(24)
    labels = [y] if name in LABELLED else []
    plain, other = (clone(EMBEDDINGS[name]).fit(table, *labels).transform(table) for table in (X, X * scale))
    grows = name in ("PCA", "PCA of two", "Isomap")
    np.testing.assert_allclose(other / (scale if grows else 1.0), plain, rtol=0, atol=1e-7 * np.abs(plain).max())


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_new_samples_are_placed_or_refused_however_far_they_are(name: str) -> None:
    X, y = _plain(24)
    fitted = clone(EMBEDDINGS[name]).fit(X, *([y] if name in LABELLED else []))
    for value in (1e300, -1e300, 5e-324):
        done = attempted(lambda value=value: fitted.transform(np.full((1, 6), value)))
        assert isinstance(done, ClearfoldError) or np.isfinite(done).all()


@pytest.mark.parametrize("embedding", [GraphEmbedding(n_components=2), BeliefSpectralEmbedding(n_trees=10)])
def test_an_archive_answers_or_refuses_queries_however_far_they_are(embedding: Any, tmp_path: Path) -> None:
    with Archive.open(tmp_path / "cases.clearfold") as archive:
        archive.add(frame_of(24))
        archive.fit(embedding)
        for value in (1e300, -1e300, 1e-310):
            answer = attempted(lambda value=value: archive.query(pd.Series(value, index=FEATURES), k=3))
            assert isinstance(answer, ClearfoldError) or np.isfinite([hit.distance for hit in answer.hits]).all()


def test_an_archive_of_principal_components_refuses_a_query_that_is_too_far(tmp_path: Path) -> None:
    with Archive.open(tmp_path / "cases.clearfold") as archive:
        archive.add(frame_of(24))
        archive.fit(PCA(n_components=2))
        attempted(lambda: archive.query(pd.Series(1e300, index=FEATURES), k=3))


def test_an_archive_of_features_of_any_size_is_fitted_or_refuses(tmp_path: Path) -> None:
    frame = frame_of(24)
    frame[FEATURES] *= 1e300
    with Archive.open(tmp_path / "cases.clearfold") as archive:
        archive.add(frame)
        attempted(lambda: archive.fit(PCA(n_components=2)))


# Importance --------------------------------------------------------------------------------------------------

METHODS = ("fine", "coherent", "gradient", "auto")


def _ranked(method: str, case: str, **more: Any) -> EmbeddingImportance:
    X, y = CASES[case]()
    wanted = {"embedding": KernelPCA(n_components=2), "n_rounds": 2, "n_permutations": 9, "random_state": 0} | more
    return EmbeddingImportance(method=method, **wanted).fit(X, y)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("method", METHODS)
def test_importances_are_shares_or_are_refused(method: str, case: str) -> None:
    done = attempted(lambda: _ranked(method, case))
    if isinstance(done, ClearfoldError):
        return
    assert done.importances_.min() >= 0
    assert done.importances_.sum() == pytest.approx(1, abs=1e-9)
    columns = ["importance", "ci_low", "ci_high", "p_value", "q_value", "selected_share", "fidelity"]
    assert np.isfinite(done.table_[columns].to_numpy()).all()
    assert sorted(done.table_["rank"]) == list(range(1, len(done.table_) + 1))
    assert np.isfinite(done.family_importances_["importance"]).all()
    assert 0 <= done.label_share_ <= 1


@pytest.mark.parametrize("case", ANY_UNIT)
@pytest.mark.parametrize("method", METHODS)
def test_importances_do_not_depend_on_units(method: str, case: str) -> None:
    plain, other = _ranked(method, "plain"), _ranked(method, case)
    tolerance = 1e-5 if case in ("float32", "1e-310") else 1e-10  # those were rounded on the way in
    np.testing.assert_allclose(other.importances_, plain.importances_, rtol=0, atol=tolerance)
    assert (other.ranking_ == plain.ranking_).all()
    np.testing.assert_array_equal(other.table_["p_value"], plain.table_["p_value"])


@pytest.mark.parametrize("scale", [1e-300, 1e-80, 1e80, 1e300])
@pytest.mark.parametrize("method", METHODS)
def test_importances_do_not_depend_on_the_unit_of_coordinates_or_outcome(method: str, scale: float) -> None:
    X, y = _plain()
    T = np.random.default_rng(3).normal(size=(40, 3)) + X[:, :1]  # not orthogonal
    value = X[:, 0] + 0.1 * X[:, 1]
    plain = fine_importance(T, X, value, method=method)
    for given in ((T * scale, X, value), (T, X * scale, value), (T, X, value * scale)):
        np.testing.assert_allclose(fine_importance(*given, method=method), plain, rtol=0, atol=1e-10)
    standardised = fine_importance(T, X, y, method=method, standardize=True)
    other = fine_importance(T * scale, X * UNITS, y, method=method, standardize=True)
    np.testing.assert_allclose(other, standardised, rtol=0, atol=1e-10)


def test_features_that_were_not_standardised_and_cannot_be_squared_are_refused() -> None:
    with pytest.raises(InputError, match="standardize=True"):
        _ranked("auto", "1e300", standardize=False)
    with pytest.raises(InputError, match="standardize=True"):
        VoronoiSaliency(standardize=False).fit(*CASES["1e300"]())


@pytest.mark.parametrize("gap", [1e-3, 1e-6, 1e-8])
def test_nearly_collinear_coordinates_against_50_digits(gap: float) -> None:
    """importance_j = sum_i w_i g_ij with T^+ by least squares; digits are lost by the condition of T and no more."""
    X, y = _plain(20, 4)
    T = np.random.default_rng(4).normal(size=(20, 3))
    T[:, 2] = T[:, 1] + gap * T[:, 2]
    with mpmath.workdps(50):
        centre = [mpmath.matrix((table - 0).tolist()) for table in (T, X, y[:, None].astype(float))]
        for table in centre:
            for j in range(table.cols):
                mean = mpmath.fsum(table[i, j] for i in range(20)) / 20
                for i in range(20):
                    table[i, j] -= mean
        t, x, target = centre
        inverse = mpmath.inverse(t.T * t) * t.T
        b, V = inverse * target, inverse * x
        weight = [b[i] ** 2 * mpmath.fsum(t[k, i] ** 2 for k in range(20)) for i in range(3)]
        total = [mpmath.fsum(V[i, j] ** 2 for j in range(4)) for i in range(3)]
        share = [
            mpmath.fsum(weight[i] * V[i, j] ** 2 / total[i] for i in range(3)) / mpmath.fsum(weight) for j in range(4)
        ]
        expected = np.array([float(value) for value in share])
    condition = np.linalg.cond(T - T.mean(axis=0))
    np.testing.assert_allclose(fine_importance(T, X, y), expected, rtol=0, atol=20 * EPS * condition)


def test_features_that_are_almost_the_same_have_almost_the_same_share() -> None:
    for method in METHODS:
        share = _ranked(method, "collinear").importances_
        assert share[0] == pytest.approx(share[1], abs=1e-7)
        assert share[0] == pytest.approx(share[2], abs=1e-7)


def test_martingale_residuals_are_exact_with_ties() -> None:
    random = np.random.default_rng(0)
    time, event = random.integers(1, 8, 60), random.integers(0, 2, 60)
    for i, residual in enumerate(martingale_residuals(time * 1e300, event)):
        hazard = sum(
            Fraction(int(event[time == t].sum()), int((time >= t).sum())) for t in np.unique(time) if t <= time[i]
        )
        assert residual == pytest.approx(float(int(event[i]) - hazard), abs=1e-14)


# Filters and stability ---------------------------------------------------------------------------------------

FILTERS = ("welch_t", "t_pooled", "fisher", "fisher_general", "gini", "correlation", "mrmr", "forest")


def _filtered(name: str, case: str) -> np.ndarray:
    more = {"random_state": 0, "n_trees": 10} if name == "forest" else {}
    return np.asarray(getattr(selection, name)(*CASES[case](), **more))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", FILTERS)
def test_filters_are_finite_and_not_negative_or_refuse(name: str, case: str) -> None:
    done = attempted(lambda: _filtered(name, case))
    if not isinstance(done, ClearfoldError):
        assert np.isfinite(done).all()
        assert done.min() >= 0


@pytest.mark.parametrize("case", [*ANY_UNIT, "offset 1e12"])
@pytest.mark.parametrize("name", FILTERS)
def test_filters_do_not_depend_on_units(name: str, case: str) -> None:
    plain, other = _filtered(name, "plain"), _filtered(name, case)
    rounded = case in ("float32", "1e-310", "offset 1e12", "all units")
    tolerance = 1e-2 if case == "offset 1e12" else 1e-5 if rounded else 1e-12
    np.testing.assert_allclose(other, plain, rtol=tolerance, atol=tolerance)


def test_a_forest_of_ranks_is_the_forest_of_values() -> None:
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    X, y = _plain()
    trees = RandomForestClassifier(20, random_state=3).fit(X, y)
    np.testing.assert_array_equal(selection.forest(X, y, n_trees=20, random_state=3), trees.feature_importances_)
    value = X[:, 0] + X[:, 1]
    trees = RandomForestRegressor(20, max_features="sqrt", random_state=3).fit(X, value)
    np.testing.assert_allclose(
        selection.forest(X, value, n_trees=20, random_state=3), trees.feature_importances_, rtol=1e-12
    )


def test_welch_t_with_a_huge_offset_against_50_digits() -> None:
    X, y = CASES["offset 1e12"]()
    with mpmath.workdps(50):
        for found, column in zip(selection.welch_t(X, y), X.T, strict=True):
            parts = [[mpmath.mpf(float(value)) for value in column[y == c]] for c in (0, 1)]
            means = [mpmath.fsum(part) / len(part) for part in parts]
            spread = [
                mpmath.fsum((v - mean) ** 2 for v in part) / (len(part) - 1) / len(part)
                for part, mean in zip(parts, means, strict=True)
            ]
            expected = abs(means[0] - means[1]) / mpmath.sqrt(spread[0] + spread[1])
            assert found == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize(("n_features", "n_selected"), [(5, 2), (50_000, 1), (50_000, 49_999), (3, 3)])
def test_nogueira_against_fractions(n_features: int, n_selected: int) -> None:
    random = np.random.default_rng(0)
    chosen = np.zeros((7, n_features), dtype=bool)
    for row in chosen:
        row[random.choice(n_features, n_selected, replace=False)] = True
    found = selection.nogueira(chosen, n_features)
    if n_selected == n_features:
        assert np.isnan(found), "documented: every round selects all"
        return
    counts, share = chosen.sum(axis=0), Fraction(n_selected, n_features)
    variance = sum(
        int(times) * Fraction(7, 6) * Fraction(int(count), 7) * (1 - Fraction(int(count), 7))
        for count, times in zip(*np.unique(counts, return_counts=True), strict=True)
    )
    expected = 1 - variance / n_features / (share * (1 - share))
    assert found == pytest.approx(float(expected), abs=1e-10)


# Saliency ----------------------------------------------------------------------------------------------------


def _salient(case: str) -> VoronoiSaliency:
    small = {"n_sites": 2, "n_perturbations": 4, "n_bootstraps": 2, "n_permutations": 2}
    return VoronoiSaliency(**small, random_state=0).fit(*CASES[case]())


@pytest.mark.parametrize("case", CASES)
def test_saliency_is_finite_or_refused(case: str) -> None:
    done = attempted(lambda: _salient(case))
    if isinstance(done, ClearfoldError):
        return
    X = np.asarray(CASES[case]()[0], dtype=float)
    np.testing.assert_allclose(done.memberships_.sum(axis=1), 1, rtol=1e-9)
    assert np.isfinite(done.region_saliency_).all()
    assert np.isfinite(done.regions_[["mass", "n_samples", "strength", "p_value"]].to_numpy(dtype=float)).all()
    assert np.isfinite(np.stack(done.regions_["centre"].to_list())).all()
    for strange in (0.0, 1e300, -1e300, 5e-324):
        assert np.isfinite(done.saliency(np.full((1, X.shape[1]), strange))).all()


@pytest.mark.parametrize("case", [*ANY_UNIT, "offset 1e12"])
def test_saliency_does_not_depend_on_units(case: str) -> None:
    tolerance = 1e-2 if case == "offset 1e12" else 1e-4 if case in ("float32", "1e-310", "all units") else 1e-9
    np.testing.assert_allclose(
        _salient(case).region_saliency_, _salient("plain").region_saliency_, rtol=0, atol=tolerance
    )


# Measures ----------------------------------------------------------------------------------------------------


def _measured(case: str) -> list[float]:
    X, y = CASES[case]()
    found = evaluate.retrieval(X, y, groups="each", n_bootstrap=10)
    return [
        *(found[name] for name in ("micro", "macro", "chance_macro", "silhouette")),
        evaluate.auprc(X, y),
        evaluate.auprc(X, y, metric="cosine"),
        evaluate.silhouette(X, y),
        evaluate.precision_at(X, y, 3, groups="each"),
    ]


@pytest.mark.parametrize("case", CASES)
def test_measures_are_finite_or_refused(case: str) -> None:
    done = attempted(lambda: _measured(case))
    if not isinstance(done, ClearfoldError):
        assert np.isfinite(done).all()


@pytest.mark.parametrize("case", [name for name in ANY_UNIT if name != "all units"])
def test_measures_do_not_depend_on_the_unit(case: str) -> None:
    tolerance = 1e-3 if case == "1e-310" else 1e-6
    np.testing.assert_allclose(_measured(case), _measured("plain"), rtol=0, atol=tolerance)


def test_auprc_against_fractions() -> None:
    """Integer coordinates with many ties: precision and recall rise evenly over what is equally far."""
    random = np.random.default_rng(0)
    place, label = random.integers(0, 6, 30), random.integers(0, 3, 30)
    areas = []
    for i in range(30):
        others = [j for j in range(30) if j != i]
        found, steps = Fraction(0), [Fraction(0)]
        for distance in sorted({abs(int(place[j] - place[i])) for j in others}):
            tied = [j for j in others if abs(int(place[j] - place[i])) == distance]
            for _ in tied:
                found += Fraction(sum(int(label[j] == label[i]) for j in tied), len(tied))
                steps.append(found)
        precision = [steps[a] / a for a in range(1, 30)]
        recall = [step / steps[-1] for step in steps]
        before = [precision[0], *precision[:-1]]
        areas.append(sum((recall[a + 1] - recall[a]) * (precision[a] + before[a]) / 2 for a in range(29)))
    expected = float(sum(areas) / 30)
    for scale, offset in ((1.0, 0.0), (1.0, 2.0**40), (2.0**-1060, 0.0), (2.0**1010, 0.0)):
        assert evaluate.auprc((place * scale + offset)[:, None], label) == pytest.approx(expected, abs=1e-12)


def test_silhouette_with_a_huge_offset() -> None:
    X, y = CASES["offset 1e12"]()
    exact = X - X[0]  # differences of these numbers are exact
    assert evaluate.silhouette(X, y) == pytest.approx(evaluate.silhouette(exact, y), abs=1e-9)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_measures_of_numbers_that_are_none_are_refused(wrong: float) -> None:
    with pytest.raises(InputError):
        evaluate.auc([0, 1, 1], [0.0, 1.0, wrong])
    with pytest.raises(InputError):
        evaluate.mse([0, 1, 1], [0.0, 1.0, wrong])
    with pytest.raises(InputError):
        evaluate.auc([0, 1, 1], [0.0, 1.0])
    with pytest.raises(InputError):
        evaluate.mse([1e300], [-1e300])
    with pytest.raises(InputError):
        evaluate.auprc([[0.0], [1.0], [wrong]], [0, 1, 1])


# Survival ----------------------------------------------------------------------------------------------------


def _cohort(n: int = 40) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    X = random.normal(size=(n, 4))
    return X, random.exponential(np.exp(-X[:, 0])), (random.random(n) < 0.7).astype(int)


def _outcomes() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    _, time, event = _cohort()
    order = np.arange(len(time))
    return {
        "plain": (time, event),
        "ties": (np.ceil(2 * time), event),
        "two times": (np.where(order < 39, 1.0, 2.0), event),
        "one event": (time, (order == 3).astype(int)),
        "one event, the first": (time, (time == time.min()).astype(int)),
        "one event, the last": (time, (time == time.max()).astype(int)),
        "no censoring": (time, np.ones(40, dtype=int)),
        "1e300": (time * 1e300, event),
        "1e-300": (time * 1e-300, event),
        "zeros": (np.where(time < 0.5, 0.0, time), event),
        "offset": (1e12 + time, event),
        "float32": (time.astype(np.float32), event.astype(bool)),
    }


@pytest.mark.parametrize("outcome", _outcomes())
def test_log_rank_is_that_of_scipy_and_of_fractions(outcome: str) -> None:
    time, event = _outcomes()[outcome]
    group = (_cohort()[0][:, 0] > 0).astype(int)
    found = kaplan_meier(time, event, group)
    curves = found.curves[["survival", "low", "high"]].to_numpy()
    assert ((curves >= 0) & (curves <= 1)).all()
    z, expected = log_rank_z(np.asarray(time, float), event, group), _exact_z(time, event, group)
    assert z == pytest.approx(expected, abs=1e-12)
    assert found.log_rank_p == pytest.approx(float(stats.chi2.sf(expected**2, 1)), abs=1e-9)
    if expected != 0:
        parts = [stats.CensoredData.right_censored(time[group == g], event[group == g] == 0) for g in (0, 1)]
        assert stats.logrank(*parts).statistic ** 2 == pytest.approx(z**2, rel=1e-6)


def _exact_z(time: np.ndarray, event: np.ndarray, group: np.ndarray) -> float:
    apart, variance = Fraction(0), Fraction(0)
    for t in np.unique(time[event > 0]):
        at_risk, dead = time >= t, (time == t) & (event > 0)
        n, d, n1 = int(at_risk.sum()), int(dead.sum()), int((at_risk & (group == 1)).sum())
        apart += int((dead & (group == 1)).sum()) - Fraction(d * n1, n)
        variance += Fraction(d * n1 * (n - n1) * (n - d), n * n * max(n - 1, 1))
    return float(mpmath.mpf(apart.numerator) / apart.denominator / mpmath.sqrt(float(variance))) if variance else 0.0


@pytest.mark.parametrize("unit", [1.0, 1e-310, 1e-300, 1e300, np.array([1e300, 1e-300, 1.0, 1e-310])])
def test_risk_groups_do_not_depend_on_units(unit: Any) -> None:
    X, time, event = _cohort()
    small = {"n_folds": 2, "n_permutations": 2, "n_bootstrap": 10}
    plain, other = risk_groups(X, time, event, **small), risk_groups(X * unit, time * 1e-300, event, **small)
    np.testing.assert_allclose(other.table["risk"], plain.table["risk"], rtol=0, atol=1e-5)
    assert (other.table["group"] == plain.table["group"]).all()
    assert other.log_rank_p == plain.log_rank_p


def test_one_event_is_too_few_for_folds_and_two_are_enough() -> None:
    X, time, _ = _cohort()
    with pytest.raises(InputError, match="1 events"):
        risk_groups(X, time, np.arange(40) == 3, n_folds=2, n_permutations=0)
    found = risk_groups(X, time, np.isin(np.arange(40), (3, 7)), n_folds=2, n_permutations=2, n_bootstrap=10)
    assert np.isfinite(found.table["risk"]).all()


def test_a_risk_of_new_patients_is_finite_however_far_they_are() -> None:
    X, time, event = _cohort()
    model = CoxRisk(n_features=4).fit(X, np.column_stack([time, event]))
    assert np.isfinite(model.predict(np.array([[1e300, -1e300, 5e-324, -0.0]]))).all()
    assert np.isnan(concordance(np.array([1.0, 2.0]), np.array([0, 1]), np.array([1.0, 2.0]))), "no pair to compare"


# What embeddings compute, against more digits -----------------------------------------------------------------


@pytest.mark.parametrize("offset", [0.0, 1e6, 1e9])
def test_variances_of_pca_with_a_huge_offset_against_50_digits(offset: float) -> None:
    X = _plain(12, 3)[0] + offset
    with mpmath.workdps(50):
        table = mpmath.matrix(X.tolist())
        for j in range(3):
            mean = mpmath.fsum(table[i, j] for i in range(12)) / 12
            for i in range(12):
                table[i, j] -= mean
        values = sorted((float(v) for v in mpmath.eigsy(table.T * table, eigvals_only=True)), reverse=True)
    found = PCA(n_components=3).fit(X)
    np.testing.assert_allclose(np.square(found.embedding_).sum(axis=0), values, rtol=1e-12 + EPS * offset)


def test_pca_of_many_features_with_a_huge_offset() -> None:
    X = _plain(12, 50)[0] + 1e8
    exact = X - X[0]  # differences of these numbers are exact
    wanted = PCA(n_components=3).fit(exact).eigenvalues_
    np.testing.assert_allclose(PCA(n_components=3).fit(X).eigenvalues_, wanted, rtol=1e-6)


@pytest.mark.parametrize("size", [1e-100, 1e-9, 1.0, 1e100])
def test_barycentric_weights_against_50_digits(size: float) -> None:
    """Neighbours that are nearly one point: the ridge alone keeps the weights determined."""
    random = np.random.default_rng(6)
    offsets = random.normal(size=(4, 3)) * size
    offsets[1] = offsets[0] * (1 + 1e-9)
    found = barycentric((offsets @ offsets.T)[None])[0]
    with mpmath.workdps(50):
        table = mpmath.matrix(offsets.tolist())
        gram = table * table.T
        trace = mpmath.fsum(gram[i, i] for i in range(4))
        for i in range(4):
            gram[i, i] += mpmath.mpf(1) / 1000 * trace
        weight = mpmath.lu_solve(gram, mpmath.ones(4, 1))
        expected = [float(w / mpmath.fsum(weight)) for w in weight]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11)


def test_geodesics_are_sums_of_their_edges() -> None:
    steps = 10.0 ** np.random.default_rng(0).uniform(-6, 6, 60)
    places = np.concatenate([[0.0], np.cumsum(steps)])
    found = Isomap(n_components=1, n_neighbors=2).fit(places[:, None]).geodesics_
    np.testing.assert_allclose(found, np.abs(np.subtract.outer(places, places)), rtol=1e-12)
