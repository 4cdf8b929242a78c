"""`clearfold report`: the whole study of a feature table, in one page."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from clearfold.cli.archives import command_line, open_archive
from clearfold.cli.console import recorded, show, stderr
from clearfold.cli.methods import Method, chosen_embedding
from clearfold.cli.question import Columns, read_questions
from clearfold.cli.report_files import Tables, check_folder, check_page
from clearfold.errors import InputError


def report(
    table: Annotated[Path, typer.Argument(help="Feature table: .csv, .tsv (.gz), .parquet, .h5ad or .h5.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML report to write.")] = Path("report.html"),
    label: Annotated[str | None, typer.Option(help="Column of the class or value to explain.")] = None,
    time: Annotated[str | None, typer.Option(help="Column of a time to an event, for survival.")] = None,
    event: Annotated[
        str | None, typer.Option(help="Column that is 1 where the event happened and 0 where not, or COLUMN=VALUE.")
    ] = None,
    group: Annotated[str | None, typer.Option(help="Column of the patient: rows of one stay together.")] = None,
    case: Annotated[str | None, typer.Option(help="Column that names each sample.")] = None,
    ignore: Annotated[list[str] | None, typer.Option(help="Column to leave out; may be repeated.")] = None,
    archive: Annotated[
        str | None, typer.Option(help="Archive to show searches of: cases.clearfold, or postgresql://...")
    ] = None,
    method: Annotated[Method, typer.Option(help="The embedding.")] = Method.isomap,
    components: Annotated[str, typer.Option(help="Number of coordinates, or 'elbow'.")] = "elbow",
    neighbors: Annotated[
        int | None, typer.Option("--neighbors", "-k", help="For isomap, laplacian and lle. Default: 10.")
    ] = None,
    bandwidth: Annotated[
        str | None, typer.Option(help="For kernel-pca, laplacian and graph: a number. Default: 'median'.")
    ] = None,
    rounds: Annotated[int, typer.Option(help="Rounds for intervals, stability and accuracy; 0 for none.")] = 50,
    permutations: Annotated[int, typer.Option(help="Shuffled labels for p-values; 0 for none.")] = 1000,
    top: Annotated[int, typer.Option(min=1, help="Features that are drawn and compared.")] = 20,
    jobs: Annotated[int | None, typer.Option(help="Processes for the rounds.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer rounds, permutations and classifiers.")] = False,
    drop_missing: Annotated[
        bool, typer.Option("--drop-missing", help="Drop features with over 5% missing, then incomplete samples.")
    ] = False,
    tables: Tables = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what happened as JSON.")] = False,
) -> None:
    """Make the whole study report of a feature table: map, ranking, stability against accuracy, survival, searches.

    With a label the ranking explains the label; with a time and an event alone it explains the time. Everything that
    is judged is judged on patients that were left out. Files that exist stay as they were if anything fails.

    Examples:

    - `clearfold report features.csv --label grade --group patient -o report.html`
    - `clearfold report features.csv --time months --event status=dead --group patient --tables tables`
    - `clearfold report features.parquet --label grade --archive cases.clearfold --quick`
    """
    from clearfold.cli.study import Settings, make_study
    from clearfold.cli.study_page import study_facts, study_page, summary
    from clearfold.table import atomic_write

    _check_paths(table, output, tables)
    embedding = chosen_embedding(method, components, neighbors, bandwidth)
    settings = Settings(embedding, rounds, permutations, seed, jobs, quick, top)
    columns = Columns(label, time, event, group, case, ignore or ())
    with ExitStack() as files, recorded() as notes:
        page = files.enter_context(atomic_write(output))
        opened = files.enter_context(open_archive(archive)) if archive else None
        with stderr().status(f"reading {table.name}") as status:
            question, timed = read_questions(table, columns, drop_missing)
            study = make_study(question, timed, settings, opened, status.update)
            status.update("writing the report")
            title = f"Which features go with {question.name}, and does it hold? ({table.name})"
            made = study_page(title, command_line(), study, notes)
            if tables:
                made.write_tables(tables)
            made.write(page)
    facts = study_facts(study) | {"files": [str(path) for path in (output, tables) if path], "warnings": notes}
    said = summary(study)
    if as_json:
        print(json.dumps({"summary": said} | facts, indent=2))
    else:
        print("\n\n".join(said), end="\n\n")
        show(facts)


def _check_paths(table: Path, output: Path, tables: Path | None) -> None:
    """Say before the work begins what could not be written at its end."""
    check_page(output)
    check_folder(tables)
    if table.resolve() == output.resolve():
        raise InputError("The table and the report are one file. Rename one.")
