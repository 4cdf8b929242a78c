"""What every embedding promises, checked over all of them at once.

Tolerances are shares of the largest coordinate: EXACT where the same numbers are only added in another order,
CLOSE where an eigenproblem was solved twice.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import linalg, sparse
from scipy.spatial.distance import cdist
from scipy.stats import ortho_group
from sklearn import decomposition, manifold
from sklearn.base import clone

from clearfold.embedding import (
    PCA,
    GraphEmbedding,
    Isomap,
    KernelPCA,
    LandmarkEmbedding,
    LaplacianEigenmap,
    LocallyLinearEmbedding,
    spectral,
)
from clearfold.embedding.affinity import exponential, gaussian, median_power
from clearfold.embedding.locally_linear import barycentric
from clearfold.embedding.neighbors import neighbor_graph
from clearfold.embedding.operator import Centred, Laplacian, Linear, Normalised, Reconstruction
from clearfold.embedding.samples import Distances, Points
from clearfold.errors import (
    ClearfoldWarning,
    DuplicateSamplesWarning,
    IsolatedQueryWarning,
    NearEqualEigenvaluesWarning,
)

EXACT, CLOSE = 1e-12, 1e-8

EMBEDDINGS: dict[str, Any] = {
    "pca": PCA(n_components=3),
    "kernel_pca": KernelPCA(n_components=3),
    "isomap": Isomap(n_components=3, n_neighbors=7),
    "laplacian_eigenmap": LaplacianEigenmap(n_components=3, n_neighbors=7),
    "locally_linear": LocallyLinearEmbedding(n_components=3, n_neighbors=9),
    "graph": GraphEmbedding(n_components=3),
    "graph_radius": GraphEmbedding(n_components=3, neighborhood=8.0),
    "graph_mst": GraphEmbedding(n_components=3, power=2, neighborhood="mst"),
    "landmarks": LandmarkEmbedding(embedding=Isomap(n_components=3, n_neighbors=6), n_landmarks=40, random_state=0),
}
ONE_STEP = {name: e for name, e in EMBEDDINGS.items() if name != "landmarks"}
BY_DISTANCE = {name: e for name, e in ONE_STEP.items() if name != "pca"}
KERNELS = ["pca", "kernel_pca", "isomap", "laplacian_eigenmap", "locally_linear"]
GRAPHS = ["graph", "graph_radius", "graph_mst"]
SCALES = np.array([3.0, 2.2, 1.6, 1.1, 0.8, 0.5, 0.3, 0.2])


def sample(n: int = 60, seed: int = 0) -> np.ndarray:
    """Features of falling variance: eigenvalues far apart, one connected graph, no ties."""
    return np.random.default_rng(seed).normal(size=(n, len(SCALES))) * SCALES


def queries(n: int = 15) -> np.ndarray:
    """New samples in the midst of the others: none is isolated."""
    return 0.5 * sample(n, seed=1)


def embedding(name: str, **changes: Any) -> Any:
    return clone(EMBEDDINGS[name]).set_params(**changes)


def gap(fitted: Any) -> float:
    return getattr(fitted, "fitted_", fitted).eigengap_


def assert_close(actual: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * np.abs(expected).max())


def up_to_sign(columns: np.ndarray, like: np.ndarray) -> np.ndarray:
    return columns * np.sign(np.einsum("ij,ij->j", columns, like))


def affinity(fitted: GraphEmbedding, A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """exp(-D^p / s), 0 from the radius on, written out."""
    D = cdist(A, B)
    weights = np.exp(-(D**fitted.power) / fitted.bandwidth_)
    return weights if fitted.neighborhood_ is None else np.where(fitted.neighborhood_ > D, weights, 0.0)


@contextmanager
def quietly() -> Iterator[None]:
    """For drawn shapes, where any graph may come: its health is tested elsewhere."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClearfoldWarning)
        yield


# --- new samples


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_training_samples_return_to_their_coordinates(name: str) -> None:
    fitted = embedding(name).fit(sample())
    assert_close(fitted.transform(sample()), fitted.embedding_, CLOSE * 1e-2)
    assert_close(fitted.transform(sample()[::-1]), fitted.embedding_[::-1], CLOSE * 1e-2)
    np.testing.assert_array_equal(embedding(name).fit_transform(sample()), fitted.embedding_)


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("neighborhood", [None, 6.0, "mst"])
def test_labelled_training_samples_return_to_their_coordinates(neighborhood: Any, power: int) -> None:
    """The rule for new samples knows no labels and would miss them; a sample that coincides is known."""
    y = np.random.default_rng(0).integers(-1, 2, size=60)
    fitted = GraphEmbedding(n_components=3, power=power, neighborhood=neighborhood).fit(sample(), y)
    np.testing.assert_array_equal(fitted.transform(sample()), fitted.embedding_)
    moved = np.abs(fitted.transform(sample() + 1e-7) - fitted.embedding_)
    assert moved[y == -1].max() < 1e-4  # without a label the rule is exact
    assert moved[y >= 0].max() > 1e-2


