"""One SQLite file: opened with care, a connection for each thread, transactions, and errors in plain words."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clearfold.archive.migrations import APPLICATION_ID, missing, newest
from clearfold.errors import ArchiveError, ClearfoldError, MissingExtraError

HEADER = b"SQLite format 3\x00"
WAIT_MS = 30_000
"""How long one process waits while another one writes."""


class SqliteFile:
    """A file in write-ahead mode: many may read while one writes; a commit is on the disk before it returns."""

    def __init__(self, path: Path, *, create: bool, read_only: bool) -> None:
        self.path, self.name, self.read_only = path, path.name, read_only
        self._local = threading.local()
        self._open: list[tuple[int, Any]] = []
        self._closed = False
        with clear(self.name):
            if not path.exists():
                if not create or read_only:
                    raise ArchiveError(f"There is no archive {path}. Check its name, or make one with create=True.")
                _make(path)
            _check_header(path)
            _check_whole(path)
            try:
                self._upgrade()
            except BaseException:
                self.close()
                raise

    @property
    def connection(self) -> Any:
        """This thread's connection; a forked process gets one of its own."""
        if self._closed:
            raise ArchiveError(f"{self.name} was closed. Open the archive again.")
        known = getattr(self._local, "connection", None)
        if known is None or self._local.process != os.getpid():
            known = self._local.connection = connect(self.path, self.read_only)
            self._local.process, self._local.mode, self._local.state = os.getpid(), None, None
            self._open.append((os.getpid(), known))
        return known

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """One state of the file, whatever others write meanwhile."""
        connection = self.connection
        if self._local.mode:
            yield
            return
        with clear(self.name):
            connection.execute("BEGIN")
            self._local.mode = "reading"
            try:
                yield
            finally:
                self._local.mode = self._local.state = None
                if connection.in_transaction:
                    connection.execute("ROLLBACK")  # nothing was written

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """One transaction: on the disk at the end, or undone."""
        if self.read_only:
            raise ArchiveError(f"{self.name} was opened to be read only. Open it without read_only to change it.")
        connection = self.connection
        if self._local.mode == "writing":
            yield
            return
        with clear(self.name):
            connection.execute("BEGIN IMMEDIATE")
            self._local.mode = "writing"
            try:
                yield
                connection.execute("UPDATE state SET changes = changes + 1")
                connection.execute("COMMIT")
            finally:
                self._local.mode = None
                if connection.in_transaction:  # something went wrong on the way
                    connection.execute("ROLLBACK")

    def purge(self) -> None:
        """Empty the write-ahead log, so that what was deleted is in no file any more."""
        with clear(self.name):
            import apsw

            try:
                self.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            except apsw.BusyError as error:
                raise ArchiveError(
                    f"The cases were removed from {self.name}, but another process is still reading an older state "
                    f"of it: traces stay in {self.name}-wal until every process has closed the archive."
                ) from error

    def close(self) -> None:
        """Close every connection of this process; the last one of all processes tidies the log away."""
        self._closed = True
        for process, connection in self._open:
            if process == os.getpid():
                connection.close()

    def _upgrade(self) -> None:
        connection = self.connection
        stored = connection.pragma("user_version")
        if stored > newest("sqlite"):
            raise ArchiveError(
                f"{self.name} has format {stored}; this release knows formats up to {newest('sqlite')}. "
                "Install a newer clearfold to open it."
            )
        if stored < newest("sqlite") and not self.read_only:
            connection.execute("BEGIN IMMEDIATE")
            _migrate(connection)
            connection.execute("COMMIT")


def connect(path: Path, read_only: bool) -> Any:
    """A connection that trusts nothing in the file beyond its tables."""
    apsw = _apsw()
    if not read_only:
        found = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    elif _sealed(path):
        quoted = str(path.resolve()).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        found = apsw.Connection(f"file:{quoted}?immutable=1", flags=flags)
    else:
        found = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    found.set_busy_timeout(WAIT_MS)
    found.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    found.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    found.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    found.config(apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0)
    for pragma, value in {
        "foreign_keys": "ON",
        "secure_delete": "ON",
        "synchronous": "FULL",
        "cache_size": -65536,
    }.items():
        found.pragma(pragma, value)
    return found


def _sealed(path: Path) -> bool:
    """A whole archive in a folder that cannot be written: nobody can change it, and SQLite needs no files beside it."""
    return not os.access(path.parent, os.W_OK) and not _log(path).exists()


