"""The `clearfold` command: parse, call, print. Heavy modules are imported inside commands, so help is fast."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text
from typer.core import TyperGroup

from clearfold.errors import ClearfoldError, ClearfoldWarning, InputError, TableError

if TYPE_CHECKING:
    import pandas as pd

    from clearfold.report import Report
    from clearfold.table import Table

CURVE_BELOW = 3000
"""A report has a residual variance curve below this many samples: it takes every pairwise distance."""


class Method(StrEnum):
    """The embeddings, by their names on the command line."""

    isomap = "isomap"
    pca = "pca"
    kernel_pca = "kernel-pca"
    laplacian = "laplacian"
    lle = "lle"
    graph = "graph"


CLASSES: dict[Method, tuple[str, tuple[str, ...]]] = {
    Method.isomap: ("Isomap", ("n_neighbors",)),
    Method.pca: ("PCA", ()),
    Method.kernel_pca: ("KernelPCA", ("bandwidth",)),
    Method.laplacian: ("LaplacianEigenmap", ("n_neighbors", "bandwidth")),
    Method.lle: ("LocallyLinearEmbedding", ("n_neighbors",)),
    Method.graph: ("GraphEmbedding", ("bandwidth",)),
}
"""Method -> its class in `clearfold.embedding`, and which of the options it has."""


class Commands(TyperGroup):
    """Turns an error that clearfold raises on purpose into a message and exit code 2."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; with --debug an error keeps its traceback."""
        try:
            return super().invoke(ctx)
        except (ClearfoldError, MemoryError) as error:
            if ctx.params.get("debug"):
                raise
            text = str(error)
            if isinstance(error, MemoryError):
                text = f"There is not enough memory ({error}). Try --landmarks 2000."
            _stderr().print(Text.assemble(("error: ", "bold red"), (text, "red")), soft_wrap=True)
            raise typer.Exit(2) from error


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Entry point of the `clearfold` command."""
    app(prog_name="clearfold")


def _version(wanted: bool) -> None:
    if wanted:
        from clearfold import __version__

        print(f"clearfold {__version__}")
        raise typer.Exit


@app.callback()
def top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Manifolds one can see through: maps of few patients and many features.

    Begin with `clearfold demo`, which needs no data of yours and ends in a report.
    """


