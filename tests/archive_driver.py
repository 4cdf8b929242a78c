"""Runs in a process of its own, where it may be killed, robbed of its rights or of its disk; tells what happened.

python archive_driver.py kill|rights|full FOLDER [number]
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import signal
import sys
import time
from pathlib import Path

from archive_stores import frame_of
from clearfold.archive import Archive
from clearfold.embedding import PCA
from clearfold.errors import ArchiveError


def work(where: Path, told: int) -> None:
    """Go on where the archive is: each case in a commit of its own, told through the pipe once it is there."""
    archive = Archive.open(where)
    if not len(archive):
        archive.add(frame_of(8))
    if archive.active is None:
        archive.fit(PCA(n_components=3))
    os.write(told, b"8\n")
    for number in range(len(archive), 100_000):
        archive.add(frame_of(1, first=number))
        os.write(told, f"{number + 1}\n".encode())


def kill(folder: Path, times: int) -> dict[str, object]:
    """Kill the worker at random moments; after each, everything that was told has to be there and whole.

    A moment is some commits and some milliseconds after the start; every fifth is only milliseconds after it, when the
    archive is being made, opened or fitted.
    """
    where, moments = folder / "killed.clearfold", random.Random(0)
    committed, problems, counts = 0, [], []
    for cycle in range(times):
        end, told = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(end)
            work(where, told)
        os.close(told)
        with os.fdopen(end) as pipe:
            reported = [int(pipe.readline()) for _ in range(moments.randrange(1, 8) if cycle % 5 else 0)]
            time.sleep(moments.uniform(0.0, 0.02) if reported else moments.uniform(0.0, 0.1))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            reported += [int(line) for line in pipe.read().split("\n")[:-1]]
        committed = max([committed, *reported])
        if not where.exists():
            continue
        with Archive.open(where) as archive:
            count = len(archive)
            counts.append(count)
            if count < committed or count > committed + 8:
                problems.append(f"cycle {cycle}: {committed} were told, {count} are there")
            names = [f"case-{number:05d}" for number in range(count)]
            if list(archive.features().index) != names:
                problems.append(f"cycle {cycle}: the cases are not the first {count}")
            if archive.active is not None and list(archive.coordinates().index) != names:
                problems.append(f"cycle {cycle}: coordinates and cases differ")
            with archive.snapshot():
                health = archive._store._row("PRAGMA integrity_check")[0]  # type: ignore[attr-defined]
            if health != "ok":
                problems.append(f"cycle {cycle}: {health}")
    left = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    return {"problems": problems, "counts": counts, "left": left}


def rights(folder: Path) -> dict[str, object]:
    """What a user without any rights to the folder can do."""
    where = folder / "cases.clearfold"
    with Archive.open(where) as archive:
        archive.add(frame_of(20))
        archive.fit(PCA(n_components=2))
        expected = archive.nearest([0.0, 0.0], 3)
    where.chmod(0o444)
    folder.chmod(0o555)
    if os.getuid() == 0:
        os.setuid(65534)
    told: dict[str, object] = {}
    with Archive.open(where, read_only=True) as archive:
        told["same"] = archive.nearest([0.0, 0.0], 3) == expected
    for name, place in (("old", where), ("new", folder / "new.clearfold")):
        try:
            with Archive.open(place) as archive:
                archive.add(frame_of(1, first=20))
            told[name] = "was written"
        except ArchiveError as error:
            told[name] = str(error)
    told["left"] = sorted(path.name for path in folder.iterdir())
    return told


def full(folder: Path) -> dict[str, object]:
    """A disk that has no more room: a limit on the size of files does the same."""
    where = folder / "cases.clearfold"
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    archive = Archive.open(where)
    archive.add(frame_of(40))
    archive.fit(PCA(n_components=2))
    room = max(path.stat().st_size for path in folder.iterdir()) + 200_000
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
    message, committed = "", 40
    for first in range(40, 4000, 20):
        try:
            archive.add(frame_of(20, first=first))
        except ArchiveError as error:
            message = str(error)
            break
        committed += 20
    during = len(archive), len(archive.nearest([0.0, 0.0], 10_000))
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    archive.add(frame_of(20, first=committed))
    after = len(archive)
    archive.close()
    with Archive.open(where) as archive:
        again = len(archive)
    return {"message": message, "committed": committed, "during": during, "after": after, "again": again}


if __name__ == "__main__":
    task, folder = sys.argv[1], Path(sys.argv[2])
    with contextlib.redirect_stdout(sys.stderr):
        result = kill(folder, int(sys.argv[3])) if task == "kill" else {"rights": rights, "full": full}[task](folder)
    print(json.dumps(result))
