"""Who may ask, and what happens to bad input: a clear message, the right status, and the server stays up."""

import re
import signal
import socket
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from clearfold.cli.serve import listening, page_address
from clearfold.errors import ArchiveError, InputError
from clearfold.web import Settings, create_app, pages
from clearfold.web.security import HEADERS, safe_next
from web_server import HTML, STRANGE, Served, serving, table_archive, tissue_archive

TOKEN = "a token that nobody guesses"
VIEWS = ("/search", "/map", "/features", "/slides", "/evidence", "/cases", "/login", "/case?id=case001")
pytestmark = pytest.mark.filterwarnings("ignore::clearfold.errors.ClearfoldWarning")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("web")


@pytest.fixture(scope="module")
def archive(place: Path) -> Path:
    return table_archive(place)


@pytest.fixture(scope="module")
def served(archive: Path, place: Path) -> Iterator[Served]:
    (place / "slides").mkdir()
    (place / "slides" / "out").symlink_to(place)
    limits = {"upload_bytes": 200_000, "pixels": 1_000_000}
    with serving(archive, Settings(slides=(place / "slides",), **limits)) as served:
        yield served


@pytest.fixture
def guarded(archive: Path) -> Iterator[Served]:
    with serving(archive, Settings(token=TOKEN)) as served:
        yield served


def message(answer: httpx.Response, status: int) -> str:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    return str(answer.json()["error"]["message"])


def png(width: int, height: int) -> bytes:
    """A PNG whose header names a size, with hardly any pixels behind it."""

    def part(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", header) + part(b"IDAT", zlib.compress(b"\0" * 100)) + part(b"IEND", b"")


# where it may listen


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "hospital.example"])
def test_other_machines_need_a_token_or_a_proxy(host: str) -> None:
    with pytest.raises(InputError, match="reached from other machines"):
        Settings(host=host)
    assert Settings(host=host, token=TOKEN).token == TOKEN
    assert Settings(host=host, behind_proxy="archive.hospital.example").behind_proxy


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.0.0.2"])
def test_this_machine_needs_none(host: str) -> None:
    assert Settings(host=host).local


def test_a_short_token_and_a_missing_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="16 are wanted"):
        Settings(token="short")
    with pytest.raises(InputError, match="not a folder"):
        Settings(slides=(tmp_path / "none",))
    with pytest.raises(ArchiveError, match="no archive"):
        create_app(tmp_path / "none.clearfold")


def test_a_port_that_is_taken_is_named() -> None:
    with listening("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"Port {port} is taken"):
            listening("127.0.0.1", port)
    assert page_address(Settings(), 8765) == "http://127.0.0.1:8765/"
    assert page_address(Settings(host="::1", https=True), 1) == "https://[::1]:1/"


# under which name it answers


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "10.0.0.1", ""]
)
def test_a_strange_host_is_refused(served: Served, host: str) -> None:
    answer = served.client.get("/api/v1/archive", headers={"Host": host})
    assert "does not answer under the name" in message(answer, 400)


@pytest.mark.parametrize("host", ["localhost", "localhost:9999", "127.0.0.1", "[::1]:8765", "LOCALHOST"])
def test_our_own_names_are_known(served: Served, host: str) -> None:
    assert served.client.get("/api/v1/archive", headers={"Host": host}).status_code == 200


def test_a_public_server_knows_its_names() -> None:
    known = Settings(host="0.0.0.0", token=TOKEN)
    assert known.knows("192.168.1.5:8765")  # a number cannot be made to point here
    assert known.knows(socket.gethostname())
    assert not known.knows("evil.example")
    proxied = Settings(host="0.0.0.0", behind_proxy="archive.example")
    assert proxied.knows("archive.example")
    assert not proxied.knows("10.0.0.1")


# the token


def test_without_the_token_nothing_is_said(guarded: Served) -> None:
    answer = guarded.get("/api/v1/archive")
    assert "token is needed" in message(answer, 401)
    assert answer.headers["www-authenticate"] == "Bearer"
    page = guarded.get("/map?by=label")
    assert (page.status_code, page.headers["location"]) == (303, "/login?next=%2Fmap%3Fby%3Dlabel")
    assert "table.clearfold" not in guarded.get("/login").text


@pytest.mark.parametrize("cookie", ["clearfold=wrong", "clearfold", "clearfold=", 'a="b; \\;;=;clearfold=x'])
def test_a_wrong_cookie_is_refused(guarded: Served, cookie: str) -> None:
    assert guarded.client.get("/api/v1/archive", headers={"Cookie": cookie}).status_code == 401


