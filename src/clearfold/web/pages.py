"""The pages: a template each. What they show is drawn in the browser from the API, so every address can be shared."""

from __future__ import annotations

from importlib.metadata import version as installed
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.templating import Jinja2Templates
from starlette.types import Scope

from clearfold import __version__
from clearfold.errors import MissingExtraError
from clearfold.web import cases
from clearfold.web.answers import Json, Refused
from clearfold.web.api import Id, Page, PerPage, Text, Where
from clearfold.web.library import Library, parsed_where
from clearfold.web.security import COOKIE, Doorkeeper, is_secure, safe_next, set_session

HERE = Path(__file__).parent
VIEWS = [
    ("search", "/search", "Search"),
    ("map", "/map", "Map"),
    ("features", "/features", "Features"),
    ("slides", "/slides", "Slides"),
    ("evidence", "/evidence", "Evidence"),
    ("cases", "/cases", "Cases"),
]


class Pages:
    """Templates, and what all of them are told."""

    def __init__(self, library: Library, door: Doorkeeper) -> None:
        self.library, self.door = library, door
        self.templates = Jinja2Templates(HERE / "templates")
        self.plotly_url = f"/plotly.min.js?v={installed('plotly')}"
        self._marks = {
            path.relative_to(HERE / "static").as_posix(): f"{path.stat().st_mtime_ns:x}"
            for path in (HERE / "static").rglob("*")
            if path.is_file()
        }

    def static(self, path: str) -> str:
        """The address of a static file, another one when the file has changed."""
        return f"/static/{path}?v={self._marks.get(path, __version__)}"

    async def show(self, request: Request, view: str, template: str, /, code: int = 200, **more: Any) -> Response:
        """A page for somebody who may see the archive."""
        facts = await self.library.run(cases.short_facts, self.library)
        asked = dict(request.query_params)
        return self._answer(request, template, code, archive=facts, view=view, params=asked, **more)

    def bare(self, request: Request, template: str, /, code: int = 200, **more: Any) -> Response:
        """A page that says nothing of the archive."""
        return self._answer(request, template, code, archive=None, view="", params={}, **more)

    def _answer(self, request: Request, template: str, code: int, /, **context: Any) -> Response:
        always = {
            "views": VIEWS,
            "version": __version__,
            "static": self.static,
            "plotly_url": self.plotly_url,
            "token_needed": self.door.wanted,
        }
        return self.templates.TemplateResponse(request, template, always | context, status_code=code)

    def refuse(self, scope: Scope, status: int, message: str) -> Response:
        """An error: JSON for programs, a page for people."""
        headers = {"Retry-After": "5"} if status in (429, 503) else {}
        if scope["path"].startswith("/api/"):
            return Json({"error": {"status": status, "message": message}}, status_code=status, headers=headers)
        answer = self.bare(Request(scope), "error.html", status, status=status, message=message)
        answer.headers.update(headers)
        return answer


def routes(pages: Pages) -> APIRouter:
    """Every page."""
    router = APIRouter(include_in_schema=False, default_response_class=Response)
    _add_views(router, pages)
    _add_cases(router, pages)
    _add_door(router, pages)
    return router


def _add_views(router: APIRouter, pages: Pages) -> None:
    @router.get("/")
    async def home() -> Response:
        return RedirectResponse("/search", status_code=307)

    for view in ("search", "map", "features", "slides", "evidence"):
        router.add_api_route(f"/{view}", _viewer(pages, view), methods=["GET"])

    @router.get("/slide")
    async def slide(request: Request, id: Id) -> Response:
        await pages.library.run(pages.library.slides.path, id)
        return await pages.show(request, "slides", "slide.html", id=id)

    @router.get("/feature")
    async def feature(request: Request, name: Id) -> Response:
        await pages.library.run(pages.library.feature, name)
        return await pages.show(request, "features", "feature.html", name=name)

    @router.get("/plotly.min.js")
    async def plotly() -> Response:
        return FileResponse(plotly_file(), media_type="text/javascript", headers={"Cache-Control": "max-age=31536000"})

    @router.get("/favicon.ico")
    async def icon() -> Response:
        return Response(status_code=204)


def _viewer(pages: Pages, view: str) -> Any:
    async def show(request: Request, case: Text = None, query: Text = None) -> Response:
        if case is not None:
            await pages.library.run(pages.library.case, case)
        if query is not None:
            pages.library.queries.find(query)
        return await pages.show(request, view, f"{view}.html")

    return show


def _add_cases(router: APIRouter, pages: Pages) -> None:
    @router.get("/cases")
    async def listed(
        request: Request, where: Where, page: Page = 1, per_page: PerPage = 50, label: Text = None,
        patient_id: Text = None, text: Text = None,
    ) -> Response:  # fmt: skip
        # an empty field of the form is no filter
        wanted = parsed_where(where, label=label or None, patient_id=patient_id or None)
        found = await pages.library.run(cases.case_page, pages.library, page, per_page, wanted, text)
        return await pages.show(request, "cases", "cases.html", page=found)

    @router.get("/case")
    async def case(request: Request, id: Id) -> Response:
        found = await pages.library.run(cases.whole_case, pages.library, id)
        return await pages.show(request, "cases", "case.html", case=found)


def _add_door(router: APIRouter, pages: Pages) -> None:
    @router.get("/login")
    async def login(request: Request, next: Annotated[str, Query(max_length=2000)] = "/search") -> Response:
        return pages.bare(request, "login.html", next=safe_next(next), message=None)

    @router.post("/login")
    async def enter(request: Request) -> Response:
        async with request.form(max_files=0, max_fields=5) as form:
            there, token = safe_next(str(form.get("next", ""))), str(form.get("token", ""))
        try:
            session = pages.door.session(token)
        except Refused as error:
            return pages.bare(request, "login.html", error.status, next=there, message=error.message)
        answer = RedirectResponse(there, status_code=303)
        set_session(answer, session, is_secure(request.scope, pages.library.settings))
        return answer

    @router.post("/logout")
    async def leave() -> Response:
        answer = RedirectResponse("/login", status_code=303)
        answer.delete_cookie(COOKIE, path="/")
        return answer


def plotly_file() -> Path:
    """plotly.js as plotly's own package brings it."""
    try:
        return Path(str(files("plotly") / "package_data" / "plotly.min.js"))
    except ModuleNotFoundError as error:
        raise MissingExtraError('The page needs plotly. Install it with: pip install "clearfold[web]"') from error
