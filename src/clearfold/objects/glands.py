"""Glands in hematoxylin and eosin: a pale inside without nuclei, and the epithelium around it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from clearfold.errors import InputError
from clearfold.objects.candidates import CORNERS, disk, fill_holes
from clearfold.objects.collection import Floats, Labels, Objects, extra
from clearfold.objects.nuclei import enlarged, known_scale, resized

WORKING_MPP = 2.0
SMOOTHING, CLEARANCE, OPENING = 2.0, 8.0, 8.0
"""Micrometres: smoothing of the stains, distance of an inside from nuclei, thinnest kept bridge."""
NUCLEAR, PALE = 1.4, 0.85
"""Shares of Otsu's thresholds: nuclei have more hematoxylin, an inside has less of all stain."""


def segment_glands(
    image: Any, *, mpp: float | None = None, smallest: float = 40.0, inside: float = 18.0, epithelium: float = 20.0
) -> Objects:
    """Pale parts that keep a distance from all nuclei, grown over the epithelium around them.

    A simple built-in for a first look at well-formed glands. It misses glands without a pale inside and takes pale
    stroma for some; docs/objects.md says how often. Bring a label mask where shapes matter.

    Parameters
    ----------
    image : array [height, width, 3], Pillow image, path or Image
    mpp : micrometres a pixel; when nobody knows it, 0.5 is assumed and a warning says so
    smallest : diameter of the smallest gland in micrometres (of a disk of the same area)
    inside : diameter of the smallest part without nuclei, in micrometres
    epithelium : how far a gland goes beyond that part, in micrometres
    """
    from clearfold.images import as_image

    given = as_image(image, mpp=mpp)
    if not (smallest > 0 and inside > 0 and epithelium > 0):
        raise InputError(
            f"smallest={smallest}, inside={inside}, epithelium={epithelium} came; wanted are positive micrometres."
        )
    pixels = resized(given.pixels, known_scale(given.mpp) / WORKING_MPP)
    grown = _grown(_insides(pixels, _pixels(inside)), epithelium / WORKING_MPP)
    found = _at_least(_tidied(grown), _pixels(smallest))
    return Objects.from_labels(enlarged(found, given.pixels.shape), given.mpp, "gland")


def _pixels(diameter: float) -> float:
    """Pixels of a disk of that many micrometres."""
    return float(np.pi / 4 * (diameter / WORKING_MPP) ** 2)


def _insides(pixels: NDArray[np.uint8], least: float) -> Labels:
    """Parts farther from all nuclei than the clearance, of at least that size, with little stain."""
    from scipy import ndimage

    from clearfold.images import separate_stains

    stains = separate_stains(pixels)
    hematoxylin = ndimage.gaussian_filter(stains.hematoxylin, SMOOTHING / WORKING_MPP)
    stain = ndimage.gaussian_filter(stains.hematoxylin + np.maximum(stains.eosin, 0), SMOOTHING / WORKING_MPP)
    if np.ptp(hematoxylin) == 0 or np.ptp(stain) == 0:
        return np.zeros(stain.shape, dtype=np.int32)
    otsu = extra("skimage.filters").threshold_otsu
    away: Floats = ndimage.distance_transform_edt(hematoxylin <= NUCLEAR * otsu(hematoxylin)) * WORKING_MPP
    parts = _at_least(ndimage.label(away > CLEARANCE, CORNERS)[0], least)
    inside = parts > 0
    area = np.bincount(parts.ravel())
    amount = np.bincount(parts.ravel(), weights=(stain * inside).ravel()) / np.maximum(area, 1)
    return _kept(parts, amount < PALE * otsu(stain))


def _grown(seeds: Labels, reach: float) -> Labels:
    """Each seed and what lies within `reach` of it; where two meet, the nearer one has it."""
    from scipy import ndimage

    if not seeds.any():
        return seeds
    distance: Floats = ndimage.distance_transform_edt(seeds == 0)
    watershed = extra("skimage.segmentation").watershed
    return watershed(distance, seeds, mask=distance <= reach).astype(np.int32)


def _tidied(labels: Labels) -> Labels:
    """Holes filled, bridges cut."""
    from scipy import ndimage

    result = np.zeros_like(labels)
    element = disk(OPENING / WORKING_MPP)
    margin = len(element)
    for number, place in enumerate(ndimage.find_objects(labels), start=1):
        mask = fill_holes(np.pad(labels[place] == number, margin), np.inf)
        mask = ndimage.binary_opening(mask, element)[margin:-margin, margin:-margin]
        result[place][mask] = number
    return result


def _at_least(labels: Labels, least: float) -> Labels:
    return _kept(labels, np.bincount(labels.ravel()) >= least)


def _kept(labels: Labels, keep: NDArray[np.bool_]) -> Labels:
    """Labels for which `keep` is true (its first value is the background's), numbered anew."""
    keep = keep.copy()
    keep[0] = False
    return np.where(keep, np.cumsum(keep), 0).astype(np.int32)[labels]
