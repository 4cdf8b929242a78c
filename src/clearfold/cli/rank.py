"""`clearfold rank`: which features drive the embedding apart, with what trust, in one report."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from clearfold.cli.cluster import Scheduler, on_workers
from clearfold.cli.console import recorded, show, stderr
from clearfold.cli.methods import RankedMethod, matrix, ranked_embedding
from clearfold.cli.question import Columns, read_question
from clearfold.cli.report_files import Tables, check_folder, check_page
from clearfold.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

RANKINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")


class Importance(StrEnum):
    """How the importance of a feature is read from the embedding."""

    auto = "auto"
    fine = "fine"
    coherent = "coherent"
    gradient = "gradient"


def rank(
    table: Annotated[Path, typer.Argument(help="Feature table: .csv, .tsv (.gz), .parquet, .h5ad or .h5.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML report to write.")] = Path("report.html"),
    label: Annotated[str | None, typer.Option(help="Column of the class or value to explain.")] = None,
    time: Annotated[str | None, typer.Option(help="Column of a time to an event, in place of a label.")] = None,
    event: Annotated[
        str | None, typer.Option(help="Column that is 1 where the event happened and 0 where not, or COLUMN=VALUE.")
    ] = None,
    group: Annotated[str | None, typer.Option(help="Column of the patient: rows of one stay together.")] = None,
    case: Annotated[str | None, typer.Option(help="Column that names each sample.")] = None,
    ignore: Annotated[list[str] | None, typer.Option(help="Column to leave out; may be repeated.")] = None,
    method: Annotated[RankedMethod, typer.Option(help="The embedding.")] = RankedMethod.isomap,
    importance: Annotated[Importance, typer.Option(help="How importance is read from it.")] = Importance.auto,
    components: Annotated[str, typer.Option(help="Number of coordinates, or 'elbow'.")] = "5",
    neighbors: Annotated[
        int | None, typer.Option("--neighbors", "-k", help="For isomap, laplacian and lle. Default: 10.")
    ] = None,
    bandwidth: Annotated[
        str | None, typer.Option(help="For kernel-pca, laplacian and graph: a number. Default: 'median'.")
    ] = None,
    rounds: Annotated[int, typer.Option(help="Rounds for intervals and stability; 0 for none.")] = 50,
    permutations: Annotated[int, typer.Option(help="Shuffled labels for p-values; 0 for none.")] = 1000,
    top: Annotated[int, typer.Option(min=1, help="Features that are drawn and compared.")] = 20,
    redundancy: Annotated[
        float, typer.Option(help="0 to 1: penalty on features that correlate with better ones.")
    ] = 0.0,
    jobs: Annotated[int | None, typer.Option(help="Processes for the rounds.")] = None,
    scheduler: Scheduler = None,
    seed: Annotated[int, typer.Option(help="Seed of rounds and permutations.")] = 0,
    raw: Annotated[bool, typer.Option("--raw", help="Do not standardise the features.")] = False,
    drop_missing: Annotated[
        bool, typer.Option("--drop-missing", help="Drop features with over 5% missing, then incomplete samples.")
    ] = False,
    ranking: Annotated[
        Path | None, typer.Option("--table", help="Whole ranking to write: .csv, .tsv (.gz) or .parquet.")
    ] = None,
    tables: Tables = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what happened as JSON.")] = False,
) -> None:
    """Rank the features that drive the separation of a label, a value or a censored time in an embedding.

    The report has the ranking beside a t-test, the Gini index and a ranking without labels, with intervals,
    p-values, stability and the map. Rows of unknown outcome are left out and counted. Files that exist stay
    as they were if anything fails.

    Examples:

    - `clearfold rank features.csv --label grade --group patient -o report.html`
    - `clearfold rank features.parquet --label relapse --method pls --components 3 --table ranking.csv`
    - `clearfold rank features.csv --time months --event status=dead --drop-missing`
    """
    from clearfold import EmbeddingImportance
    from clearfold.cli.ranking_page import comparison, ranking_page, round_notes
    from clearfold.cli.ranking_tables import data_facts, method_facts, result_facts, whole_ranking
    from clearfold.table import atomic_write, write_table

    _check_paths(table, output, ranking)
    check_folder(tables)
    embedding = ranked_embedding(method, components, neighbors, bandwidth)
    columns = Columns(label, time, event, group, case, ignore or ())
    with ExitStack() as files, recorded() as notes:
        page = files.enter_context(atomic_write(output))
        listing = files.enter_context(atomic_write(ranking)) if ranking else None
        with stderr().status(f"reading {table.name}"):
            question = read_question(table, columns, drop_missing)
            X = matrix(question.cases, raw=True)
        _check_components(method, components, X)
        estimator = EmbeddingImportance(
            embedding=embedding,
            method=importance.value,
            n_rounds=rounds,
            n_permutations=permutations,
            standardize=not raw,
            families=question.cases.families,
            redundancy=redundancy,
            n_jobs=jobs,
            verbose=True,
            random_state=seed,
        )
        with on_workers(scheduler):
            fitted = estimator.fit(X, question.y, groups=question.cases.groups)
        notes += round_notes(fitted)
        with stderr().status("comparing with other embeddings, writing the report"):
            others = comparison(X, question, importance.value, top)
            command = " ".join(["clearfold", *sys.argv[1:]])
            title = f"Which features go with {question.name}? ({table.name})"
            report = ranking_page(title, command, question, fitted, notes, others, top)
            report.write(page)
            if listing:
                write_table(whole_ranking(fitted), listing)
            if tables:
                report.write_tables(tables)
    facts = data_facts(question) | method_facts(fitted) | result_facts(fitted)
    facts |= {"files": [str(path) for path in (output, ranking, tables) if path], "warnings": notes}
    first = whole_ranking(fitted).head(top)
    if as_json:
        print(json.dumps(facts | {"first features": _records(first)}, indent=2))
    else:
        _print(first)
        show(facts)


def _check_paths(table: Path, output: Path, ranking: Path | None) -> None:
    """Say before the work begins what could not be written at its end."""
    check_page(output)
    if ranking is not None and not ranking.name.lower().endswith(RANKINGS):
        raise InputError(f"The table {ranking.name} has no known suffix. Wanted is one of {', '.join(RANKINGS)}.")
    paths = [path.resolve() for path in (table, output, ranking) if path is not None]
    if len(set(paths)) < len(paths):
        raise InputError("Two of the table, the report and the ranking are one file. Rename one.")


def _check_components(method: RankedMethod, components: str, X: pd.DataFrame) -> None:
    """Partial least squares is scikit-learn's: its limit, in every round too, is said in our words."""
    most = min(X.shape[1], 3 * len(X) // 4)
    if method is RankedMethod.pls and int(components) > most:
        raise InputError(f"--components {components} came; for this table pls has at most {most}.")


def _records(first: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows for JSON, which has no NaN."""
    return [
        {str(name): None if value != value else value for name, value in row.items()}
        for row in first.astype(object).to_dict("records")
    ]


def _print(first: pd.DataFrame) -> None:
    """The first features, one line each: share and interval in percent, then ranks by other means."""
    from clearfold.cli.ranking_tables import HEADS

    others = [name for name in first.columns if name.startswith("rank_by_")]
    heads = ["rank", "feature", "share %", "95 %", "q", *[HEADS[name] for name in others]]
    lines = []
    for row in first.to_dict("records"):
        low, high, q = row["ci_low"], row["ci_high"], row["q_value"]
        cells = [f"{row['rank']}", str(row["feature"]), f"{100 * row['importance']:.2f}"]
        cells += ["" if low != low else f"{100 * low:.2f}-{100 * high:.2f}", "" if q != q else f"{q:.3f}"]
        lines.append([*cells, *[f"{row[name]}" for name in others]])
    grid = Grid(box=None, pad_edge=False, header_style="dim")
    for head, *cells in zip(heads, *lines, strict=True):
        if head == "feature":  # only a name may be cut
            grid.add_column(head, overflow="ellipsis")
        else:
            grid.add_column(head, justify="right", min_width=max(map(len, [head, *cells])), no_wrap=True)
    for line in lines:
        grid.add_row(*map(Text, line))
    Console().print(grid)
    print()
