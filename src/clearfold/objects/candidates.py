"""Shapes that may be nuclei: connected parts of the hematoxylin channel at many thresholds; what is seen of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clearfold.objects.collection import Floats, Labels, extra

LEVELS = np.arange(0.1, 1.25, 0.1)
"""Thresholds, on a channel where 0 is the usual background and 1 the usual nucleus of the image."""
SEEN = ("log_area", "ellipse", "mean", "contrast", "edge", "spread", "touching")
"""What is measured of a candidate, in the order of the columns."""
CORNERS = np.ones((3, 3), dtype=bool)
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Candidates:
    """Masks, each with the rows and columns it lies in, and [n, 7] of what is seen (`SEEN`)."""

    places: list[tuple[slice, slice]]
    masks: list[Mask]
    seen: Floats


def find_candidates(
    channel: Floats, mpp: float, areas: tuple[float, float], dip: float, opening: float, hole: float
) -> Candidates:
    """Connected parts above each of `LEVELS`, whole and split; `areas` in um2, the others as in `segment_nuclei`."""
    places, masks, seen = [], [], [np.empty((0, len(SEEN)))]
    steepness = gradient(channel) / mpp
    for level in LEVELS:
        for labels in _parts(channel > level, mpp, dip, opening, hole):
            kept = _sized(labels, areas[0] / mpp**2, areas[1] / mpp**2)
            seen.append(describe(kept, channel, steepness, mpp))
            for number, place in enumerate(_boxes(kept), start=1):
                places.append(place)
                masks.append(kept[place] == number)
    return Candidates(places, masks, np.vstack(seen))


def _parts(mask: Mask, mpp: float, dip: float, opening: float, hole: float) -> Iterator[Labels]:
    """Both readings of one mask: split at its necks, and as it is."""
    from scipy import ndimage

    cleaned = ndimage.binary_opening(mask, disk(opening / mpp)) if opening >= mpp else mask
    filled = fill_holes(cleaned, hole / mpp**2)
    yield split(filled, dip / mpp, smooth=0.25 / mpp)
    yield ndimage.label(filled)[0].astype(np.int32)


def split(mask: Mask, dip: float, smooth: float) -> Labels:
    """Watershed from the centres of a mask: peaks of the distance to its edge with a dip of at least `dip` between."""
    from scipy import ndimage

    if not mask.any():
        return np.zeros(mask.shape, dtype=np.int32)
    depth = ndimage.distance_transform_edt(np.pad(mask, 1))[1:-1, 1:-1].astype(np.float32)
    depth = ndimage.gaussian_filter(depth, smooth) * mask
    dome = depth - _flooded(depth - np.float32(dip), depth)
    parts, count = ndimage.label(dome > 0, CORNERS)
    height = np.zeros(count + 1, dtype=np.float32)
    np.maximum.at(height, parts.ravel(), dome.ravel())
    height[0] = 0
    seeds = ndimage.label((height >= 0.999 * dip)[parts], CORNERS)[0]
    watershed = extra("skimage.segmentation").watershed
    return watershed(-depth, seeds, mask=mask).astype(np.int32)


def _flooded(low: NDArray[np.float32], limit: NDArray[np.float32]) -> NDArray[np.float32]:
    """Morphological reconstruction: `low` spreads to neighbours, never above `limit`, until nothing moves.

    Sweeps over rows and columns carry a value across the image at once; a few rounds of them are enough.
    """
    low = low.copy()
    ways = ((low, limit), (low[::-1], limit[::-1]), (low.T, limit.T), (low.T[::-1], limit.T[::-1]))
    while True:
        before = low.copy()
        for values, bounds in ways:
            _sweep(values, bounds)
        if np.array_equal(low, before):
            return low


def _sweep(low: NDArray[np.float32], limit: NDArray[np.float32]) -> None:
    """Each row takes from its three neighbours in the row before, in place."""
    wide = np.full(low.shape[1] + 2, -np.inf, dtype=low.dtype)
    for above, row, bound in zip(low[:-1], low[1:], limit[1:], strict=True):
        wide[1:-1] = above
        reach = np.maximum(np.maximum(wide[:-2], wide[2:]), above)
        np.maximum(row, np.minimum(reach, bound), out=row)


def fill_holes(mask: Mask, largest: float) -> Mask:
    """Holes of at most that many pixels are filled: the pale centre of a nucleus, not the lumen inside a ring."""
    from scipy import ndimage

    gaps = ndimage.label(~mask)[0]
    small = np.bincount(gaps.ravel()) <= largest
    for side in (gaps[0], gaps[-1], gaps[:, 0], gaps[:, -1]):
        small[side] = False
    small[0] = False
    return mask | small[gaps]


def describe(labels: Labels, channel: Floats, steepness: Floats, mpp: float) -> Floats:
    """[n, 7]: one row for each label, one column for each of `SEEN`."""
    count = int(labels.max(initial=0))
    y, x = np.nonzero(labels)
    own = labels[y, x]
    area = np.bincount(own, minlength=count + 1)[1:]
    mean, spread = _mean_and_spread(own, channel[y, x], area)
    edge, near, ring = _borders(labels, mpp)
    outline = np.bincount(labels[edge], minlength=count + 1)[1:]
    around = np.bincount(ring[ring > 0], minlength=count + 1)[1:]
    outside = np.bincount(ring.ravel(), weights=channel.ravel(), minlength=count + 1)[1:] / np.maximum(around, 1)
    return np.column_stack(
        [
            np.log(area * mpp**2),
            area / _ellipse(own, x, y, area),
            mean,
            np.where(around > 0, mean - outside, 0.0),
            np.bincount(labels[edge], weights=steepness[edge], minlength=count + 1)[1:] / outline,
            spread,
            np.bincount(labels[near], minlength=count + 1)[1:] / outline,
        ]
    )


def _mean_and_spread(own: Labels, values: Floats, area: NDArray[np.int64]) -> tuple[Floats, Floats]:
    first, second = (np.bincount(own, weights=v, minlength=len(area) + 1)[1:] / area for v in (values, values**2))
    return first, np.sqrt(np.maximum(second - first**2, 0))


def _ellipse(own: Labels, x: NDArray[np.int64], y: NDArray[np.int64], area: NDArray[np.int64]) -> Floats:
    """Area of the ellipse with the second moments of each label: 4 pi sqrt(det); a shape with notches has less."""

    def average(values: NDArray[np.int64]) -> Floats:
        return np.bincount(own, weights=values, minlength=len(area) + 1)[1:] / area

    mean_x, mean_y = average(x), average(y)
    xx, yy = average(x * x) - mean_x**2 + 1 / 12, average(y * y) - mean_y**2 + 1 / 12
    return 4 * np.pi * np.sqrt(np.maximum(xx * yy - (average(x * y) - mean_x * mean_y) ** 2, 1e-6))


def _borders(labels: Labels, mpp: float) -> tuple[Mask, Mask, Labels]:
    """Outline of each label, its part beside another label, and labels of the background within a micrometre."""
    from scipy import ndimage

    wide = np.pad(labels, 1)
    neighbours = (wide[:-2, 1:-1], wide[2:, 1:-1], wide[1:-1, :-2], wide[1:-1, 2:])
    edge, near = np.zeros(labels.shape, dtype=bool), np.zeros(labels.shape, dtype=bool)
    for other in neighbours:
        edge |= other != labels
        near |= (other != labels) & (other > 0)
    inside = labels > 0
    ring = ndimage.maximum_filter(labels, 2 * max(1, round(1 / mpp)) + 1)
    return edge & inside, near & inside, np.where(inside, 0, ring)


def _sized(labels: Labels, least: float, most: float) -> Labels:
    area = np.bincount(labels.ravel())
    kept = (area >= least) & (area <= most)
    kept[0] = False
    return np.where(kept, np.cumsum(kept), 0).astype(np.int32)[labels]


def _boxes(labels: Labels) -> list[tuple[slice, slice]]:
    from scipy import ndimage

    return ndimage.find_objects(labels)


def gradient(channel: Floats) -> Floats:
    """How steep the channel is, each pixel."""
    from scipy import ndimage

    return ndimage.gaussian_gradient_magnitude(channel, 0.6)


def disk(radius: float) -> Mask:
    """Pixels within that distance of the middle one."""
    reach = int(radius)
    y, x = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    return y**2 + x**2 <= radius**2 + 0.01
