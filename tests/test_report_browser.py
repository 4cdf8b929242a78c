"""Every kind of report in a real browser without a network: nothing is missing, nothing complains, all can read it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
MISSING = [name for name in ("playwright", "axe_playwright_python", "apsw", "lifelines") if find_spec(name) is None]
if CHROMIUM is None:
    pytest.skip("there is no chromium on this machine", allow_module_level=True)
if MISSING and not os.environ.get("CI"):  # in CI a browser without its tools is a mistake, not a reason to skip
    pytest.skip(f"the browser tests need {', '.join(MISSING)}", allow_module_level=True)

FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
FAST = ("--method", "pca", "--components", "2", "--rounds", "3", "--permutations", "19")
KINDS = ("report", "rank", "evaluate", "demo", "reproduce")
FIGURES = {"report": 8, "rank": 4, "evaluate": 1, "demo": 2, "reproduce": 1}
"""Drawings of each, at least."""


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one page of each kind, made of small data, some of it meant to break a page."""
    from typer.testing import CliRunner

    from clearfold.cli import app

    folder = tmp_path_factory.mktemp("reports")
    _make_data(folder)
    commands = {
        "report": [
            *("table.csv", "--label", "grade", "--group", "patient", "--case", "name", "--time", "months"),
            *("--event", "died", "--archive", "cases.clearfold", "--quick", *FAST),
        ],
        "rank": [
            "table.csv",
            "--label",
            "grade",
            "--group",
            "patient",
            "--ignore",
            "months",
            "--ignore",
            "died",
            *FAST,
        ],
        "evaluate": ["cases.clearfold", "--folds", "2"],
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for kind, words in commands.items():
            result = CliRunner().invoke(app, [kind, *words, "-o", f"{kind}.html", "--tables", f"{kind}-tables"])
            assert result.exit_code == 0, result.output
    _demo_page(folder)
    _reproduction_page(folder)
    return folder


def _make_data(folder: Path) -> None:
    """table.csv, and an archive with pictures; the first feature and one grade have the name of a script."""
    from io import BytesIO

    from PIL import Image

    from clearfold import Archive
    from clearfold.embedding import PCA
    from clearfold.table import write_table

    random = np.random.default_rng(0)
    of = np.repeat(np.arange(30), 2)
    X = random.normal(size=(60, 8))
    X[:, :2] += 2.0 * (of % 2)[:, None]
    frame = pd.DataFrame(X, columns=["a.<script>alert(1)</script>", *(f"{'ab'[i // 4]}.{i}" for i in range(1, 8))])
    frame.insert(0, "name", [f"case{i:02d}" for i in range(60)])
    frame.insert(1, "patient", [f"p{i:02d}" for i in of])
    frame.insert(2, "grade", np.where(of % 2, "<b>high</b>", "low"))
    frame.insert(3, "months", (20 * np.exp(-(np.arange(30) % 2)) * random.exponential(1.0, 30))[of].round(2))
    frame.insert(4, "died", (random.random(30) < 0.8).astype(int)[of])
    write_table(frame, folder / "table.csv")
    rows = frame.set_index("name")
    pictures = {}
    for name in rows.index:
        buffer = BytesIO()
        Image.fromarray(random.integers(120, 255, (48, 48, 3), dtype=np.uint8)).save(buffer, "PNG")
        pictures[str(name)] = Image.open(buffer)
    features = rows.drop(columns=["patient", "grade", "months", "died"])
    of_case = iter(features.index)
    labels = frame[["name", "patient", "grade"]].set_axis(["case_id", "patient_id", "label"], axis=1)
    with Archive.open(folder / "cases.clearfold") as archive:
        archive.add(pictures, labels=labels, mpp=0.5, extract=lambda image, **_: features.loc[next(of_case)])
        archive.fit(PCA(n_components=2))


def _demo_page(folder: Path) -> None:
    """The parts of a demo's page that no other report has, on few samples."""
    from clearfold.archive import Archive
    from clearfold.cli.search_page import add_search, example_searches
    from clearfold.plot import maps
    from clearfold.report import Report

    points = np.random.default_rng(1).normal(size=(40, 2))
    label, later = np.repeat(["benign", "malignant"], 20), np.array(["benign", "malignant"])
    page = Report("A map, and a search", {"command": "clearfold demo"}).text("A page like the demo's.")
    drawing = maps({"Isomap": points, "PCA": points[:, ::-1]}, label, placed={"Isomap": points[:2], "PCA": points[:2]},
                   label_placed=later)  # fmt: skip
    page.heading("The map").figure(drawing, "Two maps.", alt="Two scatter plots")
    with Archive.open(folder / "cases.clearfold", read_only=True) as archive:
        add_search(page.heading("Search"), example_searches(archive)[0])
    page.ending(pd.DataFrame({"what": ["samples"], "value": ["40"]}), ["Isomap", "EmbeddingImportance"])
    page.write(folder / "demo.html")


def _reproduction_page(folder: Path) -> None:
    """A page of claims: the verdicts' colours, and FINE's Fig. 3 with two panels."""
    from clearfold.cli.reproduction_page import ClaimsReport
    from clearfold.papers.claims import Between, Claim, Figure, judge
    from clearfold.plot import stability_accuracy

    page = ClaimsReport("Which claims hold?", {"command": "clearfold reproduce"}).heading("FINE")
    rules = {"holds": Between(("x",), 0, 1), "fails": Between(("x",), 2, 3), "untested": None}
    claims = [Claim(f"fine.{name}", name, "Fig. 3", ".5", "Madelon", rule) for name, rule in rules.items()]
    page.verdicts([one for claim in claims for one in judge(claim, {"printed": {"x": Figure(0.5)}})])
    names = ["method", "classifier", "AUC", "low", "high", "J", "J low", "J high"]
    table = pd.DataFrame([["FINE PCA", "LR", 0.6, 0.5, 0.7, 0.3, 0.2, 0.4]], columns=names)
    page.figure(stability_accuracy({"Madelon": table, "Arcene": table}), "AUC against the Jaccard index.")
    page.ending(pd.DataFrame({"what": ["papers"], "value": ["fine"]}), ["fine"]).write(folder / "reproduce.html")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def opened(browser: Any, reports: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The page of a kind, from its file, without a network; pictures of it are kept where they are wanted."""
    kind = request.param
    context = browser.new_context(viewport={"width": 1100, "height": 900}, offline=True)
    page, said, asked, failed = context.new_page(), [], [], []
    page.set_default_timeout(60_000)
    page.on("console", lambda line: said.append(line.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    context.on("request", lambda one: asked.append(one.url))
    context.on("requestfailed", lambda one: failed.append(one.url))
    address = (reports / f"{kind}.html").as_uri()
    page.goto(address)
    page.kind = kind
    yield page
    if folder := os.environ.get("CLEARFOLD_SCREENSHOTS"):
        _keep_pictures(page, Path(folder))
    context.close()
    assert [url for url in asked if not url.startswith("data:")] == [address], "the page asked for something else"
    assert not failed
    assert not said


def _keep_pictures(page: Any, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for width, scheme in ((1100, "light"), (400, "dark")):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        page.screenshot(path=folder / f"{page.kind}-{width}-{scheme}.png", full_page=True)


@pytest.mark.parametrize("opened", KINDS, indirect=True)
def test_a_report_is_whole_without_a_network(opened: Any) -> None:
    assert opened.locator("h1").count() == 1
    drawings = opened.locator("figure svg")
    assert drawings.count() >= FIGURES[opened.kind]
    for number in range(drawings.count()):
        drawing = drawings.nth(number)
        assert drawing.get_attribute("role") == "img"
        assert len(drawing.get_attribute("aria-label")) > 10
        box = drawing.bounding_box()
        assert box["width"] > 100
        assert box["height"] > 50
    pictures = opened.locator("figure svg image")
    sources = [pictures.nth(i).get_attribute("href") for i in range(pictures.count())]
    assert all(source.startswith("data:image/png;base64,") for source in sources)
    assert len(sources) >= (5 if opened.kind in ("report", "demo") else 0)  # a query and four hits
    assert opened.locator("h2").all_inner_texts()[-2:] == ["What was done", "How to cite"]
    assert opened.locator("h2:has-text('How to cite') ~ ul li").count() >= 1


@pytest.mark.parametrize("opened", KINDS, indirect=True)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_report_is_accessible_and_fits(opened: Any, scheme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    opened.emulate_media(color_scheme=scheme)
    found = Axe().run(opened).response
    assert len(found["passes"]) > 20, "axe did not look"
    assert not [(one["id"], one["nodes"][0]["html"][:200]) for one in found["violations"]]
    for width in (1100, 400):
        opened.set_viewport_size({"width": width, "height": 900})
        assert opened.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("opened", ["report", "rank"], indirect=True)
def test_names_stay_text(opened: Any) -> None:
    assert opened.locator("script, b").count() == 0
    assert "a.<script>alert(1)</script>" in opened.inner_text("main")
    assert "<b>high</b>" in opened.inner_text("main")


@pytest.mark.parametrize("opened", ["report", "rank", "evaluate"], indirect=True)
def test_every_table_that_is_shown_is_a_file(opened: Any, reports: Path) -> None:
    folder = reports / f"{opened.kind}-tables"
    names = {path.stem for path in folder.iterdir()}
    assert 4 <= opened.locator("table").count() <= len(names)
    assert len(list(folder.iterdir())) == 3 * len(names)
    if opened.kind == "evaluate":
        first, column = opened.locator("table").first, pd.read_csv(folder / "methods.csv")["method"]
    else:
        first = opened.locator("table").filter(has_text="label-free")
        column = pd.read_csv(folder / "ranking.csv")["feature"]
    assert column.iloc[0] in first.locator("tbody tr").first.inner_text()
