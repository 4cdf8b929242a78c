"""The figures of an archive: a line for each method, with chance and spread, and what they amount to in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from clearfold.embedding.spectral import Matrix
from clearfold.evaluate.retrieval import Queries, bootstrap_shares, micro_and_macro, precision_recall_curve, summary

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

K = (1, 5, 10)
BY_LABELS = "archive labels only"


@dataclass(frozen=True, eq=False)
class ArchiveEvaluation:
    """Each patient asks an archive that was fitted without that patient.

    table : DataFrame with a line for each method, the archive's embedding first: macro (mean over classes of the area
        under precision against recall), micro (over queries), each with a 95 % interval over patients; chance_macro,
        chance_micro; precision_at_1, _5, _10; among_new (macro when the left-out cases are asked among each other, so
        that no archive label helps); difference (of macro: the archive's embedding minus this line) with its interval
    curves : method -> DataFrame recall, precision, low, high
    classes : DataFrame label, queries, value, chance of the archive's embedding
    confusion : DataFrame, for each label of a query (rows) the share of labels (columns) among its first hits
    embedding : its name; notes : what a reader should know
    """

    table: pd.DataFrame
    curves: dict[str, pd.DataFrame]
    classes: pd.DataFrame
    confusion: pd.DataFrame
    embedding: str
    n_cases: int
    n_patients: int
    n_folds: int
    notes: tuple[str, ...] = ()

    @property
    def best_baseline(self) -> str:
        """The plain method with the highest macro; chance, and what only sorts by labels, are none."""
        names = [name for name in self.table["method"] if name not in ("random", BY_LABELS)]
        plain = [name for name in names if not name.startswith(self.embedding)]
        return str(self.table.set_index("method")["macro"][plain].idxmax())

    @property
    def verdict(self) -> str:
        """Whether the embedding is above the best plain method, in words."""
        own = self.table.set_index("method").loc[self.embedding]
        other = self.table.set_index("method").loc[self.best_baseline]
        gap = f"{other['difference']:+.3f} [{other['difference_low']:+.3f}, {other['difference_high']:+.3f}]"
        words = (
            "above" if other["difference_low"] > 0 else "below" if other["difference_high"] < 0 else "not apart from"
        )
        return (
            f"{self.embedding} ({own['macro']:.3f}) is {words} the best plain method, {self.best_baseline} "
            f"({other['macro']:.3f}): difference {gap}, 95 % interval over patients."
        )

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Precision against recall of the archive's embedding, its band over patients, the others and chance."""
        from clearfold.plot.retrieval import precision_recall

        chance = float(self.table["chance_micro"].iloc[0])
        return precision_recall(self.curves, first=self.embedding, chance=chance, ax=ax)

    def __str__(self) -> str:
        columns = ["method", "macro", "macro_low", "macro_high", "micro", "chance_macro", "precision_at_5", "among_new"]
        head = f"AUPRC of {self.n_cases} cases of {self.n_patients} patients, {self.n_folds} folds of patients"
        return "\n".join([head, self.table[columns].round(3).to_string(index=False), self.verdict, *self.notes])


def method_table(
    found: Mapping[str, Queries], among: Mapping[str, Queries], n_bootstrap: int, seed: int
) -> tuple[pd.DataFrame, dict[str, pd.DataFrame]]:
    """A line and a curve for each method, the first of which is the archive's embedding; all on the same draws."""
    import pandas as pd

    own = next(iter(found.values()))
    shares = bootstrap_shares(own.patients, n_bootstrap, seed)
    first = micro_and_macro(own, own.value, shares)[1]
    lines = []
    for name, queries in found.items():
        figures = summary(queries, shares)
        figures |= {f"precision_at_{k}": float(np.nanmean(queries.near[:, at])) for at, k in enumerate(K)}
        fresh = summary(among[name], np.empty((0, len(among[name].value)))).get("macro", np.nan)
        gaps = first - micro_and_macro(queries, queries.value, shares)[1]
        gaps = gaps[~np.isnan(gaps)]
        low, high = np.quantile(gaps, [0.025, 0.975]) if len(gaps) else (np.nan, np.nan)
        lines.append(
            {"method": name, **figures, "among_new": np.nan if name == BY_LABELS else fresh}
            | {"difference": np.nan, "difference_low": float(low), "difference_high": float(high)}
        )
    table = pd.DataFrame(lines)
    table["difference"] = table["macro"].iloc[0] - table["macro"]
    return table, {name: precision_recall_curve(queries, shares) for name, queries in found.items()}


def class_table(own: Queries, names: Any) -> pd.DataFrame:
    """A line for each label: queries, mean value, chance."""
    import pandas as pd

    lines = []
    for code in np.unique(own.codes):
        mask = own.codes == code
        lines.append((names[code], int(mask.sum()), own.value[mask].mean(), own.chance[mask].mean()))
    return pd.DataFrame(lines, columns=["label", "queries", "value", "chance"])


def confusion_table(counts: Matrix, names: Any) -> pd.DataFrame:
    """Counts as shares of each row."""
    import pandas as pd

    total = counts.sum(axis=1, keepdims=True)
    return pd.DataFrame(counts / np.where(total > 0, total, 1.0), index=names, columns=names)
