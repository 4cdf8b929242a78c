"""Curves over a number: residual variance, and measures over a search."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from clearfold.errors import InputError
from clearfold.plot.style import COLOURS, STYLES, axes, legend_beside

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def curve(values: ArrayLike, chosen: int | None = None, *, ax: Axes | None = None) -> Axes:
    """Residual variance against the number of coordinates h = 1, 2, ...; the chosen h is marked."""
    from matplotlib.ticker import MaxNLocator

    heights = np.asarray(values, dtype=float).ravel()
    if chosen is not None and not 1 <= chosen <= len(heights):
        raise InputError(f"The chosen h is {chosen}, but the curve goes from 1 to {len(heights)}.")
    ax = axes(ax, (5.4, 3.4))
    ax.plot(np.arange(1, len(heights) + 1), heights, "-o", color=COLOURS[0], markersize=4, linewidth=1.6)
    if chosen is not None:
        height = heights[chosen - 1]
        ax.axvline(chosen, color=COLOURS[1], linewidth=1, linestyle=(0, (4, 3)), zorder=0)
        ax.plot([chosen], [height], "o", color=COLOURS[1], markersize=8)
        right = chosen <= 0.6 * len(heights)
        ax.annotate(
            f"h = {chosen}\n{height:.3g}",
            (chosen, height),
            xytext=(9 if right else -9, 9),
            textcoords="offset points",
            ha="left" if right else "right",
            color=COLOURS[1],
            fontweight="bold",
        )
    ax.set_xlabel("number of coordinates h")
    ax.set_ylabel("residual variance")
    ax.set_ylim(bottom=0, top=max(1e-12, float(np.nanmax(heights))) * 1.12)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    return ax


def lines(frame: pd.DataFrame, x: str, y: str, hue: str | None = None, *, ax: Axes | None = None) -> Axes:
    """`y` against `x`, one line for each value of `hue`: the picture of a parameter search.

    Rows that share x and hue are joined to their mean, with a band from the smallest to the largest.
    """
    for name in [x, y, *([hue] if hue else [])]:
        if name not in frame.columns:
            raise InputError(f"There is no column {name!r}. The columns are: {', '.join(map(str, frame.columns))}.")
    ax = axes(ax, (6.4, 3.8))
    ordered = hue is not None and pd.api.types.is_numeric_dtype(frame[hue].dtype)
    parts = [("", frame)] if hue is None else list(frame.groupby(hue, sort=ordered, observed=True))
    for i, (value, part) in enumerate(parts):
        colour, marker = STYLES[i % len(STYLES)]
        summary = part.groupby(x, sort=True)[y].agg(["mean", "min", "max"])
        at = summary.index.to_numpy()
        if (summary["max"] > summary["min"]).any():
            ax.fill_between(at, summary["min"], summary["max"], color=colour, alpha=0.15, linewidth=0)
        ax.plot(at, summary["mean"], color=colour, marker=marker, markersize=4.5, linewidth=1.6, label=str(value))
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    if hue is not None:
        legend_beside(ax, hue)
    return ax
