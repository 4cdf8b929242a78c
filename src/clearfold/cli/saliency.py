"""`clearfold saliency`: which features decide in which region of the samples, in one report."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clearfold.cli.console import fact_table, recorded, show, stderr
from clearfold.cli.methods import matrix
from clearfold.cli.question import Columns, Question, read_question
from clearfold.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from clearfold.report import Report

RANKINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
PAGES = (".html", ".htm")
LISTED = 30

HOW_TO_READ = (
    "A region is a set of samples in which one linear boundary decides. Regions are told apart only when a classifier "
    "of its own for each predicts left-out samples clearly better than one for both; one region means that nothing "
    "speaks against a single ranking.",
    "Saliency is the weight of a feature in that boundary, divided by the largest one: -1 to 1, on standardised "
    "features. Its sign says towards which class the feature speaks, its size how strongly beside the others. It does "
    "not say that a feature causes anything.",
    "The interval, “same sign” and “selected” come from the bootstrap: patients are drawn with replacement, and the "
    "region's boundary is learned anew. A feature whose interval holds 0 has no reliable sign.",
    "p compares what a region predicts of left-out samples with the same for shuffled labels, sites placed anew each "
    "time. When no region is above that null, nothing is ranked.",
    "Features that correlate strongly share their weight, and which of them leads is nearly chance.",
    "“global” is the rank by one linear machine for all samples, “t-test” by a t-test. Where all agree, those would "
    "have done.",
)


def saliency(
    table: Annotated[Path, typer.Argument(help="Feature table: .csv, .tsv (.gz), .parquet, .h5ad or .h5.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML report to write.")] = Path("saliency.html"),
    label: Annotated[str | None, typer.Option(help="Column of the class.")] = None,
    group: Annotated[str | None, typer.Option(help="Column of the patient: rows of one stay together.")] = None,
    case: Annotated[str | None, typer.Option(help="Column that names each sample.")] = None,
    ignore: Annotated[list[str] | None, typer.Option(help="Column to leave out; may be repeated.")] = None,
    sites: Annotated[int, typer.Option(help="Voronoi sites.")] = 4,
    perturbations: Annotated[int, typer.Option(help="How often the sites are moved.")] = 100,
    bootstraps: Annotated[int, typer.Option(help="Draws of patients for intervals; 0 for none.")] = 50,
    permutations: Annotated[int, typer.Option(help="Shuffled labels for the null; 0 for none.")] = 50,
    top: Annotated[int, typer.Option(min=1, help="Features that are drawn for each region.")] = 10,
    seed: Annotated[int, typer.Option(help="Seed of everything.")] = 0,
    raw: Annotated[bool, typer.Option("--raw", help="Do not standardise the features.")] = False,
    drop_missing: Annotated[
        bool, typer.Option("--drop-missing", help="Drop features with over 5% missing, then incomplete samples.")
    ] = False,
    rankings: Annotated[
        Path | None, typer.Option("--table", help="All rankings to write: .csv, .tsv (.gz) or .parquet.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what happened as JSON.")] = False,
) -> None:
    """Find the regions in which different features decide between classes, and rank the features in each.

    The report has the regions on a map, a signed ranking for each with intervals, and a global ranking and a t-test
    beside it. When no region is above shuffled labels, nothing is ranked. Files that exist stay as they were if
    anything fails.

    Examples:

    - `clearfold saliency features.csv --label subtype -o saliency.html`
    - `clearfold saliency features.parquet --label grade --group patient --table rankings.csv`
    """
    from clearfold.saliency import VoronoiSaliency
    from clearfold.table import atomic_write, write_table

    _check_paths(table, output, rankings)
    with ExitStack() as files, recorded() as notes:
        page = files.enter_context(atomic_write(output))
        listing = files.enter_context(atomic_write(rankings)) if rankings else None
        with stderr().status(f"reading {table.name}"):
            question = read_question(
                table, Columns(label=label, group=group, case=case, ignore=ignore or ()), drop_missing
            )
            X = matrix(question.cases, raw=True)
        if question.kind != "label":
            raise InputError(
                f"{question.name} holds a {question.kind}; saliency wants classes. Name a column of labels."
            )
        estimator = VoronoiSaliency(
            n_sites=sites,
            n_perturbations=perturbations,
            n_bootstraps=bootstraps,
            n_permutations=permutations,
            standardize=not raw,
            random_state=seed,
        )
        with stderr().status("moving sites, permuting labels, drawing patients"):
            fitted = estimator.fit(X, question.y, groups=question.cases.groups)
            command = " ".join(["clearfold", *sys.argv[1:]])
            saliency_page(table.name, command, question, fitted, notes, top).write(page)
            if listing:
                write_table(all_rankings(fitted), listing)
    facts = result_facts(fitted) | {"files": [str(path) for path in (output, rankings) if path], "warnings": notes}
    if as_json:
        first = all_rankings(fitted).groupby("region").head(top)
        records = json.loads(first.to_json(orient="records"))
        print(json.dumps(facts | {"first features": records}, indent=2))
    else:
        show(_first_lines(fitted) | facts)


def _check_paths(table: Path, output: Path, rankings: Path | None) -> None:
    """Say before the work begins what could not be written at its end."""
    if output.suffix.lower() not in PAGES:
        raise InputError(f"The report {output.name} has no known suffix. Wanted is {' or '.join(PAGES)}.")
    if rankings is not None and not rankings.name.lower().endswith(RANKINGS):
        raise InputError(f"The table {rankings.name} has no known suffix. Wanted is one of {', '.join(RANKINGS)}.")
    paths = [path.resolve() for path in (table, output, rankings) if path is not None]
    if len(set(paths)) < len(paths):
        raise InputError("Two of the table, the report and the rankings are one file. Rename one.")


def all_rankings(fitted: Any) -> pd.DataFrame:
    """Every ranking in one table, with its region, label and the ranks by simpler means; empty when refused."""
    import pandas as pd

    beside = fitted.comparison_[["region", "feature", "global_svm", "t_test"]]
    columns = ["region", "label", "feature", "saliency", "ci_low", "ci_high", "sign_agreement", "selected_share"]
    parts = [
        ranking.assign(region=number, label=fitted.regions_["label"].iloc[number])
        for number, ranking in enumerate(fitted.rankings_)
    ]
    if not parts:
        return pd.DataFrame(columns=[*columns, "global_svm", "t_test"])
    return pd.concat(parts)[columns].merge(beside, on=["region", "feature"], how="left")


def result_facts(fitted: Any) -> dict[str, Any]:
    """What a reader would ask first."""
    regions = fitted.regions_
    return {
        "regions": len(fitted.rankings_),
        "above the null": f"{int(regions['above_null'].sum())} of {len(regions)}" if fitted.n_permutations else None,
        "smallest p": float(regions["p_value"].min()) if fitted.n_permutations else None,
        "cells with both classes": f"{100 * fitted.useful_share_:.0f} %",
        "distinct cells": fitted.n_distinct_cells_,
    }


def _first_lines(fitted: Any) -> dict[str, str]:
    """The first features of each region in a line."""
    lines = {}
    for number, ranking in enumerate(fitted.rankings_):
        first = [f"{row.feature} {row.saliency:+.2f}" for row in ranking.head(5).itertuples()]
        lines[f"region {number} ({fitted.regions_['label'].iloc[number]})"] = ", ".join(first)
    return lines


def answer(fitted: Any) -> str:
    """The first paragraph."""
    if not fitted.rankings_:
        return "No region is above the null: shuffled labels do as well. Nothing is ranked."
    lines = _first_lines(fitted)
    many = "One region was found" if len(lines) == 1 else f"{len(lines)} regions were found"
    return f"{many}. " + " ".join(f"In {name} the first features are {text}." for name, text in lines.items())


def saliency_page(name: str, command: str, question: Question, fitted: Any, notes: Sequence[str], top: int) -> Report:
    """The whole report of `clearfold saliency`."""
    from clearfold.cli.ranking_tables import data_facts
    from clearfold.report import Report

    page = Report(f"Which features decide {question.name}, and where? ({name})", {"command": command})
    page.text(answer(fitted)).warnings(notes)
    page.heading("What was asked, and of which data").table(fact_table(data_facts(question)))
    page.heading("The regions").figure(
        fitted.plot(top),
        "Left: the samples, coloured by region. Right: the first features of each region, signed, with 95 % intervals.",
        alt=answer(fitted),
    )
    shown = fitted.regions_.drop(columns="centre").rename(columns={"separates": "apart from the others by"})
    page.table(shown.round(3).rename(columns=lambda text: str(text).replace("_", " ")))
    rows = all_rankings(fitted)
    heads = {"sign_agreement": "same sign", "selected_share": "selected", "global_svm": "global", "t_test": "t-test"}
    for number in range(len(fitted.rankings_)):
        facts = fitted.regions_.iloc[number]
        page.heading(f"Region {number}: what speaks for {facts['label']}")
        own = rows[rows["region"] == number].drop(columns=["region", "label"]).head(LISTED)
        page.table(own.round(3).rename(columns=heads), f"The first {len(own)} features; {facts['separates']}.")
    page.heading("How it was done").table(fact_table(result_facts(fitted) | method_facts(fitted)))
    return page.heading("How to read this").text(*HOW_TO_READ)


def method_facts(fitted: Any) -> dict[str, Any]:
    """The options."""
    return {
        "sites": fitted.n_sites,
        "perturbations": fitted.n_perturbations,
        "placement of sites": fitted.placement,
        "standardised": bool(fitted.standardize),
        "bootstraps": fitted.n_bootstraps,
        "permutations": fitted.n_permutations,
        "seed": fitted.random_state,
    }
