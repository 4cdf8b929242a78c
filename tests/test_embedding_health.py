"""Embeddings say what is unusual, live with scikit-learn, and refuse what they cannot use with advice."""

import importlib.util
import pickle
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse import csgraph
from scipy.spatial.distance import cdist, pdist, squareform
from sklearn.base import clone
from sklearn.datasets import load_iris, make_swiss_roll
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from clearfold.embedding import (
    PCA,
    GraphEmbedding,
    Isomap,
    KernelPCA,
    LandmarkEmbedding,
    LaplacianEigenmap,
    LocallyLinearEmbedding,
    residual_variance,
    search,
)
from clearfold.embedding.locally_linear import barycentric
from clearfold.embedding.neighbors import neighbor_graph, spanning_tree
from clearfold.embedding.operator import Reconstruction
from clearfold.embedding.paths import shortest_paths
from clearfold.embedding.samples import Points
from clearfold.errors import (
    ClearfoldError,
    DisconnectedGraphWarning,
    DuplicateSamplesWarning,
    InputError,
    IsolatedQueryWarning,
    NearEqualEigenvaluesWarning,
    NullSpaceWarning,
)

EMBEDDINGS: dict[str, Any] = {
    "pca": PCA(n_components=3),
    "kernel_pca": KernelPCA(n_components=3),
    "isomap": Isomap(n_components=3, n_neighbors=7),
    "laplacian_eigenmap": LaplacianEigenmap(n_components=3, n_neighbors=7),
    "locally_linear": LocallyLinearEmbedding(n_components=3, n_neighbors=9),
    "graph": GraphEmbedding(n_components=3),
    "graph_radius": GraphEmbedding(n_components=3, neighborhood=8.0),
    "graph_mst": GraphEmbedding(n_components=3, neighborhood="mst"),
    "landmarks": LandmarkEmbedding(embedding=Isomap(n_components=3, n_neighbors=6), n_landmarks=40, random_state=0),
}
BY_DISTANCE = [name for name in EMBEDDINGS if name not in ("pca", "landmarks")]
WITH_NEIGHBOURS = ["isomap", "laplacian_eigenmap", "locally_linear"]
WITH_BANDWIDTH = ["kernel_pca", "laplacian_eigenmap", "graph", "graph_radius", "graph_mst"]
SCALES = np.array([3.0, 2.2, 1.6, 1.1, 0.8, 0.5, 0.3, 0.2])


def sample(n: int = 60, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, len(SCALES))) * SCALES


def queries(n: int = 15) -> np.ndarray:
    return 0.5 * sample(n, seed=1)


def embedding(name: str, **changes: Any) -> Any:
    """With changed parameters; a landmark embedding passes them to the embedding inside."""
    if name == "landmarks":
        changes = {f"embedding__{key}": value for key, value in changes.items()}
    return clone(EMBEDDINGS[name]).set_params(**changes)


def blobs(count: int, size: int = 10, distance: float = 100.0, seed: int = 0) -> np.ndarray:
    """Groups of samples far apart, at the corners of an uneven simplex."""
    rng = np.random.default_rng(seed)
    corners = distance * np.diag(1 + 0.1 * np.arange(count))
    return np.vstack([corner + rng.normal(size=(size, count)) for corner in corners])


def ignoring(*categories: type[Warning]) -> AbstractContextManager[Any]:
    """Where a warning may come but is not what is tested."""
    stack = ExitStack()
    stack.enter_context(warnings.catch_warnings())
    for category in categories:
        warnings.simplefilter("ignore", category)
    return stack


# --- a graph in parts


def assert_joined_like_kruskal(X: np.ndarray, k: int, bridges: np.ndarray) -> None:
    """Bridges are a minimum spanning tree of the parts, each the shortest edge between its two, shortest first."""
    near = np.argsort(cdist(X, X) + np.diag(np.full(len(X), np.inf)), axis=1, kind="stable")[:, :k]
    joined = np.zeros((len(X), len(X)))
    np.put_along_axis(joined, near, 1, axis=1)
    count, part = csgraph.connected_components(joined, directed=False)
    assert len(bridges) == count - 1
    if count == 1:
        return
    D = cdist(X, X)
    between = np.array([[D[np.ix_(part == a, part == b)].min() for b in range(count)] for a in range(count)])
    least = csgraph.minimum_spanning_tree(between / between.max()).sum() * between.max()
    lengths = D[bridges[:, 0], bridges[:, 1]]
    assert lengths.sum() == pytest.approx(least, rel=1e-9)
    assert (np.diff(lengths) >= 0).all()
    np.testing.assert_allclose(lengths, between[part[bridges[:, 0]], part[bridges[:, 1]]], rtol=1e-9)
    joined[bridges[:, 0], bridges[:, 1]] = 1
    assert csgraph.connected_components(joined, directed=False)[0] == 1


@pytest.mark.parametrize("scale", [1.0, 1e-7, 1e7])
@pytest.mark.parametrize("name", ["isomap", "laplacian_eigenmap"])
def test_parts_are_joined_and_said(name: str, scale: float) -> None:
    X = scale * blobs(4)
    changes = {"bandwidth": 1e3 * scale} if name == "laplacian_eigenmap" else {}
    with pytest.warns(DisconnectedGraphWarning, match="fell into 4 parts; 3 shortest edges") as said:
        fitted = embedding(name, n_neighbors=5, **changes).fit(X)
    assert fitted.n_connected_components_ == 4
    assert fitted.bridges_.shape == (3, 2)
    assert_joined_like_kruskal(X, 5, fitted.bridges_)
    message = str(said[0].message)
    assert all(f"{i}-{j}" in message for i, j in fitted.bridges_)
    assert "raise n_neighbors" in message
    assert np.isfinite(fitted.embedding_).all()
    if name == "isomap":
        assert np.isfinite(fitted.geodesics_).all()


