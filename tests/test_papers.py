"""Figures of the papers on their public data stay where they were measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_diabetes

from clearfold import evaluate
from clearfold.papers import fine, vink

EMBEDDINGS = ("PCA", "Isomap", "LE", "LLE")


def challenge(data: Path, name: str) -> tuple[Any, Any, Any, Any]:
    """Official training and validation rows of the NIPS 2003 challenge."""
    folder = data / "nips2003"
    if name == "dexter":
        labels = np.load(folder / "dexter_labels.npz")
        train, valid = (sparse.load_npz(folder / f"dexter_{part}_X.npz") for part in ("train", "valid"))
        return train, labels["y_train"], valid, labels["y_valid"]
    table = np.load(folder / f"{name}.npz")
    return tuple(table[key] for key in ("X_train", "y_train", "X_valid", "y_valid"))


def printed(data: Path, name: str, n_rounds: int = 16) -> Any:
    X, y, X_valid, y_valid = challenge(data, name)
    protocol = fine.printed(name, n_rounds=n_rounds, classifiers=("logistic",))
    return evaluate.run(X, y, protocol, test=(X_valid, y_valid), seed=0)


def mean_auc(result: Any, embedding: str, ranking: str) -> float:
    table = result.table
    return float(table[(table["embedding"] == embedding) & (table["ranking"] == ranking)]["value"].mean())


def jaccard(result: Any, embedding: str, ranking: str) -> float:
    table = result.stability
    return float(table[(table["embedding"] == embedding) & (table["ranking"] == ranking)]["jaccard"].iloc[0])


@pytest.mark.data
def test_fine_on_madelon(data: Path) -> None:
    """Paper: filters J .04, LE .06-.07, LLE .22; AUC .55-.65. Measured, 20 rounds: .03-.04, .06, .22; .54-.65."""
    result = printed(data, "madelon")
    for name in ("t", "fisher", "gini"):
        assert 0.02 < jaccard(result, "", name) < 0.055
    assert 0.04 < jaccard(result, "LE", "fine") < 0.09
    assert 0.15 < jaccard(result, "LLE", "fine") < 0.28
    for name in EMBEDDINGS:
        assert 0.52 < mean_auc(result, name, "fine") < 0.67
    assert np.mean([jaccard(result, name, "auto") - jaccard(result, name, "fine") for name in EMBEDDINGS]) > 0.02


@pytest.mark.data
def test_fine_on_arcene(data: Path) -> None:
    """Paper: FINE with PCA no better than guessing, Gini .69-.77. Measured, 50 rounds: .56-.59, .71-.75."""
    result = printed(data, "arcene")
    assert 0.48 < mean_auc(result, "PCA", "fine") < 0.63
    assert 0.66 < mean_auc(result, "", "gini") < 0.79
    assert mean_auc(result, "PCA", "auto") > mean_auc(result, "PCA", "fine") + 0.05


@pytest.mark.data
def test_fine_on_dexter(data: Path) -> None:
    """Paper: .5-.55 for FINE with PCA and LE, Gini .87-.92. Measured, 15 rounds: .52-.53, .92 (logistic)."""
    result = printed(data, "dexter", n_rounds=10)
    assert 0.46 < mean_auc(result, "PCA", "fine") < 0.57
    assert 0.46 < mean_auc(result, "LE", "fine") < 0.57
    assert 0.86 < mean_auc(result, "", "gini") < 0.96


def test_the_search_of_a_round_covers_630_settings() -> None:
    protocol = fine.corrected()
    settings = 0
    for name in protocol.embeddings:
        grid = protocol.grids[name]
        settings += int(np.prod([len(values) for values in grid.values()])) * protocol.max_components
    assert settings == 630


def test_vink_embeds_the_kept_features_again() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    result = evaluate.run(X[::4], y[::4], vink.protocol(n_rounds=3), seed=1)
    table = result.table
    assert set(table["embedding"]) == {"PCA", "KPCA", "Isomap", "LE"}
    assert set(table["measure"]) == {"AUC"}
    assert (table["n_features"] == 5).all()
    kept = table[table["ranking"] == "auto"].groupby("embedding")["value"].mean()
    every = table[table["ranking"] == "coordinates"].groupby("embedding")["value"].mean()
    assert (kept > every - 0.1).all()


def test_vink_on_a_value_reports_squared_error() -> None:
    X, y = load_diabetes(return_X_y=True)
    result = evaluate.run(X[:120], y[:120], vink.protocol(n_rounds=2, classifiers=("linear",)), seed=0)
    assert set(result.table["measure"]) == {"MSE"}
    assert (result.table["value"] < 1.3 * y[:120].var()).all()


def test_same_seed_same_result_in_any_number_of_processes() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    protocol = fine.corrected(n_rounds=2, classifiers=("logistic",), max_rows=60)
    one = evaluate.run(X[:200], y[:200], protocol, seed=3)
    two = evaluate.run(X[:200], y[:200], protocol, seed=3, n_jobs=2)
    assert one.table.equals(two.table)
    assert one.parameters.equals(two.parameters)


def test_a_patient_is_never_on_both_sides() -> None:
    """With one label for each patient and noise otherwise, only memory of patients could separate; there is none."""
    random = np.random.default_rng(0)
    patients = np.repeat(np.arange(40), 3)
    label = random.integers(0, 2, 40)[patients]
    X = random.normal(size=(40, 30))[patients] * 3 + random.normal(size=(120, 30))
    protocol = vink.protocol(n_rounds=12, n_components=3)
    apart = evaluate.run(X, label, protocol, groups=patients, seed=0).table["value"].mean()
    leaking = evaluate.run(X, label, protocol, seed=0).table["value"].mean()
    assert abs(apart - 0.5) < 0.1
    assert leaking > apart + 0.05
