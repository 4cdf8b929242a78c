"""`index`, `query` and `evaluate` do what their help says, go on after a stop, fail in words and keep secrets."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image as Pillow
from sklearn.datasets import load_breast_cancer
from typer.testing import CliRunner, Result

from clearfold.archive import Archive
from clearfold.cli import app
from clearfold.cli.archives import KINDS, Embedding, made, shown

runner = CliRunner()
SECRET = "postgresql://joe:hunter2@localhost:1/pathology?password=hunter3"


def run(*words: object) -> Result:
    return runner.invoke(app, [str(word) for word in words])


def succeeded(*words: object) -> Result:
    result = run(*words)
    assert result.exit_code == 0, result.output
    return result


def refused(*words: object) -> str:
    result = run(*words)
    assert result.exit_code == 2, result.output
    assert "error" in result.output
    return " ".join(result.output.split())


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with a table of 120 cases of 60 patients."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CLEARFOLD_ARCHIVE", raising=False)
    data = load_breast_cancer(as_frame=True)
    frame = data.data[:120].rename(columns=lambda name: name.replace(" ", "_"))
    frame.insert(0, "name", [f"case{i:03d}" for i in range(120)])
    frame.insert(1, "patient", [f"p{i // 2:03d}" for i in range(120)])
    frame.insert(2, "grade", np.where(data.target[:120], "benign", "malignant"))
    frame.insert(3, "organ", np.where(np.arange(120) % 3, "left", "right"))
    frame.to_csv("table.csv", index=False)
    return tmp_path


TABLE = ("table.csv", "--case", "name", "--group", "patient", "--label", "grade")


@pytest.fixture
def cases(place: Path) -> Path:
    succeeded("index", *TABLE, "-o", "cases.clearfold", "--embedding", "pca")
    return place / "cases.clearfold"


# index --------------------------------------------------------------------------------------------------------


def test_index_makes_an_archive_with_its_embedding(place: Path) -> None:
    facts = json.loads(succeeded("index", *TABLE, "-o", "cases.clearfold", "--json").stdout)
    assert (facts["added"], facts["already there"], facts["failed"]) == (120, 0, {})
    assert facts["embedding"].startswith("BeliefSpectralEmbedding")
    with Archive.open("cases.clearfold", read_only=True) as archive:
        assert len(archive) == 120
        assert archive.case("case007").patient_id == "p003"
        assert archive.case("case007").about["organ"] == "left"
        assert archive.active.embedding == "BeliefSpectralEmbedding"


def test_indexing_again_adds_nothing_and_fits_nothing(cases: Path) -> None:
    facts = json.loads(succeeded("index", *TABLE, "-o", cases, "--json").stdout)
    assert (facts["added"], facts["already there"]) == (0, 120)
    with Archive.open(cases, read_only=True) as archive:
        assert len(archive.versions()) == 1


def test_later_cases_are_placed_and_a_named_embedding_is_fitted_beside(cases: Path) -> None:
    frame = pd.read_csv("table.csv")
    frame.assign(name=[f"later{i}" for i in range(120)], patient=[f"q{i}" for i in range(120)]).to_csv("more.csv")
    more = ("more.csv", *TABLE[1:])
    succeeded("index", *more, "-o", cases)
    with Archive.open(cases, read_only=True) as archive:
        assert len(archive.coordinates()) == 240
        assert [version.number for version in archive.versions()] == [1]
    succeeded("index", *more, "-o", cases, "--embedding", "boosted-distance")
    with Archive.open(cases, read_only=True) as archive:
        assert [version.embedding for version in archive.versions()] == ["PCA", "BoostedMetric"]
        assert archive.active.number == 2


@pytest.mark.parametrize("kind", [kind for kind in Embedding if kind is not Embedding.none])
def test_every_embedding_can_be_made_and_stored(kind: Embedding) -> None:
    from clearfold.archive.restoring import ESTIMATORS

    assert type(made(kind)).__name__ == KINDS[kind][0]
    assert KINDS[kind][0] in ESTIMATORS


def test_without_labels_pca_is_fitted_and_said(place: Path) -> None:
    pd.read_csv("table.csv").drop(columns="grade").to_csv("plain.csv", index=False)
    result = succeeded("index", "plain.csv", "--case", "name", "-o", "cases.clearfold")
    assert "pca is fitted" in " ".join(result.stderr.split())
    with Archive.open("cases.clearfold", read_only=True) as archive:
        assert archive.active.embedding == "PCA"


def test_index_refuses_what_it_cannot_use_and_leaves_nothing(place: Path) -> None:
    assert "no file or folder" in refused("index", "nothing.csv", "-o", "cases.clearfold")
    assert "No archive was named" in refused("index", *TABLE)
    assert "--labels is for images" in refused("index", *TABLE, "-o", "cases.clearfold", "--labels", "table.csv")
    assert sorted(path.name for path in place.iterdir()) == ["table.csv"]
    Path("no.clearfold").write_text("not an archive")
    refused("index", *TABLE, "-o", "no.clearfold")
    assert Path("no.clearfold").read_text() == "not an archive"


def test_other_features_are_refused_and_nothing_changes(cases: Path) -> None:
    pd.read_csv("table.csv").rename(columns={"mean_area": "area"}).to_csv("other.csv", index=False)
    assert "mean_area" in refused("index", "other.csv", *TABLE[1:], "-o", cases)
    with Archive.open(cases, read_only=True) as archive:
        assert len(archive) == 120


# images -------------------------------------------------------------------------------------------------------


def tissue(seed: int, size: int = 96) -> np.ndarray:
    """Dark blue dots on pink, more of them for odd seeds."""
    random = np.random.default_rng(seed)
    pixels = np.full((size, size, 3), (235, 190, 215), dtype=float)
    y, x = np.mgrid[:size, :size]
    for cx, cy in random.uniform(6, size - 6, (14 + 12 * (seed % 2), 2)):
        pixels[(x - cx) ** 2 + (y - cy) ** 2 < random.uniform(9, 16)] = (90, 60, 150)
    return np.clip(pixels + random.normal(0, 4, pixels.shape), 0, 255).astype(np.uint8)


@pytest.fixture
def images(place: Path) -> Path:
    """Twelve images of six patients, one of them broken, and their labels."""
    folder = place / "images"
    folder.mkdir()
    for number in range(12):
        Pillow.fromarray(tissue(number)).save(folder / f"tile{number:02d}.png")
    (folder / "broken.png").write_bytes((folder / "tile00.png").read_bytes()[:200])
    names = [f"tile{number:02d}" for number in range(12)]
    grades = ["dense" if number % 2 else "loose" for number in range(12)]
    patients = [f"p{number // 2}" for number in range(12)]
    pd.DataFrame({"case_id": names, "label": grades, "patient_id": patients}).to_csv(place / "grades.csv", index=False)
    return folder


def test_images_are_indexed_and_the_unreadable_are_listed(images: Path) -> None:
    result = run("index", images, "--labels", "grades.csv", "--mpp", 0.5, "--embedding", "pca", "-o", "cases.clearfold")
    assert result.exit_code == 1, result.output
    assert "broken" in result.stderr
    with Archive.open("cases.clearfold", read_only=True) as archive:
        assert len(archive) == 12
        assert archive.case("tile03").label == "dense"
        assert archive.settings["mpp"] == 0.5
    again = run("index", images, "--labels", "grades.csv", "--mpp", 0.5, "-o", "cases.clearfold", "--json")
    facts = json.loads(again.stdout)
    assert (facts["added"], facts["already there"], list(facts["failed"])) == (0, 12, ["broken"])
    asked = ("query", images / "tile05.png", "--archive", "cases.clearfold", "-k", 3)
    found = succeeded(*asked, "--mpp", 0.5, "-o", "a.html")
    assert "tile05" in found.stdout.splitlines()[0]
    assert "<image" in Path("a.html").read_text()
    assert "scale" in refused(*asked)


def test_the_unreadable_are_listed_also_when_nothing_can_be_fitted(images: Path) -> None:
    """One patient a class is too little for belief: the cases are kept all the same."""
    pd.DataFrame({"case_id": ["tile00", "tile01"], "label": ["loose", "dense"]}).to_csv("few.csv", index=False)
    for path in images.glob("tile*.png"):
        path.unlink() if path.stem not in ("tile00", "tile01") else None
    words = ("index", images, "--labels", "few.csv", "--mpp", 0.5, "--embedding", "belief", "-o", "cases.clearfold")
    result = run(*words)
    assert result.exit_code == 2
    assert "failed: broken" in result.stderr
    with Archive.open("cases.clearfold", read_only=True) as archive:
        assert len(archive) == 2


def test_a_large_tiff_is_read_in_tiles_like_a_slide(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tifffile

    import clearfold.features
    import clearfold.features.files

    monkeypatch.setattr(clearfold.features, "extract", lambda image: pd.Series({"mean": image.pixels.mean()}))
    monkeypatch.setattr(clearfold.features.files, "LARGE", 2**20)
    Path("mixed").mkdir()
    pixels = np.tile(tissue(1, 128), (8, 16, 1))
    tifffile.imwrite("mixed/large.tif", pixels, tile=(256, 256), photometric="rgb")
    Pillow.fromarray(pixels[:256, :256]).save("mixed/small.tif")
    words = ("index", "mixed", "--mpp", 0.5, "--embedding", "none", "-o", "c.clearfold", "--jobs", 1)
    succeeded(*words)
    with Archive.open("c.clearfold", read_only=True) as archive:
        assert sorted(archive.cases().index) == ["large_0_0", "large_1024_0", "small"]


def test_a_slide_gives_a_case_for_each_tile_with_tissue(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import clearfold.features

    def colours(image, **_):
        means = image.pixels.reshape(-1, 3).mean(axis=0)
        return pd.Series(dict(zip(("red", "green", "blue"), means, strict=True)) | {"scale": image.mpp})

    monkeypatch.setattr(clearfold.features, "extract", colours)
    pixels = np.full((1024, 3072, 3), 244, dtype=np.uint8)
    pixels[:, :1024] = np.tile(tissue(1, 128), (8, 8, 1))
    pixels[:, 2048:] = np.tile(tissue(2, 128), (8, 8, 1))
    Path("slides").mkdir()
    Pillow.fromarray(pixels).save("slides/TCGA-1.02.svs", format="PNG")
    about = {"case_id": ["TCGA-1.02"], "patient_id": ["p1"], "label": ["dense"]}
    pd.DataFrame(about).to_csv("grades.csv", index=False)
    words = (
        "index",
        "slides",
        "--labels",
        "grades.csv",
        "--mpp",
        0.5,
        "-o",
        "c.clearfold",
        "--embedding",
        "none",
        "--json",
    )
    facts = json.loads(succeeded(*words).stdout)
    assert facts["added"] == 2
    with Archive.open("c.clearfold", read_only=True) as archive:
        case = archive.case("TCGA-1.02_2048_0")
        assert (case.slide_id, case.patient_id, case.label) == ("TCGA-1.02", "p1", "dense")
        assert case.about["region"] == "x=2048 y=0 width=1024 height=1024"
    assert json.loads(succeeded(*words).stdout)["already there"] == 2


def test_indexing_goes_on_after_a_stop(images: Path) -> None:
    """Ctrl-C in the middle: a message, what was measured is kept, and the same command does the rest."""
    (images / "broken.png").unlink()
    for number in range(12, 100):
        Pillow.fromarray(tissue(number)).save(images / f"tile{number:02d}.png")
    words = ["index", "images", "--mpp", "0.5", "-o", "cases.clearfold", "--embedding", "pca"]
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # background jobs ignore it
    command = [sys.executable, "-c", f"{heard}; from clearfold.cli import main; main()", *words]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    while process.poll() is None and stored() < 3:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    message = process.communicate(timeout=60)[1]
    assert process.returncode == 130, message
    assert "goes on from there" in " ".join(message.split())
    kept = stored()
    assert 3 <= kept < 100
    facts = json.loads(succeeded(*words, "--json").stdout)
    assert (facts["added"], facts["already there"]) == (100 - kept, kept)


def stored() -> int:
    if not os.path.exists("cases.clearfold"):
        return 0
    try:
        with Archive.open("cases.clearfold", read_only=True) as archive:
            return len(archive)
    except ValueError:  # it is being made
        return 0


# query --------------------------------------------------------------------------------------------------------


def test_query_by_case_row_and_filter(cases: Path) -> None:
    by_case = json.loads(succeeded("query", "case007", "--archive", cases, "-k", 4, "--json").stdout)
    by_row = succeeded("query", "table.csv", "--row", 7, "--archive", cases, "-k", 5, "--json").stdout
    with Archive.open(cases, read_only=True) as archive:
        expected = [hit.case_id for hit in archive.query("case007", k=4)]
    assert [hit["case_id"] for hit in by_case["hits"]] == expected
    # a row of the table names no patient_id, so that it finds itself
    assert json.loads(by_row)["hits"][0]["case_id"] == "case007"
    left = json.loads(
        succeeded(
            "query", "case007", "--archive", cases, "--where", "organ=left", "--where", "label=benign", "--json"
        ).stdout
    )
    assert {hit["metadata"]["organ"] for hit in left["hits"]} == {"left"}
    assert {hit["label"] for hit in left["hits"]} == {"benign"}
    assert left["labels"][0]["chance"] == 1
    assert all(hit["near"] and {"feature", "query", "hit"} <= set(hit["near"][0]) for hit in left["hits"])


def test_query_prints_cases_reasons_and_chances(cases: Path) -> None:
    text = succeeded("query", "case007", "--archive", cases, "-k", 3).stdout
    assert text.count("near:") == 3
    assert "chance" in text


def test_query_writes_a_page(cases: Path) -> None:
    succeeded("query", "case007", "--archive", cases, "-o", "answer.html")
    page = Path("answer.html").read_text()
    assert "case007" in page
    assert "median" in page
    assert "<script" not in page


def test_the_archive_can_be_named_by_the_environment(cases: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEARFOLD_ARCHIVE", str(cases))
    succeeded("query", "case007")


def test_an_unfamiliar_query_is_warned_of(cases: Path) -> None:
    frame = pd.read_csv("table.csv").head(1)
    frame["mean_area"] *= 1e4
    frame.drop(columns=["name", "patient"]).to_csv("strange.csv", index=False)
    result = succeeded("query", "strange.csv", "--archive", cases)
    assert "UnfamiliarQueryWarning" in result.stderr
    assert "mean_area" in result.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nobody",), "neither a case"),
        (("case007", "--where", "organ=heart"), "left"),
        (("case007", "--where", "planet=mars"), "organ"),
        (("case007", "--where", "organ"), "column=value"),
        (("table.csv",), "120 rows"),
        (("table.csv", "--row", "999"), "no such case"),
        (("case007", "-o", "answer.txt"), ".html"),
    ],
)
def test_queries_that_mean_nothing_are_refused(cases: Path, words: tuple[str, ...], said: str) -> None:
    assert said in refused("query", *words, "--archive", cases)


def test_archives_that_are_none_are_refused(place: Path) -> None:
    assert "no archive" in refused("query", "case007", "--archive", "none.clearfold").lower()
    assert "No archive" in refused("query", "case007")
    Path("text.clearfold").write_text("hello" * 1000)
    refused("query", "case007", "--archive", "text.clearfold")
    assert sorted(path.name for path in place.iterdir()) == ["table.csv", "text.clearfold"]


@pytest.mark.parametrize(
    "words",
    [
        ("query", "case007", "--archive"),
        ("evaluate",),
        ("index", *TABLE, "--archive"),
        ("index", *TABLE, "-o"),  # in the wrong place
        ("index", "-o", "cases.clearfold"),
        ("query", "--archive", "cases.clearfold"),
    ],
)
def test_passwords_are_never_printed(place: Path, words: tuple[str, ...]) -> None:
    for result in (run(*words, SECRET), run("--debug", *words, SECRET)):
        assert result.exit_code != 0
        assert "hunter" not in result.output
        assert "joe" not in result.output
    assert shown(SECRET) == "postgresql://localhost/pathology"
    assert shown("cases.clearfold") == "cases.clearfold"


def test_passwords_are_not_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    from clearfold.cli.archives import command_line

    monkeypatch.setattr(sys, "argv", ["clearfold", "query", "a", f"--archive={SECRET}", "--archive", SECRET])
    assert "hunter" not in command_line()
    assert command_line().count("postgresql://localhost/pathology") == 2


# evaluate -----------------------------------------------------------------------------------------------------


def test_evaluate_prints_writes_and_reports(cases: Path) -> None:
    result = succeeded("evaluate", cases, "--folds", 2, "-o", "report.html")
    for name in ("PCA", "standardised Euclid", "LDA", "forest proximity", "random", "archive labels only"):
        assert name in result.stdout
    assert "…" not in result.stdout, "figures are never cut"
    page = Path("report.html").read_text()
    assert "<svg" in page
    assert "Precision against recall" in page
    facts = json.loads(succeeded("evaluate", cases, "--folds", 2, "--json").stdout)
    own = facts["methods"][0]
    assert own["macro_low"] <= own["macro"] <= own["macro_high"]
    assert facts["patients"] == 60
    assert facts["confusion"]["benign"]["benign"] > 0.5


def test_evaluate_refuses_an_archive_without_labels(place: Path) -> None:
    pd.read_csv("table.csv").drop(columns="grade").to_csv("plain.csv", index=False)
    succeeded("index", "plain.csv", "--case", "name", "-o", "cases.clearfold")
    assert "three patients" in refused("evaluate", "cases.clearfold")
    assert ".html" in refused("evaluate", "cases.clearfold", "-o", "report.pdf")
