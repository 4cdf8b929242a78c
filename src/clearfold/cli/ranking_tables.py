"""A ranking as tables: every feature, what a reader wants of it, and the facts around it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clearfold.cli.methods import neighbors_of
from clearfold.cli.question import Question

if TYPE_CHECKING:
    import pandas as pd

CLEAR = 0.05
"""A feature stands out when its q-value is below this."""
NARROW = "\N{NO-BREAK SPACE}"
HEADS = {
    "importance": "share",
    "n_features": "features",
    "p_value": "p",
    "q_value": "q",
    "selected_share": "in rounds",
    "rank_by_gini": "Gini",
    "rank_by_label_free": "label-free",
    "rank_by_t": "t",
    "rank_by_correlation": "correlation",
}
"""Columns of a ranking in a reader's words."""


def whole_ranking(fitted: Any) -> pd.DataFrame:
    """Every feature, best first, with its ranks by simple filters and without labels."""
    others = fitted.comparison_.drop(columns="feature").add_prefix("rank_by_")
    return fitted.table_.join(others).sort_values("rank", ignore_index=True)


def readable(ranking: pd.DataFrame) -> pd.DataFrame:
    """Columns in the order and words of a reader; a family that is one feature is none."""
    alone = ranking["family"] == ranking["feature"]
    order = ["rank", *[name for name in ranking.columns if name != "rank" and not (name == "family" and alone.all())]]
    table = ranking.assign(family=ranking["family"].mask(alone, "–"))[order]
    return in_percent(table).rename(columns=HEADS).round({"fidelity": 2, "in rounds": 2})


def in_percent(table: pd.DataFrame) -> pd.DataFrame:
    """Shares in percent, ci_low and ci_high as one column of text, p and q with three digits."""
    pairs = zip(table["ci_low"], table["ci_high"], strict=True)
    text = ["–" if low != low else f"{percent(low)}–{percent(high)}" for low, high in pairs]
    short = table.drop(columns=["ci_low", "ci_high"])
    short.insert(list(table.columns).index("ci_low"), "95 % interval", text)
    share = [f"{percent(value)}{NARROW}%" for value in table["importance"]]
    return short.assign(importance=share, p_value=table["p_value"].round(3), q_value=table["q_value"].round(3))


def percent(share: float) -> str:
    """Two digits after the point for small shares, one for large ones."""
    return f"{100 * share:.2f}" if share < 0.1 else f"{100 * share:.1f}"


# Facts in words that JSON and a table can hold ------------------------------------------------------------------


def data_facts(question: Question) -> dict[str, Any]:
    """What was asked, and of which data."""
    cases, groups = question.cases, question.cases.groups
    return {
        "outcome": f"{question.name} ({question.kind})",
        "events" if question.kind == "censored" else "classes": question.parts,
        "samples": len(cases),
        "patients": None if groups is None else int(groups.nunique()),
        "rows without outcome": question.without or None,
        "features": len(cases.families),
        "constant features": int((cases.X.min() == cases.X.max()).sum()) or None,
        "dropped": str(cases.dropped) if cases.dropped != type(cases.dropped)() else None,
        "ignored columns": cases.ignored,
    }


def method_facts(fitted: Any) -> dict[str, Any]:
    """The embedding and the options; None where the method has no such thing."""
    embedding = fitted.embedding_
    return {
        "embedding": type(embedding).__name__,
        "coordinates": int(fitted.loadings_.V.shape[0]),
        "neighbors": neighbors_of(embedding),
        "bandwidth": getattr(embedding, "bandwidth_", None),
        "standardised": bool(fitted.standardize),
        "importance": fitted.method,
        "redundancy": fitted.redundancy or None,
        "rounds": fitted.n_rounds,
        "permutations": fitted.n_permutations,
        "seed": fitted.random_state,
    }


def result_facts(fitted: Any) -> dict[str, Any]:
    """What a reader would ask first."""
    stable = fitted.stability_
    return {
        f"features with q < {CLEAR}": int((fitted.table_["q_value"] < CLEAR).sum()) if fitted.n_permutations else None,
        "stability": None if stable is None else f"{stable.nogueira:.3f} (Nogueira; chance 0)",
        "label share": round(fitted.label_share_, 4),
    }
