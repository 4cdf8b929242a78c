"""Local saliency gives the numbers of an independent implementation."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clearfold.saliency import GradedPossibilisticClustering, VoronoiSaliency, annealing_schedule, log_memberships
from clearfold.saliency.joint import joint_vectors
from clearfold.saliency.local_svm import CellMachines, linear_svm
from clearfold.saliency.possibilistic import Cloud, anneal
from clearfold.saliency.voronoi import nearest_site
from saliency_truth import KINDS, passes


def load(vectors: Path, name: str) -> dict[str, Any]:
    with np.load(vectors / "rve" / f"{name}.npz") as file:
        return dict(file)


def test_memberships(vectors: Path) -> None:
    v = load(vectors, "gpc_membership")
    for a, alpha in enumerate(v["alphas"]):
        for b, beta in enumerate(v["betas"]):
            logs = log_memberships(v["D2"], beta, alpha)
            np.testing.assert_allclose(logs, v["logU_power"][a, b], rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(np.exp(logs), v["U_power"][a, b], rtol=1e-9, atol=1e-9)
            u = np.exp(logs)
            after = u.T @ v["Z"] / u.sum(axis=0)[:, None]
            np.testing.assert_allclose(after, v["Y_next_power"][a, b], rtol=1e-9, atol=1e-9)
        own = np.exp(log_memberships(v["D2"], v["beta_j"], alpha))
        np.testing.assert_allclose(own, v["U_power_beta_j"][a], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("alpha", ["0", "0.5", "1"])
def test_annealed_centres(vectors: Path, alpha: str) -> None:
    v = load(vectors, "gpc_anneal")
    np.testing.assert_allclose(annealing_schedule(), v["betas"], rtol=1e-12)
    clusters = GradedPossibilisticClustering(alpha=float(alpha), init=v["init"], split=False).fit(v["Z"])
    np.testing.assert_allclose(clusters.all_centers_, v[f"Y_alpha_{alpha}"], atol=1e-5)
    assert clusters.n_clusters_ == v[f"n_distinct_alpha_{alpha}"]


@pytest.mark.parametrize("alpha", [0.0, 0.7, 1.0])
def test_gram_space_gives_the_same_centres(vectors: Path, alpha: float) -> None:
    v = load(vectors, "gpc_anneal")
    plain = Cloud.of(v["Z"])
    gram = Cloud(plain.points, plain.points @ plain.points.T, plain.weight)
    start = np.eye(len(v["Z"]))[v["init"]]
    first, second = (anneal(cloud, start, v["betas"], alpha)[-1] @ plain.points for cloud in (plain, gram))
    np.testing.assert_allclose(first, second, atol=2e-10)


def test_cells_of_sites(vectors: Path) -> None:
    v = load(vectors, "voronoi")
    cells = nearest_site(v["X"], v["sites"])
    np.testing.assert_array_equal(cells, v["assign"])
    assert cells[v["tie_row"]] == min(v["tie_sites"])
    assert v["kind"][3] == "empty"
    assert 3 not in cells


@pytest.mark.parametrize("name", ["analytic", "soft", "wide", "allneg"])
def test_linear_machines_and_their_saliency(vectors: Path, name: str) -> None:
    v = load(vectors, "svm_saliency")
    X, positive, w = v[f"X_{name}"], v[f"y_{name}"] > 0, v[f"w_{name}"]
    for gram in (None, X @ X.T):
        machine = linear_svm(X, positive, float(v[f"C_{name}"]), gram=gram)
        np.testing.assert_allclose(machine.w, w, atol=1e-4 * np.abs(w).max())
        np.testing.assert_allclose(machine.saliency, v[f"t_{name}"], atol=1e-4)
    cached = CellMachines(X, positive, float(v[f"C_{name}"])).of(np.ones(len(X), dtype=bool))
    np.testing.assert_allclose(cached.w, w, atol=1e-4 * np.abs(w).max())


def test_joint_vectors(vectors: Path) -> None:
    v = load(vectors, "joint")
    for position, name in ((0.5, "05"), (0.0, "0"), (0.2, "02")):
        z = joint_vectors(v["T"], v["S"], position)
        np.testing.assert_allclose(z, v[f"z_variance_{name}"], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_reference_samples_of_known_truth(vectors: Path, kind: str) -> None:
    v = load(vectors, "synthetic")
    for number in range(3):
        X, y, side = (v[f"{kind}{number}_{name}"] for name in ("X", "y", "side"))
        fitted = VoronoiSaliency(n_perturbations=20, n_bootstraps=0, n_permutations=0, random_state=number)
        fitted.fit(X.astype(float), y)
        assert passes(fitted, side, kind)
        assert len(fitted.rankings_) == (1 if kind == "global" else 2)
