"""Embeddings give the numbers of an independent implementation, from features and from distances."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from clearfold.embedding import (
    PCA,
    GraphEmbedding,
    Isomap,
    KernelPCA,
    LaplacianEigenmap,
    LocallyLinearEmbedding,
    residual_variance,
)
from clearfold.embedding.affinity import exponential, gaussian
from clearfold.embedding.graph_embedding import with_labels
from clearfold.embedding.locally_linear import barycentric
from clearfold.embedding.neighbors import NeighborGraph, neighbor_graph
from clearfold.embedding.operator import Centred, Laplacian, Reconstruction
from clearfold.embedding.paths import shortest_paths
from clearfold.embedding.samples import Distances, Points
from clearfold.errors import (
    DisconnectedGraphWarning,
    DuplicateSamplesWarning,
    NearEqualEigenvaluesWarning,
    NullSpaceWarning,
)

CASES = ["base_n40_m12", "wide_n30_m200", "disconnected_constfeat_n36_m8", "duplicates_n26_m12"]
METHODS = ["pca", "kpca", "isomap", "le", "lle"]
WAYS = [("pca", "euclidean")] + [(method, metric) for method in METHODS[1:] for metric in ("euclidean", "precomputed")]
EXPECTED_WARNINGS: dict[tuple[str, str], tuple[type[Warning], ...]] = {
    ("disconnected_constfeat_n36_m8", "isomap"): (DisconnectedGraphWarning,),
    ("disconnected_constfeat_n36_m8", "le"): (DisconnectedGraphWarning,),
    ("disconnected_constfeat_n36_m8", "lle"): (NullSpaceWarning,),
    ("duplicates_n26_m12", "isomap"): (DuplicateSamplesWarning,),
    ("duplicates_n26_m12", "le"): (DuplicateSamplesWarning,),
}
"""Every other warning is an error."""


class Reference:
    """One file of expected numbers, and embeddings with its settings."""

    def __init__(self, folder: Path, case: str) -> None:
        self.case = case
        self.numbers = dict(np.load(folder / "importance" / f"{case}.npz"))
        self.k, self.sigma, self.h = (self.numbers[name].item() for name in ("k", "sigma", "h"))

    def __getitem__(self, name: str) -> np.ndarray:
        return self.numbers[name]

    def embedding(self, method: str, h: int, metric: str = "euclidean") -> Any:
        return {
            "pca": lambda: PCA(n_components=h),
            "kpca": lambda: KernelPCA(n_components=h, bandwidth=self.sigma, metric=metric),
            "isomap": lambda: Isomap(n_components=h, n_neighbors=self.k, metric=metric),
            "le": lambda: LaplacianEigenmap(n_components=h, n_neighbors=self.k, bandwidth=self.sigma, metric=metric),
            "lle": lambda: LocallyLinearEmbedding(n_components=h, n_neighbors=self.k, metric=metric),
        }[method]()

    def table(self, metric: str) -> np.ndarray:
        return self["X"] if metric == "euclidean" else self["D"]

    def graph(self, metric: str) -> NeighborGraph:
        return neighbor_graph(Points(self["X"]) if metric == "euclidean" else Distances(self["D"]), self.k)

    @contextmanager
    def warnings_of(self, method: str, *more: type[Warning]) -> Iterator[None]:
        with ExitStack() as stack:
            for category in (*EXPECTED_WARNINGS.get((self.case, method), ()), *more):
                stack.enter_context(pytest.warns(category))
            yield


@pytest.fixture(params=CASES)
def reference(request: pytest.FixtureRequest, vectors: Path) -> Reference:
    return Reference(vectors, request.param)


@pytest.fixture
def graph_numbers(vectors: Path) -> dict[str, np.ndarray]:
    return dict(np.load(vectors / "graph" / "ose_ssl.npz"))


def assert_relative(actual: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
    """Same shape, and no entry off by more than `tolerance` of the largest expected one."""
    assert actual.shape == expected.shape
    assert np.abs(actual - expected).max() <= tolerance * np.abs(expected).max()


def assert_equal_up_to_sign(actual: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
    assert actual.shape == expected.shape
    signs = np.sign(np.einsum("ij,ij->j", actual, expected))
    assert_relative(actual * signs, expected, tolerance)


# --- from distances to kernels


def test_distances(reference: Reference) -> None:
    assert_relative(np.sqrt(Points(reference["X"]).squared()), reference["D"], 1e-12)
    assert_relative(np.sqrt(Points(reference["X"]).squared_to(reference["X"])), reference["D"], 1e-12)


@pytest.mark.parametrize("metric", ["euclidean", "precomputed"])
def test_neighbour_graph(reference: Reference, metric: str) -> None:
    graph = reference.graph(metric)
    adjacency = graph.matrix(np.ones(len(graph.edges))).toarray()
    np.testing.assert_array_equal(graph.indices, reference["knn"])
    np.testing.assert_array_equal(adjacency, reference["adj"].astype(float))
    assert len(graph.bridges) == reference["n_bridges"]
    assert graph.n_components == reference["n_components_before_bridging"]
    assert_relative(shortest_paths(graph.matrix(graph.lengths)), reference["geodesic"], 1e-12)


@pytest.mark.parametrize("metric", ["euclidean", "precomputed"])
def test_laplacian_and_its_pseudo_inverse(reference: Reference, metric: str) -> None:
    graph = reference.graph(metric)
    laplacian = Laplacian(graph.matrix(gaussian(np.square(graph.lengths), reference.sigma))).matrix
    assert_relative(laplacian, reference["laplacian"], 1e-12)
    assert_relative(np.linalg.pinv(laplacian, rcond=1e-10, hermitian=True), reference["le_K"], 1e-9)


@pytest.mark.parametrize("metric", ["euclidean", "precomputed"])
def test_barycentric_weights_and_their_kernel(reference: Reference, metric: str) -> None:
    samples = Points(reference["X"]) if metric == "euclidean" else Distances(reference["D"])
    indices, _ = samples.neighbors(reference.k)
    weights = np.zeros_like(reference["lle_W"])
    np.put_along_axis(weights, indices, barycentric(samples.own_local_gram(indices)), axis=1)
    assert_relative(weights, reference["lle_W"], 1e-9)
    assert_relative(Reconstruction(sparse.csr_array(weights)).kernel(), reference["lle_K"], 1e-9)


@pytest.mark.parametrize("metric", ["euclidean", "precomputed"])
def test_centred_kernels(reference: Reference, metric: str) -> None:
    samples = Points(reference["X"]) if metric == "euclidean" else Distances(reference["D"])
    kernel = Centred(gaussian(samples.squared(), reference.sigma)).kernel
    assert_relative(kernel, reference["kpca_K"], 1e-9)
    assert_relative(np.linalg.eigvalsh(kernel)[::-1], reference["kpca_eigvals_all"], 1e-8)
    graph = reference.graph(metric)
    kernel = Centred(-0.5 * shortest_paths(graph.matrix(graph.lengths)) ** 2).kernel
    assert_relative(kernel, reference["isomap_K"], 1e-9)
    assert_relative(np.linalg.eigvalsh(kernel)[::-1], reference["isomap_eigvals_all"], 1e-8)


# --- spectra and coordinates


@pytest.mark.parametrize(("method", "metric"), WAYS)
def test_whole_spectrum(reference: Reference, method: str, metric: str) -> None:
    """As many coordinates as the reference keeps, with its eigenvalues, each to 1e-8; and the kernel from them."""
    expected = reference[f"{method}_eigvals"]
    close = (NearEqualEigenvaluesWarning,) if (reference.case, method) == ("duplicates_n26_m12", "le") else ()
    with reference.warnings_of(method, *close):
        fitted = reference.embedding(method, len(expected), metric).fit(reference.table(metric))
    np.testing.assert_allclose(fitted.eigenvalues_, expected, rtol=1e-8)
    if method != "isomap":  # its negative eigenvalues are dropped
        assert_relative(fitted.embedding_ @ fitted.embedding_.T, reference[f"{method}_K"], 1e-8)
    else:
        kernel, vectors = reference["isomap_K"], fitted.embedding_ / np.sqrt(fitted.eigenvalues_)
        assert_relative(kernel @ vectors, vectors * expected, 1e-8)


@pytest.mark.parametrize(("method", "metric"), WAYS)
def test_one_coordinate_more_than_the_spectrum_has_is_refused(reference: Reference, method: str, metric: str) -> None:
    rank = len(reference[f"{method}_eigvals"])
    with reference.warnings_of(method), pytest.raises(ValueError, match=f"at most {rank}"):
        reference.embedding(method, rank + 1, metric).fit(reference.table(metric))


@pytest.mark.parametrize(("method", "metric"), WAYS)
def test_coordinates(reference: Reference, method: str, metric: str) -> None:
    """Up to sign, to what the eigengap lets through: 1e-14 / gap (LLE 1e-6)."""
    with reference.warnings_of(method):
        fitted = reference.embedding(method, reference.h, metric).fit(reference.table(metric))
    tolerance = 1e-6 if method == "lle" else 1e-14 / reference[f"{method}_min_rel_gap"].item()
    assert_equal_up_to_sign(fitted.embedding_, reference[f"{method}_T"], tolerance)
    vectors = fitted.embedding_ / np.sqrt(fitted.eigenvalues_)
    assert_equal_up_to_sign(vectors, reference[f"{method}_Z"], tolerance)


@pytest.mark.parametrize(("method", "metric"), WAYS)
def test_residual_variance(reference: Reference, method: str, metric: str) -> None:
    with reference.warnings_of(method):
        curve = residual_variance(reference.embedding(method, 2, metric), reference.table(metric))
    expected = reference[f"{method}_rv"]
    assert curve.values.shape == expected.shape
    np.testing.assert_allclose(curve.values, expected, rtol=0, atol=1e-8)
    assert curve.minimum == expected.argmin() + 1 or expected[curve.minimum - 1] - expected.min() < 1e-12


@pytest.mark.parametrize("method", METHODS)
def test_leading_directions(reference: Reference, method: str) -> None:
    """Loadings V = X'(T^+)' of the coordinates, as the importance of features needs them."""
    with reference.warnings_of(method):
        T = reference.embedding(method, reference.h).fit_transform(reference["X"])
    centred = reference["X"] - reference["X"].mean(axis=0)
    tolerance = 1e-6 if method == "lle" else 1e-12 / reference[f"{method}_min_rel_gap"].item()
    assert_equal_up_to_sign(centred.T @ np.linalg.pinv(T).T, reference[f"{method}_V"], tolerance)


# --- graph embedding, with and without labels, and new samples


def embedding_of(numbers: dict[str, np.ndarray], h: int, metric: str = "euclidean") -> GraphEmbedding:
    return GraphEmbedding(
        n_components=h,
        bandwidth=numbers["sigma"].item(),
        power=1,
        neighborhood=numbers["nbhd"].item(),
        metric=metric,
    )


def euclid(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return np.linalg.norm(A[:, None, :] - B[None, :, :], axis=2)


def test_graph_affinity_with_and_without_labels(graph_numbers: dict[str, np.ndarray]) -> None:
    n = graph_numbers
    distances = Points(n["X"]).within(n["nbhd"].item())
    distances.data = exponential(np.square(distances.data), n["sigma"].item(), 1)
    assert_relative(distances.toarray(), n["W"], 1e-12)
    assert_relative(with_labels(distances, n["known"]).toarray(), n["W_R"], 1e-12)
    assert_relative(with_labels(distances.toarray(), n["known"]), n["W_R"], 1e-12)


@pytest.mark.parametrize("metric", ["euclidean", "precomputed"])
@pytest.mark.parametrize("prefix", ["ge", "ssge"])
def test_graph_embedding_of_all_samples(graph_numbers: dict[str, np.ndarray], prefix: str, metric: str) -> None:
    n = graph_numbers
    table = n["X"] if metric == "euclidean" else euclid(n["X"], n["X"])
    fitted = embedding_of(n, n["n"].item(), metric).fit(table, n["known"] if prefix == "ssge" else None)
    np.testing.assert_allclose(fitted.eigenvalues_, n[f"{prefix}_lam"], rtol=1e-10)
    assert_equal_up_to_sign(fitted.embedding_, n[f"{prefix}_Y"], 1e-10)


@pytest.mark.parametrize("prefix", ["ge", "ssge"])
def test_graph_embedding_keeps_every_positive_eigenvalue(graph_numbers: dict[str, np.ndarray], prefix: str) -> None:
    """lam_all holds the constant vector's 1 and what is not positive besides."""
    n = graph_numbers
    every = np.sort(n[f"{prefix}_lam_all"])[::-1]
    assert every[0] == pytest.approx(1, abs=1e-12)
    expected = every[1:][every[1:] > 1e-10]
    labels = n["known"] if prefix == "ssge" else None
    with (
        pytest.warns(NearEqualEigenvaluesWarning) if prefix == "ge" else ExitStack()
    ):  # among fifty-eight, two are close
        fitted = embedding_of(n, len(expected)).fit(n["X"], labels)
    np.testing.assert_allclose(fitted.eigenvalues_, expected, rtol=1e-8)
    with pytest.raises(ValueError, match=f"at most {len(expected)}"):
        embedding_of(n, len(expected) + 1).fit(n["X"], labels)


