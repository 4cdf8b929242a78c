"""`clearfold report` shows the numbers of the library, judges on left-out patients, and writes all or nothing."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner, Result

from clearfold import Archive, EmbeddingImportance
from clearfold.cli import app
from clearfold.cli.question import Columns, read_questions
from clearfold.cli.study import Settings, tradeoff
from clearfold.embedding import PCA, residual_variance
from clearfold.evaluate import Protocol, run
from clearfold.evaluate.protocol import draw
from clearfold.importance.outcome import read_outcome
from clearfold.papers.references import OTHERS, PAPERS, USES, references
from clearfold.plot import stability_accuracy
from clearfold.report import Report, in_words
from clearfold.survival import CoxRisk, risk_groups
from clearfold.table import read_table, write_table
from clearfold.table.copies import markdown, plain, slug, write_copies

ROOT = Path(__file__).resolve().parents[1]
EVIL = "<script>alert('x')</script>"
FAST = ("--method", "pca", "--components", 2, "--rounds", 4, "--permutations", 59, "--quick")
ALL = ("table.csv", "--label", "grade", "--group", "patient", "--case", "name", "--time", "months", "--event", "died")
SECTIONS = [
    "What was asked, and of which data",
    "The map",
    "How many coordinates?",
    "The first features",
    "Families",
    "Would other patients give the same ranking?",
    "What did the labels add?",
    "Interchangeable features",
    "Stability against accuracy",
    "Does the ranking depend on the embedding?",
    "Do patients of high risk fare worse?",
    "Which earlier cases look like this one, and why?",
    "How to read this, and what is known",
    "What was done",
    "How to cite",
]


def invoked(*words: object) -> Result:
    return CliRunner().invoke(app, ["report", *[str(word) for word in words]])


def succeeded(*words: object) -> Result:
    result = invoked(*words)
    assert result.exit_code == 0, result.output
    return result


def cases(patients: int = 40) -> pd.DataFrame:
    """Two rows of each patient, two grades; a.0 and a.1 follow the grade and shorten the time."""
    random = np.random.default_rng(0)
    of = np.repeat(np.arange(patients), 2)
    grade = np.where(of % 2, "high", "low")
    X = random.normal(size=(2 * patients, 8))
    X[:, :2] += 2.0 * (of % 2)[:, None]
    time = (20 * np.exp(-1.5 * (np.arange(patients) % 2)) * random.exponential(1.0, patients))[of].round(3)
    frame = pd.DataFrame(X, columns=[f"{family}.{i}" for family in "ab" for i in range(4)])
    frame.insert(0, "name", [f"case{i:02d}" for i in range(2 * patients)])
    frame.insert(1, "patient", [f"p{i:02d}" for i in of])
    frame.insert(2, "grade", grade.astype(object))
    frame.insert(3, "months", time)
    frame.insert(4, "died", (random.random(patients) < 0.8).astype(int)[of])
    frame.insert(5, "comment", "text")
    return frame


def headings(page: str) -> list[str]:
    return re.findall(r"<h2>(.*?)</h2>", page)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, Any]]]:
    """A folder with report.html and tables/ of everything at once, and what --json said."""
    folder = tmp_path_factory.mktemp("study")
    frame = cases()
    frame.loc[[0, 1], "grade"] = None
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_table(frame, "table.csv")
        with Archive.open("cases.clearfold") as archive:
            archive.add(cases().drop(columns=["comment"]).rename(columns={"name": "case_id", "patient": "patient_id"}),
                        label="grade", time="months", event="died")  # fmt: skip
            archive.fit(PCA(n_components=2))
        said = succeeded(*ALL, *FAST, "--archive", "cases.clearfold", "--tables", "tables", "--seed", 3, "--json")
        yield folder, json.loads(said.stdout)


def of_table() -> tuple[Any, Any]:
    """The two questions of the table, as the command reads them."""
    return read_questions(Path("table.csv"), Columns("grade", "months", "died", "patient", "name"), drop_missing=False)


# What the page shows ------------------------------------------------------------------------------------------


def test_every_section_is_there_in_order(whole: tuple[Path, dict[str, Any]]) -> None:
    page = (whole[0] / "report.html").read_text(encoding="utf-8")
    assert headings(page) == SECTIONS
    assert page.count("<svg") == 7  # maps, curve, bars, families, stability, five embeddings, survival
    assert "<script" not in page
    assert "Quick: at most 10 rounds" in page
    for fact in ("no grade", "column comment", "78", "40 patients"):
        assert fact in page or fact.replace(" patients", "") in page


def test_the_ranking_and_the_curve_are_those_of_the_library(whole: tuple[Path, dict[str, Any]]) -> None:
    folder, said = whole
    table = read_table(folder / "table.csv", label="grade", patient_id="patient", time="months", event="died")
    known = table.y.notna()
    X, y, patients = table.X[known], table.y[known], table.groups[known]
    expected = EmbeddingImportance(
        embedding=PCA(n_components=2), n_rounds=4, n_permutations=59, families=table.families, random_state=3
    ).fit(X, y, groups=patients)
    back = pd.read_csv(folder / "tables" / "ranking.csv")
    own = expected.table_.sort_values("rank", ignore_index=True)
    pd.testing.assert_frame_equal(back[list(own)], own, check_dtype=False)
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert f"Nogueira&#x27;s stability is {expected.stability_.nogueira:.2f}" in page
    scaled = (X - X.mean()) / X.std(ddof=0)
    curve = residual_variance(PCA(n_components=2), scaled, 20)
    written = pd.read_csv(folder / "tables" / "residual-variance.csv")["residual_variance"]
    np.testing.assert_allclose(written, curve.values, atol=1e-12)
    assert said["samples"] == 78
    assert said["rows without outcome"] == 2


def test_stability_and_accuracy_are_those_of_the_protocol(whole: tuple[Path, dict[str, Any]]) -> None:
    folder, said = whole
    table = read_table(folder / "table.csv", label="grade", patient_id="patient", time="months", event="died")
    known = table.y.notna()
    protocol = Protocol(
        embeddings={"PCA": PCA(n_components=2)},
        classifiers=("logistic",),
        n_rounds=4,
        n_selected=said["features selected in a round"],
    )
    result = run(table.X[known], table.y[known], protocol, groups=table.groups[known], seed=3)
    shown = pd.read_csv(folder / "tables" / "stability-against-accuracy.csv").set_index("method")
    for row in result.summary().to_dict("records"):
        names = {"coordinates": "PCA coordinates", "fine": "FINE PCA", "auto": "auto PCA"}
        filters = {"t": "t-test", "fisher": "Fisher", "gini": "Gini"}
        own = shown.loc[names.get(row["ranking"]) or filters[row["ranking"]]]
        assert own["AUC"] == pytest.approx(row["mean"])
        assert own["J"] == pytest.approx(row["jaccard"], nan_ok=True)
    assert shown.loc["auto PCA", "AUC"] > 0.8


def test_survival_is_that_of_risk_groups(whole: tuple[Path, dict[str, Any]]) -> None:
    folder, said = whole
    table = read_table(folder / "table.csv", label="grade", patient_id="patient", time="months", event="died")
    expected = risk_groups(
        table.X, table.role("time"), table.role("event"), estimator=CoxRisk(embedding=PCA(n_components=2)),
        groups=table.groups, n_permutations=19, random_state=3,
    )  # fmt: skip
    measures = pd.read_csv(folder / "tables" / "survival-measures.csv").set_index("measure")
    ratio = expected.hazard_ratio
    assert measures.loc["hazard ratio", ["value", "low", "high"]].tolist() == pytest.approx(
        [ratio.value, ratio.low, ratio.high]
    )
    assert measures.loc["concordance", "value"] == pytest.approx(expected.concordance.value)
    assert measures.loc["log-rank p by permutation", "value"] == pytest.approx(expected.log_rank_p)
    assert said["patients with a time"] == 40  # also those without a label
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert f"hazard ratio {ratio}" in page


def test_searches_are_those_of_the_archive(whole: tuple[Path, dict[str, Any]]) -> None:
    folder, said = whole
    assert len(said["searches"]) == 2  # one for each grade
    with Archive.open(folder / "cases.clearfold", read_only=True) as archive:
        for name in said["searches"]:
            answer = archive.query(name, k=4)
            shown = pd.read_csv(folder / "tables" / f"hits-of-{name}.csv")
            assert list(dict.fromkeys(shown["case"])) == [hit.case_id for hit in answer]
            assert shown["feature"].iloc[0] == answer[0].reasons.near[0].feature


def test_every_table_is_written_three_times_alike(whole: tuple[Path, dict[str, Any]]) -> None:
    folder = whole[0] / "tables"
    names = {path.stem for path in folder.iterdir()}
    assert {"data", "exclusions", "ranking", "families", "what-was-done", "how-to-cite", "coordinates"} <= names
    for name in names:
        csv, records = pd.read_csv(folder / f"{name}.csv"), json.loads((folder / f"{name}.json").read_text("utf-8"))
        assert len(csv) == len(records) == len((folder / f"{name}.md").read_text("utf-8").splitlines()) - 2
        assert all(list(row) == list(csv.columns) for row in records)
    page = (whole[0] / "report.html").read_text(encoding="utf-8")
    assert page.count("<table>") <= len(names)


# What is judged -----------------------------------------------------------------------------------------------


def test_shuffled_labels_predict_nothing(tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    of = np.repeat(np.arange(100), 2)
    places = random.normal(size=(100, 12))[of] * 3  # rows of a patient are alike: a leak would show as an AUC near 1
    frame = pd.DataFrame(places + 0.1 * random.normal(size=(200, 12)), columns=[f"f.{i}" for i in range(12)])
    frame["label"] = np.where(random.permutation(np.arange(100) % 2)[of], "x", "y")
    frame["patient_id"] = [f"p{i}" for i in of]
    write_table(frame, tmp_path / "noise.csv")
    question, timed = read_questions(tmp_path / "noise.csv", Columns(), drop_missing=False)
    assert timed is None
    found = tradeoff(question.cases.X, question, Settings(PCA(n_components=3), rounds=12, quick=True), 4)
    assert found.table["AUC"].between(0.35, 0.65).all()
    assert abs(found.table["AUC"].mean() - 0.5) < 0.08
    assert found.table["J high"].dropna().max() <= 1
    leaky = run(question.cases.X, question.y, Protocol({}, classifiers=("forest",), n_rounds=4, n_selected=4), seed=0)
    assert leaky.table["value"].mean() > 0.8  # what rows apart from their patient would have shown


def test_rows_of_a_patient_are_drawn_together() -> None:
    y, patients = np.arange(60) // 2 % 2, np.repeat(np.arange(30), 2)
    for seed in range(5):
        rows = draw(read_outcome(y, 60), patients, Protocol({}), np.random.default_rng(seed))
        assert np.bincount(patients[rows], minlength=30).tolist().count(1) == 0
        assert len(set(patients[rows])) == 22  # three quarters of 15 and of 15


def test_a_drawing_shows_every_method_and_its_intervals() -> None:
    names = ["method", "classifier", "AUC", "low", "high", "J", "J low", "J high"]
    rows = [
        ["auto Isomap", "LR", 0.8, 0.7, 0.9, 0.5, 0.4, 0.6],
        ["Isomap coordinates", "RF", 0.7, 0.6, 0.8, *[None] * 3],
    ]
    table = pd.DataFrame([*rows, ["mrmr", "SVM", 0.6, 0.5, 0.7, 0.2, 0.1, 0.3]], columns=names)
    ax = stability_accuracy({"": table}, chance=0.1).axes[0]
    marked = [line for line in ax.lines if line.get_marker() not in ("None", None)]
    assert sorted(float(line.get_xdata()[0]) for line in marked) == [-0.04, 0.2, 0.5]
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts[:2] == ["Isomap", "mrmr"]
    assert "coordinates (no J)" in texts


# With less ----------------------------------------------------------------------------------------------------


def test_a_time_alone_is_ranked_and_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    state = np.where(cases()["died"] == 1, "dead", "alive")
    write_table(cases().drop(columns=["grade", "died"]).assign(state=state), "table.csv")
    words = ("table.csv", "--group", "patient", "--case", "name", "--time", "months", "--event", "state=dead")
    said = json.loads(succeeded(*words, *FAST, "--json").stdout)
    page = Path("report.html").read_text(encoding="utf-8")
    assert said["outcome"] == "months and state=dead (censored)"
    assert "Do patients of high risk fare worse?" in headings(page)
    assert "which has no AUC" in page
    assert not Path("tables").exists()


def test_a_value_is_judged_by_its_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    frame = cases().drop(columns=["months", "died"])
    write_table(frame.assign(grade=frame["a.0"] + 0.5), "table.csv")
    words = ("table.csv", "--label", "grade", "--group", "patient", "--case", "name", "--tables", "new/tables")
    succeeded(*words, *FAST)
    page = Path("report.html").read_text(encoding="utf-8")
    assert "Do patients of high risk fare worse?" not in headings(page)
    shown = pd.read_csv("new/tables/stability-against-accuracy.csv").set_index("method")
    assert shown.loc["correlation", "MSE"] < frame["a.0"].var()


def test_everything_is_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    frame = cases().rename(columns={"grade": f"grade {EVIL}", "a.0": f"a.{EVIL}", "b.0": "=1+1"})
    frame[f"grade {EVIL}"] = np.where(frame.iloc[:, 2] == "high", EVIL, "=cmd|' /C calc'!A0")
    write_table(frame, "table.csv")
    words = ("table.csv", "--label", f"grade {EVIL}", "--group", "patient", "--case", "name", "--ignore", "months")
    succeeded(*words, "--ignore", "died", *FAST, "--tables", "tables")
    page = Path("report.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    for path in Path("tables").glob("*.csv"):
        assert not re.search(r"(^|,)\"?[=@]", path.read_text(encoding="utf-8"), re.MULTILINE), path


BAD = {
    "no outcome": (["plain.csv"], "No outcome was named"),
    "unknown column": (["table.csv", "--label", "grad"], "Did you mean 'grade'"),
    "unknown time": ([*ALL[:3], "--time", "month", "--event", "died"], "no column 'month'"),
    "no event": ([*ALL[:3], "--time", "months"], "--event"),
    "negative times": (["negative.csv", *ALL[1:]], "negative"),
    "missing events": (
        ["unknown.csv", *ALL[1:]],
        "2 of 80 rows have half an outcome: row 6 (from 0) has its time but no",
    ),
    "one patient": (["one.csv", *ALL[1:]], "patient"),
    "one class": (["alike.csv", "--label", "grade"], "only one class came"),
    "nobody died": (["alive.csv", *ALL[1:]], "events came"),
    "two times": (["split.csv", *ALL[1:]], "rows of different time or event"),
    "no archive": ([*ALL, "--archive", "none.clearfold"], "none.clearfold"),
    "not a page": ([*ALL, "-o", "report.pdf"], "Wanted is .html"),
    "over itself": ([*ALL, "-o", "table.html"], "are one file"),
    "tables in a file": ([*ALL, "--tables", "report.html"], "is a file"),
    "rounds": ([*ALL, "--rounds", "1"], "n_rounds=1"),
    "missing values": (["gaps.csv", *ALL[1:]], "--drop-missing"),
}


@pytest.mark.parametrize("name", BAD)
def test_an_error_is_a_message_and_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    frame = cases()
    write_table(frame, "table.csv")
    write_table(frame.drop(columns=["grade", "months", "died"]), "plain.csv")
    write_table(frame.assign(months=-frame["months"]), "negative.csv")
    write_table(frame.assign(died=frame["died"].astype(float).where(frame["patient"] != "p03")), "unknown.csv")
    write_table(frame.assign(patient="p", months=3.0, died=1), "one.csv")
    write_table(frame.assign(grade="low"), "alike.csv")
    write_table(frame.assign(died=0), "alive.csv")
    write_table(frame.assign(months=np.arange(80.0)), "split.csv")
    write_table(frame.assign(**{"a.3": [np.nan, *range(79)]}), "gaps.csv")
    Path("report.html").write_text("old")
    before = contents(tmp_path)
    words, reason = BAD[name]
    if name == "over itself":
        words = ["table.html", *words[1:]]
    result = invoked(*words, *(FAST if name != "rounds" else ("--quick", "--method", "pca")))
    assert result.exit_code == 2, result.output
    assert reason in result.stderr.replace("\n", " ")
    assert "Traceback" not in result.output
    assert result.stdout == ""
    assert contents(tmp_path) == before


# Tables and citations -----------------------------------------------------------------------------------------


def test_copies_hold_the_same_and_guard_spreadsheets(tmp_path: Path) -> None:
    frame = pd.DataFrame({"text": ["=1+1", "a|b", None], "p": [1e-17, 1 / 3, np.nan], "n": [1, 2, 3], "=x": [True] * 3})
    paths = write_copies(frame, tmp_path / "table")
    assert [path.name for path in paths] == ["table.csv", "table.json", "table.md"]
    records = json.loads(paths[1].read_text())
    assert [row["p"] for row in records] == [1e-17, 1 / 3, None]
    assert paths[0].read_text().splitlines()[:2] == ["text,p,n,'=x", "'=1+1,1e-17,1,True"]
    assert paths[2].read_text().splitlines()[3] == r"| a\|b | 0.3333 | 2 | True |"
    assert pd.read_csv(paths[0])["p"].iloc[1] == 1 / 3
    write_copies(frame.head(0), tmp_path / "empty")
    assert json.loads((tmp_path / "empty.json").read_text()) == []


def test_plain_holds_only_what_json_knows() -> None:
    odd = {
        "a": np.float64("inf"),
        2: (np.int64(3), pd.NA),
        "t": pd.Timestamp("2020-01-02"),
        "x": np.array([1.0, np.nan]),
    }
    assert plain(odd) == {"a": None, "2": [3, None], "t": "2020-01-02 00:00:00", "x": [1.0, None]}
    assert markdown(["a"], [[None], [float("inf")]]) == "| a |\n| --- |\n| – |\n| – |\n"
    assert slug("../../Etc: passwd?") == "etc-passwd"


def test_names_of_tables_are_safe_and_differ(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1]})
    page = Report("t").heading("Same").table(frame).table(frame).remember("../../up", frame).remember("…", frame)
    assert list(page.tables) == ["same", "same-2", "up", "table"]
    assert all(path.parent == tmp_path / "new" for path in page.write_tables(tmp_path / "new"))
    labels = re.findall(r'aria-label="(.*?)"', page.html())
    assert labels == ["Same", "Same (2)"]


def test_warnings_are_told_in_words() -> None:
    assert in_words("plain words") == "plain words"
    assert in_words("FewPatientsWarning: only two").endswith("cannot vary them: only two (FewPatientsWarning)")
    assert in_words("OtherWarning: text") == "OtherWarning: text"


def test_the_papers_are_those_of_the_citation_file() -> None:
    cff = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    listed = {
        (" ".join(one["title"].split()), one["year"], one.get("journal") or one["collection-title"],
         tuple(author["family-names"] for author in one["authors"]))
        for one in cff["references"]
    }  # fmt: skip
    assert listed == {(one.title, one.year, one.where, tuple(one.families)) for one in PAPERS.values()}
    assert {key for keys in USES.values() for key in keys} <= set(PAPERS | OTHERS)


def test_only_what_was_used_is_cited() -> None:
    assert references(["PCA"]) == []
    assert [one.year for one in references(["Isomap", "EmbeddingImportance", "Isomap"])] == [
        2016,
        2013,
        2000,
        2018,
        1995,
    ]
    page = Report("t").ending(pd.DataFrame({"what": ["a"], "value": ["b"]}), ["rve"]).html()
    assert "Random Voronoi ensembles for gene selection" in page
    assert "Feature Importance in Nonlinear" not in page


def test_a_library_user_can_do_the_same_without_warnings() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Report("t").figure(stability_accuracy({"": pd.DataFrame(
            [["t-test", "LR", 0.5, 0.4, 0.6, 0.3, 0.2, 0.4]],
            columns=["method", "classifier", "AUC", "low", "high", "J", "J low", "J high"],
        )}), alt="one point").html()  # fmt: skip
