"""Risk groups out of fold: every patient's risk, and the cut it is held against, come from the other patients.

Patients of one cohort are not independent once they were folds of it: each helped to make the risk of the others.
The nominal log-rank test then calls noise significant two to three times too often. So the p-value here comes from
permuted outcomes with everything learned again, and intervals are widened by what the permutations show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import delayed
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import check_random_state

from clearfold.cluster import parallel
from clearfold.embedding.spectral import Matrix
from clearfold.embedding.threads import few_threads
from clearfold.errors import InputError
from clearfold.importance.outcome import martingale_residuals
from clearfold.importance.rounds import counted_warnings
from clearfold.survival.cox import CoxRisk
from clearfold.survival.curves import KaplanMeier, kaplan_meier, log_rank_z
from clearfold.survival.measures import Interval, concordance, concordance_draws
from clearfold.survival.times import read_patients, read_samples, read_times

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

NAMES = {2: ("low", "high"), 3: ("low", "middle", "high")}


@dataclass(frozen=True)
class RiskGroups:
    """Patients by risk that was made without them.

    table : DataFrame patient, time, event, risk, group, fold (the model that made risk and cut did not see this fold)
    log_rank_p : one-sided, high risk worse: share of permuted outcomes that, with everything learned again, part the
        groups as far; NaN without permutations
    nominal_p : the two-sided p of the log-rank test as if groups were known beforehand; too small
    hazard_ratio : highest against lowest group; concordance : Harrell, pairs within folds; both with 95 % intervals
    inflation : spread of the log-rank z under permuted outcomes, 1 for groups known beforehand; at least 1
    kaplan_meier : curves and nominal figures; warnings : how often each kind of warning occurred while learning
    """

    table: pd.DataFrame
    log_rank_p: float
    nominal_p: float
    hazard_ratio: Interval
    concordance: Interval
    inflation: float
    kaplan_meier: KaplanMeier
    warnings: dict[str, int]

    @property
    def curves(self) -> pd.DataFrame:
        """DataFrame group, time, survival, low, high, at_risk, events, censored."""
        return self.kaplan_meier.curves

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Curves with bands, numbers at risk below, p and hazard ratio."""
        from clearfold.plot.survival import survival_curves

        p = f"p = {self.log_rank_p:.2g}" if np.isfinite(self.log_rank_p) else f"nominal p = {self.nominal_p:.2g}"
        return survival_curves(self.curves, ax=ax, text=f"{p}\nhazard ratio {self.hazard_ratio}", title="risk")

    def __str__(self) -> str:
        counts = self.kaplan_meier.summary[["group", "n", "events", "median"]].to_string(index=False)
        lines = [counts, f"log-rank p {self.log_rank_p:.3g} by permutation (nominal {self.nominal_p:.3g})"]
        lines += [f"hazard ratio {self.hazard_ratio}", f"concordance {self.concordance} (chance .5)"]
        if self.hazard_ratio.value < 1:
            lines += ["the group of high risk fared better: this risk predicts nothing here."]
        return "\n".join([*lines, *self.kaplan_meier.notes])


def risk_groups(
    X: Any,
    time: Any,
    event: Any,
    *,
    estimator: Any = None,
    groups: Any = None,
    n_folds: int = 5,
    cuts: Sequence[float] = (0.5,),
    n_permutations: int = 99,
    n_bootstrap: int = 1000,
    n_jobs: int | None = None,
    random_state: Any = 0,
) -> RiskGroups:
    """Group patients by the risk that a model of the other folds gives them, and compare how they fare.

    Parameters
    ----------
    X : (n, m) features, none missing; time, event : of each row, as in `kaplan_meier`
    estimator : `CoxRisk()` if None; an embedding (ridge Cox on its coordinates); a classifier (learns the event), a
        regressor (learns martingale residuals), or anything else with fit(X, y) and predict, larger is worse; y is
        then a structured array with fields event and time
    groups : patient of each row; a patient's rows stay in one fold, and its risk is their mean
    n_folds : parts of the patients, events spread evenly
    cuts : quantiles of the training part's own risk, given beforehand: (0.5,) the median, (1/3, 2/3) tertiles
    n_permutations : outcomes dealt anew to patients, everything learned again; 0 for none
    n_bootstrap : draws of patients for the interval of the concordance
    """
    time, event = read_times(time, event)
    X = read_samples(X, len(time))
    codes, names, first = read_patients(groups, time, event)
    scene = _Scene(X, codes, _model(estimator), n_folds, _cuts(cuts))
    time, event = time[first], event[first]
    scene.check(event)
    seed, shuffle, draw = check_random_state(random_state).randint(2**31, size=3)
    with few_threads(len(X)), counted_warnings() as warned:
        own = scene.judge(time, event, int(seed))
    if len(np.unique(own.group)) < 2:
        raise InputError(
            "one group only: the model gives every patient the same side of the cut. Use a model whose risk varies."
        )
    null = _null(scene, time, event, n_permutations, int(shuffle), n_jobs)
    return _result(own, null, time, event, names, np.random.default_rng(int(draw)), n_bootstrap, warned)


