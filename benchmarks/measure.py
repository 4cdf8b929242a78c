"""How things are measured: fresh processes, one thread, CPU seconds, peers in turn, memory above a baseline.

Each side of a case lives in a process of its own, forked from a server that has imported everything. It does the work
once on small data (so that nothing is imported or compiled under the clock), prepares its data, and waits to be
asked.

- Time is CPU time of the process (`time.process_time`), with one thread for linear algebra: other programs on the
  machine disturb it least. Work is done in rounds, each side in turn, so that noise meets all of them; the best round
  counts. Work beyond BUDGET seconds is done once. Work below CLOCK seconds is repeated inside one reading of the
  clock.
- Memory is the peak of the resident set during the first run above what was resident just before it. Linux resets the
  peak on request. Elsewhere it is `ru_maxrss` before and after; that one is not used on Linux because it never falls,
  and a process that is started by `exec` inherits it from its parent.
- Outputs are sent back and compared outside of both.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import math
import multiprocessing
import os
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ONE_THREAD = {
    name: "1"
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "NUMBA_NUM_THREADS")
}
ROUNDS = 5
BUDGET = 3.0
"""Seconds spent on one side of a case before no further round is done."""
CLOCK = 0.02
"""Seconds that one reading of the clock should cover."""
MOST_CALLS = 500
WARM_UP = 320
"""Rows of the small data: enough for every solver to take the way it takes on large data."""


def as_it_is(result: Any) -> Any:
    return result


@dataclass(frozen=True)
class Work:
    """What is measured: `run(state)` in the process that prepared the state; `read(result)` is compared.

    once : a single round, whatever it takes
    """

    process: str
    run: Callable[[Any], Any]
    read: Callable[[Any], Any] = as_it_is
    once: bool = False


@dataclass(frozen=True)
class Reading:
    """Best CPU seconds, wall seconds and peak memory (bytes) of the first run, number of rounds; or what went wrong."""

    cpu: float = math.inf
    wall: float = math.inf
    memory: int = 0
    rounds: int = 0
    error: str = ""

    def better(self, other: Reading) -> Reading:
        return Reading(min(self.cpu, other.cpu), self.wall, self.memory, self.rounds + 1, self.error or other.error)


class Workshop:
    """Starts the processes of cases; `modules` are imported once, in the server that they are forked from."""

    def __init__(self, modules: list[str]) -> None:
        os.environ.update(ONE_THREAD)
        method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
        self._context = multiprocessing.get_context(method)
        if method == "forkserver":
            self._context.set_forkserver_preload(modules)

    def measure(
        self, prepare: dict[str, Callable[[int], Any]], works: dict[str, Work], size: int, warm_up: int = WARM_UP
    ) -> tuple[dict[str, Reading], dict[str, Any]]:
        """Readings and outputs by the name of the work; `prepare` gives each process its state from the size."""
        sides = {name: self._start(make, works, name, size, warm_up) for name, make in prepare.items()}
        readings: dict[str, Reading] = {}
        outputs: dict[str, Any] = {}
        try:
            for name, side in sides.items():
                failure = side.receive()
                for work in [key for key, value in works.items() if value.process == name]:
                    readings[work] = Reading(error=failure)
            for turn in range(ROUNDS):
                for name, work in works.items():
                    known = readings[name]
                    if known.error or (turn and (work.once or known.rounds * known.cpu > BUDGET)):
                        continue
                    reading, output = sides[work.process].ask(name, read=turn == 0)
                    readings[name] = reading if turn == 0 else known.better(reading)
                    if turn == 0:
                        outputs[name] = output
        finally:
            for side in sides.values():
                side.stop()
        return readings, outputs

    def _start(self, make: Callable[[int], Any], works: dict[str, Work], name: str, size: int, warm_up: int) -> _Side:
        own = {key: value for key, value in works.items() if value.process == name}
        here, there = self._context.Pipe()
        # not a daemon, which could not start processes of its own; it ends when the pipe is closed
        process = self._context.Process(target=_serve, args=(there, make, own, size, warm_up))
        process.start()
        there.close()
        return _Side(process, here)


@dataclass(frozen=True)
class _Side:
    process: Any
    pipe: Any

    def receive(self) -> Any:
        try:
            return self.pipe.recv()
        except EOFError:
            return "the process ended without an answer"

    def ask(self, work: str, *, read: bool) -> tuple[Reading, Any]:
        try:
            self.pipe.send((work, read))
        except OSError:
            return Reading(error="the process is gone"), None
        answer = self.receive()
        return (Reading(error=answer), None) if isinstance(answer, str) else answer

    def stop(self) -> None:
        self.pipe.close()
        self.process.join()


def _serve(pipe: Any, make: Callable[[int], Any], works: dict[str, Work], size: int, warm_up: int) -> None:
    """Prepare, then answer (name of a work, whether its output is wanted) until the pipe is closed."""
    warnings.simplefilter("ignore")
    try:
        _check_one_thread()
        for work in works.values():
            work.read(work.run(make(min(size, warm_up))))
        state = make(size)
        pipe.send("")
    except Exception as error:
        pipe.send(f"{type(error).__name__}: {error}")
        return
    known: dict[str, float] = {}
    while True:
        try:
            name, wanted = pipe.recv()
        except EOFError:
            return
        pipe.send(_answer(works[name], state, known, name, wanted))


def _answer(work: Work, state: Any, known: dict[str, float], name: str, wanted: bool) -> Any:
    """A reading and, if wanted, the output; or what went wrong."""
    try:
        reading, result = _run(work, state, known.get(name, CLOCK))
        known[name] = reading.cpu
        return reading, work.read(result) if wanted else None
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _run(work: Work, state: Any, expected: float) -> tuple[Reading, Any]:
    calls = min(MOST_CALLS, math.ceil(CLOCK / max(expected, 1e-9)))
    gc.collect()
    before = _resident()
    start, wall = time.process_time(), time.perf_counter()
    for _ in range(calls):
        result = work.run(state)
    cpu, wall = time.process_time() - start, time.perf_counter() - wall
    return Reading(cpu / calls, wall / calls, max(0, _peak() - before), 1), result


def _check_one_thread() -> None:
    from threadpoolctl import threadpool_info

    many = [pool["internal_api"] for pool in threadpool_info() if pool["num_threads"] != 1]
    if many:
        raise RuntimeError(f"{', '.join(many)} would use several threads; one is wanted")


def _resident() -> int:
    """Bytes that are resident now, from where the peak is counted."""
    if sys.platform != "linux":
        return _peak()
    with contextlib.suppress(OSError, AttributeError):  # memory that the C library keeps for later would hide new needs
        ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _peak() -> int:
    if sys.platform == "linux":
        return _status("VmHWM")
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def _status(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(field))
