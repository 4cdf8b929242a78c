"""The protocol of FINE and the importance of features beside the plain ways to compute them.

Data are n x m with many more features than samples (two classes, 20 latent factors of falling strength and noise,
standardised); 100 x 10,000 is the size of the Arcene set, which is not in this repository.

- "FINE protocol round": residual variance of 630 settings (PCA, Isomap, Laplacian eigenmaps, locally linear embedding;
  neighbours, bandwidth and 1 to 30 coordinates) and the FINE importance of the best setting of each embedding. Ours
  calls what `clearfold.evaluate.protocol` calls in a round. The peers are written from the definitions on
  scikit-learn and scipy: one fits afresh for each of the settings, the other once for each (neighbours, bandwidth) in
  30 coordinates, of which it takes slices, and it measures the distances of the samples once for all.
- In the peers, PCA is scikit-learn's by full SVD (its default here is a randomised one, which is not exact), and
  Isomap is scikit-learn's. Its SpectralEmbedding has another definition (normalised Laplacian), so Laplacian eigenmaps
  are its neighbour graph and a dense decomposition by scipy. Its LocallyLinearEmbedding is fitted as a
  user would; since it keeps neither the matrix nor the eigenvalues that residual variance needs, its weights are asked
  for once more. This choice decides one row: a peer that takes the weights alone and decomposes them by scipy, which
  is no fit of scikit-learn's, takes 213 (refit) and 9 (once) times our time where this one takes 320 and 13.
- Residual variance is 1 - correlation of distances among coordinates with distances of samples (PCA), path lengths
  (Isomap) or kernel-induced distances (the others). The importance of the peers is the general form, by pseudo-inverse
  and least squares. Which setting is best is decided by the same rule (`elbow`) on both sides.
- "permutations": p-values from 1000 permutations of the labels beside one ranking (standardise, fit, importance), and
  beside a loop over the permutations, which gives the same p-values exactly.
- "FINE protocol": all rounds, on the clock, with two processes; for information.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from multiprocessing.util import Finalize
from typing import Any

import numpy as np
from joblib.externals.loky import get_reusable_executor
from scipy import linalg, sparse
from scipy.spatial.distance import pdist, squareform
from sklearn import decomposition, manifold
from sklearn.manifold._locally_linear import barycenter_kneighbors_graph
from sklearn.neighbors import kneighbors_graph
from sklearn.preprocessing import scale

from benchmarks import differences
from benchmarks.cases import OURS, Against, Case
from benchmarks.differences import Difference
from benchmarks.measure import Work
from clearfold import embedding
from clearfold.embedding.choice import elbow, search_samples
from clearfold.embedding.samples import Points
from clearfold.evaluate import Protocol
from clearfold.evaluate.protocol import run
from clearfold.importance.formula import Loadings, centred, importances, loadings
from clearfold.importance.outcome import Outcome, read_outcome
from clearfold.importance.rounds import Patients, exceedance, permuted, read_patients
from clearfold.papers import fine

SMALL, FULL = 40, 100
"""Samples: for equality of outputs and to warm up, and as they are measured."""
REFIT, ONCE = "refit for each setting", "one fit for each (k, s)"
RANKING, LOOP = "one ranking", "a loop over them"
SAME_VARIANCE = Difference("variance", differences.residual_variances, 1e-10)
SAME_SHARES = Difference("importance", differences.shares, 1e-10)
SAME_P_VALUES = Difference("p-values", differences.p_values, 0.0)


def features(size: int) -> int:
    return 10_000 if size >= FULL else 500


def two_classes(size: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    y = np.arange(size) % 2
    latent = random.standard_normal((size, 20)) * np.linspace(2.0, 0.5, 20)
    latent[:, :3] += y[:, None]
    X = latent @ random.standard_normal((20, features(size))) / np.sqrt(20)
    return X + random.standard_normal(X.shape), y


def described(size: int) -> str:
    return f"two classes, {features(size)} features"


# ------------------------------------------------------------------------------------ a round: searches and rankings


def settings(size: int) -> Protocol:
    """The protocol of the paper, 630 settings; 18 times 8 at the small size."""
    protocol = fine.corrected(classifiers=())
    if size >= FULL:
        return protocol
    grids = {name: {**grid, **({"n_neighbors": [5, 10, 15]} if grid else {})} for name, grid in protocol.grids.items()}
    return replace(protocol, grids=grids, max_components=8)


def round_state(size: int) -> tuple[np.ndarray, np.ndarray, Protocol]:
    X, y = two_classes(size)
    return scale(X), y, settings(size)


def our_round(state: tuple[np.ndarray, np.ndarray, Protocol]) -> dict[str, Any]:
    """As a round of the protocol does it: distances are shared by all searches and by the last fits."""
    X, y, protocol = state
    target = read_outcome(y, len(X)).target
    samples, spread = Points(X, copy=False).remember_distances(), np.square(X).sum(axis=0)
    result = {}
    for name, unfitted in protocol.embeddings.items():
        found = search_samples(unfitted, samples, protocol.grids[name], protocol.max_components, protocol.rule)
        chosen = found.best_estimator()
        chosen._fit_samples(samples)
        result[name] = (
            found.table,
            found.best,
            importances(loadings(chosen.embedding_, X, spread=spread), target, "fine"),
        )
    return result


def read_ours(result: dict[str, Any]) -> dict[str, Any]:
    """Curves (settings x coordinates, NaN beyond the last coordinate), best settings and importances by embedding."""
    output = {}
    for name, (table, best, importance) in result.items():
        first = np.flatnonzero(table["n_components"] == 1)
        curves = np.full((len(first), table["n_components"].max()), np.nan)
        curves[np.searchsorted(first, np.arange(len(table)), "right") - 1, table["n_components"] - 1] = table[
            "residual_variance"
        ]
        output[name] = {"curves": curves, "best": best, "importance": importance}
    return output


@dataclass(frozen=True)
class Peer:
    """Fits of the samples by scikit-learn and scipy: coordinates, and the distances that they stand for.

    lengths : distances among the samples, measured once if given, else whenever they are asked for
    """

    X: np.ndarray
    lengths: np.ndarray | None = None

    def distances(self) -> np.ndarray:
        return pdist(self.X) if self.lengths is None else self.lengths

    def fit(self, name: str, count: int, **setting: Any) -> tuple[np.ndarray, np.ndarray]:
        fits = {"PCA": self.pca, "Isomap": self.isomap, "LE": self.eigenmap, "LLE": self.locally_linear}
        return fits[name](count, **setting)

    def pca(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        return decomposition.PCA(count, svd_solver="full").fit_transform(self.X), self.distances()

    def isomap(self, count: int, n_neighbors: int) -> tuple[np.ndarray, np.ndarray]:
        estimator = manifold.Isomap(n_components=count, n_neighbors=n_neighbors)
        coordinates = estimator.fit_transform(self.X)
        return coordinates, squareform(estimator.dist_matrix_, checks=False)

    def eigenmap(self, count: int, n_neighbors: int, bandwidth: float | str) -> tuple[np.ndarray, np.ndarray]:
        graph = kneighbors_graph(self.X, n_neighbors, mode="distance")
        graph = sparse.csr_array(graph.maximum(graph.T))
        width = float(np.median(self.distances())) if bandwidth == "median" else bandwidth
        graph.data = np.exp(-np.square(graph.data) / (2 * width**2))
        W = graph.toarray()
        values, vectors = linalg.eigh(np.diag(W.sum(axis=1)) - W)
        everything = vectors[:, 1:] / np.sqrt(values[1:])
        return everything[:, :count], pdist(everything)

    def locally_linear(self, count: int, n_neighbors: int) -> tuple[np.ndarray, np.ndarray]:
        remainder = np.eye(len(self.X)) - barycenter_kneighbors_graph(self.X, n_neighbors, reg=1e-3).toarray()
        M = remainder.T @ remainder
        values = linalg.eigvalsh(M)
        centring = np.eye(len(M)) - 1 / len(M)
        K = centring @ (values[-1] * np.eye(len(M)) - M) @ centring
        squared = np.diag(K)[:, None] + np.diag(K)[None, :] - 2 * K
        estimator = manifold.LocallyLinearEmbedding(
            n_components=count, n_neighbors=n_neighbors, reg=1e-3, eigen_solver="dense"
        )
        coordinates = estimator.fit_transform(self.X) * np.sqrt(values[-1] - values[1 : count + 1])
        return coordinates, np.sqrt(squareform(squared, checks=False))


def residual_variance(coordinates: np.ndarray, distances: np.ndarray) -> float:
    return float(1 - np.corrcoef(pdist(coordinates), distances)[0, 1])


def refitted(peer: Peer, name: str, most: int, setting: dict[str, Any]) -> list[float]:
    return [residual_variance(*peer.fit(name, count, **setting)) for count in range(1, most + 1)]


def sliced(peer: Peer, name: str, most: int, setting: dict[str, Any]) -> list[float]:
    coordinates, distances = peer.fit(name, most, **setting)
    return [residual_variance(coordinates[:, :count], distances) for count in range(1, most + 1)]


def general_importance(coordinates: np.ndarray, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """FINE's importance for coordinates of any kind: pseudo-inverse for the loadings, least squares for the weights."""
    T = coordinates - coordinates.mean(axis=0)
    X, y = X - X.mean(axis=0), y - y.mean()
    V = X.T @ np.linalg.pinv(T).T
    weight = np.square(np.linalg.lstsq(T, y, rcond=None)[0]) * np.square(T).sum(axis=0)
    return np.square(V / np.linalg.norm(V, axis=0)) @ (weight / weight.sum())


