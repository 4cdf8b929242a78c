"""Drawings of survival: Kaplan-Meier curves with bands, and the numbers at risk below them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from clearfold.errors import InputError
from clearfold.plot.style import COLOURS, INK, SOFT, axes, legend_beside

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

COLUMNS = ("group", "time", "survival", "low", "high", "at_risk", "censored")


def survival_curves(
    curves: pd.DataFrame, *, ax: Axes | None = None, text: str | None = None, title: str | None = None
) -> Axes:
    """Survival against time, a step for each group, a tick for each censored time, numbers at risk below.

    curves : DataFrame group, time, survival, low, high, at_risk, events, censored, as `kaplan_meier` gives it
    text : written into the lower left corner; title : of the legend
    """
    missing = [name for name in COLUMNS if name not in curves.columns]
    if missing:
        raise InputError(f"The curves have no column {', '.join(missing)}. Give `.curves` of a Kaplan-Meier result.")
    ax = axes(ax, (7.4, 4.8))
    names = list(dict.fromkeys(curves["group"]))
    for number, name in enumerate(names):
        part, colour = curves[curves["group"] == name], COLOURS[number % len(COLOURS)]
        at = part["time"].to_numpy()
        ax.fill_between(at, part["low"], part["high"], step="post", color=colour, alpha=0.15, linewidth=0)
        ax.step(at, part["survival"], where="post", color=colour, linewidth=1.9, label=str(name))
        lost = part[part["censored"] > 0]
        ax.plot(lost["time"], lost["survival"], "|", color=colour, markersize=6, markeredgewidth=1)
    ax.set(ylabel="share without event", ylim=(0, 1.02), xlim=(0, float(curves["time"].max()) * 1.01))
    ax.set_xlabel("time")
    legend_beside(ax, title)
    if text:
        ax.text(0.03, 0.05, text, transform=ax.transAxes, va="bottom", color=INK, parse_math=False)
    _numbers_at_risk(ax, curves, names)
    return ax


def _numbers_at_risk(ax: Axes, curves: pd.DataFrame, names: list[str]) -> None:
    """Below the axis of time, a line for each group, under every tick."""
    ticks = [tick for tick in ax.get_xticks() if 0 <= tick <= ax.get_xlim()[1]]
    style: dict[str, Any] = {
        "xycoords": ("data", "axes fraction"),
        "textcoords": "offset points",
        "annotation_clip": False,
    }
    below = -44
    ax.annotate("at risk", (0, 0), (-15, below), ha="right", color=SOFT, fontsize=8.5, **style)
    for number, name in enumerate(names):
        part, height = curves[curves["group"] == name], below - 13 * (number + 1)
        colour = COLOURS[number % len(COLOURS)]
        ax.annotate(str(name), (0, 0), (-15, height), ha="right", color=colour, fontsize=8.5, parse_math=False, **style)
        for tick in ticks:
            ax.annotate(str(at_risk(part, tick)), (tick, 0), (0, height), ha="center", color=INK, fontsize=8.5, **style)


def at_risk(curve: pd.DataFrame, time: float) -> int:
    """Patients of one curve whose time is at least this."""
    later = np.flatnonzero(curve["time"].to_numpy() >= time)
    return int(curve["at_risk"].iloc[later[0]]) if len(later) else 0
