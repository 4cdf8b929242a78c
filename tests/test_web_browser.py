"""The page in a real browser: what a pathologist sees is what the library says, by mouse and by keyboard."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit
from urllib.request import urlopen

import numpy as np
import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
WANTED = (
    "fastapi",
    "uvicorn",
    "jinja2",
    "plotly",
    "multipart",
    "playwright",
    "axe_playwright_python",
    "skimage",
    "apsw",
)
MISSING = [name for name in WANTED if find_spec(name) is None]
if CHROMIUM is None:
    pytest.skip("there is no chromium on this machine", allow_module_level=True)
if MISSING and not os.environ.get("CI"):  # in CI a browser without its tools is a mistake, not a reason to skip
    pytest.skip(f"the browser tests need {', '.join(MISSING)}", allow_module_level=True)

FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
SERVE = """
import sys, uvicorn
from pathlib import Path
from clearfold.web import Settings, create_app
archive, slides, port = sys.argv[1:]
settings = Settings(port=int(port), slides=(Path(slides),))
uvicorn.run(create_app(archive, settings), host="127.0.0.1", port=int(port), log_level="warning")
"""
MPP = 0.5
PATIENT = 40_000
"""Milliseconds until a test gives up waiting for something that must come."""


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with cohort/images, cases.clearfold, slides/large.tif and new.png, which the archive has not seen."""
    import pandas as pd
    import tifffile
    from PIL import Image

    from clearfold import Archive
    from clearfold.datasets import synthetic_cohort, synthetic_tissue
    from clearfold.embedding import PCA

    folder = tmp_path_factory.mktemp("studio")
    table: pd.DataFrame = synthetic_cohort(folder / "cohort", n_patients=8, images_per_patient=2, size=192).table
    place = np.array([int(patient[-2:]) for patient in table["patient_id"]])
    labels = table[["case_id", "patient_id", "label"]].assign(
        time=100.0 + 50 * place + 300 * (place % 2), event=np.where(place % 4 == 3, 0, 1), organ="breast"
    )
    with Archive.open(folder / "cases.clearfold") as archive:
        images = folder / "cohort" / "images"
        archive.add(images, labels=labels, mpp=MPP, extraction={"families": ["shape", "stain"]})
        archive.fit(PCA(n_components=3))
    Image.fromarray(synthetic_tissue("high", size=(240, 320), seed=77).image).save(folder / "new.png")
    slide = synthetic_tissue("low", size=(700, 900), seed=5).image
    (folder / "slides").mkdir()
    scale = {"resolution": (1e4 / MPP, 1e4 / MPP), "resolutionunit": "CENTIMETER"}
    tifffile.imwrite(folder / "slides" / "large.tif", slide, photometric="rgb", tile=(256, 256), **scale)
    return folder


@pytest.fixture(scope="module")
def archive(studio: Path) -> Iterator[Any]:
    from clearfold import Archive

    with Archive.open(studio / "cases.clearfold", read_only=True) as opened:
        yield opened


