"""Importances give the numbers of an independent implementation, from its coordinates and from raw features."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clearfold.embedding import PCA, Isomap, KernelPCA, LaplacianEigenmap, LocallyLinearEmbedding
from clearfold.errors import (
    DisconnectedGraphWarning,
    DuplicateSamplesWarning,
    LabelFreeWarning,
    NullSpaceWarning,
)
from clearfold.importance import EmbeddingImportance, fine_importance, formula
from clearfold.importance.formula import Loadings, importances, loadings, squares
from clearfold.importance.outcome import read_outcome
from clearfold.selection import ranking

CASES = ["base_n40_m12", "wide_n30_m200", "disconnected_constfeat_n36_m8", "duplicates_n26_m12"]
EMBEDDINGS = ["pca", "kpca", "isomap", "le", "lle"]
EXACT = 1e-12
"""From the reference's own coordinates."""
EXPECTED_WARNINGS: dict[tuple[str, str], tuple[type[Warning], ...]] = {
    ("disconnected_constfeat_n36_m8", "isomap"): (DisconnectedGraphWarning,),
    ("disconnected_constfeat_n36_m8", "le"): (DisconnectedGraphWarning,),
    ("disconnected_constfeat_n36_m8", "lle"): (NullSpaceWarning,),
    ("duplicates_n26_m12", "isomap"): (DuplicateSamplesWarning,),
    ("duplicates_n26_m12", "le"): (DuplicateSamplesWarning,),
}
"""Every other warning is an error."""


class Reference:
    """Expected numbers of one data set under one embedding."""

    def __init__(self, folder: Path, case: str, prefix: str) -> None:
        self.case, self.prefix = case, prefix
        self.numbers = dict(np.load(folder / "importance" / f"{case}.npz"))
        self.X, self.y = self.numbers["X"], self.numbers["y"]
        self.k, self.sigma, self.h = (self.numbers[name].item() for name in ("k", "sigma", "h"))

    def __getitem__(self, name: str) -> np.ndarray:
        return self.numbers[f"{self.prefix}_{name}"]

    @property
    def target(self) -> np.ndarray:
        return read_outcome(self.y, len(self.y)).target

    @property
    def loadings(self) -> Loadings:
        return loadings(self["T"], self.X)

    @property
    def tolerance(self) -> float:
        """From raw features: what the eigengap lets through."""
        return 1e-5 if self.prefix == "lle" else 1e-7

    @property
    def families(self) -> list[str]:
        """Family of each feature: the number of the group that lists it."""
        number = {int(j): str(i) for i, members in enumerate(self.numbers["groups"]) for j in members.split(",")}
        return [number[j] for j in range(self.X.shape[1])]

    def embedding(self, h: int) -> Any:
        return {
            "pca": lambda: PCA(n_components=h),
            "kpca": lambda: KernelPCA(n_components=h, bandwidth=self.sigma),
            "isomap": lambda: Isomap(n_components=h, n_neighbors=self.k),
            "le": lambda: LaplacianEigenmap(n_components=h, n_neighbors=self.k, bandwidth=self.sigma),
            "lle": lambda: LocallyLinearEmbedding(n_components=h, n_neighbors=self.k),
        }[self.prefix]()

    def fitted(self, h: int, *more: type[Warning]) -> EmbeddingImportance:
        """Importance of the raw features, from nothing but them."""
        importance = EmbeddingImportance(
            embedding=self.embedding(h),
            method="fine",
            standardize=False,
            n_rounds=0,
            n_permutations=0,
            families=self.families,
        )
        with self.warnings_of(*more):
            return importance.fit(self.X, self.y)

    @contextmanager
    def warnings_of(self, *more: type[Warning]) -> Iterator[None]:
        with ExitStack() as stack:
            for category in (*EXPECTED_WARNINGS.get((self.case, self.prefix), ()), *more):
                stack.enter_context(pytest.warns(category))
            yield


@pytest.fixture(params=[(case, prefix) for case in CASES for prefix in EMBEDDINGS], ids="-".join)
def reference(request: pytest.FixtureRequest, vectors: Path) -> Reference:
    return Reference(vectors, *request.param)