@pytest.mark.parametrize("metric", ["euclidean", "precomputed"])
@pytest.mark.parametrize("prefix", ["nmge", "osessl"])
def test_graph_embedding_of_new_samples(graph_numbers: dict[str, np.ndarray], prefix: str, metric: str) -> None:
    n = graph_numbers
    train, new = n["X"][n["T"]], n["X"][n["E"]]
    labels = n["known"][n["T"]] if prefix == "osessl" else None
    known, queries = (train, new) if metric == "euclidean" else (euclid(train, train), euclid(new, train))
    fitted = embedding_of(n, n["n"].item(), metric).fit(known, labels)
    signs = np.sign(np.einsum("ij,ij->j", fitted.embedding_, n[f"{prefix}_train_Y"]))
    np.testing.assert_allclose(fitted.eigenvalues_, n[f"{prefix}_train_lam"], rtol=1e-10)
    assert_relative(fitted.embedding_ * signs, n[f"{prefix}_train_Y"], 1e-10)
    assert_relative(fitted.transform(queries) * signs, n[f"{prefix}_ext_Y"], 1e-10)  # signs are those of training
    everyone = np.empty_like(n[f"{prefix}_full"])
    everyone[n["T"]], everyone[n["E"]] = fitted.transform(known), fitted.transform(queries)
    assert_relative(everyone * signs, n[f"{prefix}_full"], 1e-10)


