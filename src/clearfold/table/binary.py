"""Tables as arrays: Parquet, AnnData, and HDF5 in the form of CLAM and TRIDENT."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from clearfold.errors import MissingExtraError, TableError
from clearfold.table.bounds import check_declared, most_of
from clearfold.table.columns import Content, listed, no_duplicates
from clearfold.table.roles import Table, family

HDF5_KEYS = ("features", "coords", "feature_names")
COORDS = ("coord_x", "coord_y")
WALK_SECONDS, WALK_SPEED = 20, 20_000_000
"""Processor time to look through an HDF5 file: so long, and a second more for so many bytes."""


# Reading ---------------------------------------------------------------------------------------------------


def read_parquet(path: Path, text: set[str]) -> Content:
    """Every column of a Parquet file."""

    import pyarrow as pa
    import pyarrow.parquet as pq

    try:  # on one thread: a process that ends while Arrow's threads still run can abort
        schema, rows = pq.read_schema(path), pq.read_metadata(path).num_rows
        check_declared(path, rows * max(1, len(schema)) * 8)
        # A long text that is stored once and repeated a million times stays one text in memory.
        repeated = [field.name for field in schema if pa.types.is_string(field.type) or pa.types.is_binary(field.type)]
        table = pq.read_table(path, use_threads=False, read_dictionary=repeated)
        frame = table.to_pandas(use_threads=False)
    except TableError:
        raise
    except Exception as error:  # what pandas wrote into it is believed by Arrow, and fails in many ways
        raise TableError(f"this is not a readable Parquet file ({_said(error)}). Write it again.") from error
    unfolded = {str(name): frame[name].astype(object) for name in repeated if name in frame.columns}
    return Content(frame.assign(**unfolded) if unfolded and frame.columns.is_unique else frame)


def read_h5ad(path: Path, text: set[str]) -> Content:
    """X are the features, `obs` the other columns; `var` may have a column `family`."""
    anndata = _extra("anndata")
    check_hdf5(path)
    try:
        return _anndata_content(anndata.read_h5ad(path), path, text)
    except TableError:
        raise
    except Exception as error:
        raise TableError(f"this is not a readable AnnData file ({_said(error)}). Write it again.") from error


def _anndata_content(data: Any, path: Path, text: set[str]) -> Content:
    if data.X is None:
        raise TableError("X is empty: wanted is a matrix of samples by features.")
    check_declared(path, 8 * data.X.shape[0] * data.X.shape[1])  # of a sparse one, only what is not zero is in the file
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
    no_duplicates([str(name) for name in frame.columns], "column")
    return Content(frame, families=dict(zip(names, groups, strict=True)))


def read_hdf5(path: Path, text: set[str]) -> Content:
    """One slide: `features` [N, C], `coords` [N, 2] if any; the file's name is the slide."""
    h5py = _extra("h5py")
    check_hdf5(path)
    try:
        with h5py.File(path, "r") as file:
            values, coords, names = (np.asarray(file[key]) if key in file else None for key in HDF5_KEYS)
    except Exception as error:
        raise TableError(f"this is not a readable HDF5 file ({_said(error)}). Write it again.") from error
    if values is None or values.ndim != 2:
        came = "no dataset of that name" if values is None else f"the shape {values.shape}"
        raise TableError(f"wanted is a dataset 'features' of shape [samples, features]; there is {came}.")
    if values.dtype.kind not in "biuf":
        raise TableError(f"'features' are of the type {values.dtype}; wanted are numbers.")
    if coords is not None and coords.dtype.kind not in "biuf":
        raise TableError(f"'coords' are of the type {coords.dtype}; wanted are numbers.")
    if coords is not None and coords.shape != (len(values), 2):
        raise TableError(f"wanted are 'coords' of shape {(len(values), 2)}; there is {coords.shape}.")
    columns = [f"feature.{i}" for i in range(values.shape[1])]
    if names is not None:
        columns = _feature_names(names, values.shape[1])
    no_duplicates(["slide_id", *columns, *(COORDS if coords is not None else ())], "column")
    frame = pd.DataFrame(values, columns=columns)
    frame.insert(0, "slide_id", path.stem)
    if coords is not None:
        frame[list(COORDS)] = coords
    return Content(frame, families={name: family(name) for name in columns})


