"""Rounds: the ranking on three quarters of the patients, drawn again and again; and the null with permuted labels."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from clearfold.embedding.spectral import Matrix
from clearfold.errors import ClearfoldWarning, FewPatientsWarning, InputError, warn
from clearfold.importance.formula import Loadings, importances
from clearfold.importance.outcome import Outcome

SHARE = 0.75
"""Part of the patients in each round (FINE section V)."""
BLOCK = 200
"""Permutations that are ranked at once."""
ROUNDING = 1e-12
"""Shares that differ by less count as equal."""


@dataclass(frozen=True)
class Patients:
    """Patient 0, 1, ... of each sample, their number, and the class of each patient, None where classes mix."""

    codes: Any
    count: int
    classes: Any

    def draw(self, random: np.random.Generator) -> Any:
        """Rows of three quarters of the patients, of each class alike, without replacement."""
        strata = np.zeros(self.count, dtype=int) if self.classes is None else self.classes
        chosen = []
        for stratum in np.unique(strata):
            members = np.flatnonzero(strata == stratum)
            size = max(2, round(SHARE * len(members))) if len(members) > 1 else 1
            chosen.append(random.choice(members, min(size, len(members)), replace=False))
        return np.flatnonzero(np.isin(self.codes, np.concatenate(chosen)))

    def permutation(self, outcome: Outcome, random: np.random.Generator) -> Any:
        """Row whose outcome each row gets: of another patient if every patient has one outcome, else of the same."""
        if self.count == len(self.codes):
            return random.permutation(self.count)
        first = np.unique(self.codes, return_index=True)[1]
        if np.allclose(outcome.target, outcome.target[first][self.codes]):
            return first[random.permutation(self.count)][self.codes]
        rows = np.empty(len(self.codes), dtype=np.intp)
        rows[np.argsort(self.codes, kind="stable")] = np.lexsort((random.random(len(rows)), self.codes))
        return rows


def read_patients(groups: Any, outcome: Outcome, n_samples: int) -> Patients:
    """Patients of the samples; every sample its own when no groups are given."""
    groups = np.arange(n_samples) if groups is None else np.asarray(groups)
    if groups.shape != (n_samples,):
        raise InputError(
            f"groups of shape {groups.shape} came for {n_samples} samples. Give one patient for each row of X."
        )
    if groups.dtype.kind in "fO":
        import pandas as pd

        missing = int(pd.isna(groups).sum())
        if missing:
            raise InputError(
                f"{missing} of {n_samples} patients are missing. Name one for each row, or drop these rows."
            )
        groups = groups.astype(str) if groups.dtype == object else groups
    _, codes = np.unique(groups, return_inverse=True)
    count = int(codes.max()) + 1
    if outcome.codes is None:
        return Patients(codes, count, None)
    table = np.zeros((count, len(outcome.names)), dtype=int)
    np.add.at(table, (codes, outcome.codes), 1)
    rare = np.flatnonzero((table > 0).sum(axis=0) < 2)
    if len(rare):
        raise InputError(
            f"every sample of class {outcome.names[rare[0]]} comes from one patient: its features cannot be told from "
            "those of the class. Add patients of that class, or merge it with another."
        )
    pure = bool(((table > 0).sum(axis=1) == 1).all())
    return Patients(codes, count, table.argmax(axis=1) if pure else None)


def draws(patients: Patients, outcome: Outcome, n_rounds: int, seed: int) -> list[Any]:
    """Rows of every round; each keeps at least two samples of every class."""
    if patients.classes is not None and np.bincount(patients.classes, minlength=len(outcome.names)).min() == 2:
        warn(
            "a class has only two patients, and every round holds both: intervals and stability leave out how much "
            "other patients of that class would differ. Add patients, or read them as lower bounds.",
            FewPatientsWarning,
        )
    return [_draw(patients, outcome, np.random.default_rng(s)) for s in np.random.SeedSequence(seed).spawn(n_rounds)]


def _draw(patients: Patients, outcome: Outcome, random: np.random.Generator) -> Any:
    for _ in range(100):
        rows = patients.draw(random)
        if outcome.codes is None or np.bincount(outcome.codes[rows], minlength=len(outcome.names)).min() >= 2:
            return rows
    raise InputError(
        "no draw of three quarters of the patients holds two samples of each class. Add patients, or n_rounds=0."
    )


@dataclass(frozen=True)
class Null:
    """How often permuted labels gave at least the share that was seen: p-values of features and of families."""

    p_value: Matrix
    family_p_value: Matrix


def permuted(
    of: Loadings, outcome: Outcome, patients: Patients, method: str, count: int, random: np.random.Generator
) -> Iterator[Matrix]:
    """Importances (m x block) under permuted outcomes; the embedding ignores them, so it stays as it is."""
    for start in range(0, count, BLOCK):
        size = min(BLOCK, count - start)
        rows = np.stack([patients.permutation(outcome, random) for _ in range(size)], axis=1)
        yield importances(of, outcome.target[rows].transpose(0, 2, 1), method)


def exceedance(seen: Matrix, blocks: Iterator[Matrix], membership: Any) -> Null:
    """p = (1 + times at least as large) / (1 + permutations), of features and of families (membership m x families)."""
    family_seen = membership.T @ seen
    times, family_times, count = np.ones(len(seen)), np.ones(len(family_seen)), 1
    for block in blocks:
        times += np.count_nonzero(block >= (seen * (1 - ROUNDING))[:, None], axis=1)
        family_times += np.count_nonzero(membership.T @ block >= (family_seen * (1 - ROUNDING))[:, None], axis=1)
        count += block.shape[1]
    return Null(times / count, family_times / count)


def q_values(p_value: Matrix) -> Matrix:
    """Benjamini and Hochberg: smallest false discovery rate at which each one is called."""
    count = len(p_value)
    order = np.argsort(p_value, kind="stable")
    scaled = p_value[order] * count / np.arange(1, count + 1)
    result = np.empty(count)
    result[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return result


def interval(seen: Matrix, drawn: Matrix) -> tuple[Matrix, Matrix]:
    """95 % interval of shares from rounds (rounds x m), by the delete-d jackknife.

    Three quarters of the patients vary less among each other than whole cohorts would; the spread is widened by
    sqrt(b / (n - b)), b of n patients drawn, and laid around what all patients gave.
    """
    spread = (drawn - drawn.mean(axis=0)) * np.sqrt(SHARE / (1 - SHARE))
    low, high = np.quantile(spread, [0.025, 0.975], axis=0)
    return np.clip(seen + np.minimum(low, 0.0), 0.0, 1.0), np.clip(seen + np.maximum(high, 0.0), 0.0, 1.0)


class _Listening(threading.local):
    """What this thread counts into, innermost last."""

    def __init__(self) -> None:
        self.counts: list[dict[str, int]] = []


class counted_warnings:
    """Count clearfold's warnings by class instead of showing them: rounds would repeat them.

    Filters of warnings belong to the whole process. So that rounds in several threads neither lose each other's
    warnings nor leave filters behind, the first to enter sets them and the last to leave puts them back.
    """

    _lock = threading.Lock()
    _inside = 0
    _catch: Any = None
    _shown: Any = None
    _own = _Listening()

    def __enter__(self) -> dict[str, int]:
        kind = counted_warnings
        with kind._lock:
            if not kind._inside:
                kind._catch = warnings.catch_warnings()
                kind._catch.__enter__()
                warnings.simplefilter("ignore")
                warnings.simplefilter("always", ClearfoldWarning)
                kind._shown = warnings.showwarning
                warnings.showwarning = kind._heard
            kind._inside += 1
        kind._own.counts.append({})
        return kind._own.counts[-1]

    def __exit__(self, *error: Any) -> None:
        kind = counted_warnings
        kind._own.counts.pop()
        with kind._lock:
            kind._inside -= 1
            if not kind._inside:
                kind._catch.__exit__(*error)

    @staticmethod
    def _heard(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        counts = counted_warnings._own.counts
        if counts:
            counts[-1][category.__name__] = counts[-1].get(category.__name__, 0) + 1
        else:  # of a thread that counts nothing
            counted_warnings._shown(message, category, *where, **more)
