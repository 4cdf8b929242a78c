"""What every view shares: the archive, a few threads that may read it, and what was already worked out of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from clearfold.archive import Archive, Version
from clearfold.errors import ArchiveError
from clearfold.web.answers import Refused
from clearfold.web.settings import Settings
from clearfold.web.work import LONG_SECONDS, Job, Jobs

if TYPE_CHECKING:
    import pandas as pd

    from clearfold.web.asking import Queries
    from clearfold.web.viewing import Slides

THREADS = 6
"""That read the archive. They stay, because each has a connection of its own."""
CROWD = 200
"""Requests that may wait for a thread."""
SAMPLED = 2000
"""Cases that stand for the archive in percentiles."""
CELLS = 30_000_000
"""Features of all cases are kept in memory up to so many numbers; beyond that, a column at a time."""
WARMED = 200_000
"""Cases whose table is read before somebody asks for it."""
KEPT = 40
PART = 2000
LONG_MEMORY = 16 * 2**30

NAMED_BY = ("slide", "image", "file")
"""Columns of a case that may name its file."""

T = TypeVar("T")


class Library:
    """An open archive behind a server. What is worked out of it is kept until the archive changes."""

    def __init__(self, where: str | os.PathLike[str], settings: Settings) -> None:
        from clearfold.web.asking import Queries
        from clearfold.web.viewing import Slides

        self.where, self.settings = os.fspath(where), settings
        self.archive = Archive.open(self.where, create=False, read_only=True)
        self.folder = Path(tempfile.mkdtemp(prefix="clearfold-"))
        self.jobs = Jobs(settings.memory, LONG_MEMORY)
        self.queries: Queries = Queries(self)
        self.slides: Slides = Slides(self)
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="archive")
        self._crowd = 0
        self._memory: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
        self._locks: dict[tuple[Any, ...], threading.Lock] = {}
        self._lock = threading.Lock()
        self._long: dict[tuple[str, str], Job] = {}

    def close(self) -> None:
        """End the children and the threads, let go of the archive, delete the uploads."""
        self.jobs.close()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self.slides.close()
        self.archive.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def warm(self) -> None:
        """Load, beside the first page, what the first search and the first image would have to wait for."""

        def load() -> None:
            with contextlib.suppress(ArchiveError, Refused):
                from clearfold.retrieval.background import background_of

                with self.archive.snapshot():
                    background_of(self.archive, self.archive.fitted())
                if len(self.numbers) <= WARMED:
                    _ = self.ids, self.cases

        self._pool.submit(load)
        self.jobs.warm()

    async def run(self, function: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Call a function that reads the archive, in one of the threads."""
        if self._crowd >= CROWD:
            raise Refused(503, "Too many people ask at this moment. Try again in a few seconds.")
        self._crowd += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._pool, partial(function, *arguments, **named))
        finally:
            self._crowd -= 1

    # what is kept until the archive changes

    @property
    def name(self) -> str:
        """Of the archive, without folder, user or password."""
        return str(self.archive._store.name)

    @property
    def revision(self) -> str:
        """Changes with every change of the archive."""
        with self.archive.snapshot():
            state = self.archive._store.state()
            return f"{state.changes}.{state.removals}.{state.last}"

    def kept(self, name: Any, make: Callable[[], T]) -> T:
        """What `make` gives, worked out once for each state of the archive."""
        key = (self.revision, name)
        with self._lock:
            if key in self._memory:
                self._memory.move_to_end(key)
                return self._memory[key]
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            with self._lock:
                if key in self._memory:
                    return self._memory[key]
            with self.archive.snapshot():
                found = make()
            with self._lock:
                self._memory = OrderedDict((k, v) for k, v in self._memory.items() if k[0] == key[0])
                self._memory[key] = found
                self._locks.pop(key, None)
                while len(self._memory) > KEPT:
                    self._memory.popitem(last=False)
        return found

    @property
    def numbers(self) -> Any:
        """The number of every case, ascending."""
        return self.kept("numbers", self.archive._store.numbers)

    @property
    def ids(self) -> list[str]:
        """The id of every case, in the order of the numbers."""

        def make() -> list[str]:
            names = self.archive._store.names()
            return [names[number] for number in self.numbers.tolist()]

        return self.kept("ids", make)

    @property
    def cases(self) -> pd.DataFrame:
        """What is known of every case besides its features, in the order of the numbers."""

        def make() -> pd.DataFrame:
            frame = self.archive.cases()
            files = [name for name in NAMED_BY if name in frame]
            return frame.assign(**{name: frame[name].map(file_name) for name in files})

        return self.kept("cases", make)

    @property
    def sample(self) -> pd.DataFrame:
        """Features of cases that stand for the archive."""
        return self.kept("sample", lambda: self.archive.features_of(self.archive.sample(SAMPLED)))

    @property
    def names(self) -> list[str]:
        """Of the features."""
        return self.kept("names", lambda: self.archive.feature_names)

    @property
    def units(self) -> dict[str, str]:
        """Of the features that have one."""
        from clearfold.retrieval.units import length_unit, units_of

        return self.kept("units", lambda: units_of(self.names, length_unit(self.archive.settings)))

    def column(self, name: str) -> Any:
        """A feature of every case, in the order of the numbers."""
        place, whole = self.feature(name), self._features
        return whole[:, place] if whole is not None else self.kept(("column", name), lambda: self._read_column(place))

    def rows(self, places: Sequence[int]) -> Any:
        """Feature rows of the cases at these places."""
        if self._features is not None:
            return self._features[places]
        return self.archive.features_of([self.ids[place] for place in places]).to_numpy(dtype=np.float32)

    @property
    def _features(self) -> Any:
        """Of every case, where that is not too much."""
        if len(self.numbers) * len(self.names) > CELLS:
            return None
        return self.kept("features", lambda: self.archive.features().to_numpy(dtype=np.float32))

    def _read_column(self, place: int) -> Any:
        parts = [self.ids[at : at + PART] for at in range(0, len(self.ids), PART)]
        return np.concatenate([self.archive.features_of(part).to_numpy(dtype=np.float32)[:, place] for part in parts])

    # what can be wrong

    def feature(self, name: str) -> int:
        """The place of a feature."""
        try:
            return self.names.index(name)
        except ValueError:
            raise Refused(404, f"There is no feature {name!r} in this archive.") from None

    def case(self, case_id: str) -> Any:
        """A case with its features and thumbnail."""
        with self.archive.snapshot():
            if case_id not in self.archive:
                raise Refused(404, f"There is no case {case_id!r} in {self.name}.")
            return self.archive.case(case_id)

    @property
    def version(self) -> Version:
        """The embedding that answers."""
        active = self.archive.active
        if active is None or active.forgotten:
            raise Refused(409, "The archive has no embedding that can answer. Make one with `clearfold index`.")
        return active

    # long work on the whole archive

    def long(self, kind: str) -> dict[str, Any]:
        """How far a piece of long work is, for this state of the archive."""
        job = self._long.get((kind, self.revision))
        if job is None:
            return {"state": "absent", "job": None, "result": None}
        state = {"done": "ready", "waiting": "running", "running": "running"}.get(job.state, "failed")
        shown = job.shown
        return {"state": state, "result": shown.pop("result"), "job": shown}

    def start(self, kind: str) -> Job:
        """Start a piece of long work, or give the one that is running or done."""
        _ = self.version
        key = (kind, self.revision)
        with self._lock:
            job = self._long.get(key)
            if job is None or job.state in ("failed", "cancelled"):
                job = Job(kind, kind, {"where": self.where}, LONG_SECONDS, lambda found: found)
                self._long = {k: v for k, v in self._long.items() if k[1] == key[1]} | {key: job}
                self.jobs.submit("long", job)
        return job


def file_name(value: Any) -> Any:
    """A path without its folders: where files lie on the server is nobody's business."""
    return value.replace("\\", "/").rsplit("/", 1)[-1] if isinstance(value, str) else value


def shown_about(about: Mapping[str, Any]) -> dict[str, Any]:
    """What is known of a case, files without their folders."""
    return {name: file_name(value) if name in NAMED_BY else value for name, value in about.items()}


def parsed_where(where: Sequence[str], **columns: str | None) -> dict[str, list[str]] | None:
    """`organ:prostate`, as often as wanted, and columns by their own name."""
    found: dict[str, list[str]] = {name: [value] for name, value in columns.items() if value is not None}
    for text in where:
        name, colon, value = text.partition(":")
        if not colon:
            raise Refused(422, f"where={text!r} came; wanted is a column and a value, such as organ:prostate.")
        found.setdefault(name, []).append(value)
    return found or None


@contextlib.contextmanager
def clear_status() -> Any:
    """An archive that cannot answer a question is no mistake of the server."""
    try:
        yield
    except ArchiveError as error:
        raise Refused(422, str(error)) from error
