"""Cases into a store: the first ones fix the features, each later one is placed at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from clearfold.archive.fitted import Fitted
from clearfold.archive.store import Added, Case, Floats, Numbers, Store
from clearfold.errors import ArchiveError


def insert_cases(
    store: Store,
    cases: list[Case],
    features: Sequence[str],
    settings: Mapping[str, Any],
    fitted: Callable[[int], Fitted],
) -> Added:
    """Add cases in one transaction; those that are there already are skipped, and nothing is added if one differs."""
    with store.writing():
        order = fix_settings(store, features, settings)
        there = store.digests([case.case_id for case in cases])
        other = [case.case_id for case in cases if there.get(case.case_id, case.digest) != case.digest]
        if other:
            raise ArchiveError(
                f"case {other[0]!r}{f' (and {len(other) - 1} more)' if len(other) > 1 else ''} is in {store.name} "
                "already, with other content: nothing was added. Give it another case_id, or remove the old one first."
            )
        new = [case for case in cases if case.case_id not in there]
        if order is not None:
            new = [replace(case, features=case.features[order]) for case in new]
        if new:
            _remember_columns(store, new)
            numbers = store.insert(new)
            _place(store, numbers, np.array([case.features for case in new]), fitted)
    return Added(len(new), len(cases) - len(new))


def fix_settings(store: Store, features: Sequence[str], settings: Mapping[str, Any]) -> list[int] | None:
    """Keep settings with the first cases; gives the order in which features have to be taken (None: as they are)."""
    known = store.settings()
    if "features" not in known:
        store.set_settings({**settings, "features": list(features), "metadata": []})
        return None
    wanted = known["features"]
    if list(features) == wanted:
        return None
    missing, strange = sorted(set(wanted) - set(features)), sorted(set(features) - set(wanted))
    if missing or strange:
        parts = [f"missing: {', '.join(missing[:3])}"] if missing else []
        parts += [f"not in the archive: {', '.join(strange[:3])}"] if strange else []
        raise ArchiveError(
            f"{len(features)} features came, the archive has {len(wanted)} ({'; '.join(parts)}). "
            "Measure the cases as the archive was, or start another archive. Numbers that are no features: metadata=."
        )
    column = {name: number for number, name in enumerate(features)}
    return [column[name] for name in wanted]


def _remember_columns(store: Store, cases: Sequence[Case]) -> None:
    """Names of metadata, which can be filtered by."""
    settings = store.settings()
    names = dict.fromkeys(name for case in cases for name in case.about)
    new = [name for name in names if name not in settings["metadata"]]
    if new:
        store.set_settings({**settings, "metadata": [*settings["metadata"], *new]})


def _place(store: Store, numbers: Numbers, values: Floats, fitted: Callable[[int], Fitted]) -> None:
    """New cases under every version that still has its model."""
    versions = [version for version in store.versions() if not version.forgotten]
    if versions:
        frame = pd.DataFrame(values, columns=store.settings()["features"])
        for version in versions:
            store.place(version.number, numbers, fitted(version.number).place(frame))
            store.build_index(version.number)
