"""Feature tables: one row for each sample, some columns with a role, the remaining numbers are features.

    read_table("features.csv", label="grade", patient_id="patient")  ->  Table  ->  .X, .y, .groups

A column named exactly like a role (`case_id`, `patient_id`, `slide_id`, `label`, `time`, `event`) has that
role; the arguments give a role to other names. Columns without a use are listed in `Table.ignored`.

Formats: .csv, .tsv (also .gz) and .parquet; with the extra `clearfold[anndata]` also .h5ad, and .h5 or .hdf5
in the form of CLAM and TRIDENT (`features` [N, C], `coords` [N, 2]). In CSV

- an empty cell, NA, N/A, NaN or null is a missing value;
- case, patient and slide ids are text: 007 stays 007;
- numbers come back exactly;
- text that a spreadsheet would run as a formula (it starts with = + - @, a tab or a carriage return) is
  written with a single quote before it, which `read_table` takes away again.
"""

from __future__ import annotations

import csv
import difflib
import gzip
import importlib
import os
import re
import shutil
import uuid
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias, cast

import numpy as np
import pandas as pd

from clearfold.errors import MissingExtraError, TableError

PathLike: TypeAlias = str | os.PathLike[str]

IDS = ("case_id", "patient_id", "slide_id")
ROLES = (*IDS, "label", "time", "event")
MISSING = ["", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "-nan", "null", "NULL"]
"""Cells of a CSV file that mean a missing value."""
EXACT: Literal["round_trip"] | None = "round_trip" if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1) else None
"""How pandas is told to read numbers exactly: since 3.1 it always does, and deprecates being told."""
FORMULA = re.compile(r"'*[=+\-@\t\r]")
"""The start of a text cell that is written with one more single quote."""
UNNAMED = re.compile(r"|Unnamed: \d+")
"""A column that pandas or R wrote for the row number: never a feature."""


# The table -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Dropped:
    """What `Table.complete` left out."""

    features: tuple[str, ...] = ()
    n_samples: int = 0

    @property
    def n_features(self) -> int:
        """How many features were left out."""
        return len(self.features)

    def __str__(self) -> str:
        gone = f"{_count(self.n_features, 'feature')} and {_count(self.n_samples, 'sample')}"
        return f"{gone} with missing values"


