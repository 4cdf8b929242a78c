"""What is true of every importance, whatever the embedding and the method; and whether it can be trusted."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse, stats
from sklearn.base import clone
from sklearn.cross_decomposition import CCA, PLSRegression
from sklearn.decomposition import PCA as SklearnPCA
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from clearfold.embedding import PCA, GraphEmbedding, Isomap, KernelPCA, LaplacianEigenmap, LocallyLinearEmbedding
from clearfold.embedding.operator import Centred
from clearfold.errors import ClearfoldWarning, LabelFreeWarning, NearEqualEigenvaluesWarning, UnequalScalesWarning
from clearfold.importance import (
    Agreement,
    EmbeddingImportance,
    agreement,
    fine_importance,
    formula,
    martingale_residuals,
    rounds,
)
from clearfold.importance import estimator as estimator_module
from clearfold.importance.formula import METHODS, Smoother, importances, linear, loadings, quadratic, squares
from clearfold.importance.outcome import read_outcome
from clearfold.importance.rounds import draws, q_values, read_patients
from clearfold.selection import FilterSelector, gini, ranking, welch_t

EMBEDDINGS: dict[str, Any] = {
    "PCA": PCA(n_components=3),
    "KernelPCA": KernelPCA(n_components=3),
    "Isomap": Isomap(n_components=3, n_neighbors=8),
    "LaplacianEigenmap": LaplacianEigenmap(n_components=3, n_neighbors=8),
    "LocallyLinearEmbedding": LocallyLinearEmbedding(n_components=3, n_neighbors=8),
    "GraphEmbedding": GraphEmbedding(n_components=3),
    "PLSRegression": PLSRegression(n_components=3),
    "sklearn PCA": SklearnPCA(n_components=3),
}
UNSUPERVISED = [name for name in EMBEDDINGS if name != "PLSRegression"]
seeds = st.integers(0, 10_000)


def cohort(seed: int = 0, n: int = 40, m: int = 9, classes: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Correlated features of many scales, the first two follow the class, the last is constant."""
    random = np.random.default_rng(seed)
    y = random.permutation(np.arange(n) % classes)
    X = random.normal(size=(n, m)) @ (np.eye(m) + 0.5 * random.normal(size=(m, m)))
    X[:, :2] += 1.5 * y[:, None]
    X *= 10.0 ** random.uniform(-1, 1, size=m)
    X[:, -1] = 0.1
    return X, y


def standardised(X: np.ndarray) -> np.ndarray:
    """Features with mean 0 and standard deviation 1, constant ones 0."""
    spread = X.std(axis=0)
    varies = np.ptp(X, axis=0) > 0
    return np.where(varies, (X - X.mean(axis=0)) / np.where(varies, spread, 1.0), 0.0)


def ranked(X: Any, y: Any, embedding: Any = "PCA", groups: Any = None, **options: Any) -> EmbeddingImportance:
    """Fitted importance, without rounds and permutations unless asked for."""
    embedding = EMBEDDINGS[embedding] if isinstance(embedding, str) else embedding
    options = {"n_rounds": 0, "n_permutations": 0, "random_state": 0, **options}
    return EmbeddingImportance(embedding=embedding, **options).fit(X, y, groups=groups)


@contextmanager
def unwarned(*categories: type[Warning]) -> Iterator[None]:
    """Where random data may or may not give these warnings."""
    with warnings.catch_warnings():
        for category in categories or (NearEqualEigenvaluesWarning,):
            warnings.simplefilter("ignore", category)
        yield


def assert_shares(shares: np.ndarray) -> None:
    assert np.isfinite(shares).all()
    assert (shares >= 0).all()
    assert shares.sum() == pytest.approx(1, abs=1e-10)


def assert_same(actual: np.ndarray, expected: np.ndarray, tolerance: float = 1e-9) -> None:
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance)


