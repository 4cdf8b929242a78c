"""From files to numbers: bounded, without pickle; and the digest of what was read."""

from __future__ import annotations

import gzip
import hashlib
import io
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from clearfold.datasets.sources import Found, refuse
from clearfold.errors import InputError

LARGEST = 500_000_000
"""Bytes that a compressed file may unfold to."""
BROKEN = (ValueError, KeyError, IndexError, OSError, EOFError, MemoryError, zipfile.BadZipFile, zlib.error)
"""What a damaged file makes readers raise."""


def arrays(path: Path) -> dict[str, Any]:
    """The arrays of a .npz file; one that holds objects, or unfolds to too much, is refused."""
    with zipfile.ZipFile(path) as archive:
        size = sum(entry.file_size for entry in archive.infolist())
    if size > LARGEST:
        raise InputError(f"{path.name} unfolds to {size} bytes; at most {LARGEST} are wanted.")
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def gzipped(path: Path) -> io.BytesIO:
    """What a .gz file holds, if it is not too much."""
    with gzip.open(path) as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise InputError(f"{path.name} unfolds to more than {LARGEST} bytes.")
    return io.BytesIO(content)


def sparse_arrays(path: Path) -> Any:
    """A sparse matrix as scipy's `save_npz` writes it, in rows."""
    held = arrays(path)
    shape = tuple(int(side) for side in held["shape"])
    return _canonical(sparse.csr_array((held["data"], held["indices"], held["indptr"]), shape=shape))


def official_dense(path: Path, n_features: int) -> Any:
    """Whole numbers, a line for each sample."""
    table = np.loadtxt(path, dtype=np.int32, ndmin=2)
    if table.shape[1] != n_features:
        raise ValueError(f"{path.name} has {table.shape[1]} columns; wanted are {n_features}")
    return table


def official_sparse(path: Path, n_features: int) -> Any:
    """`number:value` pairs, numbers from 1, a line for each sample."""
    pairs = [
        (row, *map(int, pair.split(":")))
        for row, line in enumerate(path.read_text(encoding="ascii").splitlines())
        for pair in line.split()
    ]
    rows, columns, values = np.array(pairs, dtype=np.int64).T
    if columns.min() < 1:
        raise ValueError(f"{path.name} has a feature number below 1")
    table = sparse.coo_array((values, (rows, columns - 1)), shape=(int(rows.max()) + 1, n_features))
    return _canonical(sparse.csr_array(table))


def official_labels(path: Path) -> Any:
    """-1 or 1 in each line."""
    labels = np.loadtxt(path, dtype=np.int8, ndmin=1)
    if not np.isin(labels, (-1, 1)).all():
        raise ValueError(f"{path.name} holds a label that is neither -1 nor 1")
    return labels


def digest(*values: Any) -> str:
    """One checksum of numbers and texts, whatever file they came from and however they are stored."""
    found = hashlib.sha256()
    for value in values:
        if sparse.issparse(value):
            value = _canonical(sparse.csr_array(value))
            found.update(digest(value.indptr, value.indices, value.data).encode())
            continue
        table = np.asarray(value)
        found.update(repr(table.shape).encode())
        if table.dtype.kind in "biuf":
            table = table.astype("<f8") + 0.0  # no negative zero
            table[np.isnan(table)] = np.nan
            found.update(table.tobytes())
        else:
            found.update("\0".join(str(one) for one in table.ravel()).encode())
    return found.hexdigest()


def checked(found: Found, wanted: tuple[int, ...], values: tuple[Any, ...]) -> None:
    """Refuse numbers of another shape or digest than those of the official set."""
    came = tuple(values[0].shape)
    if came != wanted:
        raise refuse(found, f"a table of shape {came} came; wanted is {wanted}")
    if found.source.digest is not None and digest(*values) != found.source.digest:
        raise refuse(found, "the numbers are not those of the official set (their digest differs)")


def _canonical(table: Any) -> Any:
    table.sum_duplicates()
    table.sort_indices()
    return table