@pytest.fixture(scope="module")
def server(studio: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    arguments = [str(studio / "cases.clearfold"), str(studio / "slides"), port]
    with (studio / "server.log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "-c", SERVE, *arguments], stdout=log, stderr=log)
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_for(address, process, studio / "server.log")
        yield address
    finally:
        process.terminate()
        process.wait(30)


def _wait_for(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + 90
    while time.monotonic() < until and process.poll() is None:
        try:
            with urlopen(f"{address}/api/v1/archive"):
                return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"the server did not start: {log.read_text()[-2000:]}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Any, server: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A page that must not ask anybody but the server, nor complain to the console; a picture of it is kept."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, base_url=server)
    opened, said, asked = context.new_page(), [], []
    opened.set_default_timeout(PATIENT)
    opened.on("console", lambda line: said.append(line.text) if line.type in ("error", "warning") else None)
    opened.on("pageerror", lambda error: said.append(str(error)))
    context.on("request", lambda one: asked.append(one.url))
    yield opened
    folder = Path(os.environ.get("CLEARFOLD_SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    name = "".join(letter if letter.isalnum() else "_" for letter in request.node.name)
    opened.screenshot(path=folder / f"{name}.png", full_page=opened.locator("dialog[open]").count() == 0)
    context.close()
    outside = [url for url in asked if not url.startswith((server, "data:", "blob:"))]
    assert asked
    assert not outside, "a request left the machine"
    if "refusals" in request.fixturenames:  # the browser itself reports an answer of 4xx
        said = [line for line in said if not line.startswith("Failed to load resource")]
    assert not said


@pytest.fixture
def refusals() -> None:
    """The server is expected to refuse something."""


def ask(server: str, path: str) -> Any:
    """The API, as any program asks it."""
    with urlopen(f"{server}/api/v1{path}") as answer:
        return json.load(answer)


def upload(page: Any, file: Path) -> None:
    page.goto("/search")
    page.fill("#mpp", str(MPP))
    page.set_input_files("#file", file)


def hits(page: Any) -> list[str]:
    page.wait_for_selector("#hits .hit")
    return [card.get_attribute("data-case") for card in page.query_selector_all("#hits .hit")]


# Search -----------------------------------------------------------------------------------------------------


def test_an_upload_finds_what_the_library_finds(page: Any, studio: Path, archive: Any) -> None:
    from clearfold import read_image

    answer = archive.query(read_image(studio / "new.png", mpp=MPP), k=10)
    upload(page, studio / "new.png")
    assert hits(page) == [hit.case_id for hit in answer]
    first = answer[0]
    page.click("#hits .hit >> nth=0")
    page.wait_for_selector("dialog[open]")
    assert first.case_id in page.inner_text("#compare-title")
    for side, reasons in (("near", first.reasons.near), ("far", first.reasons.far)):
        shown = page.locator(f".reasons.{side} .reason")
        assert shown.locator("a").all_inner_texts() == [reason.feature for reason in reasons]
        assert shown.locator("strong").all_inner_texts() == [reason.values for reason in reasons]
    assert parse_qs(urlsplit(page.url).query)["hit"] == [first.case_id]


def test_a_stored_image_that_is_dropped_on_the_page_finds_itself(page: Any, studio: Path) -> None:
    content = list((studio / "cohort" / "images" / "patient03_1.png").read_bytes())
    page.goto("/search")
    page.fill("#mpp", str(MPP))
    held = page.evaluate_handle(
        "bytes => { const held = new DataTransfer();"
        "held.items.add(new File([new Uint8Array(bytes)], 'dropped.png', {type: 'image/png'})); return held; }",
        content,
    )
    page.dispatch_event("#drop", "drop", {"dataTransfer": held})
    assert hits(page)[0] == "patient03_1"
    assert float(page.locator("#hits .hit >> nth=0").inner_text().split("distance ")[1]) < 1e-4


def test_nuclei_of_query_and_hit_are_outlined_and_coloured(page: Any) -> None:
    page.goto("/search?case=patient02_1")
    hit = hits(page)[0]
    page.click("#hits .hit >> nth=0")
    page.select_option("#painted", "shape.nucleus.area.mean")
    page.wait_for_selector("dialog .ramp")
    panes = page.locator("dialog .pane")
    for place, case in enumerate(("patient02_1", hit)):
        found = ask(page.url.split("/search")[0], f"/case/nuclei?id={case}&feature=shape.nucleus.area.mean")
        outlines = panes.nth(place).locator("path.outline")
        assert outlines.count() == len(found["features"]) > 0
        colours = outlines.evaluate_all("paths => paths.map(path => path.getAttribute('stroke'))")
        areas = [one["properties"]["value"] for one in found["features"]]
        assert colours[int(np.argmax(areas))] != colours[int(np.argmin(areas))]
        image, drawn = panes.nth(place).locator("img").bounding_box(), panes.nth(place).locator("svg").bounding_box()
        assert image == pytest.approx(drawn, abs=1)


def test_agreement_is_said_in_words_and_shares_stand_beside_chance(page: Any, archive: Any) -> None:
    page.goto("/search?case=patient01_1&k=15")
    labels = archive.cases()["label"]
    for case, card in zip(hits(page), page.query_selector_all("#hits .hit"), strict=True):
        same = labels[case] == labels["patient01_1"]
        assert ("✓ same label" if same else "✗ other label") in card.inner_text()
    answer = archive.query("patient01_1", k=15)
    text = page.inner_text("#asked")
    for row in answer.labels.itertuples():
        assert f"{row.share:.0%}, chance {row.chance:.0%}" in text.replace("\xa0%", "%")


def test_an_unfamiliar_query_is_announced(page: Any, studio: Path) -> None:
    from PIL import Image

    noise = np.random.default_rng(0).integers(0, 255, (200, 200, 3), dtype=np.uint8)
    Image.fromarray(noise).save(studio / "noise.png")
    upload(page, studio / "noise.png")
    page.wait_for_selector("#strange:visible, #alert:visible")
    assert "nfamiliar" in page.inner_text("#strange")


def test_a_region_of_the_query_is_a_new_query(page: Any, studio: Path, server: str) -> None:
    upload(page, studio / "new.png")
    hits(page)
    before = page.url
    page.click("text=Search with a region of it")
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_function("before => location.href !== before", arg=before)
    query = parse_qs(urlsplit(page.url).query)["query"][0]
    found = ask(server, f"/query?id={query}")
    assert (found["width"], found["height"]) == (160 + 8, 120)
    assert hits(page)


def test_of_a_large_upload_a_box_is_drawn(page: Any, studio: Path, server: str) -> None:
    from PIL import Image

    tissue = np.asarray(Image.open(studio / "new.png"))
    Image.fromarray(np.tile(tissue, (9, 6, 1))).save(studio / "large.png")  # 1920 x 2160 pixels
    upload(page, studio / "large.png")
    page.wait_for_selector("#large:visible svg")
    frame = page.locator("#large svg").bounding_box()
    page.mouse.move(frame["x"] + 0.5 * frame["width"], frame["y"] + 0.1 * frame["height"])
    page.mouse.down()
    page.mouse.move(frame["x"] + 0.6 * frame["width"], frame["y"] + 0.2 * frame["height"], steps=3)
    page.mouse.up()
    page.click("text=Search with this region")
    assert hits(page)
    found = ask(server, f"/query?id={parse_qs(urlsplit(page.url).query)['query'][0]}")
    box = [found["region"][name] for name in ("x", "y", "width", "height")]
    assert box == pytest.approx([960, 216, 192, 216], abs=4)
    assert not page.is_visible("#large")


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(
    ("name", "content", "says"),
    [("letter.png", b"Dear colleague, ...", "not an image"), ("nothing.png", b"", "empty")],
)
def test_a_bad_upload_is_explained(page: Any, tmp_path: Path, name: str, content: bytes, says: str) -> None:
    (tmp_path / name).write_bytes(content)
    upload(page, tmp_path / name)
    page.wait_for_selector("#alert:visible")
    assert says in page.inner_text("#alert")
    assert page.get_attribute("#alert", "role") == "alert"
    page.goto("/search?case=patient01_1")
    assert hits(page)


@pytest.mark.usefixtures("refusals")
def test_an_unknown_case_is_explained(page: Any) -> None:
    assert page.goto("/search?case=nobody").status == 404
    assert "nobody" in page.inner_text("main")


def test_a_name_is_text_and_never_markup(page: Any, studio: Path, tmp_path: Path) -> None:
    wild = tmp_path / "<img src=x onerror=alert(1)>.png"
    shutil.copy(studio / "new.png", wild)
    upload(page, wild)
    hits(page)
    assert "<img src=x" in page.inner_text("#asked-title")
    assert page.locator("#asked-title img").count() == 0


# Map --------------------------------------------------------------------------------------------------------


def lasso(page: Any, corners: list[tuple[float, float]]) -> None:
    """By mouse, in shares of the canvas."""
    box = page.locator("#map").bounding_box()
    at = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in corners]
    page.mouse.move(*at[0])
    page.mouse.down()
    for point in [*at[1:], at[0]]:
        page.mouse.move(*point, steps=4)
    page.mouse.up()


def test_a_lasso_names_the_features_of_those_inside(page: Any, archive: Any, server: str) -> None:
    from shapely import contains_xy
    from shapely.geometry import Polygon

    page.goto("/map?case=patient01_1")
    page.wait_for_selector("#map[data-ready='16']")
    page.check("input[value=lasso]")
    lasso(page, [(0.02, 0.02), (0.5, 0.02), (0.5, 0.98), (0.02, 0.98)])
    page.wait_for_selector("#group table")
    drawn = parse_qs(urlsplit(page.url).query)["lasso"][0]
    polygon = Polygon([tuple(map(float, corner.split("_"))) for corner in drawn.split("~")])
    points = archive.coordinates()
    inside = contains_xy(polygon, points.iloc[:, 0], points.iloc[:, 1])
    assert 0 < inside.sum() < 16
    assert f"{inside.sum()} cases beside {(~inside).sum()}" in page.inner_text("#group-title")
    feature = page.locator("#group tbody a").first.inner_text()
    values = archive.features()[feature]
    assert f"{values[inside].median():.4g}" in page.locator("#group tbody tr").first.inner_text()
    shared = page.url
    page.goto("about:blank")
    page.goto(shared)  # the lasso is in the address
    page.wait_for_selector("#group table")
    assert f"{inside.sum()} cases beside" in page.inner_text("#group-title")


def test_the_map_is_read_by_keys_and_as_a_table(page: Any, archive: Any) -> None:
    page.goto("/map?case=patient01_1")
    page.wait_for_selector("#near table")
    listed = page.locator("#near tbody th").all_inner_texts()
    assert listed == [hit.case_id for hit in archive.query("patient01_1", k=10)]
    page.focus("#map")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => document.getElementById('status').textContent.startsWith('patient')")
    case = page.inner_text("#status").split(":")[0]
    assert case in archive
    page.keyboard.press("Enter")
    page.wait_for_url("**/search?**")
    assert parse_qs(urlsplit(page.url).query)["case"] == [case]


def test_the_map_is_coloured_by_any_feature_and_groups_compare_without_a_mouse(page: Any, archive: Any) -> None:
    page.goto("/map")
    page.wait_for_selector("#map[data-ready]")
    page.get_by_role("button", name="Compare low with the rest").press("Enter")
    page.wait_for_selector("#group table")
    assert "8 cases beside 8" in page.inner_text("#group-title")
    page.select_option("#by", "feature:shape.nucleus.area.mean")
    page.wait_for_selector("#legend .ramp")
    low, high = archive.features()["shape.nucleus.area.mean"].quantile([0.02, 0.98])
    assert page.locator("#legend .ramp span").all_inner_texts() == [f"{low:.3g} µm²", f"{high:.3g} µm²"]
    assert "by=feature" in page.url


def test_points_lie_where_the_embedding_put_them(page: Any, archive: Any) -> None:
    page.goto("/map")
    page.wait_for_selector("#map[data-ready]")
    box, seen = page.locator("#map").bounding_box(), {}
    points = archive.coordinates().to_numpy()[:, :2]
    middle, span = (points.max(0) + points.min(0)) / 2, np.ptp(points, axis=0) * 1.08
    scale = min(box["width"] / span[0], box["height"] / span[1])
    page.wait_for_function("() => performance.getEntriesByName(location.origin + '/api/v1/map/ids').length > 0")
    for row, case in enumerate(archive.coordinates().index):
        across, down = (points[row] - middle) * [scale, -scale]
        page.mouse.move(box["x"] + box["width"] / 2 + across, box["y"] + box["height"] / 2 + down)
        page.wait_for_selector("#tip:visible")
        seen[case] = page.inner_text("#tip").split(":")[0]
    assert sum(case == shown for case, shown in seen.items()) >= 14  # two may lie within a pixel of each other


# Features ---------------------------------------------------------------------------------------------------


def test_a_feature_is_shown_by_class_and_at_its_extremes(page: Any, archive: Any) -> None:
    name = "shape.nucleus.area.mean"
    page.goto(f"/feature?name={name}")
    page.wait_for_selector("#feature .main-svg")
    values, labels = archive.features()[name], archive.cases()["label"]
    caption = page.inner_text("figcaption")
    for label, own in values.groupby(labels):
        assert f"{label} {own.median():.4g}" in caption
    assert page.get_attribute("#feature .chart", "aria-label") == caption
    cards = page.locator("ul.eight")
    assert values.idxmin() in cards.first.locator("li").first.inner_text()
    assert values.idxmax() in cards.last.locator("li").first.inner_text()
    page.wait_for_function("() => [...document.images].every(one => one.complete && one.naturalWidth > 0)")


def test_importance_is_worked_out_and_leads_to_the_feature(page: Any) -> None:
    page.goto("/features")
    page.click("text=Work out the importance")
    page.wait_for_selector("#importance .main-svg")
    first = page.locator("#importance tbody a").first
    name = first.inner_text()
    assert name in page.locator("#importance figcaption").first.inner_text()
    first.click()
    page.wait_for_url(f"**/feature?name={quote(name)}")


def test_the_list_of_features_is_filtered_and_shared(page: Any, archive: Any) -> None:
    page.goto("/features")
    page.wait_for_selector("#list li")
    page.fill("#text", "area.mean")
    page.wait_for_function("() => location.search.includes('area.mean')")
    wanted = [name for name in archive.feature_names if "area.mean" in name]
    assert page.locator("#list li").all_inner_texts() == wanted
    page.reload()
    page.wait_for_selector("#list li")
    assert page.locator("#list li").all_inner_texts() == wanted


# Slides -----------------------------------------------------------------------------------------------------


def test_a_slide_is_shown_pixel_for_pixel(page: Any, studio: Path) -> None:
    import tifffile

    pixels = tifffile.imread(studio / "slides" / "large.tif")
    page.goto("/slide?id=file:large.tif&x=450&y=350&zoom=1")
    page.wait_for_selector("#slide[data-loading='0']")
    page.wait_for_timeout(300)
    seen = page.evaluate(
        "() => { const c = document.getElementById('slide'); const n = 100;"
        "return [...c.getContext('2d').getImageData(c.width / 2 - n, c.height / 2 - n, 2 * n, 2 * n).data]; }"
    )
    shown = np.array(seen, dtype=float).reshape(200, 200, 4)[..., :3]
    offsets = [(y, x) for y in (-1, 0, 1) for x in (-1, 0, 1)]  # the middle of the canvas may fall between pixels
    gaps = [np.abs(shown - pixels[250 + y : 450 + y, 350 + x : 550 + x]).mean() for y, x in offsets]
    assert min(gaps) < 8, "more than JPEG takes away"


def test_nuclei_a_heat_map_and_a_search_with_the_view(page: Any) -> None:
    page.goto("/slide?id=file:large.tif&x=300&y=300&zoom=2.5")
    page.wait_for_selector("#slide[data-loading='0']")
    page.fill("#feature", "shape.nucleus.area.mean")
    page.click("#nuclei")
    page.wait_for_selector("#legend .ramp")
    assert int(page.inner_text("#legend").split(" nuclei")[0]) > 20
    page.click("#nuclei")
    page.wait_for_selector("#legend .ramp", state="detached")
    page.click("#heat")
    page.wait_for_selector("#legend .ramp")
    assert "12 tiles of 256 pixels" in page.inner_text("#legend")
    page.click("#search")
    page.wait_for_url("**/search?query=**")
    assert hits(page)


def test_a_box_on_a_slide_is_a_query(page: Any, server: str) -> None:
    page.goto("/slide?id=file:large.tif&x=450&y=350&zoom=1")
    page.wait_for_selector("#slide[data-loading='0']")
    page.click("#box")
    frame = page.locator("#slide").bounding_box()
    middle = frame["x"] + frame["width"] / 2, frame["y"] + frame["height"] / 2
    page.mouse.move(middle[0] - 90, middle[1] - 80)
    page.mouse.down()
    page.mouse.move(middle[0] + 90, middle[1] + 80, steps=3)
    page.mouse.up()
    page.click("text=Search with the box")
    page.wait_for_url("**/search?query=**")
    found = ask(server, f"/query?id={parse_qs(urlsplit(page.url).query)['query'][0]}")
    box = [found["region"][name] for name in ("x", "y", "width", "height")]
    assert box == pytest.approx([360, 270, 180, 160], abs=2)
    assert hits(page)
    outlines = ask(server, f"/query/nuclei?id={found['query']}")
    corners = np.vstack([one["geometry"]["coordinates"][0] for one in outlines["features"]])
    assert (corners >= 0).all(), "outlines count from the corner of the box"
    assert (corners <= [outlines["width"], outlines["height"]]).all()


def test_the_slide_moves_by_keys_and_the_address_follows(page: Any) -> None:
    page.goto("/slide?id=file:large.tif&x=450&y=350&zoom=1")
    page.wait_for_selector("#slide[data-loading='0']")
    page.focus("#slide")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("+")
    page.wait_for_function("() => location.search.includes('zoom=1.5')")
    wanted = parse_qs(urlsplit(page.url).query)
    assert (wanted["x"], wanted["y"]) == (["570"], ["350"])
    text = page.inner_text("#where")
    page.reload()
    page.wait_for_selector("#slide[data-loading='0']")
    assert page.inner_text("#where") == text


# Evidence ---------------------------------------------------------------------------------------------------


def test_work_can_be_cancelled_and_done_again(page: Any) -> None:
    page.goto("/evidence")
    page.click("text=Evaluate this archive")
    page.click("#evidence >> text=Cancel")
    page.wait_for_selector("#evidence >> text=It was cancelled")
    page.click("text=Evaluate this archive")
    page.wait_for_selector("#evidence .main-svg", timeout=120_000)
    text = page.inner_text("#evidence")
    assert "Chance" in text
    assert "95 % interval" in text
    assert page.locator("#evidence tbody tr").count() > 3
    page.click("text=Work out survival")
    page.wait_for_selector("#survival .main-svg", timeout=120_000)
    assert "Log-rank p" in page.inner_text("#survival")


# For everybody ----------------------------------------------------------------------------------------------


def test_the_whole_path_by_keyboard(page: Any) -> None:
    page.goto("/search?case=patient01_1")
    first = hits(page)[0]
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.evaluate("document.activeElement.getBoundingClientRect().top") >= 0
    page.keyboard.press("Enter")
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.dataset.case") == first:
            break
    style = page.evaluate(
        "(({outlineStyle, outlineWidth}) => [outlineStyle, outlineWidth])(getComputedStyle(document.activeElement))"
    )
    assert style == ["solid", "3px"]
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open]")
    assert page.evaluate("document.querySelector('dialog').contains(document.activeElement)")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog[open]", state="hidden")
    assert page.evaluate("document.activeElement.dataset.case") == first
    assert "hit=" not in page.url


def test_a_shared_address_opens_the_same_hit(page: Any) -> None:
    page.goto("/search?case=patient01_1&k=5")
    last = hits(page)[-1]
    page.click("#hits .hit >> nth=4")
    page.wait_for_selector("dialog[open]")
    shared, title = page.url, page.inner_text("#compare-title")
    page.goto("about:blank")
    page.goto(shared)
    page.wait_for_selector("dialog[open]")
    assert page.inner_text("#compare-title") == title == f"Hit 5 of 5: {last}"
    page.go_back()


VIEWS = {
    "search": ("/search", "#label option >> nth=2"),
    "answer": ("/search?case=patient01_1", "#hits .hit"),
    "hit": ("/search?case=patient01_1&hit=patient01_2&own_patient=1&k=15", "dialog .reason"),
    "map": ("/map?case=patient01_1", "#near table"),
    "features": ("/features", "#list li"),
    "feature": ("/feature?name=shape.nucleus.area.mean", "#feature .main-svg"),
    "slides": ("/slides", "#images .hit"),
    "slide": ("/slide?id=file:large.tif", "#slide[data-loading='0']"),
    "evidence": ("/evidence", "#evidence button, #evidence table"),
    "cases": ("/cases", ".hit"),
    "case": ("/case?id=patient01_1", "table"),
}


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_accessible_and_fits(page: Any, view: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    address, ready = VIEWS[view]
    page.goto(address)
    page.wait_for_selector(ready, state="attached")
    page.wait_for_timeout(300)
    found = Axe().run(page).response
    assert len(found["passes"]) > 20, "axe did not look"
    serious = [one for one in found["violations"] if one["impact"] in ("serious", "critical")]
    assert not [(one["id"], one["nodes"][0]["html"][:200]) for one in serious]
    assert page.locator("h1").count() == 1
    assert page.evaluate("[...document.images].every(one => one.hasAttribute('alt'))")
    for width in (1280, 768):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_timeout(200)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
