"""Shortest paths: the kernel beside scipy's Dijkstra, to the last bit, and what Isomap makes of them."""

from __future__ import annotations

import contextlib
import os
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse import csgraph
from scipy.spatial.distance import pdist

from clearfold.compiled import compiled
from clearfold.embedding import Isomap, KernelPCA, LandmarkEmbedding, paths
from clearfold.embedding.operator import Centred, CentredSquares
from clearfold.embedding.samples import Points
from clearfold.errors import DuplicateSamplesWarning


@pytest.fixture
def machine_code() -> Any:
    kernel = compiled(paths.relaxed)
    if kernel is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("numba is not installed")
    return kernel


def graph(size: int, edges: Any, lengths: Any) -> sparse.csr_array:
    """Symmetric graph that stores zeros; of an edge that comes twice the shorter one counts."""
    shortest: dict[tuple[int, int], float] = {}
    for (i, j), length in zip(edges, lengths, strict=True):
        if i != j:
            pair = (min(i, j), max(i, j))
            shortest[pair] = min(length, shortest.get(pair, np.inf))
    pairs = np.array(list(shortest), dtype=np.int32).reshape(-1, 2)
    values = np.array(list(shortest.values()), dtype=float)
    rows, columns = np.concatenate([pairs[:, 0], pairs[:, 1]]), np.concatenate([pairs[:, 1], pairs[:, 0]])
    order = np.lexsort((columns, rows))
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=size))]).astype(np.int32)
    return sparse.csr_array((np.concatenate([values, values])[order], columns[order], starts), shape=(size, size))


def dijkstra(of: sparse.csr_array) -> np.ndarray:
    return csgraph.shortest_path(of, method="D", directed=True)


def random_graph(size: int, degree: float, seed: int) -> sparse.csr_array:
    rng = np.random.default_rng(seed)
    edges = rng.integers(0, size, (int(size * degree / 2), 2))
    return graph(size, edges.tolist(), rng.exponential(size=len(edges)))


def chain(size: int) -> sparse.csr_array:
    rng = np.random.default_rng(0)
    order = rng.permutation(size)
    return graph(size, np.column_stack([order[:-1], order[1:]]).tolist(), rng.uniform(size=size - 1))


