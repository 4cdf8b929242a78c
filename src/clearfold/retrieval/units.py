"""The units of clearfold's own features; other features have none that are known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

SPELT = {
    "um": {"um": "µm", "um2": "µm²", "rad": "rad"},
    "px": {"um": "px", "um2": "px²", "rad": "rad"},
}
"""Unit of lengths -> unit as declared -> unit as shown."""
WITHOUT_UNIT = ("min_max", "skewness", "disorder")
"""Statistics that are ratios."""
FAMILIES = ("shape", "texture", "stain", "graph", "density", "orientation")


def length_unit(settings: Mapping[str, Any]) -> str | None:
    """What lengths of an archive are in: um, px for images that nobody knows the scale of, None for tables."""
    if settings.get("mpp") is not None:
        return "um"
    return "px" if "mpp_given" in settings else None


def units_of(names: Iterable[str], lengths: str | None) -> dict[str, str]:
    """Feature -> unit, of those that clearfold measures and that have one."""
    if lengths is None:
        return {}
    known = _declared() if any(name.split(".", 1)[0] in FAMILIES for name in names) else {}
    spelt = SPELT[lengths]
    return {name: spelt[known[name]] for name in names if known.get(name) in spelt}


@cache
def _declared() -> dict[str, str]:
    """Unit of every feature that `extract` gives, as it was declared."""
    from clearfold.features.extraction import MEASURES

    return {
        name: measure.unit
        for measures in MEASURES.values()
        for measure in measures
        for name in measure.features
        if name.rsplit(".", 1)[-1] not in WITHOUT_UNIT
    }
