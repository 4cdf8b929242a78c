"""One file over http(s): whole, of the right size and checksum, or not at all."""

from __future__ import annotations

import hashlib
import os
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from clearfold.errors import DatasetError, DatasetMissingError

LARGEST = 200_000_000
"""Bytes that a download may have, unless its source says otherwise."""
BLOCK = 1 << 16
TIMEOUT = 30.0
Progress: TypeAlias = Callable[[str, int, int | None], None]
"""Called with the name of the file, the bytes so far, and their number if the server told it."""


def download(
    address: str,
    target: Path,
    *,
    sha256: str | None = None,
    largest: int = LARGEST,
    progress: Progress | None = None,
    hint: str = "",
) -> None:
    """Fetch a file to `target`; nothing is left behind when it fails, is too large, cut short or damaged."""
    _check_scheme(address)
    temporary = target.with_name(f".{uuid.uuid4().hex}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _opener().open(address, timeout=TIMEOUT) as answer, temporary.open("wb") as file:
            found = _copy(answer, file, target.name, largest, progress)
        if sha256 is not None and found != sha256:
            raise DatasetError(
                f"{target.name} from {address} is damaged: its checksum is {found}, wanted is {sha256}. It was "
                "removed; call again, and if this stays so the file has changed at its source."
            )
        os.replace(temporary, target)
    except (urllib.error.URLError, HTTPException, OSError) as error:
        why = getattr(error, "reason", None) or error
        raise DatasetMissingError(
            f"{target.name} is not available here, and fetching {address} failed: {why}. {hint}"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)
        with suppress(OSError):  # an empty folder is of no use
            target.parent.rmdir()


def sha256_of(path: Path) -> str:
    """Checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _copy(answer: Any, file: Any, name: str, largest: int, progress: Progress | None) -> str:
    """Copy what the server sends, counting; the checksum of it."""
    told = answer.headers.get("Content-Length", "")
    total = int(told) if told.isdigit() else None
    checksum, size = hashlib.sha256(), 0
    if total is not None and total > largest:
        raise DatasetError(f"{name} has {total} bytes; at most {largest} are wanted. This is not the official file.")
    while block := answer.read(BLOCK):
        size += len(block)
        if size > largest:
            raise DatasetError(f"{name} has more than {largest} bytes. This is not the official file.")
        checksum.update(block)
        file.write(block)
        if progress is not None:
            progress(name, size, total)
    if total is not None and size != total:
        raise DatasetError(f"{name} was cut short: {size} of {total} bytes came. Call again.")
    return checksum.hexdigest()


def _check_scheme(address: str) -> None:
    if urlsplit(address).scheme not in ("http", "https"):
        raise DatasetError(f"{address} is no web address; wanted is http or https.")


class _Redirect(urllib.request.HTTPRedirectHandler):
    """Follow within http(s), and never from https to http."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        _check_scheme(newurl)
        if req.full_url.startswith("https:") and not newurl.startswith("https:"):
            raise DatasetError(f"{req.full_url} leads to {newurl}, which is not encrypted.")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener() -> urllib.request.OpenerDirector:
    """Only http and https: no files, no ftp, no data addresses."""
    opener = urllib.request.OpenerDirector()
    handlers = (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        _Redirect(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.UnknownHandler(),
    )
    for handler in handlers:
        opener.add_handler(handler)
    opener.addheaders = [("User-Agent", "clearfold")]
    return opener
