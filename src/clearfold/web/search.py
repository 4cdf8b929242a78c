"""Search, as the page and the API show it: hits with labels, distances, pictures and reasons."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from clearfold.web.answers import Refused, records
from clearfold.web.cases import addresses, feature_rows
from clearfold.web.library import clear_status, shown_about

if TYPE_CHECKING:
    from clearfold.retrieval import Answer, Reasons
    from clearfold.web.library import Library

REASON = ("feature", "share", "query", "hit", "median", "query_percentile", "hit_percentile", "unit", "alike")
LISTED = 200
"""Lines of the table of all features."""


def search(
    library: Library,
    asked: Mapping[str, str | None],
    k: int,
    where: Mapping[str, Sequence[str]] | None,
    own_patient: bool,
    with_reasons: bool,
) -> dict[str, Any]:
    """The k cases nearest to a stored case or to a query."""
    with library.archive.snapshot(), clear_status():
        question, about = _question(library, asked)
        answer = _answer(library, question, k, where, own_patient)
        names = [hit.case_id for hit in answer]
        cases = library.archive.cases_of(names)
        points = library.archive.coordinates_of(names).to_numpy().tolist() if names else []
        own = _point(library, asked, question)
    hits = [
        {
            "case_id": hit.case_id,
            "patient_id": hit.patient_id,
            "label": hit.label,
            "distance": hit.distance,
            "about": shown_about(case.about),
            **addresses(library, case),
            "agrees": None if None in (hit.label, about["label"]) else str(hit.label) == str(about["label"]),
            "point": point,
            **(_reasons(hit.reasons) if with_reasons else {}),
        }
        for hit, case, point in zip(answer, cases, points, strict=True)
    ]
    return {
        "asked": {**about, "point": own},
        "hits": hits,
        "labels": records(answer.labels),
        "familiar": answer.familiar,
        "strange": answer.strange,
        "missing": answer.missing,
        "version": answer.version,
        "how": answer[0].reasons.how if with_reasons and len(answer) else "",
    }


def reasons(library: Library, asked: Mapping[str, str | None], hit: str) -> dict[str, Any]:
    """Why one case is near to another one, or to a query, whether or not it is among the first hits."""
    import numpy as np

    from clearfold.retrieval.asking import as_query
    from clearfold.retrieval.background import background_of
    from clearfold.retrieval.explaining import Explainer
    from clearfold.retrieval.units import length_unit

    archive = library.archive
    with archive.snapshot(), clear_status():
        _ = library.version
        question, _about = _question(library, asked)
        fitted, other = archive.fitted(), library.case(hit)
        row = as_query(archive, question).row[list(fitted.features)].to_numpy(dtype=float)[0]
        kept = [library.names.index(name) for name in fitted.features]
        explainer = Explainer(fitted, background_of(archive, fitted), row, length_unit(archive.settings))
        found = explainer.reasons(np.asarray(other.features, dtype=float)[kept])
    return {**_reasons(found), "how": found.how, "table": records(found.table.head(LISTED))}


def _answer(library: Library, question: Any, k: int, where: Any, own_patient: bool) -> Answer:
    _ = library.version
    found: Answer = library.archive.query(question, k, where, own_patient)
    return found


def _question(library: Library, asked: Mapping[str, str | None]) -> tuple[Any, dict[str, Any]]:
    """What `Archive.query` takes, and what the page says of it."""
    case_id, query_id = asked.get("case"), asked.get("query")
    if (case_id is None) == (query_id is None):
        raise Refused(422, "Either a case or a query is wanted: ?case=... or ?query=...")
    if case_id is not None:
        case = library.case(case_id)
        where = addresses(library, case)
        about = {"case": case_id, "query": None, "label": case.label, "patient_id": case.patient_id}
        return case_id, about | {"image": where["image"], "nuclei": where["slide"] is not None, "name": case_id}
    query = library.queries.find(str(query_id))
    if query.features is None:
        raise Refused(422, f"{query.name} is too large to be measured at once. Draw a box on it.")
    row: dict[str, Any] = {
        name: math.nan if query.features[name] is None else query.features[name] for name in library.names
    }
    if query.patient_id is not None:
        row["patient_id"] = query.patient_id
    about = {"case": None, "query": query.id, "label": query.label, "patient_id": query.patient_id}
    return row, about | {"image": query.shown["image"], "nuclei": True, "name": query.name}


def _point(library: Library, asked: Mapping[str, str | None], question: Any) -> list[float]:
    archive = library.archive
    if asked.get("case") is not None:
        return archive.coordinates_of([question]).to_numpy()[0].tolist()
    return archive.place({name: question[name] for name in library.names})[0].tolist()


def _reasons(found: Reasons) -> dict[str, Any]:
    sides = {"near": found.near, "far": found.far}
    return {
        side: [{name: getattr(one, name) for name in REASON} | {"words": one.values} for one in named]
        for side, named in sides.items()
    }


def whole_query(library: Library, query_id: str) -> dict[str, Any]:
    """A query with its features."""
    query = library.queries.find(query_id)
    return query.shown | {"features": [] if query.features is None else feature_rows(library, query.features)}