@pytest.mark.parametrize("given", ["Bearer wrong", f"Basic {TOKEN}", "Bearer", f"Bearer {TOKEN}x"])
def test_a_wrong_token_is_refused(guarded: Served, given: str) -> None:
    answer = guarded.client.get("/api/v1/archive", headers={"Authorization": given})
    assert answer.status_code == 401


def test_the_right_token_opens(guarded: Served) -> None:
    answer = guarded.client.get("/api/v1/archive", headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.json()["count"] == 60


def test_logging_in_and_out(guarded: Served) -> None:
    wrong = guarded.client.post("/login", data={"token": "wrong", "next": "/map"})
    assert wrong.status_code == 401
    assert "not the right one" in wrong.text
    right = guarded.client.post("/login", data={"token": TOKEN, "next": "/map"})
    assert (right.status_code, right.headers["location"]) == (303, "/map")
    cookie = right.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Secure" not in cookie  # this server speaks plain HTTP
    assert TOKEN not in cookie
    assert guarded.get("/api/v1/archive").status_code == 200
    assert guarded.get("/map").status_code == 200
    guarded.client.post("/logout")
    assert guarded.get("/api/v1/archive").status_code == 401


def test_a_cookie_of_a_proxy_with_tls_is_secure(archive: Path) -> None:
    with serving(archive, Settings(token=TOKEN, behind_proxy="archive.example")) as served:
        headers = {"Host": "archive.example", "X-Forwarded-Proto": "https"}
        answer = served.client.post("/login", data={"token": TOKEN}, headers=headers)
        assert "Secure" in answer.headers["set-cookie"]


def test_guessing_is_slowed_down(guarded: Served) -> None:
    answers = [guarded.client.post("/login", data={"token": f"guess {i}"}) for i in range(11)]
    assert [answer.status_code for answer in answers] == [401] * 10 + [429]
    assert guarded.client.post("/login", data={"token": TOKEN}).status_code == 429


@pytest.mark.parametrize(
    "target", ["//evil.example", "https://evil.example", "/\\evil", "", "/a\r\nX: y", "javascript:1"]
)
def test_the_login_leads_nowhere_else(target: str) -> None:
    assert safe_next(target) == "/search"


# requests of other sites


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://["},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_another_site_cannot_make_us_work(served: Served, headers: dict[str, str]) -> None:
    for path in ("/api/v1/queries", "/api/v1/evidence", "/api/v1/map/group"):
        assert "another site" in message(served.client.post(path, headers=headers), 403)
    assert served.client.delete("/api/v1/jobs/j-1", headers=headers).status_code == 403
    assert served.client.get("/api/v1/archive", headers=headers).status_code == 403  # nor measure how long we take
    assert served.client.get("/search", headers=headers).status_code == 200  # but it may have a link to a page


def test_our_own_page_and_programs_can(served: Served) -> None:
    for headers in ({"Origin": served.url, "Sec-Fetch-Site": "same-origin"}, {}):
        answer = served.client.post("/api/v1/map/group", json={"rows": [0, 1, 2]}, headers=headers)
        assert answer.status_code == 200


@pytest.mark.parametrize(
    "path", ["/search", "/api/v1/archive", "/api/v1/case?id=none", "/none", "/login", "/plotly.min.js"]
)
def test_every_answer_is_sealed(served: Served, path: str) -> None:
    headers = served.get(path).headers
    for name, value in HEADERS.items():
        assert headers[name] == value
    scripts = next(part for part in headers["content-security-policy"].split("; ") if part.startswith("script-src"))
    assert scripts == "script-src 'self'"


def test_a_mistake_of_ours_tells_nothing(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise RuntimeError("a secret")

    monkeypatch.setattr("clearfold.web.cases.names_like", fails)
    answer = served.get("/api/v1/names")
    assert "went wrong on the server" in message(answer, 500)
    assert "secret" not in answer.text
    assert answer.headers["x-content-type-options"] == "nosniff"


# bad uploads


def test_a_text_named_png_is_no_image(served: Served) -> None:
    assert message(served.upload(b"hello, I am text", "note.png"), 415) == (
        "note.png is not an image that can be read. Wanted is a PNG, JPEG or TIFF."
    )


def test_a_giant_header_is_refused_before_it_is_decoded(served: Served) -> None:
    said = message(served.upload(png(100_000, 100_000), "giant.png"), 413)
    assert said.startswith("giant.png: its header says 100,000 x 100,000 pixels")
    assert message(served.upload(png(1001, 1000)), 413)


def test_a_damaged_image_is_named(served: Served) -> None:
    assert message(served.upload(png(100, 100), "broken.png"), 422).startswith("broken.png: ")


def test_nothing_came(served: Served) -> None:
    assert "empty" in message(served.upload(b""), 400)
    assert "No file came" in message(served.client.post("/api/v1/queries", files={"other": b"x"}), 400)
    assert "JSON" in message(served.client.post("/api/v1/queries"), 415)
    assert "not JSON" in message(
        served.client.post("/api/v1/queries", content=b"{", headers={"Content-Type": "application/json"}), 400
    )
    bad = {"Content-Type": "multipart/form-data; boundary=x"}
    assert "not well formed" in message(served.client.post("/api/v1/queries", content=b"--y", headers=bad), 400)


@pytest.mark.parametrize("mpp", ["nan", "-1", "0", "many", "1e9"])
def test_a_scale_that_is_none(served: Served, mpp: str) -> None:
    assert "micrometres" in message(served.upload(png(8, 8), mpp=mpp), 422)


def test_too_many_bytes_are_refused_whether_announced_or_not(served: Served) -> None:
    assert "0.1907 MB" in message(served.upload(b"x" * 300_000), 413)

    def body() -> Iterator[bytes]:
        yield b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
        for _ in range(30):
            yield b"x" * 10_000

    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    assert message(served.client.post("/api/v1/queries", content=body(), headers=headers), 413)
    assert message(served.client.post("/api/v1/map/group", content=b" " * (9 * 2**20)), 413)


def test_an_upload_that_stops_midway_harms_nobody(served: Served) -> None:
    host, port = served.url.removeprefix("http://").split(":")
    head = f"POST /api/v1/queries HTTP/1.1\r\nHost: {host}\r\nContent-Length: 100000\r\n"
    head += "Content-Type: multipart/form-data; boundary=x\r\n\r\n"
    part = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.png"\r\n\r\n' + b"\x89PNG" * 100
    with socket.create_connection((host, int(port))) as line:
        line.sendall(head.encode() + part)
        time.sleep(0.2)
    assert served.json("/archive")["count"] == 60
    assert not list(served.library.folder.iterdir())


def test_a_path_in_a_file_name_stays_a_name(served: Served, place: Path) -> None:
    before = sorted(place.rglob("*.png"))
    for name in ("../../escape.png", "/etc/escape.png", "..\\..\\escape.png", "C:\\escape.png"):
        assert message(served.upload(b"text", name), 415).startswith("escape.png is not")
    assert message(served.upload(b"text", "../.."), 415).startswith(".. is not")
    assert not list(served.library.folder.iterdir())  # what was refused is deleted
    assert sorted(place.rglob("*.png")) == before
    assert not Path("/etc/escape.png").exists()


# bad questions


@pytest.mark.parametrize(
    ("path", "asked", "status", "said"),
    [
        ("/case", {"id": "none"}, 404, "There is no case 'none' in table.clearfold."),
        ("/case", {"id": "../../etc/passwd"}, 404, "There is no case"),
        ("/case", {}, 422, "id is missing."),
        ("/case/thumbnail", {"id": "case001"}, 404, "has no picture"),
        ("/case/nuclei", {"id": "case001"}, 404, "has no image file here"),
        ("/cases", {"page": -1}, 422, "page=-1 came; input should be greater than or equal to 1."),
        ("/cases", {"page": "x"}, 422, "page=x came"),
        ("/cases", {"page": 99}, 404, "There is no page 99; there are 2."),
        ("/cases", {"per_page": 0}, 422, "per_page=0 came"),
        ("/cases", {"where": "organ"}, 422, "such as organ:prostate"),
        ("/search", {}, 422, "Either a case or a query is wanted"),
        ("/search", {"case": "none"}, 404, "There is no case 'none'"),
        ("/search", {"query": "q-none"}, 404, "There is no query 'q-none'"),
        ("/search", {"case": "case001", "k": 0}, 422, "k=0 came"),
        ("/search", {"case": "case001", "k": 101}, 422, "k=101 came"),
        ("/search", {"case": "case001", "where": "organ:lung"}, 422, "No case has organ = 'lung'"),
        ("/search", {"case": "case001", "where": "planet:mars"}, 422, "There is no column 'planet'"),
        ("/reasons", {"case": "case001", "hit": "none"}, 404, "There is no case 'none'"),
        ("/map", {"axes": "0,x"}, 422, "axes=0,x came"),
        ("/feature", {"name": "none"}, 404, "There is no feature 'none'"),
        ("/nothing", {}, 404, "There is no such page."),
        ("/slide", {"id": "file:../table.clearfold"}, 403, "Only slides inside the folder"),
        ("/slide", {"id": "file:/etc/passwd"}, 403, "Only slides inside the folder"),
        ("/slide", {"id": "file:out/table.clearfold"}, 403, "Only slides inside the folder"),
        ("/slide", {"id": "file:none.svs"}, 404, "There is no slide 'none.svs'."),
        ("/slide", {"id": "file:a\0b"}, 404, "There is no slide"),
        ("/slide", {"id": "other:a"}, 404, "There is no slide 'other:a'."),
        ("/slide", {"id": "case:case001"}, 404, "has no image file here"),
    ],
)  # fmt: skip
def test_a_bad_question_has_an_answer(served: Served, path: str, asked: dict[str, Any], status: int, said: str) -> None:
    assert said in served.error(path, status, **asked)


@pytest.mark.parametrize(
    ("path", "status"),
    [("/cases?page=-1", 422), ("/case?id=none", 404), ("/feature?name=none", 404), ("/nothing", 404), ("/case", 422),
     ("/search?case=none", 404), ("/map?query=q-1", 404), ("/slide?id=file:../x", 403)],
)  # fmt: skip
def test_a_person_gets_a_page_for_it(served: Served, path: str, status: int) -> None:
    answer = served.get(path)
    assert answer.status_code == status
    assert answer.headers["content-type"].startswith("text/html")
    assert re.search(r"came;|is missing|There is no|Only slides", answer.text)


# what is shown


def test_names_are_never_markup(served: Served) -> None:
    for path, asked in (
        ("/cases", {"per_page": 100}),
        ("/case", {"id": STRANGE}),
        ("/feature", {"name": f"texture.{HTML}"}),
    ):
        text = served.get(path, **asked).text
        assert HTML not in text
        assert "&lt;script&gt;" in text
    assert HTML not in served.get("/case", id=f"no{HTML}").text


def test_nothing_is_loaded_from_outside(served: Served) -> None:
    outside = re.compile(
        r"""(?:src|href|action)\s*=\s*["']?(?:https?:)?//|url\(\s*["']?(?:https?:)?//""", re.IGNORECASE
    )
    fetched = re.compile(r"""(?:import|from|fetch\(|importScripts\()\s*\(?\s*["'`](?:https?:)?//""")
    for path in VIEWS:
        text = served.get(path).text
        assert not outside.search(text), path
        assert "<script>" not in text  # the policy would block it
        assert not re.search(r"\son\w+\s*=\s*[\"']", text), path
    for file in (pages.HERE / "static").rglob("*"):
        if file.suffix in (".js", ".css", ".svg", ".html"):
            text = file.read_text(encoding="utf-8")
            assert not outside.search(text), file
            assert not fetched.search(text), file


def test_plotly_is_served_from_its_own_package(served: Served) -> None:
    answer = served.get("/plotly.min.js")
    assert answer.headers["content-type"].startswith("text/javascript")
    assert answer.content == pages.plotly_file().read_bytes()
    assert not list((pages.HERE / "static").rglob("*plotly*"))


# the command


def test_the_command_starts_says_where_and_stops(archive: Path) -> None:
    code = "import typer; from clearfold.cli.serve import serve; typer.run(serve)"
    command = [sys.executable, "-c", code, str(archive), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = ""
        while "address" not in address:
            address = process.stdout.readline()
        url = address.split()[-1]
        until = time.monotonic() + 30
        while True:
            try:
                answer = httpx.get(f"{url}api/v1/archive", trust_env=False)
                break
            except httpx.TransportError:
                assert time.monotonic() < until
                time.sleep(0.1)
        assert answer.json()["count"] == 60
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=30)
        assert process.returncode == 0, errors
        assert "stopped" in out
        assert "Traceback" not in errors


def test_drawn_tissue_is_refused_without_a_scale(tmp_path: Path) -> None:
    with serving(tissue_archive(tmp_path, n_patients=5, images_per_patient=1, size=96)) as served:
        data = (tmp_path / "cohort" / "images" / "patient01_1.png").read_bytes()
        said = message(served.upload(data, "mine.png"), 422)
        assert said.startswith("mine.png does not say how many micrometres a pixel has; the archive's images have 0.5")
