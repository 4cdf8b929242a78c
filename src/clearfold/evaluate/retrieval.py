"""Which earlier cases look like this one? Precision and recall of retrieval, with chance, spread and patients apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.metrics import silhouette_samples

from clearfold.embedding.precision import Ranking
from clearfold.embedding.spectral import Matrix
from clearfold.errors import InputError
from clearfold.evaluate.queries import Asked, column

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

RECALLS = np.linspace(0.0, 1.0, 101)
"""Recalls at which a curve is read."""
MEASURES = ("area", "average_precision")


@dataclass(frozen=True)
class Queries:
    """One value for each query: its area (or average precision), chance, precision at k, and precision at RECALLS."""

    value: Matrix
    chance: Matrix
    near: Matrix
    curve: Matrix
    codes: Any
    patients: Any

    def take(self, rows: Any) -> Queries:
        """Some of the queries."""
        return Queries(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class Retrieval:
    """How well samples of the same class find each other.

    table : DataFrame with one line for all queries and one for each part of them: queries, undefined (without any
        relevant sample; in no mean), micro (mean over queries), macro (mean over classes), each with a bootstrap
        interval over patients; chance_micro, chance_macro; precision_at_k; silhouette
    classes : DataFrame with one line for each class: queries, undefined, value, chance
    curve : DataFrame recall, precision (mean over queries), low, high (band over patients)
    queries : one value for each query, NaN where undefined; measure : what is in micro and macro
    """

    table: pd.DataFrame
    classes: pd.DataFrame
    curve: pd.DataFrame
    queries: Matrix
    measure: str

    def __getitem__(self, name: str) -> float:
        """A figure of all queries: `result["macro"]`."""
        return float(self.table[name]["all"])

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Precision against recall with its band over patients, and chance."""
        from clearfold.plot.style import COLOURS, GREY, axes

        ax = axes(ax, (5.4, 3.8))
        recall, precision, low, high = (self.curve[name] for name in ("recall", "precision", "low", "high"))
        ax.fill_between(recall, low, high, color=COLOURS[0], alpha=0.2, linewidth=0)
        ax.plot(recall, precision, color=COLOURS[0], linewidth=1.8)
        ax.axhline(self["chance_micro"], color=GREY, linestyle=(0, (4, 3)), linewidth=1.2)
        ax.set(xlabel="recall", ylabel="precision", xlim=(0, 1), ylim=(0, 1.02))
        return ax

    def __str__(self) -> str:
        names = {"area": "AUPRC", "average_precision": "average precision"}
        lines = [f"{names[self.measure]} of {int(self['queries'])} queries"]
        for part, row in self.table.iterrows():
            lines.append(
                f"  {part}: macro {row['macro']:.3f} [{row['macro_low']:.3f}, {row['macro_high']:.3f}] "
                f"(chance {row['chance_macro']:.3f}), micro {row['micro']:.3f} (chance {row['chance_micro']:.3f}), "
                f"silhouette {row['silhouette']:.3f}"
                + (f", {int(row['undefined'])} without a relevant sample" if row["undefined"] else "")
            )
        return "\n".join(lines)


def auprc(coordinates: Any, labels: Any, *, groups: Any = "each", metric: str = "euclidean") -> float:
    """Mean over queries of the area under precision against recall, each sample a query among all others.

    Trapezoids from (0, p(1)) on; chance and spread are in `retrieval`, which wants to know the patients. Queries
    without a relevant sample are undefined and in no mean; if all are, an InputError says so.
    """
    asked = Asked(coordinates, labels, groups, metric)
    everyone = np.arange(asked.size)
    values = np.concatenate([ranking.area() for _, ranking in asked.rankings(everyone, everyone)])
    if np.isnan(values).all():
        raise InputError("no query has a relevant sample: every class has one sample, or one patient. Check labels.")
    return float(np.nanmean(values))


