"""`clearfold index`: cases into an archive, from tables of features or from images."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from clearfold.cli.archives import ARCHIVE_HELP, Embedding, made, open_archive, refuse_server, shown
from clearfold.cli.cluster import Scheduler, on_workers
from clearfold.cli.console import recorded, show, stderr
from clearfold.errors import InputError

if TYPE_CHECKING:
    from clearfold.archive import Archive

LISTED = 20
"""Images that could not be read, of which so many are named."""


def index(
    inputs: Annotated[list[Path], typer.Argument(help="Feature tables, images, slides, or folders of them.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Archive file to make or to add to, such as cases.clearfold.")
    ] = None,
    archive: Annotated[
        str | None, typer.Option(help=ARCHIVE_HELP, envvar="CLEARFOLD_ARCHIVE", show_envvar=False)
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="For images: table with case_id (the image's name), label, patient and more.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="Column of the class.")] = None,
    group: Annotated[str | None, typer.Option(help="Column of the patient.")] = None,
    case: Annotated[str | None, typer.Option(help="Column that names each case.")] = None,
    metadata: Annotated[
        list[str] | None, typer.Option(help="Column of numbers that is no feature; may be repeated.")
    ] = None,
    mpp: Annotated[float | None, typer.Option(help="Micrometres a pixel of the images, where they do not say.")] = None,
    embedding: Annotated[
        Embedding | None, typer.Option(help="What to fit. Default: belief if there are labels, else pca.")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Images at once; -1 for one on each core.")] = 1,
    scheduler: Scheduler = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what happened as JSON.")] = False,
) -> None:
    """Put cases into an archive and fit its embedding, so that `clearfold query` can ask it.

    Work can be stopped at any time and continued by the same command: what is in the archive is not measured again.
    Images that cannot be read are listed at the end (exit code 1) and stop nothing. An archive that was fitted before
    places the new cases by its embedding; name an --embedding to fit again, as a new version beside the old. A slide
    gives a case for each tile with tissue, labelled by its slide.

    Examples:

    - `clearfold index features.csv --label grade --group patient -o cases.clearfold`
    - `clearfold index images/ --labels grades.csv --group patient_id --mpp 0.5 -o cases.clearfold`
    - `clearfold index slides/ --archive postgresql://user@host/pathology`
    """
    from clearfold.cli.measuring import add_measured

    where = _where(output, archive)
    tables, images, slides = _kinds(inputs, labels)
    roles = {"label": label, "patient_id": group, "case_id": case}
    with recorded() as notes, open_archive(where, create=True) as opened:
        given = {name: value for name, value in roles.items() if value}
        done = _add_tables(opened, tables, given, metadata or [])
        if images or slides:
            with on_workers(scheduler):
                for added in add_measured(opened, images, slides, labels, given, mpp, jobs):
                    _count(done, added)
        try:
            fitted = _fit(opened, embedding) if len(opened) else None
        except InputError:
            _list(done["failed"])  # what was measured is kept, and what could not be is still worth knowing
            raise
        facts = {
            "archive": shown(where),
            "added": done["added"],
            "already there": done["skipped"],
            "failed": len(done["failed"]) or None,
            "cases": len(opened),
            "features": len(opened.feature_names),
            "embedding": fitted,
        }
    failed = done["failed"]
    print(json.dumps(facts | {"failed": failed, "warnings": notes}, indent=2)) if as_json else show(facts)
    _list(failed)
    if failed:
        raise typer.Exit(1)


def _list(failed: dict[str, str]) -> None:
    for name, reason in list(failed.items())[:LISTED]:
        stderr().print(Text.assemble(("failed: ", "bold red"), f"{name}: {reason}"), soft_wrap=True)
    if len(failed) > LISTED:
        stderr().print(f"and {len(failed) - LISTED} more; --json lists all")


def _where(output: Path | None, archive: str | None) -> str:
    refuse_server(output, "--output")
    if output is not None:  # what was typed goes before what the environment says
        return str(output)
    if archive is None:
        raise InputError("No archive was named. Give -o cases.clearfold, or --archive postgresql://...")
    return archive


def _kinds(inputs: list[Path], labels: Path | None) -> tuple[list[Path], list[dict[str, Path]], list[Path]]:
    """Tables, images by their names, and what is read in tiles."""
    from clearfold.cli.measuring import images_and_slides
    from clearfold.table import FORMATS

    for path in [*inputs, *([labels] if labels else [])]:
        refuse_server(path, "an input")
        if not path.exists():
            raise InputError(f"There is no file or folder {path}. Check its name and the folder you are in.")
    tables = [path for path in inputs if path.is_file() and path.name.lower().endswith(tuple(FORMATS))]
    others = [path.absolute() for path in inputs if path not in tables]  # workers are in other folders
    if labels is not None and not others:
        raise InputError("--labels is for images; a table has its labels in a column: give --label NAME.")
    return tables, *images_and_slides(others)


def _add_tables(archive: Archive, tables: list[Path], roles: dict[str, Any], metadata: list[str]) -> dict[str, Any]:
    total: dict[str, Any] = {"added": 0, "skipped": 0, "failed": {}}
    for path in tables:
        with stderr().status(f"adding {path.name}"):
            _count(total, archive.add(path, metadata=metadata, **roles))
    return total


def _count(total: dict[str, Any], added: Any) -> None:
    total["added"] += added.added
    total["skipped"] += added.skipped
    total["failed"] |= added.failed


def _fit(archive: Archive, wanted: Embedding | None) -> str | None:
    """Fit what is wanted, or what is missing; says which version answers."""
    active = archive.active
    if wanted is Embedding.none or (wanted is None and active is not None and not active.forgotten):
        return None if active is None else f"{active.embedding} (version {active.number}, as it was)"
    kind = wanted or _default(archive)
    with stderr().status(f"fitting {kind.value} to {len(archive)} cases"):
        number = archive.fit(made(kind))
    return f"{type(made(kind)).__name__} (version {number})"


def _default(archive: Archive) -> Embedding:
    """belief where every class has two patients, as it wants them, else pca."""
    cases = archive.cases()
    known = cases[cases["label"].notna()]
    owners = known["patient_id"].where(known["patient_id"].notna(), known.index.to_series())
    patients = owners.groupby(known["label"].map(str)).nunique()
    if len(patients) >= 2 and patients.min() >= 2:
        return Embedding.belief
    why = "no two classes are labelled" if len(patients) < 2 else f"class {patients.idxmin()} has one patient"
    stderr().print(Text(f"{why}: pca is fitted, which needs no labels. Name --embedding to choose."))
    return Embedding.pca
