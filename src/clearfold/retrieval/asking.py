"""A query in any form, placed as the archive was, and what is near it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clearfold.errors import ArchiveError, ImageError, InputError, UnfamiliarQueryWarning, UnknownScaleWarning, warn
from clearfold.retrieval.background import background_of, owner
from clearfold.retrieval.explaining import Explainer
from clearfold.retrieval.results import Answer, Hit
from clearfold.retrieval.units import length_unit
from clearfold.table.frames import as_frame

if TYPE_CHECKING:
    import pandas as pd

ROLES = ("case_id", "patient_id", "slide_id", "label", "time", "event")
SAME_SCALE = 0.01
"""Scales that differ by less than this share are one scale."""


@dataclass(frozen=True, eq=False)
class Query:
    """One row of features (a frame), and whose it is, if that is known."""

    row: pd.DataFrame
    case_id: str | None = None
    patient_id: str | None = None


def answer(
    archive: Any, query: Any, k: int = 10, where: Mapping[str, Any] | None = None, own_patient: bool = False
) -> Answer:
    """The k cases nearest to a query, with reasons; the query's own patient is left out unless asked for.

    Parameters
    ----------
    archive : an open Archive with a fitted embedding
    query : an image (path, array, Pillow image or Image, such as a region from Slide.read), a row of features (Series,
        dict, frame of one row, or array in the archive's order), or the id of a stored case
    where : only cases with these values: {"organ": "prostate"}, or a list of values
    own_patient : also find cases of the query's own patient (never the query itself)
    """
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise InputError(f"k={k!r} came; a whole number of at least 1 is wanted.")
    with archive.snapshot():
        fitted = archive.fitted()
        asked = as_query(archive, query)
        barred = None if own_patient else asked.patient_id
        point = _place(archive, fitted, asked)
        near = archive.nearest(point, int(k), where=where, without_patient=barred, without_case=asked.case_id)
        row = asked.row[list(fitted.features)].to_numpy(dtype=float)[0]
        background = background_of(archive, fitted)
        strange = background.strange(row, owner(asked.case_id, asked.patient_id))
        explainer = Explainer(fitted, background, row, length_unit(archive.settings))
        hits = _hits(archive, near, explainer)
        chances = archive.label_counts(where=where, without_patient=barred, without_case=asked.case_id)
    if strange:
        warn(f"the query lies outside what the archive has seen: {strange}. Its hits may mean little.",
             UnfamiliarQueryWarning)  # fmt: skip
    missing = int(np.isnan(row).sum())
    return Answer(hits, _labels(hits, chances), not strange, strange, missing, fitted.version, asked.case_id)


def _place(archive: Any, fitted: Any, asked: Query) -> Any:
    """Coordinates of the query; a stored case has its own."""
    if asked.case_id is not None and asked.case_id in archive:
        return archive.coordinates_of([asked.case_id]).to_numpy(dtype=float)[0]
    return fitted.place(asked.row)[0]


def _hits(archive: Any, near: Any, explainer: Explainer) -> tuple[Hit, ...]:
    place = {name: column for column, name in enumerate(archive.feature_names)}
    kept = [place[name] for name in explainer.background.names]
    cases = archive.cases_of([found.case_id for found in near])
    return tuple(
        Hit(
            case.case_id,
            case.patient_id,
            case.label,
            float(found.distance),
            case.thumbnail,
            dict(case.about) | ({} if case.slide_id is None else {"slide_id": case.slide_id}),
            partial(explainer.reasons, np.asarray(case.features, dtype=float)[kept]),
        )
        for found, case in zip(near, cases, strict=True)
    )


def _labels(hits: tuple[Hit, ...], chances: Mapping[Any, int]) -> pd.DataFrame:
    """Share of each label among the labelled hits, and among all labelled cases that could have been found."""
    import pandas as pd

    known = [hit.label for hit in hits if hit.label is not None]
    total = sum(count for label, count in chances.items() if label is not None)
    rows = [
        (label, known.count(label), known.count(label) / max(len(known), 1), count / total)
        for label, count in chances.items()
        if label is not None
    ]
    table = pd.DataFrame(rows, columns=["label", "hits", "share", "chance"])
    return table.sort_values(["hits", "chance"], ascending=False, kind="stable", ignore_index=True)


# Forms of a query -------------------------------------------------------------------------------------------


def as_query(archive: Any, query: Any) -> Query:
    """A row of features from whatever came."""
    query = as_frame(query)
    if isinstance(query, str) and query in archive:
        return _stored(archive, query)
    if isinstance(query, str | os.PathLike):
        if not Path(query).is_file():
            raise ArchiveError(f"{query}: there is neither a case of this id in the archive nor a file of this name.")
        return _image(archive, query)
    if _is_row(query):
        return _row(archive, query)
    return _image(archive, query)


def _stored(archive: Any, case_id: str) -> Query:
    case = archive.case(case_id)
    return Query(archive.features_of([case_id]), case_id, case.patient_id)


def _is_row(query: Any) -> bool:
    """Whether it is named numbers, or one line of them; a table of several lines is an image."""
    if isinstance(query, Mapping) or hasattr(query, "iloc"):
        return True
    shape = np.shape(query) if isinstance(query, np.ndarray | list | tuple) else ()
    return len(shape) == 1 or (len(shape) == 2 and shape[0] == 1)


def _row(archive: Any, query: Any) -> Query:
    """Features, and the ids beside them if they have names; other columns that the archive keeps are left out."""
    import pandas as pd

    if isinstance(query, pd.DataFrame):
        if len(query) != 1:
            raise InputError(f"a table of {len(query)} rows came as a query; one row is wanted. Ask row by row.")
        query = query.iloc[0]
    if not isinstance(query, Mapping | pd.Series):
        return Query(archive.rows_of(np.asarray(query).reshape(1, -1)))
    given = dict(query.items())
    beside = {*ROLES, *archive.settings.get("metadata", ())} - set(archive.feature_names)
    named = {name: value for name, value in given.items() if name not in beside}
    row = archive.rows_of(pd.DataFrame([named]))
    patient = given.get("patient_id")
    case = given.get("case_id")
    return Query(row, _text(case), _text(patient))


def _text(value: Any) -> str | None:
    return None if value is None or value != value else str(value)


def _image(archive: Any, query: Any) -> Query:
    """The image at the archive's scale, through the archive's own extraction."""
    from clearfold.images import as_image

    return Query(archive.rows_of(archive.extract(at_scale(as_image(query), archive.settings.get("mpp")))))


def at_scale(image: Any, mpp: float | None) -> Any:
    """The image at so many micrometres a pixel, resampled if it has another scale; refused if nobody knows it."""
    if mpp is None:
        if image.mpp is not None:
            warn("the archive does not know the scale of its images: this one was compared pixel by pixel.",
                 UnknownScaleWarning)  # fmt: skip
        return replace(image, mpp=None)
    if image.mpp is None:
        raise ImageError(
            f"{image.name}: its scale is not known, and the archive's images have {mpp:g} micrometres a pixel. Say it: "
            "as_image(image, mpp=...), or --mpp on the command line."
        )
    factor = image.mpp / mpp
    if abs(factor - 1) <= SAME_SCALE:
        return replace(image, mpp=mpp)
    from clearfold.images.levels import Whole
    from clearfold.images.resampling import read_rectangle

    height, width = image.pixels.shape[:2]
    shape = max(1, round(height * factor)), max(1, round(width * factor))
    return replace(image, pixels=read_rectangle(Whole(image.pixels, image.mpp), 0, 0, width, height, shape), mpp=mpp)
