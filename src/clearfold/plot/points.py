"""Maps of samples: the first two coordinates, coloured by label."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from clearfold.errors import InputError
from clearfold.plot.files import grid
from clearfold.plot.style import COLOURS, GREY, INK, OTHERS, STYLES, Style, axes, legend_beside

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats: TypeAlias = NDArray[np.float64]

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
    ax = axes(ax)
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


def maps(
    coordinates: Mapping[str, Any],
    label: ArrayLike | pd.Series[Any] | None = None,
    *,
    placed: Mapping[str, Any] | None = None,
    label_placed: ArrayLike | None = None,
    width: float = 5.2,
) -> Figure:
    """The same samples on several maps (name -> coordinates) side by side, one legend for all.

    placed : name -> coordinates of samples that came after the fit, with `label_placed`
    """
    figure, panels = grid(len(coordinates), width=width, height=0.84 * width)
    for ax, (name, of) in zip(panels, coordinates.items(), strict=True):
        later = None if placed is None else (placed[name], label_placed)
        scatter(of, label, ax=ax, placed=later).set_title(name, loc="left", parse_math=False)
        if ax is not panels[-1] and (legend := ax.get_legend()):
            legend.remove()
    return figure


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
        legend_beside(ax, name)


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