def _make(path: Path) -> None:
    """A new archive: written under another name first, so that a half-made one is never found under this one."""
    if not path.parent.is_dir():
        raise ArchiveError(f"The folder {path.parent} does not exist. Make it first, or give another place.")
    apsw = _apsw()
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        new = apsw.Connection(str(temporary))
        new.pragma("page_size", 4096)
        new.pragma("journal_mode", "wal")
        new.pragma("synchronous", "FULL")
        new.pragma("secure_delete", "ON")
        new.execute("BEGIN IMMEDIATE")
        new.pragma("application_id", APPLICATION_ID)
        _migrate(new)
        new.execute("COMMIT")
        new.close()
        with contextlib.suppress(FileExistsError):  # somebody else made it meanwhile: that one counts
            os.link(temporary, path)
    finally:
        for name in (temporary, _log(temporary), temporary.with_name(temporary.name + "-shm")):
            name.unlink(missing_ok=True)


def _migrate(connection: Any) -> None:
    """Run what is missing, inside a transaction; another process may have done it before."""
    for statement in missing("sqlite", connection.pragma("user_version")):
        connection.execute(statement)
    connection.pragma("user_version", newest("sqlite"))


def _check_header(path: Path) -> None:
    if path.is_dir():
        raise ArchiveError(f"{path} is a folder. Give the name of an archive, such as cases.clearfold.")
    with path.open("rb") as file:
        header = file.read(100)
    if not header:
        raise ArchiveError(f"{path.name} is empty: it was cut off. Bring it back from a copy, or delete it.")
    if not header.startswith(HEADER[: len(header)]):
        raise ArchiveError(f"{path.name} is not an archive of clearfold. Give the file that `Archive.open` made.")
    if len(header) < 100:
        raise ArchiveError(f"{path.name} was cut off: only {len(header)} bytes are left. Bring it back from a copy.")
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise ArchiveError(f"{path.name} is a SQLite file, but not an archive of clearfold.")


def _check_whole(path: Path) -> None:
    """The file has all the pages that its header names; looked at again, since another process may be writing it."""
    for _ in range(5):
        log = _log(path)
        if log.exists() and log.stat().st_size:
            return  # its last pages may still be in the log
        with path.open("rb") as file:
            header = file.read(100)
        size = int.from_bytes(header[16:18], "big")
        wanted = int.from_bytes(header[28:32], "big") * (65536 if size == 1 else size)
        found = path.stat().st_size
        if found >= wanted:
            return
        time.sleep(0.02)
    raise ArchiveError(
        f"{path.name} was cut off: {found} of {wanted} bytes are left. Bring it back from a copy; "
        "nothing was changed in it."
    )


def _log(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


@contextlib.contextmanager
def clear(name: str) -> Iterator[None]:
    """Errors of SQLite and of the file system, in words that say what to do."""
    apsw = _apsw()
    try:
        yield
    except ClearfoldError:
        raise
    except apsw.BusyError as error:
        raise ArchiveError(f"{name}: another process has been writing for {WAIT_MS // 1000} s. Try again.") from error
    except (apsw.FullError, apsw.IOError) as error:
        raise ArchiveError(
            f"{name} could not be read or written ({error}): the disk may be full or gone. "
            "Nothing of this call was kept; what was committed before is safe."
        ) from error
    except (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError, apsw.AuthError) as error:
        raise ArchiveError(
            f"{name} or its folder cannot be written ({error}). Open it with read_only=True, or change the rights."
        ) from error
    except (apsw.CorruptError, apsw.NotADBError, apsw.FormatError) as error:
        raise ArchiveError(f"{name} is damaged ({error}). Bring it back from a copy.") from error
    except apsw.Error as error:
        raise ArchiveError(f"{name}: {error}") from error
    except OSError as error:
        raise ArchiveError(f"{name} could not be opened: {error.strerror or error}.") from error
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ArchiveError(
            f"{name}: what is stored does not fit together ({type(error).__name__}: {error}). If another program wrote "
            "into it, or it was copied while in use, bring it back from a copy."
        ) from error


def _apsw() -> Any:
    try:
        import apsw
    except ImportError as error:
        raise MissingExtraError(
            "An archive in a file needs apsw, which is not installed. Install it with: pip install 'clearfold[archive]'"
        ) from error
    return apsw
