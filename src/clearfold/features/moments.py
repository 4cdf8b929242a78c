"""Moments of objects: centre, ellipse of the same moments, and Hu's invariants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from clearfold.features.grid import Integers, Runs

Floats: TypeAlias = NDArray[np.float64]

FLAT = 1e-12
"""A minor axis whose square is below this share of the major's is rounding: the pixels lie on a line."""
NORMALISED = ("20", "11", "02", "30", "21", "12", "03")
"""Moments of order 2 and 3; the first digit is the power of the row, the second of the column."""


@dataclass(frozen=True)
class Moments:
    """Pixels, centre and central moments of each object.

    middle_row, middle_column : of its box, in whole pixels of the framed image; row, column : the centre, from there
    central : by powers of row and column, e.g. central["21"] = sum (row - mean row)^2 (column - mean column)
    """

    area: Integers
    middle_row: Integers
    middle_column: Integers
    row: Floats
    column: Floats
    central: dict[str, Floats]

    @property
    def spread(self) -> tuple[Floats, Floats, Floats]:
        """Variance of rows, of columns, and their covariance, over the pixels."""
        return self.central["20"] / self.area, self.central["02"] / self.area, self.central["11"] / self.area

    @property
    def ellipse(self) -> tuple[Floats, Floats]:
        """Larger and smaller variance along the axes of the ellipse with these moments."""
        rows, columns, both = self.spread
        middle, half = (rows + columns) / 2, np.hypot((rows - columns) / 2, both)
        smaller = middle - half
        return middle + half, np.where(smaller <= FLAT * (middle + half), 0.0, smaller)

    @property
    def orientation(self) -> Floats:
        """Angle from the vertical to the major axis, counter-clockwise, -pi/2 to pi/2; NaN where no axis is longer."""
        rows, columns, both = self.spread
        angle = 0.5 * np.arctan2(2 * both, rows - columns)
        round_ = np.hypot(rows - columns, 2 * both) <= FLAT * (rows + columns)
        return np.where(round_, np.nan, angle)

    @property
    def hu(self) -> Floats:
        """Hu's seven invariants of the moments mu_pq / area^(1 + (p + q) / 2), as columns."""
        area = self.area.astype(float)
        n = {key: self.central[key] / area ** (2 if int(key[0]) + int(key[1]) == 2 else 2.5) for key in NORMALISED}
        a, b = n["30"] + n["12"], n["21"] + n["03"]
        c, d = n["30"] - 3 * n["12"], 3 * n["21"] - n["03"]
        e, f = n["20"] - n["02"], 2 * n["11"]
        invariants = (
            n["20"] + n["02"],
            e**2 + f**2,
            c**2 + d**2,
            a**2 + b**2,
            c * a * (a**2 - 3 * b**2) + d * b * (3 * a**2 - b**2),
            e * (a**2 - b**2) + 2 * f * a * b,
            d * a * (a**2 - 3 * b**2) - c * b * (3 * a**2 - b**2),
        )
        return np.stack(invariants, axis=1)


def moments(runs: Runs) -> Moments:
    """Sums of powers over the pixels of each object, about the middle of its box, then moved to its centre.

    About the middle of the box they are sums of small integers, so nothing is lost in moving them.
    """
    boxes = runs.boxes
    middle_row, middle_column = boxes.middle_row, boxes.middle_column
    v = runs.row - middle_row[runs.owner]
    first = runs.column - middle_column[runs.owner]
    powers = _powers(first, first + runs.length - 1)
    raw = {
        (p, q): runs.total(v**p * powers[q]).astype(float)
        for p in range(4)
        for q in range(4 - p)  # up to order 3
    }
    area = runs.total(runs.length)
    y, x = raw[1, 0] / area, raw[0, 1] / area
    central = {
        "20": raw[2, 0] - y * raw[1, 0],
        "11": raw[1, 1] - y * raw[0, 1],
        "02": raw[0, 2] - x * raw[0, 1],
        "30": raw[3, 0] - 3 * y * raw[2, 0] + 2 * y**2 * raw[1, 0],
        "21": raw[2, 1] - 2 * y * raw[1, 1] - x * raw[2, 0] + 2 * y**2 * raw[0, 1],
        "12": raw[1, 2] - 2 * x * raw[1, 1] - y * raw[0, 2] + 2 * x**2 * raw[1, 0],
        "03": raw[0, 3] - 3 * x * raw[0, 2] + 2 * x**2 * raw[0, 1],
    }
    return Moments(area, middle_row, middle_column, y, x, central)


def _powers(first: Integers, last: Integers) -> tuple[Integers, Integers, Integers, Integers]:
    """Sums of x^0, x^1, x^2 and x^3 for x from first to last."""
    length = last - first + 1
    before = first - 1
    return (
        length,
        (first + last) * length // 2,
        (last * (last + 1) * (2 * last + 1) - before * (before + 1) * (2 * before + 1)) // 6,
        (last * (last + 1) // 2) ** 2 - (before * (before + 1) // 2) ** 2,
    )
