"""What travels to a worker: calls as bytes, large arrays apart from them; and how the worker carries them out."""

from __future__ import annotations

import io
import os
import pickle
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

LARGE = 2**18
"""An array of more bytes is sent once, not with every call that uses it."""
SETTINGS = ("CLEARFOLD_DATA", "CLEARFOLD_NUMBA")
"""Environment variables that rule results: workers take those of the caller."""

_WORKER: ContextVar[str] = ContextVar("worker", default="")
_ONE = threading.Lock()


@dataclass(frozen=True)
class Done:
    """Results of the calls of a batch, or the error of one."""

    results: list[Any]
    error: BaseException | None = None


def packed(calls: Sequence[Any], send: Callable[[Any], Any]) -> tuple[bytes, list[Any]]:
    """Calls as bytes with numbers in place of large arrays, wherever in their arguments those are; and the arrays."""
    import numpy as np

    every: Any = import_module("cloudpickle").Pickler  # functions of functions and notebooks too
    arrays: dict[int, Any] = {}
    order: list[Any] = []

    class Pickler(every):  # type: ignore[misc]
        def persistent_id(self, thing: Any) -> int | None:
            if type(thing) is not np.ndarray or thing.nbytes < LARGE or thing.dtype.hasobject:
                return None
            if id(thing) not in arrays:
                arrays[id(thing)] = (len(order), thing)
                order.append(send(thing))
            return int(arrays[id(thing)][0])

    file = io.BytesIO()
    Pickler(file, protocol=pickle.HIGHEST_PROTOCOL).dump(list(calls))
    return file.getvalue(), order


def unpacked(content: bytes) -> Any:
    """An array on a worker."""
    return pickle.loads(content)


def carried_out(payload: bytes, arrays: list[Any], environment: dict[str, str | None]) -> Done:
    """On a worker: the calls one after the other, with one thread for linear algebra and nothing parallel inside."""
    from distributed import get_worker
    from joblib import parallel_config
    from threadpoolctl import threadpool_limits

    arrays = [array.view() for array in arrays]
    for array in arrays:
        array.flags.writeable = False  # other calls use it too

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, number: Any) -> Any:
            return arrays[number]

    # In a worker of several threads one call after the other: warnings and settings belong to the whole process.
    with _ONE, _environment(environment), threadpool_limits(1), parallel_config(backend="sequential", n_jobs=1):
        token = _WORKER.set(f"{get_worker().name} on {socket.gethostname()}")
        try:
            calls = Unpickler(io.BytesIO(payload)).load()
            return Done([function(*args, **options) for function, args, options in calls])
        except Exception as error:
            return Done([], error)
        finally:
            _WORKER.reset(token)


@contextmanager
def _environment(wanted: dict[str, str | None]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in wanted}
    _set(wanted)
    try:
        yield
    finally:
        _set(before)


def _set(values: dict[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def settings() -> dict[str, str | None]:
    """The environment of the caller, as far as it rules results."""
    values = {name: os.environ.get(name) for name in SETTINGS}
    folder = values["CLEARFOLD_DATA"]
    return values | {"CLEARFOLD_DATA": str(Path(folder).absolute()) if folder else None}


def unseen(path: Path) -> str:
    """On a worker that does not see a file: words that name both. Else nothing."""
    name = _WORKER.get()
    if not name or path.exists():
        return ""
    return (
        f"the worker {name} does not see {path}. Workers read files themselves: put them in a folder that all machines "
        "share under the same name."
    )
