"""How densely points lie: neighbours within radii, distances to the nearest, their number by area."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from clearfold.errors import InputError
from clearfold.features import kernels
from clearfold.features.catalogue import Features, Measure
from clearfold.features.points import WORTH_COMPILING, Floats, Ints, Points, as_points, on_grid
from clearfold.features.statistics import summarise_measures

RADII = (10, 20, 30, 40, 50)
"""Radii in um. Without a scale 10 um stands for the median distance to the nearest neighbour."""
NEIGHBORS = (3, 5, 7)
TOUCHING = 1 + 1e-9
"""A neighbour at the radius is within it, also when rounding says otherwise."""
MOST_PAIRS = 2e7
"""Up to so many pairs are listed and sorted into radii at once; beyond, each radius is counted without listing."""
SOME_PAIRS = 1 << 13
"""Pairs that are sorted into radii at a time: few enough to stay in the cache."""

DOYLE = "Doyle 2008, VINK, FINE"
WITHIN = tuple(
    Measure(f"density.neighbors_{radius}um", f"number of other points within {radius} um of a point", "1", DOYLE)
    for radius in RADII
)
REACH = tuple(
    Measure(f"density.distance_{k}nn", f"distance from a point to number {k} of its nearest", "um", DOYLE)
    for k in NEIGHBORS
)
NEAREST = Measure("density.distance_1nn", "distance from a point to its nearest", "um", "Clark & Evans 1954")
SINGLE = (
    Measure("density.count", "number n of distinct points", "1", "VINK", summarised=False),
    Measure("density.per_area", "n / area of the region, where that is given", "1/um2", "VINK", summarised=False),
    Measure("density.per_hull_area", "n / area of the convex hull", "1/um2", "clearfold", summarised=False),
    Measure(
        "density.clark_evans",
        "2 mean(distance_1nn) sqrt(n / area of the convex hull): 1 at random, below 1 clustered",
        "1",
        "Clark & Evans 1954",
        summarised=False,
    ),
)
MEASURES = (*WITHIN, NEAREST, *REACH, *SINGLE)


def density_features(points: Any, *, unit: str = "um", region_area: float | None = None) -> Features:
    """Neighbours within 10 to 50 um, distances to the 1, 3, 5, 7 nearest, and density by area.

    unit : "um", or "px" when nobody knows the scale: radii are then 1 to 5 times the median distance to the nearest
        neighbour. The names stay, so that tables keep their columns; such tables do not mix.
    region_area : area of the tissue, in the square of the unit

    >>> density_features([[0, 0], [0, 8], [0, 40]]).values["density.neighbors_10um.mean"]
    0.6666666666666666
    """
    points = as_points(points)
    radii = scaled_radii(points, unit)
    if region_area is not None and not 0 < region_area < np.inf:
        raise InputError(f"region_area={region_area!r} came; wanted is an area above 0, or None when it is not known.")
    within = neighbor_counts(points, radii) if len(points) > 1 else np.zeros((len(points), len(radii)))
    values: dict[str, Any] = {measure.name: within[:, i] for i, measure in enumerate(WITHIN)}
    values |= {measure.name: points.nearest[:, k - 1] for measure, k in zip(REACH, NEIGHBORS, strict=True)}
    values[NEAREST.name] = points.nearest[:, 0]
    found = summarise_measures((*WITHIN, NEAREST, *REACH), values, "no points")
    few = {name: "not so many other points" for name in found.reasons if "nn." in name and len(points)}
    return Features(found.values, found.reasons | few) | _by_area(points, region_area)


def scaled_radii(points: Points, unit: str) -> Floats:
    """The radii in the unit of the points."""
    if unit not in ("um", "px"):
        raise InputError(f'unit={unit!r} came; wanted is "um", or "px" when the scale is not known.')
    step = 10.0 if unit == "um" or len(points) < 2 else points.spacing
    return step * np.asarray(RADII) / 10


def neighbor_counts(points: Any, radii: Sequence[float] | Floats) -> Floats:
    """(n, number of radii) how many others lie within growing radii of each distinct point."""
    points = as_points(points)
    reach = np.asarray(radii, dtype=float) * TOUCHING
    counted = _on_grid(points, reach) if len(points) >= WORTH_COMPILING else None
    if counted is not None:
        return counted
    if _most_pairs(points, reach[-1]) > MOST_PAIRS:
        each = [points.tree.query_ball_point(points.xy, r, return_length=True) - 1 for r in reach]
        return np.stack(each, axis=1).astype(float)
    pairs: Ints = points.tree.query_pairs(reach[-1], output_type="ndarray")
    for begin in range(0, len(pairs), SOME_PAIRS):  # pairs themselves become the cells in which they are counted
        some = pairs[begin : begin + SOME_PAIRS]
        step = points.place[some[:, 0]] - points.place[some[:, 1]]
        squared = np.square(step.real) + np.square(step.imag)
        ring = np.zeros(len(some), np.int8)  # the first radius that holds the pair
        for radius in reach[:-1]:
            ring += squared > radius * radius
        some *= len(reach)
        some += ring[:, None]
    counts = np.bincount(pairs.ravel(), minlength=len(points) * len(reach)).reshape(len(points), -1)
    return np.cumsum(counts, axis=1).astype(float)


def _on_grid(points: Points, reach: Floats) -> Floats | None:
    """The same by machine code over squares as wide as the largest radius; None without numba or on a vast grid."""
    kernel = kernels.compiled(within)
    grid = on_grid(points, reach[-1])
    if kernel is None or grid is None:
        return None
    counts = np.empty((len(points), len(reach)))
    counts[grid.order] = np.cumsum(kernel(grid.x, grid.y, grid.start, grid.width, np.square(reach)), axis=1)
    return counts


def within(x: Floats, y: Floats, start: Ints, width: int, squared: Floats) -> Ints:
    """How many others are first within each squared radius of each point; points are sorted by squares of a grid."""
    counts = np.zeros((len(x), len(squared)), np.int64)
    for square in range(len(start) - 1):
        for turn in range(5):  # this square, the next one, and three of the next row: each pair of squares once
            other = square + turn if turn < 2 else square + width + turn - 3
            if other >= len(start) - 1:
                break
            for p in range(start[square], start[square + 1]):
                for q in range(p + 1 if turn == 0 else start[other], start[other + 1]):
                    dx, dy = x[p] - x[q], y[p] - y[q]
                    apart = dx * dx + dy * dy
                    if apart <= squared[-1]:
                        ring = 0
                        for radius in squared[:-1]:
                            ring += apart > radius
                        counts[p, ring] += 1
                        counts[q, ring] += 1
    return counts


def _most_pairs(points: Points, radius: float) -> float:
    """More pairs than this cannot lie within the radius: those in the same or touching squares of a grid."""
    square = np.floor(points.xy / radius)
    if not square.max() < 2**30:
        return 0.0 if radius < 1e-9 * points.xy.max() else np.inf
    count = np.unique(square[:, 0] * 2.0**31 + square[:, 1], return_counts=True)[1].astype(float)
    return float(4.5 * np.square(count).sum())


def _by_area(points: Points, region_area: float | None) -> Features:
    n, mesh = len(points), points.mesh
    hull = float(mesh.areas.sum()) if mesh is not None else np.nan
    nearest = float(np.sort(points.nearest[:, 0]).mean()) if n > 1 else np.nan
    per_area = np.nan if region_area is None else n / region_area
    numbers = (float(n), per_area, n / hull, 2 * nearest * float(np.sqrt(n / hull)))
    values = {measure.name: number for measure, number in zip(SINGLE, numbers, strict=True)}
    flat = "fewer than 3 distinct points, or all on a line: no convex hull"
    reasons = {name: flat for name, value in values.items() if np.isnan(value)}
    if region_area is None:
        reasons[SINGLE[1].name] = "the area of the region was not given"
    return Features(values, reasons)
