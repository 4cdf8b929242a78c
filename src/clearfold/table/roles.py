"""The table: samples as rows, columns with a role, features with a family."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from clearfold.errors import TableError
from clearfold.table.columns import (
    ROLES,
    check_features,
    check_roles,
    count_of,
    declared,
    find_roles,
    flat,
    listed,
    present,
    without_use,
)
from clearfold.table.frames import as_frame


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
        gone = f"{count_of(self.n_features, 'feature')} and {count_of(self.n_samples, 'sample')}"
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
        frame = as_frame(frame)
        given = {str(name) for name in frame.columns}
        frame = flat(frame)
        ignore = [ignore] if isinstance(ignore, str) else list(ignore)
        for name in ignore:
            present(name, frame, "ignore")
        taken = find_roles(frame, roles, ignore)
        reasons = without_use(frame, taken, ignore)
        known = {*given, *taken.values()}
        reasons |= {str(name): "the index" for name in frame.columns if name not in known}
        used = {*reasons, *taken.values()}
        kept = [str(name) for name in frame.columns if name not in used]
        if features is not None:
            asked = [declared(name, frame, reasons, taken) for name in features]
            wanted = set(asked)
            reasons |= {name: "not among the features" for name in kept if name not in wanted}
            kept = asked
        check_features(frame, kept, reasons)
        check_roles(frame, taken)
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
        gone = dict.fromkeys(str(name) for name in share.index[share > max_missing])
        kept = {name: group for name, group in self.families.items() if name not in gone}
        whole = ~missing[list(kept)].any(axis=1)
        if not kept or not whole.any():
            raise TableError(
                f"Nothing is left of {len(self)} samples and {len(self.families)} features after dropping "
                f"features with more than {max_missing:.0%} missing values and then incomplete samples. "
                "Give another max_missing, or fill the missing values before reading the table."
            )
        frame = self.frame.loc[whole].drop(columns=list(gone))
        return replace(self, frame=frame, families=kept, dropped=Dropped(tuple(gone), int(len(whole) - whole.sum())))

    def __len__(self) -> int:
        return len(self.frame)

    def __repr__(self) -> str:
        lines = [f"Table: {count_of(len(self), 'sample')}, {count_of(len(self.families), 'feature')}"]
        lines += [f"  families: {listed(_family_counts(self.families), 8)}"]
        if self.roles:
            lines += [f"  roles: {', '.join(r if r == c else f'{r} = {c}' for r, c in self.roles.items())}"]
        if missing := self.n_missing:
            share = missing / max(1, len(self) * len(self.families))
            lines += [f"  missing: {count_of(missing, 'value')} ({share:.2%})"]
        if self.dropped != Dropped():
            lines += [f"  dropped: {self.dropped}"]
        if self.ignored:
            lines += [f"  ignored: {listed([f'{name} ({why})' for name, why in self.ignored.items()], 8)}"]
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
