"""`clearfold rank` says what the estimator found, on which rows, and how far to trust it; or why it could not."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

from clearfold import EmbeddingImportance
from clearfold.cli import app
from clearfold.cli.methods import RankedMethod
from clearfold.embedding import PCA
from clearfold.errors import TableError
from clearfold.table import read_table, write_table

runner = CliRunner()
FAST = ("--method", "pca", "--components", 3, "--rounds", 4, "--permutations", 199)
SECTIONS = [
    "What was asked, and of which data",
    "The first features",
    "Families",
    "Would other patients give the same ranking?",
    "What did the labels add?",
    "Interchangeable features",
    "Does the ranking depend on the embedding?",
    "The map",
    "How to read this, and what is known",
    "What was done",
    "How to cite",
]


def run(*words: object) -> Result:
    return runner.invoke(app, ["rank", *[str(word) for word in words]])


def succeeded(*words: object) -> Result:
    result = run(*words)
    assert result.exit_code == 0, result.output
    return result


def cases() -> pd.DataFrame:
    """Sixty rows of thirty patients in two grades; a.0 and a.1 follow the grade, b.1 repeats b.0."""
    random = np.random.default_rng(0)
    grade = np.repeat(["low", "high"], 30)
    X = random.normal(size=(60, 12))
    X[:, :2] += 3.0 * (grade == "high")[:, None]
    X[:, 7] = X[:, 6] + 0.01 * random.normal(size=60)
    frame = pd.DataFrame(X, columns=[f"{family}.{i}" for family in "ab" for i in range(6)])
    frame.insert(0, "grade", grade)
    frame.insert(1, "patient", [f"p{i // 2:02d}" for i in range(60)])
    frame.insert(2, "comment", "text")
    return frame


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_table(cases(), "table.csv")
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


class Page(HTMLParser):
    """Headings, paragraphs, tags and attributes of a report."""

    def __init__(self, path: str = "report.html") -> None:
        super().__init__()
        self.tags: list[str] = []
        self.values: list[str] = []
        self.by_tag: dict[str, list[str]] = {}
        self.source = Path(path).read_text(encoding="utf-8")
        self.feed(self.source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.values += [value for _, value in attrs if value]
        self.by_tag.setdefault(tag, []).append("")

    def handle_data(self, data: str) -> None:
        if self.tags:
            self.by_tag[self.tags[-1]][-1] += data


# What is computed ---------------------------------------------------------------------------------------------


def test_the_ranking_is_that_of_the_estimator(place: Path) -> None:
    succeeded("table.csv", "--label", "grade", "--group", "patient", *FAST, "--table", "ranking.csv", "--seed", 5)
    table = read_table("table.csv", label="grade", patient_id="patient")
    options = {"n_rounds": 4, "n_permutations": 199, "random_state": 5, "families": table.families}
    expected = EmbeddingImportance(embedding=PCA(n_components=3), **options).fit(table.X, table.y, groups=table.groups)
    back = pd.read_csv("ranking.csv")
    assert list(back)[:10] == list(expected.table_)
    assert list(back)[10:] == ["rank_by_t", "rank_by_gini", "rank_by_label_free"]
    pd.testing.assert_frame_equal(
        back[list(expected.table_)], expected.table_.sort_values("rank", ignore_index=True), check_dtype=False
    )
    assert set(back["feature"]) == set(table.features)
    assert set(back["feature"].head(2)) == {"a.0", "a.1"}


def test_the_same_seed_gives_the_same_ranking(place: Path) -> None:
    for name, seed in (("a.csv", 0), ("b.csv", 0), ("c.csv", 1)):
        succeeded("table.csv", "--label", "grade", *FAST, "--table", name, "--seed", seed)
    assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes()
    assert Path("a.csv").read_bytes() != Path("c.csv").read_bytes()


@pytest.mark.parametrize("method", list(RankedMethod))
def test_every_method_ranks(place: Path, method: RankedMethod) -> None:
    words = ["--method", method.value, "--components", 3, "--rounds", 2, "--permutations", 19, "--json"]
    said = json.loads(succeeded("table.csv", "--label", "grade", *words).stdout)
    assert said["coordinates"] == 3
    assert sum(row["importance"] for row in said["first features"]) == pytest.approx(1)
    if method is not RankedMethod.lle:  # local weights follow the pair b.0, b.1 that says the same
        assert {row["feature"] for row in said["first features"][:2]} == {"a.0", "a.1"}
    assert ("The outcome has no part" in Page().source) == (method is not RankedMethod.pls)


@pytest.mark.parametrize("importance", ["auto", "fine", "coherent", "gradient"])
def test_every_importance_ranks(place: Path, importance: str) -> None:
    said = json.loads(succeeded("table.csv", "--label", "grade", *FAST, "--importance", importance, "--json").stdout)
    assert said["importance"] == importance


def test_options_reach_the_estimator(place: Path) -> None:
    words = ["--components", "elbow", "-k", 7, "--rounds", 2, "--permutations", 9, "--redundancy", 0.9, "--raw"]
    said = json.loads(succeeded("table.csv", "--label", "grade", *words, "--top", 3, "--json").stdout)
    expected = {"neighbors": 7, "rounds": 2, "permutations": 9, "redundancy": 0.9, "standardised": False}
    assert {name: said[name] for name in expected} == expected
    assert len(said["first features"]) == 3


# Which rows and which outcome -------------------------------------------------------------------------------


def test_rows_without_a_label_are_left_out_and_counted(place: Path) -> None:
    frame = cases().astype({"grade": object})
    frame.loc[[3, 4, 40], "grade"] = None
    write_table(frame, "gaps.csv")
    write_table(frame.dropna(subset="grade"), "whole.csv")
    result = succeeded("gaps.csv", "--label", "grade", *FAST, "--table", "a.csv")
    succeeded("whole.csv", "--label", "grade", *FAST, "--table", "b.csv", "-o", "b.html")
    assert re.search(r"^rows without outcome\s+3\s*$", result.stdout, re.MULTILINE)
    assert "3 rows without an outcome were left out" in Page().source
    assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes()


def test_numbers_with_gaps_stay_whole_classes(place: Path) -> None:
    write_table(cases().assign(grade=[np.nan, *[0.0] * 29, *[1.0] * 30]), "numbers.csv")
    said = json.loads(succeeded("numbers.csv", "--label", "grade", *FAST, "--json").stdout)
    assert said["classes"] == {"0": 29, "1": 30}
    assert said["rows without outcome"] == 1


def test_minus_one_is_unknown_beside_two_classes_and_a_class_beside_one(place: Path) -> None:
    write_table(cases().assign(grade=[-1] * 5 + [0] * 25 + [1] * 30), "three.csv")
    write_table(cases().assign(grade=[-1] * 30 + [1] * 30), "two.csv")
    three, two = (
        json.loads(succeeded(name, "--label", "grade", *FAST, "--json").stdout) for name in ("three.csv", "two.csv")
    )
    assert three["classes"] == {"0": 25, "1": 30}
    assert three["rows without outcome"] == 5
    assert two["classes"] == {"-1": 30, "1": 30}


def test_missing_values_are_dropped_among_the_labelled_rows(place: Path) -> None:
    frame = cases().astype({"grade": object})
    frame.loc[:9, "grade"] = None
    frame.loc[:9, "b.5"] = np.nan  # missing only where there is no label: no reason to drop the feature
    frame.loc[20, "b.4"] = np.nan
    write_table(frame, "gaps.csv")
    said = json.loads(succeeded("gaps.csv", "--label", "grade", *FAST, "--drop-missing", "--json").stdout)
    assert (said["features"], said["samples"]) == (12, 49)
    assert said["dropped"] == "0 features and 1 sample with missing values"


def test_a_value_is_explained(place: Path) -> None:
    frame = cases()
    write_table(frame.assign(grade=frame["a.0"] + frame["a.1"] + 0.1), "values.csv")
    said = json.loads(succeeded("values.csv", "--label", "grade", *FAST, "--json").stdout)
    assert said["outcome"] == "grade (value)"
    assert {row["feature"] for row in said["first features"][:2]} == {"a.0", "a.1"}
    assert "rank_by_correlation" in said["first features"][0]


def test_a_censored_time_is_explained_however_the_event_is_written(place: Path) -> None:
    frame = cases().drop(columns="grade")
    random = np.random.default_rng(1)
    time, event = np.exp(-frame["a.0"] - frame["a.1"]) * 10, (random.random(60) < 0.8).astype(int)
    write_table(frame.assign(months=time, died=event), "numbers.csv")
    write_table(frame.assign(months=time, state=np.where(event == 1, "dead", "alive")), "words.csv")
    write_table(frame.assign(time=time, event=event), "named.csv")
    succeeded("numbers.csv", "--time", "months", "--event", "died", *FAST, "--table", "a.csv")
    said = succeeded("words.csv", "--time", "months", "--event", "state=dead", *FAST, "--table", "b.csv", "--json")
    succeeded("named.csv", *FAST, "--table", "c.csv")
    assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes() == Path("c.csv").read_bytes()
    assert set(pd.read_csv("a.csv")["feature"].head(2)) == {"a.0", "a.1"}
    facts = json.loads(said.stdout)
    assert facts["events"] == {"censored": int((1 - event).sum()), "event": int(event.sum())}
    assert facts["ignored columns"]["state"] == "the event"


# What is said -------------------------------------------------------------------------------------------------


def test_the_report_has_every_section_in_order(place: Path) -> None:
    succeeded("table.csv", "--label", "grade", "--group", "patient", *FAST)
    page = Page()
    assert [heading.strip() for heading in page.by_tag["h2"]] == SECTIONS
    assert page.tags.count("svg") == 4
    for text in ("30 patients", "chance: 0", "Jaccard", "label share", "<td>b.1</td>", "no part in this embedding"):
        assert text in page.source
    assert page.by_tag["p"][0].startswith("Of 12 features, ")
    assert "does not say that a feature causes anything" in page.source


def test_every_table_of_the_report_is_written_in_three_forms(place: Path) -> None:
    said = succeeded("table.csv", "--label", "grade", *FAST, "--table", "whole.csv", "--tables", "new/tables", "--json")
    assert json.loads(said.stdout)["files"] == ["report.html", "whole.csv", str(Path("new") / "tables")]
    files = list(Path("new/tables").iterdir())
    names = {path.stem for path in files}
    assert {"data", "ranking", "families", "interchangeable", "what-was-done", "how-to-cite"} <= names
    assert len(files) == 3 * len(names)
    assert Page().source.count("<table>") <= len(names)
    pd.testing.assert_frame_equal(pd.read_csv("new/tables/ranking.csv"), pd.read_csv("whole.csv"))
    done = {row["what"]: row["value"] for row in json.loads(Path("new/tables/what-was-done.json").read_text("utf-8"))}
    assert (done["rounds"], done["permutations"], done["seed"]) == ("4", "199", "0")
    assert "scikit-learn" in done["versions"]
    assert run("table.csv", "--label", "grade", "--tables", "table.csv").exit_code == 2


def test_half_an_outcome_is_refused(place: Path) -> None:
    months = pd.Series(range(60), dtype=float).where(lambda value: value != 7)
    write_table(cases().assign(months=months, died=1), "half.csv")
    result = run("half.csv", "--time", "months", "--event", "died")
    assert result.exit_code == 2
    assert "1 of 60 rows have half an outcome: row 7 (from 0) has its event but no time" in result.stderr.replace(
        "\n", " "
    )


def test_nothing_that_stands_out_is_said_first(place: Path) -> None:
    random = np.random.default_rng(3)
    noise = pd.DataFrame(random.normal(size=(40, 8)), columns=list("abcdefgh")).assign(grade=["x", "y"] * 20)
    write_table(noise, "noise.csv")
    result = succeeded("noise.csv", "--label", "grade", *FAST)
    page = Page()
    assert page.by_tag["p"][0].startswith("No feature stands out: none of 8 has a q-value below 0.05")
    assert "Families\n" not in page.by_tag["h2"]  # every feature would be its own
    assert re.search(r"^features with q < 0.05\s+0\s*$", result.stdout, re.MULTILINE)


def test_too_few_permutations_are_not_taken_for_nothing(place: Path) -> None:
    result = succeeded("table.csv", "--label", "grade", *FAST[:-1], 19)
    said = "2 features have the smallest p-value that 19 permutations can give. Whether q is below 0.05 takes 120."
    assert f"warning: {said}" in result.stderr
    assert f"But {said}" in Page().by_tag["p"][0]
    assert "Of 12 features, 2 stand out" in answered("table.csv", 120)


def answered(table: str, permutations: int) -> str:
    succeeded(table, "--label", "grade", *FAST[:-1], permutations)
    return Page().by_tag["p"][0]


def test_without_rounds_and_permutations_the_report_says_so(place: Path) -> None:
    result = succeeded("table.csv", "--label", "grade", "--rounds", 0, "--permutations", 0, "--json")
    page = Page()
    assert page.by_tag["p"][0].startswith("No p-values were computed")
    assert "No rounds were asked for" in page.source
    assert json.loads(result.stdout)["first features"][0]["ci_low"] is None


def test_names_are_escaped_and_nothing_is_loaded(place: Path) -> None:
    evil = "<script>alert('x')</script>"
    frame = cases().rename(columns={"a.0": evil, "a.1": "$x_1$", "grade": "<b>grade"})
    write_table(frame, "evil.csv")
    succeeded("evil.csv", "--label", "<b>grade", *FAST)
    page = Page()
    assert not {"script", "link", "iframe", "img", "object", "b"} & set(page.tags)
    assert "&lt;script&gt;" in page.source
    assert not [value for value in page.values if re.match(r"\s*(https?:)?//", value)]
    assert not re.search(r"url\(['\"]?http|@import", page.source)


def test_a_table_too_small_for_five_embeddings_is_still_ranked(place: Path) -> None:
    frame = cases()[["grade", "a.0", "a.1", "b.0"]]
    write_table(frame, "small.csv")
    succeeded("small.csv", "--label", "grade", "--method", "pca", "--components", 2, "--rounds", 2, "--permutations", 9)
    assert "could not be compared" in Page().source


def test_warnings_of_rounds_are_printed_and_reported(place: Path) -> None:
    frame = cases()
    frame.loc[frame["grade"] == "high", frame.select_dtypes("number").columns] += 1000
    write_table(frame, "apart.csv")
    words = ["--label", "grade", "-k", 5, "--rounds", 3, "--permutations", 9]
    result = succeeded("apart.csv", *words)
    assert "DisconnectedGraphWarning: in 3 of 3 rounds" in result.stderr
    said = "The neighbour graph fell apart and was bridged: in 3 of 3 rounds (DisconnectedGraphWarning)"
    assert said in Page().source
    assert "Warning" not in result.stdout


def test_the_first_features_are_printed_one_line_each(place: Path) -> None:
    said = succeeded("table.csv", "--label", "grade", *FAST, "--top", 5).stdout.splitlines()
    assert said[0].split()[:2] == ["rank", "feature"]
    assert [line.split()[0] for line in said[1:6]] == ["1", "2", "3", "4", "5"]
    assert {line.split()[1] for line in said[1:3]} == {"a.0", "a.1"}
    assert max(map(len, said)) <= 80


# What is refused ----------------------------------------------------------------------------------------------

LABEL = ["table.csv", "--label", "grade"]
BAD_OPTIONS = {
    "no such file": (["nothing.csv", "--label", "grade"], "There is no file nothing.csv"),
    "no outcome": (["table.csv"], "No outcome was named"),
    "no such label": (["table.csv", "--label", "grad"], "Did you mean 'grade'"),
    "no such group": ([*LABEL, "--group", "pat"], "no column 'pat'"),
    "one class": (["one.csv", "--label", "grade"], "only one class came"),
    "no labels": (["none.csv", "--label", "grade"], "no row has an outcome"),
    "a class of one": (["lonely.csv", "--label", "grade"], "a class with a single sample came (other)"),
    "two outcomes": ([*LABEL, "--time", "a.0", "--event", "a.1"], "explains one outcome"),
    "time alone": (["months.csv", "--time", "months"], "--event"),
    "event alone": (["table.csv", "--event", "grade=high"], "--time"),
    "no such event": (["months.csv", "--time", "months", "--event", "grade=dead"], "its values are 'high', 'low'"),
    "text event": (["months.csv", "--time", "months", "--event", "grade"], "1 (it happened) or 0"),
    "missing values": (["gaps.csv", "--label", "grade"], "--drop-missing"),
    "not a page": ([*LABEL, "-o", "report.pdf"], "Wanted is .html"),
    "not a table": ([*LABEL, "--table", "ranking.h5"], "no known suffix"),
    "no folder": ([*LABEL, "-o", "none/report.html"], "does not exist"),
    "no folder for the table": ([*LABEL, "--table", "none/ranking.csv"], "does not exist"),
    "over itself": ([*LABEL, "--table", "table.csv"], "are one file"),
    "components": ([*LABEL, "--components", "many"], "a whole number or 'elbow'"),
    "too many components": ([*LABEL, "--components", "50", "--method", "pls"], "pls has at most 12"),
    "pls elbow": ([*LABEL, "--components", "elbow", "--method", "pls"], "pls wants a whole number"),
    "pls neighbours": ([*LABEL, "--method", "pls", "-k", "5"], "pls has neither"),
    "bandwidth": ([*LABEL, "--bandwidth", "2"], "isomap has no bandwidth"),
    "rounds": ([*LABEL, "--rounds", "1"], "n_rounds=1"),
    "permutations": ([*LABEL, "--permutations", "-1"], "n_permutations=-1"),
    "redundancy": ([*LABEL, "--redundancy", "2"], "from 0 to 1"),
}


@pytest.mark.parametrize("name", BAD_OPTIONS)
def test_an_error_is_a_message_exit_code_2_and_no_file(place: Path, name: str) -> None:
    write_table(cases().assign(grade="low"), "one.csv")
    write_table(cases().assign(grade=None), "none.csv")
    write_table(cases().assign(grade=["other", *cases()["grade"].tail(59)]), "lonely.csv")
    write_table(cases().assign(months=range(60)), "months.csv")
    write_table(cases().assign(**{"b.3": [np.nan, *range(59)]}), "gaps.csv")
    Path("report.html").write_text("old")
    before = contents(place)
    words, reason = BAD_OPTIONS[name]
    result = run(*words)
    assert result.exit_code == 2, result.output
    assert reason in result.stderr.replace("\n", " ")
    assert "Traceback" not in result.output
    assert result.stdout == ""
    assert contents(place) == before


@pytest.mark.parametrize("failing", ["clearfold.table.write_table", "clearfold.report.Report.write"])
def test_a_failure_at_the_end_leaves_every_old_file(place: Path, failing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["table.csv", "--label", "grade", *FAST, "--table", "ranking.csv"]
    succeeded(*words)
    before = contents(place)

    def fail(*_: object) -> None:
        raise TableError("the disk is full")

    monkeypatch.setattr(failing, fail)
    assert run(*words, "--seed", 7).exit_code == 2
    assert contents(place) == before


# Real data ----------------------------------------------------------------------------------------------------


def test_bladder_cancer_cores_are_grouped_by_patient(place: Path, data: Path) -> None:
    table = data / "tables" / "mibc_discovery.csv.gz"
    words = ["--label", "nonresponder", "--group", "patientID", "--ignore", "TMA.set", "--drop-missing", *FAST]
    said = json.loads(succeeded(table, *words, "--json").stdout)
    assert (said["samples"], said["patients"], said["rows without outcome"]) == (156, 58, 61)
    assert said["features with q < 0.05"] == 0
    assert Page().by_tag["p"][0].startswith("No feature stands out")


def test_recurrence_of_breast_cancer_goes_with_size(place: Path, data: Path) -> None:
    words = ["--time", "time", "--event", "outcome=R", "--case", "id", "--drop-missing", *FAST]
    said = json.loads(succeeded(data / "tables" / "wpbc.csv", *words, "--json").stdout)
    assert said["events"] == {"censored": 148, "event": 46}
    assert {row["feature"].split("_")[0] for row in said["first features"][:4]} <= {"radius", "perimeter", "area"}
