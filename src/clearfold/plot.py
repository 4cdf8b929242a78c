"""Drawings: each function takes data and perhaps an `ax`, and returns the Axes it drew on.

Figures are plain `matplotlib.figure.Figure` objects: nothing here needs a display or changes pyplot's state.
Colours are those of Okabe and Ito with two of Tol, which colour-blind readers can tell apart; markers change
when colours recur.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from clearfold.errors import InputError
from clearfold.table import PathLike, atomic_write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats: TypeAlias = NDArray[np.float64]
Style: TypeAlias = tuple[str, str]

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#882255", "#222222")
STYLES: tuple[Style, ...] = tuple((colour, marker) for marker in "o^" for colour in COLOURS)[:12]
"""Twelve classes can be told apart; with more, the largest eleven are and the others share one colour."""
GREY, INK = "#B3B3B3", "#262626"
OTHERS: Style = ("#6B6B6B", "s")
PICTURES = (".png", ".svg", ".pdf")
RASTER_ABOVE = 5000
"""From this many samples on, points are pixels inside an SVG: the file stays small."""


def scatter(
    coordinates: ArrayLike | pd.DataFrame,
    label: ArrayLike | pd.Series[Any] | None = None,
    *,
    ax: Axes | None = None,
    continuous: bool | None = None,
    placed: tuple[ArrayLike, ArrayLike | None] | None = None,
) -> Axes:
    """The first two coordinates, coloured by label; samples without a label are grey.

    A label of numbers with more than twelve values is `continuous` (a colour bar) unless told otherwise.
    `placed` is (coordinates, label) of samples that came after the fit, drawn as rings. A single coordinate
    is spread upwards, which then means nothing.
    """
    points, name = _points(coordinates), getattr(label, "name", None)
    groups = _labels(label, len(points))
    ax = _axes(ax)
    if continuous is None:
        continuous = groups.dtype.kind == "f" and groups.nunique() > len(STYLES)
    later = None if placed is None else (_points(placed[0]), _labels(placed[1], len(_points(placed[0]))))
    if continuous:
        _draw_continuous(ax, points, groups, later, str(name or "label"))
    else:
        _draw_classes(ax, points, groups, later, None if name is None else str(name))
    ax.set_xlabel("coordinate 1")
    if np.asarray(coordinates).shape[1] > 1:
        ax.set_ylabel("coordinate 2")
        ax.set_aspect("equal", adjustable="datalim")
    else:
        ax.set_yticks([])
    return ax


def curve(values: ArrayLike, chosen: int | None = None, *, ax: Axes | None = None) -> Axes:
    """Residual variance against the number of coordinates h = 1, 2, ...; the chosen h is marked."""
    from matplotlib.ticker import MaxNLocator

    heights = np.asarray(values, dtype=float).ravel()
    if chosen is not None and not 1 <= chosen <= len(heights):
        raise InputError(f"The chosen h is {chosen}, but the curve goes from 1 to {len(heights)}.")
    ax = _axes(ax, (5.4, 3.4))
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
    ax = _axes(ax, (6.4, 3.8))
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
        _legend(ax, hue)
    return ax


def save(figure: Figure | Axes, path: PathLike) -> None:
    """Write a drawing (.png, .svg, .pdf); a file that was there stays as it was unless the new one is whole."""
    drawn: Any = getattr(figure, "figure", figure)
    if Path(path).suffix.lower() not in PICTURES:
        raise InputError(f"{Path(path).name} has no known suffix. Drawings are {', '.join(PICTURES)}.")
    with atomic_write(path) as temporary:
        drawn.savefig(temporary, dpi=150)


def to_svg(figure: Figure | Axes) -> str:
    """One `<svg>` element, the same text for the same drawing, with ids that do not clash inside one page."""
    import matplotlib

    drawn: Any = getattr(figure, "figure", figure)
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "clearfold"}):
        drawn.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    svg = buffer.getvalue()
    svg = re.sub(r"\s*<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    prefix = "f" + hashlib.sha256(svg.encode()).hexdigest()[:8] + "-"
    svg = re.sub(r'\bid="', f'id="{prefix}', svg)
    return re.sub(r'(url\(#|xlink:href="#)', rf"\1{prefix}", svg)


def grid(count: int, *, width: float = 5.2, height: float = 4.4) -> tuple[Figure, Sequence[Axes]]:
    """A figure with `count` Axes in one row."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * count, height), layout="constrained")
    return figure, list(np.atleast_1d(figure.subplots(1, count)))


# What both kinds of scatter share -------------------------------------------------------------------------


def _axes(ax: Axes | None, size: tuple[float, float] = (7.0, 4.6)) -> Axes:
    """A given Axes, or one on a new figure; either way without the box around it."""
    if ax is None:
        from matplotlib.figure import Figure

        ax = Figure(figsize=size, layout="constrained").add_subplot()
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color("#8C8C8C")
    ax.tick_params(color="#8C8C8C", labelcolor=INK)
    return ax


