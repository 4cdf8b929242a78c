"""Fourier descriptors of outlines: of the distance from the centre, and of the outline itself (elliptic).

Both are those of a function that is linear between the points of the outline, by arc length, so they are exact sums:
nothing is resampled, and where the walk round the outline starts changes no magnitude.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from clearfold.features import kernels
from clearfold.features.catalogue import Measure
from clearfold.features.grid import Integers
from clearfold.features.outlines import DIAGONAL, Outlines

Floats: TypeAlias = NDArray[np.float64]

ORDER = 10

FOURIER = {
    f"fourier_{k}": Measure(
        f"shape.fourier_{k}",
        f"|R_{k}| / R_0 with R the Fourier series, by arc length, of the outline's distance from the centroid",
        "1",
        "Zhang and Lu 2002; FINE",
    )
    for k in range(1, ORDER + 1)
} | {
    f"elliptic_{k}": Measure(
        f"shape.elliptic_{k}",
        f"sqrt(a^2 + b^2 + c^2 + d^2) of harmonic {k} of the outline / semi-major axis of harmonic 1",
        "1",
        "Kuhl and Giardina 1982",
    )
    for k in range(1, ORDER + 1)
}
"""Columns of `fourier`, in their order."""


def fourier(outlines: Outlines, row: Floats, column: Floats) -> Floats:
    """Values of FOURIER, one row an object; row and column are its centroid."""
    kernel = kernels.compiled(kernels.harmonics)
    if kernel is None:
        real, imaginary, mean = _harmonics(outlines, row, column)
    else:
        lines = outlines.start, outlines.y, outlines.x, outlines.straight
        real, imaginary, mean = kernel(*lines, row, column, ORDER)
    scale = outlines.length[:, None] / (2 * np.pi**2 * np.arange(1, ORDER + 1) ** 2)
    power = (real**2 + imaginary**2) * scale[:, None, :] ** 2
    a, b, c, d = (part[:, j, 0] * scale[:, 0] for j in (0, 1) for part in (real, imaginary))
    semi_major = (np.hypot(a + d, b - c) + np.hypot(a - d, b + c)) / 2
    distance, elliptic = np.sqrt(power[:, 2]), np.sqrt(power[:, 0] + power[:, 1])
    return np.hstack([distance / mean[:, None], elliptic / semi_major[:, None]])


def _harmonics(outlines: Outlines, row: Floats, column: Floats) -> tuple[Floats, Floats, Floats]:
    """Sums over each outline of (slope before - slope after) exp(i k phase) of x, y and distance; mean distance."""
    y, x, steps, before = outlines.y / 2, outlines.x / 2, outlines.steps, _before(outlines.start)
    distance = np.sqrt((y - row[outlines.owner]) ** 2 + (x - column[outlines.owner]) ** 2)
    slopes = [(values[outlines.following] - values) / steps for values in (x, y, distance)]
    jumps = np.stack([slope[before] - slope for slope in slopes], axis=1)
    start = outlines.start[:-1]
    phase = _phase(outlines)
    turn = np.cos(phase) + 1j * np.sin(phase)
    power, sums = turn.copy(), np.empty((len(start), 3, ORDER), complex)
    for k in range(ORDER):
        sums[:, :, k] = np.add.reduceat(power[:, None] * jumps, start)
        power *= turn
    mean = np.add.reduceat(distance * (steps + steps[before]) / 2, start) / outlines.length
    return sums.real, sums.imag, mean


def _phase(outlines: Outlines) -> Floats:
    """2 pi times the share of the outline that was walked before each point.

    What was walked is a whole number of straight and of diagonal steps: it is rounded once, however long the walk.
    """
    start, owner = outlines.start[:-1], outlines.owner
    straight: Integers = np.cumsum(outlines.straight) - outlines.straight
    straight -= straight[start][owner]
    walked = straight + DIAGONAL * (np.arange(len(owner)) - start[owner] - straight)
    return 2 * np.pi * walked / outlines.length[owner]


def _before(start: Integers) -> Integers:
    """The point before each, going round."""
    before = np.arange(-1, start[-1] - 1)
    before[start[:-1]] = start[1:] - 1
    return before