@dataclass(frozen=True, repr=False, eq=False)
class Table:
    """Samples as rows; `X` the features as floats, `y` the label, `groups` the patient.

    Made by `read_table` or `Table.from_frame`. `roles` maps a role to its column, `families` a feature to its
    family (the part of its name before the first dot), `ignored` any other column to the reason.

    >>> cells = {"patient_id": ["a", "b"], "graph.edges": [1, 2], "graph.nodes": [3, 4], "note": ["", "x"]}
    >>> Table.from_frame(pd.DataFrame(cells))
    Table: 2 samples, 2 features
      families: graph (2)
      roles: patient_id
      ignored: note (text)
    """

    frame: pd.DataFrame
    roles: dict[str, str]
    families: dict[str, str]
    ignored: dict[str, str] = field(default_factory=dict)
    dropped: Dropped = Dropped()

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        *,
        features: Iterable[str] | None = None,
        ignore: Iterable[str] = (),
        **roles: str | None,
    ) -> Table:
        """Check a frame and say which column is what; `features`, if given, are the only ones."""
        given = {str(name) for name in frame.columns}
        frame = _flat(frame)
        ignore = [ignore] if isinstance(ignore, str) else list(ignore)
        for name in ignore:
            _present(name, frame, "ignore")
        taken = _roles(frame, roles, ignore)
        reasons = _ignored(frame, taken, ignore)
        reasons |= {str(name): "the index" for name in frame.columns if name not in {*given, *taken.values()}}
        used = {*reasons, *taken.values()}
        kept = [str(name) for name in frame.columns if name not in used]
        if features is not None:
            asked = [_feature(name, frame, reasons, taken) for name in features]
            reasons |= {name: "not among the features" for name in kept if name not in set(asked)}
            kept = asked
        _check_features(frame, kept, reasons)
        _check_roles(frame, taken)
        return cls(frame, taken, {name: family(name) for name in kept}, reasons)

    @property
    def features(self) -> list[str]:
        """The names of the features, in the order of the columns of `X`."""
        return list(self.families)

    @property
    def X(self) -> pd.DataFrame:
        """The features as floats (n samples, m features); a missing value is NaN."""
        values = self.frame[self.features].to_numpy(dtype=float, na_value=np.nan)
        return pd.DataFrame(values, index=self.frame.index, columns=self.features)

    @property
    def y(self) -> pd.Series[Any] | None:
        """The label of each sample, or None when the table has none."""
        return self.role("label")

    @property
    def groups(self) -> pd.Series[Any] | None:
        """What must not be split: the patient of each sample, else the slide, else None."""
        name = next((role for role in ("patient_id", "slide_id") if role in self.roles), "patient_id")
        column = self.role(name)
        if column is not None and column.isna().any():
            raise TableError(
                f"{column.isna().sum()} of {len(column)} samples have no {name}: they could be split "
                f"from their own patient. Fill the column {self.roles[name]!r}, or drop these rows."
            )
        return column

    def role(self, name: str) -> pd.Series[Any] | None:
        """The column that has this role, or None."""
        if name not in ROLES:
            raise TableError(f"{name!r} is not a role. Roles are {', '.join(ROLES)}.")
        return self.frame[self.roles[name]] if name in self.roles else None

    @property
    def n_missing(self) -> int:
        """How many values of the features are missing."""
        return int(self.frame[self.features].isna().to_numpy().sum())

    def complete(self, *, max_missing: float = 0.05) -> Table:
        """The table without missing values: drop features that miss a larger share, then incomplete samples.

        Nothing is filled in. The result's `dropped` says what is gone; rows keep their numbers in the index.
        """
        if not 0 <= max_missing <= 1:
            raise TableError(f"max_missing={max_missing} came; wanted is a share from 0 to 1, such as 0.05.")
        missing = self.frame[self.features].isna()
        share = missing.mean()
        gone = [str(name) for name in share.index[share > max_missing]]
        kept = {name: group for name, group in self.families.items() if name not in set(gone)}
        whole = ~missing[list(kept)].any(axis=1)
        if not kept or not whole.any():
            raise TableError(
                f"Nothing is left of {len(self)} samples and {len(self.families)} features after dropping "
                f"features with more than {max_missing:.0%} missing values and then incomplete samples. "
                "Give another max_missing, or fill the missing values before reading the table."
            )
        frame = self.frame.loc[whole].drop(columns=gone)
        return replace(self, frame=frame, families=kept, dropped=Dropped(tuple(gone), int(len(whole) - whole.sum())))

    def __len__(self) -> int:
        return len(self.frame)

    def __repr__(self) -> str:
        lines = [f"Table: {_count(len(self), 'sample')}, {_count(len(self.families), 'feature')}"]
        lines += [f"  families: {_listed(_family_counts(self.families), 8)}"]
        if self.roles:
            lines += [f"  roles: {', '.join(r if r == c else f'{r} = {c}' for r, c in self.roles.items())}"]
        if missing := self.n_missing:
            share = missing / max(1, len(self) * len(self.families))
            lines += [f"  missing: {_count(missing, 'value')} ({share:.2%})"]
        if self.dropped != Dropped():
            lines += [f"  dropped: {self.dropped}"]
        if self.ignored:
            lines += [f"  ignored: {_listed([f'{name} ({why})' for name, why in self.ignored.items()], 8)}"]
        return "\n".join(lines)


def family(feature: str) -> str:
    """The part of a feature's name before the first dot (the whole name when it has none).

    >>> family("graph.delaunay.edge_length.disorder")
    'graph'
    """
    return feature.split(".", 1)[0]


def _family_counts(families: Mapping[str, str]) -> list[str]:
    counts = Counter(families.values())
    named = [f"{name} ({count})" for name, count in counts.most_common() if count > 1]
    alone = sum(count == 1 for count in counts.values())
    return [*named, f"{alone} of one feature"] if alone else named


# Which column is what --------------------------------------------------------------------------------------


def _flat(frame: pd.DataFrame) -> pd.DataFrame:
    """Text names without duplicates, rows counted from 0; an index that says something becomes a column."""
    index = frame.index
    if index.nlevels > 1 or any(index.names) or not pd.api.types.is_integer_dtype(index.dtype):
        spare = "case_id" if index.is_unique and "case_id" not in frame.columns else "index"
        frame = frame.reset_index(names=[name or spare for name in index.names], allow_duplicates=True)
    frame = frame.set_axis([str(name) for name in frame.columns], axis=1).reset_index(drop=True)
    _no_duplicates([str(name) for name in frame.columns], "column")
    if frame.empty:
        rows, columns = frame.shape
        raise TableError(f"{rows} rows and {columns} columns: wanted is at least one of each. Add samples.")
    return frame