def by_hand(T: np.ndarray, X: np.ndarray, y: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
    """VINK eq. 3 and FINE eq. 13 word by word, squared and divided by m, with any weights of the samples."""
    D = np.diag(np.ones(len(T)) if weight is None else weight)
    one = np.ones((len(T), 1))

    def off_mean(table: np.ndarray) -> np.ndarray:
        return table - one @ (one.T @ D @ table) / D.sum()

    T, X, Y = off_mean(T), off_mean(X), off_mean(y.reshape(len(y), -1).astype(float))
    inverse = np.linalg.inv(T.T @ D @ T) @ T.T @ D
    V, b = (inverse @ X).T, inverse @ Y
    size = (b**2).sum(axis=1) * np.einsum("ni,nm,mi->i", T, D, T)
    squared = (V / np.linalg.norm(V, axis=0)) ** 2
    return squared @ size / size.sum()


# --- shares


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("embedding", EMBEDDINGS)
def test_shares_sum_to_one_and_constant_features_get_none(embedding: str, method: str, classes: int) -> None:
    X, y = cohort(n=60, classes=classes)
    importance = ranked(X, y, embedding, method=method)
    assert_shares(importance.importances_)
    assert_shares(importance.label_free_)
    assert importance.importances_[-1] == 0
    assert importance.ranking_[-1] == X.shape[1]
    assert importance.table_["fidelity"].iloc[-1] == 0
    assert sorted(importance.ranking_) == list(range(1, X.shape[1] + 1))
    assert not importance.table_[["importance", "rank", "fidelity"]].isna().any(axis=None)


@pytest.mark.parametrize("method", METHODS)
@given(seed=seeds, n=st.integers(8, 30), m=st.integers(2, 40), scale=st.integers(-60, 60), standardize=st.booleans())
@settings(max_examples=20, deadline=None, derandomize=True)
def test_shares_of_any_table(method: str, seed: int, n: int, m: int, scale: int, standardize: bool) -> None:
    """Repeated, constant and nearly constant features, more features than samples, any unit."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, m)) * 10.0**scale
    X[:, random.random(m) < 0.2] = 10.0**scale
    X = np.hstack([X, X[:, :1], random.normal(size=(n, 2)) * 10.0**scale])
    with unwarned():
        shares = ranked(X, np.arange(n) % 2, PCA(n_components=2), method=method, standardize=standardize).importances_
    assert_shares(shares)
    assert shares[0] == pytest.approx(shares[-3], abs=1e-9)
    assert (shares[np.ptp(X, axis=0) == 0] == 0).all()


@pytest.mark.parametrize("method", METHODS)
@given(seed=seeds, n=st.integers(6, 30), m=st.integers(1, 20), h=st.integers(1, 5))
@settings(max_examples=25, deadline=None, derandomize=True)
def test_shares_of_any_coordinates(method: str, seed: int, n: int, m: int, h: int) -> None:
    """Oblique, repeated and constant coordinates, also more of them than there are directions."""
    random = np.random.default_rng(seed)
    T = random.normal(size=(n, h)) @ random.normal(size=(h, h))
    T = np.hstack([T, T[:, :1], np.ones((n, 1))])[:, : h + random.integers(0, 3)]
    assert_shares(fine_importance(T, random.normal(size=(n, m)), np.arange(n) % 2, method=method))


@pytest.mark.parametrize("method", METHODS)
def test_shares_where_no_feature_follows_the_coordinate_that_the_label_does(method: str) -> None:
    """Nothing is known of the label, so the shares are the label-free ones; they still sum to 1."""
    T = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    X = np.column_stack([T[:, 0], 2 * T[:, 0]])
    assert_shares(fine_importance(T, X, T[:, 1] > 0, method=method))


# --- one formula in several forms


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("embedding", EMBEDDINGS)
def test_closed_form_equals_general_form(embedding: str, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = cohort(1)
    model = clone(EMBEDDINGS[embedding])
    if embedding == "GraphEmbedding":  # all its coordinates have one length: which are the first two of three?
        model.set_params(n_components=2)
    closed = ranked(X, y, model, method=method)
    monkeypatch.setattr(formula, "ORTHOGONAL", 0.0)
    general = ranked(X, y, model, method=method)
    assert_same(closed.importances_, general.importances_)
    assert_same(closed.label_free_, general.label_free_)
    assert_same(closed.loadings_.fidelity, general.loadings_.fidelity)


@given(seed=seeds, n=st.integers(10, 40), m=st.integers(1, 12), h=st.integers(1, 5), classes=st.integers(2, 4))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_fine_importance_is_the_papers_formula(seed: int, n: int, m: int, h: int, classes: int) -> None:
    random = np.random.default_rng(seed)
    T, X = random.normal(size=(n, h)) + 5, random.normal(size=(n, m)) - 3
    y = np.arange(n) % classes
    hot = np.eye(classes)[y]
    assert_same(fine_importance(T, X, y), by_hand(T, X, hot if classes > 2 else y), 1e-10)
    assert_same(fine_importance(T, X, X[:, 0] + T[:, 0]), by_hand(T, X, X[:, 0] + T[:, 0]), 1e-10)


def test_kernel_pca_with_a_linear_kernel_is_pca_on_either_side() -> None:
    """The spectrum of XX' and that of X'X give the same importance: PCA-VIP."""
    for n, m in ((40, 9), (20, 60)):
        X, y = cohort(2, n=n, m=m)
        centred = X - X.mean(axis=0)
        from_samples = Centred(centred @ centred.T).decompose(3).coordinates
        values, directions = np.linalg.eigh(centred.T @ centred)
        from_features = centred @ directions[:, np.argsort(-values)[:3]]
        expected = ranked(X, y, "PCA", method="fine", standardize=False).importances_
        assert_same(fine_importance(from_samples, X, y), expected)
        assert_same(fine_importance(from_features, X, y), expected)


def test_coherent_importance_by_hand() -> None:
    """corr(x_j, Z f Z'y)^2 with the ridge of least generalised cross-validation error, mixed by 1 / F."""
    X, y = cohort(3)
    X = standardised(X[:, :-1])
    T = PCA(n_components=3).fit_transform(X)
    n, h = T.shape
    Y = y - y.mean()
    length = np.linalg.norm(T, axis=0)
    Z = T / length
    best, prediction = np.inf, Y
    for ridge in [0.0, *np.mean(length**2) * np.logspace(-6, 2, 25)]:
        f = length**2 / (length**2 + ridge)
        fitted = Z @ (f * (Z.T @ Y))
        error = ((Y - fitted) ** 2).sum() / (n - 1 - f.sum()) ** 2
        if error < best:
            best, prediction = error, fitted
    coherent = np.array([np.corrcoef(x, prediction)[0, 1] ** 2 for x in X.T])
    line = LinearRegression().fit(T, y)
    r2 = line.score(T, y)
    F = (r2 / h) / ((1 - r2) / (n - 1 - h))
    assert F > 1
    free = np.mean([(z @ X) ** 2 / ((z @ X) ** 2).sum() for z in Z.T], axis=0)
    expected = (1 - 1 / F) * coherent / coherent.sum() + free / F
    assert_same(ranked(X, y, "PCA", method="coherent").importances_, expected)


def test_every_predictor_is_one_quadratic_form() -> None:
    """coherent_j = p_j' b b' p_j, with P the correlations of features with coordinates."""
    X, y = cohort(4)
    of = ranked(X, y).loadings_
    beta = (of.Z.T @ (y - y.mean()))[:, None, None]
    b = beta[:, 0, 0] / np.linalg.norm(beta)
    none = np.zeros(X.shape[1])
    correlation = squares(of.scaled, b[:, None, None])
    np.testing.assert_allclose(
        quadratic(of.scaled, np.outer(b, b)[:, :, None], none, np.zeros(1)), correlation, atol=1e-12
    )
    random = np.random.default_rng(0)
    C = random.normal(size=(3, 3, 5))
    C = np.einsum("ikb,jkb->ijb", C, C)
    weight = random.uniform(size=5)
    expected = np.einsum("im,ijb,jm->mb", of.P, C, of.P) + np.outer(of.label_free, weight)
    np.testing.assert_allclose(quadratic(of.P, C, of.label_free, weight), expected)


def test_many_outcomes_at_once_are_the_outcomes_one_by_one() -> None:
    X, _ = cohort(5)
    of = ranked(X, cohort(5)[1]).loadings_
    target = np.random.default_rng(0).normal(size=(len(X), 2, 7))
    for method in METHODS:
        together = importances(of, target, method)
        alone = np.column_stack([importances(of, target[:, :, i], method) for i in range(7)])
        np.testing.assert_allclose(together, alone, atol=1e-12)


@pytest.mark.parametrize("patients", [None, np.repeat(np.arange(10), 3)])
def test_leave_out_error_of_the_line_is_that_of_fits_without_them(patients: np.ndarray | None) -> None:
    X, y = cohort(6, n=30)
    Y = y - y.mean()
    T = PCA(n_components=4).fit_transform(X)
    of = loadings(T, X, groups=patients)
    fit = linear(of, Y[:, None, None])
    f = fit.beta[:, 0, 0] / (of.Z.T @ Y)
    ridge = float(np.median(of.L * (1 - f) / f))
    np.testing.assert_allclose(f, of.L / (of.L + ridge))
    assert fit.r2[0] == pytest.approx(_left_out_r2(T, Y, ridge, patients), abs=1e-9)


@pytest.mark.parametrize("patients", [None, np.repeat(np.arange(10), 3)])
def test_leave_out_error_of_the_smoother_is_that_of_fits_without_them(patients: np.ndarray | None) -> None:
    X, y = cohort(7, n=30)
    Y = y - y.mean()
    T = PCA(n_components=2).fit_transform(X)
    smoother = Smoother(loadings(T, X, groups=patients), 2, 1.0)
    _, r2, _ = smoother.fit(Y[:, None, None])
    kernel = np.exp(-((T[:, None, :] - T[None, :, :]) ** 2).sum(axis=2) / (2 * smoother.bandwidth**2))
    values, vectors = np.linalg.eigh(kernel)
    features = vectors * np.sqrt(np.maximum(values, 0))
    largest = np.linalg.norm(features - features.mean(axis=0), 2) ** 2
    expected = [_left_out_r2(features, Y, ridge * largest, patients) for ridge in formula.SMOOTH_RIDGES]
    assert r2[0] == pytest.approx(max(expected), abs=1e-7)


def _left_out_r2(features: np.ndarray, Y: np.ndarray, ridge: float, patients: np.ndarray | None) -> float:
    """Fit without each sample, or patient, and predict it."""
    patients = np.arange(len(Y)) if patients is None else patients
    error = 0.0
    for patient in np.unique(patients):
        out = patients == patient
        model = Ridge(alpha=max(ridge, 1e-12), solver="svd").fit(features[~out], Y[~out])
        error += ((Y[out] - model.predict(features[out])) ** 2).sum()
    return float(1 - error / (Y**2).sum())


def test_gradients_are_those_of_the_fitted_function() -> None:
    X, y = cohort(8, n=30)
    of = loadings(PCA(n_components=2).fit_transform(X), X)
    smoother = Smoother(of, 2, 1.0)
    dual, _, _ = smoother.fit((y - y.mean())[:, None, None])

    def predicted(T: np.ndarray) -> np.ndarray:
        away = ((T[:, None, :] - smoother.R[None, :, :]) ** 2).sum(axis=2)
        return np.exp(-away / (2 * smoother.bandwidth**2)) @ dual[:, 0, 0]

    step = 1e-5 * np.sqrt(of.L)
    T = of.Z * np.sqrt(of.L)
    slope = np.column_stack(
        [(predicted(T + d) - predicted(T - d)) / 2e-5 for d in np.diag(step)]  # in units of Z
    )
    expected = slope.T @ slope / len(T)
    np.testing.assert_allclose(smoother.outer_gradients(dual)[:, :, 0], expected, rtol=1e-6)


@pytest.mark.parametrize("embedding", UNSUPERVISED)
def test_fidelity_is_r2_of_each_feature_on_the_coordinates(embedding: str) -> None:
    X, y = cohort(9)
    importance = ranked(X, y, embedding)
    fitted = importance.embedding_
    T = fitted.embedding_ if hasattr(fitted, "embedding_") else fitted.transform(standardised(X))
    weight = getattr(fitted, "degrees_", None)
    for j in range(X.shape[1] - 1):
        expected = LinearRegression().fit(T, X[:, j], weight).score(T, X[:, j], weight)
        assert importance.table_["fidelity"][j] == pytest.approx(expected, abs=1e-9)


# --- what must not matter


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("embedding", EMBEDDINGS)
def test_order_of_rows_does_not_matter(embedding: str, method: str) -> None:
    X, y = cohort(10)
    order = np.random.default_rng(0).permutation(len(X))
    expected = ranked(X, y, embedding, method=method).importances_
    assert_same(ranked(X[order], y[order], embedding, method=method).importances_, expected, 1e-8)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("embedding", EMBEDDINGS)
def test_order_of_features_does_not_matter(embedding: str, method: str) -> None:
    X, y = cohort(11)
    order = np.random.default_rng(0).permutation(X.shape[1])
    expected = ranked(X, y, embedding, method=method).importances_[order]
    assert_same(ranked(X[:, order], y, embedding, method=method).importances_, expected, 1e-8)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("embedding", EMBEDDINGS)
def test_origin_and_unit_of_features_do_not_matter(embedding: str, method: str) -> None:
    X, y = cohort(12)
    random = np.random.default_rng(0)
    moved = X * random.uniform(-5, 5, X.shape[1]) + random.normal(scale=10, size=X.shape[1])
    expected = ranked(X, y, embedding, method=method).importances_
    assert_same(ranked(moved, y, embedding, method=method).importances_, expected, 1e-8)


@pytest.mark.parametrize("embedding", EMBEDDINGS)
def test_origin_of_raw_features_does_not_matter(embedding: str) -> None:
    X, y = cohort(13)
    moved = X + np.random.default_rng(0).normal(scale=10, size=X.shape[1])
    embedding = clone(EMBEDDINGS[embedding])
    if hasattr(embedding, "scale"):
        embedding.set_params(scale=False)
    expected = ranked(X, y, embedding, standardize=False).importances_
    assert_same(ranked(moved, y, embedding, standardize=False).importances_, expected, 1e-8)


@pytest.mark.parametrize("method", METHODS)
def test_sign_of_coordinates_does_not_matter(method: str) -> None:
    X, y = cohort(14, n=330)
    T = PCA(n_components=3).fit_transform(X)
    expected = fine_importance(T, X, y, method=method)
    for signs in ([-1, 1, 1], [1, -1, -1], [-1, -1, -1]):
        assert_same(fine_importance(T * np.array(signs), X, y, method=method), expected)


@pytest.mark.parametrize("method", METHODS)
def test_coding_of_labels_does_not_matter(method: str) -> None:
    X, y = cohort(15)
    expected = ranked(X, y, method=method).importances_
    codings = [
        1 - y,
        2 * y - 1,
        1 - 2 * y,
        y.astype(float),
        y.astype(bool),
        np.where(y, "a", "b"),
        np.where(y, "a", "b").astype(object),
        list(np.where(y, "b", "a")),
        pd.Series(np.where(y, "b", "a"), index=np.arange(len(y))[::-1]),
        pd.Series(np.where(y, "b", "a"), dtype="category"),
        pd.Series(y, dtype="Int64"),
        y[:, None],
        pd.DataFrame({"label": y}),
    ]
    for coding in codings:
        assert_same(ranked(X, coding, method=method).importances_, expected, 1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_coding_of_many_classes_does_not_matter(method: str) -> None:
    X, y = cohort(16, n=60, classes=4)
    expected = ranked(X, y, method=method).importances_
    for coding in (np.array(list("dbca"))[y], np.array([7, 3, 11, 5])[y], np.array([2.0, 0.0, 1.0, 3.0])[y]):
        assert_same(ranked(X, coding, method=method).importances_, expected, 1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_unit_and_origin_of_a_value_do_not_matter(method: str) -> None:
    X, y = cohort(17)
    value = X[:, 0] - X[:, 1] + y + 0.5
    expected = ranked(X, value, method=method).importances_
    assert_shares(expected)
    assert_same(ranked(X, 40 - 3 * value, method=method).importances_, expected, 1e-10)


def test_two_classes_are_one_value_and_one_hot_columns() -> None:
    X, y = cohort(18)
    of = ranked(X, y).loadings_
    one = read_outcome(y, len(y)).target
    assert one.shape == (len(y), 1)
    both = np.hstack([one, -one])
    for method in METHODS:
        assert_same(importances(of, one, method), importances(of, both, method), 1e-12)
        assert_same(
            ranked(X, y, method=method).importances_, ranked(X, y, outcome="value", method=method).importances_, 1e-12
        )


def test_kind_of_table_does_not_matter() -> None:
    X, y = cohort(19)
    X = np.where(X > 0, X, 0)
    expected = ranked(X, y).importances_
    frame = pd.DataFrame(X, columns=[f"f.{i}" for i in range(X.shape[1])], index=np.arange(len(X)) + 7)
    for table in (X.tolist(), np.asfortranarray(X), frame, sparse.csr_array(X), sparse.csc_matrix(X)):
        assert_same(ranked(table, y).importances_, expected)


def test_what_came_is_left_as_it_was() -> None:
    X, y = cohort(20)
    T = PCA(n_components=2).fit_transform(X)
    copies = X.copy(), y.copy(), T.copy()
    for standardize in (True, False):
        ranked(X, y, standardize=standardize, n_rounds=2, n_permutations=5)
        fine_importance(T, X, y, standardize=standardize, method="auto")
    for came, copy in zip((X, y, T), copies, strict=True):
        np.testing.assert_array_equal(came, copy)


@pytest.mark.parametrize("method", METHODS)
@given(seed=seeds)
@settings(max_examples=10, deadline=None, derandomize=True)
def test_place_of_any_coordinates_does_not_matter(method: str, seed: int) -> None:
    """Oblique ones, such as those of t-SNE; for "fine" the unit of each does not matter either."""
    random = np.random.default_rng(seed)
    X, y = cohort(seed)
    T = np.hstack([X[:, :1] + 0.3 * random.normal(size=(len(X), 1)), np.tanh(X[:, :2])])
    expected = fine_importance(T, X, y, method=method)
    assert_same(fine_importance(T + random.normal(scale=30, size=3), X, y, method=method), expected, 1e-8)
    assert_same(fine_importance(7 * T, X, y, method=method), expected, 1e-8)
    if method == "fine":
        assert_same(fine_importance(T * random.uniform(-9, 9, 3), X, y), expected, 1e-8)


def test_a_rotation_changes_fine_and_not_the_coherent_part() -> None:
    X, y = cohort(21)
    T = PCA(n_components=3).fit_transform(standardised(X))
    turn = stats.ortho_group.rvs(3, random_state=0)
    target = (y - y.mean())[:, None, None]
    straight, turned = loadings(T, X), loadings(T @ turn, X)
    assert_same(
        squares(straight.scaled, linear(straight, target).beta), squares(turned.scaled, linear(turned, target).beta)
    )
    assert np.abs(fine_importance(T, X, y) - fine_importance(T @ turn, X, y)).max() > 0.01


# --- what must matter, and be said


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("embedding", ["PCA", "Isomap", "GraphEmbedding"])
def test_with_one_coordinate_labels_have_no_influence_and_that_is_said(embedding: str, method: str) -> None:
    X, y = cohort(22)
    one = clone(EMBEDDINGS[embedding]).set_params(n_components=1)
    other = np.random.default_rng(0).permutation(y)
    with pytest.warns(LabelFreeWarning, match="n_components"):
        importance = ranked(X, y, one, method=method, n_permutations=20)
    with pytest.warns(LabelFreeWarning):
        assert_same(ranked(X, other, one, method=method).importances_, importance.importances_)
    assert_same(importance.importances_, importance.label_free_)
    assert importance.label_share_ == pytest.approx(0, abs=1e-9)
    assert (importance.table_["p_value"] == 1).all()


@pytest.mark.parametrize("method", METHODS)
def test_with_more_coordinates_labels_have_influence(method: str) -> None:
    X, y = cohort(23)
    importance = ranked(X, y, method=method)
    other = ranked(X, np.random.default_rng(0).permutation(y), method=method)
    assert np.abs(importance.importances_ - other.importances_).max() > 0.01
    assert_same(importance.label_free_, other.label_free_, 1e-12)
    expected = 1 - np.corrcoef(importance.importances_, importance.label_free_)[0, 1]
    assert importance.label_share_ == pytest.approx(min(max(expected, 0), 1))


@pytest.mark.parametrize("method", METHODS)
def test_scale_rules_raw_features_and_that_is_said(method: str) -> None:
    """Three noise features times 1000 take ranks 1 to 3 of a raw table, and not of a standardised one."""
    random = np.random.default_rng(24)
    y = np.arange(60) % 2
    X = random.normal(size=(60, 12)) + np.concatenate([np.full(5, 2.0), np.zeros(7)]) * y[:, None]
    X[:, -3:] *= 1000
    importance = ranked(X, y, method=method)
    assert set(importance.ranking_[-3:]) != {1, 2, 3}
    assert importance.ranking_[-3:].min() > 3
    if method == "fine":
        with pytest.warns(UnequalScalesWarning, match="standardize=True"):
            raw = ranked(X, y, method=method, standardize=False)
        assert set(raw.ranking_[-3:]) == {1, 2, 3}
        assert raw.importances_[-3:].sum() > 0.99


def test_equal_scales_are_not_warned_of() -> None:
    X, y = cohort(25)
    ranked(X, y, standardize=False)


def test_near_equal_eigenvalues_are_warned_of() -> None:
    """Importance is not rotation invariant: axes that the data do not determine are said."""
    angle = np.arange(12) * np.pi / 6
    X = np.column_stack([np.cos(angle), np.sin(angle), 0.1 * np.cos(2 * angle)])
    with pytest.warns(NearEqualEigenvaluesWarning, match="importance"):
        ranked(X, np.arange(12) % 2, PCA(n_components=2), standardize=False)


@pytest.mark.parametrize("method", METHODS)
def test_features_that_follow_the_classes_come_first(method: str) -> None:
    for classes in (2, 3, 5):
        random = np.random.default_rng(classes)
        y = np.arange(90) % classes
        signs = np.array([1, -1, 1, -1])
        X = np.hstack([2 * y[:, None] * signs + random.normal(size=(90, 4)), random.normal(size=(90, 30))])
        assert set(np.flatnonzero(ranked(X, y, method=method).ranking_ <= 4)) == {0, 1, 2, 3}


@pytest.mark.parametrize("method", ["auto", "coherent", "gradient"])
def test_features_that_follow_a_value_come_first(method: str) -> None:
    random = np.random.default_rng(0)
    latent = random.normal(size=(80, 2))
    X = np.hstack([np.repeat(latent, 6, axis=1) + 0.3 * random.normal(size=(80, 12)), random.normal(size=(80, 20))])
    importance = ranked(X, latent[:, 1] + 0.3 * random.normal(size=80), PCA(n_components=4), method=method)
    assert set(np.flatnonzero(importance.ranking_ <= 6)) == set(range(6, 12))


# --- censored times


def test_martingale_residuals_by_hand() -> None:
    """Hazard 1/5 at 1, + 1/4 at 2, + 1/2 at 3; one who is censored at 2 was at risk then."""
    time, event = np.array([3.0, 1.0, 2.0, 4.0, 2.0]), np.array([1, 1, 0, 0, 1])
    expected = np.array([1 - 0.95, 1 - 0.2, 0 - 0.45, 0 - 0.95, 1 - 0.45])
    np.testing.assert_allclose(martingale_residuals(time, event), expected, atol=1e-15)


@given(seed=seeds, n=st.integers(2, 60))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_martingale_residuals_are_observed_less_expected_events(seed: int, n: int) -> None:
    """They sum to 0, none is above 1, and each is its event less the sum of deaths over those at risk until then."""
    random = np.random.default_rng(seed)
    time, event = random.integers(1, 12, size=n).astype(float), random.integers(0, 2, size=n)
    residuals = martingale_residuals(time, event)
    assert residuals.sum() == pytest.approx(0, abs=1e-9)
    assert (residuals <= 1).all()
    hazard = [sum(event[time == s].sum() / (time >= s).sum() for s in np.unique(time) if s <= t) for t in time]
    np.testing.assert_allclose(residuals, event - np.array(hazard), atol=1e-12)


def test_martingale_residuals_of_columns_of_a_table() -> None:
    """Rows of a table keep their own order, whatever their names."""
    table = pd.DataFrame({"time": [3.0, 1.0, 2.0, 4.0, 2.0], "event": [1, 1, 0, 0, 1]}, index=[4, 2, 0, 3, 1])
    expected = martingale_residuals(table["time"].to_numpy(), table["event"].to_numpy())
    np.testing.assert_allclose(np.asarray(martingale_residuals(table["time"], table["event"])), expected)
    np.testing.assert_allclose(martingale_residuals(list(table["time"]), list(table["event"])), expected)


@pytest.mark.parametrize("method", METHODS)
def test_a_censored_time_enters_as_martingale_residuals(method: str) -> None:
    X, y = cohort(26)
    random = np.random.default_rng(0)
    time = random.exponential(np.where(y, 1.0, 4.0))
    event = random.integers(0, 2, size=len(y))
    expected = ranked(X, martingale_residuals(time, event), outcome="value", method=method).importances_
    frame = pd.DataFrame({"event": event, "other": 0, "time": time}, index=np.arange(len(y))[::-1])
    record = np.array(list(zip(event == 1, time, strict=True)), dtype=[("event", bool), ("time", float)])
    for outcome in (np.column_stack([time, event]), frame[["event", "time"]], frame, record):
        importance = ranked(X, outcome, method=method)
        assert_same(importance.importances_, expected, 1e-12)


# --- other eigenproblems and partial least squares


def published_vip(model: PLSRegression, n_features: int) -> np.ndarray:
    """sqrt(m sum_a SS_a (w_ja / ||w_a||)^2 / sum_a SS_a), SS_a = q_a^2 t_a't_a (Wold, Johansson and Cocchi 1993)."""
    squares = (model.y_loadings_**2).sum(axis=0) * (model.x_scores_**2).sum(axis=0)
    weights = model.x_weights_ / np.linalg.norm(model.x_weights_, axis=0)
    return np.sqrt(n_features * (weights**2 @ squares) / squares.sum())


@pytest.mark.parametrize("kind", ["two classes", "value", "four classes", "unequal classes"])
@pytest.mark.parametrize("scale", [True, False])
def test_partial_least_squares_has_the_published_vip(kind: str, scale: bool) -> None:
    X, y = cohort(27, n=60, classes=2 if kind in ("two classes", "value") else 4)
    if kind == "unequal classes":
        y = np.repeat([0, 1, 2], [40, 14, 6])
    outcome, target = y, np.eye(y.max() + 1)[y] if y.max() > 1 else y.astype(float)
    if kind == "value":
        outcome = target = X[:, 0] + X[:, 3] ** 2 + 0.25
    model = PLSRegression(n_components=3, scale=scale).fit(standardised(X), target)
    importance = ranked(X, outcome, PLSRegression(n_components=3, scale=scale), method="fine")
    m = X.shape[1]
    np.testing.assert_allclose(np.sqrt(m * importance.importances_), published_vip(model, m), atol=1e-8)
    if kind != "unequal classes" or not scale:  # coordinates alone do not tell how classes were scaled
        shares = fine_importance(model.x_scores_, X, outcome, directions=model.x_weights_)
        np.testing.assert_allclose(np.sqrt(m * shares), published_vip(model, m), atol=1e-8)


def test_canonical_correlation() -> None:
    """The general formula on the canonical coordinates."""
    X, y = cohort(28, n=60, classes=4)
    importance = ranked(X, y, CCA(n_components=2), method="fine")
    T = importance.embedding_.transform(standardised(X))
    assert T.shape == (60, 2)
    assert_same(importance.importances_, by_hand(T, standardised(X), np.eye(4)[y]))
    assert_shares(importance.importances_)


@pytest.mark.parametrize("classes", [2, 3])
def test_graph_embedding_in_its_own_inner_product(classes: int) -> None:
    """Coordinates are orthogonal in Y'DY: closed form, general form and the formula with weights are one."""
    X, y = cohort(29, classes=classes)
    importance = ranked(X, y, "GraphEmbedding", method="fine")
    T, degrees = importance.embedding_.embedding_, importance.embedding_.degrees_
    target = np.eye(classes)[y] if classes > 2 else y
    assert np.ptp(degrees) > 0.01 * degrees.mean()
    assert_same(importance.importances_, by_hand(T, standardised(X), target, degrees))
    assert_same(fine_importance(T, standardised(X), y, sample_weight=degrees), importance.importances_)
    assert np.abs(importance.importances_ - fine_importance(T, standardised(X), y)).max() > 1e-4


@pytest.mark.parametrize("standardize", [False, True])
def test_weights_of_samples_are_repetitions(standardize: bool) -> None:
    """Weighted PCA with whole weights is PCA of a table in which rows are repeated."""
    X, y = cohort(30)
    weight = np.random.default_rng(0).integers(1, 4, size=len(X))
    repeated = np.repeat(np.arange(len(X)), weight)
    T = PCA(n_components=3).fit_transform(X[repeated])
    expected = fine_importance(T, X[repeated], y[repeated], standardize=standardize)
    first = np.concatenate([[0], np.cumsum(weight)[:-1]])
    assert_same(fine_importance(T[first], X, y, sample_weight=weight, standardize=standardize), expected)
    assert_same(fine_importance(T[first], X, y, sample_weight=0.1 * weight, standardize=standardize), expected)
    if not standardize:
        assert_same(expected, ranked(X[repeated], y[repeated], method="fine", standardize=False).importances_)


# --- families, redundancy, agreement


def test_a_family_has_the_sum_of_its_features() -> None:
    X, y = cohort(31)
    names = [
        "shape.area",
        "shape.round",
        "texture.a",
        "graph.d.e",
        "texture.b",
        "alone",
        "graph.v",
        "shape.x",
        "other.z",
    ]
    importance = ranked(pd.DataFrame(X, columns=names), y, n_rounds=6, n_permutations=30)
    table = importance.table_
    expected = table.groupby("family")["importance"].agg(["sum", "size"])
    families = importance.family_importances_.set_index("family")
    assert set(families.index) == {"shape", "texture", "graph", "alone", "other"}
    for name, row in expected.iterrows():
        assert families.loc[name, "importance"] == pytest.approx(row["sum"], abs=1e-12)
        assert families.loc[name, "n_features"] == row["size"]
    assert_shares(families["importance"].to_numpy())
    assert families["importance"].is_monotonic_decreasing
    assert (families["ci_low"] <= families["importance"]).all()
    assert (families["importance"] <= families["ci_high"]).all()
    assert families["p_value"].between(1 / 31, 1).all()
    np.testing.assert_allclose(families["q_value"], stats.false_discovery_control(families["p_value"]))


def test_families_from_a_mapping_and_from_a_sequence() -> None:
    X, y = cohort(32)
    frame = pd.DataFrame(X, columns=[f"f{i}" for i in range(9)])
    sequence = list("abcabcabc")
    for families in (sequence, dict(zip(frame.columns, sequence, strict=True))):
        importance = ranked(frame, y, families=families)
        assert list(importance.table_["family"]) == sequence
        table = importance.family_importances_.set_index("family")["importance"]
        for name in "abc":
            members = np.array(sequence) == name
            assert table[name] == pytest.approx(importance.importances_[members].sum(), abs=1e-12)


def test_a_family_of_one_feature_is_that_feature() -> None:
    X, y = cohort(33)
    importance = ranked(X, y, n_rounds=5, n_permutations=30, families=[str(i) for i in range(9)])
    families = importance.family_importances_.set_index("family").loc[[str(i) for i in range(9)]]
    for column in ("importance", "ci_low", "ci_high", "p_value", "q_value"):
        np.testing.assert_allclose(families[column], importance.table_[column], atol=1e-12)


def copies(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Ten copies of one strong feature, some turned around, then five weaker ones, then noise."""
    random = np.random.default_rng(seed)
    y = np.arange(80) % 2
    strong = 2.0 * y + random.normal(size=80)
    weaker = 1.2 * y[:, None] + random.normal(size=(80, 5))
    turned = strong[:, None] * np.array([1.0, 1.0, 1.0, -2.0, 1.0, 0.5, -1.0, 1.0, -1.0, 3.0])
    return np.hstack([turned, weaker, random.normal(size=(80, 25))]), y


@pytest.mark.parametrize("method", METHODS)
def test_redundancy_lets_one_of_ten_copies_through(method: str) -> None:
    X, y = copies()
    embedding = PCA(n_components=5)
    plain = ranked(X, y, embedding, method=method)
    assert (plain.ranking_[:10] <= 10).all()
    penalised = ranked(X, y, embedding, method=method, redundancy=1)
    assert (penalised.ranking_[:10] <= 30).sum() == 1
    assert penalised.ranking_[:10].min() == 1
    assert sorted(penalised.ranking_) == list(range(1, 41))
    assert_same(penalised.importances_, plain.importances_, 1e-12)
    np.testing.assert_array_equal(ranked(X, y, embedding, method=method, redundancy=0.0).ranking_, plain.ranking_)


def test_redundancy_changes_what_is_selected() -> None:
    X, y = copies()
    kept = ranked(X, y, PCA(n_components=5), redundancy=1, n_features_to_select=4, n_rounds=5)
    assert kept.get_support()[:10].sum() == 1
    assert kept.get_support().sum() == 4
    assert kept.table_["selected_share"].sum() == pytest.approx(4)
    assert kept.table_["selected_share"][:10].sum() <= 1


def test_interchangeable_features_are_shown_together() -> None:
    X, y = copies()
    frame = pd.DataFrame(X, columns=[f"f{i}" for i in range(40)])
    importance = ranked(frame, y, PCA(n_components=5))
    groups = importance.interchangeable(top=20)
    assert list(groups.columns) == ["feature", "n_members", "importance", "members"]
    assert groups["n_members"].sum() == 20
    first = groups.iloc[0]
    assert set(first["members"]) == {f"f{i}" for i in range(10)}
    assert first["feature"] == first["members"][0]
    assert first["importance"] == pytest.approx(importance.importances_[:10].sum())
    assert sorted(name for members in groups["members"] for name in members) == sorted(
        importance.table_.query("rank <= 20")["feature"]
    )
    correlation = np.abs(frame.corr().to_numpy())
    for members in groups["members"]:
        index = [int(name[1:]) for name in members]
        assert correlation[np.ix_(index, index)].min() >= 0.9 - 1e-9


NAMES = ["PCA", "KernelPCA", "Isomap", "LaplacianEigenmap", "LocallyLinearEmbedding"]


@pytest.mark.parametrize("shift", [2.0, 0.0], ids=["signal", "noise"])
def test_agreement_of_the_five_embeddings(shift: float) -> None:
    random = np.random.default_rng(1)
    y = np.arange(60) % 2
    X = np.hstack([shift * y[:, None] + random.normal(size=(60, 6)), random.normal(size=(60, 20))])
    frame = pd.DataFrame(X, columns=[f"f{i}" for i in range(26)])
    with unwarned():
        result = agreement(frame, y, method="fine", top=9)
        alone = ranked(frame, y, PCA(n_components=5), method="fine")
    assert isinstance(result, Agreement)
    table = result.table
    assert list(table.columns) == ["feature", *NAMES, "mean_rank", "times_in_top"]
    assert table["mean_rank"].is_monotonic_increasing
    np.testing.assert_allclose(table["mean_rank"], table[NAMES].mean(axis=1))
    np.testing.assert_array_equal(table["times_in_top"], (table[NAMES] <= 9).sum(axis=1))
    np.testing.assert_array_equal(table.set_index("feature")["PCA"][list(frame.columns)], alone.ranking_)
    assert all(sorted(table[name]) == list(range(1, 27)) for name in NAMES)
    np.testing.assert_allclose(result.correlation.loc[NAMES, NAMES], stats.spearmanr(table[NAMES]).statistic)
    tops = [set(table["feature"][table[name] <= 9]) for name in NAMES]
    jaccard = [[len(one & other) / len(one | other) for other in tops] for one in tops]
    np.testing.assert_allclose(result.overlap.loc[NAMES, NAMES], jaccard)
    assert f"{np.mean([jaccard[i][j] for i in range(5) for j in range(5) if i != j]):.2f}" in repr(result)
    if shift:
        assert set(table["feature"][:6]) == {f"f{i}" for i in range(6)}
    else:
        assert result.correlation.to_numpy().min() < 0
        assert result.overlap.to_numpy().min() < 0.5


def test_an_embedding_agrees_with_itself() -> None:
    X, y = cohort(34)
    result = agreement(X, y, {"one": PCA(n_components=2), "other": SklearnPCA(n_components=2)}, method="fine", top=3)
    assert result.top == 3
    np.testing.assert_allclose(result.overlap, 1)
    np.testing.assert_allclose(result.correlation, 1)
    assert "1.00" in repr(result)
    assert (result.table["times_in_top"][:3] == 2).all()


# --- rounds


def patients_of(y: np.ndarray, size: int = 2) -> np.ndarray:
    """Patients of one class each, `size` samples to a patient, in no order."""
    names = np.empty(len(y), dtype=object)
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        names[rows] = [f"{label}-{i // size}" for i in range(len(rows))]
    return names


def test_rounds_keep_a_patient_together(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = cohort(35, n=48)
    patient = patients_of(y, 3)
    seen: list[Any] = []

    def spied(*arguments: Any) -> list[Any]:
        seen.extend(draws(*arguments))
        return seen

    monkeypatch.setattr(estimator_module, "draws", spied)
    importance = ranked(X, y, n_rounds=12, groups=patient)
    assert len(seen) == len(importance.round_importances_) == 12
    for rows, shares in zip(seen, importance.round_importances_, strict=True):
        inside, outside = set(patient[rows]), set(np.delete(patient, rows))
        assert not inside & outside
        assert len(inside) == 12  # three quarters of 16 patients
        np.testing.assert_array_equal(np.bincount(y[rows]), [18, 18])
        assert len(set(rows)) == len(rows)
        alone = ranked(X[rows], y[rows], groups=patient[rows])
        assert_same(shares, alone.importances_)
    assert len({tuple(rows) for rows in seen}) > 10


def test_rounds_without_patients_are_three_quarters_of_each_class() -> None:
    y = np.arange(40) % 4 == 0
    outcome = read_outcome(y, 40)
    for rows in draws(read_patients(None, outcome, 40), outcome, 20, 0):
        np.testing.assert_array_equal(np.bincount(y[rows].astype(int)), [22, 8])


def test_rounds_of_patients_with_samples_of_both_classes() -> None:
    y = np.arange(40) % 2
    patient = np.arange(40) // 4
    outcome = read_outcome(y, 40)
    for rows in draws(read_patients(patient, outcome, 40), outcome, 20, 0):
        assert not set(patient[rows]) & set(np.delete(patient, rows))
        assert len(set(patient[rows])) == 8


def test_shares_use_every_row_and_do_not_depend_on_rounds() -> None:
    X, y = cohort(36)
    expected = ranked(X, y)
    importance = ranked(X, y, n_rounds=4, n_permutations=19, random_state=5)
    np.testing.assert_array_equal(importance.importances_, expected.importances_)
    np.testing.assert_array_equal(importance.ranking_, expected.ranking_)


def test_same_seed_same_result_in_any_number_of_processes() -> None:
    X, y = cohort(37)
    options = {"n_rounds": 6, "n_permutations": 40, "groups": patients_of(y)}
    one, again, two, other = (
        ranked(X, y, random_state=seed, n_jobs=jobs, **options) for seed, jobs in ((1, None), (1, 1), (1, 2), (2, 1))
    )
    for same in (again, two):
        pd.testing.assert_frame_equal(one.table_, same.table_, check_exact=True)
        pd.testing.assert_frame_equal(one.family_importances_, same.family_importances_, check_exact=True)
        np.testing.assert_array_equal(one.round_importances_, same.round_importances_)
        assert one.stability_ == same.stability_
        assert one.round_warnings_ == same.round_warnings_
    assert np.abs(one.round_importances_ - other.round_importances_).max() > 0.001
    assert np.abs(one.table_["p_value"] - other.table_["p_value"]).max() > 0


def test_more_rounds_begin_with_the_same_ones() -> None:
    X, y = cohort(38)
    few, many = ranked(X, y, n_rounds=3), ranked(X, y, n_rounds=6)
    np.testing.assert_array_equal(few.round_importances_, many.round_importances_[:3])


@pytest.mark.parametrize("method", METHODS)
def test_the_table(method: str) -> None:
    X, y = cohort(39)
    importance = ranked(X, y, method=method, n_rounds=10, n_permutations=50, n_features_to_select=3)
    table = importance.table_
    trust = ["ci_low", "ci_high", "p_value", "q_value", "selected_share", "fidelity"]
    assert list(table.columns) == ["feature", "family", "importance", "rank", *trust]
    assert list(table["feature"]) == [f"x{i}" for i in range(9)]
    np.testing.assert_array_equal(table["importance"], importance.importances_)
    np.testing.assert_array_equal(table["rank"], importance.ranking_)
    assert (table["ci_low"] <= table["importance"]).all()
    assert (table["importance"] <= table["ci_high"]).all()
    assert (table["ci_low"] < table["ci_high"])[:-1].all()
    assert table[["ci_low", "ci_high", "selected_share", "fidelity"]].to_numpy().min() >= 0
    assert table[["ci_low", "ci_high", "selected_share", "fidelity"]].to_numpy().max() <= 1
    assert table["p_value"].between(1 / 51, 1).all()
    assert table["p_value"].iloc[-1] == 1
    np.testing.assert_allclose(table["q_value"], stats.false_discovery_control(table["p_value"]))
    ranks = np.array([ranking(shares) for shares in importance.round_importances_])
    np.testing.assert_allclose(table["selected_share"], (ranks <= 3).mean(axis=0))
    stability = importance.stability_
    assert stability is not None
    assert (stability.n_rounds, stability.n_selected, stability.n_features) == (10, 3, 9)
    assert stability.jaccard_chance == pytest.approx(3 / (2 * 9 - 3))
    chosen = [set(np.flatnonzero(row <= 3)) for row in ranks]
    pairs = [len(a & b) / len(a | b) for i, a in enumerate(chosen) for b in chosen[:i]]
    assert stability.jaccard == pytest.approx(np.mean(pairs))
    assert stability.ci_low <= stability.nogueira <= stability.ci_high


def test_the_table_without_rounds_and_permutations() -> None:
    X, y = cohort(40)
    importance = ranked(X, y)
    assert importance.stability_ is None
    assert importance.round_importances_.shape == (0, 9)
    missing = ["ci_low", "ci_high", "p_value", "q_value", "selected_share"]
    assert importance.table_[missing].isna().all(axis=None)
    assert not importance.table_.drop(columns=missing).isna().any(axis=None)


@pytest.mark.parametrize("method", ["fine", "coherent"])
def test_intervals_are_as_wide_as_shares_vary_over_new_cohorts(method: str) -> None:
    """And cover their mean nearly as often as they promise."""
    random = np.random.default_rng(0)
    embedding = PCA(n_components=2)

    def drawn() -> tuple[np.ndarray, np.ndarray]:
        y = np.arange(60) % 2
        latent = random.normal(size=(60, 2)) * np.array([2.0, 1.0]) + y[:, None] * np.array([1.5, 0.5])
        return np.repeat(latent, 4, axis=1) + 0.5 * random.normal(size=(60, 8)), y

    shares = np.array([ranked(*drawn(), embedding, method=method).importances_ for _ in range(300)])
    low, high = np.quantile(shares, [0.025, 0.975], axis=0)
    tables = [ranked(*drawn(), embedding, method=method, n_rounds=50, random_state=i).table_ for i in range(50)]
    width = np.mean([table["ci_high"] - table["ci_low"] for table in tables], axis=0)
    assert width.mean() == pytest.approx((high - low).mean(), rel=0.15)
    truth = shares.mean(axis=0)
    covered = [(table["ci_low"] <= truth) & (truth <= table["ci_high"]) for table in tables]
    assert np.mean(covered) >= 0.85


def test_warnings_of_rounds_are_counted_not_repeated() -> None:
    X, y = cohort(41)
    with pytest.warns(LabelFreeWarning) as caught:
        importance = ranked(X, y, PCA(n_components=1), method="fine", n_rounds=5)
    assert len(caught) == 1
    assert importance.round_warnings_ == {"LabelFreeWarning": 5}


# --- the null


def test_permutations_move_whole_patients() -> None:
    y = np.repeat([0, 1, 0, 1, 1, 0, 0, 1], [1, 2, 3, 4, 5, 1, 2, 3])
    patient = np.repeat(np.arange(8), [1, 2, 3, 4, 5, 1, 2, 3])
    order = np.random.default_rng(0).permutation(len(y))
    y, patient = y[order], patient[order]
    outcome = read_outcome(y, len(y))
    patients = read_patients(patient, outcome, len(y))
    random = np.random.default_rng(0)
    given_to = []
    for _ in range(50):
        permuted = y[patients.permutation(outcome, random)]
        of_patient = np.array([permuted[patient == p][0] for p in range(8)])
        np.testing.assert_array_equal(permuted, of_patient[patient])
        assert of_patient.sum() == 4
        given_to.append(of_patient)
    assert np.std(given_to, axis=0).min() > 0.3


def test_permutations_stay_within_patients_whose_samples_differ() -> None:
    y = np.tile([0, 1, 1], 8)
    patient = np.repeat(np.arange(8), 3)
    outcome = read_outcome(y, 24)
    patients = read_patients(patient, outcome, 24)
    random = np.random.default_rng(0)
    seen = []
    for _ in range(60):
        rows = patients.permutation(outcome, random)
        assert sorted(rows) == list(range(24))
        np.testing.assert_array_equal(patient[rows], patient)
        seen.append(y[rows])
    np.testing.assert_allclose(np.mean(seen, axis=0), 2 / 3, atol=0.25)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("embedding", ["PCA", "GraphEmbedding", "PLSRegression"])
def test_labels_left_in_place_give_what_was_seen(
    embedding: str, method: str, grouped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The null measures with the same rule as the importance itself: without any permutation every p is 1."""
    monkeypatch.setattr(rounds.Patients, "permutation", lambda self, outcome, random: np.arange(len(self.codes)))
    X, y = cohort(42)
    importance = ranked(X, y, embedding, method=method, n_permutations=3, groups=patients_of(y) if grouped else None)
    assert (importance.table_["p_value"] == 1).all()
    assert (importance.family_importances_["p_value"] == 1).all()


@pytest.mark.parametrize("method", ["fine", "coherent", "auto"])
def test_permuted_shares_one_by_one(method: str) -> None:
    """p = (1 + how often) / (1 + permutations), each permutation ranked on its own."""
    X, y = cohort(43)
    importance = ranked(X, y, method=method, n_permutations=60, random_state=7)
    null_seed = np.random.RandomState(7).randint(2**31, size=2)[1]
    random = np.random.default_rng(null_seed)
    times = np.ones(9)
    for _ in range(60):
        times += ranked(X, y[random.permutation(len(y))], method=method).importances_ >= importance.importances_ - 1e-12
    np.testing.assert_allclose(importance.table_["p_value"], times / 61, atol=1e-12)


@given(st.lists(st.sampled_from([0.001, 0.01, 0.02, 0.02, 0.2, 0.5, 0.9, 1.0]), min_size=1, max_size=40))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_q_values_are_benjamini_and_hochbergs(p: list[float]) -> None:
    np.testing.assert_allclose(q_values(np.array(p)), stats.false_discovery_control(p, method="bh"), atol=1e-15)


def rejected(replicates: int, draw: Callable[[np.random.Generator], Any], **options: Any) -> tuple[float, float]:
    """Share of features with p <= .05 over data without signal, and its standard error."""
    shares = []
    for seed in range(replicates):
        random = np.random.default_rng([seed, 44])
        X, y, groups = draw(random)
        with unwarned():
            table = ranked(X, y, groups=groups, random_state=seed, **options).table_
        shares.append((table["p_value"] <= 0.05).mean())
    return float(np.mean(shares)), float(np.std(shares) / np.sqrt(replicates))


def noise(random: np.random.Generator) -> Any:
    return random.normal(size=(24, 40)), random.permutation(np.arange(24) % 2), None


@pytest.mark.parametrize("method", ["fine", "coherent", "auto"])
def test_null_is_calibrated(method: str) -> None:
    """Without signal P(p <= .05) = .05: two of 40 places, exactly."""
    share, error = rejected(500, noise, embedding=PCA(n_components=12), method=method, n_permutations=39)
    assert error < 0.004  # so that the range below is fair
    assert 0.04 <= share <= 0.06


def test_null_is_calibrated_for_patients_and_would_not_be_without_them() -> None:
    """Samples of a patient resemble each other; labels belong to patients."""

    def cores(random: np.random.Generator) -> Any:
        patient = np.repeat(np.arange(16), 3)
        X = random.normal(size=(16, 40))[patient] + 0.5 * random.normal(size=(48, 40))
        return X, random.permutation(np.arange(16) % 2)[patient], patient

    options = {"embedding": PCA(n_components=8), "method": "coherent", "n_permutations": 39}
    share, error = rejected(400, cores, **options)
    assert error < 0.004
    assert 0.04 <= share <= 0.06
    naive, _ = rejected(60, lambda random: (*cores(random)[:2], None), **options)
    assert naive > 0.15


def test_null_is_calibrated_where_coordinates_saw_the_labels() -> None:
    """Partial least squares is fitted again for each permutation; with fixed coordinates every p would be small."""
    share, error = rejected(250, noise, embedding=PLSRegression(n_components=2), method="fine", n_permutations=19)
    assert error < 0.004
    assert 0.04 <= share <= 0.06


@pytest.mark.parametrize("method", METHODS)
def test_signal_is_found_by_the_null(method: str) -> None:
    random = np.random.default_rng(0)
    y = np.arange(60) % 2
    X = random.normal(size=(60, 20))
    X[:, :4] += 2 * y[:, None]
    table = ranked(X, y, PCA(n_components=5), method=method, n_permutations=199).table_
    assert (table["q_value"][:4] <= 0.05).all()
    assert (table["p_value"][4:] <= 0.05).mean() <= 0.3


# --- as a selector


def test_selector_in_a_pipeline_keeps_names() -> None:
    X, y = cohort(45)
    frame = pd.DataFrame(X, columns=[f"f{i}" for i in range(9)])
    selector = EmbeddingImportance(embedding=PCA(n_components=3), n_rounds=0, n_permutations=0, n_features_to_select=4)
    pipeline = make_pipeline(StandardScaler(), selector).set_output(transform="pandas")
    kept = pipeline.fit_transform(frame, y)
    fitted = pipeline[-1]
    best = [name for name, rank in zip(frame.columns, fitted.ranking_, strict=True) if rank <= 4]
    assert list(kept.columns) == list(pipeline.get_feature_names_out()) == best
    assert list(fitted.feature_names_in_) == list(frame.columns)
    assert list(fitted.table_["feature"]) == list(frame.columns)
    np.testing.assert_array_equal(fitted.get_support(), fitted.ranking_ <= 4)
    pd.testing.assert_frame_equal(kept, pipeline[0].transform(frame)[best])
    new = cohort(46)[0]
    assert pipeline.transform(pd.DataFrame(new, columns=frame.columns)).shape == (40, 4)


@pytest.mark.parametrize(("n", "m", "expected"), [(40, 30, 4), (40, 6, 3), (12, 30, 1), (12, 1, 1)])
def test_as_many_features_as_a_tenth_of_the_rows_and_at_most_half(n: int, m: int, expected: int) -> None:
    random = np.random.default_rng(0)
    with unwarned(LabelFreeWarning, NearEqualEigenvaluesWarning):
        importance = ranked(random.normal(size=(n, m)), np.arange(n) % 2, PCA(n_components=min(2, m)))
    assert importance.get_support().sum() == expected


@parametrize_with_checks(
    [EmbeddingImportance(embedding=PCA(n_components=1), n_rounds=0, n_permutations=0)],
)
@pytest.mark.filterwarnings("ignore::clearfold.errors.LabelFreeWarning")
@pytest.mark.filterwarnings("ignore::clearfold.errors.NearEqualEigenvaluesWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_finds_nothing_to_object_to(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


SELECTORS: dict[str, Any] = {
    "t": FilterSelector(filter="t", n_features_to_select=10),
    **{
        name: EmbeddingImportance(
            embedding=embedding, method=method, n_rounds=0, n_permutations=0, n_features_to_select=10
        )
        for name, embedding, method in (
            ("PLS fine", PLSRegression(n_components=2), "fine"),
            ("PLS auto", PLSRegression(n_components=2), "auto"),
            ("PCA coherent", PCA(n_components=30), "coherent"),
            ("Isomap auto", Isomap(n_components=5), "auto"),
        )
    },
}


@pytest.mark.parametrize("name", SELECTORS)
def test_selection_inside_cross_validation_is_honest_on_noise(name: str) -> None:
    """n = 40, m = 2343 of pure noise: inside the folds AUC is .5; selecting before them would give above .9.

    The ones that see all of the labels' direction in the table show it; few coordinates of noise hardly see it.
    """
    inside, outside = [], []
    for seed in range(12):
        random = np.random.default_rng([seed, 47])
        X, y = random.normal(size=(40, 2343)), random.permutation(np.arange(40) % 2)
        folds = StratifiedKFold(5, shuffle=True, random_state=seed)
        model = make_pipeline(StandardScaler(), LogisticRegression())
        with unwarned():
            honest = make_pipeline(StandardScaler(), clone(SELECTORS[name]), LogisticRegression())
            inside.append(cross_val_score(honest, X, y, cv=folds, scoring="roc_auc").mean())
            kept = clone(SELECTORS[name]).fit(X, y).transform(X)
        outside.append(cross_val_score(model, kept, y, cv=folds, scoring="roc_auc").mean())
    assert 0.4 <= np.mean(inside) <= 0.6
    if name in ("t", "PLS fine", "PLS auto"):
        assert np.mean(outside) > 0.9


# --- rings and interactions


RINGS = {"ring": (2.0, 0.7), "faint ring": (1.6, 0.8)}
"""Distances of the classes from the centre."""


def directions(kind: str, seed: int, n: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """Two latent directions, each observed by five noisy features, then forty of noise; standardised.

    In a ring the classes have different distances from the centre, in an interaction the class is the sign of the
    product; in linear data it is that of the sum, and both features and class are noisier. The faint ring is seen by
    twenty features each, of which none shows much, among 160 of noise.
    """
    random = np.random.default_rng([seed, 48])
    latent = random.normal(size=(n, 2))
    if kind in RINGS:
        y = random.permutation(np.arange(n) % 2)
        radius = np.where(y, *RINGS[kind]) + 0.2 * random.normal(size=n)
        latent *= (radius / np.linalg.norm(latent, axis=1))[:, None]
    elif kind == "interaction":
        y = (latent.prod(axis=1) > 0).astype(int)
    else:
        y = (latent.sum(axis=1) + 1.5 * random.normal(size=n) > 0).astype(int)
    blur = {"linear": 1.0, "faint ring": 1.3}.get(kind, 0.4)
    each = n_true(kind) // 2
    seen = np.repeat(latent / latent.std(axis=0), each, axis=1) + blur * random.normal(size=(n, 2 * each))
    return StandardScaler().fit_transform(np.hstack([seen, random.normal(size=(n, 8 * each))])), y


def n_true(kind: str) -> int:
    return 40 if kind == "faint ring" else 10


def recall(shares: np.ndarray, true: int) -> float:
    """Part of the true features, which come first, among as many first ones."""
    return float((ranking(shares)[:true] <= true).mean())


@pytest.mark.parametrize("kind", ["ring", "faint ring", "interaction"])
def test_gradient_and_auto_see_what_no_line_can(kind: str) -> None:
    """Recall over 20 seeds; the label-free part finds none of them, so labels did it.

    A ring of two radii also shows in the spread of each feature alone, and Gini sees it unless it is faint.
    """
    found: dict[str, list[float]] = {}
    true = n_true(kind)
    for seed in range(20):
        X, y = directions(kind, seed)
        for method in METHODS:
            with unwarned():
                importance = ranked(X, y, PCA(n_components=10), method=method)
            found.setdefault(method, []).append(recall(importance.importances_, true))
        found.setdefault("label-free", []).append(recall(importance.label_free_, true))
        found.setdefault("t", []).append(recall(welch_t(X, y), true))
        found.setdefault("gini", []).append(recall(gini(X, y), true))
    mean = {name: np.mean(values) for name, values in found.items()}
    assert mean["gradient"] >= 0.9
    assert mean["auto"] >= 0.9
    for blind in ("fine", "t", "label-free"):
        assert mean[blind] <= 0.4
    if kind != "ring":
        assert mean["gini"] <= 0.4, mean


@pytest.mark.parametrize(
    "embedding",
    [PCA(n_components=10), Isomap(n_components=5), KernelPCA(n_components=5)],
    ids=["PCA", "Isomap", "KPCA"],
)
def test_auto_is_coherent_on_linear_data(embedding: Any) -> None:
    """Held-out AUC of a logistic model on the ten selected features, over 20 seeds."""
    auc: dict[str, list[float]] = {"auto": [], "coherent": []}
    for seed in range(20):
        X, y = directions("linear", seed, n=500)
        train, test = slice(0, 100), slice(100, None)
        for method, values in auc.items():
            with unwarned(ClearfoldWarning):
                selector = ranked(X[train], y[train], embedding, method=method, n_features_to_select=10)
            model = LogisticRegression().fit(selector.transform(X[train]), y[train])
            values.append(roc_auc_score(y[test], model.decision_function(selector.transform(X[test]))))
    assert np.mean(auc["coherent"]) > 0.7
    assert np.mean(auc["auto"]) == pytest.approx(np.mean(auc["coherent"]), abs=0.01)
