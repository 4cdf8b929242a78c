"""Every example runs on its own and leaves a picture with something on it; the gallery is made from them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from examples import build  # noqa: E402 - the folder is no part of the package

SCRIPTS = [path for path in build.EXAMPLES if path not in build.NOTEBOOKS]
QUIET = os.environ | {"MPLBACKEND": "Agg"}


def named(path: Path) -> str:
    return path.stem


def assert_shows_something(picture: Path) -> None:
    """Of a reasonable size, with many shades, and with something in at least three of its quarters."""
    with Image.open(picture) as image:
        pixels = np.asarray(image.convert("L"), dtype=float)
    height, width = pixels.shape
    assert min(height, width) >= 150
    quarters = [pixels[y : y + height // 2, x : x + width // 2] for y in (0, height // 2) for x in (0, width // 2)]
    assert sorted(quarter.std() for quarter in quarters)[1] > 2
    assert len(np.unique(pixels)) > 20


@pytest.mark.parametrize("example", SCRIPTS, ids=named)
def test_a_script_runs_and_draws(example: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(example)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=QUIET)
    assert done.returncode == 0, done.stdout + done.stderr
    assert_shows_something(tmp_path / f"{example.stem}.png")


@pytest.mark.parametrize("example", build.NOTEBOOKS, ids=named)
def test_a_notebook_runs_and_draws(example: Path, tmp_path: Path) -> None:
    """The cells are those of the script of the same name, which is therefore not run again."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    book = nbformat.read(example.with_suffix(".ipynb"), as_version=4)
    nbformat.validate(book)
    code = (
        "import sys, nbformat, nbclient; book = nbformat.read(sys.argv[1], as_version=4); "
        "nbclient.NotebookClient(book, timeout=600, kernel_name='python3').execute()"
    )
    assert nbclient is not None
    command = [sys.executable, "-c", code, str(example.with_suffix(".ipynb"))]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=QUIET)
    assert done.returncode == 0, done.stdout + done.stderr
    assert_shows_something(tmp_path / f"{example.stem}.png")


def test_there_are_ten_and_two_are_notebooks() -> None:
    assert [path.name[:2] for path in build.EXAMPLES] == [f"{number:02d}" for number in range(1, 11)]
    assert len(build.NOTEBOOKS) == 2
    assert all(all(build.told(path)) for path in build.EXAMPLES)


@pytest.mark.parametrize("path", build.written(), ids=lambda path: path.name)
def test_what_is_generated_is_committed(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == build.written()[path], "run: python -m examples.build --text"


def test_notebooks_are_committed_without_outputs() -> None:
    for path in build.NOTEBOOKS:
        book = json.loads(path.with_suffix(".ipynb").read_text(encoding="utf-8"))
        assert not [cell for cell in book["cells"] if cell.get("outputs") or cell.get("execution_count")]


def test_every_example_has_a_small_picture_in_the_gallery() -> None:
    pictures = {path.stem: path for path in build.PICTURES.glob("*.png")}
    assert set(pictures) == {path.stem for path in build.EXAMPLES}
    assert sum(path.stat().st_size for path in pictures.values()) < 1_000_000
    for picture in pictures.values():
        assert_shows_something(picture)


def test_the_first_embedding_is_drawn(tmp_path: Path) -> None:
    """The picture of the first page."""
    script = ROOT / "examples" / "first_embedding.py"
    subprocess.run([sys.executable, str(script)], cwd=tmp_path, check=True, capture_output=True, env=QUIET)
    assert_shows_something(tmp_path / "first_embedding.png")
