"""Closed contours made comparable: checked, turned one way round, begun where their own ellipse begins, resampled."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clearfold.errors import InputError

Real = NDArray[np.float64]
Complex = NDArray[np.complex128]

SAMPLES = 128
"""Points of a resampled contour, equally far apart along it."""
FLAT = 1e-6
"""A contour with less area than this share of its squared perimeter has no shape (a circle has .08)."""


@dataclass(frozen=True)
class ClosedContours:
    """n contours as complex numbers x + iy, of area 1 and centred; a new start or direction does not change them.

    points : (n, SAMPLES) along each contour, counter-clockwise; the start is known up to half a turn (or a quarter,
        where a contour repeats itself)
    polygons : each contour's own corners, closed (the last equals the first)
    size : (n,) square root of the area that was enclosed
    """

    points: Complex
    polygons: Sequence[Complex]
    size: Real

    def __len__(self) -> int:
        return len(self.size)

    def every(self, count: int) -> Complex:
        """Only `count` of the points, a divisor of SAMPLES: still equally far apart."""
        return self.points[:, :: SAMPLES // count]


def as_closed_contours(contours: Iterable[Any], name: str = "contours") -> ClosedContours:
    """Check every contour and make it comparable; an InputError names the index of one that cannot be used."""
    if isinstance(contours, str | bytes) or not isinstance(contours, Iterable):
        raise InputError(f"{name} is a {type(contours).__name__}; a list of (k, 2) arrays of x, y is wanted.")
    polygons, sizes, points = [], [], []
    for index, contour in enumerate(contours):
        polygon, size = _normal(_checked(contour, f"{name}[{index}]"), f"{name}[{index}]")
        polygons.append(polygon)
        sizes.append(size)
        points.append(_resampled(polygon))
    table = np.array(points, dtype=complex).reshape(-1, SAMPLES)
    return ClosedContours(table, tuple(polygons), np.array(sizes, dtype=float))


def harmonics(polygon: Complex, orders: Any) -> Complex:
    """c_k = mean of z(s) exp(-2 pi i k s) over the arc length s of a closed polygon, exactly, for orders k != 0.

    These are the elliptic Fourier coefficients of Kuhl and Giardina (1982) written as one complex number for k and
    one for -k. The derivative of a polygon is constant on each side, so its integral has a closed form.
    """
    sides = np.diff(polygon)
    length = np.abs(sides)
    ends = np.concatenate([[0.0], np.cumsum(length)]) / length.sum()
    turn = -2j * np.pi * np.asarray(orders, dtype=float)
    waves = np.diff(np.exp(np.multiply.outer(turn, ends)), axis=1)
    return -waves @ (sides / length) * length.sum() / turn**2


def _checked(contour: Any, name: str) -> Complex:
    """The corners of a contour, closed, without repeated neighbours."""
    try:
        table = np.asarray(contour, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} holds no numbers ({error}). Give a (k, 2) array of x, y.") from error
    if table.ndim != 2 or table.shape[1] != 2:
        raise InputError(f"{name} has shape {table.shape}; a (k, 2) array of x, y is wanted.")
    if not np.isfinite(table).all():
        raise InputError(f"{name} holds NaN or infinite coordinates. Leave such points out.")
    corners = table[:, 0] + 1j * table[:, 1]
    closed = np.append(corners, corners[:1])
    closed = closed[np.append(True, np.diff(closed) != 0)]
    if len(closed) < 4:
        raise InputError(f"{name} has fewer than 3 distinct points: it encloses nothing. Leave it out.")
    return closed


def _normal(closed: Complex, name: str) -> tuple[Complex, float]:
    """Area 1, counter-clockwise, centroid of the area at 0; and the square root of the area before."""
    closed = closed - closed[0]  # far from the origin the products below would lose their digits
    reach = float(np.abs(closed).max())
    closed = closed / reach
    cross = (closed[:-1].conj() * closed[1:]).imag / 2
    area = float(cross.sum())
    if abs(area) < FLAT * float(np.abs(np.diff(closed)).sum()) ** 2:
        raise InputError(
            f"{name} encloses no area: its points lie on a line, or it crosses itself so that what it encloses "
            "cancels. Leave it out or mend it."
        )
    centroid = (cross * (closed[:-1] + closed[1:])).sum() / (3 * area)
    turned = closed if area > 0 else closed[::-1]
    return (turned - centroid) / abs(area) ** 0.5, reach * abs(area) ** 0.5


def _resampled(polygon: Complex) -> Complex:
    """Points at equal arc length, beginning at an end of the long axis of the first ellipse."""
    first, ellipse, square = harmonics(polygon, [1, -1, -3])
    # Two arms that turn at different speeds point the same way twice in a round (the ends of the ellipse), or four
    # times when the contour repeats itself at a right angle and has no ellipse. What has neither may start anywhere.
    order, arm = (-1, ellipse) if abs(ellipse) > 1e-6 * abs(first) else (-3, square)
    start = (np.angle(first) - np.angle(arm)) / (order - 1) / (2 * np.pi)
    length = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(polygon)))])
    at = (start + np.arange(SAMPLES) / SAMPLES) % 1.0 * length[-1]
    return np.interp(at, length, polygon.real) + 1j * np.interp(at, length, polygon.imag)
