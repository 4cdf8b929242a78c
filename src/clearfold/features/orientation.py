"""Which way nuclei or glands point: entropy of directions nearby, and which directions lie beside which.

A direction is an axis: an angle modulo pi. Twelve bins of 15 degrees are centred on 0, 15, 30 ... degrees, so that 0,
30, 45, 60 and 90 degrees, where the axes of small objects gather, are never at an edge, and turning everything by 90
degrees moves each direction by six bins. Differences of bins are counted the short way round (0 to 6), so that no
co-occurrence changes when all directions are turned by a multiple of 15 degrees or mirrored. (The papers number bins
from 0 on and take plain differences, by which 175 and 5 degrees are far apart.) Where several points are equally far
(a lattice) the nearest 15 are not unique; which are taken depends on the places, never on the order of the rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from clearfold.errors import InputError, InputTypeError
from clearfold.features.catalogue import Features, Measure, not_measured
from clearfold.features.cell_clusters import Clusters, find_clusters
from clearfold.features.points import Floats, Ints, Points, as_points
from clearfold.features.statistics import summarise_measures

BINS = 12
NEIGHBORHOOD = 15
"""Nearest neighbours that, with the nucleus itself, make its neighbourhood; the nearest all if there are fewer."""
SMALLEST = 3
"""Nuclei of a cluster from which on its directions are set side by side."""

COE, CGA = "Lee 2013 (COE)", "Lee 2014 (CGA), FINE"
NEARBY = (
    Measure(
        "orientation.local.entropy", f"-sum p ln p of directions of a nucleus and its {NEIGHBORHOOD} nearest", "1", COE
    ),
    Measure("orientation.local.variance", "1 - |mean exp(2 i angle)| of the same", "1", "Mardia & Jupp 2000"),
    Measure(
        "orientation.local.difference", "mean angle between the axes of a nucleus and of those linked to it", "rad", CGA
    ),
)
_PAIRS = (
    ("entropy", "-sum P ln P", "1"),
    ("energy", "sum P^2", "1"),
    ("contrast", "sum P d^2", "1"),
    ("contrast_average", "sum P d", "1"),
    ("contrast_variance", "sum P d^2 - (sum P d)^2", "1"),
    ("contrast_entropy", "-sum over d of q ln q, q the share of pairs d apart", "1"),
    ("homogeneity", "sum P / (1 + d^2)", "1"),
    ("information", "sum P ln(P / (p p')): what one direction tells of the other", "1"),
    ("information_1", "information / entropy of one direction, 0 if that is 0", "1"),
    ("correlation", "sum P cos(2 pi d / bins): 1 parallel, -1 at right angles", "1"),
)
_WHERE = "P: share of linked pairs with these two bins, d bins apart the short way round"
COOCCURRENCE = tuple(
    Measure(f"orientation.cluster.{name}", f"{formula} in a cluster; {_WHERE}", unit, CGA)
    for name, formula, unit in _PAIRS
)
WHOLE = (
    Measure("orientation.region.entropy", "-sum p ln p of all directions", "1", COE, summarised=False),
    Measure("orientation.region.variance", "1 - |mean exp(2 i angle)|", "1", "Mardia & Jupp 2000", summarised=False),
    *(
        Measure(f"orientation.pairs.{name}", f"{formula}; {_WHERE}", unit, CGA, summarised=False)
        for name, formula, unit in _PAIRS
    ),
)
MEASURES = (*NEARBY, *COOCCURRENCE, *WHOLE)


def orientation_features(points: Any, orientations: Any, clusters: Clusters | None = None) -> Features:
    """Entropy, spread and co-occurrence of directions: nearby, within clusters, and in the whole region.

    points : (n, 2); orientations : (n,) angles of long axes in radians, NaN where an object is round
    """
    where = as_points(points)
    angles, bins = _directions(where, orientations)
    known = bins >= 0
    if not known.any():
        return not_measured(MEASURES, "no object has a direction" if len(where) else "no objects")
    clusters = clusters or find_clusters(where)
    links = clusters.links[known[clusters.links].all(axis=1)]
    values = _nearby(where, angles, bins, links)
    values |= _in_clusters(clusters, bins, links)
    values |= _whole(angles[known], bins, links)
    return summarise_measures(MEASURES, values, "too few objects with a direction are linked or near")


def local_orientation(points: Any, orientations: Any) -> tuple[Floats, Floats]:
    """Entropy and circular variance of directions around each distinct point; NaN where it has no direction."""
    where = as_points(points)
    return _around(where, *_directions(where, orientations))


def _nearby(points: Points, angles: Floats, bins: Ints, links: Ints) -> dict[str, Any]:
    entropy, variance = _around(points, angles, bins)
    apart = np.abs(angles[links[:, 0]] - angles[links[:, 1]]) % np.pi
    apart = np.minimum(apart, np.pi - apart)
    n = len(points)
    total = np.bincount(links[:, 0], apart, minlength=n) + np.bincount(links[:, 1], apart, minlength=n)
    count = np.bincount(links.ravel(), minlength=n)
    columns = (entropy, variance, total[count > 0] / count[count > 0])
    return {measure.name: column for measure, column in zip(NEARBY, columns, strict=True)}


def _around(points: Points, angles: Floats, bins: Ints) -> tuple[Floats, Floats]:
    """Entropy and variance in the neighbourhood of each point that has a direction, among those that have one."""
    entropy, variance = np.full((2, len(points)), np.nan)
    rows = np.flatnonzero(bins >= 0)
    if len(rows) < 2:
        return entropy, variance
    size = min(NEIGHBORHOOD + 1, len(rows))
    near = cKDTree(points.xy[rows]).query(points.xy[rows], size)[1]
    cell = np.arange(len(rows))[:, None] * BINS + bins[rows][near]
    share = np.bincount(cell.ravel(), minlength=len(rows) * BINS).reshape(-1, BINS) / size
    entropy[rows] = _entropy(share).sum(axis=1)
    variance[rows] = 1 - np.abs(np.exp(2j * angles[rows])[near].mean(axis=1))
    return entropy, variance


def _in_clusters(clusters: Clusters, bins: Ints, links: Ints) -> dict[str, Any]:
    """Co-occurrence in each cluster of at least SMALLEST nuclei."""
    large = clusters.sizes[clusters.label[links[:, 0]]] >= SMALLEST
    labels = clusters.label[links[large, 0]]
    kept, group = np.unique(labels, return_inverse=True)
    columns = cooccurrence(group.ravel(), bins[links[large]], len(kept))
    return {measure.name: columns[measure.name.rsplit(".", 1)[1]] for measure in COOCCURRENCE}


def _whole(angles: Floats, bins: Ints, links: Ints) -> dict[str, Any]:
    share = np.bincount(bins[bins >= 0], minlength=BINS) / len(angles)
    single = (_entropy(share).sum(), 1 - abs(np.sort_complex(np.exp(2j * angles)).mean()))
    values: dict[str, Any] = {measure.name: value for measure, value in zip(WHOLE[:2], single, strict=True)}
    columns = cooccurrence(np.zeros(len(links), np.int64), bins[links], 1)
    for measure in WHOLE[2:]:
        values[measure.name] = columns[measure.name.rsplit(".", 1)[1]][0] if len(links) else np.nan
    return values


def cooccurrence(group: Ints, pairs: Ints, n_groups: int) -> dict[str, Floats]:
    """The statistics of P for each group of pairs of bins; P is symmetric: each pair counts both ways.

    group : (m,) group of each pair, 0, 1, ...; pairs : (m, 2) bins
    """
    both = np.concatenate([pairs, pairs[:, ::-1]])
    key = (np.concatenate([group, group]) * BINS + both[:, 0]) * BINS + both[:, 1]
    cell, count = np.unique(key, return_counts=True)
    of, first, second = cell // BINS**2, cell // BINS % BINS, cell % BINS
    total = np.bincount(of, count, minlength=n_groups)
    P = count / total[of]
    apart = np.abs(first - second)
    d = np.minimum(apart, BINS - apart)

    def add(values: Any, column: Any = 0, width: int = 1) -> Floats:
        sums = np.bincount(of * width + column, values, minlength=n_groups * width).astype(float)
        return sums.reshape(n_groups, width) if width > 1 else sums

    margin, steps = add(P, first, BINS), add(P, d, BINS)
    entropy, own = add(_entropy(P)), _entropy(margin).sum(axis=1)
    information = np.maximum(2 * own - entropy, 0.0)
    mean, square = add(P * d), add(P * d * d)
    return {
        "entropy": entropy,
        "energy": add(P * P),
        "contrast": square,
        "contrast_average": mean,
        "contrast_variance": np.maximum(square - mean * mean, 0.0),
        "contrast_entropy": _entropy(steps).sum(axis=1),
        "homogeneity": add(P / (1 + d * d)),
        "information": information,
        "information_1": np.divide(information, own, out=np.zeros_like(own), where=own > 1e-12),
        "correlation": add(P * np.cos(2 * np.pi * d / BINS)),
    }


def _entropy(share: Floats) -> Floats:
    """-p ln p, 0 at 0."""
    return -share * np.log(np.where(share > 0, share, 1.0))


def _directions(points: Points, orientations: Any) -> tuple[Floats, Ints]:
    """Angle and bin of each distinct point (NaN and -1 without a direction); the mean axis where several coincide."""
    angles = _angles(orientations, len(points.point_of))
    if len(points) < len(angles):
        order = np.argsort(angles)  # sums that do not depend on the order of the rows
        order = order[np.isfinite(angles[order])]
        turned, place = np.exp(2j * angles[order]), points.point_of[order]
        x, y = (np.bincount(place, part, minlength=len(points)) for part in (turned.real, turned.imag))
        angles = np.where(np.hypot(x, y) > 1e-9, np.arctan2(y, x) / 2 % np.pi, np.nan)
    else:
        angles = angles[points.rows]
    known = np.isfinite(angles)
    return angles, np.where(known, np.rint(np.where(known, angles, 0.0) / np.pi * BINS).astype(np.int64) % BINS, -1)


def _angles(orientations: Any, n: int) -> Floats:
    try:
        angles = np.asarray(orientations, dtype=float).reshape(-1)
    except (TypeError, ValueError):
        raise InputTypeError("orientations are not numbers; wanted is one angle in radians for each point.") from None
    if len(angles) != n:
        raise InputError(f"{len(angles)} orientations came for {n} points; wanted is one angle in radians for each.")
    return np.where(np.isfinite(angles), np.where(np.isfinite(angles), angles, 0.0) % np.pi, np.nan)