def retrieval(
    coordinates: Any,
    labels: Any,
    *,
    groups: Any = None,
    queries: Any = None,
    database: Any = None,
    parts: Any = None,
    metric: str = "euclidean",
    measure: str = "area",
    k: tuple[int, ...] = (1, 5, 10),
    n_bootstrap: int = 500,
    random_state: int = 0,
) -> Retrieval:
    """Rank the database for every query by distance; relevant is what has the query's label, not its patient.

    Parameters
    ----------
    coordinates : (n, h); with metric="precomputed" distances (n, n)
    labels : of all n samples
    groups : patient of each sample, never returned for a query of the same patient; "each" states that every sample
        is a patient of its own. There is no default: images of one patient find each other without any signal
    queries, database : rows or masks of who asks and who may be found; all of them by default
    parts : a name for each sample ("labelled", "unlabelled", "out of sample"), reported apart
    measure : "area" under precision against recall, or "average_precision"
    """
    if measure not in MEASURES:
        raise InputError(f"measure={measure!r} came; {' or '.join(map(repr, MEASURES))} is wanted.")
    asked = Asked(coordinates, labels, groups, metric)
    rows, columns = asked.chosen(queries, "queries"), asked.chosen(database, "database")
    result = asked_all(asked, rows, columns, measure, tuple(k))
    if np.isnan(result.value).all():
        raise InputError("no query has a relevant sample of another patient in the database. Check labels and groups.")
    shares = bootstrap_shares(result.patients, n_bootstrap, random_state)
    table = _parts_table(asked, rows, result, shares, parts, tuple(k))
    return Retrieval(table, _class_table(asked, result), precision_recall_curve(result, shares), result.value, measure)


def precision_at(coordinates: Any, labels: Any, k: int, *, groups: Any = None, metric: str = "euclidean") -> float:
    """Mean relevant share of the k nearest samples; of all there are when fewer."""
    return retrieval(coordinates, labels, groups=groups, metric=metric, k=(k,), n_bootstrap=0)[f"precision_at_{k}"]


def silhouette(coordinates: Any, labels: Any, *, metric: str = "euclidean") -> float:
    """Mean of (b - a) / max(a, b): a the mean distance to the own class, b to the nearest other class."""
    asked = Asked(coordinates, labels, "each", metric)
    value = _silhouette(asked, np.arange(asked.size))
    if np.isnan(value):
        count = len(asked.names)
        raise InputError(f"{count} classes came for {asked.size} samples; from 2 to one fewer than samples are wanted.")
    return value


def asked_all(asked: Asked, rows: Any, columns: Any, measure: str, k: tuple[int, ...]) -> Queries:
    """What every query among `rows` found among `columns`."""
    parts = []
    for at, ranking in asked.rankings(rows, columns):
        value = ranking.area() if measure == "area" else ranking.average_precision()
        reach = np.clip(np.minimum.outer(ranking.candidates, np.array(k, dtype=int)), 1, None)
        near = np.take_along_axis(ranking.precision, reach - 1, axis=1)
        near[~ranking.defined] = np.nan
        chance = ranking.chance(measure)
        parts.append(Queries(value, chance, near, _read(ranking), asked.codes[at], asked.patients[at]))
    return Queries(*(np.concatenate([getattr(p, name) for p in parts]) for name in Queries.__dataclass_fields__))


def _read(ranking: Ranking) -> Matrix:
    """Precision where each of RECALLS is first reached; p(1) at 0."""
    curve = np.full((len(ranking.found), len(RECALLS)), np.nan)
    precision = ranking.precision
    for row in np.flatnonzero(ranking.defined):
        wanted = RECALLS * ranking.relevant[row] - 1e-9
        at = np.searchsorted(ranking.found[row], wanted)
        curve[row] = precision[row, np.minimum(at, precision.shape[1] - 1)]
    return curve


def bootstrap_shares(patients: Any, count: int, seed: int) -> Any:
    """How often each query's patient is drawn in each bootstrap round: rounds x queries."""
    names, codes = np.unique(patients, return_inverse=True)
    random = np.random.default_rng(seed)
    drawn = random.multinomial(len(names), np.full(len(names), 1 / len(names)), size=count)
    return drawn[:, codes].astype(float)


