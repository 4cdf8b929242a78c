"""Images and tiles of slides into an archive, under a bar, so that work can be stopped and go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from clearfold.cli.console import stderr

if TYPE_CHECKING:
    from clearfold.archive import Added, Archive

Progress = Callable[[int, int, str], None]


def slides_in(path: Path) -> tuple[list[Path], bool]:
    """Slides of a file or folder, and whether it holds images besides (or nothing known, which `add` will say)."""
    from clearfold.features.files import IMAGES, SLIDES

    if not path.is_dir():
        return ([path], False) if path.suffix.lower() in SLIDES else ([], True)
    files = [file for file in sorted(path.rglob("*")) if file.is_file()]
    slides = [file for file in files if file.suffix.lower() in SLIDES]
    return slides, not slides or any(file.suffix.lower() in IMAGES for file in files)


def add_measured(
    archive: Archive, what: list[Any], slides: list[Path], labels: Path | None, roles: dict[str, Any], mpp: float | None
) -> list[Added]:
    """Add folders and lists of images, then tiles of slides; a stop says how to go on."""
    with _bar(archive) as progress:
        done = [archive.add(images, labels=labels, mpp=mpp, progress=progress, **roles) for images in what]
        return [*done, _add_slides(archive, slides, labels, roles, mpp, progress)] if slides else done


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


def _add_slides(
    archive: Archive, slides: list[Path], labels: Path | None, roles: dict[str, Any], mpp: float | None,
    progress: Progress,
) -> Added:  # fmt: skip
    """Add every tile with tissue as a case: named by its place, labelled by its slide, at .5 um a pixel if known."""
    import pandas as pd

    from clearfold.archive import Added
    from clearfold.archive.pictures import read_labels
    from clearfold.errors import ClearfoldError
    from clearfold.features.files import Recipe, plan, read_task

    known = {} if labels is None else read_labels(labels, roles)
    recipe, tasks, failed = Recipe(mpp=mpp), [], {}
    for path in slides:
        try:
            tasks += plan(path, recipe)
        except ClearfoldError as error:
            failed[path.name] = str(error)
    added = skipped = 0
    for number, task in enumerate(tasks, start=1):
        if task.name in archive:
            skipped += 1
        else:
            about = {"slide_id": task.path.stem, **known.get(task.path.stem, known.get(task.path.name, {}))}
            about |= {"case_id": task.name, "region": "x={} y={} width={} height={}".format(*task.square or ())}
            try:
                tile = replace(read_task(task, recipe)[0], name=f"{task.name}.tile")  # names may hold points
                done = archive.add([tile], labels=pd.DataFrame([about]))
                added, failed = added + done.added, failed | done.failed
            except ClearfoldError as error:
                failed[task.name] = str(error)
        progress(number, len(tasks), task.name)
    return Added(added, skipped, failed)