@pytest.mark.parametrize("name", ["isomap", "laplacian_eigenmap"])
def test_a_connected_graph_has_no_bridges(name: str) -> None:
    fitted = embedding(name).fit(sample())
    assert fitted.n_connected_components_ == 1
    assert fitted.bridges_.shape == (0, 2)
    assert fitted.n_duplicates_ == 0


@settings(max_examples=40, deadline=None, derandomize=True)
@given(n=st.integers(12, 60), m=st.integers(1, 6), k=st.integers(1, 3), seed=st.integers(0, 10_000))
def test_bridges_of_any_graph_are_minimal(n: int, m: int, k: int, seed: int) -> None:
    X = np.random.default_rng(seed).normal(size=(n, m))
    graph = neighbor_graph(Points(X), k)
    assert_joined_like_kruskal(X, k, graph.bridges)
    assert np.isfinite(shortest_paths(graph.matrix(graph.lengths))).all()


@pytest.mark.parametrize("scale", [1e-7, 1.0, 1e7])
def test_spanning_tree_is_scipys_at_any_scale(scale: float) -> None:
    D = cdist(sample(), sample())
    edges, lengths = spanning_tree((scale * D) ** 2)
    tree = csgraph.minimum_spanning_tree(D)
    assert len(edges) == 59
    assert lengths.sum() == pytest.approx(scale * tree.sum(), rel=1e-12)
    assert set(map(tuple, edges)) == {(min(i, j), max(i, j)) for i, j in zip(*tree.nonzero(), strict=True)}


def test_mst_neighbourhood_is_the_smallest_that_joins_all() -> None:
    X = blobs(3, distance=10)
    fitted = GraphEmbedding(neighborhood="mst").fit(X)
    longest = csgraph.minimum_spanning_tree(cdist(X, X)).max()
    assert fitted.neighborhood_ == pytest.approx(longest, rel=1e-8)
    assert fitted.neighborhood_ > longest
    assert fitted.n_connected_components_ == 1


@pytest.mark.parametrize("parts", [2, 3, 5])
def test_a_radius_that_leaves_parts_is_said(parts: int) -> None:
    """As many eigenvalues are 1 as there are parts: coordinates only tell parts apart, from three on in any turn."""
    with (
        pytest.warns(DisconnectedGraphWarning, match=str(parts)),
        pytest.warns(NearEqualEigenvaluesWarning) if parts > 2 else ignoring(),
    ):
        fitted = GraphEmbedding(neighborhood=12.0).fit(blobs(parts))
    assert fitted.n_connected_components_ == parts