@app.command()
def embed(
    table: Annotated[Path, typer.Argument(help="Feature table: .csv, .tsv (.gz), .parquet, .h5ad or .h5.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Coordinates to write.")] = Path("coordinates.parquet"),
    method: Annotated[Method, typer.Option(help="The embedding.")] = Method.isomap,
    label: Annotated[str | None, typer.Option(help="Column of the class or value that colours the map.")] = None,
    group: Annotated[str | None, typer.Option(help="Column of the patient.")] = None,
    case: Annotated[str | None, typer.Option(help="Column that names each sample.")] = None,
    ignore: Annotated[list[str] | None, typer.Option(help="Column to leave out; may be repeated.")] = None,
    neighbors: Annotated[
        int | None, typer.Option("--neighbors", "-k", help="For isomap, laplacian and lle. Default: 10.")
    ] = None,
    components: Annotated[str, typer.Option(help="Number of coordinates, or 'elbow'.")] = "2",
    bandwidth: Annotated[
        str | None, typer.Option(help="For kernel-pca, laplacian and graph: a number. Default: 'median'.")
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Do not standardise the features.")] = False,
    drop_missing: Annotated[
        bool,
        typer.Option("--drop-missing", help="Drop features with over 5% missing, then incomplete samples."),
    ] = False,
    landmarks: Annotated[
        int | None, typer.Option(help="Fit on this many samples and place the others: for large tables.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the choice of landmarks.")] = 0,
    plot: Annotated[
        Path | None, typer.Option(help="Map to draw: .png, .svg or .pdf. Default: .png beside the output.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="HTML report to write.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what happened as JSON.")] = False,
) -> None:
    """Give every sample of a table its coordinates, and draw the map.

    Features are standardised (mean 0, standard deviation 1) unless --raw is given. The label colours the map;
    it has no part in the embedding. Files that exist stay as they were if anything fails.

    Examples:

    - `clearfold embed features.csv --label grade --group patient`
    - `clearfold embed features.parquet -k 15 --components elbow --report report.html`
    - `clearfold embed tiles.h5 --method kernel-pca --landmarks 2000 -o tiles.csv`
    """
    from clearfold import plot as plots
    from clearfold.table import atomic_write, read_table, write_table

    picture = plot or output.with_name(f"{output.name.split('.')[0]}.png")
    _check_paths(table, output, picture, report)
    embedding = _embedding(method, components, neighbors, bandwidth)
    with ExitStack() as files, _recorded() as notes:
        drawn = files.enter_context(atomic_write(picture))
        page = files.enter_context(atomic_write(report)) if report else None
        with _stderr().status(f"reading {table.name}"):
            cases = read_table(table, label=label, patient_id=group, case_id=case, ignore=ignore or ())
            cases = cases.complete() if drop_missing else cases
            X = _matrix(cases, raw)
        with _stderr().status(f"embedding {len(cases)} samples with {method.value}"):
            fitted = _with_landmarks(embedding, landmarks, seed).fit(X)
        ax = plots.scatter(fitted.embedding_, cases.y)
        plots.save(ax, drawn)
        facts = _facts(cases, fitted, method, raw)
        if page:
            with _stderr().status("writing the report"):
                _report(f"Map of {table.name}", facts, notes, ax, embedding, X).write(page)
        write_table(_coordinates(cases, fitted.embedding_), output)
    facts |= {"files": [str(path) for path in (output, picture, report) if path], "warnings": notes}
    print(json.dumps(facts, indent=2)) if as_json else _show(facts)


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write to.")] = Path("clearfold-demo"),
) -> None:
    """Map 569 breast tumours that come with scikit-learn and write a report; nothing is downloaded.

    Three quarters of the cases make the map (Isomap, with PCA beside it); the others are placed on it
    without fitting again.

    Example: `clearfold demo -o demo`
    """
    with _recorded() as notes, _stderr().status("embedding 569 cases"):
        facts = _demo(output, notes)
    _show(facts)
    print(f"Report: {output / 'report.html'}")


# The parts of `embed` -----------------------------------------------------------------------------------------


def _check_paths(table: Path, output: Path, picture: Path, report: Path | None) -> None:
    """Say before the work begins what could not be written at its end."""
    from clearfold.plot import PICTURES
    from clearfold.table import format_of

    format_of(output)
    if picture.suffix.lower() not in PICTURES:
        raise InputError(f"The map {picture.name} has no known suffix. Wanted is {', '.join(PICTURES)}.")
    paths = [path.resolve() for path in (table, output, picture, report) if path is not None]
    if len(set(paths)) < len(paths):
        raise InputError("Two of the table, the coordinates, the map and the report are one file. Rename one.")
    if not output.resolve().parent.is_dir():
        raise TableError(f"The folder {output.parent} does not exist. Make it first, or write elsewhere.")


def _embedding(method: Method, components: str, neighbors: int | None, bandwidth: str | None) -> Any:
    """The embedding that the options describe; an option that the method does not have is refused."""
    from clearfold import embedding as embeddings

    name, known = CLASSES[method]
    for option, value in (("n_neighbors", neighbors), ("bandwidth", bandwidth)):
        if value is not None and option not in known:
            having = ", ".join(other.value for other in Method if option in CLASSES[other][1])
            raise InputError(f"{method.value} has no {option}. Leave the option out, or use {having}.")
    values = {
        "n_neighbors": 10 if neighbors is None else neighbors,
        "bandwidth": _number("--bandwidth", bandwidth or "median", float, "median"),
    }
    h = _number("--components", components, int, "elbow")
    return getattr(embeddings, name)(n_components=h, **{option: values[option] for option in known})


def _number(option: str, text: str, kind: type[int] | type[float], word: str) -> float | str:
    if text == word:
        return word
    try:
        return kind(text)
    except ValueError:
        what = "a whole number" if kind is int else "a number"
        raise InputError(f"{option} {text} came; wanted is {what} or '{word}'.") from None


def _with_landmarks(embedding: Any, landmarks: int | None, seed: int) -> Any:
    from clearfold.embedding import LandmarkEmbedding

    if landmarks is None:
        return embedding
    return LandmarkEmbedding(embedding=embedding, n_landmarks=landmarks, random_state=seed)


def _matrix(cases: Table, raw: bool) -> pd.DataFrame:
    """The features, standardised unless raw; for missing values it names the option that drops them."""
    from sklearn.preprocessing import StandardScaler

    X = cases.X
    if missing := cases.n_missing:
        some = X.isna().any()
        raise TableError(
            f"{missing} values are missing, in {some.sum()} of {len(some)} features. Fill them, or give "
            "--drop-missing to drop features with over 5% missing values and then incomplete samples."
        )
    return X if raw else StandardScaler().set_output(transform="pandas").fit_transform(X)


def _coordinates(cases: Table, coordinates: Any) -> pd.DataFrame:
    """Case id (else the row number, from 0) and the other roles of each sample, then coordinate_1, ..."""
    frame = cases.frame[list(dict.fromkeys(cases.roles.values()))].copy()
    if "case_id" not in cases.roles:
        frame.insert(0, "case_id", cases.frame.index.astype(str))
    for number, column in enumerate(coordinates.T, start=1):
        frame[f"coordinate_{number}"] = column
    return frame


def _facts(cases: Table, embedding: Any, method: Method, raw: bool) -> dict[str, Any]:
    """What happened, in words that JSON and a table can hold; None where the method has no such thing."""
    fitted = getattr(embedding, "fitted_", embedding)
    bridges = getattr(fitted, "bridges_", None)
    X = cases.X
    return {
        "samples": len(cases),
        "features": len(cases.families),
        "constant features": int((X.min() == X.max()).sum()),
        "ignored columns": cases.ignored,
        "dropped": str(cases.dropped) if cases.dropped != type(cases.dropped)() else None,
        "standardised": not raw,
        "method": method.value,
        "landmarks": len(embedding.landmarks_) if fitted is not embedding else None,
        "neighbors": getattr(fitted, "n_neighbors_", getattr(fitted, "n_neighbors", None)),
        "bandwidth": getattr(fitted, "bandwidth_", None),
        "coordinates": int(embedding.embedding_.shape[1]),
        "eigenvalues": [float(value) for value in fitted.eigenvalues_],
        "parts of the graph": getattr(fitted, "n_connected_components_", None),
        "bridges": None if bridges is None else len(bridges),
        "duplicate samples": getattr(fitted, "n_duplicates_", None),
    }


def _report(title: str, facts: Mapping[str, Any], notes: list[str], ax: Any, embedding: Any, X: pd.DataFrame) -> Report:
    from clearfold.embedding import residual_variance
    from clearfold.report import Report

    page = Report(title, {"command": " ".join(["clearfold", *sys.argv[1:]])}).warnings(notes)
    page.figure(ax, "The first two coordinates of every sample. The label has no part in the embedding.")
    page.heading("What was done").table(_rows(facts))
    if len(X) < CURVE_BELOW:
        curve = residual_variance(embedding, X, 20)
        page.heading("How many coordinates?").text(
            "Residual variance is 1 minus the correlation between distances on the map and the distances that "
            f"the method preserves. The curve bends at {curve.chosen}; {facts['coordinates']} were computed."
        )
        page.figure(curve.plot(), f"Residual variance; the elbow is at {curve.chosen} coordinates.")
    return page


# The parts of `demo` -------------------------------------------------------------------------------------------

DEMO_TEXT = (
    "Each case is a fine needle aspirate of a breast mass, described by 30 numbers that measure the shape, size "
    "and texture of its nuclei (the Wisconsin diagnostic data that come with scikit-learn). The map is made "
    "without the diagnosis, which only colours it.",
    "A quarter of the cases was held back. Scaling and both maps were learned from the others; the cases held "
    "back were then placed on the finished map, as a new patient would be. They are drawn as rings.",
)


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
    facts = _facts(cases, isomap, Method.isomap, raw=False)
    agreement = _agreement(maps, placed, y, y_new)
    facts = {"placed without fitting": len(X_new), **facts, "samples": len(X)}
    facts["agreement"] = [f"{name}: {share:.3f}" for name, share in agreement.to_numpy()]
    figure = _two_maps(maps, placed, y, y_new)
    curve = residual_variance(Isomap(n_neighbors=10), X, 20)

    page = _demo_page(facts, notes, figure, curve, agreement)
    frame = _coordinates(cases, _in_order(isomap.embedding_, placed["Isomap"], [*old, *new]))
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
    page.heading("What was done").table(_rows(facts))
    return page.heading("Next").text(
        "The same for a table of yours: clearfold embed features.csv --label grade --report report.html"
    )


# Printing -----------------------------------------------------------------------------------------------------


def _stderr() -> Console:
    return Console(stderr=True)


@contextmanager
def _recorded() -> Iterator[list[str]]:
    """Collect warnings, each once, and print them at the end even when the work failed."""
    notes: list[str] = []

    def note(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        text = f"{category.__name__}: {message}"
        if text not in notes:
            notes.append(text)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", ClearfoldWarning)
            warnings.showwarning = note
            yield notes
    finally:
        for text in notes:
            _stderr().print(Text.assemble(("warning: ", "bold yellow"), (text, "yellow")), soft_wrap=True)


def _rows(facts: Mapping[str, Any]) -> pd.DataFrame:
    """The facts that apply, as text in two columns."""
    import pandas as pd

    shown = {name: _words(value) for name, value in facts.items() if value not in (None, {}, [])}
    return pd.DataFrame({"what": list(shown), "value": list(shown.values())})


def _words(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return _words([f"{name} ({reason})" for name, reason in value.items()])
    if isinstance(value, list):
        more = f" and {len(value) - 8} more" if len(value) > 8 else ""
        return ", ".join(_words(item) for item in value[:8]) + more
    return str(value)


def _show(facts: Mapping[str, Any]) -> None:
    grid = Grid(show_header=False, box=None, pad_edge=False)
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for what, value in _rows({name: value for name, value in facts.items() if name != "warnings"}).to_numpy():
        grid.add_row(Text(what), Text(value))
    Console().print(grid)
