"""Kaplan-Meier curves of groups, the log-rank test and hazard ratios: groups that were known beforehand."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from clearfold.embedding.spectral import Matrix
from clearfold.survival.measures import Interval
from clearfold.survival.times import lifelines, read_groups, read_times

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

LARGEST = 20.0
"""A log hazard ratio beyond this, or so uncertain, has run away: the likelihood has no maximum."""


@dataclass(frozen=True)
class KaplanMeier:
    """Survival of groups.

    curves : DataFrame group, time, survival, low, high (95 %, log-log Greenwood), at_risk, events, censored; each
        group begins at time 0 with survival 1
    summary : DataFrame group, n, events, median (inf if survival never falls to one half), hazard_ratio, ci_low,
        ci_high (against the first group; NaN if it cannot be estimated)
    log_rank_p : chance of curves that differ as much, if the groups do not; valid for groups that were made without
        looking at these times and events
    notes : what a reader must know
    """

    table: pd.DataFrame
    curves: pd.DataFrame
    summary: pd.DataFrame
    log_rank_p: float
    notes: tuple[str, ...] = ()

    @property
    def hazard_ratio(self) -> Interval:
        """Hazard of the last group over that of the first, with its 95 % interval (Cox, Wald)."""
        last = self.summary.iloc[-1]
        return Interval(*(float(last[name]) for name in ("hazard_ratio", "ci_low", "ci_high")))

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Curves with bands, and numbers at risk below."""
        from clearfold.plot.survival import survival_curves

        return survival_curves(self.curves, ax=ax, text=f"log-rank p = {self.log_rank_p:.2g}")

    def __str__(self) -> str:
        lines = [self.summary.round(3).to_string(index=False), f"log-rank p = {self.log_rank_p:.3g}", *self.notes]
        return "\n".join(lines)


def kaplan_meier(time: Any, event: Any, group: Any) -> KaplanMeier:
    """S(t) = product over event times up to t of (1 - deaths / at risk), for each group.

    Parameters
    ----------
    time : (n,) time to the event or to the last visit, not negative
    event : (n,) 1 or True if the event was seen, 0 or False if the patient was censored
    group : (n,) at least two groups; the first (in sorted or categorical order) is the reference. For risk groups
        made from the same patients use `risk_groups`: a p-value of groups that saw the outcome means nothing

    Examples
    --------
    >>> found = kaplan_meier([5, 8, 12, 3, 4, 6], [1, 0, 1, 1, 1, 1], ["a", "a", "a", "b", "b", "b"])
    >>> print(f"{found.log_rank_p:.3f}")
    0.110
    """
    import pandas as pd

    time, event = read_times(time, event)
    codes, names = read_groups(group, len(time))
    curves = pd.concat([_curve(time[codes == k], event[codes == k], name) for k, name in enumerate(names)])
    statistics = lifelines("lifelines.statistics")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        p = float(statistics.multivariate_logrank_test(time, codes, event).p_value)
    ratios, notes = _hazard_ratios(time, event, codes, names)
    summary = pd.DataFrame(
        {
            "group": names,
            "n": [int((codes == k).sum()) for k in range(len(names))],
            "events": [int(event[codes == k].sum()) for k in range(len(names))],
            "median": [_median(curves[curves["group"] == name]) for name in names],
            "hazard_ratio": [ratio.value for ratio in ratios],
            "ci_low": [ratio.low for ratio in ratios],
            "ci_high": [ratio.high for ratio in ratios],
        }
    )
    table = pd.DataFrame({"time": time, "event": event, "group": np.asarray(names)[codes]})
    return KaplanMeier(table, curves.reset_index(drop=True), summary, p, notes)


def log_rank_z(time: Matrix, event: Any, codes: Any) -> float:
    """(observed - expected) / standard deviation of the sum of codes at events; its square is the log-rank statistic.

    For more than two groups in order it is the test for trend. 0 if nothing can be compared.
    """
    order = np.argsort(time, kind="stable")
    time, event, codes = time[order], event[order], np.asarray(codes, dtype=float)[order]
    _, first = np.unique(time, return_index=True)
    n = len(time) - first
    d = np.add.reduceat(event.astype(float), first)
    mean = codes[::-1].cumsum()[::-1][first] / n
    square = (codes**2)[::-1].cumsum()[::-1][first] / n
    variance = (d * (n - d) / np.maximum(n - 1, 1) * (square - mean**2)).sum()
    apart = (event * codes).sum() - (d * mean).sum()
    return float(apart / np.sqrt(variance)) if variance > 1e-12 else 0.0


def _curve(time: Matrix, event: Any, name: str) -> pd.DataFrame:
    fitter = lifelines("lifelines").KaplanMeierFitter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitter.fit(time, event)
    band, counts = fitter.confidence_interval_, fitter.event_table
    frame = counts[["at_risk", "observed", "censored"]].rename(columns={"observed": "events"}).astype(int)
    frame.insert(0, "survival", fitter.survival_function_.iloc[:, 0])
    frame.insert(1, "low", band.iloc[:, 0].fillna(frame["survival"]))
    frame.insert(2, "high", band.iloc[:, 1].fillna(frame["survival"]))
    frame.insert(0, "group", name)
    frame.insert(1, "time", frame.index.to_numpy(dtype=float))
    return frame


def _median(curve: pd.DataFrame) -> float:
    below = curve.loc[curve["survival"] <= 0.5, "time"]
    return float(below.iloc[0]) if len(below) else float("inf")


def _hazard_ratios(time: Matrix, event: Any, codes: Any, names: list[str]) -> tuple[list[Interval], tuple[str, ...]]:
    """Cox regression on one indicator for each group but the first."""
    nothing = [Interval(float("nan"), float("nan"), float("nan"))] * (len(names) - 1)
    one = Interval(1.0, float("nan"), float("nan"))
    empty = [name for k, name in enumerate(names) if event[codes == k].sum() == 0]
    if empty:
        note = f"no event in group {', '.join(empty)}: a hazard ratio cannot be estimated."
        return [one, *nothing], (note,)
    import pandas as pd

    frame = pd.DataFrame({f"g{k}": (codes == k).astype(float) for k in range(1, len(names))})
    frame = frame.assign(time=time, event=event)
    failed = (*nothing,), ("the groups part completely: a hazard ratio cannot be estimated.",)
    with warnings.catch_warnings():  # lifelines' own words on convergence become our note
        warnings.simplefilter("ignore")
        try:
            fitted = lifelines("lifelines").CoxPHFitter().fit(frame, "time", "event")
        except (ValueError, ArithmeticError, np.linalg.LinAlgError):
            return [one, *failed[0]], failed[1]
    b, spread = fitted.params_.to_numpy(), fitted.standard_errors_.to_numpy()
    if not (np.isfinite(b) & np.isfinite(spread) & (np.abs(b) < LARGEST) & (spread < LARGEST)).all():
        return [one, *failed[0]], failed[1]
    return [one, *(hazard_interval(*pair) for pair in zip(b, spread, strict=True))], ()


def hazard_interval(log_ratio: float, spread: float) -> Interval:
    """exp(b), exp(b - 1.96 s), exp(b + 1.96 s)."""
    return Interval(*(float(np.exp(log_ratio + k * 1.959964 * spread)) for k in (0, -1, 1)))