@pytest.fixture(params=["closed form", "general form"])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The second has no coordinates count as orthogonal, so that pseudo-inverse and regression are used."""
    if request.param == "general form":
        monkeypatch.setattr(formula, "ORTHOGONAL", 0.0)
    return str(request.param)


def assert_close(actual: np.ndarray, expected: np.ndarray, tolerance: float = EXACT) -> None:
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance)


# --- given the reference's coordinates


def test_shares(reference: Reference, form: str) -> None:
    assert_close(importances(reference.loadings, reference.target, "fine"), reference["norm"])


def test_shares_are_the_squares_of_what_the_papers_print(reference: Reference, form: str) -> None:
    m = reference.X.shape[1]
    pi = np.sqrt(m * importances(reference.loadings, reference.target, "fine"))
    np.testing.assert_allclose(pi, reference["pi"], rtol=1e-9, atol=1e-9)


def test_the_two_forms_are_two(reference: Reference, monkeypatch: pytest.MonkeyPatch) -> None:
    """The closed form reads an outcome by Z', the general one by the pseudo-inverse of coordinates of any length."""
    closed = reference.loadings
    monkeypatch.setattr(formula, "ORTHOGONAL", 0.0)
    general = reference.loadings
    np.testing.assert_allclose(
        np.square(closed.V).sum(axis=1), reference["eigvals"][: reference.h] * _squares(reference)
    )
    assert_close(general.V.T, reference["V"], 1e-9 * np.abs(reference["V"]).max())
    assert np.abs(closed.V - general.V).max() > 0.01


def _squares(reference: Reference) -> np.ndarray:
    """||v_i||^2 of the reference's loadings, which are those of coordinates, not of unit vectors."""
    return np.square(reference["V"]).sum(axis=0)


def test_coefficients_and_weights_of_the_coordinates(reference: Reference, form: str) -> None:
    """A y = b_i ||t_i||, and its squares in shares are the weights."""
    read = reference.loadings.A @ reference.target[:, 0]
    length = np.linalg.norm(reference["T"], axis=0)
    np.testing.assert_allclose(read / length, reference["b"], rtol=1e-8, atol=1e-10 / length.min())
    assert_close(read**2 / (read**2).sum(), reference["weights"], 1e-10)


def test_shares_with_one_coordinate(reference: Reference) -> None:
    first = loadings(reference["T"][:, :1], reference.X)
    assert_close(importances(first, reference.target, "fine"), reference["norm_h1"])
    other = reference.target[np.random.default_rng(0).permutation(len(reference.y))]
    assert_close(importances(first, other, "fine"), reference["norm_h1"])


def test_label_free_shares(reference: Reference, form: str) -> None:
    assert_close(reference.loadings.label_free, reference["null"])


def test_coherent_importance_of_the_plain_projection(reference: Reference, form: str) -> None:
    """corr(x_j, ZZ'y)^2, a constant feature 0."""
    of = reference.loadings
    beta = (of.Z.T @ reference.target)[:, :, None]
    assert_close(squares(of.scaled, beta)[:, 0] / np.square(beta).sum(), reference["coh"], 1e-10)


def test_after_the_fact(reference: Reference, form: str) -> None:
    assert_close(fine_importance(reference["T"], reference.X, reference.y), reference["norm"])
    moved = 3.0 + reference["T"] * -2.0
    assert_close(fine_importance(moved, reference.X + 1.0, np.where(reference.y, "b", "a")), reference["norm"], 1e-10)


# --- from raw features


def test_estimator(reference: Reference) -> None:
    """Embedding and importance together; the warnings are those of the embedding, and no others."""
    importance = reference.fitted(reference.h)
    assert_close(importance.importances_, reference["norm"], reference.tolerance)
    assert_close(importance.label_free_, reference["null"], reference.tolerance)
    np.testing.assert_array_equal(importance.table_["importance"], importance.importances_)


def test_estimator_with_one_coordinate(reference: Reference) -> None:
    importance = reference.fitted(1, LabelFreeWarning)
    assert_close(importance.importances_, reference["norm_h1"], reference.tolerance)
    assert importance.label_share_ == pytest.approx(0, abs=1e-12)


def test_families(reference: Reference) -> None:
    table = reference.fitted(reference.h).family_importances_.set_index("family")["importance"]
    assert len(table) == len(reference["group"])
    for number, expected in enumerate(reference["group"]):
        assert table[str(number)] == pytest.approx(expected, abs=reference.tolerance)


def test_ranking(reference: Reference) -> None:
    np.testing.assert_array_equal(np.argsort(reference.fitted(reference.h).ranking_, kind="stable"), reference["rank"])


def test_ranking_of_the_shares_themselves(reference: Reference) -> None:
    shares = importances(reference.loadings, reference.target, "fine")
    np.testing.assert_array_equal(np.argsort(ranking(shares), kind="stable"), reference["rank"])


def test_a_constant_feature_gets_nothing(vectors: Path) -> None:
    for prefix in EMBEDDINGS:
        reference = Reference(vectors, "disconnected_constfeat_n36_m8", prefix)
        importance = reference.fitted(reference.h)
        assert importance.importances_[5] == 0
        assert importance.table_["fidelity"][5] == 0
        assert importance.ranking_[5] == reference.X.shape[1]
