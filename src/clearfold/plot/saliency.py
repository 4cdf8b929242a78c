"""Local saliency: the regions on a map of the samples, and the first features of each region as signed bars."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from clearfold.embedding import PCA
from clearfold.embedding.spectral import Matrix
from clearfold.errors import ClearfoldWarning, InputError
from clearfold.plot.points import scatter
from clearfold.plot.style import INK, SOFT, STYLES, axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_REGIONS = 6
"""Regions that get bars, the heaviest first."""
MOST_LETTERS = 34


def saliency_figure(fitted: Any, top: int = 10) -> Figure:
    """Map of the samples coloured by region, and for each region the bars of its first features with 95 % intervals.

    With more than two classes the map shows for each sample the region of its own class.
    """
    from matplotlib.figure import Figure

    if top < 1:
        raise InputError(f"top={top} came; wanted is at least one feature.")
    shown = list(range(len(fitted.rankings_)))
    shown = sorted(shown, key=lambda r: -fitted.regions_["mass"].iloc[r])[:MOST_REGIONS]
    rows = 1 + max(1, len(shown)) // 2  # two panels side by side stay readable on a page
    bars = min(top, fitted._X.shape[1])
    figure = Figure(figsize=(11.0, rows * (1.9 + 0.27 * max(bars, 9))), layout="constrained")
    grid = figure.add_gridspec(rows, 2)
    region_map(fitted, ax=figure.add_subplot(grid[0, 0]))
    for place, region in enumerate(sorted(shown), start=1):
        saliency_bars(fitted, region, top, ax=figure.add_subplot(grid[place // 2, place % 2]))
    if not shown:
        ax = figure.add_subplot(grid[0, 1])
        ax.set_axis_off()
        ax.text(0.5, 0.5, "no region is above the null:\nnothing is ranked", ha="center", color=SOFT)
    return figure


def region_map(fitted: Any, ax: Axes | None = None) -> Axes:
    """Principal components of the fitted samples, coloured by region; in the space in which sites were placed.

    With more than two classes, each of which has a space of its own, the components are those of the features.
    """
    regions = pd.Series([f"region {r}" for r in own_regions(fitted)], name="region")
    asked = fitted._questions
    placed = asked[0].ensemble.space.place(fitted._X) if len(asked) == 1 else fitted._X
    ax = scatter(_coordinates(placed), regions, ax=ax)
    ax.set_title("where the regions lie (principal components)", loc="left", fontsize=9, color=SOFT)
    return ax


def own_regions(fitted: Any) -> Any:
    """The region of each fitted sample; of more than two classes, within those of its own class."""
    label = fitted.regions_["label"].to_numpy()
    own = np.ones(fitted.memberships_.shape, dtype=bool)
    if len(fitted.classes_) > 2:
        own = np.equal.outer(fitted.classes_[fitted._codes], label)
    return np.where(own, fitted.memberships_, -1.0).argmax(axis=1)


def saliency_bars(fitted: Any, region: int, top: int = 10, ax: Axes | None = None) -> Axes:
    """Signed saliency of the first features of one region, 95 % intervals as lines."""
    if not 0 <= region < len(fitted.rankings_):
        raise InputError(f"region={region} came; there are {len(fitted.rankings_)} ranked regions, from 0 on.")
    shown = fitted.rankings_[region].head(top)
    facts = fitted.regions_.iloc[region]
    ax = axes(ax, (5.2, 1.5 + 0.27 * len(shown)))
    places = np.arange(len(shown))
    colour = STYLES[region % len(STYLES)][0]
    ax.barh(places, shown["saliency"], height=0.68, color=colour, alpha=0.85)
    if shown["ci_low"].notna().all():
        ax.hlines(places, shown["ci_low"], shown["ci_high"], color=INK, linewidth=1.1, zorder=3)
    ax.axvline(0, color=SOFT, linewidth=0.8)
    ax.set_yticks(places, [_short(str(name)) for name in shown["feature"]], fontsize=9, parse_math=False)
    ax.set_ylim(len(shown) - 0.4, -0.6)
    ax.set_xlim(-1.05, 1.05)
    ax.set_xlabel(f"saliency; right: for {facts['label']}", parse_math=False)
    ax.set_title(
        f"region {region}: {100 * facts['mass']:.0f} % of the cells\n{_short(facts['separates'], 60)}",
        loc="left",
        fontsize=9,
        parse_math=False,
    )
    return ax


def _coordinates(X: Matrix) -> Matrix:
    """At most two principal components."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClearfoldWarning)
        try:
            return PCA(n_components=2).fit(X).embedding_
        except InputError:  # the samples lie on a line
            return PCA(n_components=1).fit(X).embedding_


def _short(name: str, most: int = MOST_LETTERS) -> str:
    return name if len(name) <= most else f"{name[: most // 2 - 1]}…{name[-(most // 2) :]}"
