"""What is to be drawn: a grade as numbers, in micrometres."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from clearfold.errors import InputError

MOST_COVERED = 0.55
"""Share of the tissue that nuclei may cover: beyond it they cannot lie apart."""


@dataclass(frozen=True)
class Recipe:
    """One kind of tissue.

    density : nuclei in a square millimetre; disorder : 0 a lattice, 1 as random as nuclei that lie apart can be
    area : mean area of a nucleus in um2; pleomorphism : SD / mean of areas; irregularity : SD / mean of a radius
    elongation : mean ratio of axes; darkness : mean hematoxylin; hematoxylin, eosin : strength of staining
    """

    density: float
    disorder: float
    area: float
    pleomorphism: float
    irregularity: float
    elongation: float
    darkness: float
    hematoxylin: float = 1.0
    eosin: float = 1.0

    @property
    def spacing(self) -> float:
        """Distance of neighbours in the lattice, in um; 0 when there are none."""
        return float(np.sqrt(2 / (3**0.5 * self.density)) * 1000) if self.density else 0.0


GRADES = {
    "low": Recipe(2600.0, 0.25, 34.0, 0.14, 0.03, 1.35, 0.95),
    "high": Recipe(4200.0, 0.75, 62.0, 0.40, 0.09, 1.45, 1.15),
}


def recipe(grade: str, density: float | None = None, disorder: float | None = None) -> Recipe:
    """The recipe of a grade, with a density or disorder of one's own."""
    if grade not in GRADES:
        raise InputError(f"grade={grade!r} came; {' or '.join(map(repr, GRADES))} is wanted.")
    own: dict[str, Any] = {}
    if density is not None:
        own["density"] = _number(density, "density", 0.0, np.inf, "nuclei in a square millimetre, such as 3000")
    if disorder is not None:
        own["disorder"] = _number(disorder, "disorder", 0.0, 1.0, "a number from 0 (a lattice) to 1 (random)")
    wanted = replace(GRADES[grade], **own)
    covered = wanted.density * wanted.area * 1e-6
    if covered > MOST_COVERED:
        most = int(MOST_COVERED / wanted.area * 1e6)
        raise InputError(
            f"density={density} came: nuclei of {wanted.area:.0f} um2 would cover {covered:.0%} of the tissue and "
            f"could not lie apart. For grade {grade!r} give {most} or less."
        )
    return wanted


def varied(wanted: Recipe, random: np.random.Generator) -> Recipe:
    """The same grade in another patient, and from another day in the laboratory."""
    factor = np.exp(random.normal(0.0, [0.06, 0.05, 0.06, 0.08, 0.10]))
    return replace(
        wanted,
        density=wanted.density * factor[0],
        area=wanted.area * factor[1],
        disorder=min(wanted.disorder * factor[2], 1.0),
        hematoxylin=factor[3],
        eosin=factor[4],
    )


def pixels(size: Any) -> tuple[int, int]:
    """Height and width from one number or two."""
    pair = size if isinstance(size, tuple | list) else (size, size)
    if len(pair) != 2 or any(isinstance(n, bool) or not isinstance(n, int | np.integer) for n in pair):
        raise InputError(f"size={size!r} came; pixels are wanted: one whole number, or height and width.")
    height, width = map(int, pair)
    if not (16 <= height <= 20_000 and 16 <= width <= 20_000):
        raise InputError(f"size={size!r} came; from 16 to 20000 pixels each way are wanted.")
    return height, width


def scale(mpp: Any) -> float:
    """Micrometres a pixel: a nucleus must have some pixels."""
    return _number(mpp, "mpp", 0.05, 2.0, "micrometres a pixel from 0.05 to 2")


def whole(value: Any, name: str, least: int) -> int:
    """A whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InputError(f"{name}={value!r} came; a whole number of {least} or more is wanted.")
    return int(value)


def _number(value: Any, name: str, low: float, high: float, wanted: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not low <= value <= high:
        raise InputError(f"{name}={value!r} came; {wanted} is wanted.")
    return float(value)