def star(size: int) -> sparse.csr_array:
    rng = np.random.default_rng(0)
    return graph(size, [(size // 2, i) for i in range(size)], rng.uniform(size=size))


def grid(side: int) -> sparse.csr_array:
    rng = np.random.default_rng(0)
    at = np.arange(side * side).reshape(side, side)
    edges = np.vstack(
        [np.column_stack([at[:, :-1].ravel(), at[:, 1:].ravel()]), np.column_stack([at[:-1].ravel(), at[1:].ravel()])]
    )
    return graph(side * side, edges.tolist(), rng.exponential(size=len(edges)))


def zero_lengths(size: int) -> sparse.csr_array:
    rng = np.random.default_rng(0)
    edges = rng.integers(0, size, (3 * size, 2))
    return graph(size, edges.tolist(), rng.choice([0.0, 0.0, 1.0, 1 / 3], len(edges)))


GRAPHS = {
    "random": lambda: random_graph(300, 8, 0),
    "in parts": lambda: random_graph(300, 1.2, 1),
    "dense": lambda: random_graph(130, 100, 2),
    "chain": lambda: chain(400),
    "star": lambda: star(200),
    "grid": lambda: grid(20),
    "zero lengths": lambda: zero_lengths(250),
    "all of one length": lambda: random_graph(200, 6, 3).sign() * 0.1,
    "no edge": lambda: graph(70, [], []),
    "one vertex": lambda: graph(1, [], []),
    "a block and one": lambda: random_graph(paths.SOURCES + 1, 5, 4),
    "lengths of all sizes": lambda: graph(
        200,
        np.random.default_rng(0).integers(0, 200, (800, 2)).tolist(),
        10 ** np.random.default_rng(1).uniform(-12, 12, 800),
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_kernel_gives_dijkstras_lengths_to_the_last_bit(name: str, machine_code: Any) -> None:
    of = GRAPHS[name]()
    np.testing.assert_array_equal(paths.blockwise(of, machine_code), dijkstra(of))


def test_kernel_gives_them_without_numba_too() -> None:
    of = random_graph(12, 4, 0)
    np.testing.assert_array_equal(paths.blockwise(of, paths.relaxed), dijkstra(of))


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 150), st.floats(0.5, 12), st.integers(0, 10**6), st.booleans())
def test_kernel_on_any_graph(size: int, degree: float, seed: int, coarse: bool) -> None:
    kernel = compiled(paths.relaxed)
    if kernel is None:
        pytest.skip("numba is not installed")
    of = random_graph(size, degree, seed)
    if coarse:
        of.data = np.round(of.data, 1)  # many ties, and zeros
    np.testing.assert_array_equal(paths.blockwise(of, kernel), dijkstra(of))


def test_graph_is_left_as_it_was(machine_code: Any) -> None:
    of = random_graph(200, 6, 0)
    before = of.copy()
    paths.blockwise(of, machine_code)
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(of, name), getattr(before, name))


def test_isomap_is_the_same_with_and_without_numba(monkeypatch: pytest.MonkeyPatch, machine_code: Any) -> None:
    monkeypatch.setattr(paths, "COMPILED_FROM", 100)
    X = np.random.default_rng(0).standard_normal((400, 6))
    monkeypatch.setenv("CLEARFOLD_NUMBA", "1")
    with_it = Isomap(n_components=3, n_neighbors=6).fit(X)
    monkeypatch.setenv("CLEARFOLD_NUMBA", "0")
    without = Isomap(n_components=3, n_neighbors=6).fit(X)
    np.testing.assert_array_equal(with_it.geodesics_, without.geodesics_)
    np.testing.assert_array_equal(with_it.embedding_, without.embedding_)


def test_large_isomap_has_scikit_learns_paths_and_places(machine_code: Any) -> None:
    from sklearn.manifold import Isomap as Peer

    rng = np.random.default_rng(0)
    X, queries = rng.standard_normal((1100, 20)), rng.standard_normal((5, 20))
    ours = Isomap(n_components=4, n_neighbors=8).fit(X)
    peer = Peer(n_components=4, n_neighbors=8, eigen_solver="arpack").fit(X)
    np.testing.assert_allclose(ours.geodesics_, peer.dist_matrix_, rtol=1e-12)
    signs = np.sign((ours.embedding_ * peer.embedding_).sum(axis=0))
    scale = np.abs(ours.embedding_).max()
    np.testing.assert_allclose(ours.embedding_, peer.embedding_ * signs, atol=1e-9 * scale)
    for few in (queries, queries[:1]):
        np.testing.assert_allclose(ours.transform(few), peer.transform(few) * signs, atol=1e-12 * scale)


def test_duplicates_are_joined_by_paths_of_length_zero(machine_code: Any) -> None:
    X = np.random.default_rng(0).standard_normal((1100, 5))
    X[1000:] = X[:100]
    with pytest.warns(DuplicateSamplesWarning):
        fitted = Isomap(n_neighbors=8).fit(X)
    np.testing.assert_array_equal(fitted.geodesics_[np.arange(100), np.arange(1000, 1100)], 0.0)
    np.testing.assert_allclose(fitted.transform(X), fitted.embedding_, atol=1e-10 * np.abs(fitted.embedding_).max())


def geodesics(size: int = 400) -> np.ndarray:
    X = np.random.default_rng(1).standard_normal((size, 8))
    return Isomap(n_neighbors=6).fit(X).geodesics_


def test_squares_in_place_have_the_spectrum_of_a_table_of_their_own() -> None:
    D = geodesics()
    before = D.copy()
    apart = Centred(-0.5 * D**2)
    own, other = CentredSquares(D).decompose(5), apart.decompose(5)
    np.testing.assert_array_equal(D, before)  # the root of a rounded square is the number
    np.testing.assert_allclose(own.values, other.values, rtol=1e-11)
    np.testing.assert_allclose(own.coordinates, other.coordinates, atol=1e-9 * np.abs(other.coordinates).max())


@pytest.mark.parametrize("scale", [1e-160, 1e-90, 1e90, 1e151])
def test_distances_are_the_same_after_a_fit_whatever_their_size(scale: float) -> None:
    D = geodesics() * scale
    before = D.copy()
    with np.errstate(all="ignore"), contextlib.suppress(ValueError, ArithmeticError):
        CentredSquares(D).decompose(3)
    np.testing.assert_array_equal(D, before)


def test_a_failed_decomposition_leaves_the_distances_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    D = geodesics()
    before = D.copy()

    def fail(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("clearfold.embedding.operator.largest", fail)
    with pytest.raises(KeyboardInterrupt):
        CentredSquares(D).decompose(3)
    np.testing.assert_array_equal(D, before)


@pytest.mark.parametrize("kind", ["spread", "shifted", "outlier", "duplicates", "lattice", "tiny", "huge"])
def test_one_query_has_the_neighbors_of_an_exhaustive_search(kind: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 7))
    X = {
        "spread": X,
        "shifted": X + 1e6,
        "outlier": np.vstack([X[:-1], np.full((1, 7), 1e7)]),
        "duplicates": np.vstack([X[:500]] * 3),
        "lattice": rng.integers(0, 3, X.shape).astype(float),
        "tiny": X * 1e-20,
        "huge": X * 1e15,
    }[kind]
    points = Points(X)
    for query in (X[3], X[3] + X[:50].std(), X[:2].mean(axis=0), 1e3 * X[0], 1e20 * X[0]):
        squared = ((X - query) ** 2).sum(axis=1)
        indices, distances = points.neighbors_of(query[None], 9)
        expected = np.lexsort((np.arange(len(X)), np.einsum("ij,ij->i", X - query, X - query)))[:9]
        np.testing.assert_array_equal(indices[0], expected)
        np.testing.assert_allclose(distances[0], np.sqrt(squared[expected]), rtol=1e-14)


@pytest.mark.parametrize("make", [lambda: Isomap(n_neighbors=8), lambda: KernelPCA()], ids=["Isomap", "KernelPCA"])
def test_a_query_has_the_same_place_alone_and_among_others(make: Any) -> None:
    rng = np.random.default_rng(0)
    X, queries = rng.standard_normal((1200, 30)), rng.standard_normal((300, 30))
    fitted = make().fit(X)
    together = fitted.transform(queries)
    alone = np.vstack([fitted.transform(query[None]) for query in queries[:20]])
    np.testing.assert_allclose(alone, together[:20], atol=1e-12 * np.abs(together).max())
    np.testing.assert_allclose(fitted.transform(X[:3]), fitted.embedding_[:3], atol=1e-10 * np.abs(together).max())


def test_landmarks_keep_the_distances_of_all() -> None:
    from sklearn.datasets import make_swiss_roll

    X = make_swiss_roll(2500, random_state=0)[0]
    every = Isomap(n_neighbors=10).fit(X).embedding_
    some = LandmarkEmbedding(embedding=Isomap(n_neighbors=10), n_landmarks=600, random_state=0).fit(X).embedding_
    rows = np.random.default_rng(0).permutation(len(X))[:500]
    assert np.corrcoef(pdist(every[rows]), pdist(some[rows]))[0, 1] > 0.99
