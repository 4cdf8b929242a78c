"""The command line does what its help says, fails in words, and never harms a file that was there."""

import json
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner, Result

import clearfold
from clearfold.cli import CLASSES, Method, app
from clearfold.embedding import Isomap
from clearfold.errors import TableError
from clearfold.table import read_table, write_table

runner = CliRunner()


def run(*words: object) -> Result:
    return runner.invoke(app, [str(word) for word in words])


def succeeded(*words: object) -> Result:
    result = run(*words)
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with a table of 60 samples in two groups."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.normal(size=(60, 5)) + np.repeat([0, 1], 30)[:, None], columns=list("abcde"))
    frame["e"] *= 1000
    frame.insert(0, "grade", np.repeat(["low", "high"], 30))
    frame.insert(1, "patient", [f"p{i // 2:02d}" for i in range(60)])
    frame.insert(2, "comment", "text")
    write_table(frame, "table.csv")
    return tmp_path


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# embed --------------------------------------------------------------------------------------------------------


def test_embed_writes_what_the_estimator_computes(place: Path) -> None:
    succeeded("embed", "table.csv", "--label", "grade", "--group", "patient", "-k", 8, "--components", 3)
    back = pd.read_parquet("coordinates.parquet")
    assert list(back) == ["case_id", "patient", "grade", "coordinate_1", "coordinate_2", "coordinate_3"]
    X = StandardScaler().fit_transform(read_table("table.csv").X)
    expected = Isomap(n_components=3, n_neighbors=8).fit(X).embedding_
    np.testing.assert_allclose(back.filter(like="coordinate_"), expected, atol=1e-8)
    assert back["grade"].tolist() == ["low"] * 30 + ["high"] * 30
    assert listing(place) == ["coordinates.parquet", "coordinates.png", "table.csv"]


def test_raw_leaves_the_scale_alone(place: Path) -> None:
    succeeded("embed", "table.csv", "--method", "pca", "-o", "a.csv")
    succeeded("embed", "table.csv", "--method", "pca", "--raw", "-o", "b.csv")
    scaled, raw = (pd.read_csv(name)["coordinate_1"].std() for name in ("a.csv", "b.csv"))
    assert scaled < 5
    assert raw > 500


@pytest.mark.parametrize("method", list(Method))
def test_every_method_runs(place: Path, method: Method) -> None:
    said = json.loads(succeeded("embed", "table.csv", "--method", method.value, "--json").stdout)
    assert said["method"] == method.value
    assert said["coordinates"] == 2
    assert len(said["eigenvalues"]) == 2
    assert (said["neighbors"] is not None) == ("n_neighbors" in CLASSES[method][1])
    assert (said["bandwidth"] is not None) == ("bandwidth" in CLASSES[method][1])


def test_what_happened_is_said(place: Path) -> None:
    said = succeeded("embed", "table.csv", "--label", "grade", "--ignore", "a").stdout
    for what, value in {
        "samples": "60",
        "features": "4",
        "standardised": "yes",
        "neighbors": "10",
        "parts of the graph": "1",
        "duplicate samples": "0",
    }.items():
        assert re.search(rf"^{what}\s+{value}\s*$", said, re.MULTILINE), what
    assert "a (as asked)" in said
    assert "comment (text)" in said
    assert "coordinates.parquet" in said


def test_json_is_all_that_is_printed_and_complete(place: Path) -> None:
    result = succeeded("embed", "table.csv", "--components", "elbow", "--report", "r.html", "--json")
    said = json.loads(result.stdout)
    assert said["samples"] == 60
    assert said["files"] == ["coordinates.parquet", "coordinates.png", "r.html"]
    assert all((place / name).stat().st_size > 0 for name in said["files"])
    assert 2 <= said["coordinates"] <= 15


