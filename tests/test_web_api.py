"""The HTTP API says what the archive says: every operation against the library's own answer."""

import base64
import io
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sklearn.metrics import roc_auc_score

from clearfold.archive import Archive
from clearfold.embedding import PCA
from clearfold.web import Settings
from web_server import HTML, STRANGE, Served, serving, table_archive, tissue_archive

AREA = "shape.nucleus.area.mean"
# the server ignores clearfold's warnings itself, but pytest sets its filter anew for each test, and threads share one
pytestmark = pytest.mark.filterwarnings("ignore::clearfold.errors.ClearfoldWarning")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("web")


@pytest.fixture(scope="module")
def tissue(place: Path) -> Iterator[Served]:
    archive = tissue_archive(place)
    wide = Image.fromarray(np.random.default_rng(0).integers(0, 255, (300, 600, 3), dtype=np.uint8))
    wide.save(place / "cohort" / "wide.png")
    with serving(archive, Settings(slides=(place / "cohort",))) as served:
        yield served


@pytest.fixture(scope="module")
def table(place: Path) -> Iterator[Served]:
    with serving(table_archive(place)) as served:
        yield served


@pytest.fixture(scope="module")
def opened(place: Path, table: Served) -> Iterator[Archive]:
    with Archive.open(place / "table.clearfold", read_only=True) as archive:
        yield archive


def decoded(given: dict[str, str]) -> Any:
    return np.frombuffer(base64.b64decode(given["bdata"]), dtype=f"<{given['dtype']}")


def picture(served: Served, path: str, **asked: Any) -> Image.Image:
    answer = served.get(f"/api/v1{path}", **asked)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "image/jpeg"
    return Image.open(io.BytesIO(answer.content))


def tissue_png(place: Path, name: str = "patient01_1") -> bytes:
    return (place / "cohort" / "images" / f"{name}.png").read_bytes()


# the archive and its cases


def test_the_archive_says_what_it_holds(table: Served) -> None:
    facts = table.json("/archive")
    assert (facts["name"], facts["count"], facts["features"], facts["active"]) == ("table.clearfold", 60, 6, 1)
    assert {row["label"]: row["count"] for row in facts["labels"]} == {"low": 30, "high": 29, HTML: 1}
    assert {row["family"]: row["features"] for row in facts["families"]} == {"shape": 2, "graph": 2, "texture": 2}
    assert facts["survival"] is True
    assert {"time", "event", "organ"} <= set(facts["columns"])


def test_the_description_names_every_address(table: Served) -> None:
    described = table.get("/api/v1").json()
    for path in ("/archive", "/cases", "/case", "/queries", "/search", "/map", "/feature", "/slide/tile", "/evidence"):
        assert f"/api/v1{path}" in described["paths"]


def test_pages_of_cases_hold_every_case_once(table: Served, opened: Archive) -> None:
    pages = [table.json("/cases", page=page, per_page=25) for page in (1, 2, 3)]
    assert [page["pages"] for page in pages] == [3, 3, 3]
    assert [case["case_id"] for page in pages for case in page["cases"]] == list(opened.cases().index)


def test_cases_are_filtered_by_label_column_and_name(table: Served, opened: Archive) -> None:
    known = opened.cases()
    assert table.json("/cases", label="high")["total"] == (known["label"] == "high").sum()
    both = table.json("/cases", where=["organ:breast", "label:low"])
    assert both["total"] == ((known["organ"] == "breast") & (known["label"] == "low")).sum()
    assert [case["case_id"] for case in table.json("/cases", text="CASE01")["cases"]] == [
        name for name in known.index if name.startswith("case01")
    ]
    assert "columns are" in table.error("/cases", 422, where="nothing:x")
    assert table.json("/names", text="case00", limit=3)["cases"] == ["case000", "case001", "case002"]