@pytest.mark.parametrize("name", BY_DISTANCE)
def test_coinciding_training_samples(name: str) -> None:
    """A new sample that coincides with several gets the place of the first; only two methods tell those apart."""
    X = sample()
    X[[40, 41, 50]] = X[[3, 3, 7]]
    first = np.arange(60)
    first[[40, 41, 50]] = [3, 3, 7]
    warns = name in ("isomap", "laplacian_eigenmap")
    with pytest.warns(DuplicateSamplesWarning, match="3 of 60") if warns else warnings.catch_warnings():
        fitted = embedding(name).fit(X)
    assert_close(fitted.transform(X), fitted.embedding_[first], CLOSE * 1e-2)
    apart = np.abs(fitted.embedding_ - fitted.embedding_[first]).max() / np.abs(fitted.embedding_).max()
    if name in ("laplacian_eigenmap", "locally_linear"):
        np.testing.assert_array_equal(fitted.transform(X), fitted.embedding_[first])
        assert 1e-6 < apart < 1
    else:
        assert apart < CLOSE


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_a_new_samples_place_does_not_depend_on_its_batch(name: str) -> None:
    fitted, new = embedding(name).fit(sample()), queries(80)
    together = fitted.transform(new)
    alone = np.vstack([fitted.transform(row[None, :]) for row in new])
    assert_close(alone, together, EXACT)
    assert_close(fitted.transform(new[::-1])[::-1], together, EXACT)
    crowd = np.vstack([new, 300 * sample(500, seed=2), sample()])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IsolatedQueryWarning)
        assert_close(fitted.transform(crowd)[: len(new)], together, EXACT)


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_fitting_ignores_what_comes_later(name: str) -> None:
    fitted = embedding(name).fit(sample())
    before = fitted.transform(queries())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IsolatedQueryWarning)
        fitted.transform(300 * sample(seed=2))
    np.testing.assert_array_equal(fitted.transform(queries()), before)


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_the_table_may_be_written_over_after_fit(name: str) -> None:
    """The fitted object answers from what it learned, not from memory that belongs to the caller."""
    X = sample()
    fitted = embedding(name).fit(X)
    X *= -7.0
    assert_close(fitted.transform(queries()), embedding(name).fit(sample()).transform(queries()), EXACT)


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_neither_fit_nor_transform_writes_to_what_it_is_given(name: str) -> None:
    X, new = sample(), queries()
    X.flags.writeable = new.flags.writeable = False
    embedding(name).fit(X).transform(new)
    np.testing.assert_array_equal(X, sample())


# --- the rule of each operator, written out


@pytest.mark.parametrize("name", GRAPHS)
def test_graph_rule_is_the_eigen_equation(name: str) -> None:
    """W y = lambda D y for fitted samples, y(x) = W(x) Y / (lambda d(x)) for new ones."""
    X, new = sample(), queries()
    fitted = embedding(name).fit(X)
    W, Wx = affinity(fitted, X, X), affinity(fitted, new, X)
    Y, values = fitted.embedding_, fitted.eigenvalues_
    assert_close(W @ Y, W.sum(axis=1)[:, None] * Y * values, 1e-10)
    assert_close(fitted.transform(new), Wx @ Y / Wx.sum(axis=1)[:, None] / values, 1e-10)
    operator = Normalised(W.copy())
    spectrum = operator.decompose(3)
    assert_close(spectrum.coordinates, Y, 1e-10)
    assert_close(operator.rule(spectrum)(W), Y, 1e-10)
    assert_close(operator.rule(spectrum)(sparse.csr_array(W)), Y, 1e-10)


def test_laplacian_rule_is_the_eigen_equation() -> None:
    """L f = mu f for fitted samples; f(x) = W(x) f / (d(x) - mu) for new ones, joined by the rule of the graph."""
    X, new, k = sample(), queries(200), 7
    fitted = embedding("laplacian_eigenmap").fit(X)
    graph = neighbor_graph(Points(X), k)
    W = graph.matrix(gaussian(np.square(graph.lengths), fitted.bandwidth_))
    operator = Laplacian(W)
    spectrum = operator.decompose(3)
    assert_close(spectrum.coordinates, fitted.embedding_, 1e-10)
    assert_close(operator.rule(spectrum)(W), fitted.embedding_, 1e-10)
    D, Dx = cdist(X, X), cdist(new, X)
    own_reach = np.sort(D, axis=1)[:, k]  # the first is the sample itself
    reach = np.sort(Dx, axis=1)[:, k - 1 : k]
    Wx = np.where((Dx <= reach) | (Dx <= own_reach), np.exp(-(Dx**2) / (2 * fitted.bandwidth_**2)), 0.0)
    expected = Wx @ fitted.embedding_ / (Wx.sum(axis=1)[:, None] - 1 / fitted.eigenvalues_)
    assert_close(fitted.transform(new), expected, 1e-10)


