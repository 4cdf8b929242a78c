"""What comes in: JSON, uploads and boxes, checked and turned into jobs."""

from __future__ import annotations

import asyncio
import json
import secrets
import shutil
from typing import Any

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from clearfold.web.answers import Refused
from clearfold.web.asking import read_box, shown_name
from clearfold.web.library import Library
from clearfold.web.work import LONG_SECONDS, Job


async def read_body(request: Request) -> dict[str, Any]:
    """The JSON that came."""
    if not request.headers.get("content-type", "").startswith("application/json"):
        raise Refused(415, "Wanted is JSON (Content-Type: application/json), or a file as multipart/form-data.")
    try:
        given = json.loads(await request.body())
        json.dumps(given, ensure_ascii=False).encode()  # half a character, as in "\\ud800", is in no name and no path
    except (ValueError, RecursionError) as error:
        raise Refused(400, f"What came is not JSON ({error}).") from error
    if not isinstance(given, dict):
        raise Refused(422, "Wanted is an object in braces: {...}.")
    return given


async def upload_job(library: Library, request: Request) -> Job:
    """Write the file that came under a name of ours, and have it measured."""
    try:
        async with request.form(max_files=1, max_fields=10) as form:
            file = form.get("file")
            if not isinstance(file, UploadFile):
                raise Refused(400, "No file came. Choose an image.")
            if not file.size:
                raise Refused(400, "The file is empty. Choose an image.")
            mpp, label = read_mpp(form.get("mpp")), form.get("label")
            path = library.folder / f"upload-{secrets.token_hex(16)}"
            await asyncio.to_thread(_write, file, path)
    except HTTPException as error:  # the parser's own word
        raise Refused(400, f"The upload is not complete or not well formed ({error.detail}).") from error
    except ClientDisconnect as error:
        raise Refused(400, "The upload stopped before its end.") from error
    text = str(label)[:200] if isinstance(label, str) and label else None
    return await library.run(library.queries.upload, path, shown_name(file.filename), mpp, text)


def _write(file: UploadFile, path: Any) -> None:
    file.file.seek(0)
    with path.open("wb") as target:
        shutil.copyfileobj(file.file, target)


def read_mpp(given: Any) -> float | None:
    """Micrometres a pixel, if somebody said them."""
    if given in (None, ""):
        return None
    try:
        mpp = float(given)
    except (TypeError, ValueError, OverflowError):
        mpp = 0.0
    if not 0.01 <= mpp <= 100:
        raise Refused(422, f"mpp={str(given)[:40]!r} came; wanted are micrometres a pixel, such as 0.5.")
    return mpp


def box_job(library: Library, given: dict[str, Any]) -> Job:
    """Measure a box of a slide or of an uploaded image."""
    box = read_box(given)
    if isinstance(given.get("query"), str):
        return library.queries.box_of_query(given["query"], box)
    if isinstance(given.get("slide"), str):
        label = given.get("label")
        text = None if label is None else str(label)[:200]
        return library.queries.box_of_slide(given["slide"], box, read_mpp(given.get("mpp")), text)
    raise Refused(422, "Wanted is a slide or a query, and the box on it.")


def slide_source(
    library: Library, slide_id: str, box: dict[str, float] | None, mpp: float | None = None
) -> dict[str, Any]:
    """Where the child process finds a slide, or a box of it."""
    path = library.slides.path(slide_id)
    return library.queries.source(path, path.name, mpp or library.slides.mpp(slide_id), box)


def heat_job(library: Library, given: dict[str, Any]) -> Job:
    """Map a feature over a slide."""
    feature, tile, region = given.get("feature"), given.get("tile", 512), given.get("region")
    if not isinstance(feature, str) or not isinstance(given.get("id"), str):
        raise Refused(422, "Wanted are the id of a slide and the name of a feature.")
    library.feature(feature)
    if region is not None and not isinstance(region, dict):
        raise Refused(422, "Wanted is a region as {x, y, width, height}, or none.")
    if not isinstance(tile, int) or not 128 <= tile <= 2048:
        raise Refused(422, f"tile={tile!r} came; wanted is a whole number of pixels from 128 to 2048.")
    settings = library.archive.settings
    arguments = {
        "source": slide_source(library, given["id"], None, read_mpp(given.get("mpp"))),
        "settings": {"mpp": settings.get("mpp"), "extraction": settings.get("extraction") or {}},
        "feature": feature,
        "tile": tile,
        "region": None if region is None else read_box(region),
    }
    unit = library.units.get(feature, "")
    job = Job("heat", "heat", arguments, LONG_SECONDS, lambda found: found | {"unit": unit})
    return library.jobs.submit("long", job)