def _roles(frame: pd.DataFrame, asked: Mapping[str, str | None], ignore: Sequence[str]) -> dict[str, str]:
    """Role -> column: the asked name, else the column named like the role."""
    roles = {}
    for role in [*ROLES, *(set(asked) - set(ROLES))]:
        name = asked.get(role)
        if role not in ROLES:
            raise TableError(f"{role!r} is not a role. Roles are {', '.join(ROLES)}.")
        if name is not None:
            roles[role] = _present(name, frame, role)
            if name in ignore:
                raise TableError(f"Column {name!r} is both {role} and in ignore. Choose one.")
        elif role in frame.columns and role not in ignore:
            roles[role] = role
    return roles


def _ignored(frame: pd.DataFrame, roles: Mapping[str, str], ignore: Sequence[str]) -> dict[str, str]:
    """Column without a use -> reason."""
    reasons = dict.fromkeys(ignore, "as asked")
    for name, dtype in frame.dtypes.items():
        name = str(name)
        if name in roles.values() or name in reasons:
            continue
        if name in ROLES:
            reasons[name] = f"{name} is {roles.get(name)}"
        elif not _numeric(dtype):
            reasons[name] = _why_not_numeric(frame[name])
    return reasons


def _numeric(dtype: Any) -> bool:
    return bool(pd.api.types.is_numeric_dtype(dtype)) and not pd.api.types.is_complex_dtype(dtype)


def _why_not_numeric(column: pd.Series[Any]) -> str:
    """Say `text`, or which few cells keep a column of numbers from being a feature."""
    if not pd.api.types.is_object_dtype(column.dtype) and not pd.api.types.is_string_dtype(column.dtype):
        return str(column.dtype)
    wrong = column.notna() & pd.to_numeric(column.astype(object), errors="coerce").isna()
    if 0 < wrong.sum() < 0.5 * column.notna().sum():
        return f"text in {wrong.sum()} of {len(column)} cells, such as {column[wrong].iloc[0]!r}"
    return "text"


def _present(name: str, frame: pd.DataFrame, wanted_for: str) -> str:
    columns = [str(column) for column in frame.columns]
    if name in columns:
        return name
    lowered = {column.lower(): column for column in reversed(columns)}
    close = [lowered[match] for match in difflib.get_close_matches(str(name).lower(), lowered, n=3)]
    hint = f"Did you mean {' or '.join(map(repr, close))}? " if close else ""
    raise TableError(
        f"There is no column {name!r} (wanted for {wanted_for}). {hint}The columns are: {_listed(columns, 12)}."
    )


def _feature(name: str, frame: pd.DataFrame, reasons: Mapping[str, str], roles: Mapping[str, str]) -> str:
    """A declared feature, when it can be one."""
    _present(name, frame, "features")
    used = next((role for role, column in roles.items() if column == name), None)
    if used is not None:
        raise TableError(f"Column {name!r} is the {used}: it cannot be a feature too.")
    if name in reasons:
        raise TableError(
            f"Column {name!r} cannot be a feature: wanted are numbers, and it is {reasons[name]}. "
            "Turn it into numbers, or leave it out of the features."
        )
    return name


def _check_features(frame: pd.DataFrame, features: list[str], reasons: Mapping[str, str]) -> None:
    _no_duplicates(features, "feature")
    if not features:
        set_aside = _listed([f"{name} ({why})" for name, why in reasons.items()], 8) or "none"
        raise TableError(
            "There is no numeric feature: at least one column of numbers without a role is needed. "
            f"Columns set aside: {set_aside}. Check the separator and that decimals use a point."
        )
    infinite = np.isinf(frame[features].to_numpy(dtype=float, na_value=np.nan))
    if infinite.any():
        where = [name for name, any_ in zip(features, infinite.any(axis=0), strict=True) if any_]
        raise TableError(
            f"{_count(int(infinite.sum()), 'infinite value')} in {_listed(where, 5)}. "
            "Replace them by numbers, or leave these cells empty (missing)."
        )


