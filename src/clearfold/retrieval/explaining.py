"""Why a hit was found: named features, weighted by what the embedding uses."""

from __future__ import annotations

import warnings
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from clearfold.embedding import BeliefSpectralEmbedding
from clearfold.embedding.spectral import Matrix
from clearfold.errors import ClearfoldWarning
from clearfold.retrieval.background import Background
from clearfold.retrieval.results import LISTED, Reason, Reasons
from clearfold.retrieval.units import meanings_of, units_of

if TYPE_CHECKING:
    import pandas as pd

STEP = 0.5
"""Of a standard deviation: how far a feature is moved to see what the embedding makes of it."""

SHOWN = ("query", "hit", "median", "query_percentile", "hit_percentile")

BY_WEIGHT = (
    "near is w (z_q^2 + 1 - (z_q - z_h)^2), how much nearer the hit is on a feature than a random case of the archive, "
    "far is w (z_q - z_h)^2, both as shares of the difference that a random case would have; z are z-scores, w how far "
    "the embedding moves the query when the feature changes. They explain weighted differences of features; the "
    "distance follows them, not exactly."
)
BY_BELIEF = (
    "near is what a feature says, in both cases, for the class that they most likely share (the smaller of the two), "
    "far how unlike the two are on it, both as shares of all features. They explain the affinity of query and hit; the "
    "distance follows it, not exactly."
)


class Explainer:
    """Reasons for the hits of one query.

    row : the query's features that the embedding uses, NaN where missing
    lengths : what the archive's lengths are in: um, px or unknown
    """

    def __init__(self, fitted: Any, background: Background, row: Matrix, lengths: str | None = None) -> None:
        self.fitted, self.background, self.row, self.lengths = fitted, background, row, lengths

    @cached_property
    def _units(self) -> dict[str, str]:
        return units_of(self.background.names, self.lengths)

    def reasons(self, hit: Matrix) -> Reasons:
        """Why a case with these features was found."""
        parts, how = (self._by_belief(hit), BY_BELIEF) if self._belief else (self._by_weight(hit), BY_WEIGHT)
        table = self._table(hit, parts)
        near = self._named(table, "near")
        told = {reason.feature for reason in near}  # far from the median, both: near, although they differ
        return Reasons(table, near, self._named(table[~table["feature"].isin(told)], "far"), how)

    @cached_property
    def _belief(self) -> Any:
        """The belief embedding that explains itself, behind steps that keep features apart; None for any other."""
        estimator = self.fitted.estimator
        last = estimator[-1] if hasattr(estimator, "steps") else estimator
        own = isinstance(last, BeliefSpectralEmbedding) and last.n_features_in_ == len(self.background.names)
        return last if own else None

    def _by_belief(self, hit: Matrix) -> dict[str, Matrix]:
        before = self.fitted.estimator[:-1] if self._belief is not self.fitted.estimator else None
        both = self._frame(np.stack([self.row, hit]))
        rows = both.to_numpy() if before is None or not len(before.steps) else np.asarray(before.transform(both))
        query, other = self._belief.reasons(*rows), self._belief.reasons(*rows[::-1])
        if query.attrs["shared_class"] != other.attrs["shared_class"]:
            other = query  # the hit by itself looks like another class: then only the query can say why
        names = getattr(self._belief, "feature_names_in_", [f"x{j}" for j in range(rows.shape[1])])
        query, other = (table.set_index("feature").loc[list(names)] for table in (query, other))
        own, its = (table["why_same_class"].to_numpy() for table in (query, other))
        both, unlike = np.minimum(own, its), -query["how_alike"].to_numpy()
        return {
            "near": both / (np.abs(both).sum() or 1.0),
            "far": unlike / (unlike.sum() or 1.0),
            "why_same_class": own,
            "why_same_class_hit": its,
            "how_alike": -unlike,
        }

    def _by_weight(self, hit: Matrix) -> dict[str, Matrix]:
        query, other = self.background.scaled(np.stack([self.row, hit]))
        apart = self.weights * np.square(query - other)
        expected = self.weights * (np.square(query) + (self.background.spread > 0))
        total = expected.sum() or 1.0
        return {"near": (expected - apart) / total, "far": apart / total, "weight": self.weights}

    @cached_property
    def weights(self) -> Matrix:
        """|dc / dz_j|^2: how far the query's coordinates move when feature j does, in squares, summing to 1.

        From differences over half a standard deviation to both sides; equal where the embedding never moves.
        """
        start = self._frame(self.row[None]).to_numpy()
        step = STEP * self.background.spread
        moved = np.vstack([start + np.diag(step), start - np.diag(step)])
        with warnings.catch_warnings():  # a moved query may be isolated; that is not the question
            warnings.simplefilter("ignore", ClearfoldWarning)
            places = np.asarray(self.fitted.estimator.transform(self._frame(moved)))
        up, down = np.split(places, 2)
        squared = np.square(up - down).sum(axis=1)
        total = squared.sum()
        varies = (step > 0).astype(float)
        return squared / total if total > 0 else varies / max(varies.sum(), 1.0)

    def _frame(self, rows: Matrix) -> pd.DataFrame:
        """Rows as the estimator wants them: named, a missing value at the archive's median."""
        import pandas as pd

        return pd.DataFrame(np.where(np.isnan(rows), self.fitted.medians, rows), columns=list(self.fitted.features))

    @cached_property
    def _percentiles(self) -> Matrix:
        return self.background.percentiles(self.row)

    def _table(self, hit: Matrix, parts: dict[str, Matrix]) -> pd.DataFrame:
        import pandas as pd

        columns = {
            "feature": list(self.background.names),
            "near": parts.pop("near"),
            "far": parts.pop("far"),
            "query": self.row,
            "hit": hit,
            "median": self.background.median,
            "query_percentile": self._percentiles,
            "hit_percentile": self.background.percentiles(hit),
        }
        table = pd.DataFrame(columns | parts)
        return table.sort_values("near", ascending=False, kind="stable", ignore_index=True)

    def _named(self, table: pd.DataFrame, side: str) -> tuple[Reason, ...]:
        """The first few features of a side; those that say the same as an earlier one are only counted."""
        ordered = table[table[side] > 0].sort_values(side, ascending=False, kind="stable")
        place = {name: number for number, name in enumerate(self.background.names)}
        left = [place[name] for name in ordered["feature"]]
        rows = dict(zip(left, ordered.index, strict=True))
        named: list[Reason] = []
        while left and len(named) < LISTED:
            first, *others = left
            same = set(self.background.correlated(first, others))
            left = [other for other in others if other not in same]
            named.append(self._reason(ordered.loc[rows[first]], side, len(same)))
        return tuple(named)

    def _reason(self, row: Any, side: str, alike: int) -> Reason:
        about = {name: float(row[name]) for name in SHOWN}
        name = str(row["feature"])
        unit, meaning = self._units.get(name, ""), meanings_of([name]).get(name, "")
        return Reason(name, side, float(row[side]), unit=unit, alike=alike, meaning=meaning, **about)