def test_labels_of_new_samples_have_no_influence(graph_numbers: dict[str, np.ndarray]) -> None:
    n = graph_numbers
    fitted = embedding_of(n, 3).fit(n["X"][n["T"]], n["known"][n["T"]])
    unlabelled = embedding_of(n, 3).fit(n["X"][n["T"]], np.full(len(n["T"]), -1))
    plain = embedding_of(n, 3).fit(n["X"][n["T"]])
    np.testing.assert_array_equal(unlabelled.embedding_, plain.embedding_)
    assert np.abs(fitted.embedding_ - plain.embedding_).max() > 0.01  # labels of training samples do


@pytest.mark.parametrize(("suffix", "power", "table"), [("", 1, "D_bdm"), ("_se", 2, "D_eucl")])
def test_boosted_spectral_embedding_is_a_graph_embedding(vectors: Path, suffix: str, power: int, table: str) -> None:
    """mu = 1 - lambda, from the boosted distances and from Euclid's on z-scores."""
    n = dict(np.load(vectors / "graph" / "bose.npz"))
    fitted = GraphEmbedding(
        n_components=n[f"Y{suffix}"].shape[1],
        bandwidth=n[f"sigma{suffix}"].item(),
        power=power,
        metric="precomputed",
    ).fit(n[table])
    np.testing.assert_allclose(1 - fitted.eigenvalues_, n[f"mu{suffix}"], rtol=1e-9)
    assert_equal_up_to_sign(fitted.embedding_, n[f"Y{suffix}"], 1e-9)
    median = GraphEmbedding(power=power, metric="precomputed").fit(n[table]).bandwidth_
    assert median == pytest.approx(n[f"sigma{suffix}"].item(), rel=1e-12)
