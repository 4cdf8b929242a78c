"""The printed formulas are what the papers print, and differ from ours as the pages say."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from clearfold.embedding import PCA, GraphEmbedding
from clearfold.importance import fine_importance
from clearfold.papers import as_printed


@pytest.fixture(scope="module")
def cloud() -> np.ndarray:
    return np.random.default_rng(3).standard_normal((60, 6))


def test_printed_isomap_decomposes_the_distances_themselves(cloud: np.ndarray) -> None:
    paths = cdist(cloud, cloud)
    found = as_printed.isomap_coordinates(paths, 1)[:, 0]
    value = np.linalg.eigvalsh(paths)[-1]
    np.testing.assert_allclose(paths @ found, value * found, rtol=1e-8)
    assert found @ found == pytest.approx(value)
    assert (found > 0).all()  # the first coordinate of a positive matrix: it separates nothing


def test_printed_lle_matrix_lacks_the_constant_vector() -> None:
    weights = np.array([[0.0, 1.0, 0.0], [0.7, 0.0, 0.3], [0.4, 0.6, 0.0]])
    rest = np.eye(3) - weights
    np.testing.assert_allclose(as_printed.lle_matrix(weights), rest @ rest.T)
    assert np.abs((rest.T @ rest).sum(axis=1)).max() < 1e-15
    assert np.abs(as_printed.lle_matrix(weights).sum(axis=1)).max() > 0.1


def test_printed_importance_by_its_definition(cloud: np.ndarray) -> None:
    X = cloud - cloud.mean(axis=0)
    y = (X[:, 0] > 0).astype(float)
    T = PCA(n_components=3).fit(X).embedding_
    found = as_printed.importance(T, X, y)
    b = [t @ (y - y.mean()) / (t @ t) for t in T.T]  # orthogonal coordinates: one regression each
    v = [X.T @ t / (t @ t) for t in T.T]
    terms = [b[i] ** 2 * (T[:, i] @ T[:, i]) for i in range(3)]
    wanted = [sum(terms[i] * v[i][j] / np.linalg.norm(v[i]) for i in range(3)) / sum(terms) for j in range(6)]
    np.testing.assert_allclose(found, np.square(wanted) / 6, rtol=1e-9)
    assert found.sum() < 0.5
    assert fine_importance(T, X, y).sum() == pytest.approx(1)


def test_printed_placement_is_off_by_the_degree(cloud: np.ndarray) -> None:
    fitted = GraphEmbedding(n_components=2, bandwidth=3.0).fit(cloud)
    gamma = np.exp(-cdist(cloud, cloud) / 3.0)
    placed = as_printed.placement(gamma, fitted.embedding_, fitted.eigenvalues_)
    np.testing.assert_allclose(placed / gamma.sum(axis=1)[:, None], fitted.embedding_, atol=1e-10)


def test_printed_affinity_makes_far_samples_equal() -> None:
    found = as_printed.affinity(np.array([[0.0], [1.0], [10.0]]), radius=2.0, bandwidth=4.0)
    near = np.exp(-0.25)
    np.testing.assert_allclose(found, [[1, near, 1], [near, 1, 1], [1, 1, 1]])


@pytest.mark.filterwarnings("ignore::clearfold.errors.NearEqualEigenvaluesWarning")  # of the printed affinity
def test_the_tables_show_both() -> None:
    found = as_printed.ose_ssl_formulas(n_samples=300, radius=6.0)
    (table,) = found.tables.values()
    assert list(table.columns) == as_printed.COLUMNS
    moved = table.iloc[0]
    assert moved["as printed"] > 1
    assert moved["ours"] < 1e-10
    assert set(found.figures) == {"printed", "corrected"}


def test_fine_formulas_on_real_nuclei(data: object) -> None:
    (table,) = as_printed.fine_formulas().tables.values()
    ours = dict(zip(table["what is measured"], table["ours"], strict=True))
    theirs = dict(zip(table["what is measured"], table["as printed"], strict=True))
    assert ours["sum of all importances"] == pytest.approx(1)
    assert theirs["sum of all importances"] < 0.1
    paths = "correlation of distances on the map with path lengths"
    assert ours[paths] > 0.95 > theirs[paths]