def test_kernel_rules_return_the_coordinates() -> None:
    X = sample()
    for name, kernel in (
        ("kernel_pca", gaussian(cdist(X, X, "sqeuclidean"), embedding("kernel_pca").fit(X).bandwidth_)),
        ("isomap", -0.5 * embedding("isomap").fit(X).geodesics_ ** 2),
    ):
        operator = Centred(kernel.copy())
        spectrum = operator.decompose(3)
        assert_close(operator.rule(spectrum)(kernel), spectrum.coordinates, 1e-11)
        assert_close(embedding(name).fit(X).embedding_, spectrum.coordinates, 1e-10)
    operator = Linear(X)
    spectrum = operator.decompose(3)
    assert_close(operator.rule(spectrum)(X), spectrum.coordinates, EXACT)


def test_reconstruction_rule_misses_by_its_own_residual() -> None:
    """|W t - t|^2 = mu |t|^2 for every coordinate t: what barycentric weights cannot rebuild."""
    X = sample()
    fitted = embedding("locally_linear").fit(X)
    indices, _ = Points(X).neighbors(9)
    weights = np.zeros((60, 60))
    np.put_along_axis(weights, indices, barycentric(Points(X).own_local_gram(indices)), axis=1)
    operator = Reconstruction(sparse.csr_array(weights))
    rebuilt = operator.rule(operator.decompose(3))(weights)
    missed = np.square(rebuilt - fitted.embedding_).sum(axis=0)
    mu = operator.top - fitted.eigenvalues_
    np.testing.assert_allclose(missed, mu * fitted.eigenvalues_, rtol=1e-6)
    near, _ = Points(X).neighbors_of(queries(), 9)
    wanted = np.einsum("ij,ijh->ih", barycentric(Points(X).local_gram(queries(), near)), fitted.embedding_[near])
    assert_close(fitted.transform(queries()), wanted, 1e-10)


# --- the same answer, however the samples are written


@pytest.mark.parametrize("name", ONE_STEP)
@pytest.mark.parametrize("seed", range(3))
def test_row_order_does_not_matter(name: str, seed: int) -> None:
    """Landmarks are drawn by row: their order does."""
    X, order = sample(seed=seed), np.random.default_rng(seed).permutation(60)
    fitted, permuted = embedding(name).fit(X), embedding(name).fit(X[order])
    assert_close(permuted.embedding_, fitted.embedding_[order], CLOSE)
    assert_close(permuted.transform(queries()), fitted.transform(queries()), CLOSE)


def test_row_order_does_not_matter_with_labels() -> None:
    X, order = sample(), np.random.default_rng(0).permutation(60)
    y = np.random.default_rng(1).integers(-1, 2, size=60)
    fitted, permuted = GraphEmbedding().fit(X, y), GraphEmbedding().fit(X[order], y[order])
    assert_close(permuted.embedding_, fitted.embedding_[order], CLOSE)


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_column_order_translation_and_rotation_do_not_matter(name: str) -> None:
    X, new = sample(), queries()
    expected = embedding(name).fit(X)
    columns = np.random.default_rng(0).permutation(X.shape[1])
    turn = ortho_group.rvs(X.shape[1], random_state=0)
    shift = np.linspace(-50, 50, X.shape[1])
    for moved in (lambda A: A[:, columns], lambda A: A @ turn, lambda A: A + shift, lambda A: A @ turn - 20):
        fitted = embedding(name).fit(moved(X))
        assert_close(fitted.embedding_, expected.embedding_, CLOSE)
        assert_close(fitted.transform(moved(new)), expected.transform(new), CLOSE)


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_constant_columns_do_not_matter(name: str) -> None:
    X, new = sample(), queries()
    expected = embedding(name).fit(X)
    padded = [np.hstack([np.full((len(A), 1), 5.0), A, np.zeros((len(A), 2))]) for A in (X, new)]
    fitted = embedding(name).fit(padded[0])
    assert_close(fitted.embedding_, expected.embedding_, CLOSE)
    assert_close(fitted.transform(padded[1]), expected.transform(new), CLOSE)


@pytest.mark.parametrize("name", ["pca", "isomap"])
@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_coordinates_scale_with_the_features(name: str, factor: float) -> None:
    fitted = embedding(name).fit(factor * sample())
    assert_close(fitted.embedding_, factor * embedding(name).fit(sample()).embedding_, CLOSE)