def micro_and_macro(result: Queries, values: Matrix, shares: Any) -> tuple[Any, Any]:
    """Mean over queries and mean over class means, for each row of shares; NaN where nothing was drawn."""
    with np.errstate(invalid="ignore"):
        seen = ~np.isnan(values)
        clean = np.where(seen, values, 0.0)
        micro = shares @ clean / (shares @ seen)
        by_class = [
            shares @ (clean * (result.codes == c)) / (shares @ (seen * (result.codes == c)))
            for c in np.unique(result.codes[seen])
        ]
    table = np.array(by_class)
    drawn = (~np.isnan(table)).sum(axis=0)
    return micro, np.where(drawn > 0, np.nansum(table, axis=0) / np.maximum(drawn, 1), np.nan)


def summary(result: Queries, shares: Any) -> dict[str, float]:
    """Micro and macro means with their 95 % intervals, and how many queries they rest on."""
    once = np.ones((1, len(result.value)))
    figures: dict[str, float] = {"queries": len(result.value), "undefined": int(np.isnan(result.value).sum())}
    if figures["undefined"] == figures["queries"]:
        return figures
    seen, all_drawn = (micro_and_macro(result, result.value, weights) for weights in (once, shares))
    for name, value, drawn in zip(("micro", "macro"), seen, all_drawn, strict=True):
        drawn = drawn[~np.isnan(drawn)]
        low, high = np.quantile(drawn, [0.025, 0.975]) if len(drawn) else (np.nan, np.nan)
        figures |= {name: float(value[0]), f"{name}_low": float(low), f"{name}_high": float(high)}
    micro, macro = micro_and_macro(result, result.chance, once)
    return figures | {"chance_micro": float(micro[0]), "chance_macro": float(macro[0])}


def _parts_table(asked: Asked, rows: Any, result: Queries, shares: Any, parts: Any, k: tuple[int, ...]) -> Any:
    import pandas as pd

    named = {"all": np.ones(len(rows), dtype=bool)}
    if parts is not None:
        names = column(parts, asked.size, "parts")[rows]
        named |= {str(name): names == name for name in dict.fromkeys(names.tolist())}
    lines = {}
    for name, mask in named.items():
        figures = summary(result.take(mask), shares[:, mask])
        seen = ~np.isnan(result.near[mask, 0]) if k else np.zeros(0)
        for place, count in enumerate(k):
            figures[f"precision_at_{count}"] = float(result.near[mask, place][seen].mean()) if seen.any() else np.nan
        lines[name] = figures | {"silhouette": _silhouette(asked, rows[mask])}
    return pd.DataFrame.from_dict(lines, orient="index")


def _class_table(asked: Asked, result: Queries) -> Any:
    import pandas as pd

    lines = []
    for code in np.unique(result.codes):
        mask = result.codes == code
        seen = mask & ~np.isnan(result.value)
        value, chance = (float(of[seen].mean()) if seen.any() else np.nan for of in (result.value, result.chance))
        lines.append((asked.names[code], int(mask.sum()), int((mask & ~seen).sum()), value, chance))
    return pd.DataFrame(lines, columns=["label", "queries", "undefined", "value", "chance"])


def precision_recall_curve(result: Queries, shares: Any) -> Any:
    """Mean precision at each recall, with a band over patients."""
    import pandas as pd

    seen = ~np.isnan(result.value)
    curve, weights = result.curve[seen], shares[:, seen]
    weights = weights[weights.sum(axis=1) > 0]
    drawn = weights @ curve / weights.sum(axis=1, keepdims=True)
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0) if len(drawn) else np.full((2, len(RECALLS)), np.nan)
    return pd.DataFrame({"recall": RECALLS, "precision": curve.mean(axis=0), "low": low, "high": high})


def _silhouette(asked: Asked, rows: Any) -> float:
    """Mean silhouette of some rows among each other, NaN where they hold too few or too many classes."""
    codes = asked.codes[rows]
    if not 2 <= len(np.unique(codes)) < len(rows):
        return float("nan")
    if asked.metric == "euclidean":
        near = asked.coordinates[rows]  # scikit-learn multiplies matrices, which loses fewest digits around 0
        return float(silhouette_samples(near - near.mean(axis=0), codes).mean())
    distances = asked.distances(rows, rows)
    np.fill_diagonal(distances, 0.0)
    return float(silhouette_samples(distances, codes, metric="precomputed").mean())