def test_the_case_id_is_kept_or_is_the_row(place: Path) -> None:
    frame = pd.read_csv("table.csv").assign(name=[f"s{i}" for i in range(60)])
    frame.loc[7, "a"] = np.nan
    write_table(frame, "gaps.csv")
    succeeded("embed", "gaps.csv", "--case", "name", "--drop-missing", "-o", "named.csv")
    succeeded("embed", "gaps.csv", "--drop-missing", "-o", "numbered.csv")
    rows = [i for i in range(60) if i != 7]
    assert pd.read_csv("named.csv")["name"].tolist() == [f"s{i}" for i in rows]
    assert pd.read_csv("numbered.csv")["case_id"].tolist() == rows


def test_landmarks_and_seed(place: Path) -> None:
    words = ["embed", "table.csv", "--landmarks", 40, "-o"]
    said = json.loads(succeeded(*words, "a.csv", "--json").stdout)
    assert said["landmarks"] == 40
    succeeded(*words, "b.csv")
    succeeded(*words, "c.csv", "--seed", 1)
    assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes()
    assert Path("a.csv").read_bytes() != Path("c.csv").read_bytes()


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_the_map_goes_where_it_is_asked(place: Path, suffix: str) -> None:
    succeeded("embed", "table.csv", "--plot", f"map.{suffix}")
    assert (place / f"map.{suffix}").stat().st_size > 1000
    assert "coordinates.png" not in listing(place)


def test_warnings_are_printed_by_name_and_reach_the_report(place: Path) -> None:
    frame = pd.read_csv("table.csv")
    frame.loc[frame["grade"] == "high", list("abcd")] += 100
    write_table(pd.concat([frame, frame.head(1)]), "apart.csv")
    result = succeeded("embed", "apart.csv", "--report", "r.html")
    for name in ("DisconnectedGraphWarning", "DuplicateSamplesWarning"):
        assert result.stderr.count(f"warning: {name}: ") == 1
        assert name in Path("r.html").read_text(encoding="utf-8")
    assert "Warning" not in result.stdout


# What is refused ----------------------------------------------------------------------------------------------

BAD_OPTIONS = {
    "no such file": (["nothing.csv"], "There is no file nothing.csv"),
    "no such column": (["table.csv", "--label", "grad"], "Did you mean 'grade'"),
    "no such group": (["table.csv", "--group", "pat"], "no column 'pat'"),
    "unknown output": (["table.csv", "-o", "out.xyz"], "'.xyz' is not known"),
    "unknown picture": (["table.csv", "--plot", "map.bmp"], "no known suffix"),
    "no folder": (["table.csv", "-o", "none/out.csv"], "does not exist"),
    "over itself": (["table.csv", "-o", "table.csv"], "are one file"),
    "components": (["table.csv", "--components", "many"], "a whole number or 'elbow'"),
    "no components": (["table.csv", "--components", "0"], "n_components=0"),
    "bandwidth": (["table.csv", "--method", "graph", "--bandwidth", "wide"], "a number or 'median'"),
    "isomap bandwidth": (["table.csv", "--bandwidth", "2"], "isomap has no bandwidth"),
    "pca neighbours": (["table.csv", "--method", "pca", "-k", "5"], "pca has no n_neighbors"),
    "neighbours": (["table.csv", "-k", "60"], "n_neighbors"),
    "landmarks": (["table.csv", "--landmarks", "1"], "n_landmarks=1"),
    "missing values": (["gaps.csv"], "--drop-missing"),
    "duplicate header": (["twice.csv"], "Duplicate column: a"),
}


@pytest.mark.parametrize("name", BAD_OPTIONS)
def test_an_error_is_a_message_exit_code_2_and_no_file(place: Path, name: str) -> None:
    Path("gaps.csv").write_text("a,b\n1,2\n3,\n4,5\n")
    Path("twice.csv").write_text("a,a\n1,2\n")
    before = listing(place)
    words, reason = BAD_OPTIONS[name]
    result = run("embed", *words)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert reason in result.stderr
    assert "Traceback" not in result.output
    assert result.stdout == ""
    assert listing(place) == before


def test_debug_shows_the_error_itself(place: Path) -> None:
    assert isinstance(run("--debug", "embed", "nothing.csv").exception, TableError)


