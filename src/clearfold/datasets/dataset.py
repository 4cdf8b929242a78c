"""What a loader gives: features or images, labels, patients, and where they come from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clearfold.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False, eq=False)
class Dataset:
    """Samples with their labels; row i of everything speaks of sample i.

    X : features, a DataFrame (a sparse matrix for Dexter); None for images
    y : label of each sample, -1 where it is not known; None if there are none
    groups : patient (or slide, or image) of each sample, None where nobody said
    split : part of the official split that a sample belongs to, None if there is no such split
    table : further columns: time and event, or the paths of image and mask
    about, source, licence : in words; some licences are not known to us, so link to the source and do not pass data on
    """

    name: str
    X: Any
    y: Any
    groups: Any
    split: Any
    table: pd.DataFrame
    about: str
    source: str
    licence: str

    @property
    def images(self) -> list[Path]:
        """Paths of the images."""
        return self._paths("image")

    @property
    def masks(self) -> list[Path]:
        """Paths of the masks, in the order of the images."""
        return self._paths("mask")

    def take(self, rows: Any) -> Dataset:
        """Some samples: indices, or True for each row to keep."""
        rows = np.asarray(rows)
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows
        parts = {name: _rows(getattr(self, name), rows) for name in ("X", "y", "groups", "split", "table")}
        return replace(self, **parts)

    def part(self, name: str) -> Dataset:
        """The samples of one part of the official split."""
        known = [] if self.split is None else sorted(set(self.split))
        if name not in known:
            raise InputError(f"{self.name} has no part {name!r}; its parts are {', '.join(known) or 'not defined'}.")
        return self.take(np.asarray(self.split == name))

    def _paths(self, column: str) -> list[Path]:
        if column not in self.table:
            raise InputError(f"{self.name} has no {column}s.")
        return [Path(path) for path in self.table[column]]

    def __len__(self) -> int:
        return len(self.table)

    def __repr__(self) -> str:
        size = f"{len(self)} samples" + ("" if self.X is None else f", {self.X.shape[1]} features")
        lines = [f"{self.name}: {size}", f"  {self.about}"]
        for name, values in (("labels", self.y), ("split", self.split)):
            if values is not None and len(set(values)) <= 20:
                counts = values.value_counts().sort_index()
                lines += [f"  {name}: " + ", ".join(f"{key} ({count})" for key, count in counts.items())]
        if self.groups is not None:
            lines += [f"  patients: {self.groups.nunique()}"]
        return "\n".join([*lines, f"  source: {self.source}", f"  licence: {self.licence}"])


def _rows(values: Any, rows: Any) -> Any:
    if values is None:
        return None
    return values.iloc[rows].reset_index(drop=True) if hasattr(values, "iloc") else values[rows]
