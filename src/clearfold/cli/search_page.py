"""Examples of a search in a report: the image that was asked, its hits, and the named reasons."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from clearfold.errors import UnfamiliarQueryWarning

if TYPE_CHECKING:
    from clearfold.archive import Archive
    from clearfold.report import Report

EXAMPLES, HITS = 3, 4


@dataclass(frozen=True)
class Search:
    """A case that was asked, and its hits, with reasons that are worked out; `strange` says why it is unfamiliar."""

    case_id: str
    label: Any
    thumbnail: bytes | None
    hits: tuple[Any, ...]
    strange: str = ""

    @classmethod
    def of(cls, archive: Archive, query: Any, asked: Any, k: int = HITS) -> Search:
        """Ask while the archive is open; asked : has case_id, label and thumbnail of what is asked."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnfamiliarQueryWarning)  # said beside the hits
            answer = archive.query(query, k=k)
        for hit in answer:
            hit.reasons  # noqa: B018 - worked out now, while the archive is open
        return cls(asked.case_id, asked.label, asked.thumbnail, tuple(answer), answer.strange)


def example_searches(archive: Archive, among: Collection[str] = (), seed: int = 0) -> list[Search]:
    """A search with one case of each label, up to three, drawn at random: not the ones that look best.

    among : case ids to draw from, where the archive has them; else every case may be drawn
    """
    import numpy as np

    labels = archive.cases()["label"]
    own = labels[labels.index.isin([str(name) for name in among])]
    labels = own if len(own) else labels
    random = np.random.default_rng(seed)
    kinds = labels.dropna().drop_duplicates().sort_values(key=lambda column: column.map(str)).tolist()[:EXAMPLES]
    pools = [labels.index[labels == kind] for kind in kinds] or [labels.index]
    drawn = [str(pool[int(random.integers(len(pool)))]) for pool in pools if len(pool)]
    return [Search.of(archive, case.case_id, case) for case in archive.cases_of(drawn)]


def add_search(page: Report, found: Search) -> None:
    """What was asked beside its hits, if there are pictures; and the strongest reasons."""
    import pandas as pd

    from clearfold.plot import pictures

    label = "no label" if found.label is None else str(found.label)
    seen = [hit for hit in found.hits if hit.thumbnail]
    if found.thumbnail and seen:
        asked = SimpleNamespace(case_id=found.case_id, label=found.label, thumbnail=found.thumbnail)
        page.figure(
            pictures(seen, query=asked),
            "First the image that was asked, then the nearest cases of the archive.",
            alt=f"The image of {found.case_id} ({label}) and the {len(seen)} cases most like it.",
        )
    rows = [
        {
            "case": hit.case_id,
            "label": hit.label,
            "distance": hit.distance,
            "near": _first(hit.reasons.near),
            "far": _first(hit.reasons.far),
        }
        for hit in found.hits
    ]
    page.table(
        pd.DataFrame(rows),
        f"Hits of {found.case_id} ({label}): the strongest reason for each, and the feature on which it differs most.",
        name=f"hits-of-{found.case_id}",
        data=_all_reasons(found),
    )
    if found.strange:
        page.text(f"{found.case_id} lies outside what the archive has seen: {found.strange}. Its hits may mean little.")


def _first(reasons: Sequence[Any]) -> str:
    return str(reasons[0]) if reasons else "–"


def _all_reasons(found: Search) -> Any:
    """A line for each named reason of each hit."""
    import pandas as pd

    names = ("side", "feature", "unit", "share", "query", "hit", "median", "query_percentile", "hit_percentile")
    return pd.DataFrame(
        [
            {"case": hit.case_id, "label": hit.label, "distance": hit.distance}
            | {name: getattr(reason, name) for name in names}
            for hit in found.hits
            for reason in hit.reasons
        ]
    )
