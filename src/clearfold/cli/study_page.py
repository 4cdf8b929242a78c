"""The report of a study: what was asked, the map, the ranking, how far to trust it, survival, and searches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clearfold.cli.console import fact_table
from clearfold.cli.methods import coordinate_table
from clearfold.cli.question import Question
from clearfold.cli.ranking_page import (
    HOW_TO_READ,
    add_comparison,
    add_ranking,
    add_trust,
    answer,
    methods_of,
    round_notes,
)
from clearfold.cli.ranking_tables import data_facts, method_facts
from clearfold.cli.search_page import add_search
from clearfold.cli.study import QUICK_PERMUTATIONS, QUICK_ROUNDS, Study, Tradeoff
from clearfold.report import Report

if TYPE_CHECKING:
    import pandas as pd

QUICK = (
    f"Quick: at most {QUICK_ROUNDS} rounds, {QUICK_PERMUTATIONS} permutations and one classifier. Intervals are wider "
    "than they need to be; leave out --quick before you believe a small difference."
)
ABOUT_TRADEOFF = (
    "In each of {rounds} rounds, three quarters of the patients were drawn. Scaling, embedding, ranking, choice of "
    "{kept} features and classifier learned from them alone; the patients that were left out, with all their rows, "
    "judged. High and to the right is good: features that predict, and that other patients would select too.",
    "Lines are 95 % intervals over rounds. Rounds share patients: the intervals say how far a point would move with "
    "other rounds of these patients, not with another cohort. Many methods are compared here: the best of them looks "
    "better than it is.",
)
ABOUT_SURVIVAL = (
    "Each patient's risk, and the cut that the risk is held against (the median), come from a model of the other "
    "patients: the five first features of a ranking on the same embedding, then a ridge Cox regression, all learned "
    "again in each of the folds. No cut-point was searched for. p is by outcomes dealt anew, everything learned again; "
    "the nominal p treats the groups as known beforehand and is too small."
)
ABOUT_SEARCH = (
    "One case of each label was drawn at random from the archive and asked for its like; cases of its own patient "
    "could not answer. The archive knows these cases: this shows how answers look, not how often they are right. "
    "That is what clearfold evaluate measures."
)


def study_page(title: str, command: str, study: Study, notes: list[str]) -> Report:
    """The whole report."""
    page = Report(title, {"command": command}).text(*summary(study))
    quick = [QUICK] if study.settings.quick else []
    page.warnings([*quick, *notes, *round_notes(study.ranked), *_survival_notes(study)])
    _add_data(page, study)
    _add_maps(page, study)
    add_ranking(page, study.ranked, study.settings.top)
    add_trust(page, study.ranked)
    _add_tradeoff(page, study)
    add_comparison(page, study.others, len(study.ranked.importances_))
    _add_survival(page, study)
    if study.searches:
        page.heading("Which earlier cases look like this one, and why?").text(ABOUT_SEARCH)
        for found in study.searches:
            add_search(page, found)
    page.heading("How to read this, and what is known").text(*HOW_TO_READ)
    return page.ending(fact_table(study_facts(study)), _methods(study))


def study_facts(study: Study) -> dict[str, Any]:
    """Data, settings and seed: what someone needs to do it again."""
    settings, found, tradeoff = study.settings, study.survival, study.tradeoff
    return {
        **data_facts(study.question),
        **method_facts(study.ranked),
        "classifiers": list(settings.classifiers) if tradeoff else None,
        "features selected in a round": tradeoff.n_selected if tradeoff else None,
        "patients with a time": len(found.table) if found else None,
        "folds of survival": int(found.table["fold"].nunique()) if found else None,
        "permutations of survival": settings.n_survival if found else None,
        "searches": [found.case_id for found in study.searches],
        "quick": settings.quick,
    }


def _methods(study: Study) -> list[str]:
    return [*methods_of(study.ranked), *(["RiskGroups"] if study.survival else [])]


# The beginning --------------------------------------------------------------------------------------------------


def summary(study: Study) -> list[str]:
    """One paragraph for each question: what stands out, does it predict, do patients of high risk fare worse."""
    said = [answer(study.ranked)]
    if study.tradeoff is not None:
        said.append(_said_of_tradeoff(study.tradeoff))
    if study.survival is not None:
        found = study.survival
        p = f"p = {found.log_rank_p:.2g}" if found.log_rank_p == found.log_rank_p else "p was not computed"
        said.append(
            f"Groups of risk made out of fold: hazard ratio {found.hazard_ratio}, {p}; concordance "
            f"{found.concordance} (chance .5)."
        )
    return said


def _said_of_tradeoff(found: Tradeoff) -> str:
    """The first classifier's figures of the embedding's ranking beside the filters."""
    table = found.table[found.table["classifier"] == found.table["classifier"].iloc[0]]
    table = table[table["J"].notna() & ~table["method"].str.startswith("FINE")]
    own = table["method"].iloc[0]
    said = [f"{row['method']} {row[found.measure]:.2f} and {row['J']:.2f}" for row in table.to_dict("records")]
    return (
        f"On patients left out, {found.n_selected} selected features reach, by {table['classifier'].iloc[0]}, "
        f"{found.measure} and stability (Jaccard, chance {found.chance:.2f}): {'; '.join(said)}. “{own}” is the "
        "ranking that this report shows."
    )


def _survival_notes(study: Study) -> list[str]:
    found = study.survival
    if found is None:
        return []
    notes = [f"{name}: {count} times while survival was learned" for name, count in found.warnings.items()]
    if found.hazard_ratio.value < 1:
        notes.append("The group of high risk fared better: this risk predicts nothing here.")
    return [*notes, *found.kaplan_meier.notes]


# The sections ---------------------------------------------------------------------------------------------------


def _add_data(page: Report, study: Study) -> None:
    page.heading("What was asked, and of which data").table(fact_table(data_facts(study.question)), name="data")
    if study.timed is not None and study.timed is not study.question:
        used, without = len(study.timed.cases), study.timed.without
        page.text(f"Survival used {used} rows, those with a time and an event; {without} had none.")
    left = exclusions(study.question)
    if len(left):
        page.table(left, "What was left out, and why.", name="exclusions")


def exclusions(question: Question) -> pd.DataFrame:
    """A line for each thing of the file that had no part: what, how many, why."""
    import pandas as pd

    cases = question.cases
    rows = [
        ("rows", question.without, f"no {question.name}"),
        ("rows", cases.dropped.n_samples, "a feature is missing (--drop-missing)"),
        *((f"feature {name}", 1, "over 5 % missing (--drop-missing)") for name in cases.dropped.features),
        *((f"column {name}", 1, why) for name, why in cases.ignored.items()),
    ]
    return pd.DataFrame([row for row in rows if row[1]], columns=["what", "how many", "why"])


def _add_maps(page: Report, study: Study) -> None:
    from clearfold.plot import maps

    embedding = study.ranked.embedding_
    name, coordinates = type(embedding).__name__, embedding.embedding_
    shown = {name: coordinates} | ({} if name == "PCA" else {"PCA": study.pca.embedding_})
    page.heading("The map").figure(
        maps(shown, study.question.colours),
        f"The first two of {coordinates.shape[1]} coordinates of every sample, features standardised. The outcome "
        "colours the map and has no part in it.",
        alt=f"Scatter plots of {len(coordinates)} samples by {' and '.join(shown)}, coloured by {study.question.name}.",
    )
    page.remember("coordinates", coordinate_table(study.question.cases, coordinates))
    curve, used = study.curve, coordinates.shape[1]
    page.heading("How many coordinates?").figure(
        curve.plot(),
        f"Residual variance of {name}: 1 minus the correlation between distances on the map and those that it is made "
        f"of. The elbow is at {curve.chosen}; {used} {'was' if used == 1 else 'were'} used.",
    )
    page.remember("residual-variance", curve.frame())


def _add_tradeoff(page: Report, study: Study) -> None:
    from clearfold.plot import stability_accuracy

    page.heading("Stability against accuracy")
    found = study.tradeoff
    if found is None:
        page.text(study.why_no_tradeoff)
        return
    rounds = study.settings.n_rounds
    page.text(ABOUT_TRADEOFF[0].format(rounds=rounds, kept=found.n_selected), ABOUT_TRADEOFF[1])
    better = "high" if found.measure == "AUC" else "low"
    by_chance = "The AUC of chance is .5. " if found.measure == "AUC" else ""
    page.figure(
        stability_accuracy({"": found.table}, chance=found.chance),
        f"{found.measure} on left-out patients ({better} is good) against the mean Jaccard index of the features that "
        f"two rounds select (chance: {found.chance:.2f}). {by_chance}Coordinates select nothing: they "
        "stand at the left edge.",
        alt=_said_of_tradeoff(found),
    )
    columns = {"low": f"{found.measure} low", "high": f"{found.measure} high"}
    page.table(
        found.table.round(3).rename(columns=columns),
        f"Mean over {rounds} rounds, with 95 % intervals.",
        name="stability-against-accuracy",
        data=found.table.rename(columns=columns),
    )
    page.remember("rounds", found.result.table)


def _add_survival(page: Report, study: Study) -> None:
    import pandas as pd

    found = study.survival
    if found is None or study.timed is None:
        return
    page.heading("Do patients of high risk fare worse?").text(ABOUT_SURVIVAL)
    page.figure(
        found.plot(),
        f"Kaplan-Meier curves of “{study.timed.name}” by risk out of fold, with 95 % bands; numbers at risk below.",
        alt=f"Survival curves of {len(found.table)} patients in {found.table['group'].nunique()} groups of risk; "
        f"hazard ratio {found.hazard_ratio}.",
    )
    groups = found.kaplan_meier.summary[["group", "n", "events", "median"]]
    page.table(groups.rename(columns={"n": "patients", "median": "median time"}), "The groups.", name="survival-groups")
    measures = {
        "hazard ratio": (found.hazard_ratio.value, found.hazard_ratio.low, found.hazard_ratio.high, "1"),
        "concordance": (found.concordance.value, found.concordance.low, found.concordance.high, ".5"),
        "log-rank p by permutation": (found.log_rank_p, None, None, "uniform"),
        "log-rank p, nominal": (found.nominal_p, None, None, "too small"),
    }
    table = pd.DataFrame.from_dict(measures, orient="index", columns=["value", "low", "high", "by chance"])
    page.table(
        table.rename_axis("measure").reset_index(),
        "High against low risk, with 95 % intervals that are widened by what dealt outcomes show.",
        name="survival-measures",
    )
    page.remember("survival-curves", found.curves).remember("survival-patients", found.table)