@pytest.mark.parametrize("factor", [1e-6, 1e6])
@pytest.mark.parametrize("name", ["kernel_pca", "laplacian_eigenmap", "locally_linear", "graph", "graph_mst"])
def test_scale_of_the_features_does_not_matter(name: str, factor: float) -> None:
    """Bandwidth and neighbourhood follow the distances."""
    fitted = embedding(name).fit(factor * sample())
    assert_close(fitted.embedding_, embedding(name).fit(sample()).embedding_, CLOSE)


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_repeated_fits_are_identical(name: str) -> None:
    first, again = embedding(name).fit(sample()), embedding(name).fit(sample())
    np.testing.assert_array_equal(first.embedding_, again.embedding_)
    np.testing.assert_array_equal(first.transform(queries()), again.transform(queries()))
    refitted = again.fit(sample(seed=5)).fit(sample())
    np.testing.assert_array_equal(first.embedding_, refitted.embedding_)
    np.testing.assert_array_equal(first.transform(queries()), refitted.transform(queries()))


def holey(n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.where(rng.random((n, 30)) < 0.4, rng.normal(size=(n, 30)) * np.linspace(3, 0.5, 30), 0.0)


@pytest.mark.parametrize("name", EMBEDDINGS)
@pytest.mark.parametrize("container", [sparse.csr_array, sparse.csc_array, sparse.coo_array, sparse.csr_matrix])
def test_sparse_equals_dense(name: str, container: Any) -> None:
    X, new = holey(60, 0), 0.5 * holey(15, 1)
    changes = {"neighborhood": 12.0} if name == "graph_radius" else {}
    dense, thin = embedding(name, **changes).fit(X), embedding(name, **changes).fit(container(X))
    assert_close(thin.embedding_, dense.embedding_, CLOSE)
    assert_close(thin.transform(container(new)), dense.transform(new), CLOSE)
    np.testing.assert_allclose(thin.transform(container(X)), thin.embedding_, atol=CLOSE)


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_sparse_and_dense_may_be_mixed(name: str) -> None:
    """A pipeline may fit on one and be asked about the other."""
    X, new = holey(60, 0), 0.5 * holey(15, 1)
    changes = {"neighborhood": 12.0} if name == "graph_radius" else {}
    fitted = embedding(name, **changes).fit(X)
    expected = fitted.transform(new)
    assert_close(fitted.transform(sparse.csr_array(new)), expected, CLOSE)
    assert_close(embedding(name, **changes).fit(sparse.csr_array(X)).transform(new), expected, CLOSE)


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_frame_equals_array(name: str) -> None:
    columns = [f"shape.area.f{i}" for i in range(8)]
    fitted = embedding(name).fit(sample())
    framed = embedding(name).fit(pd.DataFrame(sample(), columns=columns))
    np.testing.assert_array_equal(framed.embedding_, fitted.embedding_)
    new = pd.DataFrame(queries(), columns=columns, index=[f"case {i}" for i in range(15)])
    np.testing.assert_array_equal(framed.transform(new), fitted.transform(queries()))
    nullable = embedding(name).fit(pd.DataFrame(sample(), columns=columns).convert_dtypes())
    np.testing.assert_array_equal(nullable.embedding_, fitted.embedding_)


@pytest.mark.parametrize("name", EMBEDDINGS)
@pytest.mark.parametrize("kind", ["float32", "int64", "int16", "bool", "object", "fortran", "list", "strided"])
def test_the_type_of_numbers_does_not_matter(name: str, kind: str) -> None:
    """The numbers that came are the numbers that are embedded, in double precision."""
    whole = kind in ("int64", "int16")
    X = np.random.default_rng(0).normal(size=(60, 30)) > 0 if kind == "bool" else sample() * (100 if whole else 1)
    given_rows: Any = {
        "fortran": lambda: np.asfortranarray(X),
        "list": lambda: X.tolist(),
        "strided": lambda: np.repeat(X, 2, axis=1)[:, ::2],
    }.get(kind, lambda: X.astype(kind))()
    changes = {"neighborhood": 800.0 if whole else 8.0} if name == "graph_radius" else {}
    with quietly():  # distances of booleans tie
        expected = embedding(name, **changes).fit(np.asarray(given_rows, dtype=np.float64))
        fitted = embedding(name, **changes).fit(given_rows)
    assert fitted.embedding_.dtype == np.float64
    np.testing.assert_array_equal(fitted.embedding_, expected.embedding_)


# --- spectrum


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_shapes_order_and_signs(name: str) -> None:
    for h in (1, 3, 5):
        changes = {"embedding": Isomap(n_components=h)} if name == "landmarks" else {"n_components": h}
        fitted = embedding(name, **changes).fit(sample())
        assert fitted.embedding_.shape == (60, h)
        assert fitted.transform(queries()).shape == (15, h)
        core = getattr(fitted, "fitted_", fitted)
        assert core.eigenvalues_.shape == (h,)
        assert (np.diff(core.eigenvalues_) <= 0).all()
        assert (core.eigenvalues_ > 0).all()
        peaks = core.embedding_[np.abs(core.embedding_).argmax(axis=0), np.arange(h)]
        assert (peaks > 0).all()
        assert core.n_components_ == h


@pytest.mark.parametrize("name", ONE_STEP)
def test_fewer_coordinates_are_the_first_of_more(name: str) -> None:
    more = embedding(name, n_components=5).fit(sample())
    fewer = embedding(name, n_components=2).fit(sample())
    assert_close(fewer.embedding_, more.embedding_[:, :2], CLOSE)
    np.testing.assert_allclose(fewer.eigenvalues_, more.eigenvalues_[:2], rtol=CLOSE)
    assert_close(fewer.transform(queries()), more.transform(queries())[:, :2], CLOSE)


@pytest.mark.parametrize("name", KERNELS)
def test_kernel_coordinates_are_orthogonal_and_carry_their_eigenvalue(name: str) -> None:
    fitted = embedding(name).fit(sample())
    T = fitted.embedding_
    assert_close(T.T @ T, np.diag(fitted.eigenvalues_), 1e-11)
    np.testing.assert_allclose(T.sum(axis=0), 0, atol=1e-10 * np.abs(T).max())


@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize("name", GRAPHS)
def test_graph_coordinates_are_orthogonal_under_the_degrees(name: str, labelled: bool) -> None:
    """Y'DY = sum(D) I, and orthogonal to the constant."""
    y = np.random.default_rng(0).integers(-1, 2, size=60) if labelled else None
    fitted = embedding(name).fit(sample(), y)
    W = affinity(fitted, sample(), sample())
    if y is not None:
        known = np.outer(y >= 0, y >= 0)
        W = W * (1 + np.where(np.equal.outer(y, y), 1, -1) * known * W)
    d = W.sum(axis=1)
    np.testing.assert_allclose(fitted.degrees_, d, rtol=1e-10)
    assert_close(fitted.embedding_.T @ (d[:, None] * fitted.embedding_), d.sum() * np.eye(3), 1e-11)
    np.testing.assert_allclose(d @ fitted.embedding_, 0, atol=1e-10 * d.sum())


@pytest.mark.parametrize("name", [*ONE_STEP, "landmarks"])
@pytest.mark.parametrize("n", [12, 40, 100])
def test_elbow_stays_within_its_bounds(name: str, n: int) -> None:
    changes = {"n_components": "elbow"}
    if name == "landmarks":
        changes = {"embedding": Isomap(n_components="elbow", n_neighbors=6), "n_landmarks": n}
    with quietly():
        fitted = embedding(name, **changes).fit(sample(n))
    count = getattr(fitted, "fitted_", fitted).n_components_
    assert 2 <= count <= min(20, n / 4)
    assert fitted.embedding_.shape == (n, count)
    assert fitted.transform(sample(n)).shape == (n, count)


def test_elbow_of_a_line_is_its_only_coordinate() -> None:
    assert PCA(n_components="elbow").fit(np.arange(20.0)[:, None]).n_components_ == 1


@pytest.mark.parametrize("name", ONE_STEP)
def test_eigengap_says_how_well_axes_are_determined(name: str) -> None:
    """Smallest relative gap among the coordinates and the next one, of the operator's own eigenvalues."""
    fitted, more = embedding(name).fit(sample()), embedding(name, n_components=4).fit(sample())
    values = more.eigenvalues_
    if name in GRAPHS:
        values = 1 - values
    if name == "locally_linear":
        values = Reconstruction(sparse.csr_array(lle_weights(sample(), 9))).top - values
    gaps = np.abs(np.diff(values)) / np.maximum(values[1:], values[:-1])
    assert fitted.eigengap_ == pytest.approx(gaps.min(), rel=1e-6)


def lle_weights(X: np.ndarray, k: int) -> np.ndarray:
    indices, _ = Points(X).neighbors(k)
    weights = np.zeros((len(X), len(X)))
    np.put_along_axis(weights, indices, barycentric(Points(X).own_local_gram(indices)), axis=1)
    return weights


@pytest.mark.parametrize("n_features", [60, 900])
@pytest.mark.parametrize("name", ONE_STEP)
def test_iterative_and_dense_solvers_agree(name: str, n_features: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0, 3, size=700))
    curve = np.column_stack([np.cos(t) * 6, np.sin(t) * 6, t * 2, 3 * rng.random(700)])
    X = curve @ rng.normal(size=(4, n_features)) / 2 + 0.05 * rng.normal(size=(700, n_features))
    X = X[rng.permutation(700)]
    changes: dict[str, Any] = {"neighborhood": 4.0 * np.sqrt(n_features)} if name == "graph_radius" else {}
    monkeypatch.setattr(Linear, "IMPLICIT_ABOVE", 10_000)
    monkeypatch.setattr(spectral, "DENSE_BELOW", 10_000)
    dense = embedding(name, **changes).fit(X)
    monkeypatch.setattr(Linear, "IMPLICIT_ABOVE", 20)
    monkeypatch.setattr(spectral, "DENSE_BELOW", 20)
    iterated = embedding(name, **changes).fit(X)
    np.testing.assert_allclose(iterated.eigenvalues_, dense.eigenvalues_, rtol=1e-8)
    assert_close(iterated.embedding_, dense.embedding_, 1e-6)
    assert_close(iterated.transform(X[:50]), iterated.embedding_[:50], CLOSE)
    assert not np.array_equal(iterated.embedding_, dense.embedding_)  # two paths were taken


