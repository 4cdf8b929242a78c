"""Features where they are: nuclei coloured over their tissue, and a feature of tiles over a slide."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clearfold.errors import InputError
from clearfold.plot.style import GREY, INK

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from clearfold.objects import Objects

OUTLINE = "#FFE14D"
"""Seen on pink, purple and white alike."""
COLOURS, LONGEST_SIDE = "viridis", 9.0
Floats = NDArray[np.float64]


def overlay(image: Any, objects: Objects | ArrayLike, values: ArrayLike | None = None, *, name: str = "") -> Figure:
    """Outlines of the objects over the image; with a value for each, filled by it, and a colour bar called `name`.

    Colours run from the 2nd to the 98th percentile, so that one odd object does not hide the others. An object whose
    value is missing has a grey outline and no colour.
    """
    from matplotlib.collections import PolyCollection

    from clearfold.images import as_image
    from clearfold.objects import as_objects

    picture = as_image(image)
    found = as_objects(objects, picture.pixels.shape[:2], picture.mpp)
    numbers = None if values is None else _numbers(values, len(found), "object")
    figure, ax = _tissue(picture.pixels, bar=numbers is not None)
    width = 1.1 if len(found) < 2000 else 0.5
    if numbers is None:
        ax.add_collection(PolyCollection(found.contours, facecolors="none", edgecolors=OUTLINE, linewidths=width))
        return figure
    there = np.isfinite(numbers)
    missing = [contour for contour, known in zip(found.contours, there, strict=True) if not known]
    shown = [contour for contour, known in zip(found.contours, there, strict=True) if known]
    ax.add_collection(PolyCollection(missing, facecolors="none", edgecolors=GREY, linewidths=width))
    drawn = PolyCollection(shown, array=numbers[there], cmap=COLOURS, alpha=0.75, edgecolors="white", linewidths=0.3)
    _colour_bar(figure, ax, ax.add_collection(drawn), numbers[there], name or _called(values))
    return figure


def heat_map(
    thumbnail: Any,
    tiles: pd.DataFrame,
    values: ArrayLike | str,
    *,
    size: tuple[int, int] | None = None,
    name: str = "",
) -> Figure:
    """A feature of tiles over the picture of their slide (as FINE's figure 5).

    `tiles` has columns x, y, width, height, or is the table of one slide that `clearfold extract` wrote; `values` is
    one number for each tile, or the name of a column. `size` is the width and height of the slide in the pixels of the
    tiles (`slide.size`); without it they are those of the thumbnail. A tile whose value is missing stays as it is.
    """
    from matplotlib.collections import PolyCollection

    from clearfold.images import as_image

    places = _places(tiles)
    if isinstance(values, str) and values not in tiles.columns:
        raise InputError(f"The table of tiles has no column {values!r}. It has {', '.join(map(str, tiles.columns))}.")
    column = tiles[values] if isinstance(values, str) else values
    numbers = _numbers(column, len(tiles), "tile")
    picture = as_image(thumbnail)
    height, width = picture.pixels.shape[:2]
    across, down = (1.0, 1.0) if size is None else (width / size[0], height / size[1])
    left, top, wide, high = places.T * np.array([across, down, across, down])[:, None]
    right, low = left + wide, top + high
    corners = np.stack([left, top, right, top, right, low, left, low], axis=1).reshape(-1, 4, 2) - 0.5
    there = np.isfinite(numbers)
    figure, ax = _tissue(picture.pixels, bar=True)
    drawn = PolyCollection(list(corners[there]), array=numbers[there], cmap=COLOURS, alpha=0.6, linewidths=0)
    _colour_bar(figure, ax, ax.add_collection(drawn), numbers[there], name or _called(column))
    return figure


def _places(tiles: pd.DataFrame) -> Floats:
    """[n, 4]: x, y, width and height of each tile, from columns of these names or from the text in `region`."""
    names = ["x", "y", "width", "height"]
    if "slide_id" in tiles.columns and len(tiles["slide_id"].unique()) > 1:
        slides = ", ".join(map(str, tiles["slide_id"].unique()[:3]))
        raise InputError(f"The tiles are of several slides ({slides} ...). Keep those of one: table.query(...).")
    if "region" in tiles.columns and not set(names) <= set(tiles.columns):
        written = tiles["region"].astype(str).str.extract(r"^x=(\d+) y=(\d+) width=(\d+) height=(\d+)$")
        if not written.isna().any(axis=None):
            return written.to_numpy(float)
    missing = [column for column in names if column not in tiles.columns]
    if missing:
        raise InputError(f"The table of tiles has no column {', '.join(missing)}; wanted are x, y, width and height.")
    return tiles[names].to_numpy(float)


def _tissue(pixels: NDArray[np.uint8], bar: bool) -> tuple[Figure, Any]:
    """A figure of the image's own shape, and its Axes."""
    from matplotlib.figure import Figure

    height, width = pixels.shape[:2]
    inches = LONGEST_SIDE / max(height, width)
    room = 1.3 if bar else 0.0
    figure = Figure(figsize=(max(2.0, width * inches) + room, max(2.0, height * inches)), layout="constrained")
    ax = figure.add_subplot()
    ax.imshow(pixels, interpolation="nearest")
    ax.set_axis_off()
    return figure, ax


def _colour_bar(figure: Figure, ax: Any, drawn: Any, numbers: Floats, name: str) -> None:
    from matplotlib.cm import ScalarMappable

    if len(numbers) == 0:
        ax.set_title("no value to show", loc="left", fontsize=9, color=INK)
        return
    low, high = np.percentile(numbers, [2, 98])
    drawn.set_clim(low, high if high > low else low + 1)
    beyond = {(True, True): "both", (True, False): "min", (False, True): "max", (False, False): "neither"}
    extend = beyond[bool(numbers.min() < low), bool(numbers.max() > high)]
    opaque = ScalarMappable(drawn.norm, drawn.cmap)  # the bar is seen without the tissue below it
    bar = figure.colorbar(opaque, ax=ax, fraction=0.035, pad=0.01, extend=extend)
    bar.set_label(name, parse_math=False)
    bar.outline.set_visible(False)


def _numbers(values: ArrayLike, count: int, what: str) -> Floats:
    try:
        numbers = np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"The values are not numbers ({error}). Give one number for each {what}.") from error
    if numbers.shape != (count,):
        raise InputError(f"Values of the shape {numbers.shape} came; wanted is one for each {what}, ({count},).")
    return numbers


def _called(values: Any) -> str:
    found = getattr(values, "name", None)
    return str(found) if found is not None else ""
