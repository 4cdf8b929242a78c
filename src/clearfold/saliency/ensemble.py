"""The ensemble of one question (one class against the rest): cells, their rankings, and the regions they make."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

from clearfold.embedding.spectral import Matrix
from clearfold.errors import InputError
from clearfold.saliency.evidence import difference
from clearfold.saliency.joint import joint_vectors
from clearfold.saliency.local_svm import CellMachines
from clearfold.saliency.placement import Space
from clearfold.saliency.possibilistic import Cloud, anneal, annealing_schedule, distinct, log_memberships
from clearfold.saliency.voronoi import Partitions

STARTS = 20
"""Centres at the start, farthest first: ten at random would lose a region of mass p with probability (1-p)^10."""
AGREE = 0.8
"""Half-ensembles that agree at least this much (adjusted Rand) have the same clusters."""
ROUGH = 1e-4
"""Change at which a centre has settled: only shares are read from the centres."""
DIFFER = 3.0
"""Standard errors by which two rankings must beat one on left-out samples to be told apart."""
LEAST_MASS = 0.02
"""A cluster of less mass is an outlier."""


@dataclass(frozen=True)
class Cells:
    """The mixed cells of all partitions, each set of members once.

    members : (cells, n) true or false; times : how often each occurred; number : (perturbations, sites) which cell, -1
    T : (cells, m) signed saliency; w, b : the machines; means : (cells, m) mean member in the stretched space
    """

    members: Any
    times: Matrix
    number: Any
    T: Matrix
    w: Matrix
    b: Matrix
    means: Matrix

    @property
    def useful(self) -> float:
        """Share of all cells that hold both classes."""
        return float((self.number >= 0).mean())


def mixed_cells(partitions: Partitions, machines: CellMachines, placed: Matrix) -> Cells:
    """A linear machine in every cell that holds both classes."""
    count, k, _ = partitions.sites.shape
    number = np.full((count, k), -1)
    known: dict[bytes, int] = {}
    members: list[Any] = []
    for p, cells in enumerate(partitions.cells):
        for site in range(k):
            inside = cells == site
            if not 0 < machines.positive[inside].sum() < inside.sum():
                continue
            key = np.packbits(inside).tobytes()
            if key not in known:
                known[key] = len(members)
                members.append(inside)
            number[p, site] = known[key]
    if not members:
        raise InputError(
            f"every cell of {count} partitions in {k} holds one class only: there is no boundary inside any. "
            f"Set n_sites lower than {k}."
        )
    solved = [machines.of(inside) for inside in members]
    table = np.array(members)
    return Cells(
        members=table,
        times=np.bincount(number[number >= 0]).astype(float),
        number=number,
        T=np.array([machine.saliency for machine in solved]),
        w=np.array([machine.w for machine in solved]),
        b=np.array([machine.b for machine in solved]),
        means=table @ placed / table.sum(axis=1)[:, None],
    )


@dataclass(frozen=True)
class Clusters:
    """Share of each cluster in each cell (cells, clusters), how typical each cell is, and the width that was chosen."""

    shares: Matrix
    typical: Matrix
    beta: float


def cluster_cells(cells: Cells, alpha: float, position: float, betas: Matrix | None, half: Any) -> Clusters:
    """Graded possibilistic clusters of the joint vectors, at the finest width on which half-ensembles agree.

    half : (perturbations,) true or false, which half each partition belongs to
    """
    Z = joint_vectors(cells.T, cells.means, position, cells.times)
    if len(Z) == 1:
        return Clusters(np.ones((1, 1)), np.ones(1), 0.0)
    schedule = annealing_schedule() if betas is None else betas
    cloud = Cloud.of(Z, cells.times)
    path = anneal(cloud, cloud.farthest_first(STARTS, int(cells.times.argmax())), schedule, alpha, tolerance=ROUGH)
    step = len(schedule) - 1 if betas is not None else _resolution(cells, cloud, schedule, alpha, half)
    beta = float(schedule[step])
    mixture = distinct(cloud, path[step], beta)
    log_u = log_memberships(cloud.squared(mixture), beta, alpha)
    log_u = log_u[:, _heavy(log_u, cells.times)]
    largest = log_u.max(axis=1, keepdims=True)
    shares = np.exp(log_u - largest)
    typical = np.minimum(np.exp(log_u).sum(axis=1), 1.0)
    return Clusters(shares / shares.sum(axis=1, keepdims=True), np.maximum(typical, 1e-6), beta)


def _heavy(log_u: Matrix, times: Matrix) -> Any:
    """Clusters that own more than an outlier's mass; the heaviest in any case."""
    hard = np.bincount(log_u.argmax(axis=1), weights=times, minlength=log_u.shape[1]) / times.sum()
    keep = hard >= LEAST_MASS
    keep[hard.argmax()] = True
    return keep


