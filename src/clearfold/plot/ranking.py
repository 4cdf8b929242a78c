"""Rankings of features: importances with their intervals, families, and ranks under several embeddings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from clearfold.errors import InputError
from clearfold.plot.style import COLOURS, GREY, INK, SOFT, axes

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

FAMILY_COLOURS = (*COLOURS, "#999933", "#AA4499")
"""As many families as this are told apart by colour."""
MOST_FAMILIES = 20
MOST_LETTERS = (46, 64, 90)
"""Names are cut to the first of these lengths that tells all of them apart."""
COLUMN = 50.0
"""Width of a column of ranks, in points."""
CLEAR = 0.05
"""A bar is filled when its q-value is below this."""
FILTERS = {"t": "t-test", "gini": "Gini", "correlation": "correlation", "label_free": "label-free"}


def importance_bars(importance: Any, top: int = 20, ax: Axes | None = None) -> Axes:
    """The first features of a fitted EmbeddingImportance, best on top, with 95 % intervals and other ranks beside.

    A bar is coloured by family, filled when q < 0.05 and pale otherwise. On the right stand the feature's ranks by a
    simple filter and without labels; a rank beyond `top` is bold: there the rankings differ.
    """
    if top < 1:
        raise InputError(f"top={top} came; wanted is at least one feature.")
    shown = importance.table_.sort_values("rank").head(top)
    colours = _family_colours(list(importance.family_importances_["family"]))
    ax = axes(ax, (9.6, 1.3 + 0.27 * len(shown)))
    _bars(ax, shown, [colours.get(name, COLOURS[0]) for name in shown["family"]])
    _names_beside(ax, list(shown["feature"]))
    ranks = importance.comparison_.loc[shown.index].drop(columns="feature")
    _rank_columns(ax, ranks, len(shown))
    drawn = {name: colour for name, colour in colours.items() if name in set(shown["family"])}
    _legend(ax, drawn, bool(shown["q_value"].notna().any()), 14 + COLUMN * ranks.shape[1])
    return ax


def family_bars(importance: Any, ax: Axes | None = None) -> Axes:
    """Importance of whole families, largest on top, with 95 % intervals; at most 20 of them.

    The grey mark is a family's share of the features: where its bar would end if every feature had the same importance.
    Features that are a family of their own are left out and counted, unless all are.
    """
    table = importance.family_importances_
    several = table[table["n_features"] > 1] if (table["n_features"] > 1).any() else table
    shown = several.head(MOST_FAMILIES)
    colours = _family_colours(list(table["family"]))
    ax = axes(ax, (7.6, 1.3 + 0.3 * len(shown)))
    even = list(shown["n_features"] / table["n_features"].sum())
    _bars(ax, shown, [colours.get(name, COLOURS[0]) for name in shown["family"]], even)
    _names_beside(ax, [f"{_short(str(f))} ({n})" for f, n in zip(shown["family"], shown["n_features"], strict=True)])
    said = [f"the first {len(shown)} of {len(several)} families"] if len(shown) < len(several) else []
    said += [f"not drawn: {len(table) - len(several)} features without a family"] if len(several) < len(table) else []
    ax.set_title("; ".join(said), loc="left", fontsize=8.5, color=SOFT)
    _legend(ax, {}, bool(shown["q_value"].notna().any()), 8, even="equal for every feature")
    return ax


def rank_table(frame: pd.DataFrame, columns: Sequence[str], ax: Axes | None = None) -> Axes:
    """Ranks of features (rows, column `feature`) under several embeddings (`columns`): dark is high in the ranking."""
    from matplotlib import colormaps
    from matplotlib.colors import LogNorm

    for name in ["feature", *columns]:
        if name not in frame.columns:
            raise InputError(f"There is no column {name!r}. The columns are: {', '.join(map(str, frame.columns))}.")
    ranks = frame[list(columns)].to_numpy(dtype=float)
    ax = axes(ax, (2.8 + 1.15 * len(columns), 1.1 + 0.27 * len(frame)))
    norm, shades = LogNorm(1, max(10.0, float(ranks.max(initial=1)))), colormaps["Blues_r"].resampled(256)
    ax.imshow(shades(0.1 + 0.9 * np.asarray(norm(ranks))), aspect="auto", interpolation="nearest")
    for (row, column), rank in np.ndenumerate(ranks):
        colour = "white" if norm(rank) < 0.4 else INK
        ax.text(column, row, f"{rank:g}", ha="center", va="center", fontsize=8.5, color=colour)
    _names_beside(ax, [str(name) for name in frame["feature"]])
    ax.xaxis.tick_top()
    heads = [re.sub("(?<=[a-z])(?=[A-Z])", "\n", _short(name, 30)) for name in columns]
    ax.set_xticks(range(len(columns)), heads, fontsize=9, parse_math=False)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    return ax


# The parts of both kinds of bars -------------------------------------------------------------------------------


def _bars(ax: Axes, shown: pd.DataFrame, colours: list[str], even: Sequence[float] = ()) -> None:
    """Shares as bars, filled or pale, their intervals as lines, even shares as marks."""
    from matplotlib.colors import to_rgba
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    pale = shown["q_value"] >= CLEAR
    faces = [to_rgba(colour, 0.25 if light else 1.0) for colour, light in zip(colours, pale, strict=True)]
    places = np.arange(len(shown))
    ax.barh(places, shown["importance"], height=0.68, color=faces, edgecolor=colours, linewidth=0.9)
    if shown["ci_low"].notna().all():
        ax.hlines(places, shown["ci_low"], shown["ci_high"], color=INK, linewidth=1.1, zorder=3)
    ax.plot(even, places[: len(even)], "|", color=GREY, markersize=15, markeredgewidth=2, zorder=3)
    ax.set_xlim(0, 1.05 * float(np.nanmax([*shown["importance"], *shown["ci_high"], *even])))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g} %"))
    ax.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    ax.set_xlabel("share of the importance; line: 95 % interval")


def _names_beside(ax: Axes, names: Sequence[str]) -> None:
    ax.set_yticks(range(len(names)), _told_apart(names), fontsize=9, parse_math=False)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)


def _rank_columns(ax: Axes, ranks: pd.DataFrame, top: int) -> None:
    """Numbers right of the bars, one column for each other ranking."""
    look: dict[str, Any] = {"xycoords": ax.get_yaxis_transform(), "textcoords": "offset points", "fontsize": 8.5}
    middle = COLUMN * (ranks.shape[1] + 1) / 2 - 14
    ax.annotate("rank by", (1, -0.6), xytext=(middle, 14), ha="center", va="bottom", color=SOFT, **look)
    for column, name in enumerate(ranks.columns, start=1):
        look["xytext"] = (COLUMN * column, 0)
        ax.annotate(FILTERS.get(str(name), str(name)), (1, -0.6), ha="right", va="bottom", color=INK, **look)
        for row, rank in enumerate(ranks[name]):
            far = rank > top
            colour, weight = (INK, "bold") if far else (SOFT, "normal")
            ax.annotate(f"{rank}", (1, row), ha="right", va="center", color=colour, fontweight=weight, **look)


def _legend(ax: Axes, families: Mapping[str, str], judged: bool, points: float, even: str = "") -> None:
    """Families and what pale means, `points` right of the drawing."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from matplotlib.transforms import ScaledTranslation

    entries: list[tuple[Any, str]] = [(Patch(color=colour), _short(name, 30)) for name, colour in families.items()]
    if judged:
        entries += [(Patch(facecolor=SOFT), f"q < {CLEAR}")]
        entries += [(Patch(facecolor="#DADADA", edgecolor=SOFT), f"q ≥ {CLEAR}")]
    if even:
        entries += [(Line2D([], [], color=GREY, marker="|", markersize=10, markeredgewidth=2, linestyle=""), even)]
    if not entries:
        return
    beside = ax.transAxes + ScaledTranslation(points / 72, 0, ax.figure.dpi_scale_trans)
    legend = ax.legend(
        [handle for handle, _ in entries],
        [" "] * len(entries),  # the names come after: matplotlib hides labels that start with an underscore
        loc="upper left",
        bbox_to_anchor=(1, 1),
        bbox_transform=beside,
        borderaxespad=0,
        frameon=False,
        fontsize=8.5,
        handlelength=1.2,
    )
    for text, (_, name) in zip(legend.get_texts(), entries, strict=True):
        text.set(text=name, parse_math=False)


def _family_colours(families: Sequence[str]) -> dict[str, str]:
    """Family -> colour, the largest first; none when there is one family, or more than can be told apart."""
    if not 2 <= len(families) <= len(FAMILY_COLOURS):
        return {}
    return dict(zip(families, FAMILY_COLOURS, strict=False))


def _told_apart(names: Sequence[str]) -> list[str]:
    """Short names, as long as no two become the same."""
    tries = ([_short(name, most) for name in names] for most in MOST_LETTERS)
    return next((short for short in tries if len(set(short)) == len(set(names))), list(names))


def _short(name: str, most: int = MOST_LETTERS[0]) -> str:
    """A long name without its middle."""
    return name if len(name) <= most else f"{name[: most // 2 - 1]}…{name[-(most // 2) :]}"