def peer_round(
    curve: Callable[..., list[float]], share: bool, state: tuple[np.ndarray, np.ndarray, Protocol]
) -> dict[str, Any]:
    X, y, protocol = state
    peer = Peer(X, pdist(X) if share else None)
    result = {}
    for name, grid in protocol.grids.items():
        each = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
        curves = np.array([curve(peer, name, protocol.max_components, setting) for setting in each])
        counts = [elbow(own, len(X)) for own in curves]
        lowest = int(np.argmin([own[count - 1] for own, count in zip(curves, counts, strict=True)]))
        coordinates, _ = peer.fit(name, counts[lowest], **each[lowest])
        result[name] = {
            "curves": curves,
            "best": {**each[lowest], "n_components": counts[lowest]},
            "importance": general_importance(coordinates, X, y),
        }
    return result


def protocol_round(quick: bool) -> Iterable[Case]:
    size = SMALL if quick else FULL
    same = (SAME_VARIANCE, SAME_SHARES)
    yield Case(
        "FINE protocol round",
        described(size),
        size,
        prepare=dict.fromkeys((OURS, REFIT, ONCE), round_state),
        works={
            OURS: Work(OURS, our_round, read_ours),
            REFIT: Work(REFIT, partial(peer_round, refitted, False), once=True),
            ONCE: Work(ONCE, partial(peer_round, sliced, True)),
        },
        comparisons=(
            Against(REFIT, same, None if quick else 250.0),
            Against(ONCE, same, None if quick else 7.0),
        ),
        warm_up=SMALL,
    )


