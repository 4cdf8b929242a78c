"""One target under atheris. Failures of Python are noted and the work goes on; those below it end this process."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
import sys
import time
import traceback
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import atheris

MODULES = ("table", "objects", "objects.files", "images", "images.levels", "archive.sqlite", "archive.model", "web")
"""Readers that are imported late; here they come at once, to be followed line by line."""

with atheris.instrument_imports(include=["clearfold", "tifffile"]):
    for module in MODULES:
        import_module(f"clearfold.{module}")
    import_module("tifffile")
    from fuzz.targets import TARGETS, quiet

SLOW, LARGE = 10, 3000
"""Seconds of processor time and megabytes that one input may take."""
NOTED = 2.0
"""Seconds between two notes of how far we are."""


class Notes:
    """How far we are and what was found, on disk: the process may end at any moment."""

    def __init__(self, path: Path, output: Path) -> None:
        self.path, self.output = path, output
        self.inputs, self.slowest, self.found, self.ended = 0, 0.0, dict[str, str](), False
        self._written = 0.0

    def failed(self, error: BaseException, data: bytes) -> None:
        """Keep the first input of each kind of failure."""
        frames = traceback.extract_tb(error.__traceback__)
        ours = [frame for frame in frames if "/clearfold/" in frame.filename] or frames
        place = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "the end"
        key = f"{type(error).__name__} at {place}: {str(error)[:120]}"
        mark = f"{type(error).__name__} at {place}"
        if not any(known.startswith(mark) for known in self.found):
            name = self.output / f"{self.path.name.removesuffix('.state.json')}-{hashlib.sha1(data).hexdigest()[:10]}"
            name.write_bytes(data)
            self.found[key] = str(name)
            name.with_suffix(".txt").write_text("".join(traceback.format_exception(error)))
            self.write()

    def write(self) -> None:
        """Say it."""
        largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        about: dict[str, Any] = {"inputs": self.inputs, "slowest": round(self.slowest, 2), "megabytes": largest}
        self.path.write_text(json.dumps(about | {"found": self.found, "ended": self.ended}))
        self._written = time.monotonic()

    def due(self) -> bool:
        """Whether the last note is old."""
        return time.monotonic() - self._written > NOTED


def main() -> None:
    """`python -m fuzz.child TARGET STATE RUNS SECONDS SEED OUTPUT`."""
    name, state, runs, seconds, seed, output = sys.argv[1:]
    target, notes = TARGETS[name], Notes(Path(state), Path(output))
    last = Path(state).with_suffix(".input")
    seeds, until = target.seeds(), time.monotonic() + int(seconds) if int(seconds) else float("inf")

    def one(data: bytes) -> None:
        last.write_bytes(data)
        start = sum(os.times()[:4])  # of this process and of its children: others may keep the machine busy
        try:
            quiet(target.read, data)
        except BaseException as error:
            notes.failed(error, data)
        took = sum(os.times()[:4]) - start
        notes.inputs, notes.slowest = notes.inputs + 1, max(notes.slowest, took)
        if took > SLOW:
            notes.failed(TimeoutError(f"{took:.0f} s for one input"), data)
        over = notes.inputs >= int(runs) or time.monotonic() > until
        notes.ended = over
        if over or notes.due():
            notes.write()
        if over:
            os._exit(0)

    def mutate(data: bytes, most: int, number: int) -> bytes:
        random = Random(number)
        if random.random() < 0.15:
            data = random.choice(seeds)
        if random.random() < 0.3:
            return atheris.Mutate(data, most)
        for _ in range(random.choice((1, 1, 2, 3))):
            data = target.mutate(data, random)
        return data[:most]

    corpus = Path(output) / f"{name}.seeds"
    shutil.rmtree(corpus, ignore_errors=True)
    corpus.mkdir(parents=True)
    for number, data in enumerate(seeds):
        (corpus / str(number)).write_bytes(data)
    most = 2 * max(map(len, seeds)) + 200
    flags = [
        f"-runs={10 * int(runs)}",
        f"-seed={seed}",
        f"-max_len={most}",
        "-timeout=100000",
        f"-rss_limit_mb={LARGE}",
    ]
    atheris.Setup(["fuzz", *flags, f"-artifact_prefix={output}/{name}-", str(corpus)], one, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
