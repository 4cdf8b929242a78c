"""joblib's `Parallel` over the workers of a cluster, or over the cores of this machine."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from clearfold.cluster.calls import carried_out, packed, settings
from clearfold.cluster.connection import CURRENT, Cluster
from clearfold.errors import ClearfoldError


def parallel(n_jobs: int | None = None, **options: Any) -> Any:
    """joblib's `Parallel`: inside `on_cluster` over all workers, else over so many processes here."""
    from joblib import Parallel

    cluster = CURRENT.get()
    if cluster is None:
        return Parallel(n_jobs=n_jobs, **options)
    return Parallel(n_jobs=-1, backend=_backend(cluster), **options)


def connected() -> bool:
    """Whether `parallel` goes to a cluster."""
    return CURRENT.get() is not None


def width(n_jobs: int | None = None) -> int:
    """How many calls of `parallel` run at once."""
    from joblib import effective_n_jobs

    cluster = CURRENT.get()
    return int(effective_n_jobs(n_jobs)) if cluster is None else len(cluster.workers)


def _backend(cluster: Cluster) -> Any:
    """joblib's interface to the cluster; a class of its own only where joblib is loaded."""
    from joblib.parallel import AutoBatchingMixin, ParallelBackendBase, SequentialBackend

    class Backend(AutoBatchingMixin, ParallelBackendBase):  # type: ignore[misc]
        """Small calls are put together until a batch takes a second or more: then the network does not count."""

        MIN_IDEAL_BATCH_DURATION = 1.0
        MAX_IDEAL_BATCH_DURATION = 10.0
        supports_retrieve_callback = True
        default_n_jobs = -1

        def __init__(self) -> None:
            super().__init__()
            self.nesting_level = 0
            self.open: set[Any] = set()

        def effective_n_jobs(self, n_jobs: int) -> int:
            return max(2, len(cluster.workers))  # of 1 joblib would make a loop in this process

        def submit(self, func: Any, callback: Callable[[Any], None]) -> Any:
            try:
                payload, arrays = packed(func.items, cluster.send)
                key = f"clearfold-{uuid.uuid4().hex}"
                future = cluster.client.submit(carried_out, payload, arrays, settings(), key=key, pure=False)
            except Exception as error:  # in the thread of a callback nobody would hear it, and joblib wait for ever
                future = _Failed(error)
                callback(future)
                return future
            self.open.add(future)
            future.add_done_callback(callback)
            return future

        apply_async = submit  # its name before joblib 1.5

        def retrieve_result_callback(self, out: Any) -> Any:
            self.open.discard(out)
            return _result(out, cluster.address)

        def abort_everything(self, ensure_ready: bool = True) -> None:
            left, self.open = list(self.open), set()
            cluster.client.cancel(left)

        def get_nested_backend(self) -> Any:
            return SequentialBackend(nesting_level=1), 1

    return Backend()


@dataclass(frozen=True)
class _Failed:
    """A call that could not be sent."""

    error: Exception

    def result(self) -> Any:
        raise self.error


def _result(future: Any, address: str) -> Any:
    """What the calls gave; an error of a call is raised as it is, one of the cluster in words."""
    from distributed import CancelledError, KilledWorker

    try:
        done = future.result()
    except KilledWorker as error:
        raise ClearfoldError(
            f"one piece of the work ended several workers, one after the other ({error}). Usually their memory was too "
            "small: look into their logs, and give each worker more."
        ) from error
    except (CancelledError, OSError, TimeoutError) as error:
        raise ClearfoldError(
            f"the scheduler at {address} was lost ({error}). Start it and its workers again, then this command."
        ) from error
    if done.error is not None:
        raise done.error
    return done.results
