"""Reproduction: rules decide as they say, work goes on after a kill, and what is committed is what is measured."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import typer
from scipy import stats
from typer.testing import CliRunner

from clearfold import datasets
from clearfold.cli.console import Commands
from clearfold.cli.reproduce import reproduce as command
from clearfold.errors import InputError
from clearfold.papers import reproduction
from clearfold.papers.claims import (
    NOT_REPRODUCED,
    REPRODUCED,
    UNTESTED,
    Above,
    All,
    Between,
    Claim,
    Figure,
    Near,
    alike,
    jaccard_figure,
    judge,
    mean_figure,
    short_names,
)
from clearfold.papers.files import markdown
from clearfold.papers.pages import page
from clearfold.papers.pieces import Findings, Piece, carry_out, from_json, read_done, to_json
from clearfold.papers.reproduction import PAPERS, carried_out
from clearfold.papers.reproduction import reproduce as run

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "papers" / "results"
SUMMARY, FULL = RESULTS / "quick.json", RESULTS / "full.json"
"""The pages show the full run; the quick one is what can be checked again here."""
PAGES = [ROOT / "docs" / "papers.md", *sorted((ROOT / "docs" / "papers").glob("*.md"))]
CLAIMS = [claim for paper in PAPERS.values() for claim in paper.CLAIMS]


@pytest.fixture(scope="module")
def summary() -> dict[str, Any]:
    return json.loads(SUMMARY.read_text(encoding="utf-8"))


@pytest.fixture(scope="module", params=[SUMMARY, FULL], ids=["quick", "full"])
def held(request: pytest.FixtureRequest) -> dict[str, Any]:
    return json.loads(request.param.read_text(encoding="utf-8"))


def committed(summary: dict[str, Any], paper: str) -> dict[str, dict[str, Figure]]:
    """protocol -> name -> figure of the committed run."""
    found: dict[str, dict[str, Figure]] = {}
    for piece in summary["pieces"]:
        if piece["name"].startswith(paper):
            for protocol, figures in piece["figures"].items():
                own = found.setdefault(protocol, {})
                for name, values in figures.items():
                    own[name] = Figure(*(np.nan if v is None else v for v in values[:3]), values[3])
    return found


# Rules, on figures that were made up -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "value", "holds"),
    [
        (Near(("x",), 0.55, 0.65, "AUC"), 0.52, True),
        (Near(("x",), 0.55, 0.65, "AUC"), 0.519, False),
        (Near(("x",), 0.55, 0.65, "AUC"), 0.68, True),
        (Near(("x",), 0.04, 0.04, "J"), 0.05, True),  # .01 is more than a fifth of .04
        (Near(("x",), 0.04, 0.04, "J"), 0.051, False),
        (Near(("x",), 0.22, 0.22, "J"), 0.264, True),  # a fifth of .22
        (Near(("x",), 0.22, 0.22, "J"), 0.17, False),
        (Near(("x",), 8, 8, "count"), 7, True),
        (Near(("x",), 8, 8, "count"), 6.9, False),
        (Between(("x",), 0, 0.05), 0.05, True),
        (Between(("x",), 0, 0.05), 0.051, False),
        (alike("x"), -0.03, True),
        (alike("x"), 0.031, False),
        (All((Between(("x",), 0, 1), Between(("x",), 0.5, 2))), 0.4, False),
    ],
)
def test_rules(rule: Any, value: float, holds: bool) -> None:
    assert (not rule.misses({"x": Figure(value)})) is holds


def test_an_ordering_wants_the_whole_interval() -> None:
    rule = Above(("gain",))
    assert not rule.misses({"gain": Figure(0.02, 0.001, 0.04)})
    assert rule.misses({"gain": Figure(0.02, -0.001, 0.04)}) == ["gain"]
    assert rule.misses({"gain": Figure(0.0)}) == ["gain"]  # one seed has no interval: its value counts


def test_one_figure_that_misses_decides() -> None:
    claim = Claim("x.y", "says", "Fig. 1", ".5", "set", Near(("a", "b"), 0.5, 0.5, "AUC"))
    (yes,) = judge(claim, {"printed": {"a": Figure(0.5), "b": Figure(0.52)}})
    (no,) = judge(claim, {"printed": {"a": Figure(0.5), "b": Figure(0.6)}})
    assert (yes.word, no.word) == (REPRODUCED, NOT_REPRODUCED)
    assert no.why == "broken by b"


def test_without_figures_nothing_is_claimed() -> None:
    claim = Claim("x.y", "says", "Fig. 1", ".5", "Gisette", Near(("a",), 0.5, 0.5, "AUC"))
    (none,) = judge(claim, {"printed": {}}, {"Gisette": "not tested: no file"})
    assert (none.word, none.why) == (UNTESTED, "not tested: no file")
    (nan,) = judge(claim, {"printed": {"a": Figure(float("nan"))}})
    assert nan.word == UNTESTED
    private = replace(claim, rule=None, why="not public")
    assert judge(private, {"printed": {"a": Figure(0.5)}})[0].word == UNTESTED


def test_a_stand_in_is_named_in_the_verdict() -> None:
    claim = Claim("x.y", "says", "Fig. 1", ".5", "WDBC", Near(("a",), 0.5, 0.5, "AUC"), stand_in=True)
    row = judge(claim, {"printed": {"a": Figure(0.5)}})[0].row()
    assert row["verdict"] == "reproduced on a stand-in"
    assert "stand-in" in row["data"]


def test_names_lose_what_they_share() -> None:
    assert short_names(("J of FINE PCA, x", "J of FINE LE, x")) == {"J of FINE PCA, x": "PCA", "J of FINE LE, x": "LE"}
    assert short_names(("alone",)) == {"alone": "alone"}


def test_keys_are_unique_and_every_claim_has_a_rule_or_a_reason() -> None:
    assert len({claim.key for claim in CLAIMS}) == len(CLAIMS)
    assert all(claim.rule is not None or claim.why for claim in CLAIMS)
    assert {claim.key.split(".")[0] for claim in CLAIMS} == set(PAPERS)


# Figures ----------------------------------------------------------------------------------------------------


def test_interval_of_a_mean_covers_as_it_should() -> None:
    random = np.random.default_rng(0)
    drawn = [mean_figure(random.normal(size=5)) for _ in range(2000)]
    covered = np.mean([figure.low <= 0 <= figure.high for figure in drawn])
    assert 0.92 < covered < 0.97


def test_jaccard_with_its_jackknife_is_that_of_pairs() -> None:
    random = np.random.default_rng(1)
    table = random.random((9, 30)) < 0.3

    def mean(rows: Any) -> float:
        pairs = [(table[i] & table[j]).sum() / (table[i] | table[j]).sum() for i, j in combinations(rows, 2)]
        return float(np.mean(pairs))

    found = jaccard_figure(table)
    without = np.array([mean([i for i in range(9) if i != out]) for out in range(9)])
    half = stats.t.ppf(0.975, 8) * np.sqrt(8 / 9 * np.square(without - without.mean()).sum())
    assert found.value == pytest.approx(mean(range(9)))
    assert found.high - found.value == pytest.approx(half, rel=1e-5)
    same, worse = jaccard_figure(table, table), random.random((9, 30)) < 0.1
    assert (same.value, same.low, same.high) == (0, 0, 0)
    above = jaccard_figure(table, worse)  # the same rounds: differences are paired
    assert above.value == pytest.approx(found.value - jaccard_figure(worse).value)


def test_markdown_keeps_bars_inside_cells() -> None:
    assert markdown(["a|b"], [[0.12345], [None], ["x|y"]]).splitlines()[2:] == ["| 0.123 |", "| – |", "| x\\|y |"]


# Pieces: restart after a kill -------------------------------------------------------------------------------


def counted(path: str, name: str, seconds: float = 0.0) -> Findings:
    """A piece that leaves a trace of having been done."""
    time.sleep(seconds)
    with Path(path).open("a") as file:
        file.write(name + "\n")
    table = pd.DataFrame({"name": [name, "nothing"], "value": [0.1, float("nan")]})
    return Findings({"printed": {name: Figure(0.5, 0.4, 0.6, 7)}}, {"made up": table}, {"rows": [[1, 2]]}, ("a note",))


def some_pieces(path: Path, seconds: float = 0.0) -> list[Piece]:
    settings = {"path": str(path), "seconds": seconds}
    return [Piece(f"p{i}", "x", counted, {**settings, "name": f"p{i}"}, "set", cost=10 - i) for i in range(4)]


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    piece = some_pieces(tmp_path / "trace")[0]
    done, again = carry_out(piece, tmp_path), read_done(piece, tmp_path)
    assert again is not None
    assert again.findings.figures == done.findings.figures
    assert again.findings.splits == {"rows": [[1, 2]]}
    assert again.findings.notes == ("a note",)
    pd.testing.assert_frame_equal(again.findings.tables["made up"], done.findings.tables["made up"])
    assert to_json(from_json(to_json(done))) == to_json(done)


def test_finished_pieces_are_not_repeated_and_damaged_ones_are(tmp_path: Path) -> None:
    trace, home = tmp_path / "trace", tmp_path / "pieces"
    home.mkdir()
    work = some_pieces(trace)
    seen: list[tuple[str, int, int]] = []
    first, missing = carried_out(work, home, 1, lambda *told: seen.append(told))
    assert [one.name for one in first] == ["p0", "p1", "p2", "p3"]
    assert (missing, seen[-1][1:]) == ({}, (4, 4))
    carried_out(work, home, 1, None)
    assert len(trace.read_text().split()) == 4
    text = work[1].path(home).read_text()
    work[1].path(home).write_text(text.replace("0.5", "0.9", 1))  # valid JSON, another figure
    work[2].path(home).write_text(text[: len(text) // 2])
    other = [*work[:3], replace(work[3], settings={**work[3].settings, "seconds": 0.001})]
    second, _ = carried_out(other, home, 1, None)
    assert trace.read_text().split()[4:] == ["p1", "p2", "p3"]
    assert second[1].findings.figures["printed"]["p1"].value == 0.5


KILLED = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_reproduce import some_pieces
from clearfold.papers.reproduction import carried_out
carried_out(some_pieces(Path({trace!r}), 0.4), Path({home!r}), 1, None)
"""


