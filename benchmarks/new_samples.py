"""Places of new samples beside scikit-learn's transform, and landmarks, which place most samples in that way.

scikit-learn is called as it is and with `config_context(assume_finite=True)`, which spares it most of its checks;
ours is called as it is in both comparisons. Its estimators are fitted with ARPACK, which does not concern transform.
Its LocallyLinearEmbedding is given our coordinates: a fit of its own would turn the axes of the same subspace.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
from sklearn import config_context, decomposition, manifold
from sklearn.neighbors import NearestNeighbors

from benchmarks import differences
from benchmarks.cases import OURS, Against, Case
from benchmarks.differences import Difference
from benchmarks.embeddings import (
    ARPACK,
    AUTO,
    COMPONENTS,
    FEATURES,
    GAUSSIAN,
    GRAPH,
    NEIGHBORS,
    SQUARED,
    SWISS,
    coordinates,
    fitted,
    gaussian,
    swiss_roll,
)
from benchmarks.measure import Work
from clearfold import embedding
from clearfold.embedding.paths import COMPILED_FROM

SAME_PLACES = Difference("columns", differences.coordinates, 1e-12)
CLOSE_DISTANCES = Difference("1 - correlation", differences.uncorrelated, 0.01)
ASSUMING = f"{AUTO}, assume_finite"


def with_queries(make: Callable[[], Any], size: int) -> tuple[Any, np.ndarray]:
    return make().fit(gaussian(size)), np.random.default_rng(1).standard_normal((1000, FEATURES))


def peer_with_our_coordinates(size: int) -> tuple[Any, np.ndarray]:
    ours, queries = with_queries(partial(embedding.LocallyLinearEmbedding, **GRAPH), size)
    peer = manifold.LocallyLinearEmbedding(**GRAPH)
    peer.nbrs_ = NearestNeighbors(n_neighbors=NEIGHBORS).fit(gaussian(size))
    peer.embedding_, peer.n_features_in_ = ours.embedding_, FEATURES
    return peer, queries


def place(count: int, state: tuple[Any, np.ndarray]) -> dict[str, Any]:
    estimator, queries = state
    return {"coordinates": estimator.transform(queries[:count])}


def place_assuming(count: int, state: tuple[Any, np.ndarray]) -> dict[str, Any]:
    with config_context(assume_finite=True):
        return place(count, state)


PREPARED = {
    "PCA": (
        partial(with_queries, partial(embedding.PCA, n_components=COMPONENTS)),
        partial(with_queries, partial(decomposition.PCA, n_components=COMPONENTS)),
    ),
    "KernelPCA": (
        partial(with_queries, partial(embedding.KernelPCA, n_components=COMPONENTS, bandwidth=math.sqrt(SQUARED))),
        partial(
            with_queries,
            partial(decomposition.KernelPCA, COMPONENTS, kernel="rbf", gamma=0.5 / SQUARED, eigen_solver="arpack"),
        ),
    ),
    "Isomap": (
        partial(with_queries, partial(embedding.Isomap, **GRAPH)),
        partial(with_queries, partial(manifold.Isomap, **GRAPH, eigen_solver="arpack")),
    ),
    "LocallyLinearEmbedding": (
        partial(with_queries, partial(embedding.LocallyLinearEmbedding, **GRAPH)),
        peer_with_our_coordinates,
    ),
}
"""For each embedding what a process is prepared with, ours and the peer's."""
WANTED = {
    ("KernelPCA", 1, AUTO): 5.0,
    ("KernelPCA", 1000, AUTO): 2.0,
    ("Isomap", 1, AUTO): 50.0,
    ("Isomap", 1, ASSUMING): 5.0,
    ("Isomap", 1000, AUTO): 2.0,
}
"""Ratios wanted on 10,000 fitted samples."""
SOON = 1e-3
"""Seconds in which Isomap is to place one new sample."""


def transform_case(name: str, size: int, counts: tuple[int, ...]) -> Case:
    ours, peer = PREPARED[name]
    works, comparisons = {}, []
    for count in counts:
        task = "1 query" if count == 1 else f"{count} queries"
        works[f"{OURS}, {task}"] = Work(OURS, partial(place, count))
        for who, run in ((AUTO, place), (ASSUMING, place_assuming)):
            works[f"{who}, {task}"] = Work(AUTO, partial(run, count))
            wanted = WANTED.get((name, count, who)) if size == 10_000 else None
            limit = SOON if wanted and (name, count) == ("Isomap", 1) else None
            names = {"ours": f"{OURS}, {task}", "task": task, "peer_name": who}
            comparisons.append(Against(f"{who}, {task}", (SAME_PLACES,), wanted, limit_s=limit, **names))
    return Case(f"{name} transform", GAUSSIAN, size, {OURS: ours, AUTO: peer}, works, tuple(comparisons))


def transform(quick: bool) -> Iterable[Case]:
    for size in (1000,) if quick else (2000, 10_000):
        for name in PREPARED:
            yield transform_case(name, size, (1, 100) if quick else (1, 1000))


def landmarks(quick: bool) -> Iterable[Case]:
    """Many samples in bounded memory: a copy of X, three tables of the landmarks and 512 MB."""
    size, features, count = (10_000, 20, 500) if quick else (100_000, 50, 2000)
    inner = embedding.Isomap(**GRAPH)
    make = partial(embedding.LandmarkEmbedding, embedding=inner, n_landmarks=count, random_state=0)
    yield Case(
        f"Isomap, {count} landmarks",
        f"{GAUSSIAN} x {features}",
        size,
        prepare={OURS: partial(gaussian, features=features)},
        works={OURS: Work(OURS, partial(fitted, make), coordinates)},
        memory_limit=8 * size * features + 3 * 8 * count**2 + 512 * 2**20,
        warm_up=COMPILED_FROM,
    )


def landmark_isomap(quick: bool) -> Iterable[Case]:
    """Landmarks beside the exact peer in two components: an approximation, judged by the correlation of distances."""
    size, count, wanted = (1000, 500, None) if quick else (10_000, 1000, 20.0)
    inner = embedding.Isomap(n_components=2, n_neighbors=NEIGHBORS)
    makers = {
        OURS: partial(embedding.LandmarkEmbedding, embedding=inner, n_landmarks=count, random_state=0),
        ARPACK: partial(manifold.Isomap, n_components=2, n_neighbors=NEIGHBORS, eigen_solver="arpack"),
    }
    yield Case(
        f"Isomap, {count} landmarks",
        SWISS,
        size,
        prepare=dict.fromkeys(makers, swiss_roll),
        works={who: Work(who, partial(fitted, make), coordinates) for who, make in makers.items()},
        comparisons=(Against(ARPACK, (CLOSE_DISTANCES,), wanted),),
        warm_up=COMPILED_FROM,
    )


SUITE: dict[str, Callable[[bool], Iterable[Case]]] = {
    "transform": transform,
    "landmarks": landmarks,
    "landmark-isomap": landmark_isomap,
}
