"""Texture of objects: first-order statistics of grey levels, and Haralick's measures of their co-occurrence.

A channel is any (height, width) array of numbers: grey, or the concentration of a stain. Levels are counted in equal
steps between two limits, which are those of the image unless they are given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from clearfold.errors import InputError
from clearfold.features.catalogue import Features, Measure
from clearfold.features.cooccurrence import HARALICK, haralick_of
from clearfold.features.grid import as_labels, framed_flat, grid
from clearfold.features.pixels import Pixels, pixels_of
from clearfold.features.shape import object_table

Floats: TypeAlias = NDArray[np.float64]
Limits: TypeAlias = tuple[float, float]

LEVELS = 16
"""Grey levels that are told apart: a nucleus has some hundreds of pixels, and 16 x 16 cells to fill."""
DISTANCES = {"d1": 1 / 16, "d2": 1 / 8, "d3": 1 / 4}
"""Distances of co-occurring pixels as shares of the diameter of nuclei."""
TAILS = (1.0, 99.0)
"""Percentiles that are the limits of grey levels where none are given: single pixels must not stretch the scale."""
BLOCK = 2**15
"""Pixels whose levels are computed at the same time."""

FIRST_ORDER = {
    name: Measure(f"texture.{name}", formula, unit, "first-order statistics; FINE")
    for name, formula, unit in (
        ("grey_mean", "mean over the pixels", "channel"),
        ("grey_sd", "SD over the pixels, divided by n", "channel"),
        ("grey_median", "median over the pixels", "channel"),
        ("grey_min", "smallest value", "channel"),
        ("grey_max", "largest value", "channel"),
        ("grey_skewness", "m3 / SD^3", "1"),
        ("grey_kurtosis", "m4 / SD^4 - 3", "1"),
        ("grey_entropy", f"entropy of {LEVELS} grey levels in bits", "1"),
        ("grey_energy", f"sum p^2 over {LEVELS} grey levels", "1"),
    )
}
"""What `first_order` measures, by column."""
CO_OCCURRENCE = {
    f"haralick_{measure}_{name}": Measure(
        f"texture.haralick_{measure}_{name}",
        f"{formula}; {LEVELS} levels, pairs {share:g} diameters apart in the object, mean of 4 directions",
        "1",
        "Haralick 1973",
    )
    for name, share in DISTANCES.items()
    for measure, formula in HARALICK.items()
}
"""What `haralick` measures at the distances of `texture_distances`, by column."""
FLAT = "all pixels are equal"
SMALL = "too small: no two pixels at this distance in one of the directions"


def texture_distances(diameter: float) -> dict[str, int]:
    """Distances in pixels for nuclei of this diameter in pixels: max(1, round(share * diameter)).

    >>> texture_distances(30)
    {'d1': 2, 'd2': 4, 'd3': 8}
    """
    if not (np.isfinite(diameter) and diameter > 0):
        raise InputError(f"diameter={diameter} came; the diameter of nuclei in pixels is wanted, a number above 0.")
    return {name: max(1, round(share * diameter)) for name, share in DISTANCES.items()}


def grey_limits(channel: Any, labels: Any = None) -> Limits:
    """The 1st and 99th percentile of the channel where labels are not 0 (everywhere without labels)."""
    values = as_channel(channel)
    inside = values.ravel() if labels is None else values[as_labels(labels) > 0]
    if not len(inside):
        return 0.0, 1.0
    low, high = np.percentile(inside, TAILS)
    return float(low), float(high)


def first_order(channel: Any, labels: Any, *, limits: Limits | None = None, levels: int = LEVELS) -> pd.DataFrame:
    """The measures of FIRST_ORDER of the channel in each object.

    limits : of the grey levels that entropy and energy count; by default `grey_limits` of the objects in this image.
    Skewness and kurtosis of equal pixels are NaN.
    """
    values = as_channel(channel, labels)
    pixels = pixels_of(values, grid(labels))
    grey = quantise(values, limits or grey_limits(values, labels), levels)
    shares = pixels_of(grey, pixels.grid).histogram(levels + 1)
    return object_table(_first_order(pixels, shares), None, {"grey_skewness": FLAT, "grey_kurtosis": FLAT})


def haralick(
    channel: Any,
    labels: Any,
    distances: Mapping[str, int],
    *,
    limits: Limits | None = None,
    levels: int = LEVELS,
) -> pd.DataFrame:
    """Haralick's thirteen measures in each object, `haralick_<measure>_<name>` for each named distance in pixels.

    Only pairs that lie in one object are counted, in both orders; measures are means of the directions 0, 45, 90 and
    135 degrees (diagonally the distance is that of rows and of columns). An object without a pair in one of them has
    NaN. limits : of the grey levels; by default `grey_limits` of the objects in this image, so give them where rows
    must not depend on other objects.
    """
    values = as_channel(channel, labels)
    grey = quantise(values, limits or grey_limits(values, labels), levels)
    longest = max(distances.values(), default=1)
    if min(distances.values(), default=1) < 1:
        raise InputError(f"distances={dict(distances)} came; whole numbers of pixels from 1 on are wanted.")
    cells = grid(labels, frame=min(longest, max(values.shape)))
    framed = framed_flat(grey, min(longest, max(values.shape)))
    columns: dict[str, Any] = {}
    for name, distance in distances.items():
        found = _haralick(cells, framed, distance, levels, max(values.shape))
        columns |= {f"haralick_{measure}_{name}": column for measure, column in zip(HARALICK, found.T, strict=True)}
    return object_table(columns, None, dict.fromkeys(columns, SMALL))


def region_haralick(
    channel: Any,
    mask: Any,
    distances: Mapping[str, int],
    *,
    structure: str = "region",
    limits: Limits | None = None,
    levels: int = LEVELS,
) -> Features:
    """Haralick's measures over one region, where the mask is not 0: `texture.<structure>.haralick_<measure>_<name>`."""
    inside = as_labels(mask) > 0
    table = haralick(channel, inside.astype(np.int32), distances, limits=limits, levels=levels)
    names = [f"texture.{structure}.{column}" for column in table.columns]
    values = table.to_numpy()[0] if len(table) else np.full(len(names), np.nan)
    reason = SMALL if len(table) else "the region is empty"
    found = {name: float(value) for name, value in zip(names, values, strict=True)}
    return Features(found, {name: reason for name, value in found.items() if np.isnan(value)})


