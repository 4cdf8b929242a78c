"""Fast solvers give what slow ones give: eigenpairs by blocks, neighbours by single precision."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import linalg

from clearfold.embedding import GraphEmbedding, KernelPCA, davidson, spectral
from clearfold.embedding.affinity import exponential, gaussian
from clearfold.embedding.davidson import times
from clearfold.embedding.distances import pairs_squared
from clearfold.embedding.operator import Normalised, double_centred
from clearfold.embedding.samples import Points
from clearfold.embedding.singles import Singles

RANDOM = np.random.default_rng(7)
SIZE, WANTED = 600, 7


# ------------------------------------------------------------------------------------------------- eigenpairs by blocks


def kernel(features: int, size: int = SIZE) -> np.ndarray:
    """The centred Gaussian kernel of samples without structure: eigenvalues crowd."""
    squared = Points(np.random.default_rng(0).standard_normal((size, features))).squared()
    return double_centred(gaussian(squared, np.sqrt(2.0 * features)))[0]


def with_eigenvalues(values: np.ndarray) -> np.ndarray:
    turn = linalg.qr(np.random.default_rng(1).standard_normal((len(values), len(values))))[0]
    matrix = (turn * values) @ turn.T
    return (matrix + matrix.T) / 2


CROWDED = {
    "kernel": kernel(30),
    "larger kernel": kernel(60, 900),
    "indefinite": kernel(30) - with_eigenvalues(np.r_[np.full(20, 0.5 * SIZE), np.zeros(SIZE - 20)]),
    "geometric": with_eigenvalues(0.95 ** np.arange(SIZE)),
    "two plateaus": with_eigenvalues(np.r_[np.linspace(3.0, 2.0, 30), np.linspace(0.1, 0.0, SIZE - 30)]),
    "odd size": kernel(30)[:593, :593],
}


@pytest.mark.parametrize("name", CROWDED)
def test_blocks_give_the_pairs_of_a_dense_decomposition(name):
    matrix = np.ascontiguousarray(CROWDED[name])
    size = len(matrix)
    found = davidson.davidson(matrix, WANTED)
    assert found is not None
    values, vectors = linalg.eigh(matrix, subset_by_index=[size - WANTED, size - 1])
    np.testing.assert_allclose(found[0], values[::-1], rtol=1e-12)
    np.testing.assert_allclose(np.abs((found[1] * vectors[:, ::-1]).sum(axis=0)), 1.0, rtol=0, atol=1e-12)
    residuals = matrix @ found[1] - found[1] * found[0]
    assert np.linalg.norm(residuals, axis=0).max() < 1e-12 * np.abs(linalg.eigvalsh(matrix)).max()


def test_blocks_leave_known_vectors_out():
    operator = Normalised(exponential(Points(RANDOM.standard_normal((SIZE, 30))).squared(), 60.0, 2))
    known = np.sqrt(operator.degrees / operator.degrees.sum())[:, None]
    found = davidson.davidson(operator.matrix, WANTED, known)
    assert found is not None
    values = linalg.eigvalsh(operator.matrix, subset_by_index=[SIZE - WANTED - 1, SIZE - 2])
    np.testing.assert_allclose(found[0], values[::-1], rtol=1e-10)
    assert np.abs(known.T @ found[1]).max() < 1e-12


def test_blocks_find_repeated_eigenvalues():
    """Twenty equal ones, more than a block has rows: the vectors are some of their space, and orthonormal."""
    matrix = with_eigenvalues(np.r_[np.full(20, 2.0), np.linspace(0.2, 0.0, SIZE - 20)])
    values, vectors = davidson.davidson(matrix, WANTED)
    np.testing.assert_allclose(values, 2.0, rtol=1e-12)
    np.testing.assert_allclose(matrix @ vectors, 2.0 * vectors, atol=1e-11)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(WANTED), atol=1e-12)


@pytest.mark.parametrize("share", [2.0, 0.95, 0.8])
def test_blocks_find_what_no_landmark_sees(share):
    """Two samples apart from all others, neither of them a landmark, with an eigenvalue among the wanted."""
    matrix = kernel(30).copy()
    landmarks = np.random.default_rng(0).choice(SIZE, min(davidson.LANDMARKS, SIZE // 4), replace=False)
    pair = np.setdiff1d(np.arange(SIZE), landmarks)[[10, 200]]
    top = linalg.eigvalsh(matrix, subset_by_index=[SIZE - 1, SIZE - 1])[0]
    matrix[pair], matrix[:, pair] = 0.0, 0.0
    matrix[np.ix_(pair, pair)] = share * top / 2
    values = linalg.eigvalsh(matrix, subset_by_index=[SIZE - WANTED, SIZE - 1])[::-1]
    assert np.isclose(values, share * top).any() or share < 0.9
    np.testing.assert_allclose(davidson.davidson(matrix, WANTED)[0], values, rtol=1e-12)


@pytest.mark.parametrize(
    "matrix",
    [
        np.eye(SIZE),
        with_eigenvalues(np.r_[[3.0, 2.0, 1.0], np.zeros(SIZE - 3)]),
        with_eigenvalues(np.linspace(1.0, 0.9, SIZE)),
        np.eye(8),
    ],
    ids=["identity", "low rank", "flat", "tiny"],
)
def test_blocks_step_back_where_they_do_not_pay(matrix, monkeypatch):
    assert davidson.davidson(matrix, 3) is None
    monkeypatch.setattr(spectral, "BLOCKS_FROM", 1)
    monkeypatch.setattr(spectral, "DENSE_BELOW", 300)
    pairs = spectral.largest(matrix, 3)
    np.testing.assert_allclose(matrix @ pairs.vectors, pairs.vectors * pairs.values, atol=1e-10)
    np.testing.assert_allclose(pairs.values, linalg.eigvalsh(matrix)[::-1][:3], atol=1e-10)


def test_blocks_make_nothing_of_nothing():
    assert davidson.davidson(np.zeros((SIZE, SIZE)), 3) is None


def test_blocks_step_back_where_convergence_is_slow(monkeypatch):
    """Residuals that will not arrive in the steps that are allowed end in Lanczos iteration, with the same pairs."""
    matrix = CROWDED["geometric"]
    monkeypatch.setattr(davidson, "MOST_STEPS", 4)
    assert davidson.davidson(matrix, WANTED) is None
    monkeypatch.setattr(spectral, "BLOCKS_FROM", 1)
    np.testing.assert_allclose(spectral.largest(matrix, WANTED).values, 0.95 ** np.arange(WANTED), rtol=1e-12)


@pytest.mark.parametrize("order", ["C", "F"])
def test_signs_and_order_are_those_of_every_solver(order, monkeypatch):
    matrix = np.array(CROWDED["kernel"], order=order)
    lanczos = spectral.largest(matrix, WANTED)
    monkeypatch.setattr(spectral, "BLOCKS_FROM", 1)
    blocks = spectral.largest(matrix, WANTED)
    np.testing.assert_allclose(blocks.values, lanczos.values, rtol=1e-12)
    np.testing.assert_allclose(blocks.vectors, lanczos.vectors, atol=1e-10)
    assert (np.diff(blocks.values) <= 0).all()


@pytest.mark.filterwarnings("ignore::clearfold.errors.NearEqualEigenvaluesWarning")
@pytest.mark.parametrize(
    "embedding", [KernelPCA(n_components=5), GraphEmbedding(n_components=5, power=2)], ids=["kernel", "graph"]
)
def test_embeddings_are_the_same_by_blocks(embedding, monkeypatch):
    X = np.random.default_rng(3).standard_normal((SIZE, 30))
    expected = embedding.fit(X).embedding_
    ways = []
    monkeypatch.setattr(spectral, "BLOCKS_FROM", 1)
    monkeypatch.setattr(spectral, "davidson", lambda *given: ways.append(davidson.davidson(*given)) or ways[-1])
    np.testing.assert_allclose(embedding.fit(X).embedding_, expected, atol=1e-9 * np.abs(expected).max())
    assert ways[0] is not None


@pytest.mark.parametrize(("size", "width"), [(1, 1), (7, 3), (64, 16), (601, 16), (50, 400)])
def test_products_by_strips_are_products(size, width):
    matrix, block = RANDOM.standard_normal((size, size)), RANDOM.standard_normal((size, width))
    np.testing.assert_allclose(times(matrix, block), matrix @ block, atol=1e-12)


# -------------------------------------------------------------------------------------- neighbours by single precision


def all_compared(X: np.ndarray, fitted: np.ndarray, k: int, leave_out_self: bool) -> np.ndarray:
    """Neighbours by exact differences of all pairs, ties to the lowest index."""
    i, j = np.divmod(np.arange(len(X) * len(fitted)), len(fitted))
    table = pairs_squared(X, fitted, i, j).reshape(len(X), len(fitted))
    if leave_out_self:
        np.fill_diagonal(table, np.inf)
    return np.argsort(table, axis=1, kind="stable")[:, :k]


def agree(X: np.ndarray, k: int, queries: np.ndarray | None = None) -> int:
    """Compare with all pairs, order and ties included; the number of queries that were left undecided."""
    asked = X if queries is None else queries
    found = Singles(X, X.mean(axis=0)).nearest(asked, k, leave_out_self=queries is None)
    decided = np.setdiff1d(np.arange(len(asked)), found.undecided)
    expected = all_compared(asked, X, k, queries is None)
    np.testing.assert_array_equal(found.indices[decided], expected[decided])
    lengths = pairs_squared(asked, X, np.repeat(decided, k), expected[decided].ravel())
    np.testing.assert_array_equal(found.distances[decided].ravel(), np.sqrt(lengths))
    return len(found.undecided)


@pytest.mark.parametrize("k", [1, 10, 60])
@pytest.mark.parametrize("features", [13, 100])
def test_neighbours_of_samples_without_structure_are_all_decided(features, k):
    X = RANDOM.standard_normal((700, features))
    assert agree(X, k) == 0
    assert agree(X, k, X[:50] + 0.1) == 0


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1e12, 1e80])
@pytest.mark.parametrize("offset", [0.0, 1.0, 1e6])
def test_neighbours_do_not_depend_on_scale_or_place(scale, offset):
    assert agree((RANDOM.standard_normal((300, 20)) + offset) * scale, 5) == 0


def test_neighbours_with_every_other_sample():
    assert agree(RANDOM.standard_normal((40, 20)), 39) == 0


def test_ties_go_to_the_lowest_index():
    grid = RANDOM.integers(0, 3, (400, 14)).astype(float)
    agree(grid, 8)
    agree(np.vstack([grid, grid[:100], grid[:50]]), 8)
    agree(grid, 3, grid[:20])


@pytest.mark.parametrize("apart", [1e-4, 1e-7, 1e-10, 1e-15])
def test_near_ties_below_single_precision_are_decided_exactly(apart):
    """Fourteen samples on a shell around each of twenty: their distances differ by less than single precision sees."""
    centres = 5 * RANDOM.standard_normal((20, 30))
    directions = RANDOM.standard_normal((20, 14, 30))
    directions /= np.linalg.norm(directions, axis=2)[:, :, None]
    shells = centres[:, None] + directions * (1 + apart * RANDOM.random((20, 14, 1)))
    X = np.vstack([shells.reshape(-1, 30), 5 * RANDOM.standard_normal((400, 30))])
    assert agree(X, 10, centres) == 0


def test_one_sample_far_away_spoils_nothing():
    X = RANDOM.standard_normal((500, 20))
    X[7] = 1e5
    found = Singles(X, np.median(X, axis=0)).nearest(X, 5, leave_out_self=True)
    assert len(found.undecided) <= 1
    assert agree(X, 5) <= 500


def test_what_single_precision_cannot_tell_is_left_undecided():
    tight = np.vstack([1e-7 * RANDOM.standard_normal((300, 20)), 1 + 1e-7 * RANDOM.standard_normal((300, 20))])
    assert agree(tight, 5) == 600
    assert agree(np.ones((100, 20)), 5) == 100
    X = RANDOM.standard_normal((300, 20))
    assert agree(X, 5, np.vstack([X[:10] + 0.1, np.full((2, 20), 1e30)])) == 2
    assert agree(1e120 * X, 5) == 300


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6), st.integers(30, 150), st.integers(2, 40), st.integers(1, 12), st.sampled_from([0, 1, 2, 6])
)
def test_neighbours_of_anything(seed, size, features, k, digits):
    """Rounded to few digits samples are full of ties."""
    random = np.random.default_rng(seed)
    X = np.round(random.standard_normal((size, features)) * random.lognormal(size=features), digits)
    agree(X, k)