def test_a_case_has_its_features_and_where_they_stand(table: Served, opened: Archive) -> None:
    case = table.json("/case", id=STRANGE)
    features = opened.features()
    assert case["label"] == HTML
    assert [row["value"] for row in case["features"]] == features.loc[STRANGE].tolist()
    column = features["shape.area"].to_numpy()
    expected = 100 * ((column < column[-1]).sum() + 0.5) / len(column)
    assert case["features"][0]["percentile"] == pytest.approx(expected)
    assert case["coordinates"] == pytest.approx(opened.coordinates().loc[STRANGE].tolist())


def test_a_missing_value_is_null(table: Served) -> None:
    row = table.json("/case", id="case000")["features"][3]
    assert (row["feature"], row["value"], row["percentile"]) == ("graph.nodes", None, None)


def test_where_files_lie_is_not_told(tissue: Served, place: Path) -> None:
    assert tissue.json("/case", id="patient01_1")["about"]["image"] == "patient01_1.png"
    for path in ("/cases", "/case?id=patient01_1", "/search?case=patient01_1", "/map/colour?by=image", "/slides"):
        assert str(place) not in tissue.get(f"/api/v1{path}").text


def test_pictures_of_a_case(tissue: Served, place: Path) -> None:
    assert picture(tissue, "/case/thumbnail", id="patient01_1").size == (128, 128)
    whole = np.asarray(picture(tissue, "/case/image", id="patient01_1"), dtype=float)
    truth = np.asarray(Image.open(io.BytesIO(tissue_png(place))).convert("RGB"), dtype=float)
    assert np.abs(whole - truth).mean() < 8  # a JPEG of it
    assert picture(tissue, "/case/image", id="patient01_1", most=64).size == (64, 64)


# search


def test_search_by_case_gives_what_the_archive_gives(table: Served, opened: Archive) -> None:
    expected = opened.query("case010", 7)
    found = table.json("/search", case="case010", k=7)
    assert [hit["case_id"] for hit in found["hits"]] == [hit.case_id for hit in expected]
    assert [hit["distance"] for hit in found["hits"]] == pytest.approx([hit.distance for hit in expected])
    assert found["hits"][0]["near"][0]["feature"] == expected[0].reasons.near[0].feature
    assert [hit["agrees"] for hit in found["hits"]] == [hit.label == "low" for hit in expected]
    assert found["asked"]["point"] == pytest.approx(opened.coordinates().loc["case010"].tolist())
    assert found["how"] == expected[0].reasons.how


def test_reasons_of_a_hit_are_those_of_the_search(table: Served) -> None:
    hit = table.json("/search", case="case010", k=3)["hits"][2]
    alone = table.json("/reasons", case="case010", hit=hit["case_id"])
    assert (alone["near"], alone["far"]) == (hit["near"], hit["far"])
    assert len(alone["table"]) == 6


def test_a_filter_holds_for_search(table: Served) -> None:
    found = table.json("/search", case="case010", k=20, where="organ:breast", label="high", reasons=False)
    assert {(hit["about"]["organ"], hit["label"]) for hit in found["hits"]} == {("breast", "high")}
    assert "near" not in found["hits"][0]


def test_own_patient_answers_only_when_asked(tissue: Served) -> None:
    others = tissue.json("/search", case="patient01_1", k=11, reasons=False)["hits"]
    assert {hit["patient_id"] for hit in others} == {f"patient{i:02d}" for i in range(2, 7)}
    own = tissue.json("/search", case="patient01_1", k=11, own_patient=True, reasons=False)["hits"]
    assert "patient01_2" in {hit["case_id"] for hit in own}
    assert "patient01_1" not in {hit["case_id"] for hit in own}


def test_an_uploaded_image_finds_itself(tissue: Served, place: Path) -> None:
    answer = tissue.upload(tissue_png(place, "patient03_2"), mpp="0.5", label="high")
    assert answer.status_code == 200, answer.text
    query = answer.json()["result"]["query"]
    assert (query["width"], query["height"], query["mpp"], query["label"]) == (128, 128, 0.5, "high")
    found = tissue.json("/search", query=query["query"], k=3)
    assert found["hits"][0]["case_id"] == "patient03_2"
    assert found["hits"][0]["distance"] < 1e-6
    assert found["hits"][0]["agrees"] is False  # the person said high, the case is low
    assert len(found["hits"][0]["near"]) == 5
    stored = tissue.json("/case", id="patient03_2")
    mine = tissue.json("/query", id=query["query"])
    assert [row["value"] for row in mine["features"]] == pytest.approx([row["value"] for row in stored["features"]])
    assert picture(tissue, "/query/image", id=query["query"]).size == (128, 128)