# --- distances instead of features


@pytest.mark.parametrize("name", BY_DISTANCE)
def test_precomputed_equals_euclidean(name: str) -> None:
    X, new = sample(), queries()
    fitted = embedding(name).fit(X)
    given = embedding(name, metric="precomputed").fit(cdist(X, X))
    assert_close(given.embedding_, fitted.embedding_, CLOSE)
    np.testing.assert_allclose(given.eigenvalues_, fitted.eigenvalues_, rtol=CLOSE)
    assert_close(given.transform(cdist(new, X)), fitted.transform(new), CLOSE)
    assert_close(given.transform(cdist(X, X)), given.embedding_, CLOSE * 1e-2)


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("n", [12, 13, 60])
def test_median_bandwidth_is_the_median_of_the_distances(n: int, power: int) -> None:
    """Also where the number of pairs is even and the median lies between two of them."""
    D = cdist(sample(n), sample(n))
    pairs = D[np.triu_indices(n, 1)] ** power
    for samples in (Points(sample(n)), Distances(D)):
        assert median_power(samples.squared(), power) == pytest.approx(np.median(pairs), rel=EXACT)


def test_distances_far_from_the_origin_keep_their_digits() -> None:
    X = sample() + 1e6
    D = cdist(X, X)
    for table in (np.sqrt(Points(X).squared()), np.sqrt(Points(X).squared_to(X))):
        np.testing.assert_allclose(table, D, rtol=1e-9, atol=0)
    thin = sparse.csr_array(X)
    np.testing.assert_allclose(np.sqrt(Points(thin).squared()), D, rtol=1e-9, atol=0)


