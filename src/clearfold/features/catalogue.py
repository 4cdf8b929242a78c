"""What is measured: each structure declared once, and what a measurement gives back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

STATISTICS = ("mean", "sd", "median", "min_max", "skewness", "disorder")
"""How the values of many objects become numbers of a region (`clearfold.features.statistics`)."""


@dataclass(frozen=True)
class Measure:
    """One measured structure: `name` is `family.structure`, `formula` how it is computed, `source` who proposed it.

    unit : "um" and "um2" (pixels where the scale is not known), "1" for counts, shares and ratios, "rad"
    summarised : many values a region, so that `features` are its statistics; else one number a region

    >>> Measure("graph.mst.edge_length", "length of an edge of the minimum spanning tree", "um", "VINK").features[:2]
    ('graph.mst.edge_length.mean', 'graph.mst.edge_length.sd')
    """

    name: str
    formula: str
    unit: str
    source: str
    summarised: bool = True

    @property
    def family(self) -> str:
        """The part of the name before the first dot."""
        return self.name.split(".", 1)[0]

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the numbers that a region gets from it."""
        return tuple(f"{self.name}.{statistic}" for statistic in STATISTICS) if self.summarised else (self.name,)


@dataclass(frozen=True)
class Features:
    """Named numbers of one region; `reasons` says of each that is NaN why."""

    values: dict[str, float]
    reasons: dict[str, str] = field(default_factory=dict)

    def __or__(self, other: Features) -> Features:
        """The numbers of both."""
        return Features(self.values | other.values, self.reasons | other.reasons)

    def __len__(self) -> int:
        return len(self.values)

    def to_series(self) -> Any:
        """A pandas Series; the reasons are in its `attrs`."""
        import pandas as pd

        series = pd.Series(self.values, dtype=float)
        series.attrs["reasons"] = dict(self.reasons)
        return series

    def __repr__(self) -> str:
        missing = f", {len(self.reasons)} of them missing" if self.reasons else ""
        return f"Features: {len(self.values)} numbers{missing}"


def feature_names(measures: Iterable[Measure]) -> tuple[str, ...]:
    """The names of all numbers that these measures give, in their order."""
    return tuple(name for measure in measures for name in measure.features)


def not_measured(measures: Iterable[Measure], reason: str) -> Features:
    """NaN for every number of these measures, with one reason."""
    names = feature_names(measures)
    return Features(dict.fromkeys(names, float("nan")), dict.fromkeys(names, reason))