def _feature_names(names: Any, count: int) -> list[str]:
    if names.shape != (count,) or not all(isinstance(name, bytes | str) for name in names.tolist()):
        raise TableError(f"wanted are 'feature_names' as {count} texts; there is {names.dtype} of shape {names.shape}.")
    return [name.decode("utf-8", "backslashreplace") if isinstance(name, bytes) else name for name in names.tolist()]


def check_hdf5(path: Path) -> None:
    """Walk through the file in a process of its own: see `hdf5_walk`."""
    seconds = WALK_SECONDS + path.stat().st_size // WALK_SPEED
    script = Path(__file__).with_name("hdf5_walk.py")
    command = [sys.executable, "-P", str(script), str(path), str(most_of(path)), str(seconds)]
    path_ = os.pathsep.join(filter(None, sys.path))
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=10 * seconds, env=os.environ | {"PYTHONPATH": path_}, check=False
        )
        refused = json.loads(done.stdout)["refused"]
    except (subprocess.TimeoutExpired, ValueError, KeyError):
        refused = "the HDF5 library stops or never ends on it"
    if refused is not None:
        raise TableError(f"this is not a readable HDF5 file ({refused}). Write it again.")


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__


def _extra(module: str) -> Any:
    """A module of the extra `anndata`."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"This format needs {module}, which is not installed. Install it with: pip install 'clearfold[anndata]'"
        ) from error


# Writing ---------------------------------------------------------------------------------------------------


def write_parquet(table: Table, temporary: Path, path: Path) -> None:
    """Every column."""

    import pyarrow as pa

    try:
        table.frame.to_parquet(temporary, index=False)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise _cannot_hold(path, error) from error


def _cannot_hold(path: Path, error: Exception) -> TableError:
    return TableError(f"{path.name} cannot hold this table: {error}. Give each column one kind of value.")


def write_h5ad(table: Table, temporary: Path, path: Path) -> None:
    """The features as X, the other columns as `obs`, families in `var`."""
    anndata = _extra("anndata")
    about = table.frame.drop(columns=table.features)
    case = table.roles.get("case_id", "case_id")
    names = about[case] if case in about.columns else about.index
    about = about.drop(columns="case_id", errors="ignore").set_axis(pd.Index(names, name=None).astype(str))
    var = pd.DataFrame({"family": list(table.families.values())}, index=pd.Index(table.features))
    try:
        data = anndata.AnnData(X=table.X.to_numpy(), obs=about, var=var)
        data.strings_to_categoricals()  # as its own `write_h5ad` does
        _write_hdf5(temporary, lambda file: _extra("anndata.io").write_elem(file, "/", data))
    except (TypeError, ValueError, OverflowError) as error:
        raise _cannot_hold(path, error) from error


def write_hdf5(table: Table, temporary: Path, path: Path) -> None:
    """One slide: its features and, if there are any, coords; refused when anything else would be lost."""
    h5py = _extra("h5py")
    coords = [name for name in COORDS if set(COORDS) <= set(table.frame)]
    features = [name for name in table.features if name not in coords]
    lost = [name for name in table.frame if name not in {*features, *coords}]
    if lost == ["slide_id"] and set(table.frame["slide_id"]) == {path.stem}:
        lost = []
    if lost:
        raise TableError(
            f"A {path.suffix} file holds the features and coords of one slide, its own name; it would lose "
            f"{listed([str(name) for name in lost], 5)}. Write .parquet or .h5ad instead."
        )

    def fill(file: Any) -> None:
        file["features"] = table.frame[features].to_numpy(dtype=float, na_value=np.nan)
        if coords:
            file["coords"] = table.frame[coords].to_numpy()
        file["feature_names"] = np.array(features, dtype=h5py.string_dtype())

    _write_hdf5(temporary, fill)


def _write_hdf5(path: Path, fill: Callable[[Any], None]) -> None:
    """Made in memory and written at once: the HDF5 library ends the whole process when the disk is full."""
    with _extra("h5py").File(path.name, "w", driver="core", backing_store=False) as file:
        fill(file)
        file.flush()
        image = file.id.get_file_image()
    path.write_bytes(image)
