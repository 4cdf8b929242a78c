"""How far a local ranking can be trusted: bootstrapped patients, permuted labels, distinct cells."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from clearfold.embedding.spectral import Matrix
from clearfold.errors import FewDistinctCellsWarning, NothingAboveNullWarning
from clearfold.importance.rounds import Patients
from clearfold.saliency.evidence import strength
from clearfold.saliency.local_svm import CellMachines
from clearfold.saliency.placement import Space, labelled_space, plain_space
from clearfold.saliency.voronoi import nearest_site, quantised_sites

FEW_CELLS = 20
"""Fewer distinct cells than this hardly make an ensemble."""
CHANCE = 0.02
"""A region above the null has at most this p-value, or no permutation reached it."""
MARGIN = 3.0
"""It is also so many standard deviations above the mean of the permutations: fifty have no far tail."""


@dataclass(frozen=True)
class Bootstrap:
    """Local rankings of patients drawn with replacement: (draws, m), each with largest modulus 1."""

    drawn: Matrix

    def interval(self, seen: Matrix) -> tuple[Matrix, Matrix]:
        """95 % of the draws, laid around what was seen; it holds what was seen and stays within -1 and 1."""
        low, high = np.quantile(self.drawn - self.drawn.mean(axis=0), [0.025, 0.975], axis=0)
        return np.clip(seen + np.minimum(low, 0), -1, 1), np.clip(seen + np.maximum(high, 0), -1, 1)

    def sign_agreement(self, seen: Matrix) -> Matrix:
        """Share of draws in which a feature has the sign that was seen."""
        return np.asarray((np.sign(self.drawn) == np.sign(seen)).mean(axis=0))

    def selected_share(self, count: int) -> Matrix:
        """Share of draws in which a feature is among the first `count` by modulus."""
        order = np.argsort(-np.abs(self.drawn), axis=1, kind="stable")[:, :count]
        chosen = np.zeros(self.drawn.shape)
        np.put_along_axis(chosen, order, 1.0, axis=1)
        return np.asarray(chosen.mean(axis=0))


def bootstrap(
    machines: CellMachines, weight: Matrix, patients: Patients, n_draws: int, random: np.random.Generator
) -> Bootstrap | None:
    """The region's machine (samples count by membership) on patients drawn with replacement; None without draws."""
    drawn = []
    for _ in range(n_draws):
        times = np.bincount(random.integers(patients.count, size=patients.count), minlength=patients.count)
        machine = machines.weighted(weight * times[patients.codes])
        if machine is not None:
            drawn.append(machine.saliency)
    return Bootstrap(np.array(drawn)) if drawn else None


def space_of(
    X: Matrix, target: Matrix, n_sites: int, placement: str, random: np.random.Generator, groups: Any
) -> Space:
    """The space in which sites are placed."""
    if placement == "plain":
        return plain_space(X.shape[1])
    return labelled_space(X, target, n_sites, random, groups)


def null_strength(
    X: Matrix, short: Matrix, target: Matrix, n_sites: int, placement: str, random: np.random.Generator, groups: Any
) -> float:
    """The most that any cell, or all samples, know of permuted labels when sites are placed anew for them.

    short : X in at most n coordinates, see `compact`
    """
    placed = space_of(X, target, n_sites, placement, random, groups).place(X)
    cells = nearest_site(placed, quantised_sites(placed, n_sites, random, restarts=3))
    parts = [np.ones(len(X)), *[(cells == site).astype(float) for site in range(n_sites)]]
    mixed = [part for part in parts if len(set(target[part > 0].tolist())) > 1]
    return max(strength(short, target, part, groups) for part in mixed)


def p_values(seen: Matrix, null: Matrix) -> Matrix:
    """(1 + permutations that reached it) / (1 + permutations); NaN without permutations."""
    if not len(null):
        return np.full(len(seen), np.nan)
    return np.asarray((1 + (null[:, None] >= seen).sum(axis=0)) / (1 + len(null)))


def above_null(seen: Matrix, null: Matrix) -> Any:
    """Which regions hardly any permutation reached, and by a margin; all of them when there was no permutation."""
    if not len(null):
        return np.ones(len(seen), dtype=bool)
    rare = p_values(seen, null) <= max(CHANCE, 1 / (len(null) + 1)) + 1e-12
    return rare & (seen >= null.mean() + MARGIN * null.std())


def warn_if_few(n_distinct: int, n_mixed: int) -> None:
    """Say when moving the sites hardly changed the cells."""
    if n_distinct < min(FEW_CELLS, n_mixed / 2):
        warnings.warn(
            f"{n_mixed} mixed cells are only {n_distinct} distinct ones: moving the sites hardly changes them, and the "
            "ensemble says less than its size. Rely on the bootstrap, raise amplitude, or give more samples.",
            FewDistinctCellsWarning,
            stacklevel=4,
        )


def warn_refused(p_value: float, n_permutations: int) -> None:
    """Say that nothing is ranked, and why."""
    warnings.warn(
        f"no region is above the null: shuffled labels do as well (smallest p = {p_value:.2g} of {n_permutations} "
        "permutations). Nothing is ranked, rankings_ is empty. Give more samples, or n_permutations=0 to see the "
        "rankings without this guard.",
        NothingAboveNullWarning,
        stacklevel=4,
    )