def test_a_box_of_a_slide_is_a_query_with_an_address(tissue: Served) -> None:
    box = {"slide": "case:patient02_1", "x": 10, "y": 20, "width": 100, "height": 90}
    asked = [tissue.client.post("/api/v1/queries?wait=60", json=box).json() for _ in range(2)]
    first, again = (job["result"]["query"] for job in asked)
    assert first["query"] == again["query"]
    assert (first["width"], first["height"]) == (100, 90)
    outlines = tissue.json("/query/nuclei", id=first["query"])  # in the frame of the box's own picture
    points = np.concatenate([one["geometry"]["coordinates"][0] for one in outlines["features"]])
    assert (outlines["width"], outlines["height"], len(outlines["features"])) == (100, 90, first["nuclei"])
    assert (points >= 0).all()
    assert (points <= [100, 90]).all()
    hits = tissue.json("/search", query=first["query"], k=10, reasons=False)["hits"]
    assert "patient02" not in {hit["patient_id"] for hit in hits}  # the slide's own patient


def test_the_whole_upload_as_a_box_has_the_same_features(tissue: Served, place: Path) -> None:
    whole = tissue.upload(tissue_png(place), mpp="0.5").json()["result"]["query"]["query"]
    box = {"query": whole, "x": -5, "y": 0, "width": 133, "height": 500}
    part = tissue.client.post("/api/v1/queries?wait=60", json=box).json()["result"]["query"]["query"]
    one, other = (tissue.json("/query", id=name)["features"] for name in (whole, part))
    assert one == other


def test_outlines_carry_the_value_of_a_feature(tissue: Served, place: Path) -> None:
    query = tissue.upload(tissue_png(place), mpp="0.5").json()["result"]["query"]
    found = tissue.json("/query/nuclei", id=query["query"], feature=AREA)
    values = [one["properties"]["value"] for one in found["features"]]
    assert len(values) == query["nuclei"] > 3
    area = next(row["value"] for row in tissue.json("/query", id=query["query"])["features"] if row["feature"] == AREA)
    assert np.mean(values) == pytest.approx(area)
    points = np.concatenate([one["geometry"]["coordinates"][0] for one in found["features"]])
    assert points.min() >= 0
    assert points.max() <= 128
    assert found["column"] == "shape.area"
    assert tissue.json("/case/nuclei", id="patient01_1", feature=AREA)["features"] == found["features"]
    other = tissue.json("/case/nuclei", id="patient01_1", feature="texture.grey.haralick_asm_d1")
    assert "not a feature of single nuclei" in other["note"]


def test_an_archive_of_a_table_says_why_it_takes_no_image(table: Served, place: Path) -> None:
    answer = table.upload(tissue_png(place))
    assert answer.status_code == 422
    assert "made from a table" in answer.json()["error"]["message"]


def test_of_a_large_upload_a_box_is_asked_for(place: Path, tissue: Served) -> None:
    with serving(place / "tissue.clearfold", Settings(measured=10_000)) as small:
        query = small.upload(tissue_png(place), mpp="0.5").json()["result"]["query"]
        assert (query["large"], query["nuclei"]) == (True, None)
        assert "Draw a box" in small.error("/search", 422, query=query["query"])
        assert "Draw a box" in small.error("/query/nuclei", 413, id=query["query"])
        box = {"query": query["query"], "x": 0, "y": 0, "width": 90, "height": 90}
        part = small.client.post("/api/v1/queries?wait=60", json=box).json()["result"]["query"]
        assert part["large"] is False
        assert len(small.json("/search", query=part["query"], k=2)["hits"]) == 2
        too_large = small.client.post("/api/v1/queries?wait=60", json=box | {"width": 128})
        assert too_large.status_code == 413


# the map


