"""`clearfold doctor`: what is installed, what is missing, what is broken, and what to do about it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from clearfold.cli.archives import shown
from clearfold.cli.console import stderr
from clearfold.cli.health import WAIT_S, Check, at_work, clearfold, guarded, libraries, machine, python, there

STYLES = {"works": "green", "missing": "yellow", "broken": "bold red", "note": "dim"}
PURPOSES = {
    "core": "tables, embeddings, importance, saliency",
    "images": "images, slides, nuclei, features",
    "archive": "archives in a file, search",
    "postgres": "archives on a PostgreSQL server",
    "web": "the page of clearfold serve",
    "survival": "survival curves and risk groups",
    "anndata": "tables in .h5ad and .h5",
    "cluster": "work on several machines",
    "machine": "what there is to work with",
    "data": "public sets for clearfold reproduce",
    "servers": "what was asked for",
}


def doctor(
    postgres: Annotated[
        str | None, typer.Option(metavar="URL", help="Also try a server: postgresql://user@host/database.")
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Also try a Dask scheduler: tcp://host:8786.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the checks as JSON.")] = False,
) -> None:
    """Say what is installed, what is missing, what is broken, and what to type to mend it.

    An extra that is not installed is no fault: the exit code is 0 as long as all that is installed works, and 1 when
    something is broken or a server that was named does not answer. Nothing is changed and nothing is downloaded.

    Examples:

    - `clearfold doctor`
    - `clearfold doctor --json`
    - `clearfold doctor --postgres postgresql://user@host/pathology`
    """
    with stderr().status("looking around"):
        checks = [*examined(), *asked(postgres, scheduler)]
    broken = [check for check in checks if check.state == "broken"]
    if as_json:
        print(json.dumps({"healthy": not broken, "checks": [asdict(check) for check in checks]}, indent=2))
    else:
        _show(checks)
    if broken:
        raise typer.Exit(1)


def examined() -> Iterator[Check]:
    """Everything that can be looked at without leaving the machine."""
    yield python()
    yield clearfold()
    yield from libraries()
    yield from at_work()
    yield from machine()
    yield guarded("data", "CLEARFOLD_DATA", data_folder, "set it to the folder that holds the data", good="note")


def asked(postgres: str | None, scheduler: str | None) -> Iterator[Check]:
    """The servers that were named."""
    if postgres is not None:
        yield guarded("servers", "PostgreSQL", lambda: server(postgres), "check the address and that the server runs")
    if scheduler is not None:
        yield guarded("servers", "scheduler", lambda: workers(scheduler), "check the address and that it runs")


def data_folder() -> str:
    """Which public sets are here; nothing is fetched."""
    from clearfold.datasets.sources import SOURCES, VARIABLE, cache_folder

    named = os.environ.get(VARIABLE)
    if named and not Path(named).is_dir():
        raise NotADirectoryError(f"{named} is no folder")
    roots = [*([Path(named)] if named else []), cache_folder()]
    sets: dict[bool, list[str]] = {True: [], False: []}
    for name, source in SOURCES.items():
        ways = (source.prepared, tuple(f"{name}/{file.name}" for file in source.files))
        sets[any(all((root / file).exists() for file in way) for root in roots for way in ways if way)].append(name)
    place = f"set to {named}" if named else "not set"
    return f"{place}; here: {', '.join(sets[True]) or 'none'}; not here: {', '.join(sets[False]) or 'none'}"


def server(address: str) -> str:
    """A PostgreSQL server answers and has pgvector; its archive is named if it holds one."""
    from clearfold.archive.postgres_server import EXTENSION, SCHEMA
    from clearfold.errors import ArchiveError, MissingExtraError

    if not there("psycopg"):
        raise MissingExtraError('psycopg is not installed: pip install "clearfold[postgres]"')
    psycopg: Any = import_module("psycopg")
    try:
        with psycopg.connect(address, connect_timeout=WAIT_S) as connection:
            version = connection.execute("SHOW server_version").fetchone()[0]
            query = "SELECT default_version, installed_version FROM pg_available_extensions WHERE name = %s"
            extension = connection.execute(query, (EXTENSION,)).fetchone()
            archive = connection.execute("SELECT to_regclass(%s)", (f"{SCHEMA}.format",)).fetchone()[0]
    except psycopg.Error as error:  # its text may hold the address, and with it a password
        raise ArchiveError(f"{shown(address)} does not answer ({type(error).__name__})") from None
    if extension is None:
        raise ArchiveError(f"{shown(address)} has no extension {EXTENSION} (pgvector): ask its administrator for it")
    holds = "holds an archive" if archive else "holds no archive yet"
    return f"{version.split()[0]} at {shown(address)}, pgvector {extension[1] or extension[0]}, {holds}"


def workers(address: str) -> str:
    """A Dask scheduler answers; how many workers it has."""
    from clearfold.errors import MissingExtraError

    if not there("distributed"):
        raise MissingExtraError('distributed is not installed: pip install "clearfold[cluster]"')
    distributed: Any = import_module("distributed")
    with distributed.Client(address, timeout=WAIT_S, set_as_default=False) as client:
        threads = client.nthreads()
    return f"{len(threads)} workers with {sum(threads.values())} threads at {address}"


def _show(checks: list[Check]) -> None:
    """A table for each part, and at the end what to do."""
    console = Console()
    grid = Grid(show_header=False, box=None, pad_edge=False)
    for _ in range(2):
        grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for part in dict.fromkeys(check.part for check in checks):
        grid.add_row(Text(part, style="bold"), "", Text(PURPOSES[part], style="dim"))
        for check in checks:
            if check.part == part:
                grid.add_row(Text(f"  {check.name}"), Text(check.state, style=STYLES[check.state]), Text(check.about))
    console.print(grid)
    for line in advice(checks):
        console.print(Text(line), soft_wrap=True)


def advice(checks: list[Check]) -> list[str]:
    """What to type, broken things first; each command once."""
    lines = []
    for state, words in (("broken", "Broken"), ("missing", "Missing")):
        remedies = dict.fromkeys(check.remedy for check in checks if check.state == state and check.remedy)
        for remedy in remedies:
            names = ", ".join(check.name for check in checks if check.state == state and check.remedy == remedy)
            lines.append(f"{words}: {names}. Do: {remedy}")
    return lines or ["Everything is installed and works."]
