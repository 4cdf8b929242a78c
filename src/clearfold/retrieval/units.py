"""Units and meanings of clearfold's own features; of other features nothing is known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

SPELT = {
    "um": {"um": "µm", "um2": "µm²", "rad": "rad"},
    "px": {"um": "px", "um2": "px²", "rad": "rad"},
}
"""Unit of lengths -> unit as declared -> unit as shown."""
WITHOUT_UNIT = ("min_max", "skewness", "disorder")
"""Statistics that are ratios."""
STATISTIC_WORDS = {
    "mean": "mean",
    "sd": "spread (SD)",
    "median": "median",
    "min_max": "smallest over largest",
    "skewness": "skewness",
    "disorder": "disorder, spread against mean",
}
FAMILIES = ("shape", "texture", "stain", "graph", "density", "orientation")


class Known(NamedTuple):
    """What is declared of a feature."""

    unit: str
    meaning: str


def length_unit(settings: Mapping[str, Any]) -> str | None:
    """What lengths of an archive are in: um, px for images that nobody knows the scale of, None for tables."""
    if settings.get("mpp") is not None:
        return "um"
    return "px" if "mpp_given" in settings else None


def units_of(names: Iterable[str], lengths: str | None) -> dict[str, str]:
    """Feature -> unit, of those that clearfold measures and that have one."""
    if lengths is None:
        return {}
    spelt = SPELT[lengths]
    return {name: spelt[known.unit] for name, known in _known_of(names).items() if known.unit in spelt}


def meanings_of(names: Iterable[str]) -> dict[str, str]:
    """Feature -> what it is, in words, of those that clearfold measures."""
    return {name: known.meaning for name, known in _known_of(names).items()}


def _known_of(names: Iterable[str]) -> dict[str, Known]:
    ours = [name for name in names if name.split(".", 1)[0] in FAMILIES]
    known = _declared() if ours else {}
    return {name: known[name] for name in ours if name in known}


@cache
def _declared() -> dict[str, Known]:
    """Every feature that `extract` gives, as it was declared."""
    from clearfold.features.extraction import MEASURES

    known: dict[str, Known] = {}
    for measure in (measure for measures in MEASURES.values() for measure in measures):
        for name in measure.features:
            statistic = name.rsplit(".", 1)[-1] if measure.summarised else ""
            unit = "1" if statistic in WITHOUT_UNIT else measure.unit
            meaning = f"{STATISTIC_WORDS[statistic]}: {measure.formula}" if statistic else measure.formula
            known[name] = Known(unit, meaning)
    return known
