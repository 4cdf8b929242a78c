"""What a filter means: names and values as they are stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from clearfold.archive.store import COLUMNS, Scalar, Store
from clearfold.errors import ArchiveError
from clearfold.table.columns import listed


def stored_filter(store: Store, where: Mapping[str, Any]) -> dict[str, list[Scalar]]:
    """Column -> stored values; 3 and "3" mean the same, because a command line only knows text.

    A column or a value that no case has is an error that lists what there is.
    """
    if not isinstance(where, Mapping):
        raise ArchiveError(f"where={where!r} came; wanted are columns and values, such as {{'organ': 'prostate'}}.")
    columns = list(dict.fromkeys([*COLUMNS, *store.settings().get("metadata", [])]))
    for name in where:
        if name not in columns:
            raise ArchiveError(f"There is no column {name!r} to filter by. The columns are {listed(columns, 20)}.")
    return {name: _meant(store, name, asked) for name, asked in where.items()}


def _meant(store: Store, name: str, asked: Any) -> list[Scalar]:
    stored = store.values(name)
    wanted = list(asked) if isinstance(asked, list | tuple | set | frozenset | np.ndarray) else [asked]
    known = {str(value): value for value in stored}
    for one in wanted:
        if str(one) not in known and one not in stored:
            raise ArchiveError(f"No case has {name} = {one!r}. The values are: {listed(list(known), 12) or 'none'}.")
    if not wanted:
        raise ArchiveError(
            f"no value of {name} came to filter by. The values are: {listed(list(known), 12) or 'none'}."
        )
    texts = {str(one) for one in wanted}
    return [value for value in stored if str(value) in texts or value in wanted]
