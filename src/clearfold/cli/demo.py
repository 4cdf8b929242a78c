"""`clearfold demo`: the first look, on data that come with scikit-learn and on drawn tissue."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clearfold.cli.console import fact_table, recorded, show
from clearfold.cli.demo_archive import ABOUT, NAME, make_archive
from clearfold.cli.methods import Method, coordinate_table, map_facts
from clearfold.cli.report_files import Tables, check_folder
from clearfold.cli.search_page import add_search
from clearfold.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from clearfold.report import Report

ROUNDS, PERMUTATIONS = 30, 500

DEMO_TEXT = (
    "Each case is a fine needle aspirate of a breast mass, described by 30 numbers that measure the shape, size "
    "and texture of its nuclei: their mean, its standard error, and the mean of the three worst nuclei (the Wisconsin "
    "diagnostic data that come with scikit-learn). The map is made without the diagnosis, which only colours it. The "
    "ranking then says which of the 30 numbers set malignant and benign cases apart on that map.",
    "A quarter of the cases was held back. Scaling, map and ranking were learned from the others; the cases held "
    "back were then placed on the finished map, as a new patient would be. They are drawn as rings.",
)


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write to.")] = Path("clearfold-demo"),
    serve: Annotated[
        bool | None, typer.Option("--serve/--no-serve", help="End with the page; by default in a terminal.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the page.")] = 8765,
    tables: Tables = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what happened as JSON.")] = False,
) -> None:
    """Map 569 breast tumours, rank their features, index drawn tissue, ask it, write a report, and show the page.

    Nothing is downloaded. Three quarters of the tumours, which come with scikit-learn, make the map (Isomap, with PCA
    beside it) and the ranking; the others are placed on the map without fitting again. The archive holds tissue that
    was drawn for it.

    Example: `clearfold demo -o demo --no-serve`
    """
    check_folder(tables)
    with recorded() as notes:
        facts = _demo(output, notes, tables)
    if as_json:
        where = {"report": str(output / "report.html"), "archive": str(output / NAME)}
        print(json.dumps(facts | where | {"warnings": notes}, indent=2), flush=True)
    else:
        show(facts)
        print(f"Report: {output / 'report.html'}")
    if (sys.stdout.isatty() and not as_json) if serve is None else serve:
        from clearfold.cli.serve import serve as show_page

        show_page(str(output / NAME), port=port, as_json=as_json)
    elif not as_json:
        print(f"Page: clearfold serve {output / NAME}  (at http://127.0.0.1:{port}/)")


def _demo(folder: Path, notes: list[str], tables: Path | None) -> dict[str, Any]:
    """Fit on three quarters of the cases, place the others, write everything to the folder."""
    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import StandardScaler

    from clearfold.cli.ranking_page import methods_of, round_notes
    from clearfold.cli.ranking_tables import result_facts, whole_ranking
    from clearfold.embedding import PCA, Isomap, residual_variance
    from clearfold.importance import EmbeddingImportance
    from clearfold.plot import maps as draw_maps
    from clearfold.table import Table

    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file. Give a folder to write to.")
    cases = Table.from_frame(_breast_cancer(), label="diagnosis")
    old, new = train_test_split(cases.X.index, stratify=cases.y, random_state=0)
    scaler = StandardScaler().set_output(transform="pandas").fit(cases.X.loc[old])
    X, X_new = scaler.transform(cases.X.loc[old]), scaler.transform(cases.X.loc[new])
    y, y_new = cases.frame["diagnosis"].loc[old], cases.frame["diagnosis"].loc[new]
    curve = residual_variance(Isomap(n_neighbors=10), X, 20)
    ranked = EmbeddingImportance(
        embedding=Isomap(n_components=curve.chosen, n_neighbors=10),
        n_rounds=ROUNDS,
        n_permutations=PERMUTATIONS,
        families={name: _family(name) for name in cases.features},
        verbose=True,
        random_state=0,
    ).fit(X, y)
    maps = {"Isomap": ranked.embedding_, "PCA": PCA(n_components=curve.chosen).fit(X.to_numpy())}
    placed = {name: fitted.transform(X_new.to_numpy()) for name, fitted in maps.items()}
    agreement = _agreement(maps, placed, y, y_new)
    facts = {"placed without fitting": len(X_new), **map_facts(cases, ranked.embedding_, Method.isomap, raw=False)}
    facts |= {"samples": len(X), "rounds": ROUNDS, "permutations": PERMUTATIONS, **result_facts(ranked)}
    facts["agreement"] = [f"{name}: {share:.3f}" for name, share in agreement.to_numpy()]
    figure = draw_maps({name: of.embedding_ for name, of in maps.items()}, y, placed=placed, label_placed=y_new)
    folder.mkdir(parents=True, exist_ok=True)
    page = _demo_page(facts, notes + round_notes(ranked), figure, curve, agreement, ranked)
    page.heading("Which earlier cases look like this one, and why?").text(ABOUT)
    add_search(page, make_archive(folder))
    _add_next(page)
    page.ending(fact_table(facts), [*methods_of(ranked), "BeliefSpectralEmbedding"])
    frame = coordinate_table(cases, _in_order(ranked.embedding_.embedding_, placed["Isomap"], [*old, *new]))
    frame.insert(2, "placed_later", frame.index.isin(new))
    files = {"cases.csv": cases, "coordinates.csv": frame, "ranking.csv": whole_ranking(ranked)}
    if tables is not None:
        page.write_tables(tables)
    return facts | {"files": _write(folder, files, {"map.png": figure, "ranking.png": ranked.plot()}, page)}


def _write(folder: Path, tables: Mapping[str, Any], pictures: Mapping[str, Any], page: Report) -> list[str]:
    from clearfold.plot import save
    from clearfold.table import write_table

    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        write_table(table, folder / name)
    for name, picture in pictures.items():
        save(picture, folder / name)
    page.write(folder / "report.html")
    return [str(folder / name) for name in (*tables, *pictures)]


def _family(feature: str) -> str:
    """mean_radius -> mean, radius_error -> error, worst_radius -> worst."""
    return "error" if feature.endswith("_error") else feature.split("_", 1)[0]


def _breast_cancer() -> pd.DataFrame:
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer(as_frame=True)
    frame = data.data.rename(columns=lambda name: name.replace(" ", "_"))
    frame.insert(0, "case_id", [f"case-{row:03d}" for row in range(len(frame))])
    frame.insert(1, "diagnosis", [str(data.target_names[code]) for code in data.target])
    return frame


def _in_order(coordinates: Any, placed: Any, rows: list[int]) -> Any:
    """Fitted and placed coordinates, in the order of the table."""
    import numpy as np

    return np.vstack([coordinates, placed])[np.argsort(rows)]


def _agreement(maps: Mapping[str, Any], placed: Mapping[str, Any], y: Any, y_new: Any) -> pd.DataFrame:
    """How often the five nearest fitted cases on the map have the diagnosis of a case that was placed."""
    import pandas as pd
    from sklearn.neighbors import KNeighborsClassifier

    shares = {
        f"{name}, {fitted.embedding_.shape[1]} coordinates": float(
            (KNeighborsClassifier(5).fit(fitted.embedding_, y).predict(placed[name]) == y_new).mean()
        )
        for name, fitted in maps.items()
    }
    shares["always the more frequent diagnosis"] = float((y_new == y.mode()[0]).mean())
    return pd.DataFrame({"map": list(shares), "agreement": list(shares.values())})


def _demo_page(
    facts: Mapping[str, Any], notes: list[str], figure: Any, curve: Any, agreement: pd.DataFrame, ranked: Any
) -> Report:
    from clearfold.cli.ranking_page import HOW_TO_READ, add_ranking, add_trust, answer
    from clearfold.report import Report

    page = Report("A map of 569 breast tumours, and the features behind it", {"command": "clearfold demo"})
    page.text(*DEMO_TEXT, answer(ranked)).warnings(notes)
    page.heading("The map").figure(
        figure,
        "The first two coordinates. Dots made the map, rings were placed on it later; numbers count both.",
        alt="Two scatter plots, Isomap and PCA, where benign and malignant cases lie mostly apart.",
    )
    page.heading("Do placed cases land among their own kind?").table(
        agreement,
        f"Share of {facts['placed without fitting']} placed cases whose diagnosis is that of most of the five "
        "nearest cases on the map. One split of one data set: an illustration, not a benchmark.",
        name="agreement",
    )
    add_ranking(page, ranked, 20)
    add_trust(page, ranked)
    page.heading("How many coordinates?").figure(
        curve.plot(),
        "Residual variance of Isomap: 1 minus the correlation between distances on the map and path lengths "
        f"along the neighbour graph. The elbow, {curve.chosen}, was used.",
    ).remember("residual-variance", curve.frame())
    return page.heading("How to read the ranking, and what is known").text(*HOW_TO_READ)


def _add_next(page: Report) -> None:
    page.heading("Next").text(
        "The same for a table of yours:\nclearfold rank features.csv --label grade --group patient -o report.html\n"
        "clearfold embed features.csv --label grade --report map.html",
        "The same for images of yours:\nclearfold extract images/ --labels grades.csv --mpp 0.5 -o features.parquet\n"
        "clearfold index features.parquet -o cases.clearfold\nclearfold serve cases.clearfold",
    )