def quantise(channel: Floats, limits: Limits, levels: int) -> NDArray[np.uint8]:
    """Levels 1..levels in equal steps from the lower to the upper limit; what lies beyond has the level at the end."""
    low, high = limits
    if not 2 <= levels <= 255:
        raise InputError(f"levels={levels} came; 2 to 255 grey levels are wanted, 8 to 32 as a rule.")
    if not (np.isfinite(low) and np.isfinite(high) and low <= high):
        raise InputError(f"limits={limits} came; a lower and an upper one are wanted.")
    grey = np.ones(channel.shape, np.uint8)
    step = (high - low) / levels
    some = max(1, BLOCK // max(1, channel.shape[1]))
    for row in range(0, len(channel) if step > 0 else 0, some):  # pieces that stay in the cache
        scaled = channel[row : row + some] - low
        scaled /= step
        np.clip(scaled, 0, levels - 1, out=scaled)
        grey[row : row + some] += scaled.astype(np.uint8)
    return grey


def as_channel(channel: Any, labels: Any = None) -> Floats:
    """A channel as floats of the shape of the labels, or an error that says what is wrong with it."""
    values = np.asarray(channel)
    if values.ndim != 2 or not (np.issubdtype(values.dtype, np.number) or values.dtype == bool):
        raise InputError(
            f"a channel of shape {values.shape} and type {values.dtype} came; (height, width) numbers are wanted."
        )
    if labels is not None and values.shape != np.shape(labels):
        raise InputError(
            f"a channel of shape {values.shape} came with labels of shape {np.shape(labels)}; one size is wanted."
        )
    values = values.astype(float, copy=False)
    if not np.isfinite(values).all():
        raise InputError("the channel has values that are not finite; mend them or mark them as background.")
    return values


def _haralick(cells: Any, framed: NDArray[np.uint8], distance: int, levels: int, longest: int) -> Floats:
    if not cells.count or distance > longest:
        return np.full((cells.count, len(HARALICK)), np.nan)
    return haralick_of(cells, framed, int(distance), levels)


def _first_order(pixels: Pixels, shares: Floats) -> dict[str, Any]:
    mean, sd = pixels.mean, pixels.sd
    equal = pixels.low == pixels.high
    spread = np.where(equal, np.nan, sd)
    return {
        "grey_mean": mean,
        "grey_sd": np.where(equal, 0.0, sd),
        "grey_median": pixels.quantiles(0.5)[:, 0],
        "grey_min": pixels.low,
        "grey_max": pixels.high,
        "grey_skewness": pixels.central(3) / spread**3,
        "grey_kurtosis": pixels.central(4) / spread**4 - 3,
        "grey_entropy": -(shares * np.log2(np.where(shares > 0, shares, 1.0))).sum(axis=1) + 0.0,
        "grey_energy": (shares**2).sum(axis=1),
    }
