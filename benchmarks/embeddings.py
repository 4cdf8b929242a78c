"""Fits beside scikit-learn's, and what all cases of embeddings share.

Data are Gaussian, n x 100, for 10 components (no structure: close eigenvalues), and for methods on a neighbour graph
also the Swiss roll (long and thin: small eigenvalues). scikit-learn is run with its default solver and with ARPACK
where it has both. Bandwidths are given as numbers, except where "median" is part of the name. Both sides return
coordinates.

- PCA, KernelPCA, Isomap: coordinates are compared, each column up to sign. Isomap also by its path lengths.
- LocallyLinearEmbedding: the subspace of the coordinates is, since scikit-learn leaves out our factor sqrt(lmax - mu).
  The strict tolerance holds beside its dense solver (its default from 10 components on); its ARPACK stops at a
  tolerance of 1e-6 by default, and its own error in the subspace is that divided by a gap between eigenvalues.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist
from sklearn import decomposition, manifold
from sklearn.datasets import make_swiss_roll

from benchmarks import differences
from benchmarks.cases import OURS, Against, Case
from benchmarks.differences import Difference
from benchmarks.measure import WARM_UP, Work
from clearfold import embedding
from clearfold.embedding.paths import COMPILED_FROM

COMPONENTS = 10
NEIGHBORS = 10
GRAPH = {"n_components": COMPONENTS, "n_neighbors": NEIGHBORS}
FEATURES = 100
SQUARED = 2.0 * FEATURES
"""Expected squared distance of two Gaussian samples, close to the median."""
LARGEST = 5000
"""Rows at which ratios of fits are wanted."""
GAUSSIAN, SWISS = "Gaussian", "Swiss roll"
AUTO, ARPACK, DENSE = "scikit-learn", "scikit-learn ARPACK", "scikit-learn dense"

SAME_COLUMNS = Difference("columns", differences.coordinates, 1e-8)
SAME_PATHS = Difference("paths", differences.geodesics, 1e-12)
SAME_SUBSPACE = Difference("subspace", differences.subspace, 1e-6)
NEAR_SUBSPACE = Difference("subspace", differences.subspace, 1e-4)


def gaussian(size: int, features: int = FEATURES) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((size, features))


def swiss_roll(size: int) -> np.ndarray:
    return make_swiss_roll(size, random_state=0)[0]


SAMPLES = {GAUSSIAN: gaussian, SWISS: swiss_roll}


def sizes(quick: bool) -> tuple[int, ...]:
    return (300, 1000) if quick else (500, 1000, 2000, LARGEST)


def on_graphs(quick: bool) -> list[tuple[str, int]]:
    """Data of the methods on a neighbour graph."""
    return [(GAUSSIAN, n) for n in sizes(quick)] + [(SWISS, 1000 if quick else LARGEST)]


def fitted(make: Callable[[], Any], X: np.ndarray) -> dict[str, Any]:
    estimator = make()
    return {"estimator": estimator, "coordinates": estimator.fit_transform(X)}


def coordinates(result: dict[str, Any]) -> dict[str, Any]:
    return {"coordinates": result["coordinates"]}


def with_paths(result: dict[str, Any]) -> dict[str, Any]:
    estimator = result["estimator"]
    paths = estimator.geodesics_ if hasattr(estimator, "geodesics_") else estimator.dist_matrix_
    return {"coordinates": result["coordinates"], "geodesics": paths}


def fit_case(
    name: str,
    data: str,
    size: int,
    makers: dict[str, Callable[[], Any]],
    same: tuple[Difference, ...] | dict[str, tuple[Difference, ...]],
    *,
    read: Callable[[Any], Any] = coordinates,
    wanted: dict[str, float] | None = None,
    wanted_memory: float | None = None,
    warm_up: int = WARM_UP,
) -> Case:
    """Fits of the same samples; what is wanted is wanted of Gaussian samples at the largest size."""
    if size != LARGEST or data != GAUSSIAN:
        wanted, wanted_memory = {}, None
    same = same if isinstance(same, dict) else dict.fromkeys(makers, same)
    return Case(
        name,
        data,
        size,
        prepare=dict.fromkeys(makers, SAMPLES[data]),
        works={who: Work(who, partial(fitted, make), read) for who, make in makers.items()},
        comparisons=tuple(
            Against(who, same[who], (wanted or {}).get(who), wanted_memory) for who in makers if who != OURS
        ),
        warm_up=warm_up,
    )


def pca(quick: bool) -> Iterable[Case]:
    makers = {
        OURS: partial(embedding.PCA, n_components=COMPONENTS),
        AUTO: partial(decomposition.PCA, n_components=COMPONENTS),
        ARPACK: partial(decomposition.PCA, n_components=COMPONENTS, svd_solver="arpack", random_state=0),
    }
    return [fit_case("PCA fit", GAUSSIAN, n, makers, (SAME_COLUMNS,)) for n in sizes(quick)]


def kernel_pca(quick: bool) -> Iterable[Case]:
    peer = partial(decomposition.KernelPCA, COMPONENTS, kernel="rbf", gamma=0.5 / SQUARED, random_state=0)
    makers = {
        OURS: partial(embedding.KernelPCA, n_components=COMPONENTS, bandwidth=math.sqrt(SQUARED)),
        AUTO: peer,
        ARPACK: partial(peer, eigen_solver="arpack"),
    }
    wanted = {AUTO: 20.0, ARPACK: 2.0}
    return [fit_case("KernelPCA fit", GAUSSIAN, n, makers, (SAME_COLUMNS,), wanted=wanted) for n in sizes(quick)]


class MedianKernelPCA(decomposition.KernelPCA):
    """scikit-learn's with gamma from the median distance, as a user of it would write."""

    def fit_transform(self, X: np.ndarray) -> np.ndarray:
        self.gamma = 0.5 / np.median(pdist(X)) ** 2
        return super().fit_transform(X)