def test_weights_that_vanish_over_a_bridge_are_said() -> None:
    with (
        pytest.warns(DisconnectedGraphWarning, match="fell into 2 parts"),
        pytest.warns(DisconnectedGraphWarning, match="weights between 2 parts .* vanish"),
    ):
        fitted = LaplacianEigenmap(n_neighbors=5, bandwidth=1.0).fit(blobs(2))
    assert (fitted.n_connected_components_, fitted.n_parts_) == (2, 2)
    np.testing.assert_allclose(fitted.embedding_[:10].sum(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(fitted.embedding_[10:].sum(axis=0), 0, atol=1e-9)
    with pytest.warns(DisconnectedGraphWarning, match="fell into 2 parts"):
        fitted = LaplacianEigenmap(n_neighbors=5, bandwidth=100.0).fit(blobs(2))
    assert fitted.n_parts_ == 1
    assert (np.sign(fitted.embedding_[:10, 0]) != np.sign(fitted.embedding_[10:, 0])).all()  # the bridge is the axis


@pytest.mark.parametrize("exponent", range(6, 17))
def test_a_bridge_of_any_weight_separates_the_parts_or_is_said_to_vanish(exponent: int) -> None:
    """Between a bridge that is felt and one that is not, there is no third case that loses coordinates."""
    X = blobs(2)
    length = cdist(X[:10], X[10:]).min()
    bandwidth = length / np.sqrt(2 * exponent * np.log(10))  # the bridge weighs 10^-exponent
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        fitted = LaplacianEigenmap(n_neighbors=5, bandwidth=bandwidth).fit(X)
    assert fitted.embedding_.shape == (20, 2)
    sides = np.sign(fitted.embedding_[:, 0])
    separated = abs(sides[:10].sum()) == abs(sides[10:].sum()) == 10 and sides[0] != sides[-1]
    vanished = any("vanish" in str(warning.message) for warning in said)
    assert separated != vanished
    assert fitted.n_parts_ == 1 + vanished


# --- coinciding samples


@pytest.mark.parametrize("name", WITH_NEIGHBOURS)
@pytest.mark.parametrize("copies", [1, 3, 12])
def test_duplicates_are_counted(name: str, copies: int) -> None:
    """Also more copies than neighbours."""
    X = np.vstack([sample(), np.repeat(sample()[[5]], copies, axis=0), sample()[[9, 20]]])
    order = np.random.default_rng(0).permutation(len(X))
    said = f"{copies + 2} of {len(X)} samples coincide"
    with (
        ignoring(DisconnectedGraphWarning, NullSpaceWarning),
        # locally linear embedding counts them but does not speak of them
        ignoring() if name == "locally_linear" else pytest.warns(DuplicateSamplesWarning, match=said),
    ):
        fitted = embedding(name).fit(X[order])
    assert fitted.n_duplicates_ == copies + 2


def test_duplicates_keep_paths_of_length_zero() -> None:
    X = np.vstack([sample(), sample()[:10]])
    with pytest.warns(DuplicateSamplesWarning, match="10 of 70"):
        fitted = embedding("isomap").fit(X)
    np.testing.assert_array_equal(fitted.geodesics_[np.arange(10), np.arange(60, 70)], 0)
    assert (squareform(fitted.geodesics_, checks=False)[squareform(cdist(X, X), checks=False) > 0] > 0).all()


# --- axes that the data do not determine


def polygon(n: int = 12) -> np.ndarray:
    angle = 2 * np.pi * np.arange(n) / n
    return np.column_stack([np.cos(angle), np.sin(angle)])


@pytest.mark.parametrize(
    "estimator",
    [
        PCA(),
        KernelPCA(),
        Isomap(n_neighbors=2),
        LaplacianEigenmap(n_neighbors=2),
        LocallyLinearEmbedding(n_neighbors=2),
        GraphEmbedding(),
        GraphEmbedding(neighborhood=0.8),
    ],
)
@pytest.mark.parametrize("shape", ["polygon", "simplex"])
def test_symmetric_samples_have_no_axes_of_their_own(estimator: Any, shape: str) -> None:
    """A regular polygon can be turned, a regular simplex in every way."""
    X = polygon() if shape == "polygon" else np.eye(8)
    if estimator.get_params().get("neighborhood") and shape == "simplex":
        estimator = clone(estimator).set_params(neighborhood=2.0)
    with pytest.warns(NearEqualEigenvaluesWarning, match=r"eigenvalues \d and \d differ by"):
        fitted = clone(estimator).fit(X)
    assert fitted.eigengap_ < 1e-6


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_samples_with_axes_of_their_own_raise_no_warning(name: str) -> None:
    fitted = embedding(name).fit(sample())  # a warning would be an error
    assert getattr(fitted, "fitted_", fitted).eigengap_ > 1e-3


def test_samples_without_any_neighbour_within_the_radius_have_no_axes() -> None:
    """Eight parts of one sample: every eigenvalue is 1, whatever rounding makes of the gaps."""
    with pytest.warns(NearEqualEigenvaluesWarning), pytest.warns(DisconnectedGraphWarning):
        GraphEmbedding(neighborhood=0.5).fit(np.eye(8))


# --- locally linear embedding: groups that know only themselves


def null_dimension(X: np.ndarray, k: int) -> int:
    indices, _ = Points(X).neighbors(k)
    weights = np.zeros((len(X), len(X)))
    np.put_along_axis(weights, indices, barycentric(Points(X).own_local_gram(indices)), axis=1)
    values = np.linalg.eigvalsh(Reconstruction(sparse.csr_array(weights)).matrix)
    return int(np.count_nonzero(values < 1e-12 * values.max()))


def test_neighbours_are_added_until_coordinates_are_determined() -> None:
    X = blobs(3)
    assert null_dimension(X, 4) == 3
    with pytest.warns(NullSpaceWarning, match=r"n_neighbors=4 .* n_neighbors=\d+ was used instead"):
        fitted = LocallyLinearEmbedding(n_neighbors=4).fit(X)
    assert fitted.n_neighbors_ > 4
    assert fitted.null_dimension_ == null_dimension(X, fitted.n_neighbors_) <= 2
    expected = LocallyLinearEmbedding(n_neighbors=fitted.n_neighbors_).fit(X)
    np.testing.assert_array_equal(fitted.embedding_, expected.embedding_)
    np.testing.assert_array_equal(fitted.transform(X[:5] + 0.01), expected.transform(X[:5] + 0.01))
    assert fitted.n_neighbors == 4  # what was asked is remembered as it was


def test_two_groups_are_told_apart_by_the_first_coordinate() -> None:
    X = blobs(2)
    with pytest.warns(NullSpaceWarning, match="two groups"):
        fitted = LocallyLinearEmbedding(n_neighbors=4).fit(X)
    assert (fitted.n_neighbors_, fitted.null_dimension_, fitted.n_connected_components_) == (4, 2, 2)
    assert null_dimension(X, 4) == 2
    np.testing.assert_allclose(fitted.embedding_[:10, 0], fitted.embedding_[0, 0], rtol=1e-6)
    np.testing.assert_allclose(fitted.embedding_[10:, 0], -fitted.embedding_[0, 0], rtol=1e-6)


def test_a_healthy_graph_has_one_group() -> None:
    fitted = embedding("locally_linear").fit(sample())
    assert (fitted.n_neighbors_, fitted.null_dimension_, fitted.n_connected_components_) == (9, 1, 1)
    assert fitted.n_duplicates_ == 0


# --- new samples far away


@pytest.mark.parametrize(
    "estimator",
    [
        GraphEmbedding(neighborhood=6.0),
        GraphEmbedding(neighborhood="mst"),
        GraphEmbedding(bandwidth=20.0, power=2),
        LaplacianEigenmap(n_neighbors=7, bandwidth=1.5),
        LaplacianEigenmap(n_neighbors=7),
    ],
)
def test_an_isolated_query_gets_the_place_of_the_nearest_and_says_so(estimator: Any) -> None:
    X, new = sample(), queries()
    new[[4, 11]] = X[[17, 30]] * 1e3
    fitted = clone(estimator).fit(X)
    expected = np.zeros(15, dtype=bool)
    expected[[4, 11]] = True
    mask = fitted.isolated(new)
    np.testing.assert_array_equal(mask, expected)
    with pytest.warns(IsolatedQueryWarning, match=r"2 of 15 .*rows 4, 11"):
        placed = fitted.transform(new)
    nearest = cdist(new[mask], X).argmin(axis=1)
    np.testing.assert_array_equal(placed[mask], fitted.embedding_[nearest])
    np.testing.assert_allclose(placed[~mask], fitted.transform(new[~mask]), rtol=1e-10)
    given = clone(estimator).set_params(metric="precomputed").fit(cdist(X, X))
    np.testing.assert_array_equal(given.isolated(cdist(new, X)), expected)


@pytest.mark.parametrize("name", ["pca", "kernel_pca", "isomap", "locally_linear"])
def test_methods_that_place_every_query_isolate_none(name: str) -> None:
    fitted = embedding(name).fit(sample())
    assert not fitted.isolated(1e3 * sample()).any()
    assert np.isfinite(fitted.transform(1e3 * sample())).all()


@pytest.mark.parametrize("name", [n for n in EMBEDDINGS if n != "landmarks"])
def test_training_samples_are_not_isolated(name: str) -> None:
    assert not embedding(name).fit(sample()).isolated(sample()).any()


# --- choosing


def correlation_curve(coordinates: np.ndarray, distances: np.ndarray) -> np.ndarray:
    target = squareform(distances, checks=False)
    return np.array(
        [1 - np.corrcoef(pdist(coordinates[:, :h]), target)[0, 1] for h in range(1, coordinates.shape[1] + 1)]
    )


def test_residual_variance_is_one_minus_the_correlation_of_distances() -> None:
    X = sample()
    for name, target in (
        ("pca", lambda e: cdist(X, X)),
        ("isomap", lambda e: e.geodesics_),
        ("kernel_pca", lambda e: np.sqrt(2 - 2 * np.exp(-cdist(X, X, "sqeuclidean") / (2 * e.bandwidth_**2)))),
    ):
        curve = residual_variance(embedding(name), X, max_components=6)
        fitted = embedding(name, n_components=6).fit(X)
        np.testing.assert_allclose(curve.values, correlation_curve(fitted.embedding_, target(fitted)), atol=1e-10)
        assert len(curve.frame()) == 6
        assert list(curve.frame().columns) == ["n_components", "residual_variance"]
        assert 2 <= curve.chosen <= 6
        assert f"{curve.chosen} of 6" in repr(curve)


@pytest.mark.parametrize("name", [n for n in EMBEDDINGS if n != "landmarks"])
def test_the_elbow_is_that_of_the_curve(name: str) -> None:
    """The curve lies farthest below its chord there."""
    curve = residual_variance(embedding(name), sample())
    head = curve.values[:15]  # n / 4
    depth = np.linspace(head[0], head[-1], len(head)) - head
    assert curve.chosen == max(2, depth.argmax() + 1)
    with ignoring(NearEqualEigenvaluesWarning):
        fitted = embedding(name, n_components="elbow").fit(sample())
    assert fitted.n_components_ == curve.chosen


GRIDS: dict[str, dict[str, list[Any]]] = {
    "pca": {},
    "kernel_pca": {"bandwidth": [2.0, 5.0, 9.0]},
    "isomap": {"n_neighbors": [7, 10, 15]},
    "laplacian_eigenmap": {"n_neighbors": [7, 12], "bandwidth": [3.0, 6.0]},
    "locally_linear": {"n_neighbors": [9, 12]},
    "graph": {"bandwidth": ["median", 3.0]},
}


@pytest.mark.parametrize("name", GRIDS)
def test_search_equals_fitting_every_setting_alone(name: str) -> None:
    grid = GRIDS[name]
    found = search(embedding(name), sample(), **grid, max_components=8)
    tried = [{}]
    for parameter, values in grid.items():
        tried = [{**setting, parameter: value} for setting in tried for value in values]
    assert len(found.table) == sum(found.table["n_components"] == 1) * 8 == 8 * len(tried)
    elbows = []
    for setting in tried:
        alone = residual_variance(embedding(name, **setting), sample(), max_components=8)
        rows = found.table
        for parameter, value in setting.items():
            rows = rows[rows[parameter] == value]
        np.testing.assert_allclose(rows["residual_variance"], alone.values, rtol=0, atol=1e-10)
        np.testing.assert_array_equal(rows["n_components"], np.arange(1, 9))
        np.testing.assert_array_equal(rows["is_elbow"], rows["n_components"] == alone.chosen)
        elbows.append((alone.values[alone.chosen - 1], {**setting, "n_components": alone.chosen}))
    assert found.best == min(elbows, key=lambda pair: pair[0])[1]
    chosen = found.best_estimator()
    assert {**embedding(name).get_params(), **found.best} == chosen.get_params()
    assert chosen.fit(sample()).embedding_.shape == (60, found.best["n_components"])
    assert f"{len(found.table)} settings" in repr(found)


@pytest.mark.parametrize("choose", [residual_variance, search])
@pytest.mark.parametrize("name", ["kernel_pca", "isomap", "laplacian_eigenmap", "locally_linear", "graph_radius"])
def test_choosing_leaves_the_embedding_as_it_was(name: str, choose: Callable[..., Any]) -> None:
    """A fitted embedding still places new samples as before, whatever was tried with it since."""
    fitted = embedding(name).fit(sample())
    before = fitted.transform(queries())
    choose(fitted, sample(50, seed=3)[:, :7])
    np.testing.assert_array_equal(fitted.transform(queries()), before)
    fresh = embedding(name)
    choose(fresh, sample())
    assert not [attribute for attribute in vars(fresh) if attribute.endswith("_")]


@pytest.mark.parametrize(
    ("estimator", "grid"),
    [(PCA(), {"n_neighbors": [5]}), (Isomap(), {"bandwidth": [1.0]}), (Isomap(), {"n_neighbors": []})],
)
def test_search_over_what_an_embedding_does_not_have_is_refused(estimator: Any, grid: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"{next(iter(grid))}.*Give values only for parameters"):
        search(estimator, sample(), **grid)


# --- landmarks


@pytest.mark.parametrize("selection", ["kmeans++", "random"])
def test_landmarks_are_seeded(selection: str) -> None:
    X = sample(200)
    chosen = [
        LandmarkEmbedding(embedding=PCA(), n_landmarks=30, selection=selection, random_state=seed).fit(X).landmarks_
        for seed in (0, 0, 1, np.random.RandomState(0))
    ]
    np.testing.assert_array_equal(chosen[0], chosen[1])
    np.testing.assert_array_equal(chosen[0], chosen[3])
    assert not np.array_equal(chosen[0], chosen[2])
    for landmarks in chosen:
        assert len(landmarks) == 30
        assert (np.diff(landmarks) > 0).all()
        assert 0 <= landmarks[0] <= landmarks[-1] < 200


@pytest.mark.parametrize("name", [n for n in EMBEDDINGS if n != "landmarks"])
def test_landmarks_keep_the_coordinates_of_their_embedding(name: str) -> None:
    X = sample(120)
    fitted = LandmarkEmbedding(embedding=embedding(name), n_landmarks=80, random_state=0).fit(X)
    plain = embedding(name).fit(X[fitted.landmarks_])
    scale = np.abs(plain.embedding_).max()
    np.testing.assert_array_equal(fitted.fitted_.embedding_, plain.embedding_)
    np.testing.assert_allclose(fitted.embedding_[fitted.landmarks_], plain.embedding_, rtol=0, atol=1e-10 * scale)
    np.testing.assert_allclose(fitted.embedding_, plain.transform(X), rtol=0, atol=1e-10 * scale)
    np.testing.assert_allclose(fitted.transform(queries()), plain.transform(queries()), rtol=0, atol=1e-10 * scale)


@pytest.mark.parametrize("n_landmarks", [60, 2000])
@pytest.mark.parametrize("name", [n for n in EMBEDDINGS if n != "landmarks"])
def test_as_many_landmarks_as_samples_are_no_approximation(name: str, n_landmarks: int) -> None:
    fitted = LandmarkEmbedding(embedding=embedding(name), n_landmarks=n_landmarks).fit(sample())
    plain = embedding(name).fit(sample())
    np.testing.assert_array_equal(fitted.landmarks_, np.arange(60))
    np.testing.assert_allclose(fitted.embedding_, plain.embedding_, rtol=0, atol=1e-10 * np.abs(plain.embedding_).max())


def test_landmarks_of_labelled_samples() -> None:
    X, y = sample(), np.random.default_rng(0).integers(-1, 2, size=60)
    fitted = LandmarkEmbedding(embedding=GraphEmbedding(), n_landmarks=40, random_state=0).fit(X, y)
    plain = GraphEmbedding().fit(X[fitted.landmarks_], y[fitted.landmarks_])
    np.testing.assert_allclose(fitted.embedding_, plain.transform(X), atol=1e-10)


@pytest.mark.parametrize("selection", ["kmeans++", "random"])
def test_landmark_isomap_keeps_the_distances_of_isomap(selection: str) -> None:
    """With landmarks dense enough that six neighbours do not reach across the sheets of the roll."""
    X, _ = make_swiss_roll(1500, random_state=0)
    exact = Isomap(n_neighbors=6).fit(X).embedding_
    landmarks = LandmarkEmbedding(embedding=Isomap(n_neighbors=6), n_landmarks=600, selection=selection, random_state=0)
    near = landmarks.fit(X)
    assert np.corrcoef(pdist(near.embedding_), pdist(exact))[0, 1] >= 0.99


def test_the_default_of_landmarks_is_isomap() -> None:
    fitted = LandmarkEmbedding(n_landmarks=40, random_state=0).fit(sample())
    assert isinstance(fitted.fitted_, Isomap)


def test_landmark_coordinates_are_an_array_under_any_output_setting() -> None:
    with sklearn.config_context(transform_output="pandas"):
        fitted = embedding("landmarks").fit(sample())
    assert isinstance(fitted.embedding_, np.ndarray)


# --- life with scikit-learn


@pytest.mark.filterwarnings("ignore::clearfold.errors.ClearfoldWarning")  # their tables are small and odd
@parametrize_with_checks(
    [
        PCA(),
        KernelPCA(),
        KernelPCA(metric="precomputed"),
        Isomap(),
        Isomap(metric="precomputed"),
        LaplacianEigenmap(),
        LocallyLinearEmbedding(),
        GraphEmbedding(),
        GraphEmbedding(neighborhood=1.0),
        GraphEmbedding(neighborhood="mst"),
        LandmarkEmbedding(),
        LandmarkEmbedding(n_landmarks=10),
    ],
    expected_failed_checks=lambda estimator: (
        {"check_positive_only_tag_during_fit": "wants scikit-learn's own words; its Isomap of distances fails too"}
        if sklearn.utils.get_tags(estimator).input_tags.pairwise
        else {}
    ),
)
def test_scikit_learns_own_checks(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_names_and_frames(name: str) -> None:
    columns = [f"shape.f{i}" for i in range(8)]
    frame = pd.DataFrame(sample(), columns=columns, index=[f"case {i}" for i in range(60)])
    fitted = embedding(name).set_output(transform="pandas")
    coordinates = fitted.fit_transform(frame)
    prefix = type(fitted).__name__.lower()
    assert list(fitted.get_feature_names_out()) == [f"{prefix}{i}" for i in range(3)] == list(coordinates.columns)
    assert list(fitted.feature_names_in_) == columns
    assert fitted.n_features_in_ == 8
    assert list(coordinates.index) == list(frame.index)
    pd.testing.assert_index_equal(fitted.transform(frame[:7]).index, frame.index[:7])
    np.testing.assert_array_equal(coordinates, fitted.embedding_)


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_clone_and_pickle(name: str) -> None:
    fitted = embedding(name).fit(sample())
    assert clone(fitted).get_params(deep=False).keys() == fitted.get_params(deep=False).keys()
    assert not hasattr(clone(fitted), "embedding_")
    assert "".join(repr(clone(fitted)).split()) == "".join(repr(fitted).split())
    for again in (pickle.loads(pickle.dumps(fitted)), pickle.loads(pickle.dumps(fitted, protocol=2))):
        np.testing.assert_array_equal(again.embedding_, fitted.embedding_)
        np.testing.assert_array_equal(again.transform(queries()), fitted.transform(queries()))
    fitted.transform(queries())  # what is kept for speed is not what is stored
    assert len(pickle.dumps(fitted)) <= len(pickle.dumps(embedding(name).fit(sample()))) + 200


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_in_a_pipeline_with_a_classifier(name: str) -> None:
    """Two kinds of iris, every third flower left out of the fit; the largest would get half of them right."""
    data = load_iris()
    X, y = data.data[50:], data.target[50:]
    new = np.arange(100) % 3 == 0
    changes = {"neighborhood": 2.0} if name == "graph_radius" else {}
    pipeline = make_pipeline(StandardScaler(), embedding(name, **changes), LogisticRegression())
    with ignoring(DuplicateSamplesWarning, IsolatedQueryWarning):
        assert pipeline.fit(X[~new], y[~new]).score(X[new], y[new]) >= 0.75


@pytest.mark.parametrize("name", WITH_NEIGHBOURS)
def test_grid_search_gives_the_same_from_features_and_from_distances(name: str) -> None:
    """Rows and columns of a table of distances are split together."""
    data = load_iris()
    X, y = data.data + 1e-3 * np.random.default_rng(0).normal(size=data.data.shape), data.target  # iris has twins
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    grid = {f"{type(EMBEDDINGS[name]).__name__.lower()}__n_neighbors": [20, 30]}

    def searched(metric: str, table: np.ndarray) -> GridSearchCV:
        with ignoring(DisconnectedGraphWarning, NearEqualEigenvaluesWarning, NullSpaceWarning, IsolatedQueryWarning):
            pipeline = make_pipeline(embedding(name, metric=metric), LogisticRegression())
            return GridSearchCV(pipeline, grid, cv=folds, error_score="raise").fit(table, y)

    plain, given_ = searched("euclidean", X), searched("precomputed", cdist(X, X))
    np.testing.assert_allclose(given_.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"], atol=1e-12)
    assert plain.best_score_ > 0.8
    assert given_.best_params_ == plain.best_params_


@pytest.mark.parametrize("metric", ["euclidean", "precomputed"])
@pytest.mark.parametrize("name", BY_DISTANCE)
def test_the_pairwise_tag_follows_the_metric(name: str, metric: str) -> None:
    tags = sklearn.utils.get_tags(embedding(name, metric=metric))
    assert tags.input_tags.pairwise == (metric == "precomputed")
    assert tags.input_tags.sparse == (metric == "euclidean")


# --- what cannot be used


def refused(call: Callable[[], Any], *words: str) -> None:
    """An error of our own tree that is also a ValueError; its message holds what came and what to do."""
    with ignoring(DuplicateSamplesWarning, DisconnectedGraphWarning), pytest.raises(ClearfoldError) as error:
        call()
    assert isinstance(error.value, ValueError)
    message = str(error.value)
    for word in words:
        assert word in message, f"{word!r} is not in {message!r}"


def spoiled(value: Any, dtype: Any = float) -> np.ndarray:
    X = sample().astype(dtype)
    X[5, 2] = value
    return X


@pytest.mark.parametrize("name", EMBEDDINGS)
@pytest.mark.parametrize(
    ("X", "words"),
    [
        pytest.param(spoiled(np.nan), ("NaN", "Impute or drop"), id="missing"),
        pytest.param(sparse.csr_array(spoiled(np.nan)), ("NaN", "Impute or drop"), id="sparse missing"),
        pytest.param(spoiled(None, object), ("NaN", "Impute or drop"), id="none"),
        pytest.param(spoiled(pd.NA, object), ("NA", "Impute or drop"), id="pandas missing"),
        pytest.param(spoiled(np.inf), ("infinity", "Replace or drop"), id="infinity"),
        pytest.param(spoiled("tumour", object), ("'tumour'", "Pass numeric features only"), id="text"),
        pytest.param(sample()[:1], ("1 sample", "Give more samples"), id="one row"),
        pytest.param(sample()[:0], ("0 sample", "Give more samples"), id="no row"),
        pytest.param(sample()[:, :0], ("0 feature", "features"), id="no column"),
        pytest.param(sample()[:, 0], ("1D array", "Reshape"), id="one dimension"),
        pytest.param(np.ones((60, 4)), ("all samples are equal", "Check"), id="equal"),
        pytest.param(np.full((60, 4), 0.1), ("all samples are equal", "Check"), id="equal up to rounding"),
    ],
)
def test_unusable_tables_are_refused(name: str, X: Any, words: tuple[str, ...]) -> None:
    refused(lambda: embedding(name).fit(X), *words)


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_advice_fits_the_trouble(name: str) -> None:
    with pytest.raises(InputError) as error:
        embedding(name).fit(sample()[:, :0])
    assert "more samples" not in str(error.value)


@pytest.mark.parametrize("name", WITH_NEIGHBOURS)
def test_fewer_rows_than_neighbours_are_refused(name: str) -> None:
    refused(
        lambda: embedding(name).fit(sample(6)), f"n_neighbors={embedding(name).n_neighbors}", "6 samples", "at most 5"
    )
    refused(lambda: embedding(name, n_neighbors=60).fit(sample()), "n_neighbors=60", "at most 59")


@pytest.mark.parametrize("name", WITH_NEIGHBOURS)
@pytest.mark.parametrize("value", [0, -3, 1.5, 5.0, "5", None, True])
def test_neighbours_that_are_no_number_are_refused(name: str, value: Any) -> None:
    words = (f"n_neighbors={value!r} came", "a whole number of at least 1 is wanted")
    refused(lambda: embedding(name, n_neighbors=value).fit(sample()), *words)


@pytest.mark.parametrize("name", EMBEDDINGS)
@pytest.mark.parametrize("value", [0, -1, 2.5, 2.0, "x", None, True])
def test_numbers_of_coordinates_that_are_none_are_refused(name: str, value: Any) -> None:
    words = (f"n_components={value!r} came", "whole number of at least 1, or 'elbow', is wanted")
    refused(lambda: embedding(name, n_components=value).fit(sample()), *words)


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_more_coordinates_than_the_samples_have_are_refused(name: str) -> None:
    refused(
        lambda: embedding(name, n_components=500).fit(sample()), "n_components=500 came", "Set n_components to at most"
    )


@pytest.mark.parametrize("rank", [1, 2])
def test_the_rank_that_is_named_can_be_used(rank: int) -> None:
    X = sample()[:, :rank] @ np.random.default_rng(0).normal(size=(rank, 6))
    refused(lambda: PCA(n_components=rank + 1).fit(X), f"only {rank} coordinate", f"at most {rank}")
    assert PCA(n_components=rank).fit(X).embedding_.shape == (60, rank)


def test_two_samples_have_no_locally_linear_coordinate() -> None:
    """lmax - mu = 0 for the only vector off the constant."""
    refused(lambda: LocallyLinearEmbedding(n_components=1, n_neighbors=1).fit(sample(2)), "there is nothing to embed")


@pytest.mark.parametrize("name", WITH_BANDWIDTH)
@pytest.mark.parametrize("value", [0, -2.0, "x", np.nan, np.inf, None])
def test_bandwidths_that_are_none_are_refused(name: str, value: Any) -> None:
    words = (f"bandwidth={value!r} came", "'median' or a number above 0 is wanted")
    refused(lambda: embedding(name, bandwidth=value).fit(sample()), *words)


@pytest.mark.parametrize("bandwidth", [1e-6, 1e-3, 0.05])
@pytest.mark.parametrize("name", WITH_BANDWIDTH)
def test_a_bandwidth_too_small_for_any_affinity_is_told(name: str, bandwidth: float) -> None:
    """All samples are then strangers: an error with advice, or coordinates with a warning that they mean nothing."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            embedding(name, bandwidth=bandwidth).fit(sample())
        except InputError as error:
            assert "all samples are equal" not in str(error)  # noqa: PT017
            assert "bandwidth" in " ".join(map(str, [error, *(w.message for w in said)]))  # noqa: PT017
        else:
            assert any(issubclass(w.category, NearEqualEigenvaluesWarning) for w in said)
    assert not any(issubclass(w.category, RuntimeWarning) for w in said)


@pytest.mark.parametrize("value", [0, -1, np.nan, "x", None])
def test_powers_that_are_none_are_refused(value: Any) -> None:
    refused(lambda: GraphEmbedding(power=value).fit(sample()), f"power={value!r} came", "a number above 0 is wanted")


@pytest.mark.parametrize("value", [0, -1, np.nan, "x"])
def test_neighbourhoods_that_are_none_are_refused(value: Any) -> None:
    words = (f"neighborhood={value!r} came", "'mst', a distance above 0, or None is wanted")
    refused(lambda: GraphEmbedding(neighborhood=value).fit(sample()), *words)


@pytest.mark.parametrize("value", [0, 1, 2.5, "x", None, True])
def test_numbers_of_landmarks_that_are_none_are_refused(value: Any) -> None:
    words = (f"n_landmarks={value!r} came", "a whole number of at least 2 is wanted")
    refused(lambda: LandmarkEmbedding(n_landmarks=value).fit(sample()), *words)


def test_an_unknown_selection_is_refused() -> None:
    refused(
        lambda: LandmarkEmbedding(selection="best").fit(sample()), "selection='best' came", "'kmeans++' or 'random'"
    )


@pytest.mark.parametrize("n_labels", [2, 61])
@pytest.mark.parametrize("estimator", [GraphEmbedding(), LandmarkEmbedding(embedding=GraphEmbedding(), n_landmarks=20)])
def test_labels_for_other_rows_are_refused(estimator: Any, n_labels: int) -> None:
    words = (f"{n_labels} labels came for 60 samples", "one label for each row")
    refused(lambda: clone(estimator).fit(sample(), np.zeros(n_labels)), *words)


@pytest.mark.parametrize("name", BY_DISTANCE)
@pytest.mark.parametrize("value", ["cosine", None, 2])
def test_unknown_metrics_are_refused(name: str, value: Any) -> None:
    words = (f"metric={value!r} came", "'euclidean' or 'precomputed' is wanted")
    refused(lambda: embedding(name, metric=value).fit(sample()), *words)


def tampered(**entries: float) -> np.ndarray:
    D = cdist(sample(), sample())
    for place, value in entries.items():
        i, j = map(int, place[1:].split("_"))
        D[i, j] = value
    return D


@pytest.mark.parametrize("name", BY_DISTANCE)
@pytest.mark.parametrize(
    ("D", "words"),
    [
        pytest.param(tampered()[:40], ("(40, 60)", "square", "Pass distances among"), id="not square"),
        pytest.param(tampered(d3_4=77.0), ("not symmetric", "difference", "Pass distances with"), id="not symmetric"),
        pytest.param(tampered(d3_4=-2.5, d4_3=-2.5), ("-2.5", "not similarities"), id="negative"),
        pytest.param(tampered(d3_3=1.25), ("diagonal", "1.25", "not similarities"), id="diagonal"),
        pytest.param(sparse.csr_array(tampered()), ("sparse", "dense"), id="sparse"),
        pytest.param(tampered(d3_4=np.nan, d4_3=np.nan), ("NaN", "Impute or drop"), id="missing"),
        pytest.param(sample(), ("(60, 8)", "metric='euclidean'"), id="features"),
    ],
)
def test_tables_that_are_no_distances_are_refused(name: str, D: Any, words: tuple[str, ...]) -> None:
    refused(lambda: embedding(name, metric="precomputed").fit(D), *words)


@pytest.mark.parametrize("name", BY_DISTANCE)
@pytest.mark.parametrize(
    ("rows", "words"),
    [
        pytest.param(tampered()[:5, :59], ("59 features", "60", "Pass"), id="too few"),
        pytest.param(-tampered()[:5], ("not negative", "not similarities"), id="negative"),
        pytest.param(sparse.csr_array(tampered()[:5]), ("sparse", "dense"), id="sparse"),
    ],
)
def test_new_distances_that_are_none_are_refused(name: str, rows: Any, words: tuple[str, ...]) -> None:
    fitted = embedding(name, metric="precomputed").fit(tampered())
    refused(lambda: fitted.transform(rows), *words)
    refused(lambda: fitted.isolated(rows), *words)


def test_rounding_in_a_table_of_distances_is_forgiven() -> None:
    D = tampered()
    rough = D * (1 + 1e-12 * np.random.default_rng(0).normal(size=D.shape)) + 1e-13
    fitted, expected = (Isomap(n_neighbors=7, metric="precomputed").fit(table) for table in (rough, D))
    np.testing.assert_allclose(fitted.embedding_, expected.embedding_, atol=1e-8)


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_other_columns_in_transform_are_refused(name: str) -> None:
    columns = list("abcdefgh")
    frame = pd.DataFrame(sample(), columns=columns)
    fitted = embedding(name).fit(frame)
    refused(lambda: fitted.transform(frame[columns[::-1]]), "same order", "Pass the same columns as in fit")
    refused(lambda: fitted.transform(frame.drop(columns="c")), "- c", "Pass the same columns as in fit")
    refused(lambda: fitted.transform(frame.rename(columns={"c": "z"})), "- z", "Pass the same columns as in fit")
    refused(lambda: fitted.transform(frame.assign(z=1.0)), "- z", "Pass the same columns as in fit")
    plain = embedding(name).fit(sample())
    refused(lambda: plain.transform(sample()[:, :5]), "5 features", "expecting 8", "Pass the same columns as in fit")
    refused(lambda: plain.transform(spoiled(np.nan)), "NaN", "Impute or drop")
    refused(lambda: plain.transform(sample()[:0]), "0 sample", "Give")


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_before_fit_there_is_nothing_to_ask(name: str) -> None:
    with pytest.raises(NotFittedError, match="not fitted"):
        embedding(name).transform(sample())
    with pytest.raises(NotFittedError, match="not fitted"):
        embedding(name).get_feature_names_out()
    if name != "landmarks":
        with pytest.raises(NotFittedError, match="not fitted"):
            embedding(name).isolated(sample())


# --- drawings

drawn = pytest.mark.skipif(importlib.util.find_spec("clearfold.plot") is None, reason="clearfold.plot does not exist")


@drawn
@pytest.mark.parametrize("name", GRIDS)
def test_search_draws_a_line_for_each_setting(name: str) -> None:
    found = search(embedding(name), sample(), **GRIDS[name], max_components=6)
    axes = found.plot()
    settings_tried = max(1, len(found.table.drop_duplicates(list(GRIDS[name])))) if GRIDS[name] else 1
    assert len(axes.lines) >= settings_tried
    assert found.plot(ax=axes) is axes


@drawn
def test_residual_variance_draws_its_curve() -> None:
    curve = residual_variance(PCA(), sample())
    axes = curve.plot()
    assert len(axes.lines[0].get_xdata()) == len(curve.values)
    assert curve.plot(ax=axes) is axes
