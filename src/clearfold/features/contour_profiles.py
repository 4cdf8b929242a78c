"""A contour as a row of numbers that do not know where it lies or how it is turned: profiles, compared by length."""

from __future__ import annotations

from typing import Any

import numpy as np

from clearfold.features.closed_contours import SAMPLES, ClosedContours, Complex, Real, harmonics

FOURIER_ORDERS = 20
ELLIPSES = 20
FLOOR = 0.003
"""Amplitudes far below this share of the first are grains of the pixel grid: the logarithm levels off there."""
RADII = 32
BRANCH = SAMPLES // 16
"""A branch of the medial axis counts when it separates boundary points this many samples apart; others are grain."""
SHALLOW = 0.02
"""Bays less deep than this (area 1) may be grains of the pixel grid: the logarithm levels off there."""
SMOOTH = 16
"""Curvature is seen through a Gaussian window of this width in Fourier orders."""
BEND = 0.4
"""Weight of curvature beside depth: about half as much between real glands, and all there is between convex ones."""


def fourier(contours: ClosedContours) -> Real:
    """log(|c_k| / |c_1| + FLOOR), c_k the Fourier descriptors of x + iy along the contour, k = -K..-1, 2..K.

    Magnitudes forget the start and the rotation (Zahn and Roskies 1972); the logarithm lets weak, fine waves count
    beside the elongation k = -1, which depends mostly on how a tube was cut.
    """
    amplitude = np.abs(np.fft.fft(contours.points, axis=1))
    orders = np.concatenate([-np.arange(1, FOURIER_ORDERS + 1), np.arange(2, FOURIER_ORDERS + 1)])
    return np.log(amplitude[:, orders] / amplitude[:, [1]] + FLOOR)


def elliptic(contours: ClosedContours) -> Real:
    """k times the half axes of the k-th elliptic harmonic over the first long one (Kuhl and Giardina 1982).

    The factor k measures the contour's direction rather than its position.
    """
    orders = np.arange(1, ELLIPSES + 1)
    rows = []
    for polygon in contours.polygons:
        arms = np.abs(harmonics(polygon, np.concatenate([orders, -orders])))
        forward, backward = arms[:ELLIPSES], arms[ELLIPSES:]
        axes = np.concatenate([forward + backward, np.abs(forward - backward)])
        rows.append(axes[1:] / axes[0] * np.tile(orders, 2)[1:])
    return np.array(rows).reshape(len(rows), 2 * ELLIPSES - 1)


def medial_axis(contours: ClosedContours) -> Real:
    """Quantiles of the radius along the medial axis, and the square root of its length (area 1).

    The medial axis is taken from the Voronoi diagram of the contour's points, without a pixel grid, so a turned
    contour has the turned axis.
    """
    return np.array([_axis_profile(points) for points in contours.points]).reshape(len(contours), RADII + 1)


def concavity(contours: ClosedContours) -> Real:
    """Quantiles of log(1 + depth below the convex hull / SHALLOW), and of the curvature times BEND.

    Glands of cancer bulge and fold: bays in the contour tell more than its elongation. Convex contours, which have
    no bays, still differ in curvature.
    """
    depth = np.array([_hull_depth(points) for points in contours.points]).reshape(len(contours), SAMPLES)
    bays, bends = np.log1p(np.sort(depth, axis=1) / SHALLOW), np.sort(_curvature(contours.points), axis=1)
    return np.hstack([bays, BEND * bends]) / SAMPLES**0.5


def _hull_depth(points: Complex) -> Real:
    """Distance of each point to the nearest side of the convex hull."""
    from scipy.spatial import ConvexHull

    table = np.column_stack([points.real, points.imag])
    sides = np.unique(ConvexHull(table).equations, axis=0)
    return np.maximum(-(table @ sides[:, :2].T + sides[:, 2]).max(axis=1), 0.0)


def _curvature(points: Complex) -> Real:
    """Inverse hyperbolic sine of the turn at each point, 1 on average; fine grain is smoothed away first."""
    orders = np.fft.fftfreq(SAMPLES, 1 / SAMPLES)
    window = 1j * orders * np.exp(-((orders / SMOOTH) ** 2))
    tangent = np.fft.ifft(np.fft.fft(points, axis=1) * window, axis=1)
    turn = np.angle(np.roll(tangent, -1, axis=1) * tangent.conj())
    return np.arcsinh(turn * SAMPLES / (2 * np.pi))


def _axis_profile(points: Complex) -> Real:
    radius, weight = _medial_axis(points)
    order = np.argsort(radius, kind="stable")
    share = np.cumsum(weight[order]) - weight[order] / 2
    at = (np.arange(RADII) + 0.5) / RADII * weight.sum()
    quantiles = np.interp(at, share, radius[order]) / RADII**0.5
    return np.append(quantiles, weight.sum() ** 0.5)


def _medial_axis(points: Complex) -> tuple[Real, Real]:
    """Radius and length of each piece of the medial axis: ridges of the Voronoi diagram within the contour."""
    from scipy.spatial import Voronoi

    table = np.column_stack([points.real, points.imag])
    diagram = Voronoi(table)
    ends, pairs = np.asarray(diagram.ridge_vertices), np.asarray(diagram.ridge_points)
    where = diagram.vertices[:, 0] + 1j * diagram.vertices[:, 1]
    within = np.append(_winding(points, where) != 0, False)  # the last stands for -1, a ridge without end
    apart = np.abs(pairs[:, 0] - pairs[:, 1])
    kept = within[ends].all(axis=1) & (np.minimum(apart, SAMPLES - apart) >= BRANCH)
    if not kept.any():  # a contour that folds onto itself everywhere: the widest circle within is all there is
        return np.array([_widest(where[within[:-1]], points)]), np.array([1e-9])
    first, last = where[ends[kept, 0]], where[ends[kept, 1]]
    radius = np.abs((first + last) / 2 - points[pairs[kept, 0]])
    return radius, np.abs(last - first) + 1e-9


def _widest(centres: Complex, points: Complex) -> float:
    """Radius of the largest of the circles around these centres that reach the nearest point; 0 without any."""
    return float(np.abs(centres[:, None] - points[None, :]).min(axis=1).max()) if len(centres) else 0.0


def _winding(points: Complex, places: Complex) -> Any:
    """How often the contour runs around each place."""
    with np.errstate(divide="ignore", invalid="ignore"):
        seen = points[None, :] - places[:, None]
        turn = np.angle(np.roll(seen, -1, axis=1) * seen.conj())
    return np.rint(turn.sum(axis=1) / (2 * np.pi)).astype(int)