def test_work_goes_on_after_a_kill(tmp_path: Path) -> None:
    trace, home = tmp_path / "trace", tmp_path / "pieces"
    home.mkdir()
    script = KILLED.format(tests=str(ROOT / "tests"), trace=str(trace), home=str(home))
    process = subprocess.Popen([sys.executable, "-c", script], env=os.environ | {"MPLBACKEND": "Agg"})
    for _ in range(1200):
        if len(list(home.glob("p*.json"))) >= 2 or process.poll() is not None:
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = {path.stem for path in home.glob("p*.json")}
    assert 2 <= len(before) < 4
    trace.write_text("")
    done, _ = carried_out(some_pieces(trace, 0.4), home, 1, None)
    assert len(done) == 4
    assert set(trace.read_text().split()) == {"p0", "p1", "p2", "p3"} - before


ENDED = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from clearfold import cli
from clearfold.papers import reproduction
from test_reproduce import some_pieces

class Sleepy:
    CLAIMS = ()
    pieces = staticmethod(lambda quick=False: some_pieces(Path({trace!r}), 600.0))

reproduction.PAPERS["rve"] = Sleepy
sys.argv = ["clearfold", "reproduce", "rve", "--jobs", "2", "-o", {home!r}]
cli.main()
"""


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="children are read from /proc")
def test_a_command_that_is_asked_to_end_ends_its_workers(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    script = ENDED.format(tests=str(ROOT / "tests"), trace=str(trace), home=str(tmp_path / "out"))
    process = subprocess.Popen([sys.executable, "-c", script], env=os.environ | {"MPLBACKEND": "Agg"})
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    for _ in range(1200):
        workers = [int(pid) for pid in children.read_text().split()]
        if len(workers) >= 3:  # two, and the one that looks after their memory
            break
        time.sleep(0.05)
    assert len(workers) >= 3
    time.sleep(1)  # they have begun
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 143
    for _ in range(200):
        left = [pid for pid in workers if Path(f"/proc/{pid}/cmdline").exists()]
        if not left:
            break
        time.sleep(0.05)
    assert not left


# Without data -----------------------------------------------------------------------------------------------


@pytest.fixture
def no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("CLEARFOLD_DATA", str(tmp_path / "empty"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_a_paper_alone_without_its_data_is_an_error(no_data: Path) -> None:
    with pytest.raises(InputError, match=r"CLEARFOLD_DATA.*golub/golub\.npz"):
        run("rve", no_data / "out", quick=True, n_jobs=1)


def test_among_all_it_cannot_be_tested(no_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproduction, "PAPERS", {"rve": PAPERS["rve"]})
    found = run("all", no_data / "out", quick=True, n_jobs=1)
    assert {verdict.word for verdict in found.verdicts} == {UNTESTED}
    assert all("golub/golub.npz" in verdict.why for verdict in found.verdicts)
    assert not list((no_data / "out" / "pieces").iterdir())


def test_an_unknown_paper_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="fine, vink, ose-ssl, bose, rve or all"):
        run("umap", tmp_path)


def test_gisette_is_not_tested(held: dict[str, Any]) -> None:
    rows = [row for row in held["claims"] if "Gisette" in row["claim"]]
    assert len(rows) == 4
    assert all(row["verdict"] == UNTESTED and row["why"].startswith("not tested") for row in rows)


# The committed run ------------------------------------------------------------------------------------------


def test_every_claim_is_decided_by_its_rule_in_the_committed_run(held: dict[str, Any]) -> None:
    wanted = []
    for claim in CLAIMS:
        figures = committed(held, claim.key.split(".")[0])
        order = sorted(figures.items(), key=lambda item: item[0] != "printed")
        wanted += [verdict.row() for verdict in judge(claim, dict(order), held["missing"])]
    for row, kept in zip(wanted, held["claims"], strict=True):
        assert {key: row[key] for key in ("claim", "protocol", "verdict", "rule")} == {
            key: kept[key] for key in ("claim", "protocol", "verdict", "rule")
        }
    untested = {row["data"] for row in wanted if row["verdict"] == UNTESTED and row["rule"] != "–"}
    assert untested == {"Gisette"}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_pages_show_the_committed_run(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "<!-- begin " in text
    assert page(text, json.loads(FULL.read_text(encoding="utf-8"))) == text
    assert text.count("<!-- begin ") == text.count("<!-- end -->")


CHEAP = ("ose-ssl-roll-error", "fine-arcene-coordinates", "vink-wpbc-printed")


@pytest.mark.parametrize("name", CHEAP)
def test_a_quick_piece_gives_the_committed_figures(
    name: str, summary: dict[str, Any], data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLEARFOLD_DATA", str(data))
    (piece,) = (one for paper in PAPERS.values() for one in paper.pieces(quick=True) if one.name == name)
    held = next(one for one in summary["pieces"] if one["name"] == name)
    assert dict(piece.settings) == held["settings"]
    figures = carry_out(piece, tmp_path).findings.figures
    for protocol, own in held["figures"].items():
        for title, values in own.items():
            assert figures[protocol][title].value == pytest.approx(values[0], rel=1e-4, abs=1e-6), title


# Every claim that is reported as reproduced -----------------------------------------------------------------

FEW = {"n_rounds": 3, "n_stable": 10, "seeds": 2, "n_forest_rounds": 1, "n_permutations": 9}
"""Instead of the settings of the quick run: enough to contradict a claim that does not hold."""


def reproduced() -> list[tuple[Claim, str, tuple[str, ...]]]:
    """Claim, the first protocol under which it was reproduced, and the pieces that decide it."""
    held = json.loads(FULL.read_text(encoding="utf-8"))
    rows: dict[str, str] = {}
    for row in held["claims"]:
        if row["verdict"].startswith(REPRODUCED):
            rows.setdefault(row["claim"], row["protocol"])
    found = []
    for claim in CLAIMS:
        if claim.says in rows and claim.rule is not None:
            names = [
                piece["name"]
                for piece in held["pieces"]
                if set(claim.rule.names) & set(piece["figures"].get(rows[claim.says], ()))
            ]
            found.append((claim, rows[claim.says], tuple(names)))
    return found


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Figures of a piece with few rounds, every second prostate patch and tumour of WDBC; every piece is done once."""
    home, done = tmp_path_factory.mktemp("few"), {}
    patches, tumours = datasets.load_prostate_tma, datasets.load_wdbc

    def figures(name: str) -> dict[str, dict[str, Figure]]:
        if name not in done:
            (piece,) = (one for paper in PAPERS.values() for one in paper.pieces(quick=True) if one.name == name)
            settings = {key: min(value, FEW[key]) if key in FEW else value for key, value in piece.settings.items()}
            done[name] = carry_out(replace(piece, settings=settings), home).findings.figures
        return done[name]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets, "load_prostate_tma", lambda: patches().take(np.arange(0, 120, 2)))
        patch.setattr(datasets, "load_wdbc", lambda: tumours().take(np.arange(0, 569, 2)))
        yield figures