@dataclass(frozen=True)
class _Judged:
    """Of each patient risk, group and fold; and what they say of time and event."""

    risk: Matrix
    group: Any
    fold: Any
    labels: tuple[str, ...]
    z: float
    concordance: float


@dataclass(frozen=True)
class _Scene:
    """Everything but the outcome."""

    X: Matrix
    codes: Any
    model: Any
    n_folds: int
    cuts: tuple[float, ...]

    def check(self, event: Any) -> None:
        fewest = min(int(event.sum()), len(event))
        if not isinstance(self.n_folds, int | np.integer) or not 2 <= self.n_folds <= fewest:
            raise InputError(
                f"n_folds={self.n_folds!r} came for {len(event)} patients with {int(event.sum())} events; wanted is a "
                f"whole number from 2 to the number of events, so that every fold holds one."
            )

    def judge(self, time: Matrix, event: Any, seed: int) -> _Judged:
        """Risk, group and fold of each patient for these outcomes (one for each patient)."""
        n = len(time)
        risk, group, fold = np.empty(n), np.zeros(n, dtype=int), np.zeros(n, dtype=int)
        parts = StratifiedKFold(self.n_folds, shuffle=True, random_state=seed)
        with np.errstate(all="ignore"):
            for number, (train, test) in enumerate(self._split(parts, event)):
                of_train, of_test = self._risks(train, test, time, event)
                risk[test], fold[test] = of_test, number
                group[test] = np.searchsorted(np.quantile(of_train, self.cuts), of_test, side="left")
        labels = NAMES.get(len(self.cuts) + 1, tuple(f"{k + 1}" for k in range(len(self.cuts) + 1)))
        z = log_rank_z(time, event, group)
        return _Judged(risk, group, fold, labels, z, concordance(time, event, risk, fold))

    def _split(self, parts: StratifiedKFold, event: Any) -> Any:
        return list(parts.split(np.zeros((len(event), 1)), event))

    def _risks(self, train: Any, test: Any, time: Matrix, event: Any) -> tuple[Matrix, Matrix]:
        rows, others = np.flatnonzero(np.isin(self.codes, train)), np.flatnonzero(np.isin(self.codes, test))
        target = _target(self.model, time[self.codes[rows]], event[self.codes[rows]])
        model = clone(self.model).fit(self.X[rows], target)
        return tuple(  # type: ignore[return-value]
            self._of_patients(_predicted(model, self.X[r]), self.codes[r], which)
            for r, which in ((rows, train), (others, test))
        )

    def _of_patients(self, risk: Matrix, codes: Any, which: Any) -> Matrix:
        if not np.isfinite(risk).all():
            raise InputError(f"{type(self.model).__name__} gave a risk that is not a finite number.")
        size = int(self.codes.max()) + 1
        mean = np.bincount(codes, risk, minlength=size) / np.maximum(np.bincount(codes, minlength=size), 1)
        return np.asarray(mean[which])


def _model(estimator: Any) -> Any:
    if estimator is None:
        return CoxRisk()
    if hasattr(estimator, "fit") and any(hasattr(estimator, name) for name in ("predict", "decision_function")):
        return estimator
    if hasattr(estimator, "fit") and hasattr(estimator, "transform"):
        return CoxRisk(embedding=estimator, n_features=None)
    raise InputError(f"estimator={estimator!r} came; wanted is an embedding, or an object with fit and predict.")