def _check_roles(frame: pd.DataFrame, roles: Mapping[str, str]) -> None:
    if "case_id" in roles:
        ids = frame[roles["case_id"]]
        if ids.isna().any():
            raise TableError(f"Column {ids.name!r} (case_id) misses {ids.isna().sum()} values. Fill them.")
        _no_duplicates(list(ids), "case id")
    if "time" in roles:
        time = _numbers(frame[roles["time"]], "time", "numbers that are not negative")
        if (time < 0).any() or np.isinf(time).any():
            raise TableError(f"Column {roles['time']!r} (time) has negative or infinite values.")
    if "event" in roles:
        event = _numbers(frame[roles["event"]], "event", "1 (it happened) or 0 (censored)")
        if not event.dropna().isin([0, 1]).all():
            raise TableError(
                f"Column {roles['event']!r} (event) has the values "
                f"{_listed(sorted(map(str, event.unique())), 5)}; wanted is 1 (it happened) or 0 (censored)."
            )


def _numbers(column: pd.Series[Any], role: str, wanted: str) -> pd.Series[float]:
    values = pd.to_numeric(column.astype(object), errors="coerce")
    wrong = column[column.notna() & values.isna()]
    if len(wrong):
        raise TableError(
            f"Column {column.name!r} ({role}) has text such as {wrong.iloc[0]!r}; wanted are {wanted}. "
            f"Turn it into numbers, or pass ignore=[{column.name!r}] to leave it out."
        )
    return values


def _no_duplicates(names: Sequence[Any], what: str) -> None:
    twice = [str(name) for name, count in Counter(names).items() if count > 1]
    if twice:
        raise TableError(f"Duplicate {what}: {_listed(twice, 5)}. Wanted is each once: rename or drop the others.")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _listed(names: Sequence[str], most: int) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


# Reading ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Content:
    """What a file holds, before roles are given."""

    frame: pd.DataFrame
    families: dict[str, str] | None = None
    """Feature -> family, when the format itself says what is a feature."""
    unnamed: tuple[str, ...] = ()


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


