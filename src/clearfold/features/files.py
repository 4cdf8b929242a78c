"""Files -> rows of a feature table: an image gives one, a slide one for each tile with tissue."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd

from clearfold.cluster import parallel, unseen
from clearfold.errors import ClearfoldError, ClearfoldWarning, ImageError, InputError
from clearfold.features.extraction import checked_families, extract, extract_objects
from clearfold.images import Image, Slide, open_slide, read_image
from clearfold.images.scale import given_mpp
from clearfold.objects import Objects, Polygons, read_objects, read_polygons

IMAGES = (".png", ".jpg", ".jpeg", ".tif", ".tiff")
SLIDES = (".svs", ".ndpi", ".mrxs", ".scn", ".vms", ".vmu", ".bif", ".svslide")
OUTLINES = (".geojson", ".json", ".png", ".tif", ".tiff", ".npy")
LARGE = 25_000_000
"""A TIFF with more pixels is read in tiles, like a slide."""
ROWS = ("region", "nucleus", "gland")
OTHER_SCALE = 1.3
"""Outlines and slide whose scales differ by this factor are of different resolutions; magnifications are rounded."""


@dataclass(frozen=True)
class Recipe:
    """How files become rows.

    mpp : micrometres a pixel of every file, None for what each file says
    families : families of features, None for all
    tile, tile_mpp : slides are read in squares of so many pixels, at this resolution (None: as they are)
    row : what a row is: a region (image or tile), a nucleus or a gland
    nuclei, glands : outlines that are there already: a file, or a folder with one of the same name for each image
    """

    mpp: float | None = None
    families: tuple[str, ...] | None = None
    tile: int = 1024
    tile_mpp: float | None = 0.5
    row: str = "region"
    nuclei: Path | None = None
    glands: Path | None = None

    def __post_init__(self) -> None:
        checked_families(self.families)
        given_mpp(self.mpp)
        given_mpp(self.tile_mpp)
        if self.row not in ROWS:
            raise InputError(f"row={self.row!r} came; wanted is one of {', '.join(ROWS)}.")
        if self.row == "gland" and self.glands is None:
            raise InputError("rows of glands were asked for without glands. Give a folder of gland masks.")


@dataclass(frozen=True)
class Task:
    """One image, or one tile of a slide: x, y, width, height in pixels of level 0."""

    path: Path
    square: tuple[int, int, int, int] | None = None

    @property
    def name(self) -> str:
        """The case that it is: the file's name, and for a tile its place."""
        return self.path.stem if self.square is None else f"{self.path.stem}_{self.square[0]}_{self.square[1]}"

    def sources(self, recipe: Recipe) -> list[Path]:
        """The files that its rows come from: the image, and the outlines that were brought for it."""
        brought = [_beside(where, self.path) for where in (recipe.nuclei, recipe.glands)]
        return [self.path, *(path for path in brought if path is not None)]


def find_images(where: Path | Sequence[Path]) -> list[Path]:
    """Images and slides: a file, several, or those of a folder by name, folders in it included."""
    given = [Path(where)] if isinstance(where, str | os.PathLike) else [Path(path) for path in where]
    found: list[Path] = []
    for path in given:
        if not path.exists():
            raise ImageError(f"There is no file or folder {path}. Check its name and the folder you are in.")
        inside = sorted(file for file in path.rglob("*") if file.suffix.lower() in (*IMAGES, *SLIDES) and _own(file))
        if path.is_dir() and not inside:
            raise ImageError(f"{path} holds no images. Wanted are files ending in {', '.join((*IMAGES, *SLIDES))}.")
        found += inside if path.is_dir() else [path]
    stems = pd.Series([path.stem for path in found])
    if stems.duplicated().any():
        twice = stems[stems.duplicated()].iloc[0]
        same = ", ".join(str(path) for path in found if path.stem == twice)
        raise ImageError(f"{same} would all be the case {twice}. Rename them, or take their folders one by one.")
    return found


def _own(file: Path) -> bool:
    """Whether this is a file of the user's, not one that a system put there."""
    return file.is_file() and not file.name.startswith(".")


def check_outlines(paths: Sequence[Path], recipe: Recipe) -> None:
    """Refuse, before any work, outlines that are not there and one file of outlines for several images."""
    for where in (recipe.nuclei, recipe.glands):
        if where is not None and not where.exists():
            raise ImageError(f"There is no file or folder {where}. Check its name and the folder you are in.")
        if where is not None and where.is_file() and len(paths) > 1:
            raise InputError(
                f"{where} is one file, and there are {len(paths)} images. Give a folder that holds outlines of the "
                f"same name for each, such as {paths[0].stem}.geojson."
            )


def plan(path: Path, recipe: Recipe) -> list[Task]:
    """The work that a file is: itself, or its tiles."""
    if not in_tiles(path):
        return [Task(path)]
    with open_slide(path, mpp=recipe.mpp) as slide:
        mpp = recipe.tile_mpp if slide.mpp else None
        return [Task(path, square) for square in slide.squares(recipe.tile, mpp=mpp)]


def in_tiles(path: Path) -> bool:
    """Whether a file is a slide, or as large as one."""
    if path.suffix.lower() in SLIDES:
        return True
    if path.suffix.lower() not in (".tif", ".tiff"):
        return False
    with open_slide(path) as slide:
        return slide.size[0] * slide.size[1] > LARGE


