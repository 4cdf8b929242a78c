"""The archive and its cases, as the page and the API show them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

from clearfold import __version__
from clearfold.table.roles import family
from clearfold.web.answers import Refused
from clearfold.web.library import shown_about

if TYPE_CHECKING:
    from clearfold.archive import Case
    from clearfold.web.library import Library

OUTCOMES = ("time", "outcome")
KEYS = ("patient_id", "slide_id", "label")


def archive_facts(library: Library) -> dict[str, Any]:
    """What there is to see."""
    archive = library.archive
    with archive.snapshot():
        settings, versions, count = archive.settings, archive.versions(), len(archive)
        counts = archive.label_counts() if count else {}
        columns = list(dict.fromkeys([*KEYS, *settings.get("metadata", [])]))
        active = next((one.number for one in versions if one.active and not one.forgotten), None)
    limits = {name: getattr(library.settings, name) for name in ("upload_bytes", "pixels", "measured", "seconds")}
    return {
        "name": library.name,
        "count": count,
        "revision": library.revision,
        "mpp": settings.get("mpp"),
        "unit": _length_unit(settings),
        "features": len(library.names),
        "families": families(library.names),
        "labels": [{"label": label, "count": many} for label, many in counts.items()],
        "columns": columns,
        "outcomes": [name for name in columns if name in OUTCOMES],
        "versions": [_version(one) for one in versions],
        "active": active,
        "survival": {"time", "event"} <= set(columns),
        "slides": bool(library.settings.slides),
        "limits": limits,
        "clearfold": __version__,
    }


def _length_unit(settings: Mapping[str, Any]) -> str | None:
    """As `retrieval.units.length_unit`, which would load scikit-learn before the first page is shown."""
    return "um" if settings.get("mpp") is not None else "px" if "mpp_given" in settings else None


def short_facts(library: Library) -> dict[str, Any]:
    """What the head of every page says; quick in an archive of any size."""
    with library.archive.snapshot():
        active = library.archive.active
        return {
            "name": library.name,
            "count": len(library.archive),
            "embedding": None if active is None else active.embedding,
        }


def families(names: Sequence[str]) -> list[dict[str, Any]]:
    """How many features each family has."""
    return [{"family": name, "features": many} for name, many in Counter(map(family, names)).items()]


def _version(one: Any) -> dict[str, Any]:
    names = ("number", "name", "embedding", "created", "dimension", "active", "forgotten")
    return {name: getattr(one, name) for name in names} | {"cases": one.n_learned}


def case_page(
    library: Library, page: int, per_page: int, where: Mapping[str, Sequence[str]] | None, text: str | None
) -> dict[str, Any]:
    """A page of cases in the order in which they came, those that pass the filter."""
    archive = library.archive
    with archive.snapshot():
        found = _filtered(library, where, text)
        total, start = len(found), (page - 1) * per_page
        pages = max(1, -(-total // per_page))
        if page > pages:
            raise Refused(404, f"There is no page {page}; there are {pages}.")
        numbers = library.numbers[found[start : start + per_page]].tolist()
        cases = archive._store.read(numbers)
    shown = [brief(library, case) for case in cases]
    return {"page": page, "pages": pages, "per_page": per_page, "total": total, "cases": shown}


def _filtered(library: Library, where: Mapping[str, Sequence[str]] | None, text: str | None) -> Any:
    """Places of the cases that pass."""
    passes = np.ones(len(library.numbers), dtype=bool)
    if text:
        wanted = text.casefold()
        passes &= np.fromiter((wanted in name.casefold() for name in library.ids), dtype=bool, count=len(passes))
    for name, values in (where or {}).items():
        frame = library.cases
        if name not in frame:
            raise Refused(422, f"There is no column {name!r} to filter by. The columns are {', '.join(frame.columns)}.")
        passes &= frame[name].map(str).isin(list(values)).to_numpy()
    return np.flatnonzero(passes)


def names_like(library: Library, text: str, limit: int) -> dict[str, Any]:
    """Ids that hold a text, those that begin with it first."""
    wanted = text.casefold()
    found = [name for name in library.ids if wanted in name.casefold()]
    return {"cases": sorted(found, key=lambda name: not name.casefold().startswith(wanted))[:limit]}


def brief(library: Library, case: Case) -> dict[str, Any]:
    """A case in a list."""
    return {
        "case_id": case.case_id,
        "patient_id": case.patient_id,
        "slide_id": case.slide_id,
        "label": case.label,
        "about": shown_about(case.about),
        **addresses(library, case),
    }


def addresses(library: Library, case: Case) -> dict[str, Any]:
    """Where its pictures are, if it has any."""
    name = quote(case.case_id, safe="")
    has_file = library.slides.of_case(case) is not None
    small = f"/api/v1/case/thumbnail?id={name}" if case.thumbnail is not None else None
    return {
        "thumbnail": small,
        "image": f"/api/v1/case/image?id={name}" if has_file else small,
        "slide": f"case:{case.case_id}" if has_file else None,
    }


def whole_case(library: Library, case_id: str) -> dict[str, Any]:
    """A case with its features, where each stands in the archive, and its coordinates."""
    archive = library.archive
    with archive.snapshot():
        case = library.case(case_id)
        active = archive.active
        place = None
        if active is not None:
            _, points = archive._store.coordinates(active.number, archive._numbers([case_id]))
            place = points[0].tolist() if len(points) else None
    return brief(library, case) | {
        "features": feature_rows(library, dict(zip(library.names, case.features.tolist(), strict=True))),
        "coordinates": place,
    }


def feature_rows(library: Library, values: Mapping[str, float | None]) -> list[dict[str, Any]]:
    """Each feature with its value, its unit, and the share of the archive below it."""
    columns = library.kept("sorted sample", lambda: _sorted(library))
    rows = []
    for name in library.names:
        value = values[name]
        column, place = columns[name], None
        if value is not None and value == value and len(column):
            below, upto = np.searchsorted(column, value, "left"), np.searchsorted(column, value, "right")
            place = 50.0 * float(below + upto) / len(column)
        unit = library.units.get(name, "")
        rows.append({"feature": name, "family": family(name), "value": value, "percentile": place, "unit": unit})
    return rows


def _sorted(library: Library) -> dict[str, Any]:
    sample = library.sample
    values = np.sort(sample.to_numpy(dtype=float), axis=0)  # NaN goes to the end
    known = (~np.isnan(values)).sum(axis=0)
    return {name: values[: known[place], place] for place, name in enumerate(sample.columns)}


def thumbnail(library: Library, case_id: str) -> bytes:
    """The small picture that the archive keeps."""
    small: bytes | None = library.case(case_id).thumbnail
    if small is None:
        raise Refused(404, f"Case {case_id!r} has no picture.")
    return small


def image(library: Library, case_id: str, most: int) -> bytes:
    """The whole image of a case where its file is there, else the small one."""
    path = library.slides.of_case(library.case(case_id))
    return thumbnail(library, case_id) if path is None else library.slides.picture(path, most)