def _points(coordinates: Any) -> Floats:
    """The first two coordinates; a single one gets an even spread as its second."""
    points = np.asarray(coordinates, dtype=float)
    if points.ndim != 2 or 0 in points.shape:
        raise InputError(f"Coordinates have the shape {points.shape}; wanted is [samples, coordinates].")
    if points.shape[1] == 1:
        golden = (np.arange(len(points)) * 0.6180339887498949) % 1.0
        return np.column_stack([points, golden])
    return points[:, :2]


def _labels(label: Any, size: int) -> pd.Series[Any]:
    """One value for each sample, NaN where it is missing; floats only when they are numbers."""
    if label is None:
        return pd.Series(np.full(size, None), dtype=object)
    series = pd.Series(np.asarray(label))
    if len(series) != size:
        raise InputError(f"There are {len(series)} labels for {size} samples. Give one for each.")
    return series.astype(float) if series.dtype.kind in "iuf" else series.astype(object)


def _look(size: int) -> dict[str, Any]:
    """Points shrink as they become many."""
    area = float(np.clip(16000 / max(size, 1), 6, 36))
    return {"s": area, "linewidths": min(0.5, area / 40), "rasterized": size > RASTER_ABOVE}


def _ring(size: int) -> dict[str, Any]:
    return {
        **_look(size),
        "s": 1.5 * _look(size)["s"] + 12,
        "linewidths": 1.4,
        "facecolors": "none",
        "zorder": 4,
    }


Later: TypeAlias = "tuple[Floats, pd.Series[Any]] | None"


def _draw_continuous(ax: Axes, points: Floats, values: pd.Series[Any], later: Later, name: str) -> None:
    known = values.notna().to_numpy()
    both = values if later is None else pd.concat([values, later[1]])
    shown = {"vmin": both.min(), "vmax": both.max(), "cmap": "viridis", **_look(len(points))}
    if not known.all():
        _no_label(ax, points[~known], len(points))
    x, y = points[known].T
    dots = ax.scatter(x, y, c=values[known].to_numpy(dtype=float), **shown)
    if later is not None:
        colours: Any = dots.cmap(dots.norm(later[1].to_numpy(dtype=float)))
        ax.scatter(*later[0].T, edgecolors=colours, label=f"placed later ({len(later[0])})", **_ring(len(points)))
    bar = ax.get_figure().colorbar(dots, ax=ax, label=name, shrink=0.8)  # type: ignore[union-attr]
    bar.outline.set_visible(False)
    if not known.all() or later is not None:
        ax.legend(loc="upper left", frameon=False)


def _draw_classes(ax: Axes, points: Floats, groups: pd.Series[Any], later: Later, name: str | None) -> None:
    styles = _class_styles(groups if later is None else pd.concat([groups, later[1]]))
    missing = groups.isna().to_numpy()
    for classes, text, (colour, marker) in styles:
        rows = groups.isin(classes).to_numpy()
        on_top = {"zorder": 2 - rows.mean(), **_look(len(points))}  # small classes are not hidden by large ones
        ring = None if later is None else later[1].isin(classes).to_numpy()
        count = f"{rows.sum()}" if ring is None else f"{rows.sum()} + {ring.sum()}"
        text = f"{text} ({count})"
        ax.scatter(*points[rows].T, color=colour, marker=marker, edgecolors="white", label=text, **on_top)
        if later is not None:
            ax.scatter(*later[0][ring].T, edgecolors=colour, marker=marker, **_ring(len(points)))
    if missing.all():
        ax.scatter(*points.T, color=COLOURS[0], edgecolors="white", **_look(len(points)))
    elif missing.any():
        _no_label(ax, points[missing], len(points))
    if later is not None:
        rest = later[0][later[1].isna().to_numpy()]
        ax.scatter(*rest.T, edgecolors=INK, label="ring: placed after the fit", **_ring(len(points)))
    if styles or later is not None:
        _legend(ax, name)


def _class_styles(groups: pd.Series[Any]) -> list[tuple[list[Any], str, Style]]:
    """(classes, text, style) in the order of the classes; many: the largest first, the small ones as one."""
    counts = groups.dropna().value_counts(sort=False)
    order = sorted(counts.index, key=_sortable)
    small: list[Any] = []
    if len(order) > len(STYLES):
        by_size = sorted(order, key=lambda value: -counts[value])
        order, small = by_size[: len(STYLES) - 1], by_size[len(STYLES) - 1 :]
    named = [([value], _text(value), style) for value, style in zip(order, STYLES, strict=False)]
    return [*named, (small, f"{len(small)} smaller classes", OTHERS)] if small else named


def _sortable(value: Any) -> tuple[bool, float, str]:
    number = isinstance(value, (int, float, np.number))
    return (not number, float(value) if number else 0.0, str(value))


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _no_label(ax: Axes, points: Floats, size: int) -> None:
    ax.scatter(*points.T, color=GREY, label=f"no label ({len(points)})", zorder=0.9, **_look(size))


def _legend(ax: Axes, title: str | None) -> None:
    """Beside the drawing, so that it never hides a point."""
    legend = ax.legend(
        title=title,
        loc="upper left",
        bbox_to_anchor=(1.01, 1.0),
        borderaxespad=0,
        frameon=False,
        alignment="left",
        handletextpad=0.3,
    )
    for handle in legend.legend_handles:
        if handle is not None and hasattr(handle, "set_sizes"):
            handle.set_sizes([36])
