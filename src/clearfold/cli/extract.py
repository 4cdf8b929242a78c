"""`clearfold extract`: images or slides in, a table of named features out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clearfold.cli.cluster import Scheduler, on_workers
from clearfold.cli.console import progress_bar, recorded, show, stderr
from clearfold.errors import ImageError, InputError

if TYPE_CHECKING:
    import pandas as pd
    from rich.progress import Progress

    from clearfold.features.files import Done, Recipe, Task

NAMES = ("case_id", "image", "file", "filename", "name", "id", "slide_id")
"""Columns of a table of labels that may name the image."""
STARTING = "measuring (the first takes longer)"
"""Where small kernels are not compiled yet, that is some ten seconds without a step of the bar."""


def extract(
    inputs: Annotated[list[Path], typer.Argument(help="Images, slides, or a folder of them.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Table: .parquet, .csv, .tsv, .h5ad.")] = Path(
        "features.parquet"
    ),
    labels: Annotated[
        Path | None, typer.Option(help="Table whose columns are added by the name of the image: label, patient_id ...")
    ] = None,
    mpp: Annotated[
        float | None, typer.Option(help="Micrometres a pixel of the files; wins over what they say.")
    ] = None,
    nuclei: Annotated[
        Path | None, typer.Option(help="Your own nuclei: GeoJSON, HoVer-Net JSON or a mask; or a folder of them.")
    ] = None,
    glands: Annotated[Path | None, typer.Option(help="Glands, as a mask or GeoJSON; or a folder of them.")] = None,
    family: Annotated[
        list[str] | None, typer.Option(help="Only this family of features; may be repeated. All by default.")
    ] = None,
    row: Annotated[str, typer.Option(help="What a row is: region, nucleus or gland.")] = "region",
    tile: Annotated[int, typer.Option(min=64, help="Slides: pixels on the side of a tile.")] = 1024,
    tile_mpp: Annotated[float, typer.Option(help="Slides: micrometres a pixel at which tiles are read.")] = 0.5,
    heat_map: Annotated[
        list[str] | None,
        typer.Option(help="Slides: draw this feature over each slide, as a picture beside the table; may be repeated."),
    ] = None,
    jobs: Annotated[int, typer.Option(help="Images at once; -1 for one on each core.")] = 1,
    scheduler: Scheduler = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what happened as JSON.")] = False,
) -> None:
    """Measure nuclei, glands and tissue: one row of named numbers for each image, or each tile of a slide.

    Nuclei are found by `clearfold segment` unless you bring your own. Work that was stopped is continued by the same
    command; a file that cannot be read is told at the end and stops nothing.

    Examples:

    - `clearfold extract images/ --labels grades.csv --mpp 0.5 -o features.parquet`
    - `clearfold extract slide.svs --nuclei qupath_export.geojson -o features.parquet --heat-map density.count`
    - `clearfold extract images/ --glands masks/ --family shape --family graph -o features.csv`
    """
    from clearfold.features.files import Recipe, check_outlines, find_images
    from clearfold.table import atomic_write, format_of, write_table

    format_of(output)
    recipe = Recipe(mpp, tuple(family) if family else None, tile, tile_mpp, row, nuclei, glands)
    paths = [path for path in find_images(inputs) if path.resolve() != output.resolve()]
    check_outlines(paths, recipe)
    check_maps(heat_map or [], recipe)
    about = None if labels is None else read_labels(labels)
    failed: dict[str, str] = {}
    with ExitStack() as files, recorded() as notes:
        temporary = files.enter_context(atomic_write(output))
        files.enter_context(on_workers(scheduler))
        frame, reused = _measured(paths, recipe, output, jobs, failed)
        if about is not None:
            frame = with_labels(frame, about, labels.name if labels else "", notes)
        write_table(frame, temporary)
    pictures = [picture for name in heat_map or [] for picture in draw_maps(frame, name, paths, mpp, output)]
    facts = {
        "files": len(paths),
        "rows": len(frame),
        "features": sum("." in str(name) for name in frame.columns),
        "taken from an earlier run": reused or None,
        "table": str(output),
        "pictures": pictures or None,
        "could not be used": failed or None,
        "warnings": notes,
    }
    _say(facts, failed, as_json)
    if failed:
        raise typer.Exit(1)


def check_maps(names: list[str], recipe: Recipe) -> None:
    """Refuse, before any work, a heat map of what will not be measured."""
    from clearfold.features import expected_names

    known = expected_names(recipe.families, glands=recipe.glands is not None)
    for name in names:
        if recipe.row != "region" or name not in known:
            alike = get_close_matches(name, known, 3)
            hint = f" Did you mean {', '.join(alike)}?" if alike else ""
            raise InputError(f"--heat-map {name} came; wanted is a feature of regions that is measured.{hint}")


def draw_maps(frame: pd.DataFrame, name: str, paths: list[Path], mpp: float | None, output: Path) -> list[str]:
    """A feature over every slide of the table; gives back the files."""
    from clearfold.images import open_slide
    from clearfold.plot import heat_map, save

    drawn, slides = [], {path.stem: path for path in paths}
    for slide_id, tiles in frame.groupby("slide_id") if "slide_id" in frame else ():
        if (path := slides.get(str(slide_id))) is None:
            continue  # a name from the table of labels, of images that are no slides
        picture = output.with_name(f"{slide_id}.{name}.png")
        with open_slide(path, mpp=mpp) as slide:
            save(heat_map(slide.thumbnail(1600), tiles, name, size=slide.size), picture)
        drawn.append(str(picture))
    return drawn


def _say(facts: dict[str, Any], failed: dict[str, str], as_json: bool) -> None:
    """What was done, and every file that could not be used with its reason."""
    for name, reason in failed.items():
        stderr().print(f"could not use {name}: {reason}", style="red", soft_wrap=True, markup=False, highlight=False)
    if failed:
        stderr().print("The table holds the others; the same command tries again only what is missing.")
    print(json.dumps(facts, indent=2)) if as_json else show(facts | {"could not be used": len(failed) or None})


def _measured(
    paths: list[Path], recipe: Recipe, output: Path, jobs: int, failed: dict[str, str]
) -> tuple[pd.DataFrame, int]:
    """Rows of all tasks, in their order, and how many tasks were done before; reasons go to `failed`."""
    import pandas as pd

    from clearfold.features.files import measure_all
    from clearfold.features.journal import Journal

    with Journal(output.with_name(f".{output.name}.part"), recipe) as journal, progress_bar() as progress:
        tasks = _planned(paths, recipe, failed, progress)
        rows = {task.name: journal.rows(task) for task in tasks}
        open_tasks = [task for task in tasks if rows[task.name] is None]
        bar = progress.add_task(STARTING, total=len(tasks), completed=len(tasks) - len(open_tasks))
        with _stopping(progress):
            for done in measure_all(open_tasks, recipe, jobs):
                if done.rows is None:
                    failed.setdefault(str(done.task.path), _placed_reason(done))
                else:
                    journal.add(done.task, done.rows)
                    rows[done.task.name] = done.rows
                progress.update(bar, advance=1, description="measuring")
        kept = [table for table in rows.values() if table is not None and len(table)]
        if not kept:
            raise ImageError(f"Nothing could be measured. {_reasons(failed)}")
        if not failed:
            journal.remove()
    return pd.concat(kept, ignore_index=True), len(tasks) - len(open_tasks)


@contextmanager
def _stopping(progress: Progress) -> Iterator[None]:
    """Control-C says how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        done = int(progress.tasks[0].completed)
        progress.stop()
        stderr().print(f"stopped: {done} images or tiles are done. The same command goes on from there.")
        raise typer.Exit(130) from None


