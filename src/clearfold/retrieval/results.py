"""What a query gives back: hits, each with its reasons; small frozen objects that print themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

LISTED = 5
"""Reasons that are named on each side."""


@dataclass(frozen=True)
class Reason:
    """One feature on which query and hit are near, or far apart, in the feature's own unit.

    share : of all that makes the two near (or far), by what the embedding uses
    median : of the archive; percentiles : where query and hit stand in the archive, 0 to 100
    unit : of its values, where it is known; meaning : what the feature is, in words, if clearfold measured it
    alike : further features that say the same (correlation above .9) and are not listed
    """

    feature: str
    side: str
    share: float
    query: float
    hit: float
    median: float
    query_percentile: float
    hit_percentile: float
    unit: str = ""
    alike: int = 0
    meaning: str = ""

    @property
    def values(self) -> str:
        """Both values in words."""
        joint = "and" if self.side == "near" else "against"
        return f"{_number(self.query)} {joint} {_number(self.hit)}{f' {self.unit}' if self.unit else ''}"

    @property
    def percentiles(self) -> str:
        """Where both stand in the archive, in words."""
        return f"{_place(self.query_percentile)} and {_place(self.hit_percentile)}"

    def __str__(self) -> str:
        more = f"; {self.alike} more like it" if self.alike else ""
        return f"{self.feature} {self.values} (percentiles {self.percentiles}, median {_number(self.median)}{more})"


@dataclass(frozen=True, eq=False, repr=False)
class Reasons:
    """Why a hit was found: the features that make it near, and those on which it differs most.

    table : DataFrame with a line for every feature: feature, near, far (shares, see `how`), query, hit, median,
        query_percentile, hit_percentile, and what the embedding says of its own; what makes near comes first
    near, far : the first few as `Reason`, features that say the same only once; iterating gives both
    how : what the shares are, in one sentence
    """

    table: pd.DataFrame
    near: tuple[Reason, ...]
    far: tuple[Reason, ...]
    how: str

    def frame(self) -> pd.DataFrame:
        """Every feature, what makes near first."""
        return self.table.copy()

    def __iter__(self) -> Iterator[Reason]:
        return iter(self.near + self.far)

    def __len__(self) -> int:
        return len(self.near) + len(self.far)

    def __getitem__(self, key: Any) -> Any:
        """A reason by its number, or a column of the table by its name."""
        return self.table[key] if isinstance(key, str) else (self.near + self.far)[key]

    def __str__(self) -> str:
        lines = [f"  near: {reason}" for reason in self.near] + [f"  far:  {reason}" for reason in self.far]
        return "\n".join(lines) or "  no feature stands out"

    __repr__ = __str__


@dataclass(frozen=True, eq=False)
class Hit:
    """One case that was found. `reasons` are worked out when they are first looked at."""

    case_id: str
    patient_id: str | None
    label: Any
    distance: float
    thumbnail: bytes | None = field(repr=False)
    metadata: dict[str, Any]
    explain: Callable[[], Reasons] = field(repr=False)

    @cached_property
    def reasons(self) -> Reasons:
        """The features that make it near, and those on which it differs most."""
        return self.explain()


@dataclass(frozen=True, eq=False)
class Answer:
    """Hits, nearest first (equal distances by case id), and what to think of them.

    labels : DataFrame label, hits, share (of the labelled hits), chance (of the labelled cases that could have been
        found, the query's own patient left out), most frequent first
    familiar : whether the query lies within what the archive has seen; strange : if not, why
    missing : features of the query without a value, the archive's median took their place
    version : of the embedding that answered; case_id : of the query, if it is a stored case
    """

    hits: tuple[Hit, ...]
    labels: pd.DataFrame
    familiar: bool
    strange: str
    missing: int
    version: int
    case_id: str | None = None

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)

    def __getitem__(self, number: Any) -> Any:
        return self.hits[number]

    def frame(self) -> pd.DataFrame:
        """A line for each hit: case_id, patient_id, label, distance, and its metadata."""
        import pandas as pd

        own = [
            {"case_id": hit.case_id, "patient_id": hit.patient_id, "label": hit.label, "distance": hit.distance}
            for hit in self.hits
        ]
        columns = ["case_id", "patient_id", "label", "distance"]
        rows = [{name: value for name, value in hit.metadata.items() if name not in columns} for hit in self.hits]
        return pd.concat([pd.DataFrame(own, columns=columns), pd.DataFrame(rows)], axis=1)

    def __str__(self) -> str:
        lines = [] if self.familiar else [f"Unfamiliar: {self.strange}"]
        for place, hit in enumerate(self.hits, start=1):
            patient = "" if hit.patient_id is None else f", patient {hit.patient_id}"
            lines += [f"{place}. {hit.case_id} ({'no label' if hit.label is None else hit.label}{patient})"]
            lines[-1] += f" at {hit.distance:.4g}"
            lines += [f"     {side}: {named}" for side, named in first_words(hit.reasons).items() if named]
        for row in self.labels[self.labels["hits"] > 0].itertuples():
            lines += [f"{row.label}: {row.hits} of {self.labels['hits'].sum()} labelled hits (chance {row.chance:.0%})"]
        return "\n".join(lines) or "no case was found"


def first_words(reasons: Reasons, count: int = 3) -> dict[str, str]:
    """The first reasons of each side in a line."""
    return {
        side: ", ".join(f"{reason.feature} {reason.values}" for reason in listed[:count])
        for side, listed in (("near", reasons.near), ("far", reasons.far))
    }


def _number(value: float) -> str:
    return "missing" if np.isnan(value) else f"{value:.4g}"


def _place(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.0f}"
