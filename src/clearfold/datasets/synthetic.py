"""Tissue of known truth: nuclei of a chosen density, disorder and grade over stroma, stained like H&E."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from clearfold.datasets import placement, staining
from clearfold.datasets.placement import Blobs, Real
from clearfold.datasets.recipes import Recipe, pixels, recipe, scale, whole

Labels = NDArray[np.int32]


@dataclass(frozen=True)
class Truth:
    """What is true of the nuclei that were drawn, counted in their labels; disorder and irregularity as asked for.

    density : nuclei in a square millimetre; area : mean in um2; pleomorphism : SD / mean of areas
    """

    count: int
    density: float
    disorder: float
    area: float
    pleomorphism: float
    irregularity: float


@dataclass(frozen=True, repr=False, eq=False)
class SyntheticTissue:
    """An image and all that is known about it.

    image : (height, width, 3) uint8 RGB; nuclei, glands : (height, width) int32 labels, 0 is background
    centres : (n, 2) x, y of nuclei in pixels, where label i + 1 was drawn; mpp : micrometres a pixel
    """

    image: NDArray[np.uint8]
    nuclei: Labels
    glands: Labels
    centres: Real
    grade: str
    mpp: float
    truth: Truth

    def __repr__(self) -> str:
        height, width = self.nuclei.shape
        count = self.truth.count
        return f"SyntheticTissue: {self.grade} grade, {width} x {height} pixels of {self.mpp} um, {count} nuclei"


def synthetic_tissue(
    grade: str = "low",
    *,
    density: float | None = None,
    disorder: float | None = None,
    glands: int = 0,
    size: int | tuple[int, int] = 512,
    mpp: float = 0.5,
    seed: int = 0,
) -> SyntheticTissue:
    """An image like H&E in which every nucleus is known; the same seed draws the same pixels.

    Parameters
    ----------
    grade : "low", or "high": larger, more irregular, denser and less orderly nuclei
    density : nuclei in a square millimetre; the grade's own by default
    disorder : 0 a lattice, 1 as random as nuclei that lie apart can be; the grade's own by default
    glands : how many glands with a lumen to place, as far as there is room; their lining is denser than the stroma
    size : pixels, one number or (height, width); mpp : micrometres a pixel

    Examples
    --------
    >>> tissue = synthetic_tissue("high", size=128)
    >>> tissue
    SyntheticTissue: high grade, 128 x 128 pixels of 0.5 um, 17 nuclei
    >>> int(tissue.nuclei.max()) == tissue.truth.count
    True
    """
    wanted = recipe(grade, density, disorder)
    height, width = pixels(size)
    return drawn(
        wanted,
        grade,
        whole(glands, "glands", 0),
        height,
        width,
        scale(mpp),
        np.random.default_rng(whole(seed, "seed", 0)),
    )


def drawn(
    wanted: Recipe, grade: str, n_glands: int, height: int, width: int, mpp: float, random: np.random.Generator
) -> SyntheticTissue:
    """Place, label, stain."""
    gland_blobs = placement.glands(n_glands, wanted, width, height, mpp, random)
    gland_labels, gland_depth = _rasterised(gland_blobs, height, width)
    blobs = _placed(wanted, gland_blobs, gland_labels, mpp, random)
    labels, depth = _rasterised(blobs, height, width)
    seen = np.unique(labels[labels > 0])
    labels = np.searchsorted(seen, labels, side="right").astype(np.int32)  # one wholly under others is not there
    image = staining.stained(wanted, labels, depth, gland_labels, gland_depth, mpp, random)
    return SyntheticTissue(
        image, labels, gland_labels, blobs.centres[seen - 1], grade, mpp, _truth(wanted, labels, mpp)
    )


def _placed(wanted: Recipe, gland_blobs: Blobs, gland_labels: Labels, mpp: float, random: np.random.Generator) -> Blobs:
    """Nuclei of the stroma, off the glands, and those that line them."""
    height, width = gland_labels.shape
    count = round(wanted.density * height * width * mpp**2 * 1e-6)
    centres = placement.lattice(count, width, height)
    centres = placement.shaken(centres, 0.5 * wanted.disorder * wanted.spacing / mpp, width, height, random)
    free = gland_labels[centres[:, 1].astype(int), centres[:, 0].astype(int)] == 0
    stroma = placement.nuclei(wanted, centres[free], mpp, random)
    places, outward = placement.lining(gland_blobs, wanted, mpp, random)
    inside = ((places >= 0) & (places < [width, height])).all(axis=1)
    lined = placement.nuclei(wanted, places[inside], mpp, random)
    blobs = stroma.joined(replace(lined, turn=outward[inside]))
    reach = 1.05 * blobs.scale * np.sqrt(blobs.ratio)
    return replace(blobs, centres=placement.apart(blobs.centres, reach, width, height))


def _rasterised(blobs: Blobs, height: int, width: int) -> tuple[Labels, Real]:
    """The outline that a pixel lies deepest in, and the pixel's distance from its centre / radius there (1 outside)."""
    labels, depth = np.zeros((height, width), dtype=np.int32), np.ones((height, width))
    for which in range(len(blobs)):
        x, y = blobs.centres[which]
        reach = 1.8 * blobs.scale[which] * np.sqrt(blobs.ratio[which]) + 1
        rows = slice(max(0, int(y - reach)), min(height, int(y + reach) + 2))
        columns = slice(max(0, int(x - reach)), min(width, int(x + reach) + 2))
        across = np.arange(columns.start, columns.stop) + 0.5 - x
        along = np.arange(rows.start, rows.stop)[:, None] + 0.5 - y
        share = np.hypot(across, along) / blobs.radius(which, np.arctan2(along, across))
        nearer = share < depth[rows, columns]
        labels[rows, columns][nearer] = which + 1
        depth[rows, columns][nearer] = share[nearer]
    return labels, depth


def _truth(wanted: Recipe, labels: Labels, mpp: float) -> Truth:
    areas = np.bincount(labels.ravel())[1:] * mpp**2
    count = len(areas)
    mean = float(areas.mean()) if count else float("nan")
    spread = float(areas.std() / mean) if count else float("nan")
    millimetres = labels.size * mpp**2 * 1e-6
    return Truth(count, count / millimetres, wanted.disorder, mean, spread, wanted.irregularity)