def test_the_map_is_the_coordinates(table: Served, opened: Archive) -> None:
    found = table.json("/map")
    expected = opened.coordinates().to_numpy(dtype=np.float32)
    np.testing.assert_array_equal(np.stack([decoded(found["x"]), decoded(found["y"])], axis=1), expected)
    assert table.json("/map/ids")["ids"] == list(opened.coordinates().index)
    assert "axes 0 to 1" in table.error("/map", 422, axes="0,5")


def test_colours_are_the_columns(table: Served, opened: Archive) -> None:
    by_label = table.json("/map/colour", by="label")
    names = np.array(by_label["names"], dtype=object)[decoded(by_label["codes"])]
    assert names.tolist() == opened.cases()["label"].tolist()
    by_feature = table.json("/map/colour", by="feature:graph.nodes")
    expected = opened.features()["graph.nodes"].to_numpy(dtype=np.float32)
    np.testing.assert_array_equal(decoded(by_feature["values"]), expected)
    assert table.json("/map/colour", by="time")["kind"] == "number"
    assert table.error("/map/colour", 404, by="feature:none").startswith("There is no feature 'none'")
    assert table.error("/map/colour", 422, by="none").startswith("There is no column 'none'")


def test_a_group_is_told_apart_by_what_differs(table: Served, opened: Archive) -> None:
    inside = (opened.cases()["label"] == "high").to_numpy()
    rows = np.flatnonzero(inside).tolist()
    found = table.client.post("/api/v1/map/group", json={"rows": rows}).json()
    values = opened.features()["shape.area"].to_numpy()
    first = found["features"][0]
    assert first["feature"] == "shape.area"
    assert first["auc"] == pytest.approx(roc_auc_score(inside, values), abs=1e-6)
    spread = np.sqrt((values[inside].var() + values[~inside].var()) / 2)
    assert first["difference"] == pytest.approx((values[inside].mean() - values[~inside].mean()) / spread, rel=1e-5)
    assert (found["count"], found["rest"], found["sampled"]) == (29, 31, False)
    assert "no p-value" in found["note"].replace("\n", " ")
    named = table.client.post("/api/v1/map/group", json={"cases": opened.cases().index[inside].tolist()}).json()
    assert named["features"] == found["features"]


@pytest.mark.parametrize("given", [{"rows": [0]}, {"rows": [0, 10**6]}, {"rows": "all"}, {}, {"rows": [0.5, 1]}])
def test_a_group_that_is_none_is_refused(table: Served, given: dict[str, Any]) -> None:
    assert table.client.post("/api/v1/map/group", json=given).status_code == 422


# features


def test_a_feature_by_class_and_at_its_extremes(table: Served, opened: Archive) -> None:
    found = table.json("/feature", name="graph.nodes")
    column = opened.features()["graph.nodes"]
    assert found["missing"] == column.isna().sum() == 6
    assert sum(sum(row["histogram"]) for row in found["classes"]) == column.notna().sum()
    assert [row["case_id"] for row in found["lowest"]] == column.nsmallest(8).index.tolist()
    assert [row["case_id"] for row in found["highest"]] == column.nlargest(8).index.tolist()
    assert found["median"] == pytest.approx(column.median())
    assert len(found["bins"]) == 41
    assert table.json("/feature", name=f"texture.{HTML}")["family"] == "texture"
    assert [row["feature"] for row in table.json("/features")["features"]] == opened.feature_names


def test_two_classes_have_an_auc(tissue: Served) -> None:
    found = tissue.json("/feature", name=AREA)
    assert [row["label"] for row in found["classes"]] == ["high", "low"]
    assert found["auc"] == 0.0  # nuclei of low grade are always smaller here
    assert (found["unit"], found["formula"]) == ("µm²", "number of pixels")


