"""The report of a ranking: the answer first, then how far to trust it, then how to read it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clearfold.cli.console import fact_table
from clearfold.cli.question import Question
from clearfold.cli.ranking_tables import (
    CLEAR,
    HEADS,
    data_facts,
    in_percent,
    method_facts,
    percent,
    readable,
    whole_ranking,
)
from clearfold.errors import ClearfoldError, ClearfoldWarning
from clearfold.report import Report

if TYPE_CHECKING:
    import pandas as pd

    from clearfold.importance import Agreement

LISTED = 50
HARDLY_SEEN = 0.1
"""A feature of smaller fidelity is hardly seen by the map."""

ASKED = {
    "label": "which features set samples of different “{0}” apart",
    "value": "which features go with “{0}”",
    "censored": "which features go with the censored time “{0}”",
}

HOW_TO_READ = (
    "Importance is a feature's share in what the map's coordinates say about the outcome; all shares sum to 1. It "
    "describes this map of these samples. It does not say that a feature causes anything, nor that one could do "
    "without the others.",
    "Good simple filters do about as well: on real tables this ranking ties with them for prediction. It gains clearly "
    "over plain FINE (--importance fine), which loses to a t-test on most tables. Its use is to say what a given map "
    "shows, and to see curved and joint effects that a t-test cannot. Where t-test, Gini and this ranking agree, a "
    "t-test would have done.",
    "The label-free rank is what the map alone says, without any labels. A feature that is first there too may be "
    "first only because it shapes the map.",
    "Fidelity is the part of a feature's variance that the coordinates reproduce (R²). A feature of low fidelity is "
    "hardly seen by the map; its share says little about it, whether large or small.",
    "p-values compare with shuffled labels while the embedding stays fixed (it is fitted again only if it saw the "
    "labels, as pls does). They say that labels and map go together, not that the map would look the same in new "
    "patients. q is p corrected for the number of features (Benjamini and Hochberg).",
    "Intervals and stability come from rounds: the whole ranking is repeated on three quarters of the patients. Rows "
    "of one patient always stay together, in rounds and in permutations, if the patient column was given. If it was "
    "not, and patients have several rows, everything here looks more certain than it is.",
    "Stability says how far the rounds agree on the first features. Compare it with its chance level: when it is not "
    "well above, another hospital will find other features. By a common rule of thumb Nogueira's measure below 0.4 is "
    "poor and above 0.75 excellent.",
    "Features that correlate strongly are interchangeable: which of them comes first is nearly chance. Read groups.",
)


@dataclass(frozen=True)
class Comparison:
    """The ranking under five embeddings, or why there is none; and what was warned of meanwhile."""

    agreement: Agreement | None
    why_not: str = ""
    notes: tuple[str, ...] = ()


def comparison(X: pd.DataFrame, question: Question, method: str, top: int) -> Comparison:
    """Rank again under each of five embeddings; a table too small for them is no error."""
    from clearfold.importance import agreement

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", ClearfoldWarning)
        try:
            found = agreement(X, question.y, groups=question.cases.groups, method=method, top=top)
        except ClearfoldError as error:
            return Comparison(None, str(error))
    return Comparison(found, notes=tuple(sorted({warning.category.__name__ for warning in caught})))


def round_notes(fitted: Any) -> list[str]:
    """What the rounds warned of, each once with its count; and permutations too few to tell."""
    notes = [f"{name}: in {count} of {fitted.n_rounds} rounds" for name, count in fitted.round_warnings_.items()]
    return [*notes, too_few] if (too_few := _too_few_permutations(fitted)) else notes


def _too_few_permutations(fitted: Any) -> str:
    """q = p m / rank: the smallest p that B permutations can give, 1 / (1 + B), may be too large for any q < 0.05."""
    table, B = fitted.table_, fitted.n_permutations
    lowest = int((table["p_value"] <= 1.0001 / (1 + B)).sum()) if B else 0
    if not lowest or (table["q_value"] < CLEAR).any():
        return ""
    enough = math.ceil(len(table) / (CLEAR * lowest))
    features = "1 feature has" if lowest == 1 else f"{lowest} features have"
    return f"{features} the smallest p-value that {B} permutations can give. Whether q is below {CLEAR} takes {enough}."


def ranking_page(
    title: str, command: str, question: Question, fitted: Any, notes: Sequence[str], others: Comparison, top: int
) -> Report:
    """The whole report of `clearfold rank`."""
    page = Report(title, {"command": command}).text(answer(fitted), _asked(question, fitted)).warnings(notes)
    page.heading("What was asked, and of which data").table(fact_table(data_facts(question)), name="data")
    add_ranking(page, fitted, top)
    add_trust(page, fitted)
    add_comparison(page, others, len(fitted.importances_))
    _add_map(page, question, fitted)
    page.heading("How to read this, and what is known").text(*HOW_TO_READ)
    return page.ending(fact_table(method_facts(fitted)), methods_of(fitted))


def methods_of(fitted: Any) -> list[str]:
    """What there is to cite of a ranking."""
    return ["EmbeddingImportance", type(fitted.embedding_).__name__]


# The beginning --------------------------------------------------------------------------------------------------


def answer(fitted: Any) -> str:
    """The first paragraph: what stands out, or that nothing does."""
    table = fitted.table_.sort_values("rank")
    first, m = table.iloc[0], len(table)
    clear = int((table["q_value"] < CLEAR).sum())
    share = f"{percent(first['importance'])} % of the importance"
    if first["ci_low"] == first["ci_low"]:
        share += f" (95 % interval {percent(first['ci_low'])} to {percent(first['ci_high'])} %)"
    leads = f"The first is {first['feature']} with {share}."
    if not fitted.n_permutations:
        return f"No p-values were computed, so nothing here tells the {m} features from chance. {leads}"
    if not clear:
        few = _too_few_permutations(fitted)
        why = f"But {few[0].lower()}{few[1:]}" if few else "Among so many, shuffled labels do as well by chance."
        return (
            f"No feature stands out: none of {m} has a q-value below {CLEAR} (the smallest is "
            f"{table['q_value'].min():.2g}). {why} What follows is a list of candidates, not a finding. {leads}"
        )
    stand = "1 stands" if clear == 1 else f"{clear} stand"
    return f"Of {m} features, {stand} out from shuffled labels (q below {CLEAR}). {leads}"


def _asked(question: Question, fitted: Any) -> str:
    groups, h = question.cases.groups, fitted.loadings_.V.shape[0]
    patients = "" if groups is None else f" of {groups.nunique()} patients"
    name = type(fitted.embedding_).__name__
    left = f" {question.without} rows without an outcome were left out." if question.without else ""
    what = ASKED[question.kind].format(question.name)
    return f"Question: {what} on a map of {len(question.cases)} samples{patients} ({name}, {h} coordinates)?{left}"


# The sections ---------------------------------------------------------------------------------------------------


def add_ranking(page: Report, fitted: Any, top: int) -> Report:
    """The picture, the first features and the families."""
    from clearfold.plot import family_bars, importance_bars

    shown = min(top, len(fitted.table_))
    page.heading("The first features").figure(
        importance_bars(fitted, top),
        f"Importance of the first {shown} features, coloured by family where there are few. On the right, the rank of "
        f"the same feature by simple filters and without labels; bold where it is not among the first {shown}.",
        alt=f"Bars: {', '.join(whole_ranking(fitted)['feature'].head(5).map(str))} lead the ranking.",
    )
    families = fitted.family_importances_
    page.text(
        "In the table, “in rounds” is how often the feature was among those that stability is judged on, and the last "
        "columns are its ranks by other means."
    )
    whole = whole_ranking(fitted)
    listed = readable(whole.head(LISTED))
    page.table(listed, f"The first {min(LISTED, len(whole))} features.", name="ranking", data=whole)
    if 2 <= len(families) < len(fitted.table_):
        page.heading("Families").figure(
            family_bars(fitted),
            "Importance of whole families, with the number of their features. The mark shows where a bar would end if "
            "every feature had the same importance.",
        )
        several = in_percent(families[families["n_features"] > 1]).rename(columns=HEADS)
        page.table(several, name="families", data=families)
    return page


def add_trust(page: Report, fitted: Any) -> Report:
    """Stability, what the labels added, what the map hardly sees, what is interchangeable."""
    page.heading("Would other patients give the same ranking?")
    stable = fitted.stability_
    if stable is None:
        page.text("No rounds were asked for, so nothing is known of intervals and stability.")
    else:
        page.text(
            f"In each of {stable.n_rounds} rounds the ranking was made anew on three quarters of the patients, and its "
            f"first {stable.n_selected:g} features were compared. Two rounds share, by Jaccard, {stable.jaccard:.2f} "
            f"of them (chance: {stable.jaccard_chance:.2f}). Nogueira's stability is {stable.nogueira:.2f} (95 % "
            f"interval {stable.ci_low:.2f} to {stable.ci_high:.2f}; chance: 0)."
        )
    page.heading("What did the labels add?").text(
        f"The label share is {fitted.label_share_:.2f}: 0 would mean that the ranking is the one the map gives without "
        "any labels, 1 that it has nothing to do with that one."
    )
    first = fitted.table_.sort_values("rank").head(20)
    weak = first.loc[first["fidelity"] < HARDLY_SEEN, "feature"]
    if len(weak):
        page.text(
            f"{len(weak)} of the first {len(first)} features have a fidelity below {HARDLY_SEEN}: the map hardly sees "
            f"them ({', '.join(weak.astype(str))})."
        )
    _add_interchangeable(page, fitted)
    return page


def _add_interchangeable(page: Report, fitted: Any) -> None:
    groups = fitted.interchangeable()
    groups = groups[groups["n_members"] > 1]
    page.heading("Interchangeable features")
    if groups.empty:
        page.text("No two of the first 50 features correlate by 0.9 or more.")
        return
    members = [", ".join(map(str, names[1:9])) + (" …" if len(names) > 9 else "") for names in groups["members"]]
    together = [f"{percent(share)}\N{NO-BREAK SPACE}%" for share in groups["importance"]]
    page.text(
        "Members of each of these groups among the first 50 features all correlate by at least 0.9: within a group the "
        "order is nearly chance."
    )
    page.table(
        groups[["feature"]].assign(**{"and": members, "members": groups["n_members"], "share": together}),
        name="interchangeable",
        data=groups.assign(members=[", ".join(map(str, names)) for names in groups["members"]]),
    )


def add_comparison(page: Report, others: Comparison, m: int) -> None:
    """How far five embeddings agree on the ranking, or why they could not be compared."""
    page.heading("Does the ranking depend on the embedding?")
    if others.agreement is None:
        page.text(f"Five other embeddings could not be compared: {others.why_not}")
        return
    import numpy as np

    overlap, top = others.agreement.overlap.to_numpy(), others.agreement.top
    mean = overlap[~np.eye(len(overlap), dtype=bool)].mean()
    page.text(
        f"The features were ranked again under five embeddings (5 coordinates, 10 neighbours, features standardised). "
        f"Two of them share, by Jaccard, {mean:.2f} of their first {top} features on average "
        f"(chance: {top / (2 * m - top):.2f})."
    )
    if others.notes:
        page.text(f"Warned of meanwhile: {', '.join(others.notes)}.")
    page.figure(others.agreement.plot(), "Rank of each feature under each embedding, the best on average first.")
    page.remember("ranks-by-embedding", others.agreement.table)


def _add_map(page: Report, question: Question, fitted: Any) -> None:
    from clearfold.plot import scatter

    embedding = fitted.embedding_
    coordinates = embedding.embedding_ if hasattr(embedding, "embedding_") else embedding.x_scores_
    seen = "has no part" if hasattr(embedding, "embedding_") else "has part"
    page.heading("The map").figure(
        scatter(coordinates, question.colours),
        f"The first two of {coordinates.shape[1]} coordinates of every sample. The outcome {seen} in this embedding.",
    )