# ------------------------------------------------------------------------------------------------------ permutations


@dataclass(frozen=True)
class Ranked:
    """Samples, and by method a ranking of their features, as it is known when the permutations begin."""

    X: np.ndarray
    outcome: Outcome
    patients: Patients
    prepared: np.ndarray
    coordinates: np.ndarray
    of: Loadings
    seen: dict[str, np.ndarray]
    membership: sparse.csr_array


METHODS = ("fine", "coherent", "auto")


def embedded(X: np.ndarray) -> tuple[np.ndarray, np.ndarray, Loadings]:
    """Standardised features, coordinates and loadings, as EmbeddingImportance makes them unless told otherwise."""
    X = centred(X)
    X /= X.std(axis=0)
    coordinates = embedding.Isomap(n_components=5).fit_transform(X)
    return X, coordinates, loadings(coordinates, X)


def ranked(size: int) -> Ranked:
    X, y = two_classes(size)
    outcome = read_outcome(y, size)
    prepared, coordinates, of = embedded(X)
    seen = {method: importances(of, outcome.target, method) for method in METHODS}
    families = sparse.csr_array((np.ones(X.shape[1]), (range(X.shape[1]), range(X.shape[1]))))
    return Ranked(X, outcome, read_patients(None, outcome, size), prepared, coordinates, of, seen, families)


def rank(method: str, state: Ranked) -> np.ndarray:
    return importances(embedded(state.X)[2], state.outcome.target, method)


