"""Tables as arrays: Parquet, AnnData, and HDF5 in the form of CLAM and TRIDENT."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from clearfold.errors import MissingExtraError, TableError
from clearfold.table.columns import Content, listed, no_duplicates
from clearfold.table.roles import Table, family

HDF5_KEYS = ("features", "coords", "feature_names")
COORDS = ("coord_x", "coord_y")


# Reading ---------------------------------------------------------------------------------------------------


def read_parquet(path: Path, text: set[str]) -> Content:
    """Every column of a Parquet file."""

    import pyarrow as pa
    import pyarrow.parquet as pq

    try:  # on one thread: a process that ends while Arrow's threads still run can abort
        return Content(pq.read_table(path, use_threads=False).to_pandas(use_threads=False))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise TableError(f"this is not a readable Parquet file ({error}). Write it again.") from error


def read_h5ad(path: Path, text: set[str]) -> Content:
    """X are the features, `obs` the other columns; `var` may have a column `family`."""
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
    no_duplicates([str(name) for name in frame.columns], "column")
    return Content(frame, families=dict(zip(names, groups, strict=True)))


def read_hdf5(path: Path, text: set[str]) -> Content:
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
    return Content(frame, families={name: family(name) for name in columns})


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
    except (pa.ArrowException, ValueError) as error:
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
        anndata.AnnData(X=table.X.to_numpy(), obs=about, var=var).write_h5ad(temporary)
    except (TypeError, ValueError) as error:
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
    with h5py.File(temporary, "w") as file:
        file["features"] = table.frame[features].to_numpy(dtype=float, na_value=np.nan)
        if coords:
            file["coords"] = table.frame[coords].to_numpy()
        file["feature_names"] = np.array(features, dtype=h5py.string_dtype())