@pytest.mark.parametrize("spread", [1e-8, 1e-3])
def test_near_twins_are_told_apart(spread: float) -> None:
    """Distances much smaller than the features come from differences, not from cancelling squares."""
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(30, 5)), 2, axis=0)
    X[1::2] += spread * rng.normal(size=(30, 5))
    np.testing.assert_allclose(np.sqrt(Points(X).squared()), cdist(X, X), rtol=1e-9, atol=0)
    indices, lengths = Points(X).neighbors(1)
    np.testing.assert_array_equal(indices[:, 0], np.arange(60) ^ 1)
    np.testing.assert_allclose(lengths[::2, 0], np.linalg.norm(X[1::2] - X[::2], axis=1), rtol=EXACT)


@pytest.mark.parametrize("m", [2, 20])
@pytest.mark.parametrize("n", [30, 1200])
def test_neighbours_are_those_of_a_full_sort(n: int, m: int) -> None:
    """Ties, among them coinciding samples, go to the lowest index, whichever way neighbours are found."""
    rng = np.random.default_rng(n + m)
    X = rng.integers(0, 4, size=(n, m)).astype(float)
    new = rng.integers(0, 4, size=(50, m)).astype(float)
    squared = cdist(X, X, "sqeuclidean")
    np.fill_diagonal(squared, np.inf)
    expected = np.argsort(squared, axis=1, kind="stable")[:, :6]
    for samples in (Points(X), Points(X).remember_distances(), Points(sparse.csr_array(X)), Distances(cdist(X, X))):
        np.testing.assert_array_equal(samples.neighbors(6)[0], expected)
    expected = np.argsort(cdist(new, X, "sqeuclidean"), axis=1, kind="stable")[:, :6]
    for samples, rows in (
        (Points(X), new),
        (Points(sparse.csr_array(X)), sparse.csr_array(new)),
        (Distances(cdist(X, X)), cdist(new, X)),
    ):
        np.testing.assert_array_equal(samples.neighbors_of(rows, 6)[0], expected)


@pytest.mark.parametrize("m", [2, 20])
@pytest.mark.parametrize("n", [30, 400])
def test_affinities_end_at_the_radius(n: int, m: int) -> None:
    """Distances of exactly the radius are outside, whichever way they are found."""
    X = np.random.default_rng(0).integers(0, 4, size=(n, m)).astype(float)
    new, D = X[:20] + 1, cdist(X, X)
    radius = 2.0 if m == 2 else np.sqrt(30.0)
    for samples in (Points(X), Points(sparse.csr_array(X)), Distances(D)):
        found = samples.within(radius)
        stored = sparse.coo_array(found)
        mask = np.zeros((n, n), dtype=bool)
        mask[stored.row, stored.col] = True
        np.testing.assert_array_equal(mask, radius > D)
        np.testing.assert_allclose(found.toarray(), np.where(mask, D, 0), rtol=EXACT)
    table = Points(X).within_of(new, radius)
    np.testing.assert_allclose(table.toarray(), np.where(cdist(new, X) < radius, cdist(new, X), 0), rtol=EXACT)
    weights = exponential(np.square(table.data), 2.0, 1)
    np.testing.assert_allclose(weights, np.exp(-table.data / 2), rtol=EXACT)


