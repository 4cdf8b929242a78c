"""Micrometres a pixel: what the user said, else what a file says, else unknown."""

from __future__ import annotations

import math
import re
from typing import Any
from xml.etree import ElementTree

from clearfold.errors import InputError

# Print resolutions (72 or 300 dots an inch) are hundreds of micrometres; no light microscope is outside of this.
PLAUSIBLE = (0.05, 20.0)
MICROMETRES = {"m": 1e6, "cm": 1e4, "mm": 1e3, "um": 1.0, "nm": 1e-3, "pm": 1e-6, "Å": 1e-4, "in": 25_400.0}
SPELLINGS = {"µm": "um", "μm": "um", "micron": "um", "microns": "um", "micrometer": "um", "inch": "in"}
INCH, CENTIMETRE = 2, 3  # TIFF's tag ResolutionUnit


def given_mpp(mpp: Any) -> float | None:
    """The user's word: a positive number, or None."""
    if mpp is None:
        return None
    if isinstance(mpp, bool | str) or not _positive(mpp):
        raise InputError(f"mpp={mpp!r} came; wanted are micrometres a pixel, such as 0.5, or None when unknown.")
    return float(mpp)


def isotropic(x: float | None, y: float | None) -> float | None:
    """One number for both directions; unknown when they differ by more than 5 %."""
    if x is None or y is None or not (_positive(x) and _positive(y)):
        return None
    return math.sqrt(x * y) if max(x, y) <= 1.05 * min(x, y) else None


def from_dots(x: float, y: float, unit: float) -> float | None:
    """`unit` micrometres / dots, when a microscope can have made it: resolution tags often speak of paper."""
    mpp = isotropic(*(unit / dots if _positive(dots) else None for dots in (x, y)))
    return mpp if mpp is not None and PLAUSIBLE[0] <= mpp <= PLAUSIBLE[1] else None


def from_ome(xml: str) -> float | None:
    """PhysicalSizeX and Y of the first image of OME-XML, with their units."""
    pixels = ome_pixels(xml)
    if pixels is None:
        return None
    x, y = (_length(pixels.get(f"PhysicalSize{axis}"), pixels.get(f"PhysicalSize{axis}Unit", "um")) for axis in "XY")
    return isotropic(x, y if y is not None else x)


def ome_pixels(xml: str) -> ElementTree.Element | None:
    """The element `Pixels` of the first image of OME-XML."""
    if "<!" in xml.replace("<!--", ""):  # a document type can hold entities that grow without end
        return None
    try:
        return ElementTree.fromstring(xml.encode()).find(".//{*}Pixels")
    except ElementTree.ParseError:
        return None


def from_aperio(description: str) -> float | None:
    """The number after "MPP = " in the description of an Aperio slide."""
    found = re.search(r"\bMPP\s*=\s*([0-9.eE+-]+)", description)
    return _length(found[1], "um") if found else None


def from_imagej(description: str, x: float, y: float) -> float | None:
    """ImageJ writes the unit of length into the description, and pixels a unit into the resolution."""
    found = re.search(r"^unit=(.+)$", description, re.MULTILINE)
    unit = _length("1", found[1].strip().replace("\\u00B5", "µ")) if found else None
    return from_dots(x, y, unit) if unit is not None else None


def _length(text: str | None, unit: str) -> float | None:
    try:
        value = float(text) * MICROMETRES[SPELLINGS.get(unit, unit)] if text else None
    except (KeyError, ValueError):
        return None
    return value if value is not None and _positive(value) else None


def _positive(number: Any) -> bool:
    try:
        return math.isfinite(number) and number > 0
    except TypeError:
        return False