def kernel_pca_median(quick: bool) -> Iterable[Case]:
    makers = {
        OURS: partial(embedding.KernelPCA, n_components=COMPONENTS),
        ARPACK: partial(MedianKernelPCA, COMPONENTS, kernel="rbf", eigen_solver="arpack", random_state=0),
    }
    return [fit_case("KernelPCA fit, median", GAUSSIAN, n, makers, (SAME_COLUMNS,)) for n in sizes(quick)]


def isomap(quick: bool) -> Iterable[Case]:
    makers = {
        OURS: partial(embedding.Isomap, **GRAPH),
        AUTO: partial(manifold.Isomap, **GRAPH),
        ARPACK: partial(manifold.Isomap, **GRAPH, eigen_solver="arpack"),
    }
    same = (SAME_PATHS, SAME_COLUMNS)
    options = {"wanted": {AUTO: 8.0, ARPACK: 3.5}, "wanted_memory": 0.5, "warm_up": COMPILED_FROM}
    return [fit_case("Isomap fit", data, n, makers, same, read=with_paths, **options) for data, n in on_graphs(quick)]


def locally_linear(quick: bool) -> Iterable[Case]:
    """In two components on the Swiss roll, where scikit-learn allows no more than its three features."""
    for data, size in on_graphs(quick):
        graph = GRAPH if data == GAUSSIAN else {**GRAPH, "n_components": 2}
        peer = partial(manifold.LocallyLinearEmbedding, **graph, random_state=0)
        makers = {
            OURS: partial(embedding.LocallyLinearEmbedding, **graph),
            DENSE: partial(peer, eigen_solver="dense"),
            ARPACK: partial(peer, eigen_solver="arpack"),
        }
        same = {DENSE: (SAME_SUBSPACE,), ARPACK: (NEAR_SUBSPACE,)}
        yield fit_case("LocallyLinearEmbedding fit", data, size, makers, same, wanted={DENSE: 5.0, ARPACK: 3.0})


SUITE: dict[str, Callable[[bool], Iterable[Case]]] = {
    "pca": pca,
    "kernel-pca": kernel_pca,
    "kernel-pca-median": kernel_pca_median,
    "isomap": isomap,
    "locally-linear": locally_linear,
}
