"""Who may ask, from where, and how much: checked before anything else sees a request."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import time
from collections import deque
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from clearfold.web.answers import Refused
from clearfold.web.settings import Settings

COOKIE = "clearfold"
SAFE = ("GET", "HEAD", "OPTIONS")
OPEN = ("/login", "/static/", "/favicon.ico")
"""What a stranger may see: how to come in."""
ATTEMPTS, PERIOD = 10, 60.0
"""Wrong tokens in so many seconds, after which nobody may try."""
OTHER_BYTES = 8 * 2**20
"""Largest body that is no upload."""
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
        "connect-src 'self'; font-src 'self'; worker-src 'self' blob:; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # "no-referrer" would also blank the Origin of our own forms
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
Refuse = Callable[[Scope, int, str], Response]


class Doorkeeper:
    """Knows the token, and the cookies that stand for it until the server stops."""

    def __init__(self, token: str | None) -> None:
        self._token = None if token is None else token.encode()
        self._session = "" if token is None else hmac.digest(secrets.token_bytes(32), token.encode(), "sha256").hex()
        self._wrong: deque[float] = deque(maxlen=ATTEMPTS)

    @property
    def wanted(self) -> bool:
        """Whether a token is needed at all."""
        return self._token is not None

    def session(self, token: str) -> str:
        """The cookie for whoever knows the token."""
        if len(self._wrong) == ATTEMPTS and time.monotonic() - self._wrong[0] < PERIOD:
            raise Refused(429, "Too many wrong tokens came. Wait a minute, then try again.")
        if self._token is None or not _equal(token.encode(), self._token):
            self._wrong.append(time.monotonic())
            raise Refused(401, "This token is not the right one. It was printed where the server was started.")
        return self._session

    def admits(self, headers: Headers) -> bool:
        """Whether a request brings the token, or a cookie that stands for it."""
        if self._token is None:
            return True
        kind, _, value = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return _equal(value.strip().encode(), self._token)
        session = cookie_parser(headers.get("cookie", "")).get(COOKIE, "")
        return _equal(session.encode(), self._session.encode())


def _equal(one: bytes, other: bytes) -> bool:
    """In a time that tells nothing, not even the length."""
    return hmac.compare_digest(hashlib.sha256(one).digest(), hashlib.sha256(other).digest())


class Guard:
    """Around the whole application: host, token, origin, size and time of what comes; headers of what goes."""

    def __init__(self, app: ASGIApp, settings: Settings, door: Doorkeeper, refuse: Refuse) -> None:
        self.app, self.settings, self.door, self.refuse = app, settings, door, refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-cache" if scope["path"].startswith("/static/") else "no-store")
            await send(message)

        headers = Headers(scope=scope)
        try:
            self._check(scope, headers)
        except Refused as error:
            answer = self.refuse(scope, error.status, error.message)
            if error.status == 401:
                answer = self._to_login(scope) or answer
                answer.headers["WWW-Authenticate"] = "Bearer"
            await answer(scope, receive, sealed)
            return
        await self.app(scope, _limited(receive, self._most(scope), self.settings.seconds), sealed)

    def _check(self, scope: Scope, headers: Headers) -> None:
        host = headers.getlist("host")
        if len(host) != 1 or not self.settings.knows(host[0]):
            raise Refused(400, f"This server does not answer under the name {(host or ['(none)'])[0][:100]!r}.")
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()):
            raise Refused(400, "The length of what was sent is not a number.")
        if int(length) > self._most(scope):
            raise _too_large(self._most(scope))
        path = scope["path"]
        if (scope["method"] not in SAFE or path.startswith("/api/")) and not _ours(headers):
            raise Refused(403, "This request came from another site and was refused. Open the page itself.")
        if not (path.startswith(OPEN) or path == "/logout") and not self.door.admits(headers):
            raise Refused(401, "A token is needed. Log in, or send it in the header Authorization: Bearer ...")

    def _most(self, scope: Scope) -> int:
        return self.settings.upload_bytes if scope["path"] == "/api/v1/queries" else OTHER_BYTES

    def _to_login(self, scope: Scope) -> Response | None:
        """Where a person, not a program, is sent without a token."""
        path = scope["path"]
        if path.startswith("/api/") or scope["method"] != "GET":
            return None
        query = scope["query_string"].decode("latin-1")
        there = quote(f"{path}?{query}" if query else path, safe="")
        return RedirectResponse(f"/login?next={there}", status_code=303)


def _ours(headers: Headers) -> bool:
    """Whether it is asked for by our own page, by hand, or by a program, which sends neither header."""
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    return origin is None or origin.lower() in {f"{scheme}://{headers['host'].lower()}" for scheme in ("http", "https")}


def _limited(receive: Receive, most: int, seconds: float) -> Receive:
    """The body, refused as soon as it is too large or too slow."""
    came, until, done = 0, 0.0, False

    async def limited() -> Message:
        nonlocal came, until, done
        if done:  # the body is here: what follows is only whether the other side has gone
            return await receive()
        until = until or time.monotonic() + seconds
        try:
            message = await asyncio.wait_for(receive(), max(0.1, until - time.monotonic()))
        except TimeoutError:
            raise Refused(408, f"Not everything came within {seconds:g} s. Try again, or send less.") from None
        came += len(message.get("body", b""))
        done = not message.get("more_body", False)
        if came > most:
            raise _too_large(most)
        return message

    return limited


def _too_large(most: int) -> Refused:
    return Refused(413, f"More than {most / 2**20:.4g} MB came, the most that is taken. Send a smaller image.")


def set_session(answer: Response, session: str, secure: bool) -> None:
    """A cookie that no script can read and no other site can use."""
    answer.set_cookie(COOKIE, session, httponly=True, samesite="strict", secure=secure, path="/")


def safe_next(target: str | None) -> str:
    """Where to go after the login: an address of ours, never another site's."""
    if not target or not target.startswith("/") or target.startswith(("//", "/\\")) or any(c < " " for c in target):
        return "/search"
    return target


def is_secure(scope: Any, settings: Settings) -> bool:
    """Whether the browser speaks TLS, with us or with the proxy before us."""
    forwarded = Headers(scope=scope).get("x-forwarded-proto", "")
    return (
        settings.https or scope.get("scheme") == "https" or (settings.behind_proxy is not None and forwarded == "https")
    )
