"""Requests to the HTTP API, in process: method, address, question, body. An answer of 500 is a failure."""

from __future__ import annotations

import asyncio
import json
from functools import cache
from typing import Any
from urllib.parse import quote

from fuzz import seeds as files

IDS = {"id": "c1", "hit": "c2", "case": "c1", "name": "shape.area", "by": "label", "text": "c", "feature": "shape.area"}
NUMBERS = {
    "x": 0,
    "y": 0,
    "width": 20,
    "height": 20,
    "level": 2,
    "column": 0,
    "row": 0,
    "k": 3,
    "page": 1,
    "axes": "0,1",
}
BODIES: list[Any] = [
    {"rows": [0, 1], "revision": None},
    {"cases": ["c1", "c2"]},
    {"slide": "file:a.png", "x": 0, "y": 0, "width": 16, "height": 16, "label": "x", "mpp": 0.5},
    {"query": "q-0", "x": 0, "y": 0, "width": 16, "height": 16},
    {"id": "file:a.png", "feature": "shape.area", "tile": 128, "region": {"x": 0, "y": 0, "width": 16, "height": 16}},
]


@cache
def application() -> Any:
    """The application over a small archive and a folder with one image; children that work on images are left out."""
    from PIL import Image

    from clearfold.web import Settings, create_app, work
    from clearfold.web.answers import Refused
    from fuzz.targets import folder

    def refuse(*_: Any) -> Any:
        raise Refused(422, "no child process here")

    work.Worker.run = refuse  # type: ignore[method-assign]
    slides = folder() / "slides"
    slides.mkdir()
    Image.fromarray(files.pixels(20, 20)).save(slides / "a.png")
    where = folder() / "served.clearfold"
    where.write_bytes(files.archive())
    return create_app(where, Settings(slides=(slides,)))


@cache
def loop() -> asyncio.AbstractEventLoop:
    """One for all requests."""
    return asyncio.new_event_loop()


def seeds() -> list[bytes]:
    """Every address that the description names, with questions that make sense."""
    paths = application().app.openapi()["paths"]
    found: list[Any] = []
    for path, methods in paths.items():
        for method, about in methods.items():
            names = [one["name"] for one in about.get("parameters", ()) if one["in"] == "query"]
            asked = [[name, str({**IDS, **NUMBERS}.get(name, ""))] for name in names if name in {**IDS, **NUMBERS}]
            asked = [[name, "file:a.png" if "/slide" in path and name == "id" else value] for name, value in asked]
            body = BODIES if method == "post" else [None]
            found += [{"method": method.upper(), "path": path, "query": asked, "body": one} for one in body]
    pages = [
        "/",
        "/search",
        "/map",
        "/features",
        "/slides",
        "/evidence",
        "/cases",
        "/case?id=c1",
        "/login",
        "/static/x",
    ]
    found += [{"method": "GET", "path": path, "query": [], "body": None} for path in pages]
    form = '--b\r\nContent-Disposition: form-data; name="file"; filename="a.png"\r\n\r\nx\r\n--b--\r\n'
    kind = "multipart/form-data; boundary=b"
    found.append({"method": "POST", "path": "/api/v1/queries", "query": [], "body": form, "type": kind})
    return [json.dumps(one).encode() for one in found]


def send(data: bytes) -> None:
    """One request; anything that is not JSON of the wanted form is sent as a body."""
    try:
        asked = json.loads(data)
        asked = asked if isinstance(asked, dict) else {"body": asked}
    except (ValueError, RecursionError):
        asked = {"method": "POST", "path": "/api/v1/map/group", "raw": data}
    status, answer = call(asked)
    assert status < 500 or status in (501, 503, 504), (status, asked)
    if str(asked.get("path", "")).startswith("/api/") and status >= 400 and status != 404:
        assert json.loads(answer)["error"]["status"] == status


def call(asked: dict[str, Any]) -> tuple[int, bytes]:
    """Status and body that the application gives."""
    method, path = str(asked.get("method", "GET"))[:10].upper(), "/" + str(asked.get("path", "")).lstrip("/")
    path, _, given = path.partition("?")
    pairs = [pair for pair in _items(asked.get("query")) if isinstance(pair, list) and len(pair) == 2]
    query = "&".join([given] * bool(given) + [f"{_quoted(name)}={_quoted(value)}" for name, value in pairs])
    body = asked.get("raw") or (b"" if asked.get("body") is None else _body(asked["body"]))
    kind = str(asked.get("type", "application/json"))
    headers = {"host": "127.0.0.1", "content-type": kind, "content-length": str(len(body)), "accept": "text/html"}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": quote(path, errors="replace").encode(),
        "root_path": "",
        "query_string": query.encode("latin-1", "replace"),
        "headers": [(name.encode(), value.encode("latin-1", "replace")) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    return loop().run_until_complete(_exchange(scope, body))


async def _exchange(scope: dict[str, Any], body: bytes) -> tuple[int, bytes]:
    came, status = [], 0
    waiting: list[dict[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        return waiting.pop() if waiting else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        nonlocal status
        status = message.get("status", status)
        came.append(message.get("body", b""))

    await application()(scope, receive, send)
    return status, b"".join(came)


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _quoted(value: Any) -> str:
    return quote(value if isinstance(value, str) else json.dumps(value), safe="", errors="replace")


def _body(value: Any) -> bytes:
    text = value if isinstance(value, str) else json.dumps(value)
    return text.encode("utf-8", "surrogatepass")