def contradicted(rule: Any, figures: dict[str, Figure]) -> list[str]:
    """Figures whose interval lies wholly outside the rule's range, or on the wrong side of an ordering."""
    if isinstance(rule, All):
        return [name for one in rule.rules for name in contradicted(one, figures)]
    if isinstance(rule, Above):
        return [name for name in rule.names if figures[name].value <= rule.bound]
    low, high = rule.limits if isinstance(rule, Near) else (rule.low, rule.high)
    ends = {name: (figures[name].low, figures[name].high) for name in rule.names}
    ends = {name: end if np.isfinite(end[0]) else (figures[name].value,) * 2 for name, end in ends.items()}
    return [name for name, (least, most) in ends.items() if most < low - 1e-9 or least > high + 1e-9]


@pytest.mark.parametrize(("claim", "protocol", "names"), [pytest.param(*case, id=case[0].key) for case in reproduced()])
def test_a_claim_that_is_reported_as_reproduced(
    claim: Claim, protocol: str, names: tuple[str, ...], few: Any, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLEARFOLD_DATA", str(data))
    figures = {title: figure for name in names for title, figure in few(name).get(protocol, {}).items()}
    assert claim.rule is not None
    assert not contradicted(claim.rule, figures), {name: str(figures[name]) for name in claim.rule.names}


# The command ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def written(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of `clearfold reproduce rve --quick`, and what it printed."""
    app = typer.Typer(cls=Commands, pretty_exceptions_enable=False)
    app.command("reproduce")(command)
    app.callback()(lambda: None)
    folder = tmp_path_factory.mktemp("evidence")
    arguments = ["reproduce", "rve", "--quick", "--jobs", "1", "-o", str(folder)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLEARFOLD_DATA", str(data))
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, done.output
        before = (folder / "pieces" / "rve-leukemia.json").stat().st_mtime_ns
        again = CliRunner().invoke(app, [*arguments, "--json"])
    assert (folder / "pieces" / "rve-leukemia.json").stat().st_mtime_ns == before  # not repeated
    return folder, again.stdout


def test_tables_are_written_three_times_alike(written: tuple[Path, str]) -> None:
    folder, printed = written
    with (folder / "claims.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows == [
        {key: value or "" for key, value in row.items()} for row in json.loads((folder / "claims.json").read_text())
    ]
    assert len((folder / "claims.md").read_text(encoding="utf-8").splitlines()) == len(rows) + 2
    shown = json.loads(printed[printed.index("[\n") :])
    assert [row["verdict"] for row in shown] == [row["verdict"] for row in rows]
    names = {path.stem for path in (folder / "tables").iterdir()}
    assert "leukemia-table-1" in names
    assert all((folder / "tables" / f"{name}.{end}").is_file() for name in names for end in ("csv", "json", "md"))
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    assert [row["verdict"] for row in summary["claims"]] == [row["verdict"] for row in rows]


def test_the_command_gives_the_committed_claims(written: tuple[Path, str], summary: dict[str, Any]) -> None:
    own = json.loads((written[0] / "summary.json").read_text(encoding="utf-8"))["claims"]
    assert own == [row for row in summary["claims"] if row["paper"] == "rve"]


def test_the_report_stands_alone_and_says_what_was_cut(written: tuple[Path, str]) -> None:
    text = (written[0] / "report.html").read_text(encoding="utf-8")
    assert not re.findall(r"""(?:src|href)=["'](?!#|data:)[^"']+""", text)
    assert "<script" not in text
    for word in (REPRODUCED, NOT_REPRODUCED):
        assert re.search(rf'<span style="background:#[0-9a-f]{{6}}[^"]*">{word}</span>', text)
    assert "Quick: fewer rounds" in text
    assert "M96326" in text  # a gene of Table 1


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    app = typer.Typer(cls=Commands, pretty_exceptions_enable=False)
    app.command("reproduce")(command)
    app.callback()(lambda: None)
    (tmp_path / "file").write_text("")
    done = CliRunner().invoke(app, ["reproduce", "rve", "-o", str(tmp_path / "file")])
    assert done.exit_code == 2
    assert "is a file" in done.output
