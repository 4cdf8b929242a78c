"""A PostgreSQL server: a pool of connections, transactions, and errors that never show a password."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Iterator
from typing import Any

from clearfold.archive.migrations import missing, newest
from clearfold.errors import ArchiveError, MissingExtraError

SCHEMA = "clearfold"
"""Everything is kept in a schema of this name."""
EXTENSION = "vector"
WAIT_S = 10
"""How long a connection may take."""
LOCK_WAIT = "30s"
"""How long one process waits while another one writes."""
CONNECTIONS = 8
BREADTH_OF_SEARCH = 200
"""Of the server's HNSW index."""


class PostgresServer:
    """Connections to one database. A connection that broke is replaced when the next one is asked for."""

    def __init__(self, address: str, *, create: bool, read_only: bool) -> None:
        self.name, self._secrets = _name_of(address)
        self.read_only = read_only
        self._address = address
        self._local = threading.local()
        self._pool: Any = None
        self._process = 0
        self._guard = threading.Lock()
        with self._clear():
            self._prepare(create and not read_only)

    def __repr__(self) -> str:
        return f"PostgreSQL {self.name}"

    @property
    def connection(self) -> Any:
        """The connection of the transaction that this thread is in."""
        return self._local.connection

    def reading(self) -> contextlib.AbstractContextManager[None]:
        """One state of the database, whatever others write meanwhile."""
        return self._transaction("reading", "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """One transaction; a second writer waits until it is done."""
        if self.read_only:
            raise ArchiveError(f"{self.name} was opened to be read only. Open it without read_only to change it.")
        outermost = getattr(self._local, "mode", None) is None
        with self._transaction("writing", f"SET LOCAL lock_timeout = '{LOCK_WAIT}'"):
            if outermost:
                self.connection.execute("SELECT 1 FROM state FOR UPDATE")
            yield
            if outermost:
                self.connection.execute("UPDATE state SET changes = changes + 1")

    @contextlib.contextmanager
    def _transaction(self, mode: str, first: str) -> Iterator[None]:
        if getattr(self._local, "mode", None):
            yield
            return
        with self._clear(), self._connections().connection() as connection, connection.transaction():
            connection.execute(first)
            self._local.connection, self._local.mode = connection, mode
            try:
                yield
            finally:
                self._local.connection = self._local.mode = None

    def _connections(self) -> Any:
        if self._process == -1:
            raise ArchiveError(f"{self.name} was closed. Open the archive again.")
        with self._guard:
            if self._process != os.getpid():  # a forked process cannot share the connections of its parent
                self._pool, self._process = _pool(self._address), os.getpid()
        return self._pool

    def close(self) -> None:
        """Close every connection of this process."""
        if self._process == os.getpid():
            self._pool.close()
        self._process = -1

    def alone(self, statement: str) -> None:
        """Run one statement outside of any transaction."""
        with self._clear(), self._connect(autocommit=True) as connection:
            connection.execute(statement)

    def _connect(self, *, autocommit: bool = False) -> Any:
        psycopg = _library("psycopg")
        connection = psycopg.connect(self._address, connect_timeout=WAIT_S, autocommit=autocommit)
        _configure(connection)
        return connection

    def _prepare(self, create: bool) -> None:
        """Check the format; make or upgrade the tables in one transaction."""
        with self._connect() as connection:
            stored = _format_of(connection)
            if stored is None and not create:
                raise ArchiveError(f"There is no archive in {self.name}. Make one with create=True.")
            if stored is not None and stored > newest("postgres"):
                raise ArchiveError(
                    f"{self.name} has format {stored}; this release knows formats up to {newest('postgres')}. "
                    "Install a newer clearfold to open it."
                )
            if stored == newest("postgres") or self.read_only:
                return
            connection.execute("SELECT pg_advisory_xact_lock(hashtext('clearfold'))")  # two may start at once
            _migrate(connection)

    @contextlib.contextmanager
    def _clear(self) -> Iterator[None]:
        """Errors of the server, in words that say what to do and without a password."""
        psycopg, pool = _library("psycopg"), _library("psycopg_pool")
        try:
            yield
        except (pool.PoolTimeout, pool.PoolClosed, pool.TooManyRequests):
            raise ArchiveError(
                f"{self.name} gave no connection within {WAIT_S} s. Check that the server runs and try again."
            ) from None
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
            raise ArchiveError(f"{self.name}: another process has been writing for {LOCK_WAIT}. Try again.") from None
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            raise ArchiveError(
                f"{self.name} cannot be reached or dropped the connection ({self._redacted(error)}). "
                "What was committed before is safe. Try again; cases that are there already are skipped."
            ) from None
        except psycopg.Error as error:
            raise ArchiveError(f"{self.name}: {self._redacted(error)}") from None

    def _redacted(self, error: Exception) -> str:
        text = " ".join(str(error).split())
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text


def _pool(address: str) -> Any:
    pool = _library("psycopg_pool")
    quiet = logging.getLogger("psycopg.pool")  # it would print every attempt; the error that we raise says it once
    if not quiet.handlers:
        quiet.addHandler(logging.NullHandler())
    return pool.ConnectionPool(
        address,
        min_size=0,
        max_size=CONNECTIONS,
        timeout=WAIT_S,
        reconnect_timeout=WAIT_S,
        kwargs={"connect_timeout": WAIT_S},
        configure=_configure,
        check=pool.ConnectionPool.check_connection,
        open=True,
    )


def _name_of(address: str) -> tuple[str, list[str]]:
    """`database on host`, and everything in the address that must not be shown."""
    _library("psycopg")
    from urllib.parse import quote

    from psycopg.conninfo import conninfo_to_dict

    known: dict[str, Any] = {}
    with contextlib.suppress(Exception):  # its text, and even its traceback, would show parts of the address
        known = conninfo_to_dict(address)
    if not known:
        raise ArchiveError(
            "this postgresql:// address cannot be read. Wanted is postgresql://user@host:port/database; characters "
            "such as @ or % in a password have to be percent-encoded."
        )
    passwords = [str(known[key]) for key in ("password", "sslpassword") if known.get(key)]
    secrets = [address, *passwords, *(quote(password, safe="") for password in passwords)]
    port = f":{known['port']}" if known.get("port") else ""
    return f"{known.get('dbname') or 'database'} on {known.get('host') or 'localhost'}{port}", secrets


def _configure(connection: Any) -> None:
    """Tables are found in our schema; JSON comes as text, as it does from a file."""
    from psycopg.types.json import set_json_loads

    set_json_loads(lambda data: bytes(data).decode() if not isinstance(data, str) else data, connection)
    for name, value in {
        "search_path": f"{SCHEMA}, public",
        "client_min_messages": "warning",
        "hnsw.ef_search": BREADTH_OF_SEARCH,
        "hnsw.iterative_scan": "strict_order",  # a filter may pass over many of the nearest
    }.items():
        connection.execute(f"SET {name} TO {value}")
    if not connection.autocommit:
        connection.commit()


def _format_of(connection: Any) -> int | None:
    there = connection.execute("SELECT to_regclass(%s)", (f"{SCHEMA}.format",)).fetchone()[0]
    return None if there is None else int(connection.execute(f"SELECT number FROM {SCHEMA}.format").fetchone()[0])


def _migrate(connection: Any) -> None:
    psycopg = _library("psycopg")
    stored = _format_of(connection)
    if stored is None:
        try:
            connection.execute(f"CREATE EXTENSION IF NOT EXISTS {EXTENSION}")
        except psycopg.Error as error:
            raise ArchiveError(
                f"the server has no extension `{EXTENSION}` (pgvector), or this user may not create it "
                f"({type(error).__name__}). Ask its administrator for CREATE EXTENSION {EXTENSION}."
            ) from None
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        connection.execute(f"CREATE TABLE {SCHEMA}.format (number BIGINT NOT NULL)")
        connection.execute(f"INSERT INTO {SCHEMA}.format VALUES (0)")
    for statement in missing("postgres", stored or 0):
        connection.execute(statement)
    connection.execute(f"UPDATE {SCHEMA}.format SET number = {newest('postgres')}")


def _library(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtraError(
            f"An archive on a server needs {name}, which is not installed. Install it with: pip install "
            "'clearfold[postgres]'"
        ) from error