def _read_csv(path: Path, text: set[str], separator: str) -> _Content:
    try:
        header = _check_csv(path, separator)
        frame = pd.read_csv(
            path,
            sep=separator,
            dtype={name: str for name in header if name in text},
            encoding="utf-8-sig",
            float_precision=EXACT,
            keep_default_na=False,
            na_values=MISSING,
            low_memory=False,
        )
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise TableError(f"byte {byte:#x} is not UTF-8 text. Save the file as UTF-8.") from error
    except (csv.Error, pd.errors.ParserError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TableError(f"the file is damaged ({error}). Write it again.") from error
    unnamed = tuple(str(name) for name, raw in zip(frame.columns, header, strict=True) if UNNAMED.fullmatch(raw))
    return _Content(_without_guard(frame), unnamed=unnamed)


def _check_csv(path: Path, separator: str) -> list[str]:
    """The raw header, once every row has as many cells as it names (pandas mends both faults in silence)."""
    with _open_text(path) as lines:
        rows = csv.reader(lines, delimiter=separator)
        header = next(filter(None, rows), [])
        if not header:
            raise TableError("the file has no header. Wanted is a header and at least one row.")
        _no_duplicates([name for name in header if name], "column")
        other = next((mark for mark in ";\t," if mark in "".join(header)), None)
        if len(header) == 1 and other:
            raise TableError(f"cells seem separated by {other!r}; wanted is {separator!r}. Save the file again.")
        for row in rows:
            if row and len(row) != len(header):
                raise TableError(
                    f"line {rows.line_num} has {len(row)} cells but the header names {len(header)} columns. "
                    "Quote cells that hold the separator, or mend that line."
                )
    return header


def _open_text(path: Path) -> IO[str]:
    if path.name.lower().endswith(".gz"):
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _without_guard(frame: pd.DataFrame) -> pd.DataFrame:
    """Take away the single quote that `write_table` puts before text that looks like a formula."""
    text = [name for name, dtype in frame.dtypes.items() if not _numeric(dtype)]
    changed = {name: frame[name].map(_unguard) for name in text if frame[name].map(_guarded).any()}
    return frame.assign(**cast("dict[str, Any]", changed)).rename(columns=_unguard)


def _guarded(cell: object) -> bool:
    return isinstance(cell, str) and cell.startswith("'") and FORMULA.match(cell) is not None


def _unguard(cell: Any) -> Any:
    return cell[1:] if _guarded(cell) else cell


def _read_parquet(path: Path, text: set[str]) -> _Content:
    import pyarrow as pa

    try:
        return _Content(pd.read_parquet(path))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise TableError(f"this is not a readable Parquet file ({error}). Write it again.") from error


def _read_h5ad(path: Path, text: set[str]) -> _Content:
    anndata = _extra("anndata")
    try:
        data = anndata.read_h5ad(path)
    except Exception as error:
        raise TableError(f"this is not a readable AnnData file ({error}). Write it again.") from error
    if data.X is None:
        raise TableError("X is empty: wanted is a matrix of samples by features.")
    values = data.X.toarray() if hasattr(data.X, "toarray") else np.asarray(data.X)
    names = [str(name) for name in data.var_names]
    groups = data.var["family"].astype(str) if "family" in data.var else map(family, names)
    about = data.obs.copy()
    for name, dtype in about.dtypes.items():
        if isinstance(dtype, pd.CategoricalDtype):
            about[name] = about[name].astype(object)
    counted = list(data.obs_names) == [str(row) for row in range(len(about))]
    if "case_id" in text and "case_id" not in about and not counted:
        about.insert(0, "case_id", data.obs_names.astype(object))
    about = about.reset_index(drop=True)
    frame = pd.concat([about, pd.DataFrame(values, columns=names)], axis=1)
    _no_duplicates([str(name) for name in frame.columns], "column")
    return _Content(frame, families=dict(zip(names, groups, strict=True)))


def _read_hdf5(path: Path, text: set[str]) -> _Content:
    """One slide: `features` [N, C], `coords` [N, 2] if any; the file's name is the slide."""
    h5py = _extra("h5py")
    try:
        with h5py.File(path, "r") as file:
            values, coords, names = (np.asarray(file[key]) if key in file else None for key in HDF5_KEYS)
    except Exception as error:
        raise TableError(f"this is not a readable HDF5 file ({error}). Write it again.") from error
    if values is None or values.ndim != 2:
        came = "no dataset of that name" if values is None else f"the shape {values.shape}"
        raise TableError(f"wanted is a dataset 'features' of shape [samples, features]; there is {came}.")
    if coords is not None and coords.shape != (len(values), 2):
        raise TableError(f"wanted are 'coords' of shape {(len(values), 2)}; there is {coords.shape}.")
    columns = [f"feature.{i}" for i in range(values.shape[1])]
    if names is not None:
        columns = [name.decode() for name in names]
    frame = pd.DataFrame(values, columns=columns)
    frame.insert(0, "slide_id", path.stem)
    if coords is not None:
        frame[list(COORDS)] = coords
    return _Content(frame, families={name: family(name) for name in columns})


HDF5_KEYS = ("features", "coords", "feature_names")
COORDS = ("coord_x", "coord_y")


def _extra(module: str) -> Any:
    """A module of the extra `anndata`."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"This format needs {module}, which is not installed. Install it with: pip install 'clearfold[anndata]'"
        ) from error


# Writing ---------------------------------------------------------------------------------------------------


def write_table(table: Table | pd.DataFrame, path: PathLike) -> None:
    """Write every column; a file that was there stays as it was unless the new one is whole."""
    path = Path(path)
    write = format_of(path).write
    if not isinstance(table, Table):
        frame = _flat(table)
        table = Table(frame, {}, _numeric_columns(frame))
    with atomic_write(path) as temporary:
        write(table, temporary, path)


def _numeric_columns(frame: pd.DataFrame) -> dict[str, str]:
    names = [str(name) for name, dtype in frame.dtypes.items() if _numeric(dtype) and name not in ROLES]
    return {name: family(name) for name in names}


@contextmanager
def atomic_write(path: PathLike) -> Iterator[Path]:
    """A temporary path beside `path` to write to; it takes its place at the end, or vanishes on failure."""
    path = Path(path).resolve()
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


def _write_csv(table: Table, temporary: Path, path: Path, separator: str) -> None:
    frame = table.frame
    text = {name: frame[name].astype(object) for name, dtype in frame.dtypes.items() if not _numeric(dtype)}
    guarded = {name: column.map(_guard) for name, column in text.items()}
    frame = frame.assign(**cast("dict[str, Any]", guarded)).rename(columns=_guard)
    cells = [str(cell) for column in [frame.columns, *guarded.values()] for cell in column]
    # The csv module quotes a lone carriage return only when it quotes all text.
    quoting: Literal[0, 2] = csv.QUOTE_NONNUMERIC if "\r" in "".join(cells) else csv.QUOTE_MINIMAL
    with _create(temporary, path.name.lower().endswith(".gz")) as file:
        frame.to_csv(file, sep=separator, index=False, quoting=quoting, lineterminator="\n", encoding="utf-8")


@contextmanager
def _create(path: Path, compressed: bool) -> Iterator[IO[bytes]]:
    """A file to write to; a compressed one carries neither its name nor the time, so equal tables are equal."""
    with path.open("wb") as file:
        if compressed:
            with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
                yield cast("IO[bytes]", packed)
        else:
            yield file


def _guard(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and FORMULA.match(cell) else cell


def _write_parquet(table: Table, temporary: Path, path: Path) -> None:
    import pyarrow as pa

    try:
        table.frame.to_parquet(temporary, index=False)
    except (pa.ArrowException, ValueError) as error:
        raise _cannot_hold(path, error) from error


def _cannot_hold(path: Path, error: Exception) -> TableError:
    return TableError(f"{path.name} cannot hold this table: {error}. Give each column one kind of value.")


def _write_h5ad(table: Table, temporary: Path, path: Path) -> None:
    anndata = _extra("anndata")
    about = table.frame.drop(columns=table.features)
    case = table.roles.get("case_id", "case_id")
    names = about[case] if case in about.columns else about.index
    about = about.drop(columns="case_id", errors="ignore").set_axis(pd.Index(names, name=None).astype(str))
    var = pd.DataFrame({"family": list(table.families.values())}, index=pd.Index(table.features))
    try:
        anndata.AnnData(X=table.X.to_numpy(), obs=about, var=var).write_h5ad(temporary)
    except (TypeError, ValueError) as error:
        raise _cannot_hold(path, error) from error


def _write_hdf5(table: Table, temporary: Path, path: Path) -> None:
    h5py = _extra("h5py")
    coords = [name for name in COORDS if set(COORDS) <= set(table.frame)]
    features = [name for name in table.features if name not in coords]
    lost = [name for name in table.frame if name not in {*features, *coords}]
    if lost == ["slide_id"] and set(table.frame["slide_id"]) == {path.stem}:
        lost = []
    if lost:
        raise TableError(
            f"A {path.suffix} file holds the features and coords of one slide, its own name; it would lose "
            f"{_listed([str(name) for name in lost], 5)}. Write .parquet or .h5ad instead."
        )
    with h5py.File(temporary, "w") as file:
        file["features"] = table.frame[features].to_numpy(dtype=float, na_value=np.nan)
        if coords:
            file["coords"] = table.frame[coords].to_numpy()
        file["feature_names"] = np.array(features, dtype=h5py.string_dtype())


# Formats ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Format:
    read: Callable[[Path, set[str]], _Content]
    write: Callable[[Table, Path, Path], None]


def _separated(mark: str) -> _Format:
    return _Format(partial(_read_csv, separator=mark), partial(_write_csv, separator=mark))


FORMATS = {
    ".csv": _separated(","),
    ".csv.gz": _separated(","),
    ".tsv": _separated("\t"),
    ".tsv.gz": _separated("\t"),
    ".parquet": _Format(_read_parquet, _write_parquet),
    ".h5ad": _Format(_read_h5ad, _write_h5ad),
    ".h5": _Format(_read_hdf5, _write_hdf5),
    ".hdf5": _Format(_read_hdf5, _write_hdf5),
}


def _suffix(path: Path) -> str:
    return next((suffix for suffix in FORMATS if path.name.lower().endswith(suffix)), path.suffix)


def format_of(path: Path) -> _Format:
    """How files of this name are read and written; raises when the suffix is not known."""
    suffix = _suffix(path)
    if suffix not in FORMATS:
        raise TableError(f"{path.name}: the suffix {suffix!r} is not known. Tables are {', '.join(FORMATS)}.")
    return FORMATS[suffix]
