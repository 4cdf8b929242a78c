"""Colours, markers, axes and legends that all drawings share."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Style: TypeAlias = tuple[str, str]

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#882255", "#222222")
STYLES: tuple[Style, ...] = tuple((colour, marker) for marker in "o^" for colour in COLOURS)[:12]
"""Twelve classes can be told apart; with more, the largest eleven are and the others share one colour."""
GREY, SOFT, INK = "#B3B3B3", "#6B6B6B", "#262626"
OTHERS: Style = (SOFT, "s")


def axes(ax: Axes | None, size: tuple[float, float] = (7.0, 4.6)) -> Axes:
    """A given Axes, or one on a new figure; either way without the box around it."""
    if ax is None:
        from matplotlib.figure import Figure

        ax = Figure(figsize=size, layout="constrained").add_subplot()
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color("#8C8C8C")
    ax.tick_params(color="#8C8C8C", labelcolor=INK)
    return ax


def legend_beside(ax: Axes, title: str | None) -> None:
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
    for text in [legend.get_title(), *legend.get_texts()]:
        text.set_parse_math(False)
    for handle in legend.legend_handles:
        if handle is not None and hasattr(handle, "set_sizes"):
            handle.set_sizes([36])