def test_importance_is_worked_out_once(table: Served) -> None:
    assert table.json("/importance") == {"state": "absent", "job": None, "result": None}
    job = table.client.post("/api/v1/importance?wait=60").json()
    assert job["state"] == "done", job
    result = table.json("/importance")["result"]
    assert {row["feature"] for row in result["table"][:2]} == {"shape.area", "shape.length"}
    assert result["families"][0]["family"] == "shape"
    assert "left out" in result["notes"][0]  # a label of one patient
    assert sum(row["importance"] for row in result["table"]) == pytest.approx(1)
    assert table.client.post("/api/v1/importance?wait=60").json()["id"] == job["id"]


def test_evidence_and_survival_come_from_the_library(table: Served) -> None:
    table.client.post("/api/v1/evidence")
    job = table.client.post("/api/v1/survival?wait=60").json()
    assert job["state"] == "done", job
    groups = job["result"]["groups"]
    assert [group["name"] for group in groups] == ["low", "high"]
    assert all(group["survival"][0] == 1 and np.all(np.diff(group["survival"]) <= 0) for group in groups)
    assert job["result"]["concordance"] > 0.55
    evidence = table.json("/evidence")
    assert evidence["state"] == "ready", evidence
    assert evidence["result"]["patients"] == 59
    first = evidence["result"]["table"][0]
    assert first["macro"] > first["chance_macro"]
    curve = evidence["result"]["curves"][first["method"]]
    assert len(curve["recall"]) == len(curve["precision"])


def test_no_times_no_survival(tissue: Served) -> None:
    assert "no survival times" in tissue.error("/survival", 404)


# slides


def test_tiles_make_up_the_slide(tissue: Served) -> None:
    facts = tissue.json("/slide", id="file:wide.png")
    assert (facts["width"], facts["height"], facts["levels"], facts["mpp"]) == (600, 300, 11, None)
    sizes = [
        [picture(tissue, "/slide/tile", id="file:wide.png", level=10, column=x, row=y).size for x in range(3)]
        for y in range(2)
    ]
    assert sizes == [[(256, 256), (256, 256), (88, 256)], [(256, 44), (256, 44), (88, 44)]]
    assert picture(tissue, "/slide/tile", id="file:wide.png", level=9, column=1, row=0).size == (44, 150)
    assert picture(tissue, "/slide/tile", id="file:wide.png", level=0, column=0, row=0).size == (1, 1)
    for wrong in ({"level": 11}, {"level": -1}, {"column": 3}, {"row": -1}):
        tissue.error("/slide/tile", 404, **{"id": "file:wide.png", "level": 10, "column": 0, "row": 0} | wrong)


def test_a_tile_shows_its_part_of_the_slide(tissue: Served, place: Path) -> None:
    tile = np.asarray(picture(tissue, "/slide/tile", id="case:patient01_1", level=7, column=0, row=0), dtype=float)
    truth = np.asarray(Image.open(io.BytesIO(tissue_png(place))).convert("RGB"), dtype=float)
    assert np.abs(tile - truth).mean() < 8


def test_slides_are_listed_and_outlined(tissue: Served) -> None:
    listed = tissue.json("/slides")
    assert {"id": "file:wide.png", "name": "wide.png"} in listed["slides"]
    asked = {"id": "case:patient01_1", "x": 30, "y": 40, "width": 80, "height": 60}
    found = tissue.json("/slide/nuclei", **asked, feature=AREA)
    points = np.concatenate([one["geometry"]["coordinates"][0] for one in found["features"]])
    assert (points >= [30, 40]).all()
    assert (points <= [110, 100]).all()
    assert "Zoom in" in tissue.error("/slide/nuclei", 422, **asked | {"width": 1e6})


def test_a_map_of_a_feature_over_a_slide(tissue: Served) -> None:
    asked = {"id": "case:patient01_1", "feature": AREA, "tile": 128}
    job = tissue.client.post("/api/v1/slide/heat?wait=60", json=asked).json()
    assert job["state"] == "done", job
    (tile,) = job["result"]["tiles"]
    whole = next(row for row in tissue.json("/case", id="patient01_1")["features"] if row["feature"] == AREA)
    assert tile["value"] == pytest.approx(whole["value"])
    assert tissue.client.post("/api/v1/slide/heat", json=asked | {"feature": "none"}).status_code == 404
    assert tissue.client.post("/api/v1/slide/heat", json=asked | {"tile": 1}).status_code == 422


