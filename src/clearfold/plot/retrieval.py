"""Drawings of retrieval: precision against recall of several methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from clearfold.plot.style import COLOURS, GREY, SOFT, axes, legend_beside

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DASHES = ("-", (0, (5, 2)), (0, (1, 1.5)))


def precision_recall(curves: Mapping[str, pd.DataFrame], *, first: str, chance: float, ax: Axes | None = None) -> Axes:
    """Precision against recall, a line for each method: `first` with its band over patients, and chance.

    curves : method -> DataFrame recall, precision, low, high
    """
    ax = axes(ax, (7.6, 4.4))
    band = curves[first]
    ax.fill_between(band["recall"], band["low"], band["high"], color=COLOURS[0], alpha=0.18, linewidth=0)
    others = [name for name in curves if name != first]
    for number, name in enumerate([first, *others]):
        plain = name in ("random", "archive labels only")
        colour = SOFT if plain else COLOURS[number % len(COLOURS)]
        dash = DASHES[1 + (name == "random")] if plain else DASHES[number // len(COLOURS) % len(DASHES)]
        width = 2.4 if name == first else 1.4
        ax.plot(
            curves[name]["recall"], curves[name]["precision"], color=colour, linestyle=dash, linewidth=width, label=name
        )
    ax.axhline(chance, color=GREY, linewidth=1, zorder=0)
    ax.annotate("chance", (1.0, chance), xytext=(-2, 3), textcoords="offset points", ha="right", color=SOFT, fontsize=9)
    ax.set(xlabel="recall", ylabel="precision", xlim=(0, 1), ylim=(0, 1.02))
    legend_beside(ax, None)
    return ax


def pictures(hits: Sequence[Any], *, query: Any = None, columns: int = 5) -> Figure:
    """Thumbnails of hits in rows, each under its place, name and label; before them the query, if one is given."""
    from matplotlib.figure import Figure

    shown = [
        *([("query", query)] if query is not None else []),
        *((f"{i}.", hit) for i, hit in enumerate(hits, start=1)),
    ]
    rows, width = -(-len(shown) // columns), min(columns, len(shown))
    figure = Figure(figsize=(1.9 * width, 2.25 * rows), layout="constrained")
    for place, (word, case) in enumerate(shown, start=1):
        _picture(figure.add_subplot(rows, width, place), case, word)
    return figure


def _picture(ax: Axes, case: Any, word: str) -> None:
    import io

    from PIL import Image

    with Image.open(io.BytesIO(case.thumbnail)) as picture:
        ax.imshow(picture.convert("RGB"))
    label = "no label" if case.label is None else str(case.label)
    ax.set_title(f"{word} {case.case_id[:18]}\n{label[:22]}", fontsize=8, parse_math=False)
    ax.set_axis_off()
