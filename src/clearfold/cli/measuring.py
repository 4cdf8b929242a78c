"""Images and tiles of slides into an archive, under a bar, so that work can be stopped and go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from clearfold.cli.console import stderr
from clearfold.errors import ArchiveError, ClearfoldError

if TYPE_CHECKING:
    import pandas as pd

    from clearfold.archive import Added, Archive
    from clearfold.features.files import Recipe, Task

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Tile:
    """A tile of a slide, read when its turn comes."""

    task: Task
    recipe: Recipe

    @property
    def name(self) -> str:
        """Its case id."""
        return self.task.name

    @property
    def mark(self) -> bytes:
        """Where it lies, on a slide of so many bytes: tiles are not read again to see whether they have changed."""
        return f"{self.task.square} of {self.task.path.stat().st_size}".encode()

    def read(self) -> Any:
        """The image of the tile."""
        from clearfold.features.files import read_task

        return read_task(self.task, self.recipe)[0]


def images_and_slides(inputs: list[Path]) -> tuple[list[dict[str, Path]], list[Path]]:
    """case_id -> image, of single files and of each folder; and what is read in tiles, such as slides."""
    from clearfold.archive.pictures import pictures_of
    from clearfold.features.files import SLIDES

    files = [path for path in inputs if not path.is_dir()]
    slides = [path for path in files if path.suffix.lower() in SLIDES]
    groups = [pictures_of([path for path in files if path not in slides])]
    for folder in (path for path in inputs if path.is_dir()):
        inside = [file for file in sorted(folder.rglob("*")) if file.suffix.lower() in SLIDES and file.is_file()]
        slides += inside
        try:
            groups.append(pictures_of(folder))
        except ArchiveError:  # no images in it, which is wrong only when there are no slides either
            if not inside:
                raise
    slides += [path for group in groups for path in group.values() if _large(path)]
    images = [{name: path for name, path in group.items() if path not in slides} for group in groups]
    return [group for group in images if group], slides


def _large(path: Path) -> bool:
    """Whether an image is as large as a slide; what cannot be read will say so when it is measured."""
    from clearfold.features.files import in_tiles

    with suppress(ClearfoldError, OSError):
        return in_tiles(path)
    return False


def add_measured(
    archive: Archive, images: list[dict[str, Path]], slides: list[Path], labels: Path | None, roles: dict[str, Any],
    mpp: float | None, jobs: int,
) -> list[Added]:  # fmt: skip
    """Add images, then tiles of slides; a stop says how to go on."""
    with _bar(archive) as progress:
        told: dict[str, Any] = {"progress": progress, "n_jobs": jobs}
        done = [archive.add(group, labels=labels, mpp=mpp, **told, **roles) for group in images]
        if slides:
            tiles, failed = _tiles(slides, mpp)
            added = archive.add(tiles, labels=_labels_of(tiles, labels, roles), **told)
            done.append(replace(added, failed=failed | added.failed))
        return done


@contextmanager
def _bar(archive: Archive) -> Iterator[Progress]:
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    name = TextColumn("{task.description}", markup=False)
    with Bar(TextColumn("measuring"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), name,
             console=stderr(), transient=True) as bar:  # fmt: skip
        task = bar.add_task("", total=None)
        try:
            yield lambda done, total, name: bar.update(task, completed=done, total=total, description=name)
        except KeyboardInterrupt:
            bar.stop()
            stderr().print(f"stopped: {len(archive)} cases are in the archive. The same command goes on from there.")
            raise typer.Exit(130) from None


def _tiles(slides: list[Path], mpp: float | None) -> tuple[list[Tile], dict[str, str]]:
    """Every tile with tissue, at .5 um a pixel if the scale is known; and of slides that cannot be read, the reason."""
    from clearfold.features.files import Recipe, plan

    recipe, tiles, failed = Recipe(mpp=mpp), list[Tile](), dict[str, str]()
    for path in slides:
        try:
            tiles += [Tile(task, recipe) for task in plan(path, recipe)]
        except (ClearfoldError, OSError) as error:
            failed[path.name] = str(error)
    return tiles, failed


def _labels_of(tiles: list[Tile], labels: Path | None, roles: dict[str, Any]) -> pd.DataFrame:
    """What is known of each tile: its slide, its place, and what the labels say of the slide."""
    import pandas as pd

    from clearfold.archive.pictures import read_labels

    known = {} if labels is None else read_labels(labels, roles)
    rows = []
    for tile in tiles:
        path, square = tile.task.path, tile.task.square
        region = {} if square is None else {"region": "x={} y={} width={} height={}".format(*square)}
        about = known.get(path.stem, known.get(path.name, {}))
        rows.append({"slide_id": path.stem, **about, **region, "case_id": tile.name})
    return pd.DataFrame(rows, columns=None if rows else ["case_id"])
