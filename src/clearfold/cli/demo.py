"""`clearfold demo`: the first look, on data that come with scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clearfold.cli.console import fact_table, recorded, show, stderr
from clearfold.cli.methods import Method, coordinate_table, map_facts
from clearfold.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from clearfold.report import Report

DEMO_TEXT = (
    "Each case is a fine needle aspirate of a breast mass, described by 30 numbers that measure the shape, size "
    "and texture of its nuclei (the Wisconsin diagnostic data that come with scikit-learn). The map is made "
    "without the diagnosis, which only colours it.",
    "A quarter of the cases was held back. Scaling and both maps were learned from the others; the cases held "
    "back were then placed on the finished map, as a new patient would be. They are drawn as rings.",
)


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write to.")] = Path("clearfold-demo"),
) -> None:
    """Map 569 breast tumours that come with scikit-learn and write a report; nothing is downloaded.

    Three quarters of the cases make the map (Isomap, with PCA beside it); the others are placed on it
    without fitting again.

    Example: `clearfold demo -o demo`
    """
    with recorded() as notes, stderr().status("embedding 569 cases"):
        facts = _demo(output, notes)
    show(facts)
    print(f"Report: {output / 'report.html'}")


def _demo(folder: Path, notes: list[str]) -> dict[str, Any]:
    """Fit on three quarters of the cases, place the others, write everything to the folder."""
    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import StandardScaler

    from clearfold.embedding import PCA, Isomap, residual_variance
    from clearfold.plot import save
    from clearfold.table import Table, write_table

    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file. Give a folder to write to.")
    cases = Table.from_frame(_breast_cancer(), label="diagnosis")
    old, new = train_test_split(cases.X.index, stratify=cases.y, random_state=0)
    scaler = StandardScaler().set_output(transform="pandas").fit(cases.X.loc[old])
    X, X_new = scaler.transform(cases.X.loc[old]), scaler.transform(cases.X.loc[new])
    isomap = Isomap(n_components="elbow", n_neighbors=10).fit(X)
    maps = {"Isomap": isomap, "PCA": PCA(n_components=isomap.n_components_).fit(X)}
    placed = {name: fitted.transform(X_new) for name, fitted in maps.items()}
    y, y_new = cases.frame["diagnosis"].loc[old], cases.frame["diagnosis"].loc[new]
    facts = map_facts(cases, isomap, Method.isomap, raw=False)
    agreement = _agreement(maps, placed, y, y_new)
    facts = {"placed without fitting": len(X_new), **facts, "samples": len(X)}
    facts["agreement"] = [f"{name}: {share:.3f}" for name, share in agreement.to_numpy()]
    figure = _two_maps(maps, placed, y, y_new)
    curve = residual_variance(Isomap(n_neighbors=10), X, 20)

    page = _demo_page(facts, notes, figure, curve, agreement)
    frame = coordinate_table(cases, _in_order(isomap.embedding_, placed["Isomap"], [*old, *new]))
    frame.insert(2, "placed_later", frame.index.isin(new))
    folder.mkdir(parents=True, exist_ok=True)
    write_table(cases, folder / "cases.csv")
    write_table(frame, folder / "coordinates.csv")
    save(figure, folder / "map.png")
    page.write(folder / "report.html")
    return facts | {"files": [str(folder / name) for name in ("cases.csv", "coordinates.csv", "map.png")]}


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


def _two_maps(maps: Mapping[str, Any], placed: Mapping[str, Any], y: Any, y_new: Any) -> Any:
    from clearfold.plot import grid, scatter

    figure, axes = grid(len(maps))
    for ax, (name, fitted) in zip(axes, maps.items(), strict=True):
        scatter(fitted.embedding_, y, ax=ax, placed=(placed[name], y_new)).set_title(name, loc="left")
        if ax is not axes[-1] and (legend := ax.get_legend()):
            legend.remove()
    return figure


def _demo_page(facts: Mapping[str, Any], notes: list[str], figure: Any, curve: Any, agreement: pd.DataFrame) -> Report:
    from clearfold.report import Report

    page = Report("A map of 569 breast tumours", {"command": "clearfold demo"}).text(*DEMO_TEXT).warnings(notes)
    page.figure(
        figure,
        "The first two coordinates. Dots made the map, rings were placed on it later; numbers count both.",
        alt="Two scatter plots, Isomap and PCA, where benign and malignant cases lie mostly apart.",
    )
    page.heading("Do placed cases land among their own kind?").table(
        agreement,
        f"Share of {facts['placed without fitting']} placed cases whose diagnosis is that of most of the five "
        "nearest cases on the map. One split of one data set: an illustration, not a benchmark.",
    )
    page.heading("How many coordinates?").figure(
        curve.plot(),
        "Residual variance of Isomap: 1 minus the correlation between distances on the map and path lengths "
        f"along the neighbour graph. The elbow, {curve.chosen}, was used.",
    )
    page.heading("What was done").table(fact_table(facts))
    return page.heading("Next").text(
        "The same for a table of yours: clearfold embed features.csv --label grade --report report.html"
    )
