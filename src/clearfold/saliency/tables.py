"""What was learned, as tables: a ranking for each region, the regions, and simpler rankings beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from clearfold.embedding.spectral import Matrix
from clearfold.importance.outcome import Outcome
from clearfold.saliency.trust import Bootstrap
from clearfold.selection import ranking, welch_t

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMED, APART = 3, 0.5
"""At most so many features are named that set a region apart, each by at least this many standard deviations."""


def ranking_table(names: Sequence[str], t: Matrix, draws: Bootstrap | None, count: int) -> pd.DataFrame:
    """feature, saliency, ci_low, ci_high, sign_agreement, selected_share; largest modulus first."""
    nothing = np.full(len(t), np.nan)
    low, high = (nothing, nothing) if draws is None else draws.interval(t)
    table = pd.DataFrame(
        {
            "feature": list(names),
            "saliency": t,
            "ci_low": low,
            "ci_high": high,
            "sign_agreement": nothing if draws is None else draws.sign_agreement(t),
            "selected_share": nothing if draws is None else draws.selected_share(count),
        }
    )
    return table.iloc[np.argsort(ranking(np.abs(t)))].reset_index(drop=True)


def region_table(
    questions: Sequence[Any], X: Matrix, mean: Matrix, scale: Matrix, names: Sequence[str]
) -> pd.DataFrame:
    """One row for each region; centres are in the units that came."""
    rows: list[dict[str, Any]] = []
    finite = np.where(np.isfinite(scale), scale, 0.0)
    for question in questions:
        cells = question.ensemble.cells
        main = question.ensemble.shares.argmax(axis=1)
        for region, weight in enumerate(question.memberships.T):
            own = main == region
            centre = weight @ X / max(weight.sum(), 1e-300)
            rows.append(
                {
                    "region": len(rows),
                    "label": question.label,
                    "mass": float(question.ensemble.mass[region]),
                    "n_samples": float(weight.sum()),
                    "n_sites": question.ensemble.partitions.sites.shape[1],
                    "n_cells": int(cells.times[own].sum()),
                    "n_distinct_cells": int(own.sum()),
                    "strength": float(question.strengths[region]),
                    "p_value": float(question.p_value[region]),
                    "above_null": bool(question.above[region]),
                    "centre": mean + finite * centre,
                    "separates": _separates(X, weight, names),
                }
            )
    return pd.DataFrame(rows)


def _separates(X: Matrix, weight: Matrix, names: Sequence[str]) -> str:
    """The features in which a region's samples differ most from the others, in standard deviations."""
    rest = 1 - weight
    if rest.sum() < 1e-6 * len(X):
        return "the only region"
    gap = weight @ X / max(weight.sum(), 1e-300) - rest @ X / rest.sum()
    gap = gap / np.maximum(X.std(axis=0), 1e-300) * (X.std(axis=0) > 0)
    first = [j for j in np.argsort(-np.abs(gap), kind="stable")[:NAMED] if abs(gap[j]) >= APART]
    words = [f"{names[j]} {'higher' if gap[j] > 0 else 'lower'} by {abs(gap[j]):.1f} sd" for j in first]
    return ", ".join(words) or "no single feature"


def comparison_table(
    names: Sequence[str], questions: Sequence[Any], saliency: Matrix, X: Matrix, outcome: Outcome
) -> pd.DataFrame:
    """region, feature, and its rank here (local), by one linear machine for all samples and by a t-test; with signs."""
    tables, region = [], 0
    for question in questions:
        overall = question.machines.weighted(np.ones(len(X))).saliency
        t = ranking(welch_t(X, question.machines.positive.astype(int)))
        for _ in range(question.memberships.shape[1]):
            table = {
                "region": region,
                "feature": list(names),
                "local": ranking(np.abs(saliency[region])),
                "global_svm": ranking(np.abs(overall)),
                "t_test": t,
                "saliency": saliency[region],
                "global_saliency": overall,
            }
            tables.append(pd.DataFrame(table))
            region += 1
    return pd.concat(tables, ignore_index=True).sort_values(["region", "local"], ignore_index=True)
