"""Stain and colour of objects and regions: a family of its own, since it depends on the laboratory and the scanner."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from clearfold.errors import InputError
from clearfold.features.catalogue import Features, Measure
from clearfold.features.grid import as_labels, grid
from clearfold.features.pixels import Pixels, pixels_of
from clearfold.features.shape import object_table
from clearfold.features.texture import as_channel

Floats: TypeAlias = NDArray[np.float64]

STAINS = ("hematoxylin", "eosin")
PERCENTILES = (10, 50, 90)
STAIN = (
    {
        f"{stain}_{name}": Measure(f"stain.{stain}_{name}", f"{formula} of the {stain} concentration", "od", source)
        for stain in STAINS
        for name, formula, source in (
            ("mean", "mean", "Ruifrok and Johnston 2001"),
            ("sd", "SD, divided by n,", "Ruifrok and Johnston 2001"),
            *((f"p{share}", f"percentile {share}", "Ruifrok and Johnston 2001") for share in PERCENTILES),
        )
    }
    | {
        "hematoxylin_share": Measure(
            "stain.hematoxylin_share", "mean hematoxylin / (mean hematoxylin + mean eosin)", "1", "clearfold"
        )
    }
    | {name: Measure(f"stain.{name}", f"mean of {name}, 0 to 255", "1", "RGB") for name in ("red", "green", "blue")}
    | {
        "hue": Measure("stain.hue", "circular mean of the hue, red 0, green 1/3, blue 2/3", "turn", "Smith 1978"),
        "saturation": Measure("stain.saturation", "mean of (max - min) / max of red, green, blue", "1", "Smith 1978"),
        "value": Measure("stain.value", "mean of max(red, green, blue) / 255", "1", "Smith 1978"),
    }
)
"""What `object_stain` and `region_stain` measure, by column."""
MISSING = {
    "hematoxylin_share": "neither stain is there",
    "hue": "grey: hues of all directions cancel, or there are none",
}
"""Why a value is NaN."""


def object_stain(pixels: Any, hematoxylin: Any, eosin: Any, labels: Any) -> pd.DataFrame:
    """The measures of STAIN for each object of a label image.

    pixels : (height, width, 3) RGB, 0 to 255; hematoxylin, eosin : (height, width) concentrations
    """
    colours = _as_colours(pixels, np.shape(labels))
    cells = grid(labels)
    columns: dict[str, Any] = {}
    for stain, channel in zip(STAINS, (hematoxylin, eosin), strict=True):
        of_stain = pixels_of(as_channel(channel, labels), cells)
        columns |= {f"{stain}_mean": of_stain.mean, f"{stain}_sd": of_stain.sd}
        quantiles = of_stain.quantiles(*(share / 100 for share in PERCENTILES))
        columns |= {f"{stain}_p{share}": column for share, column in zip(PERCENTILES, quantiles.T, strict=True)}
    both = columns["hematoxylin_mean"] + columns["eosin_mean"]
    columns["hematoxylin_share"] = columns["hematoxylin_mean"] / np.where(both > 0, both, np.nan)
    columns |= _colour_means([pixels_of(colours[:, :, i], cells) for i in range(3)])
    return object_table(columns, None, MISSING)


def region_stain(pixels: Any, hematoxylin: Any, eosin: Any, mask: Any, *, structure: str = "region") -> Features:
    """The measures of STAIN over one region, where the mask is not 0: `stain.<structure>.<column>`."""
    inside = as_labels(mask) > 0
    table = object_stain(pixels, hematoxylin, eosin, inside.astype(np.int32))
    values = table.to_numpy()[0] if len(table) else np.full(len(STAIN), np.nan)
    found = {name: float(value) for name, value in zip(table.columns, values, strict=True)}
    reasons = {name: MISSING[name] if len(table) else "the region is empty" for name in found if np.isnan(found[name])}
    before = f"stain.{structure}."
    return Features(
        {before + name: value for name, value in found.items()},
        {before + name: reason for name, reason in reasons.items()},
    )


def _as_colours(pixels: Any, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    colours = np.asarray(pixels)
    if colours.ndim != 3 or colours.shape[2] != 3 or colours.shape[:2] != shape or colours.dtype != np.uint8:
        raise InputError(
            f"pixels of shape {colours.shape} and type {colours.dtype} came with labels of shape {shape}; RGB of the "
            "same height and width, uint8, is wanted."
        )
    return colours


def _colour_means(colours: list[Pixels]) -> dict[str, Floats]:
    """Means of red, green, blue, hue, saturation and value of each object."""
    red, green, blue = (of_colour.values.astype(float) for of_colour in colours)
    high, low = np.maximum(np.maximum(red, green), blue), np.minimum(np.minimum(red, green), blue)
    mean = colours[0].mean_of
    turn, coloured = np.pi / 3 * _sixths(red, green, blue), high > low  # grey has no hue
    along, across = mean(np.cos(turn) * coloured), mean(np.sin(turn) * coloured)
    hue = np.where(np.hypot(along, across) > 1e-9, np.arctan2(across, along) / (2 * np.pi) % 1, np.nan)
    saturation = (high - low) / np.where(high > 0, high, 1)
    return {
        "red": mean(red),
        "green": mean(green),
        "blue": mean(blue),
        "hue": hue,
        "saturation": mean(saturation),
        "value": mean(high) / 255,
    }


def _sixths(red: Floats, green: Floats, blue: Floats) -> Floats:
    """Hue in sixths of a turn: red 0, green 2, blue 4; grey 0."""
    high, low = np.maximum(np.maximum(red, green), blue), np.minimum(np.minimum(red, green), blue)
    some = np.where(high > low, high - low, 1)
    others = np.where(high == green, 2 + (blue - red) / some, 4 + (red - green) / some)
    return np.where(high == red, (green - blue) / some, others)
