"""The application: the archive behind pages and an API, guarded."""

from __future__ import annotations

import contextlib
import logging
import os
import warnings
from collections.abc import AsyncIterator
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from clearfold import __version__
from clearfold.errors import ClearfoldError, ClearfoldWarning, MissingExtraError
from clearfold.web import api, pages
from clearfold.web.answers import Json, Refused
from clearfold.web.library import Library
from clearfold.web.security import Doorkeeper, Guard
from clearfold.web.settings import Settings

log = logging.getLogger("clearfold.web")
KNOWN = {404: "There is no such page.", 405: "This address does not take such a request."}


def create_app(archive: str | os.PathLike[str], settings: Settings | None = None) -> Guard:
    """An ASGI application over an archive; it opens the archive now and closes it when the server stops.

    >>> create_app("missing.clearfold")
    Traceback (most recent call last):
    clearfold.errors.ArchiveError: There is no archive missing.clearfold. ...
    """
    settings = settings or Settings()
    library = Library(archive, settings)
    door = Doorkeeper(settings.token)
    shown = pages.Pages(library, door)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        with warnings.catch_warnings():
            # threads share one filter; an answer says by itself what a person should know
            warnings.simplefilter("ignore", ClearfoldWarning)
            library.warm()
            yield
            library.close()

    app = FastAPI(
        title="clearfold", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None
    )  # fmt: skip
    app.include_router(api.routes(library))
    app.include_router(pages.routes(shown))
    app.mount("/static", StaticFiles(directory=pages.HERE / "static"))

    @app.get("/api/v1", include_in_schema=False)
    async def description() -> Response:
        return Json(app.openapi())

    app.state.library = library
    _explain_errors(app, shown)
    return Guard(app, settings, door, shown.refuse)


def _explain_errors(app: FastAPI, shown: pages.Pages) -> None:
    """Every error is a status and a sentence."""

    async def refused(request: Request, error: Any) -> Response:
        return shown.refuse(request.scope, error.status, error.message)

    async def input_error(request: Request, error: Any) -> Response:
        return shown.refuse(request.scope, 501 if isinstance(error, MissingExtraError) else 422, str(error))

    async def invalid(request: Request, error: Any) -> Response:
        return shown.refuse(request.scope, 422, _sentence(error))

    async def http(request: Request, error: Any) -> Response:
        return shown.refuse(request.scope, error.status_code, KNOWN.get(error.status_code, str(error.detail)))

    async def unexpected(request: Request, error: Exception) -> Response:
        log.exception("%s %s", request.method, request.url.path, exc_info=error)
        return shown.refuse(request.scope, 500, "Something went wrong on the server; its log says what.")

    app.add_exception_handler(Refused, refused)
    app.add_exception_handler(ClearfoldError, input_error)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(Exception, unexpected)


def _sentence(error: RequestValidationError) -> str:
    """`page=-1 came; input should be greater than or equal to 1.`"""
    first = error.errors()[0]
    name = str(first["loc"][-1])
    if first["type"] == "missing":
        return f"{name} is missing."
    return f"{name}={str(first.get('input'))[:100]} came; {first['msg'][0].lower()}{first['msg'][1:]}."