def permute(method: str, count: int, state: Ranked) -> dict[str, np.ndarray]:
    blocks = permuted(state.of, state.outcome, state.patients, method, count, np.random.default_rng(1))
    return vars(exceedance(state.seen[method], blocks, state.membership))


def permute_in_a_loop(method: str, count: int, state: Ranked) -> dict[str, np.ndarray]:
    return vars(exceedance(state.seen[method], one_at_a_time(method, count, state), state.membership))


def one_at_a_time(method: str, count: int, state: Ranked) -> Iterator[np.ndarray]:
    random = np.random.default_rng(1)
    for _ in range(count):
        target = state.outcome.target[state.patients.permutation(state.outcome, random)]
        if method == "fine":
            yield general_importance(state.coordinates, state.prepared, target[:, 0])[:, None]
        else:
            yield importances(state.of, target, method)[:, None]


def permutations(quick: bool) -> Iterable[Case]:
    """Three rankings should pay for 1000 permutations; the loop, for its output, is done at the small size."""
    size, count = (SMALL, 250) if quick else (FULL, 1000)
    works, comparisons = {}, []
    for method in METHODS:
        ours = f"{OURS}, {method}"
        works[ours] = Work(OURS, partial(permute, method, count))
        works[f"{RANKING}, {method}"] = Work(OURS, partial(rank, method))
        wanted = None if quick else 1 / 3
        comparisons.append(
            Against(f"{RANKING}, {method}", (), wanted, ours=ours, task=method, peer_name=RANKING),
        )
        if quick:
            works[f"{LOOP}, {method}"] = Work(OURS, partial(permute_in_a_loop, method, count))
            comparisons.append(Against(f"{LOOP}, {method}", (SAME_P_VALUES,), ours=ours, task=method, peer_name=LOOP))
    yield Case(
        f"{count} permutations",
        described(size),
        size,
        prepare={OURS: ranked},
        works=works,
        comparisons=tuple(comparisons),
        warm_up=SMALL,
    )


# -------------------------------------------------------------------------------------------------------- all rounds


def rounds(size: int) -> int:
    return 50 if size >= FULL else 4


def protocol_state(size: int) -> tuple[np.ndarray, np.ndarray, Protocol]:
    stop_workers_at_the_end()
    return *two_classes(size), replace(settings(size), n_rounds=rounds(size))


def run_protocol(state: tuple[np.ndarray, np.ndarray, Protocol]) -> Any:
    X, y, protocol = state
    return run(X, y, protocol, n_jobs=2)


@cache
def stop_workers_at_the_end() -> None:
    """joblib's processes wait for further work; a process that started some would not end before they give up."""
    Finalize(None, stop_workers, exitpriority=1)


def stop_workers() -> None:
    get_reusable_executor(reuse=True).terminate(kill_workers=True)
    atexit._run_exitfuncs()  # joblib's files; a process of multiprocessing ends without it


def no_output(_: Any) -> None:
    return None


def whole_protocol(quick: bool) -> Iterable[Case]:
    size = SMALL if quick else FULL
    yield Case(
        f"FINE protocol, {rounds(size)} rounds, no classifiers, two processes",
        described(size),
        size,
        prepare={OURS: protocol_state},
        works={OURS: Work(OURS, run_protocol, no_output, once=True)},
        warm_up=SMALL,
        on_the_clock=True,
    )


# ---------------------------------------------------------------------------------------------------------- features


def many_features(size: int) -> tuple[np.ndarray, np.ndarray]:
    """100 samples of `size` features; a tenth of them differ between two classes."""
    random = np.random.default_rng(0)
    y = np.arange(100) % 2
    X = random.standard_normal((100, size))
    X[:, : max(1, size // 10)] += y[:, None]
    return X, y


def rank_features(state: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    X, y = state
    return importances(embedded(X)[2], read_outcome(y, len(y)).target, "auto")


def over_features(quick: bool) -> Iterable[Case]:
    """How the time of one ranking grows with the number of features."""
    for size in (300, 1000, 3000) if quick else (1000, 10_000, 100_000):
        work = {OURS: Work(OURS, rank_features)}
        yield Case("ranking, 100 samples", "two classes", size, {OURS: many_features}, work, axis="features")


SUITE: dict[str, Callable[[bool], Iterable[Case]]] = {
    "features": over_features,
    "protocol-round": protocol_round,
    "permutations": permutations,
    "protocol": whole_protocol,
}
