"""Stability against accuracy: how well selected features predict, and how far rounds agree on them (FINE Fig. 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from clearfold.errors import InputError
from clearfold.plot.files import grid
from clearfold.plot.style import COLOURS, GREY, SOFT, axes

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

EDGES = {"LR": "#222222", "SVM": "#009E73", "RF": "#CC0033", "linear": "#222222"}
"""Outlines tell the classifiers apart, as in FINE's Fig. 3."""
JUDGES = {"LR": "logistic regression", "SVM": "SVM", "RF": "random forest", "linear": "linear regression"}
KINDS = {
    "FINE": ("o", "features by FINE"),
    "auto": ("D", "features by “auto”"),
    "filter": ("^", "features by a filter"),
    "coordinates": ("s", "coordinates (no J)"),
}
KNOWN = ("PCA", "Isomap", "LE", "LLE", "KPCA", "t-test", "Fisher", "Gini")
"""These have the same colour in every drawing."""
LEFT = -0.04
"""Where coordinates stand: nothing is selected, so they have no Jaccard index."""


def stability_accuracy(tables: Mapping[str, pd.DataFrame], *, chance: float | None = None) -> Figure:
    """A measure against the Jaccard index, a panel for each table, a point for each method and classifier.

    tables : title -> DataFrame method, classifier, AUC or MSE, low, high, J, J low, J high (`papers.rounds.figure_3`)
    chance : Jaccard index of features drawn at random, as a line. A single panel has intervals and a full legend,
        and shows that part of the measure where the points lie
    """
    if not tables:
        raise InputError("No table came; wanted is one or more of method, classifier, measure and J.")
    alone = len(tables) == 1
    figure, panels = grid(len(tables), width=7.8 if alone else 3.9, height=4.4 if alone else 3.9)
    names = list(dict.fromkeys(of_method(row)[1] for table in tables.values() for row in table["method"]))
    colours = colours_of(names)
    for ax, (title, table) in zip(panels, tables.items(), strict=True):
        _panel(axes(ax), table, colours, alone)
        ax.set_title(title, loc="left", parse_math=False)
        if chance is not None:
            ax.axvline(chance, color=GREY, linewidth=1, linestyle=(0, (4, 3)), zorder=0)
            look: Any = {"textcoords": "offset points", "fontsize": 8.5, "color": SOFT, "rotation": 90}
            ax.annotate("J by chance", (chance, ax.get_ylim()[1]), xytext=(3, -2), va="top", **look)
    _legend(panels[-1], {name: colours[name] for name in names}, list(tables.values()), alone)
    return figure


def of_method(method: str) -> tuple[str, str]:
    """Kind and name: FINE PCA -> (FINE, PCA), PCA coordinates -> (coordinates, PCA), t-test -> (filter, t-test)."""
    first, _, rest = str(method).partition(" ")
    if first in ("FINE", "auto") and rest:
        return first, rest
    return ("coordinates", first) if rest == "coordinates" else ("filter", str(method))


def colours_of(names: Sequence[str]) -> dict[str, str]:
    """The usual colour of a known name, one of those that are left for another."""
    known = dict(zip(KNOWN, COLOURS, strict=True))
    left = [colour for name, colour in known.items() if name not in names] or list(COLOURS)
    others = [name for name in names if name not in known]
    return known | {name: left[number % len(left)] for number, name in enumerate(others)}


def _panel(ax: Axes, table: pd.DataFrame, colours: Mapping[str, str], intervals: bool) -> None:
    measure = str(table.columns[2])
    for row in table.to_dict("records"):
        kind, name = of_method(row["method"])
        x = _number(row["J"])
        x = x if np.isfinite(x) else LEFT
        if intervals:
            ax.plot([x, x], [_number(row["low"]), _number(row["high"])], color=colours[name], linewidth=1, alpha=0.5)
            ends = [_number(row["J low"]), _number(row["J high"])]
            ax.plot(ends, [row[measure]] * 2, color=colours[name], linewidth=1, alpha=0.5)
        ax.plot(
            [x], [row[measure]], KINDS[kind][0], color=colours[name], markeredgecolor=EDGES[row["classifier"]],
            markeredgewidth=1.3, markersize=7, alpha=0.9,
        )  # fmt: skip
    low, high = ax.get_ylim()
    if measure == "AUC":
        ax.axhline(0.5, color=GREY, linewidth=1, zorder=0)
    if intervals:  # the points fill the panel; chance may then lie outside
        spare = max(0.0, 0.04 - (high - low)) / 2
        ax.set(ylim=(low - spare, high + spare), xlim=(2 * LEFT, None))
    ax.set(xlabel="Jaccard index J", ylabel=measure)


def _legend(ax: Axes, colours: Mapping[str, str], tables: Sequence[pd.DataFrame], full: bool) -> None:
    """Colours of embeddings and filters; in a single panel also what shapes and outlines mean."""
    from matplotlib.lines import Line2D

    kinds = {of_method(method) for table in tables for method in table["method"]}
    filters = {name for kind, name in kinds if kind == "filter"}
    handles: list[Any] = [
        Line2D([], [], marker="^" if name in filters else "o", linestyle="", color=colour, label=name)
        for name, colour in colours.items()
    ]
    if full:
        used = [kind for kind in KINDS if kind in {kind for kind, _ in kinds}]
        blank: dict[str, Any] = {"linestyle": "", "markerfacecolor": "white", "markersize": 7}
        handles += [
            Line2D([], [], marker=KINDS[kind][0], markeredgecolor=SOFT, label=KINDS[kind][1], **blank) for kind in used
        ]
        classifiers = list(dict.fromkeys(title for table in tables for title in table["classifier"]))
        handles += [
            Line2D(
                [],
                [],
                marker="o",
                markeredgecolor=EDGES[title],
                markeredgewidth=1.8,
                label=f"judged by {JUDGES[title]}",
                **blank,
            )
            for title in classifiers
        ]
    legend = ax.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, borderaxespad=0)
    for text in legend.get_texts():
        text.set_parse_math(False)


def _number(value: Any) -> float:
    return float("nan") if value is None else float(value)