def _placed_reason(done: Done) -> str:
    """Why a task gave nothing; of a tile also which one."""
    place = "" if done.task.square is None else "the tile at x={} y={}: ".format(*done.task.square)
    return place + done.reason


def _planned(paths: list[Path], recipe: Recipe, failed: dict[str, str], progress: Progress) -> list[Task]:
    """Tasks of all files; a slide that cannot be opened is a reason."""
    from clearfold.errors import ClearfoldError
    from clearfold.features.files import plan

    tasks: list[Task] = []
    bar = progress.add_task("looking for tissue", total=len(paths))
    for path in paths:
        try:
            found = plan(path, recipe)
            if not found:
                failed[str(path)] = "no tile of it holds tissue."
            tasks += found
        except ClearfoldError as error:
            failed[str(path)] = str(error)
        progress.advance(bar)
    progress.remove_task(bar)
    return tasks


def _reasons(failed: dict[str, str]) -> str:
    return "\n".join(failed.values()) if failed else "No image holds an object to measure."


def read_labels(path: Path) -> pd.DataFrame:
    """A table of labels, by the name of the image without its suffix."""
    import pandas as pd

    from clearfold.errors import TableError

    try:
        table = pd.read_csv(path, sep=None, engine="python", dtype=str, skipinitialspace=True)
    except (OSError, ValueError, UnicodeError) as error:
        raise TableError(f"{path}: it cannot be read as a table ({error}). Wanted is a CSV with a header.") from error
    named = next((name for name in NAMES if name in table.columns), None)
    if named is None or len(table.columns) < 2:
        raise TableError(
            f"{path}: it has the columns {', '.join(map(str, table.columns[:8]))}. One that names the image is wanted "
            f"({', '.join(NAMES)}), and one at least that says something of it."
        )
    keys = table[named].map(lambda name: Path(str(name)).stem)
    if keys.duplicated().any():
        raise TableError(f"{path}: {keys[keys.duplicated()].iloc[0]} stands there twice. Keep one line for each image.")
    return table.drop(columns=[named]).set_index(keys)


def with_labels(frame: pd.DataFrame, about: pd.DataFrame, source: str, notes: list[str]) -> pd.DataFrame:
    """The features with the columns of the labels before them; images without a line have none."""
    keys = frame["image"].map(lambda name: Path(str(name)).stem)
    clash = sorted(set(about.columns) & set(frame.columns))
    if clash:
        raise InputError(f"{source} has columns that the features have too: {', '.join(clash)}. Rename them.")
    without = sorted(set(keys) - set(about.index))
    if len(without) == keys.nunique():
        raise InputError(
            f"{source} names none of the images: it has {about.index[0]}, the images are {keys.iloc[0]} ... Names are "
            "compared without folder and suffix."
        )
    if without:
        notes.append(f"{len(without)} images have no line in {source}: {', '.join(without[:5])}")
    added: Any = about.reindex(keys).set_axis(frame.index)
    place = list(frame.columns).index("case_id") + 1
    return added.join(frame).reindex(columns=[*frame.columns[:place], *added.columns, *frame.columns[place:]])