def _cuts(cuts: Sequence[float]) -> tuple[float, ...]:
    values = tuple(float(value) for value in np.atleast_1d(np.asarray(cuts, dtype=float)))
    if not values or not all(0 < a < b for a, b in zip(values, (*values[1:], 1.0), strict=True)):
        raise InputError(f"cuts={cuts!r} came; wanted are rising shares between 0 and 1, such as (0.5,) or (1/3, 2/3).")
    return values


def _target(model: Any, time: Matrix, event: Any) -> Any:
    """What the model learns from: the event, martingale residuals of these rows alone, or both columns."""
    if is_classifier(model):
        return event
    if is_regressor(model):
        return martingale_residuals(time, event)
    return np.array(list(zip(event.astype(bool), time, strict=True)), dtype=[("event", bool), ("time", float)])


def _predicted(model: Any, X: Matrix) -> Matrix:
    if is_classifier(model):
        probability = hasattr(model, "predict_proba")
        return np.asarray(model.predict_proba(X)[:, 1] if probability else model.decision_function(X), dtype=float)
    return np.asarray(model.predict(X), dtype=float).ravel()


def _null(scene: _Scene, time: Matrix, event: Any, count: int, seed: int, n_jobs: int | None) -> Matrix:
    """z and concordance (count x 2) of outcomes dealt anew."""
    if not isinstance(count, int | np.integer) or count < 0:
        raise InputError(f"n_permutations={count!r} came; wanted is a whole number, 0 for none.")

    def once(source: np.random.SeedSequence) -> tuple[float, float]:
        random = np.random.default_rng(source)
        deal = random.permutation(len(time))
        with few_threads(len(scene.X)), counted_warnings():
            judged = scene.judge(time[deal], event[deal], int(random.integers(2**31)))
        return judged.z, judged.concordance

    seeds = np.random.SeedSequence(seed).spawn(count)
    return np.array(parallel(n_jobs)(delayed(once)(one) for one in seeds), dtype=float).reshape(-1, 2)


def _result(
    own: _Judged,
    null: Matrix,
    time: Matrix,
    event: Any,
    names: list[Any],
    random: np.random.Generator,
    n_bootstrap: int,
    warned: dict[str, int],
) -> RiskGroups:
    import pandas as pd

    labels = pd.Categorical.from_codes(own.group, categories=pd.Index(own.labels), ordered=True)
    table = pd.DataFrame({"patient": names, "time": time, "event": event, "risk": own.risk})
    table = table.assign(group=np.asarray(own.labels)[own.group], fold=own.fold)
    curves = kaplan_meier(time, event, labels)
    inflation = max(1.0, float(np.sqrt(np.mean(null[:, 0] ** 2)))) if len(null) else 1.0
    p = (1 + np.count_nonzero(null[:, 0] >= own.z - 1e-9)) / (1 + len(null)) if len(null) else float("nan")
    draws = concordance_draws(time, event, own.risk, own.fold, n_bootstrap, random)
    return RiskGroups(
        table=table,
        log_rank_p=float(p),
        nominal_p=curves.log_rank_p,
        hazard_ratio=_widened(curves.hazard_ratio, inflation),
        concordance=_concordance_interval(own.concordance, draws, null[:, 1]),
        inflation=inflation,
        kaplan_meier=curves,
        warnings=dict(warned),
    )


def _widened(ratio: Interval, factor: float) -> Interval:
    """The interval of a hazard ratio, wider by a factor on the scale of logarithms."""
    low, high = (
        float(np.exp(np.log(ratio.value) + factor * np.log(end / ratio.value))) for end in (ratio.low, ratio.high)
    )
    return replace(ratio, low=low, high=high)


def _concordance_interval(value: float, draws: Matrix, null: Matrix) -> Interval:
    """Percentiles of the bootstrap, wider where permuted outcomes vary more around one half."""
    draws, null = draws[np.isfinite(draws)], null[np.isfinite(null)]
    if len(draws) < 2 or not np.isfinite(value):
        return Interval(value, float("nan"), float("nan"))
    spread = float(draws.std())
    wide = float(np.sqrt(np.mean((null - 0.5) ** 2))) if len(null) else spread
    factor = max(1.0, wide / spread) if spread > 0 else 1.0
    low, high = (value + factor * (end - value) for end in np.quantile(draws, [0.025, 0.975]))
    return Interval(value, max(0.0, float(low)), min(1.0, float(high)))
