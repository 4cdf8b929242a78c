"""Grey levels of pixels at a distance from each other, counted in each object, and Haralick's measures of them.

All thirteen measures follow from eleven sums over the symmetric matrix C of counts: its total, sum of squares and sum
of C log2 C; the sums of n log2 n over the counts of i + j, of |i - j| and of i; the first two moments of i + j and of
|i - j|; and the sum of C / (1 + (i - j)^2). The sums are of whole numbers, so that means and variances are exact.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from clearfold.features import kernels
from clearfold.features.grid import Grid, Integers

Floats: TypeAlias = NDArray[np.float64]

HARALICK = {
    "asm": "sum p(i, j)^2",
    "contrast": "sum (i - j)^2 p(i, j)",
    "correlation": "(sum i j p(i, j) - mean^2) / variance; 1 where all levels are equal",
    "variance": "sum (i - mean)^2 p(i)",
    "idm": "sum p(i, j) / (1 + (i - j)^2)",
    "sum_average": "mean of i + j",
    "sum_variance": "variance of i + j",
    "sum_entropy": "entropy of i + j in bits",
    "entropy": "entropy H of (i, j) in bits",
    "difference_variance": "variance of |i - j|",
    "difference_entropy": "entropy of |i - j| in bits",
    "imc1": "(H - 2 HX) / HX, HX the entropy of i",
    "imc2": "sqrt(1 - exp(-2 (2 HX - H)))",
}
"""Haralick's thirteen measures of p(i, j), the share of pairs with levels i and j in either order."""
ROUNDING = 1e-13
"""Bits that two levels share below which they share none: a root would make 1e-8 of a rounding of 1e-16."""
BINS = 2**22
"""Counts that are held at the same time."""


def haralick_of(grid: Grid, grey: NDArray[np.uint8], distance: int, levels: int) -> Floats:
    """The measures of HARALICK of each object, the mean of four directions; NaN where one of them has no pair.

    grid : with a frame at least as wide as the distance; grey : levels 1..levels in the same frame, flat
    """
    offsets = distance * np.array([1, grid.width + 1, grid.width, grid.width - 1])
    kernel = kernels.compiled(kernels.pairs)
    if kernel is None:
        tally = _tally(grid, grey, offsets, levels)
    else:
        runs = grid.runs
        runs_of_all = runs.owner, runs.cells(grid.width), runs.length
        tally = kernel(grid.cells, grey, *runs_of_all, offsets, grid.count, levels)
    return _measures(np.moveaxis(tally, 2, 0)).mean(axis=2).T


def _measures(tally: Floats) -> Floats:
    """The thirteen measures, first axis, from the eleven sums, first axis."""
    total, squares, joint_log, sum_log, gap_log, single_log, s1, s2, d1, d2, alike = tally
    total = np.where(total == 0, np.nan, total)
    variance = (total * (s2 + d2) - s1**2) / (4 * total**2)  # in whole numbers: 0 exactly where all levels are equal
    covariance = (total * (s2 - d2) - s1**2) / (4 * total**2)
    equal = variance == 0
    bits = np.log2(total)
    joint, sums, gaps, single = (
        np.where(equal, 0.0, bits - log / total) for log in (joint_log, sum_log, gap_log, single_log)
    )
    shared = 2 * single - joint
    shared = np.where(shared < ROUNDING, 0.0, shared)
    return np.stack(
        [
            squares / total**2,
            d2 / total,
            np.where(equal, 1.0, covariance / np.where(equal, 1.0, variance)),
            variance,
            alike / total,
            s1 / total,
            (total * s2 - s1**2) / total**2,
            sums,
            joint,
            (total * d2 - d1**2) / total**2,
            gaps,
            -shared / np.where(equal, 1.0, single),
            np.sqrt(1 - np.exp(-2 * shared)),
        ]
    )


def _tally(grid: Grid, grey: NDArray[np.uint8], offsets: Integers, levels: int) -> Floats:
    """The eleven sums, (objects, offsets, 11), some objects at a time."""
    pixels = grid.pixels
    start = np.concatenate([[0], np.cumsum(grid.runs.total(grid.runs.length))])
    several = max(1, BINS // levels**2)
    tally = np.empty((grid.count, len(offsets), 11))
    for begin in range(0, grid.count, several):
        end = min(begin + several, grid.count)
        of_these = pixels[start[begin] : start[end]]
        owner = grid.cells[of_these]
        for way, offset in enumerate(offsets):
            inside = grid.cells[of_these + offset] == owner
            here = of_these[inside]
            code = (owner[inside] - 1 - begin).astype(np.int64) * levels + grey[here] - 1
            code = code * levels + grey[here + offset] - 1
            joint = np.bincount(code, minlength=(end - begin) * levels**2).reshape(-1, levels, levels)
            tally[begin:end, way] = _sums(joint + joint.transpose(0, 2, 1), levels)
    return tally


def _sums(joint: Integers, levels: int) -> Floats:
    """The eleven sums over symmetric matrices of counts."""
    i = np.arange(1, levels + 1)
    single = joint.sum(axis=2)
    flat = joint.reshape(len(joint), -1)
    level_sums, level_gaps = (i[:, None] + i).ravel(), np.abs(i[:, None] - i).ravel()
    sums = np.stack([flat[:, level_sums == k].sum(axis=1) for k in range(2, 2 * levels + 1)], axis=1)
    gaps = np.stack([flat[:, level_gaps == k].sum(axis=1) for k in range(levels)], axis=1)
    s, d = np.arange(2, 2 * levels + 1), np.arange(levels)
    columns = (
        flat.sum(axis=1),
        (flat**2).sum(axis=1),
        *(_log_sum(counts) for counts in (flat, sums, gaps, single)),
        sums @ s,
        sums @ s**2,
        gaps @ d,
        gaps @ d**2,
        gaps @ (1 / (1 + d**2)),
    )
    return np.stack([column.astype(float) for column in columns], axis=1)


def _log_sum(counts: Integers) -> Floats:
    """Sum of n log2 n over each row."""
    return (counts * np.log2(np.maximum(counts, 1))).sum(axis=1)
