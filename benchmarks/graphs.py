"""Neighbour graphs and what is decomposed on them, beside scikit-learn's SpectralEmbedding.

SpectralEmbedding solves the equation of our GraphEmbedding, W y = lambda D y, but sets the diagonal of W to zero,
while ours has the affinity 1 of each sample to itself. From the same samples the two therefore differ by what the
diagonal does, and no tolerance is honest. So there are two comparisons:

- "GraphEmbedding fit", from samples: timed beside SpectralEmbedding on the same affinities, but its output is
  compared with the equation itself, on a W built by scikit-learn: with a dense solution of it up to 1000 samples, by
  its residual and Y'DY = sum(D) beyond.
- "graph operator", from a W with a zero diagonal: the operator alone (`Normalised`), where both sides solve the same
  problem. Outputs are compared directly, up to the factor sqrt(sum(D)) and the signs.

LaplacianEigenmap has no equal peer: ours is not normalised, SpectralEmbedding is. It is timed beside
SpectralEmbedding on the same neighbour graph, and its output is compared with L f = mu f in the same two ways.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.manifold import SpectralEmbedding
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.neighbors import NearestNeighbors, kneighbors_graph, radius_neighbors_graph

from benchmarks import differences
from benchmarks.cases import OURS, Against, Case
from benchmarks.differences import Difference
from benchmarks.embeddings import (
    AUTO,
    COMPONENTS,
    GAUSSIAN,
    GRAPH,
    LARGEST,
    NEIGHBORS,
    SAME_COLUMNS,
    SAMPLES,
    SQUARED,
    SWISS,
    coordinates,
    fitted,
    gaussian,
    on_graphs,
    sizes,
)
from benchmarks.measure import Work
from clearfold import embedding
from clearfold.embedding.neighbors import neighbor_graph, spanning_tree
from clearfold.embedding.operator import Normalised
from clearfold.embedding.samples import Points

PEER = "SpectralEmbedding"
SAME_SETS = Difference("rows", differences.neighbor_sets, 0.0)


def spectral(W: Any) -> np.ndarray:
    return SpectralEmbedding(COMPONENTS, affinity="precomputed", random_state=0).fit_transform(W)


def with_eigenvalues(result: dict[str, Any]) -> dict[str, Any]:
    return {"coordinates": result["coordinates"], "eigenvalues": result["estimator"].eigenvalues_}


def satisfies(equation: Callable[..., float], weights: Callable[[], Any]) -> tuple[Difference]:
    return (Difference("equation", partial(equation, weights), 1e-8),)


def wanted_ratio(data: str, size: int, gaussian_ratio: float) -> float | None:
    return None if size != LARGEST else gaussian_ratio if data == GAUSSIAN else 1.3


def affinity(D: Any, scale: float) -> sparse.csr_array:
    """exp(-D^2 / scale) of stored distances, with the 32-bit indices that SpectralEmbedding asks for."""
    indices, start = D.indices.astype(np.int32), D.indptr.astype(np.int32)
    return sparse.csr_array((np.exp(-np.square(D.data) / scale), indices, start), shape=D.shape)


# ------------------------------------------------------------------------------------- GraphEmbedding: every pair


def dense_affinity(size: int, *, diagonal: float) -> np.ndarray:
    W = rbf_kernel(gaussian(size), gamma=1 / SQUARED)
    np.fill_diagonal(W, diagonal)
    return W


def dense_case(size: int) -> Case:
    ours = partial(embedding.GraphEmbedding, n_components=COMPONENTS, bandwidth=SQUARED, power=2)
    peer = partial(SpectralEmbedding, COMPONENTS, affinity="rbf", gamma=1 / SQUARED, random_state=0)
    same = satisfies(differences.normalised_equation, partial(dense_affinity, size, diagonal=1.0))
    return Case(
        "GraphEmbedding fit, dense",
        GAUSSIAN,
        size,
        prepare={OURS: gaussian, PEER: gaussian},
        works={
            OURS: Work(OURS, partial(fitted, ours), with_eigenvalues),
            PEER: Work(PEER, partial(fitted, peer), coordinates),
        },
        comparisons=(Against(PEER, same, wanted_ratio(GAUSSIAN, size, 7.0)),),
    )


# ------------------------------------------------------------------------------- GraphEmbedding: pairs in a radius


def with_radius(data: str, size: int) -> tuple[np.ndarray, float, float]:
    """Samples, the smallest radius (nearly) that keeps their graph in one piece, and a bandwidth."""
    X = SAMPLES[data](size)
    radius = float(spanning_tree(Points(X).squared())[1][-1]) * (1 + 1e-6)
    return X, radius, SQUARED if data == GAUSSIAN else radius**2


def fit_radius(state: tuple[np.ndarray, float, float]) -> dict[str, Any]:
    X, radius, scale = state
    make = partial(embedding.GraphEmbedding, n_components=COMPONENTS, bandwidth=scale, power=2, neighborhood=radius)
    return fitted(make, X)


def radius_affinity(state: tuple[np.ndarray, float, float]) -> sparse.csr_array:
    X, radius, scale = state
    return affinity(radius_neighbors_graph(X, radius, mode="distance"), scale)


def fit_radius_peer(state: tuple[np.ndarray, float, float]) -> dict[str, Any]:
    return {"coordinates": spectral(radius_affinity(state))}


def full_radius_affinity(data: str, size: int) -> sparse.csr_array:
    """W of GraphEmbedding with a radius, its diagonal included."""
    return sparse.csr_array(radius_affinity(with_radius(data, size)) + sparse.eye_array(size))


def radius_case(data: str, size: int) -> Case:
    prepare = partial(with_radius, data)
    same = satisfies(differences.normalised_equation, partial(full_radius_affinity, data, size))
    return Case(
        "GraphEmbedding fit, radius",
        data,
        size,
        prepare={OURS: prepare, PEER: prepare},
        works={OURS: Work(OURS, fit_radius, with_eigenvalues), PEER: Work(PEER, fit_radius_peer)},
        comparisons=(Against(PEER, same, wanted_ratio(data, size, 8.0)),),
    )


def graph_embedding(quick: bool) -> Iterable[Case]:
    yield from (dense_case(size) for size in sizes(quick))
    yield from (radius_case(data, size) for data, size in on_graphs(quick))


# ------------------------------------------------------------------------------------------ the operator, eigenmaps


def with_scale(data: str, size: int) -> tuple[np.ndarray, float]:
    """Samples, and a bandwidth at which affinities fall but do not vanish among neighbours."""
    X = SAMPLES[data](size)
    reach = np.median(NearestNeighbors(n_neighbors=NEIGHBORS).fit(X).kneighbors()[0][:, -1])
    return X, SQUARED if data == GAUSSIAN else float(reach) ** 2


def nearest_affinity(X: np.ndarray, scale: float) -> sparse.csr_array:
    """Affinities of the nearest neighbours (union of both directions), zero diagonal."""
    D = kneighbors_graph(X, NEIGHBORS, mode="distance")
    return affinity(sparse.csr_array(D.maximum(D.T)), scale)


def nearest_graph(data: str, size: int) -> sparse.csr_array:
    return nearest_affinity(*with_scale(data, size))


def radius_graph(size: int) -> sparse.csr_array:
    """Affinities of the pairs of a Swiss roll within a radius of 2, zero diagonal: about 110 each of 16,000."""
    return affinity(radius_neighbors_graph(SAMPLES[SWISS](size), 2.0, mode="distance"), 4.0)


def decompose(W: Any) -> dict[str, Any]:
    return {"coordinates": Normalised(W.copy()).decompose(COMPONENTS + 1).head(COMPONENTS).coordinates}


def decompose_peer(W: Any) -> dict[str, Any]:
    return {"coordinates": spectral(W) * math.sqrt(W.sum())}


def graph_operator(quick: bool) -> Iterable[Case]:
    every = [
        ("dense", GAUSSIAN, n, partial(dense_affinity, diagonal=0.0), wanted_ratio(GAUSSIAN, n, 7.0))
        for n in sizes(quick)
    ]
    near = [
        ("nearest", data, n, partial(nearest_graph, data), wanted_ratio(data, n, 8.0)) for data, n in on_graphs(quick)
    ]
    size, ratio = (4000, None) if quick else (16_000, 4.0)  # with fewer samples the graph falls apart
    within = [("radius 2", SWISS, size, radius_graph, ratio)]
    for kind, data, size, prepare, ratio in every + near + within:
        yield Case(
            f"graph operator, {kind}",
            data,
            size,
            prepare={OURS: prepare, PEER: prepare},
            works={OURS: Work(OURS, decompose), PEER: Work(PEER, decompose_peer)},
            comparisons=(Against(PEER, (SAME_COLUMNS,), ratio),),
        )


def fit_eigenmap(state: tuple[np.ndarray, float]) -> dict[str, Any]:
    X, scale = state
    return fitted(partial(embedding.LaplacianEigenmap, **GRAPH, bandwidth=math.sqrt(scale / 2)), X)


def fit_eigenmap_peer(state: tuple[np.ndarray, float]) -> dict[str, Any]:
    return {"coordinates": spectral(nearest_affinity(*state))}


def laplacian_eigenmap(quick: bool) -> Iterable[Case]:
    for data, size in on_graphs(quick):
        prepare = partial(with_scale, data)
        same = satisfies(differences.laplacian_equation, partial(nearest_graph, data, size))
        yield Case(
            "LaplacianEigenmap fit",
            data,
            size,
            prepare={OURS: prepare, PEER: prepare},
            works={OURS: Work(OURS, fit_eigenmap, with_eigenvalues), PEER: Work(PEER, fit_eigenmap_peer)},
            comparisons=(Against(PEER, same, peer_name=f"{PEER} (normalised, not equal)"),),
        )


# --------------------------------------------------------------------------------------------------- the graph itself


def our_neighbors(X: np.ndarray) -> np.ndarray:
    return Points(X).neighbors(NEIGHBORS)[0]


def our_graph(X: np.ndarray) -> np.ndarray:
    return neighbor_graph(Points(X), NEIGHBORS).indices


def peer_neighbors(X: np.ndarray) -> np.ndarray:
    found = NearestNeighbors(n_neighbors=NEIGHBORS, algorithm="brute").fit(X)
    return kneighbors_graph(found, NEIGHBORS, mode="distance").indices.reshape(len(X), NEIGHBORS)


def neighbors(quick: bool) -> Iterable[Case]:
    """Sets of neighbours; "joined" also makes the undirected graph and counts its pieces, which the peer does not."""
    peer, joined = f"{AUTO} brute", f"{OURS} joined"
    for size in sizes(quick) if quick else (*sizes(quick), 10_000):
        yield Case(
            "nearest neighbours",
            GAUSSIAN,
            size,
            prepare={OURS: gaussian, peer: gaussian},
            works={
                OURS: Work(OURS, our_neighbors),
                joined: Work(OURS, our_graph),
                peer: Work(peer, peer_neighbors),
            },
            comparisons=(
                Against(peer, (SAME_SETS,), None if quick else 1.7),
                Against(peer, (SAME_SETS,), ours=joined, task="joined"),
            ),
        )


SUITE: dict[str, Callable[[bool], Iterable[Case]]] = {
    "graph-embedding": graph_embedding,
    "graph-operator": graph_operator,
    "laplacian-eigenmap": laplacian_eigenmap,
    "neighbors": neighbors,
}