def test_an_unknown_option_or_method_is_refused() -> None:
    assert run("embed", "table.csv", "--method", "umap").exit_code == 2
    assert run("embed", "table.csv", "--nonsense").exit_code == 2


@pytest.mark.parametrize("failing", ["clearfold.table.write_table", "clearfold.report.Report.write"])
def test_a_failure_at_the_end_leaves_every_old_file(place: Path, failing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["embed", "table.csv", "--report", "r.html"]
    succeeded(*words)
    before = {path.name: path.read_bytes() for path in place.iterdir()}

    def fail(*_: object) -> None:
        raise TableError("the disk is full")

    monkeypatch.setattr(failing, fail)
    result = run(*words, "--label", "grade")
    assert result.exit_code == 2
    assert {path.name: path.read_bytes() for path in place.iterdir()} == before


# The rest -----------------------------------------------------------------------------------------------------


def test_demo_ends_in_a_report(place: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = succeeded("demo", "-o", "shown")
    report = place / "shown" / "report.html"
    assert result.stdout.rstrip().splitlines()[-2:] == [
        f"Report: {Path('shown') / 'report.html'}",
        f"Page: clearfold serve {Path('shown') / 'cases.clearfold'}  (at http://127.0.0.1:8765/)",
    ]
    files = ["cases.csv", "coordinates.csv", "map.png", "ranking.csv", "ranking.png", "report.html"]
    assert [name for name in listing(place / "shown") if not name.startswith("tissue")] == ["cases.clearfold", *files]
    coordinates = pd.read_csv(place / "shown" / "coordinates.csv")
    assert len(coordinates) == 569
    assert coordinates["placed_later"].sum() == 143
    page = report.read_text(encoding="utf-8")
    assert page.count("<svg") == 5  # maps, bars of features and of families, curve, tissue that was found
    for text in (
        "Which earlier cases look like this one",
        "always the more frequent diagnosis",
        "ring: placed after the fit",
        "The first features",
        "Families",
    ):
        assert text in page
    ranking = pd.read_csv(place / "shown" / "ranking.csv")
    assert ranking["rank"].tolist() == list(range(1, 31))
    assert ranking.groupby("family").size().to_dict() == {"error": 10, "mean": 10, "worst": 10}
    assert (ranking["q_value"].head(5) < 0.05).all()


def test_demo_coordinates_belong_to_their_cases(place: Path) -> None:
    succeeded("demo")
    coordinates = pd.read_csv("clearfold-demo/coordinates.csv")
    cases = read_table("clearfold-demo/cases.csv", label="diagnosis")
    assert coordinates["case_id"].tolist() == cases.frame["case_id"].tolist()
    assert coordinates["diagnosis"].tolist() == cases.frame["diagnosis"].tolist()
    sizes = cases.X["worst_radius"]
    for part in (True, False):  # the first coordinate follows size, for placed cases as for fitted ones
        rows = coordinates["placed_later"] == part
        assert abs(np.corrcoef(coordinates["coordinate_1"][rows], sizes[rows])[0, 1]) > 0.7


def test_demo_refuses_a_file_for_a_folder(place: Path) -> None:
    result = run("demo", "-o", "table.csv")
    assert result.exit_code == 2
    assert "is a file" in result.stderr


def test_version() -> None:
    assert succeeded("--version").stdout == f"clearfold {clearfold.__version__}\n"


def test_help_names_every_command_and_loads_nothing_heavy() -> None:
    heavy = ["numpy", "pandas", "sklearn", "matplotlib", "scipy", "pyarrow"]
    code = (
        "import sys, clearfold.cli; sys.argv = ['clearfold', '--help']\n"
        "try: clearfold.cli.main()\n"
        f"finally: print('loaded:', *[m for m in {heavy} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0
    assert all(command in done.stdout for command in ("embed", "rank", "demo"))
    assert done.stdout.rstrip().splitlines()[-1] == "loaded:"


def test_main_exits_with_the_code_of_the_command() -> None:
    code = "import sys, clearfold.cli; sys.argv[1:] = ['embed', 'nothing.csv']; clearfold.cli.main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("error: There is no file nothing.csv")