def _resolution(cells: Cells, cloud: Cloud, schedule: Matrix, alpha: float, half: Any) -> int:
    """The finest width at which clusters of both half-ensembles divide all cells alike."""
    labels = []
    for own in (half, ~half):
        numbers = cells.number[own]
        times = np.bincount(numbers[numbers >= 0], minlength=len(cells.times)).astype(float)
        part = np.flatnonzero(times)
        if not len(part):
            return 0
        some = Cloud(cloud.points[part], None if cloud.gram is None else cloud.gram[np.ix_(part, part)], times[part])
        path = anneal(some, some.farthest_first(STARTS, int(times[part].argmax())), schedule, alpha, tolerance=ROUGH)
        labels.append([_assigned(cloud, m, part, beta) for m, beta in zip(path, schedule, strict=True)])
    agreement = np.array([adjusted_rand_score(a, b) for a, b in zip(*labels, strict=True)])
    stable = np.flatnonzero(agreement >= AGREE)
    return int(stable[-1]) if len(stable) else int(agreement.argmax())


def _assigned(cloud: Cloud, mixture: Matrix, part: Any, beta: float) -> Any:
    """The nearest centre of every cell, centres being mixtures of a part of the cells."""
    whole = np.zeros((len(mixture), len(cloud.weight)))
    whole[:, part] = mixture
    return cloud.squared(distinct(cloud, whole, beta)).argmin(axis=1)


def sample_shares(cells: Cells, shares: Matrix, where: Any) -> Matrix:
    """Share of each cluster in each sample: the mean over partitions of the cell it falls into.

    where : (n, perturbations) number of that cell's site over all sites, -1 for none
    """
    flat = cells.number.ravel()
    used = where >= 0
    table = np.vstack([shares, np.zeros(shares.shape[1])])
    total = table[np.where(used, flat[where], -1)].sum(axis=1)
    return total / used.sum(axis=1)[:, None]


def merged(X: Matrix, target: Matrix, clusters: Clusters, cells: Cells, where: Any, groups: Any) -> Matrix:
    """Shares (cells, regions): the two clusters that differ least are joined, until every pair of rankings differs.

    where : the cell of each sample in each partition, see `sample_shares`
    """
    weight = sample_shares(cells, clusters.shares, where)
    parts = {number: (clusters.shares[:, number], weight[:, number]) for number in range(weight.shape[1])}
    gaps: dict[tuple[int, int], float] = {}
    while len(parts) > 1:
        for i, j in combinations(parts, 2):
            if (i, j) not in gaps:
                gaps[i, j] = difference(X, target, parts[i][1], parts[j][1], groups)
        i, j = min((pair for pair in gaps if pair[0] in parts and pair[1] in parts), key=lambda pair: gaps[pair])
        if gaps[i, j] >= DIFFER:
            break
        first, second = parts.pop(i), parts.pop(j)
        parts[1 + max(i, j, *parts)] = (first[0] + second[0], first[1] + second[1])
    shares = np.column_stack([share for share, _ in parts.values()])
    mass = (clusters.typical * cells.times) @ shares
    return np.asarray(shares[:, np.argsort(-mass, kind="stable")])


def rankings(cells: Cells, shares: Matrix, typical: Matrix) -> Matrix:
    """Mean signed saliency of the cells of each region (regions, m), its largest modulus 1."""
    mean = (shares * (typical * cells.times)[:, None]).T @ cells.T
    return np.asarray(mean / np.maximum(np.abs(mean).max(axis=1, keepdims=True), 1e-300))


def region_saliency(machines: CellMachines, weight: Matrix, mean: Matrix) -> Matrix:
    """t of one machine for each region, its samples counted by membership (n, regions): cells whose rankings do not
    differ are one set of samples, and more samples make a steadier ranking than a mean of small cells.

    mean : (regions, m) the mean of the cells, where a region's samples are of one class
    """
    solved = [machines.weighted(column) for column in weight.T]
    return np.array([t if machine is None else machine.saliency for machine, t in zip(solved, mean, strict=True)])


@dataclass(frozen=True)
class Ensemble:
    """One question, answered: the space, its partitions, the cells, and the share of each region in each cell."""

    space: Space
    partitions: Partitions
    cells: Cells
    shares: Matrix
    typical: Matrix
    beta: float

    def memberships(self, X: Matrix) -> Matrix:
        """Share of each region in each sample (n, regions); rows sum to 1."""
        where = self.partitions.nearest(self.space.place(X), self.cells.number >= 0)
        return sample_shares(self.cells, self.shares, where)

    def decision(self, X: Matrix) -> Matrix:
        """Mean over partitions of w x + b of the cell that a sample falls into."""
        where = self.partitions.nearest(self.space.place(X), self.cells.number >= 0)
        values = X @ self.cells.w.T + self.cells.b
        flat = self.cells.number.ravel()
        used = where >= 0
        taken = np.take_along_axis(values, np.where(used, flat[where], 0), axis=1)
        return np.asarray((taken * used).sum(axis=1) / used.sum(axis=1))

    @property
    def saliency(self) -> Matrix:
        """Signed saliency of each region (regions, m)."""
        return rankings(self.cells, self.shares, self.typical)

    @property
    def mass(self) -> Matrix:
        """Share of the cells in each region."""
        mass = (self.typical * self.cells.times) @ self.shares
        return np.asarray(mass / mass.sum())
