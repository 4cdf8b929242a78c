"""`clearfold serve`: a page over an archive, to look at and to ask."""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import json
import os
import socket
import threading
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clearfold.cli.archives import shown
from clearfold.cli.console import show
from clearfold.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from clearfold.web import Settings

TOKEN = "CLEARFOLD_TOKEN"
NEEDED = ("fastapi", "uvicorn", "jinja2", "multipart", "plotly")
MEGABYTE = 2**20
SECONDS_TO_END = 3
"""After Ctrl-C, answers that are on their way have so long to arrive."""


def serve(
    archive: Annotated[str, typer.Argument(help="Archive: cases.clearfold or postgresql://...")],
    host: Annotated[str, typer.Option(help="Address to listen on; others than this machine's own need a token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 for any that is free.")] = 8765,
    token: Annotated[
        str | None, typer.Option(envvar=TOKEN, help="What everybody who asks must know, at least 16 characters.")
    ] = None,
    behind_proxy: Annotated[
        str | None, typer.Option(help="Public name of a reverse proxy that checks who asks; no token is needed then.")
    ] = None,
    slides: Annotated[list[Path] | None, typer.Option(help="Folder of slides to look at; may be repeated.")] = None,
    upload_mb: Annotated[int, typer.Option(min=1, help="Largest upload in megabytes.")] = 64,
    seconds: Annotated[float, typer.Option(min=1, help="Longest time for one upload and for measuring it.")] = 120,
    certificate: Annotated[Path | None, typer.Option(help="Certificate (PEM): speak TLS.")] = None,
    key: Annotated[Path | None, typer.Option(help="Its key (PEM).")] = None,
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print where the page is as JSON, once it is there.")] = False,
) -> None:
    """Show an archive as a page: search by image, the map of cases, features, slides, and how well it answers.

    Nothing is loaded from outside and nothing leaves the machine. The archive is only read. Stop it with Ctrl-C.

    Examples:

    - `clearfold serve cases.clearfold`
    - `clearfold serve cases.clearfold --slides scans --open`
    - `CLEARFOLD_TOKEN=... clearfold serve cases.clearfold --host 0.0.0.0 --certificate cert.pem --key key.pem`
    """
    _check_installed()
    from clearfold.web import Settings, create_app

    if (certificate is None) != (key is None):
        raise InputError("A certificate and its key belong together: give --certificate and --key.")
    settings = Settings(
        host=host,
        port=port,
        token=token or None,
        behind_proxy=behind_proxy,
        slides=tuple(slides or ()),
        upload_bytes=upload_mb * MEGABYTE,
        seconds=seconds,
        https=certificate is not None,
    )
    with contextlib.closing(listening(host, port)) as door:
        app = create_app(archive, settings)
        address = page_address(settings, door.getsockname()[1])
        facts = {"archive": shown(archive), "address": address}
        print(json.dumps(facts), flush=True) if as_json else show(facts | {"stop": "Ctrl-C"})
        if open_page:
            threading.Timer(1.0, webbrowser.open, [address]).start()
        _run(app, door, certificate, key)
    if not as_json:
        print("stopped")


def _run(app: Any, door: socket.socket, certificate: Path | None, key: Path | None) -> None:
    import uvicorn

    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        ws="none",
        server_header=False,
        ssl_certfile=certificate,
        ssl_keyfile=None if key is None else os.fspath(key),
        timeout_graceful_shutdown=SECONDS_TO_END,
    )
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[door])


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens at this address; what is wrong with it is said before any work is done."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[
            0
        ]
        door = socket.socket(family, kind)
        try:
            door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            door.bind(address)
            door.listen(128)
        except BaseException:
            door.close()
            raise
        return door
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise InputError(
                f"Port {port} is taken on {host}: another program, perhaps another `clearfold serve`, listens there. "
                f"Stop it, or give --port {port + 1} (or --port 0 for any that is free)."
            ) from error
        raise InputError(f"{host} port {port} cannot be listened on ({error.strerror or error}).") from error


def page_address(settings: Settings, port: int) -> str:
    """What to type into a browser."""
    if settings.behind_proxy is not None:
        return f"https://{settings.behind_proxy}/ (by the proxy; here port {port})"
    name = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(settings.host, settings.host)
    name = f"[{name}]" if ":" in name else name
    return f"{'https' if settings.https else 'http'}://{name}:{port}/"


def _check_installed() -> None:
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingExtraError(f'The page needs {", ".join(missing)}. Install it with: pip install "clearfold[web]"')
