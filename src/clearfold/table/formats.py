"""Files: which suffix is read and written how, and a file that was there stays until the new one is whole."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pandas as pd

from clearfold.errors import TableError
from clearfold.table.binary import read_h5ad, read_hdf5, read_parquet, write_h5ad, write_hdf5, write_parquet
from clearfold.table.columns import IDS, ROLES, Content, flat, numeric
from clearfold.table.roles import Table, family
from clearfold.table.separated import read_separated, write_separated

PathLike: TypeAlias = str | os.PathLike[str]


@dataclass(frozen=True)
class Format:
    """How one kind of file is read and written."""

    read: Callable[[Path, set[str]], Content]
    write: Callable[[Table, Path, Path], None]


def _separated(mark: str) -> Format:
    return Format(partial(read_separated, separator=mark), partial(write_separated, separator=mark))


FORMATS = {
    ".csv": _separated(","),
    ".csv.gz": _separated(","),
    ".tsv": _separated("\t"),
    ".tsv.gz": _separated("\t"),
    ".parquet": Format(read_parquet, write_parquet),
    ".h5ad": Format(read_h5ad, write_h5ad),
    ".h5": Format(read_hdf5, write_hdf5),
    ".hdf5": Format(read_hdf5, write_hdf5),
}


def _suffix(path: Path) -> str:
    return next((suffix for suffix in FORMATS if path.name.lower().endswith(suffix)), path.suffix)


def format_of(path: Path) -> Format:
    """How files of this name are read and written; raises when the suffix is not known."""
    suffix = _suffix(path)
    if suffix not in FORMATS:
        raise TableError(f"{path.name}: the suffix {suffix!r} is not known. Tables are {', '.join(FORMATS)}.")
    return FORMATS[suffix]


# Reading ---------------------------------------------------------------------------------------------------


def read_table(
    path: PathLike,
    *,
    label: str | None = None,
    patient_id: str | None = None,
    slide_id: str | None = None,
    time: str | None = None,
    event: str | None = None,
    case_id: str | None = None,
    features: Iterable[str] | None = None,
    ignore: Iterable[str] = (),
) -> Table:
    """Read a feature table; the arguments name the columns with a role, `features` the only features.

    Raises `TableError` when the file or a column cannot be used. Missing values are kept (see `n_missing`).
    """
    path = _existing(Path(path))
    roles = dict(zip(ROLES, (case_id, patient_id, slide_id, label, time, event), strict=True))
    try:
        content = format_of(path).read(path, {roles[role] or role for role in IDS})
        unnamed = [name for name in content.unnamed if name not in roles.values()]
        ignore = [*unnamed, *([ignore] if isinstance(ignore, str) else ignore)]
        if features is None and content.families is not None:
            features = [name for name in content.families if name not in {*roles.values(), *ignore}]
        table = Table.from_frame(content.frame, features=features, ignore=ignore, **roles)
    except TableError as error:
        raise TableError(f"{path.name}: {error}") from error
    except OSError as error:
        raise TableError(f"{path.name} could not be read: {error.strerror or error}.") from error
    named = content.families or {}
    return replace(
        table,
        families={name: named.get(name, group) for name, group in table.families.items()},
        ignored=table.ignored | dict.fromkeys(unnamed, "no name in the header"),
    )


def _existing(path: Path) -> Path:
    if path.is_dir():
        raise TableError(f"{path} is a folder. Give one table file.")
    if not path.exists():
        raise TableError(f"There is no file {path}. Check its name and the folder you are in.")
    if path.stat().st_size == 0:
        raise TableError(f"{path.name} is empty. Wanted is a header and at least one row.")
    return path


# Writing ---------------------------------------------------------------------------------------------------


def write_table(table: Table | pd.DataFrame, path: PathLike) -> None:
    """Write every column; a file that was there stays as it was unless the new one is whole."""
    path = Path(path)
    write = format_of(path).write
    if not isinstance(table, Table):
        frame = flat(table)
        table = Table(frame, {}, _numeric_columns(frame))
    with atomic_write(path) as temporary:
        write(table, temporary, path)


def _numeric_columns(frame: pd.DataFrame) -> dict[str, str]:
    names = [str(name) for name, dtype in frame.dtypes.items() if numeric(dtype) and name not in ROLES]
    return {name: family(name) for name in names}


@contextmanager
def atomic_write(path: PathLike) -> Iterator[Path]:
    """A temporary path beside `path` to write to; it takes its place at the end, or vanishes on failure."""
    path = _resolved(Path(path))
    if path.is_dir():
        raise TableError(f"{path} is a folder. Give the name of a file to write.")
    if not path.parent.is_dir():
        raise TableError(f"The folder {path.parent} does not exist. Make it first, or write somewhere else.")
    temporary = path.with_name(f".{uuid.uuid4().hex}{_suffix(path)}")
    try:
        yield temporary
        if path.exists():
            shutil.copymode(path, temporary)
        os.replace(temporary, path)
    except OSError as error:
        raise TableError(f"{path} could not be written: {error.strerror or error}.") from error
    finally:
        temporary.unlink(missing_ok=True)


def _resolved(path: Path) -> Path:
    """The file that a link leads to."""
    try:
        found = path.resolve()
    except (OSError, RuntimeError) as error:
        raise TableError(f"{path} could not be written: its links go round, or it has an impossible name.") from error
    if found.is_symlink():
        raise TableError(f"{path} could not be written: its links go round.")
    return found
