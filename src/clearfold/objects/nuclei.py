"""Nuclei in hematoxylin and eosin: many thresholds, and for each nucleus the one that shows it best."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from clearfold.errors import InputError, UnknownScaleWarning, warn
from clearfold.objects.candidates import SEEN, Candidates, find_candidates
from clearfold.objects.collection import Floats, Labels, Objects, extra

WORKING_MPP = 0.5
"""Images are brought to this many micrometres a pixel: what is seen of a nucleus does not depend on the scanner."""
ASSUMED_MPP = 0.5
FAINTEST = 0.1
"""Least difference (optical density) between nuclei and background; with less, an image has no nuclei."""
SMOOTHING, OPENING, DIP, HOLE = 0.25, 0.5, 0.15, 40.0
"""Micrometres: smoothing of the channel, thinnest kept bridge, depth of a neck; um2: largest pale centre."""
SHARED = 0.1
"""A candidate with more than this share of its pixels taken by better ones is left out."""

# Expected IoU with a true nucleus = BASE + sum of (linear z + square z^2), z = -1 at low and 1 at high, cut beyond.
# Least squares on the odd images of two public sets: see docs/objects.md and benchmarks/learn_nuclei.py.
BASE = 0.427
WEIGHTS = {  # low, high, linear, square
    "log_area": (1.792, 4.842, 0.079, -0.177),
    "ellipse": (0.705, 0.992, 0.117, 0.087),
    "mean": (0.224, 1.752, -0.172, -0.152),
    "contrast": (0.202, 1.483, 0.426, -0.133),
    "edge": (0.174, 1.433, -0.027, 0.177),
    "spread": (0.054, 0.659, -0.074, -0.123),
    "touching": (0.0, 0.4, -0.142, -0.009),
}


def segment_nuclei(
    image: Any,
    *,
    mpp: float | None = None,
    smallest: float = 2.8,
    largest: float = 18.0,
    least_quality: float = 0.42,
) -> Objects:
    """Shapes above any of 12 thresholds of the hematoxylin channel, the best that do not overlap.

    The quality of a shape is its expected intersection over union with a true nucleus, from its size, how elliptic it
    is, how it stands out from its surroundings, and how much of its outline is shared with others.

    Parameters
    ----------
    image : array [height, width, 3], Pillow image, path or Image
    mpp : micrometres a pixel; when nobody knows it, 0.5 is assumed and a warning says so
    smallest, largest : diameter in micrometres (of a disk of the same area)
    least_quality : shapes of less expected intersection over union are left out: higher finds fewer, surer nuclei
    """
    from clearfold.images import as_image

    given = as_image(image, mpp=mpp)
    if not 0 < smallest < largest:
        raise InputError(f"smallest={smallest}, largest={largest} came; wanted are two diameters in micrometres.")
    scale = known_scale(given.mpp)
    channel = nuclear_channel(resized(given.pixels, scale / WORKING_MPP))
    areas = (np.pi / 4 * smallest**2, np.pi / 4 * largest**2)
    candidates = find_candidates(channel, WORKING_MPP, areas, DIP, OPENING, HOLE)
    chosen = best_apart(candidates, quality(candidates.seen), least_quality, channel.shape)
    return Objects.from_labels(enlarged(chosen, given.pixels.shape[:2]), given.mpp, "nucleus")


def known_scale(mpp: float | None) -> float:
    """The scale, or the assumed one and a warning."""
    if mpp is None:
        warn(
            f"Nobody said how many micrometres a pixel has: {ASSUMED_MPP} is assumed, as at 20x. Give mpp.",
            UnknownScaleWarning,
        )
        return ASSUMED_MPP
    return mpp


def resized(pixels: NDArray[np.uint8], factor: float) -> NDArray[np.uint8]:
    """The picture made larger or smaller, its pixels averaged."""
    from PIL import Image

    size = tuple(max(1, round(length * factor)) for length in pixels.shape[1::-1])
    if size == pixels.shape[1::-1]:
        return pixels
    return np.asarray(Image.fromarray(pixels).resize(size, Image.Resampling.BILINEAR))


def nuclear_channel(pixels: NDArray[np.uint8]) -> Floats:
    """Hematoxylin, smoothed and shifted: 0 is the median of the background in tissue, 1 that of nuclei (Otsu)."""
    from scipy import ndimage

    from clearfold.images import separate_stains, tissue_mask

    hematoxylin = ndimage.gaussian_filter(separate_stains(pixels).hematoxylin, SMOOTHING / WORKING_MPP)
    tissue = hematoxylin[tissue_mask(pixels)]
    if len(tissue) == 0 or np.ptp(tissue) == 0:
        return np.zeros(hematoxylin.shape)
    middle = _otsu(tissue)
    low, high = np.median(tissue[tissue <= middle]), np.median(tissue[tissue > middle])
    return (hematoxylin - low) / max(high - low, FAINTEST)


def _otsu(values: Floats) -> float:
    """The threshold between the two most different halves; never the largest value."""
    return min(float(extra("skimage.filters").threshold_otsu(values)), float(np.nextafter(values.max(), -np.inf)))


def quality(seen: Floats) -> Floats:
    """Expected IoU of each candidate with a true nucleus."""
    low, high, linear, square = np.array([WEIGHTS[name] for name in SEEN]).T
    z = 2 * (np.clip(seen, low, high) - low) / (high - low) - 1
    return BASE + z @ linear + z**2 @ square


def best_apart(candidates: Candidates, values: Floats, least: float, shape: tuple[int, ...]) -> Labels:
    """The best candidate first, then the next that leaves it alone, down to `least`."""
    taken, count = np.zeros(shape, dtype=np.int32), 0
    for i in np.argsort(-values, kind="stable"):
        if values[i] < least:
            break
        there, mask = taken[candidates.places[i]], candidates.masks[i]
        if np.count_nonzero(there[mask]) <= SHARED * mask.sum():
            count += 1
            there[mask & (there == 0)] = count
    return taken


def enlarged(labels: Labels, shape: tuple[int, ...]) -> Labels:
    """Labels at the size of the image, outlines smoothed: where the blurred mask of an object is at least half."""
    from scipy import ndimage

    if labels.shape == shape[:2]:
        return labels
    result, best = np.zeros(shape[:2], dtype=np.int32), np.full(shape[:2], 0.5)
    steps = [small / large for small, large in zip(labels.shape, shape, strict=False)]
    margin = 3
    for number, place in enumerate(ndimage.find_objects(labels), start=1):
        mask = ndimage.gaussian_filter(np.pad(labels[place] == number, margin).astype(float), 0.7)
        window, places = [], []
        for part, extent, step, length in zip(place, mask.shape, steps, shape, strict=False):
            first = part.start - margin
            window.append(slice(max(0, int(first / step)), min(length, int(np.ceil((first + extent) / step)))))
            places.append((np.arange(window[-1].start, window[-1].stop) + 0.5) * step - 0.5 - first)
        there = ndimage.map_coordinates(mask, np.meshgrid(*places, indexing="ij"), order=1)
        here = (window[0], window[1])
        won = there >= best[here]
        result[here][won], best[here][won] = number, there[won]
    return result
