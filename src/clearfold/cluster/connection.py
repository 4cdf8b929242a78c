"""The connection to a scheduler: found, checked once, and closed at the end."""

from __future__ import annotations

import pickle
import socket
import uuid
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from clearfold.cluster.calls import unpacked
from clearfold.errors import InputError, MissingExtraError

WAIT_S = 10
"""How long scheduler and workers may take to answer."""
SAME = ("clearfold", "python", "numpy", "scipy", "sklearn")
"""Versions that must be equal everywhere, or figures would not be."""

CURRENT: ContextVar[Cluster | None] = ContextVar("cluster", default=None)


class Cluster:
    """A connection to a scheduler, and the arrays that lie there."""

    def __init__(self, client: Any, address: str) -> None:
        self.client, self.address = client, address
        self.sent: dict[int, tuple[Any, Any]] = {}

    @property
    def workers(self) -> dict[str, int]:
        """Address -> threads of each worker that is there now."""
        return dict(self.client.ncores())

    def __str__(self) -> str:
        threads = self.workers
        several = sum(count > 1 for count in threads.values())
        note = f"; {several} of them have several threads, of which one is used (start with --nthreads 1)"
        return f"{len(threads)} workers of {self.address}{note if several else ''}"

    def send(self, array: Any) -> Any:
        """The array as a future, sent when it is first met and kept as long as the array lives here.

        It is a task with the content in it, not scattered data: a worker that dies with it is replaced by another,
        to which the scheduler gives the task again.
        """
        known = self.sent.get(id(array))
        if known is not None and known[0]() is array:
            return known[1]
        from dask import config

        key = id(array)
        with config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            content = pickle.dumps(array, protocol=pickle.HIGHEST_PROTOCOL)
            future = self.client.submit(unpacked, content, key=f"clearfold-array-{uuid.uuid4().hex}", pure=False)
        self.sent[key] = (weakref.ref(array, lambda _: self.sent.pop(key, None)), future)
        return future


@contextmanager
def on_cluster(address: str | None) -> Iterator[Cluster | None]:
    """Inside, `parallel` runs calls on the workers of the scheduler at this address; None is this machine.

    Results are those of one machine. Workers that die are replaced by the others, workers that join take part. Code is
    sent, so connect only to a scheduler that you trust, on a network that you trust (or by tls://).
    """
    if address is None:
        yield None
        return
    client = _client(address)
    try:
        _check(client, address)
        cluster = Cluster(client, address)
        token = CURRENT.set(cluster)
        try:
            yield cluster
        finally:
            CURRENT.reset(token)
            cluster.sent.clear()
    finally:
        client.close(timeout=WAIT_S)


def _client(address: str) -> Any:
    try:
        client = import_module("distributed").Client
    except ImportError as error:
        raise MissingExtraError(
            "A cluster needs distributed, which is not installed. Install it with: pip install 'clearfold[cluster]'"
        ) from error
    scheme, host, port = _parts(address)
    try:
        _probe(scheme, host, port)
        return client(address, timeout=WAIT_S, set_as_default=False, name="clearfold")
    except (OSError, TimeoutError, ValueError, TypeError, RuntimeError) as error:
        raise InputError(
            f"No Dask scheduler answers at {address} ({str(error) or type(error).__name__}). Start one with: "
            f"dask scheduler --port {port}. Then check host, port and whether it is tcp:// or tls://."
        ) from error


def _probe(scheme: str, host: str, port: int) -> None:
    """Fail at once where nobody is, or somebody else: Dask's client would try for long, or wait for ever."""
    with socket.create_connection((host, port), timeout=WAIT_S) as line:
        # a scheduler greets first, and begins with a number of eight bytes: how many follow
        if scheme == "tcp" and not 0 < int.from_bytes(line.recv(8), "little") < 2**20:
            raise OSError("another program is there")


def _parts(address: str) -> tuple[str, str, int]:
    wanted = f"The scheduler {address} came; wanted is an address such as tcp://host:8786, or tls://host:8786."
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise InputError(wanted) from None
    if parts.scheme not in ("tcp", "tls") or not host or not port:
        raise InputError(wanted)
    return parts.scheme, host, port


def _check(client: Any, address: str) -> None:
    """Refuse a cluster without workers, or one whose figures could differ from ours."""
    try:
        client.wait_for_workers(1, timeout=WAIT_S)
    except TimeoutError as error:
        raise InputError(
            f"The scheduler at {address} has no workers. Start some with: dask worker {address} --nthreads 1"
        ) from error
    found = client.get_versions(packages=[name for name in SAME if name != "python"])
    ours = _versions(found["client"])
    everyone = {"The scheduler": found["scheduler"]} | {f"The worker {at}": of for at, of in found["workers"].items()}
    for who, facts in everyone.items():
        theirs = _versions(facts)
        wrong = [name for name in SAME if theirs.get(name) != ours[name]]
        if wrong:
            there = ", ".join(f"{name} {theirs.get(name) or 'missing'}" for name in wrong)
            here = ", ".join(f"{name} {ours[name]}" for name in wrong)
            raise InputError(f"{who} has {there}; here is {here}. Install the same everywhere: results could differ.")


def _versions(facts: Any) -> dict[str, str | None]:
    packages = dict(facts.get("packages", {})) if isinstance(facts, dict) else {}
    if packages.get("python"):
        packages["python"] = ".".join(str(packages["python"]).split(".")[:2])
    return packages
