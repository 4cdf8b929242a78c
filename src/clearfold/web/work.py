"""Long work: a few child processes, a short queue, jobs that can be watched and cancelled."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import secrets
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from clearfold.web.answers import Refused

WAITING = 20
"""Jobs that may wait in a lane."""
REMEMBERED = 200
"""Finished jobs that can still be asked for."""
LANES = {"quick": 2, "long": 1}
"""Child processes: images do not wait behind an evaluation of the whole archive."""
LONG_SECONDS = 1800.0


@dataclass(eq=False)
class Job:
    """One piece of work: waiting, running, then done, failed or cancelled."""

    kind: str
    task: str
    arguments: dict[str, Any]
    seconds: float
    finish: Callable[[dict[str, Any]], Any]
    id: str = field(default_factory=lambda: f"j-{secrets.token_hex(8)}")
    state: str = "waiting"
    progress: float | None = None
    message: str = "waiting"
    result: Any = None
    error: dict[str, Any] | None = None
    started: float = field(default_factory=time.monotonic)
    ended: float | None = None
    over: Future[None] = field(default_factory=Future)

    @property
    def shown(self) -> dict[str, Any]:
        """As the API says it."""
        names = ("id", "kind", "state", "progress", "message", "result", "error")
        seconds = (self.ended or time.monotonic()) - self.started
        return {name: getattr(self, name) for name in names} | {"seconds": round(seconds, 2)}

    def end(self, state: str, message: str, **found: Any) -> None:
        """Say how it ended; only the first word counts."""
        if self.ended is None:
            self.state, self.message, self.ended = state, message, time.monotonic()
            self.result, self.error = found.get("result"), found.get("error")
            self.progress = 1.0 if state == "done" else self.progress
            self.over.set_result(None)


class Worker:
    """One child process; it is started when it is needed, and again after it was killed."""

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    def run(self, task: str, arguments: dict[str, Any], seconds: float, report: Callable[..., None]) -> dict[str, Any]:
        """Give a task, wait for its result."""
        process = self._started()
        late = threading.Event()

        def stop() -> None:
            late.set()
            self.kill()

        timer = threading.Timer(seconds, stop)
        timer.daemon = True
        timer.start()
        try:
            return _talk(process, task, arguments, report)
        except (OSError, EOFError, ValueError) as error:
            self.kill()
            if late.is_set():
                raise Refused(
                    504, f"It took longer than {seconds:g} s and was stopped. Give a smaller image."
                ) from error
            raise Refused(422, "The process that worked on it stopped: the file may be damaged.") from error
        finally:
            timer.cancel()

    def _started(self) -> subprocess.Popen[str]:
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
                path = os.pathsep.join(filter(None, sys.path))
                known = {name: value for name, value in os.environ.items() if name != "CLEARFOLD_TOKEN"}
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "clearfold.web.worker", str(self.memory)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    text=True,
                    encoding="utf-8",
                    env=known | threads | {"PYTHONPATH": path},
                    start_new_session=True,  # Ctrl-C is for the server, which then ends its children itself
                )
            return self._process

    def kill(self) -> None:
        """End the child, whatever it is doing."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):
                    if pipe is not None:
                        pipe.close()


def _talk(process: Any, task: str, arguments: dict[str, Any], report: Callable[..., None]) -> dict[str, Any]:
    process.stdin.write(json.dumps({"task": task, "arguments": arguments}) + "\n")
    process.stdin.flush()
    while True:
        line = process.stdout.readline()
        if not line.endswith("\n"):
            raise EOFError
        said = json.loads(line)
        if "result" in said:
            return said["result"]
        if "error" in said:
            raise Refused(said["error"]["status"], said["error"]["message"])
        report(said["progress"], said["message"])


class Jobs:
    """Lanes of waiting jobs, a thread and a child process for each that may run at a time."""

    def __init__(self, memory: int, long_memory: int) -> None:
        self._known: OrderedDict[str, Job] = OrderedDict()
        self._running: dict[str, Worker] = {}
        self._lock = threading.Lock()
        self._lanes: dict[str, queue.Queue[Job | None]] = {name: queue.Queue(WAITING) for name in LANES}
        self._workers: list[Worker] = []
        for name, count in LANES.items():
            for _ in range(count):
                worker = Worker(memory if name == "quick" else long_memory)
                self._workers.append(worker)
                threading.Thread(target=self._work, args=(self._lanes[name], worker), daemon=True).start()

    def submit(self, lane: str, job: Job) -> Job:
        """Put a job into a lane; refused when too many wait already."""
        try:
            self._lanes[lane].put_nowait(job)
        except queue.Full:
            job.end("failed", "refused")
            raise Refused(503, f"{WAITING} others wait already. Try again in a moment.") from None
        with self._lock:
            self._known[job.id] = job
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return job

    def find(self, job_id: str) -> Job:
        """A job by its id."""
        with self._lock:
            job = self._known.get(job_id)
        if job is None:
            raise Refused(404, f"There is no job {job_id!r}: it may have ended long ago.")
        return job

    def cancel(self, job_id: str) -> Job:
        """End a job that has not ended by itself."""
        job = self.find(job_id)
        with self._lock:  # so that the child is killed for this job, and not for the next
            job.end("cancelled", "cancelled", error={"status": 409, "message": "It was cancelled."})
            worker = self._running.get(job_id)
            if worker is not None:
                worker.kill()
        return job

    def warm(self) -> None:
        """Let the children load what the first image would have to wait for."""
        for _ in range(LANES["quick"]):
            self.submit("quick", Job("ready", "ready", {}, 120.0, lambda found: None))

    def close(self) -> None:
        """Cancel everything and end the children."""
        with self._lock:
            known = list(self._known.values())
        for job in known:
            job.end("cancelled", "the server stopped", error={"status": 503, "message": "The server stopped."})
        for name, lane in self._lanes.items():
            with contextlib.suppress(queue.Empty):
                while True:
                    lane.get_nowait()
            for _ in range(LANES[name]):
                lane.put(None)
        for worker in self._workers:
            worker.kill()

    def _work(self, lane: queue.Queue[Job | None], worker: Worker) -> None:
        while (job := lane.get()) is not None:
            self._do(job, worker)

    def _do(self, job: Job, worker: Worker) -> None:
        def report(progress: float | None, message: str) -> None:
            job.progress, job.message = progress, message

        with self._lock:
            if job.ended is not None:
                return
            self._running[job.id], job.state, job.message = worker, "running", "running"
        try:
            found = worker.run(job.task, job.arguments, job.seconds, report)
            job.end("done", "done", result=job.finish(found))
        except Refused as error:
            job.end("failed", error.message, error=error.error)
        except Exception as error:
            text = f"It failed ({type(error).__name__}: {error})."
            status = 422 if isinstance(error, ValueError) else 500
            job.end("failed", text, error={"status": status, "message": str(error) if status == 422 else text})
        finally:
            with self._lock:
                self._running.pop(job.id, None)