def measure(task: Task, recipe: Recipe) -> pd.DataFrame:
    """The rows of one task: case_id, what tells where it came from (as text), features."""
    image, nuclei, glands = read_task(task, recipe)
    if recipe.row == "region":
        series = extract(image, nuclei, mpp=image.mpp, glands=glands, families=recipe.families)
        frame, facts = series.to_frame().T.reset_index(drop=True), series.attrs
        ids: Any = [task.name]
    else:
        frame = extract_objects(image, glands if recipe.row == "gland" else nuclei, families=recipe.families)
        facts, ids = frame.attrs, [f"{task.name}_{number}" for number in frame.index]
        frame = _placed(frame.reset_index(drop=True), task, image)
    about = {"case_id": ids, "image": task.path.name, "scale": _scale(facts["mpp"])}
    if task.square is not None:
        about |= {"slide_id": task.path.stem, "region": "x={} y={} width={} height={}".format(*task.square)}
    return pd.concat([pd.DataFrame(about, index=frame.index), frame], axis=1)


def _placed(frame: pd.DataFrame, task: Task, image: Image) -> pd.DataFrame:
    """Centres of objects as place.x and place.y, in pixels of the image; of a slide in those of its level 0."""
    if task.square is not None:
        left, top, width, height = task.square
        x = left + (frame["x"] + 0.5) * (width / image.size[0]) - 0.5
        y = top + (frame["y"] + 0.5) * (height / image.size[1]) - 0.5
        frame = frame.assign(x=x, y=y)
    return frame.rename(columns={"x": "place.x", "y": "place.y"})


def read_task(task: Task, recipe: Recipe) -> tuple[Image, Objects | None, Objects | None]:
    """The image of a task, and the nuclei and glands that were brought for it."""
    brought = [_beside(where, task.path) for where in (recipe.nuclei, recipe.glands)]
    if task.square is None:
        image = read_image(task.path, mpp=recipe.mpp)
        shape = (image.pixels.shape[0], image.pixels.shape[1])
        nuclei, glands = (None if path is None else read_objects(path, shape, mpp=image.mpp) for path in brought)
    else:
        slide = _slide(task.path, recipe.mpp)
        image = slide.read(*task.square, mpp=recipe.tile_mpp if slide.mpp else None)
        nuclei, glands = (None if path is None else _in_square(path, slide, task.square, image) for path in brought)
    return image, nuclei, glands


def _in_square(path: Path, slide: Slide, square: tuple[int, int, int, int], image: Image) -> Objects:
    """The outlines of a slide, in pixels of level 0, as labels of one tile."""
    polygons = _polygons(path, stamp(path))
    if polygons.mpp and slide.mpp and not 1 / OTHER_SCALE < polygons.mpp / slide.mpp < OTHER_SCALE:
        raise ImageError(
            f"{path.name}: its outlines have {polygons.mpp:g} um a pixel and {slide.name} has {slide.mpp:g}. Wanted "
            "are outlines in pixels of the slide's full resolution."
        )
    shape = (image.pixels.shape[0], image.pixels.shape[1])
    return replace(polygons.objects(*square, shape=shape), mpp=image.mpp)


def _scale(mpp: float | None) -> str:
    return "unknown" if mpp is None else f"{mpp:g} um a pixel"


@lru_cache(maxsize=2)
def _slide(path: Path, mpp: float | None) -> Slide:
    """A slide stays open from tile to tile."""
    return open_slide(path, mpp=mpp)


@lru_cache(maxsize=2)
def _polygons(path: Path, _: tuple[int, int]) -> Polygons:
    """Outlines stay in memory from tile to tile, until their file changes."""
    return read_polygons(path)


def stamp(path: Path) -> tuple[int, int]:
    """Size and time of change: another one means another content."""
    facts = path.stat()
    return facts.st_size, facts.st_mtime_ns


def _beside(where: Path | None, image: Path) -> Path | None:
    """The outlines that belong to an image: the file that was named, or the one of its name in the folder."""
    if where is None:
        return None
    if where.is_file():
        return where
    found = [where / f"{image.stem}{suffix}" for suffix in OUTLINES if (where / f"{image.stem}{suffix}").is_file()]
    if not found:
        raise ImageError(f"{image.name}: {where} holds no outlines for it. Wanted is {image.stem}.geojson or a mask.")
    return found[0]


@dataclass(frozen=True)
class Done:
    """What became of a task: rows, or the reason why there are none; and the warnings on the way."""

    task: Task
    rows: pd.DataFrame | None
    reason: str = ""
    said: tuple[tuple[str, type[Warning]], ...] = ()


def attempt(task: Task, recipe: Recipe) -> Done:
    """`measure`, where a file that cannot be used is a reason and not the end."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ClearfoldWarning)
        try:
            done = Done(task, measure(task, recipe))
        except (ClearfoldError, OSError, MemoryError) as error:
            done = Done(task, None, unseen(task.path) or str(error) or type(error).__name__)
    return replace(done, said=tuple((str(warning.message), warning.category) for warning in caught))


def measure_all(tasks: Iterable[Task], recipe: Recipe, n_jobs: int | None = None) -> Iterator[Done]:
    """Every task, in their order, on several cores if asked for; what other processes warn of is said in this one."""
    from joblib import delayed

    tasks = list(tasks)
    brought = {
        name: where and where.absolute() for name, where in (("nuclei", recipe.nuclei), ("glands", recipe.glands))
    }
    recipe = replace(recipe, **brought)  # type: ignore[arg-type]
    # whole paths: a worker of a cluster is in a folder of its own
    work = (delayed(attempt)(replace(task, path=task.path.absolute()), recipe) for task in tasks)
    results = parallel(n_jobs, return_as="generator", pre_dispatch="2*n_jobs")(work)
    for task, done in zip(tasks, results, strict=True):
        for message, category in done.said:
            warnings.warn(message, category, stacklevel=2)
        yield replace(done, task=task)