# long work and many at once


def test_a_job_can_be_watched_and_cancelled(tissue: Served) -> None:
    asked = {"id": "file:wide.png", "feature": AREA, "tile": 128, "mpp": 0.5}
    job = tissue.client.post("/api/v1/slide/heat", json=asked).json()
    gone = tissue.client.delete(f"/api/v1/jobs/{job['id']}").json()
    assert gone["state"] == "cancelled"
    again = tissue.client.post("/api/v1/slide/heat?wait=60", json=asked).json()
    assert again["state"] == "done", again
    assert again["progress"] == 1.0
    assert tissue.json(f"/jobs/{again['id']}")["result"]["tiles"] == again["result"]["tiles"]
    assert "no job" in tissue.error("/jobs/j-none", 404)


def test_more_jobs_than_may_wait_are_refused(tissue: Served) -> None:
    asked = {"id": "file:wide.png", "feature": AREA, "tile": 128, "mpp": 0.5}
    answers = [tissue.client.post("/api/v1/slide/heat", json=asked) for _ in range(25)]
    assert [answer.status_code for answer in answers[:20]] == [202] * 20
    assert answers[-1].status_code == 503
    assert answers[-1].headers["retry-after"] == "5"
    for answer in answers:
        if answer.status_code == 202:
            tissue.client.delete(f"/api/v1/jobs/{answer.json()['id']}")


def test_many_searches_at_once_answer_as_one_does(table: Served) -> None:
    names = [f"case{i:03d}" for i in range(20)]
    alone = [table.json("/search", case=name) for name in names]
    with ThreadPoolExecutor(20) as crowd:
        found = list(crowd.map(lambda name: table.json("/search", case=name), names * 2))
    assert found == alone * 2


def test_what_takes_too_long_is_stopped_and_the_server_stays(place: Path, tissue: Served) -> None:
    with serving(place / "tissue.clearfold", Settings(seconds=0.2)) as hasty:
        answer = hasty.upload(tissue_png(place), mpp="0.5")
        assert answer.status_code == 504
        assert "longer than 0.2 s" in answer.json()["error"]["message"]
        assert hasty.json("/archive")["count"] == 12


def test_a_change_of_the_archive_is_seen(tmp_path: Path) -> None:
    frame = pd.DataFrame({"case_id": list("abcd"), "f": [1.0, 2, 4, 3], "g": [0.0, 1, 0, 2]})
    with Archive.open(tmp_path / "small.clearfold") as archive:
        archive.add(frame)
        with serving(tmp_path / "small.clearfold") as served:
            assert "no embedding" in served.error("/search", 409, case="a")
            assert "no embedding" in served.error("/map", 409)
            assert served.json("/feature", name="f")["highest"][0]["case_id"] == "c"
            archive.add(frame.assign(case_id=list("efgh"), f=[9.0, 8, 7, 6]))
            archive.fit(PCA(n_components=2))
            assert served.json("/archive")["count"] == 8
            assert served.json("/feature", name="f")["highest"][0]["case_id"] == "e"
            assert served.json("/map")["count"] == 8
            archive.remove(case_id="e")
            assert served.json("/map/ids")["ids"] == list("abcdfgh")
            assert "no case 'e'" in served.error("/case", 404, id="e")


def test_an_empty_archive_is_served(tmp_path: Path) -> None:
    with Archive.open(tmp_path / "empty.clearfold"):
        pass
    with serving(tmp_path / "empty.clearfold") as served:
        assert served.json("/archive")["count"] == 0
        assert served.json("/cases") == {"page": 1, "pages": 1, "per_page": 50, "total": 0, "cases": []}
        assert served.get("/search").status_code == 200


def test_threads_end_with_the_server(tmp_path: Path) -> None:
    table_archive(tmp_path, n=20)
    before = threading.active_count()
    with serving(tmp_path / "table.clearfold") as served:
        folder = served.library.folder
        served.json("/search", case="case001")
    until = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < until:
        time.sleep(0.05)
    assert threading.active_count() <= before
    assert not folder.exists()
