"""The benchmarks ask for what was promised, and their verdicts are those of the numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("benchmarks.cases", reason="benchmarks are not part of an installed clearfold")

from benchmarks import report
from benchmarks.__main__ import SUITES
from benchmarks.cases import OURS, Against, Case, Row, measured
from benchmarks.differences import Difference
from benchmarks.measure import Reading, Work

PROMISED = {
    ("KernelPCA fit", 5000, "", "scikit-learn"): 20.0,
    ("KernelPCA fit", 5000, "", "scikit-learn ARPACK"): 2.0,
    ("Isomap fit", 5000, "", "scikit-learn"): 8.0,
    ("Isomap fit", 5000, "", "scikit-learn ARPACK"): 3.5,
    ("Isomap, 1000 landmarks", 10_000, "", "scikit-learn ARPACK"): 20.0,
    ("GraphEmbedding fit, dense", 5000, "", "SpectralEmbedding"): 7.0,
    ("GraphEmbedding fit, radius", 5000, "", "SpectralEmbedding"): 8.0,
    ("LocallyLinearEmbedding fit", 5000, "", "scikit-learn dense"): 5.0,
    ("LocallyLinearEmbedding fit", 5000, "", "scikit-learn ARPACK"): 3.0,
    ("nearest neighbours", 10_000, "", "scikit-learn brute"): 1.7,
    ("Isomap transform", 10_000, "1 query", "scikit-learn"): 50.0,
    ("Isomap transform", 10_000, "1 query", "scikit-learn, assume_finite"): 5.0,
    ("Isomap transform", 10_000, "1000 queries", "scikit-learn"): 2.0,
    ("KernelPCA transform", 10_000, "1 query", "scikit-learn"): 5.0,
    ("KernelPCA transform", 10_000, "1000 queries", "scikit-learn"): 2.0,
    ("FINE protocol round", 100, "", "refit for each setting"): 250.0,
    ("FINE protocol round", 100, "", "one fit for each (k, s)"): 7.0,
    ("nuclei: shape", 2000, "", "scikit-image"): 40.0,
    ("nuclei: haralick", 2000, "", "mahotas"): 15.0,
    ("nuclei: fourier", 2000, "", "find_contours + pyefd"): 18.0,
    ("nuclei: everything", 2000, "", "the three"): 30.0,
    ("graph features", 2000, "", "HistomicsTK's definitions"): 12.0,
    ("graph features", 20_000, "", "HistomicsTK's definitions"): 12.0,
    ("archive nearest, exact", 1_000_000, "100 queries", "faiss Flat, bare"): 1 / 1.1,
    ("archive nearest, index", 1_000_000, "100 queries", "faiss HNSW, bare"): 1 / 1.3,
}
"""Work, size, task and peer -> the least ratio that is wanted (of Gaussian data, where there is other as well)."""


def asked(quick: bool) -> dict[tuple[str, int, str, str], list[float | None]]:
    found: dict[tuple[str, int, str, str], list[float | None]] = {}
    for builders in SUITES.values():
        for build in builders.values():
            for case in build(quick):
                for pair in case.comparisons:
                    key = case.name, case.size, pair.task, pair.peer_name or pair.peer
                    found.setdefault(key, []).append(pair.wanted)
    return found


def test_every_promised_ratio_is_asked_for() -> None:
    found = asked(quick=False)
    missing = {key: wanted for key, wanted in PROMISED.items() if wanted not in found.get(key, [])}
    assert not missing


def test_the_quick_run_compares_the_outputs_of_every_kind_of_work() -> None:
    compared = {key[0] for key in asked(quick=True)}
    promised = {name for name, *_ in PROMISED if not name.startswith("Isomap, ")}
    assert promised <= compared


class Scripted:
    """Stands for the processes: readings and outputs as given."""

    def __init__(self, ours: Reading, peer: Reading) -> None:
        self.readings = {OURS: ours, "peer": peer}

    def measure(self, *_: object) -> tuple[dict[str, Reading], dict[str, float]]:
        return self.readings, {OURS: 1.0, "peer": 1.0 + 1e-9}


def one(ours: Reading, peer: Reading, tolerance: float = 1e-8, **limits: float) -> Row:
    apart = Difference("numbers", lambda a, b: abs(a - b), tolerance)
    case = Case("fit", "", 10, {}, {OURS: Work(OURS, abs)}, (Against("peer", (apart,), **limits),))
    return measured(case, Scripted(ours, peer))[0]  # type: ignore[arg-type]


def test_verdicts_follow_the_numbers() -> None:
    ours, peer = Reading(1.0, 1.0, 10 * 2**20, 1), Reading(3.0, 3.0, 30 * 2**20, 1)
    assert one(ours, peer, wanted=2.9).fast is True
    assert one(ours, peer, wanted=3.1).fast is False
    assert one(ours, peer, wanted=2.9, limit_s=0.5).fast is False, "a time that is wanted counts as well"
    assert one(ours, peer, limit_s=1.5).fast is True
    assert one(ours, peer).fast is None
    assert [one(ours, peer, wanted_memory=share).small for share in (0.5, 0.2)] == [True, False]
    assert one(ours, peer).same
    assert not one(ours, peer, tolerance=1e-10).same
    failed = one(Reading(error="ValueError"), peer, wanted=2.0, limit_s=1.0)
    assert not failed.same


def test_results_are_kept_with_what_they_were_made_on(tmp_path: Path) -> None:
    rows = [Row("fit", "", n, "", "", 1e-3 * n**2, 1.0, 1.0 * n) for n in (10, 100, 1000)]
    report.write(tmp_path / "some.json", rows, {**report.machine(), "quick": True})
    kept = json.loads((tmp_path / "some.json").read_text())
    assert {"processor", "cores", "python", "versions", "commit", "modified", "time"} <= set(kept["about"])
    assert kept["growth"][0]["exponent"] == pytest.approx(2.0)
    assert kept["growth"][0]["megabytes"] == [10.0, 100.0, 1000.0]
    assert kept["growth"][0]["axis"] == "samples"
