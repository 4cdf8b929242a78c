"""`clearfold segment` writes what the segmenters find, for one image, a folder and a slide, and fails in words."""

import importlib
import json
from pathlib import Path

import numpy as np
import pytest
import tifffile
from PIL import Image
from typer.testing import CliRunner, Result

from clearfold.cli import app
from clearfold.objects import match, read_objects, read_polygons, segment_nuclei
from test_segmentation import tissue

command = importlib.import_module("clearfold.cli.segment")  # as an attribute, `segment` is the function


def run(*words: object) -> Result:
    return CliRunner().invoke(app, ["segment", *map(str, words)])


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two images and a file that is none."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "images").mkdir()
    for seed in (0, 1):
        Image.fromarray(tissue(seed=seed, size=70)[0]).save(tmp_path / "images" / f"tile{seed}.png")
    return tmp_path


def test_one_image_gives_the_objects_of_the_function_and_a_picture(place: Path) -> None:
    result = run("images/tile0.png", "-o", "nuclei.geojson", "--mpp", 0.5, "--overlay", "seen.png", "--json")
    assert result.exit_code == 0, result.output
    pixels = np.asarray(Image.open("images/tile0.png"))
    expected = segment_nuclei(pixels, mpp=0.5)
    written = read_objects("nuclei.geojson", expected.shape)
    np.testing.assert_array_equal(written.labels > 0, expected.labels > 0)
    assert written.mpp == 0.5
    facts = json.loads(result.stdout)["images"]["images/tile0.png"]
    diameters = 2 * np.sqrt(expected.areas * 0.25 / np.pi)
    assert facts["objects"] == len(expected)
    assert facts["median diameter (um)"] == pytest.approx(np.median(diameters), abs=1e-3)
    with Image.open("seen.png") as picture:
        assert picture.size[0] > 100


def test_a_folder_goes_on_when_an_image_cannot_be_read(place: Path) -> None:
    (place / "images" / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nnothing")
    (place / "images" / "notes.txt").write_text("not an image")
    result = run("images", "-o", "out", "--mpp", 0.5)
    assert result.exit_code == 1
    assert "broken.png" in result.stderr
    assert sorted(path.name for path in (place / "out").iterdir()) == ["tile0.geojson", "tile1.geojson"]
    assert "tile1.png" in result.stdout


def test_nothing_that_can_be_read_is_exit_code_2(place: Path) -> None:
    (place / "broken.png").write_bytes(b"nothing")
    assert run("broken.png", "-o", "a.geojson").exit_code == 2
    assert run("missing.png", "-o", "a.geojson").exit_code == 2
    assert not (place / "a.geojson").exists()


def test_outputs_that_cannot_be_are_refused_before_the_work(place: Path) -> None:
    (place / "empty").mkdir()
    (place / "file.txt").write_text("")
    for words in (
        ("images", "-o", "all.geojson"),
        ("images/tile0.png", "-o", "file.txt"),
        ("empty", "-o", "out"),
        ("images/tile0.png", "images/tile1.png", "-o", "out", "--overlay", "one.png"),
        ("images/tile0.png", "-o", "nuclei.csv"),
        ("images/tile0.png", "-o", "a.geojson", "--overlay", "one.jpg"),
    ):
        result = run(*words, "--mpp", 0.5)
        assert result.exit_code == 2, words
        assert "error:" in result.stderr


def test_a_mask_has_the_labels_of_the_outlines(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.geojson", "a.png", "a.tif"):
        assert run("images/tile0.png", "-o", name, "--mpp", 0.5).exit_code == 0
    with Image.open(place / "images" / "tile0.png") as picture:
        shape = picture.size[::-1]
    found = [read_objects(name, shape).labels for name in ("a.geojson", "a.png", "a.tif")]
    assert found[0].max() > 0
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    monkeypatch.setattr(command, "WHOLE", 50)
    result = run("images/tile0.png", "-o", "b.png", "--mpp", 0.5)
    assert result.exit_code == 2
    assert "tiles, which give GeoJSON" in result.stderr
    assert not (place / "b.png").exists()


def test_an_unknown_scale_is_said_once(place: Path) -> None:
    result = run("images", "-o", "out")
    assert result.exit_code == 0
    assert result.stderr.count("UnknownScaleWarning") == 1


def test_tiles_give_what_the_whole_image_gives(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pixels, truth = tissue(size=150)
    tifffile.imwrite("large.tif", pixels, photometric="rgb", tile=(64, 64))
    assert run("large.tif", "-o", "whole.geojson", "--mpp", 0.5).exit_code == 0
    monkeypatch.setattr(command, "WHOLE", 100)
    monkeypatch.setattr(command, "TILES", {command.Kind.nucleus: (128, 40, 0.5)})
    result = run("large.tif", "-o", "tiles.geojson", "--mpp", 0.5, "--overlay", "map.png", "--json")
    assert result.exit_code == 0, result.output
    whole, tiles = (read_objects(name, truth.shape) for name in ("whole.geojson", "tiles.geojson"))
    assert match(whole, tiles).f1 > 0.97  # stains are those of each tile
    assert len(read_polygons("tiles.geojson")) == json.loads(result.stdout)["images"]["large.tif"]["objects"]
    assert (place / "map.png").exists()


def test_a_coarser_scale_comes_back_in_pixels_of_the_slide(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pixels, truth = tissue(mpp=0.25, size=70)
    tifffile.imwrite("fine.tif", pixels, photometric="rgb", tile=(64, 64))
    monkeypatch.setattr(command, "WHOLE", 100)
    monkeypatch.setattr(command, "TILES", {command.Kind.nucleus: (100, 40, 0.5)})
    assert run("fine.tif", "-o", "fine.geojson", "--mpp", 0.25).exit_code == 0
    found = read_objects("fine.geojson", truth.shape)
    assert found.mpp == 0.25
    assert match(truth, found).f1 > 0.9


def test_glands_are_annotations(place: Path) -> None:
    result = run("images/tile0.png", "-o", "glands.geojson", "--mpp", 0.5, "--kind", "gland")
    assert result.exit_code == 0, result.output
    assert json.loads(Path("glands.geojson").read_text())["clearfold"] == {"mpp": 0.5, "kind": "gland"}


def test_a_slide_says_its_own_scale(data: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the tile in the middle is worked through: a whole slide takes too long for a test."""
    from clearfold.images import Slide

    monkeypatch.setattr(command, "WHOLE", 1000)
    squares = Slide.squares
    monkeypatch.setattr(Slide, "squares", lambda *words, **more: squares(*words, **more)[4:5])
    result = run(data / "slides" / "CMU-1-Small-Region.svs", "-o", "nuclei.geojson", "--json")
    assert result.exit_code == 0, result.output
    facts = next(iter(json.loads(result.stdout)["images"].values()))
    assert facts["objects"] > 300
    assert 4 < facts["median diameter (um)"] < 9
    assert read_polygons("nuclei.geojson").mpp == pytest.approx(0.499)
