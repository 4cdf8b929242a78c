"""`--scheduler`: the work of a command on a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Annotated

import typer

from clearfold.cli.console import stderr

Scheduler = Annotated[
    str | None,
    typer.Option("--scheduler", metavar="ADDRESS", help="Work on a Dask cluster: its scheduler, tcp://host:8786."),
]


@contextmanager
def on_workers(address: str | None) -> Iterator[None]:
    """Inside, pieces of work go to the cluster if one was named; says how many workers it has."""
    if address is None:
        yield
        return
    from clearfold.cluster import on_cluster

    with ExitStack() as connection:
        with stderr().status(f"connecting to {address}"):
            cluster = connection.enter_context(on_cluster(address))
        stderr().print(f"working on {cluster}", markup=False, highlight=False, soft_wrap=True)
        yield
