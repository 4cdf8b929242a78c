"""The HTTP API, version 1: parse, call, answer. The page uses nothing else."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from clearfold.web import cases, charts, search
from clearfold.web.answers import Json, Refused, picture
from clearfold.web.incoming import box_job, heat_job, read_body, read_mpp, slide_source, upload_job
from clearfold.web.library import Library, parsed_where
from clearfold.web.work import LONG_SECONDS, Job

LONGEST_WAIT = 60.0
LONG_KINDS = ("importance", "saliency", "evidence", "survival")
Id = Annotated[str, Query(min_length=1, max_length=1000)]
Text = Annotated[str | None, Query(max_length=1000)]
Where = Annotated[list[str], Query(max_length=20, default_factory=list)]
Page = Annotated[int, Query(ge=1, le=10_000_000)]
PerPage = Annotated[int, Query(ge=1, le=200)]
Most = Annotated[int, Query(ge=64, le=2048)]
Count = Annotated[int, Query(ge=1, le=100)]
Wait = Annotated[float, Query(ge=0, le=LONGEST_WAIT)]
Pixels = Annotated[float, Query(ge=-1e9, le=1e9, allow_inf_nan=False)]


def routes(library: Library) -> APIRouter:
    """Every address under /api/v1."""
    router = APIRouter(prefix="/api/v1")
    _add_cases(router, library)
    _add_search(router, library)
    _add_charts(router, library)
    _add_slides(router, library)
    _add_jobs(router, library)
    return router


def _add_cases(router: APIRouter, library: Library) -> None:
    @router.get("/archive", summary="What the archive holds")
    async def archive() -> Response:
        return Json(await library.run(cases.archive_facts, library))

    @router.get("/cases", summary="Cases, page by page")
    async def case_page(
        where: Where, page: Page = 1, per_page: PerPage = 50, label: Text = None, patient_id: Text = None,
        text: Text = None,
    ) -> Response:  # fmt: skip
        wanted = parsed_where(where, label=label, patient_id=patient_id)
        return Json(await library.run(cases.case_page, library, page, per_page, wanted, text))

    @router.get("/names", summary="Case ids that hold a text")
    async def names(text: Annotated[str, Query(max_length=1000)] = "", limit: Count = 20) -> Response:
        return Json(await library.run(cases.names_like, library, text, limit))

    @router.get("/case", summary="One case with its features")
    async def case(id: Id) -> Response:
        return Json(await library.run(cases.whole_case, library, id))

    @router.get("/case/thumbnail", summary="Small picture of a case (JPEG)")
    async def thumbnail(id: Id) -> Response:
        return picture(await library.run(cases.thumbnail, library, id))

    @router.get("/case/image", summary="Image of a case (JPEG)")
    async def image(id: Id, most: Most = 1024) -> Response:
        return picture(await library.run(cases.image, library, id, most))

    @router.get("/case/nuclei", summary="Outlines of the nuclei of a case (GeoJSON)")
    async def nuclei(id: Id, feature: Text = None) -> Response:
        return await _outlines(library, await library.run(slide_source, library, f"case:{id}", None), feature)


def _add_search(router: APIRouter, library: Library) -> None:
    @router.post(
        "/queries", status_code=202, summary="Ask with an upload (multipart: file, mpp, label) or a box (JSON)"
    )
    async def ask(request: Request, wait: Wait = 0) -> Response:
        if request.headers.get("content-type", "").startswith("multipart/form-data"):
            job = await upload_job(library, request)
        else:
            job = await library.run(box_job, library, await read_body(request))
        return await _job_answer(job, wait, 202, raising=True)

    @router.get("/query", summary="A query with its features")
    async def query(id: Id) -> Response:
        return Json(await library.run(search.whole_query, library, id))

    @router.get("/query/image", summary="Image of a query (JPEG)")
    async def image(id: Id) -> Response:
        return picture(library.queries.find(id).picture)

    @router.get("/query/nuclei", summary="Outlines of the nuclei of a query (GeoJSON)")
    async def nuclei(id: Id, feature: Text = None) -> Response:
        query = library.queries.find(id)
        frame = {"x": 0, "y": 0, "width": query.facts["width"], "height": query.facts["height"]}
        return await _outlines(library, query.source, feature, frame)

    @router.get("/search", summary="The cases most like a stored case or a query, with reasons")
    async def find(
        where: Where, case: Text = None, query: Text = None, k: Count = 10, label: Text = None,
        own_patient: bool = False, reasons: bool = True,
    ) -> Response:  # fmt: skip
        asked, wanted = {"case": case, "query": query}, parsed_where(where, label=label)
        return Json(await library.run(search.search, library, asked, k, wanted, own_patient, reasons))

    @router.get("/reasons", summary="Why a case is near to a stored case or a query")
    async def why(hit: Id, case: Text = None, query: Text = None) -> Response:
        return Json(await library.run(search.reasons, library, {"case": case, "query": query}, hit))


def _add_charts(router: APIRouter, library: Library) -> None:
    @router.get("/map", summary="Coordinates of every case")
    async def points(axes: Annotated[str, Query(pattern=r"^\d{1,3}(,\d{1,3}){0,2}$")] = "0,1") -> Response:
        return Json(await library.run(charts.points, library, [int(axis) for axis in axes.split(",")]))

    @router.get("/map/ids", summary="Case ids in the order of the map")
    async def ids() -> Response:
        return Json(await library.run(lambda: {"revision": library.revision, "ids": library.ids}))

    @router.get("/map/colour", summary="A column of every case: label, metadata, or feature:NAME")
    async def colour(by: Id = "label") -> Response:
        return Json(await library.run(charts.colour, library, by))

    @router.post("/map/group", summary="Which features tell a group of cases from the rest")
    async def group(request: Request) -> Response:
        return Json(await library.run(charts.group, library, await read_body(request)))

    @router.get("/features", summary="Every feature")
    async def features() -> Response:
        return Json(await library.run(charts.feature_list, library))

    @router.get("/feature", summary="A feature by class, and the cases at its extremes")
    async def feature(name: Id) -> Response:
        return Json(await library.run(charts.one_feature, library, name))


def _add_slides(router: APIRouter, library: Library) -> None:
    slides = library.slides

    @router.get("/slides", summary="Slides of the allowed folders")
    async def listed() -> Response:
        return Json(await library.run(slides.listed))

    @router.get("/slide", summary="Size, scale and levels of a slide")
    async def facts(id: Id) -> Response:
        return Json(await library.run(slides.facts, id))

    @router.get("/slide/tile", summary="One tile (JPEG)")
    async def tile(id: Id, level: int, column: int, row: int) -> Response:
        return picture(await library.run(slides.tile, id, level, column, row))

    @router.get("/slide/thumbnail", summary="The whole slide, small (JPEG)")
    async def thumbnail(id: Id, most: Most = 512) -> Response:
        return picture(await library.run(slides.thumbnail, id, most))

    @router.get("/slide/nuclei", summary="Outlines of the nuclei of a region (GeoJSON)")
    async def nuclei(
        id: Id, x: Pixels, y: Pixels, width: Pixels, height: Pixels, feature: Text = None, mpp: Text = None
    ) -> Response:
        box = {"x": x, "y": y, "width": width, "height": height}
        most = library.settings.measured
        if width <= 0 or height <= 0 or width * height > most:
            raise Refused(422, f"Outlines are found in regions of up to {most:,} pixels. Zoom in.")
        return await _outlines(library, await library.run(slide_source, library, id, box, read_mpp(mpp)), feature)

    @router.post("/slide/heat", status_code=202, summary="A feature of each tile of a slide")
    async def heat(request: Request, wait: Wait = 0) -> Response:
        job = await library.run(heat_job, library, await read_body(request))
        return await _job_answer(job, wait, 202, raising=True)


def _add_jobs(router: APIRouter, library: Library) -> None:
    @router.get("/jobs/{job_id}", summary="How far a job is")
    async def job(job_id: str, wait: Wait = 0) -> Response:
        return await _job_answer(library.jobs.find(job_id), wait, 200, raising=False)

    @router.delete("/jobs/{job_id}", summary="Cancel a job")
    async def cancel(job_id: str) -> Response:
        return Json((await asyncio.to_thread(library.jobs.cancel, job_id)).shown)

    for kind in LONG_KINDS:
        router.add_api_route(f"/{kind}", _looker(library, kind), methods=["GET"], summary=f"The archive's {kind}")
        router.add_api_route(
            f"/{kind}", _starter(library, kind), methods=["POST"], status_code=202, summary=f"Work out the {kind}"
        )


def _looker(library: Library, kind: str) -> Any:
    async def look() -> Response:
        return Json(await library.run(_checked_long, library, kind))

    return look


def _starter(library: Library, kind: str) -> Any:
    async def start(wait: Wait = 0) -> Response:
        await library.run(_checked_long, library, kind)
        return await _job_answer(await library.run(library.start, kind), wait, 202, raising=False)

    return start


def _checked_long(library: Library, kind: str) -> dict[str, Any]:
    if kind == "survival" and not cases.archive_facts(library)["survival"]:
        raise Refused(404, "The archive has no survival times: columns time and event are wanted.")
    return library.long(kind)


# What goes out -----------------------------------------------------------------------------------------------


async def _outlines(
    library: Library, source: dict[str, Any], feature: str | None, frame: dict[str, float] | None = None
) -> Response:
    unit = (await library.run(lambda: library.units)).get(feature or "", "")
    arguments = {"source": source, "feature": feature, "frame": frame}
    job = Job("nuclei", "nuclei", arguments, library.settings.seconds, lambda found: found | {"unit": unit})
    library.jobs.submit("quick", job)
    await _ended(job, LONG_SECONDS)
    if job.error is not None:
        raise Refused(job.error["status"], job.error["message"])
    return Json(job.result)


async def _job_answer(job: Job, wait: float, status: int, *, raising: bool) -> Response:
    """A job; with `raising`, one that has failed meanwhile is the answer's own error."""
    if wait:
        await _ended(job, wait)
    if raising and job.error is not None:
        raise Refused(job.error["status"], job.error["message"])
    ended = job.ended is not None
    return Json(job.shown, status_code=200 if ended else status, headers={"Location": f"/api/v1/jobs/{job.id}"})


async def _ended(job: Job, seconds: float) -> None:
    waiting = asyncio.wrap_future(job.over)
    await asyncio.wait([waiting], timeout=seconds)