# --- drawn shapes


@st.composite
def tables(draw: st.DrawFn) -> np.ndarray:
    """12 to 40 samples, 1 to 30 features, at any scale and place."""
    n, m = draw(st.integers(12, 40)), draw(st.integers(1, 30))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    scale, place = 10.0 ** draw(st.integers(-3, 3)), draw(st.sampled_from([0.0, 1.0, -100.0]))
    spread = np.linspace(1.5, 0.5, m)
    return scale * (rng.normal(size=(n, m)) * spread + place)


def small(name: str, X: np.ndarray) -> Any:
    h = min(2, X.shape[1])
    if name == "landmarks":
        return LandmarkEmbedding(embedding=Isomap(n_components=h, n_neighbors=4), n_landmarks=11, random_state=0)
    if name == "graph_radius":
        return embedding(name, n_components=h, neighborhood=1.2 * float(np.median(cdist(X, X))))
    return embedding(name, n_components=h)


@pytest.mark.parametrize("name", EMBEDDINGS)
@settings(max_examples=20, deadline=None, derandomize=True)
@given(X=tables())
def test_any_shape_keeps_the_promises(name: str, X: np.ndarray) -> None:
    with quietly():
        fitted = small(name, X).fit(X)
        T, values = fitted.embedding_, getattr(fitted, "fitted_", fitted).eigenvalues_
        assert np.isfinite(T).all()
        assert_close(fitted.transform(X), T, CLOSE)
        assert (np.diff(values) <= 0).all()
        core = getattr(fitted, "fitted_", fitted).embedding_
        assert (core[np.abs(core).argmax(axis=0), np.arange(core.shape[1])] > 0).all()
        if name in KERNELS:
            assert_close(T.T @ T, np.diag(values), CLOSE)
        new = 0.7 * X[: len(X) // 2] + 0.3 * X[-(len(X) // 2) :]  # nearer to one than to the other
        together = fitted.transform(new)
        assert np.isfinite(together).all()
        assert_close(np.vstack([fitted.transform(row[None]) for row in new]), together, 1e-9)


@pytest.mark.parametrize("name", BY_DISTANCE)
@settings(max_examples=20, deadline=None, derandomize=True)
@given(X=tables())
def test_any_shape_is_embedded_alike_from_distances(name: str, X: np.ndarray) -> None:
    """Coordinates of nearly equal eigenvalues turn; the distances among coordinates of both fits do not."""
    with quietly():
        fitted = small(name, X).fit(X)
        given_ = small(name, X).set_params(metric="precomputed").fit(cdist(X, X))
        np.testing.assert_allclose(given_.eigenvalues_, fitted.eigenvalues_, rtol=1e-6)
        if fitted.eigengap_ > 1e-3:
            assert_close(given_.embedding_, fitted.embedding_, 1e-6)
            new = 0.7 * X[:6] + 0.3 * X[-6:]
            assert_close(given_.transform(cdist(new, X)), fitted.transform(new), 1e-6)


@pytest.mark.parametrize("name", BY_DISTANCE)
@settings(max_examples=20, deadline=None, derandomize=True)
@given(X=tables(), seed=st.integers(0, 10_000))
def test_any_shape_with_coinciding_samples(name: str, X: np.ndarray, seed: int) -> None:
    X = X[np.random.default_rng(seed).integers(0, len(X) - 3, size=len(X))]
    first = np.array([np.flatnonzero((row == X).all(axis=1))[0] for row in X])
    with quietly():
        fitted = small(name, X).fit(X)
        assert_close(fitted.transform(X), fitted.embedding_[first], CLOSE)
        if name not in ("laplacian_eigenmap", "locally_linear"):
            assert_close(fitted.embedding_[first], fitted.embedding_, CLOSE)


# --- scikit-learn and scipy


@pytest.mark.parametrize("wide", [False, True])
def test_pca_is_scikit_learns(wide: bool) -> None:
    X = np.random.default_rng(0).normal(size=(40, 120)) * np.linspace(3, 0.1, 120) if wide else sample()
    fitted, theirs = PCA(n_components=4).fit(X[5:]), decomposition.PCA(n_components=4).fit(X[5:])
    ours = up_to_sign(fitted.embedding_, theirs.transform(X[5:]))
    assert_close(ours, theirs.transform(X[5:]), 1e-10)
    signs = np.sign(np.einsum("ij,ij->j", fitted.embedding_, theirs.transform(X[5:])))
    assert_close(fitted.transform(X[:5]) * signs, theirs.transform(X[:5]), 1e-10)
    assert_close(fitted.components_ * signs[:, None], theirs.components_, 1e-10)
    np.testing.assert_allclose(fitted.mean_, theirs.mean_, rtol=EXACT, atol=EXACT)
    np.testing.assert_allclose(fitted.eigenvalues_, theirs.singular_values_**2, rtol=1e-10)


@pytest.mark.parametrize("bandwidth", [1.5, 4.0, 30.0])
def test_kernel_pca_is_scikit_learns(bandwidth: float) -> None:
    X, new = sample(), queries()
    fitted = KernelPCA(n_components=4, bandwidth=bandwidth).fit(X)
    theirs = decomposition.KernelPCA(n_components=4, kernel="rbf", gamma=1 / (2 * bandwidth**2)).fit(X)
    coordinates = theirs.transform(X)
    signs = np.sign(np.einsum("ij,ij->j", fitted.embedding_, coordinates))
    assert_close(fitted.embedding_ * signs, coordinates, 1e-9)
    assert_close(fitted.transform(new) * signs, theirs.transform(new), 1e-9)
    np.testing.assert_allclose(fitted.eigenvalues_, theirs.eigenvalues_, rtol=1e-10)


@pytest.mark.parametrize("k", [6, 10, 59])
def test_isomap_is_scikit_learns(k: int) -> None:
    X, new = sample(), queries()
    fitted = Isomap(n_components=4, n_neighbors=k).fit(X)
    theirs = manifold.Isomap(n_components=4, n_neighbors=k, eigen_solver="dense").fit(X)
    signs = np.sign(np.einsum("ij,ij->j", fitted.embedding_, theirs.embedding_))
    np.testing.assert_allclose(fitted.geodesics_, theirs.dist_matrix_, rtol=1e-11)
    assert_close(fitted.embedding_ * signs, theirs.embedding_, 1e-9)
    assert_close(fitted.transform(new) * signs, theirs.transform(new), 1e-9)


def test_isomap_of_a_complete_graph_is_pca() -> None:
    fitted, linear = Isomap(n_components=3, n_neighbors=59).fit(sample()), PCA(n_components=3).fit(sample())
    assert_close(fitted.embedding_, linear.embedding_, 1e-10)
    assert_close(fitted.transform(queries()), linear.transform(queries()), 0.2)  # paths go through neighbours


@pytest.mark.parametrize("k", [8, 12])
def test_locally_linear_embedding_is_scikit_learns(k: int) -> None:
    """Theirs are unit vectors, ours carry sqrt(lmax - mu)."""
    X, new = sample(), queries()
    fitted = LocallyLinearEmbedding(n_components=3, n_neighbors=k).fit(X)
    theirs = manifold.LocallyLinearEmbedding(n_components=3, n_neighbors=k, eigen_solver="dense").fit(X)
    scale = np.sqrt(fitted.eigenvalues_)
    signs = np.sign(np.einsum("ij,ij->j", fitted.embedding_, theirs.embedding_))
    assert_close(fitted.embedding_ / scale * signs, theirs.embedding_, 1e-6)
    assert_close(fitted.transform(new) / scale * signs, theirs.transform(new), 1e-6)


@pytest.mark.parametrize("name", GRAPHS)
def test_graph_embedding_is_the_generalised_eigenproblem(name: str) -> None:
    X = sample()
    fitted = embedding(name).fit(X)
    W = affinity(fitted, X, X)
    d = W.sum(axis=1)
    values, vectors = linalg.eigh(W, np.diag(d))
    assert values[-1] == pytest.approx(1)
    np.testing.assert_allclose(fitted.eigenvalues_, values[-2:-5:-1], rtol=1e-10)
    expected = vectors[:, -2:-5:-1] * np.sqrt(d.sum())
    assert_close(up_to_sign(fitted.embedding_, expected), expected, 1e-9)


def test_laplacian_eigenmap_is_the_pseudo_inverse() -> None:
    X = sample()
    fitted = embedding("laplacian_eigenmap").fit(X)
    near = np.argsort(cdist(X, X), axis=1)[:, 1:8]
    joined = np.zeros((60, 60), dtype=bool)
    np.put_along_axis(joined, near, True, axis=1)
    W = np.where(joined | joined.T, np.exp(-cdist(X, X, "sqeuclidean") / (2 * fitted.bandwidth_**2)), 0.0)
    values, vectors = np.linalg.eigh(np.linalg.pinv(np.diag(W.sum(axis=1)) - W, hermitian=True))
    expected = vectors[:, :-4:-1] * np.sqrt(values[:-4:-1])
    np.testing.assert_allclose(fitted.eigenvalues_, values[:-4:-1], rtol=1e-9)
    assert_close(up_to_sign(fitted.embedding_, expected), expected, 1e-9)


def test_a_pair_split_by_the_number_of_coordinates_is_told() -> None:
    """Also the gap after the last coordinate counts: a square's two axes are one pair."""
    corners = np.array([[1.0, 1], [1, -1], [-1, 1], [-1, -1]])
    with pytest.warns(NearEqualEigenvaluesWarning):
        assert gap(PCA(n_components=1).fit(corners)) < 1e-12
