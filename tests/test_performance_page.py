"""The page of figures is what the committed results make; what was not measured is said to be absent."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

TOP = Path(__file__).parent.parent
RESULTS, PAGE = TOP / "benchmarks" / "results", TOP / "docs" / "performance.md"
pytest.importorskip("benchmarks.page", reason="benchmarks are not part of an installed clearfold")

from benchmarks import page  # noqa: E402
from benchmarks.curves import Curve, drawn  # noqa: E402
from benchmarks.report import slope  # noqa: E402


def source() -> Path:
    """The file of results that the page says it is made from."""
    found = re.search(r"from `results/([\w-]+\.json)`", PAGE.read_text())
    assert found, "the page does not say what it is made from"
    return RESULTS / found[1]


def test_the_committed_page_is_what_the_committed_results_make() -> None:
    for path, text in page.made(source(), PAGE).items():
        assert path.read_text() == text, f"make {path.name} again: python -m benchmarks.page {source()} {PAGE}"


def row(**changes: Any) -> dict[str, Any]:
    known = {
        "case": "fit", "data": "Gaussian", "n": 100, "task": "", "peer": "a peer", "ours_cpu": 1.0, "ours_wall": 1.0,
        "ours_mb": 10.0, "peer_cpu": 3.0, "peer_mb": 30.0, "wanted": 2.0, "wanted_memory": None, "limit_mb": None,
        "limit_s": None, "differences": {"columns": {"value": 1e-10, "tolerance": 1e-8}}, "on_the_clock": False,
        "axis": "samples", "error": "", "peer_error": "", "ratio": 3.0, "same": True, "fast": True, "small": None,
    }  # fmt: skip
    return {**known, **changes}


def document(rows: list[dict[str, Any]], growth: list[dict[str, Any]]) -> dict[str, Any]:
    about = {
        "processor": "one", "cores": 2, "system": "Linux", "python": "3.11", "versions": {"numpy": "2", "numba": None},
        "commit": None, "modified": False, "time": "now", "threads": 1, "quick": False,
    }  # fmt: skip
    return {"about": about, "rows": rows, "growth": growth}


def text_of(folder: Path, content: dict[str, Any]) -> tuple[str, list[str]]:
    (folder / "full.json").write_text(json.dumps(content))
    made = page.made(folder / "full.json", folder / "performance.md")
    return made[folder / "performance.md"], [path.name for path in made]


def test_verdicts_say_what_was_reached_and_what_was_not(tmp_path: Path) -> None:
    rows = [
        row(),
        row(wanted=5.0, fast=False),
        row(same=False, differences={"columns": {"value": None, "tolerance": 1e-8}}),
        row(wanted_memory=0.5, small=False),
        row(error="ValueError: no", same=False, ours_cpu=None, ours_wall=None, ratio=None),
    ]
    text, _ = text_of(tmp_path, document(rows, []))
    assert "1 of 5 reached" in text
    lines = [line for line in text.splitlines() if line.startswith("| fit |")]
    assert [line.split("|")[-2].strip() for line in lines] == [
        "pass", "**short**", "**outputs differ**", "**short**", "**failed**",
    ]  # fmt: skip
    assert "not a number" in lines[2]


def test_what_is_absent_is_said_to_be(tmp_path: Path) -> None:
    text, files = text_of(tmp_path, document([], []))
    assert files == ["performance.md"]
    assert text.count("Not measured in this run.") == 6
    assert "A server was not measured." in text
    assert "A cluster was not measured" in text


def test_extrapolation_follows_the_fitted_exponents(tmp_path: Path) -> None:
    sizes, seconds = [10_000, 100_000], [0.5, 5.0]
    one = {"case": "nearest", "data": "", "task": "", "sizes": sizes, "seconds": seconds, "exponent": 1.0}
    growth = [{"axis": "cases", **one, "megabytes": [1.0, 10.0]}]
    figures = {"cores": 4, "rank on 1, s": 8.0, "rank on 4, s": 2.0, "place here": {"rows a second": 100_000}}
    (tmp_path / "cluster.json").write_text(json.dumps(figures))
    text, files = text_of(tmp_path, document([], growth))
    assert "| nearest | 100,000 | 5 | 1.00 | 500 | 500 |" in text
    assert "| nearest | 7.2e+07 cases | time |" in text, "an hour is 720 times 5 s"
    assert "rank: 8.0 s with 1, 2.0 s with 4: 100% of ideal" in text
    assert "place here: 10^8 rows in 0.3 hours" in text
    assert files == ["performance.md", "performance-cases.svg", "performance-workers.svg"]


def test_curves_are_pictures_with_every_point(tmp_path: Path) -> None:
    curves = [Curve("a < b", (1, 10, 100), (0.1, 1.0, 10.0), slope({1: 0.1, 10: 1.0, 100: 10.0}))]
    tree = ElementTree.fromstring(drawn(curves, "n"))
    name = "{http://www.w3.org/2000/svg}"
    circles = [(float(c.attrib["cx"]), float(c.attrib["cy"])) for c in tree.iter(f"{name}circle")]
    assert len(circles) == 3
    assert circles[1][0] - circles[0][0] == pytest.approx(circles[2][0] - circles[1][0], abs=0.11)
    assert any("1.00 a < b" in (text.text or "") for text in tree.iter(f"{name}text"))
