"""The estimator: which features decide where, and can that be trusted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from clearfold.embedding.estimator import checked
from clearfold.embedding.spectral import Matrix
from clearfold.errors import InputError
from clearfold.importance.coordinates import checked_features
from clearfold.importance.outcome import Outcome, read_outcome
from clearfold.importance.rounds import Patients, read_patients
from clearfold.saliency.ensemble import Cells, Ensemble, cluster_cells, merged, mixed_cells, region_saliency
from clearfold.saliency.evidence import strength
from clearfold.saliency.local_svm import CellMachines
from clearfold.saliency.placement import compact
from clearfold.saliency.possibilistic import annealing_schedule
from clearfold.saliency.tables import comparison_table, ranking_table, region_table
from clearfold.saliency.trust import (
    Bootstrap,
    above_null,
    bootstrap,
    null_strength,
    p_values,
    space_of,
    warn_if_few,
    warn_refused,
)
from clearfold.saliency.voronoi import Partitions, nearest_site, quantised_sites
from clearfold.selection.columns import mean_and_deviation

if TYPE_CHECKING:
    import pandas as pd

PLACEMENTS = ("labels", "plain")
FARTHEST = 1e140
"""Standard deviations from the mean; squares of more could not be added up."""


@dataclass(frozen=True)
class Question:
    """One class against the rest: its ensemble, the memberships of the fitted samples, and how far to trust them."""

    label: str
    ensemble: Ensemble
    memberships: Matrix
    saliency: Matrix
    strengths: Matrix
    p_value: Matrix
    above: Any
    draws: list[Bootstrap | None]
    machines: CellMachines


class VoronoiSaliency(BaseEstimator):  # type: ignore[misc]
    """Signed saliency of features, region by region: t = w / max|w| of linear machines in random Voronoi cells.

    Random Voronoi ensemble (Masulli and Rovetta 2003): sites are moved again and again, a linear support vector
    machine is fitted in every cell that holds both classes, and the cells' rankings and places are clustered (graded
    possibilistic clustering). Clusters that one machine predicts as well as several, on left-out samples, are one
    region, and its ranking is that machine's. A positive saliency speaks for the second of two classes (sorted); with
    more, each class is set against the rest. The departures from the paper are listed in `clearfold.papers.rve`.

    Parameters
    ----------
    n_sites : Voronoi sites; n_perturbations : how often they are moved
    amplitude : most that a coordinate of a site is moved, in standard deviations of a feature
    C : of the machines; alpha : 0 possibilistic to 1 probabilistic clustering
    position : 0 to 1, share of a cell's place against its ranking in the clustering
    beta : final width of the clustering (annealed from 0.1); "auto" for the finest on which half-ensembles agree
    placement : "labels" stretches the space along cuts across which local classifiers differ; "plain" does not
    n_bootstraps : draws of patients for intervals; n_permutations : shuffled labels for the null; 0 for none
    standardize : divide each feature by its standard deviation first (constant ones get saliency 0)
    random_state : seed of everything

    Attributes
    ----------
    rankings_ : a DataFrame for each region, largest modulus first: feature, saliency, ci_low, ci_high, sign_agreement,
        selected_share; empty when no region is above the null
    regions_ : DataFrame region, label, mass, n_samples, n_sites, n_cells, n_distinct_cells, strength, p_value,
        above_null, centre, separates (the features in which it differs from the other regions)
    memberships_ : (n, regions) share of each region in each sample, rows sum to 1 for each label
    comparison_ : DataFrame region, feature, and its rank here, by a global linear machine and by a t-test
    useful_share_ : share of cells that hold both classes; n_distinct_cells_; classes_

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(300, 4))
    >>> y = np.where(X[:, 0] > 0, X[:, 1], X[:, 2]) > 0
    >>> X[:, 0] += 3 * np.sign(X[:, 0])
    >>> s = VoronoiSaliency(n_perturbations=20, n_permutations=0, random_state=0).fit(X, y)
    >>> sorted(ranking["feature"].iloc[0] for ranking in s.rankings_)
    ['x1', 'x2']
    """

    def __init__(
        self,
        *,
        n_sites: int = 4,
        n_perturbations: int = 100,
        amplitude: float = 0.5,
        C: float = 1.0,
        alpha: float = 0.7,
        position: float = 0.5,
        beta: float | str = "auto",
        placement: str = "labels",
        n_bootstraps: int = 50,
        n_permutations: int = 50,
        standardize: bool = True,
        random_state: Any = None,
    ) -> None:
        self.n_sites = n_sites
        self.n_perturbations = n_perturbations
        self.amplitude = amplitude
        self.C = C
        self.alpha = alpha
        self.position = position
        self.beta = beta
        self.placement = placement
        self.n_bootstraps = n_bootstraps
        self.n_permutations = n_permutations
        self.standardize = standardize
        self.random_state = random_state

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Learn the regions of X (n, m) and what decides y in each.

        y : labels, two or more classes; groups : patient of each row, for bootstrap, permutations and left-out samples
        """
        self._check_parameters()
        X = checked_features(self, X)
        outcome = self._labels(y, len(X))
        patients = read_patients(groups, outcome, len(X))
        X = self._learn_scale(X)
        own = None if groups is None else patients.codes
        seed = int(check_random_state(self.random_state).randint(2**31))
        positives = range(len(outcome.names)) if len(outcome.names) > 2 else [1]
        seeds = np.random.SeedSequence(seed).spawn(len(outcome.names))
        questions = [self._ask(X, outcome, code, patients, own, seeds[code]) for code in positives]
        self.classes_ = np.array(outcome.names)
        self._X, self._codes, self._questions = X, outcome.codes, questions
        self._tabulate(X, outcome)
        return self

    def predict_region(self, X: Any, label: Any = None) -> Any:
        """Row of `regions_` that applies to each new sample; of more than two classes, `label` or the likeliest."""
        shares, first = self._shares(X, label)
        return np.array([start + int(share.argmax()) for start, share in zip(first, shares, strict=True)])

    def saliency(self, X: Any, label: Any = None) -> Matrix:
        """Signed saliency of every feature for each new sample (n, m): the rankings of its regions, by membership.

        Zero where nothing is above the null. Of more than two classes, `label` or the likeliest one is explained.
        """
        shares, first = self._shares(X, label)
        table = self.region_saliency_ * (1.0 if self.rankings_ else 0.0)
        rows = [share @ table[start : start + len(share)] for start, share in zip(first, shares, strict=True)]
        return np.array(rows)

    def plot(self, top: int = 10) -> Any:
        """A figure: the regions on a map of the samples, and the first features of each region as bars."""
        from clearfold.plot.saliency import saliency_figure

        check_is_fitted(self, "regions_")
        return saliency_figure(self, top=top)

    # What fit does ----------------------------------------------------------------------------------------------

    def _ask(
        self, X: Matrix, outcome: Outcome, code: int, patients: Patients, groups: Any, seed: np.random.SeedSequence
    ) -> Question:
        """One class against the rest, from the placement of sites to the null."""
        random, *seeds = [np.random.default_rng(s) for s in seed.spawn(2 + self.n_permutations)]
        target = np.where(outcome.codes == code, 1.0, -1.0)
        short = compact(X)
        machines = CellMachines(X, target > 0, self.C)
        ensemble = self._ensemble(X, short, target, machines, groups, len(outcome.names) > 2, random)
        weight = ensemble.memberships(X)
        seen = np.array([strength(short, target, column, groups) for column in weight.T])
        others = [(target[patients.permutation(outcome, r)], r) for r in seeds[1:]]
        null = np.array([null_strength(X, short, y, self.n_sites, self.placement, r, groups) for y, r in others])
        draws = [bootstrap(machines, column, patients, self.n_bootstraps, seeds[0]) for column in weight.T]
        saliency = region_saliency(machines, weight, ensemble.saliency)
        p, above = p_values(seen, null), above_null(seen, null)
        return Question(outcome.names[code], ensemble, weight, saliency, seen, p, above, draws, machines)

    def _ensemble(
        self,
        X: Matrix,
        short: Matrix,
        target: Matrix,
        machines: CellMachines,
        groups: Any,
        one_of_many: bool,
        random: np.random.Generator,
    ) -> Ensemble:
        space = space_of(X, target, self.n_sites, self.placement, random, groups)
        placed = space.place(X)
        partitions, cells = self._cells(placed, machines, one_of_many, random)
        betas = None if self.beta == "auto" else annealing_schedule(max(0.1, float(self.beta)), float(self.beta))
        half = np.arange(self.n_perturbations) % 2 == 0
        clusters = cluster_cells(cells, self.alpha, self.position, betas, half)
        where = partitions.nearest(placed, cells.number >= 0)
        shares = merged(short, target, clusters, cells, where, groups)
        return Ensemble(space, partitions, cells, shares, clusters.typical, clusters.beta)

    def _cells(
        self, placed: Matrix, machines: CellMachines, one_of_many: bool, random: np.random.Generator
    ) -> tuple[Partitions, Cells]:
        """The mixed cells; a class of many that fills whole cells by itself gets fewer sites, down to one."""
        for count in range(self.n_sites, 0, -1):
            sites = _sites(placed, count, random)
            partitions = Partitions.drawn(placed, sites, self.n_perturbations, self.amplitude, random)
            try:
                return partitions, mixed_cells(partitions, machines, placed)
            except InputError:
                if not one_of_many:
                    raise
        raise AssertionError("one site has all samples, of both classes")

    def _learn_scale(self, X: Matrix) -> Matrix:
        self._mean, deviation = mean_and_deviation(X)
        if not deviation.any():
            raise InputError(
                "all features are constant: there is nothing to rank. Check that X holds features that vary."
            )
        if not self.standardize and not 1 / FARTHEST < deviation.max() < FARTHEST:
            raise InputError(
                f"features with a standard deviation of up to {deviation.max():.3g} came; their squares cannot be "
                "computed. Set standardize=True, or give features in other units."
            )
        self._scale = np.where(deviation > 0, deviation if self.standardize else 1.0, np.inf)
        return self._scaled(X)

    def _scaled(self, X: Matrix) -> Matrix:
        """In units of the fitted samples; what lies beyond any of them stays where distances can be computed."""
        with np.errstate(over="ignore"):
            return np.clip((X - self._mean) / self._scale, -FARTHEST, FARTHEST)

    def _tabulate(self, X: Matrix, outcome: Outcome) -> None:
        names = [str(n) for n in getattr(self, "feature_names_in_", [f"x{i}" for i in range(self.n_features_in_)])]
        asked = self._questions
        self.memberships_ = np.hstack([question.memberships for question in asked])
        self.region_saliency_ = np.vstack([question.saliency for question in asked])
        self._first = np.cumsum([0, *[question.memberships.shape[1] for question in asked]])
        self.useful_share_ = float(np.mean([question.ensemble.cells.useful for question in asked]))
        self.n_distinct_cells_ = int(sum(len(question.ensemble.cells.times) for question in asked))
        for question in asked:
            cells = question.ensemble.cells
            warn_if_few(len(cells.times), int(cells.times.sum()))
        self.regions_ = region_table(asked, X, self._mean, self._scale, names)
        self.n_selected_ = max(1, min(len(X) // 10, X.shape[1] // 2))
        draws = [draw for question in asked for draw in question.draws]
        pairs = zip(self.region_saliency_, draws, strict=True)
        self.candidates_ = [ranking_table(names, t, draw, self.n_selected_) for t, draw in pairs]
        self.comparison_ = comparison_table(names, asked, self.region_saliency_, X, outcome)
        refused = not self.regions_["above_null"].any()
        self.rankings_: list[pd.DataFrame] = [] if refused else self.candidates_
        if refused:
            warn_refused(float(self.regions_["p_value"].min()), self.n_permutations)

    # What fit wants ---------------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        least = {"n_sites": 1, "n_perturbations": 1, "n_bootstraps": 0, "n_permutations": 0}
        for name, smallest in least.items():
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < smallest:
                raise InputError(f"{name}={value!r} came; a whole number, {smallest} or more, is wanted.")
        for name in ("alpha", "position"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name}={getattr(self, name)!r} came; a number from 0 to 1 is wanted.")
        if not self.amplitude >= 0 or not self.C > 0:
            raise InputError(f"amplitude={self.amplitude!r}, C={self.C!r} came; amplitude >= 0 and C > 0 are wanted.")
        if self.beta != "auto" and (isinstance(self.beta, str) or not self.beta > 0):
            raise InputError(f"beta={self.beta!r} came; 'auto' or a number above 0 is wanted.")
        if self.placement not in PLACEMENTS:
            raise InputError(f"placement={self.placement!r} came; {' or '.join(map(repr, PLACEMENTS))} is wanted.")

    def _labels(self, y: Any, n: int) -> Outcome:
        if y is None:
            raise InputError("no labels came; saliency asks which features decide between classes. Give y.")
        if n < self.n_sites:
            raise InputError(f"{n} samples came for {self.n_sites} sites. Set n_sites to at most {n}, or give more.")
        return read_outcome(y, n, "label")

    def _shares(self, X: Any, label: Any) -> tuple[list[Matrix], list[int]]:
        """For each new sample its memberships within one label, and the first region of that label."""
        check_is_fitted(self, "regions_")
        X = checked(self, X, reset=False)
        X = self._scaled(np.asarray(X.toarray() if hasattr(X, "toarray") else X))
        asked = self._which(X, label)
        tables = {number: self._questions[number].ensemble.memberships(X) for number in set(asked)}
        return [tables[number][row] for row, number in enumerate(asked)], [int(self._first[k]) for k in asked]

    def _which(self, X: Matrix, label: Any) -> list[int]:
        """The question of each sample: of the label, else of the class with the largest local decision."""
        labels = [question.label for question in self._questions]
        if len(labels) == 1:
            return [0] * len(X)
        if label is not None and str(label) not in labels:
            raise InputError(f"label={label!r} came; one of {', '.join(labels)} is wanted.")
        if label is not None:
            return [labels.index(str(label))] * len(X)
        return [int(k) for k in np.argmax([q.ensemble.decision(X) for q in self._questions], axis=0)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


def _sites(placed: Matrix, count: int, random: np.random.Generator) -> Matrix:
    """Quantised in at most n coordinates, then back as means of cells."""
    if placed.shape[1] <= placed.shape[0]:
        return quantised_sites(placed, count, random)
    short = compact(placed)
    cells = nearest_site(short, quantised_sites(short, count, random))
    return np.array([placed[cells == site].mean(axis=0) for site in np.unique(cells)])
