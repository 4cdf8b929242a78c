"""Claims of the papers, the rules that decide on them, and verdicts. A rule is written beside its claim beforehand.

A figure is a mean with its 95 % interval. A rule looks at figures by name and says yes or no; nobody else does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from clearfold.selection.stability import jaccard_matrix

REPRODUCED, NOT_REPRODUCED, UNTESTED = "reproduced", "not reproduced", "cannot be tested here"
VERDICTS = (REPRODUCED, NOT_REPRODUCED, UNTESTED)
PROTOCOLS = ("printed", "corrected")

SLACK = {"AUC": 0.03, "AUPRC": 0.03, "accuracy": 0.03, "silhouette": 0.05, "share": 0.05, "count": 1.0, "p": 0.0}
"""How far from the printed figure, or range of figures, still counts as the same; one value for each measure."""
JACCARD_SLACK, JACCARD_SHARE = 0.01, 0.2
"""Jaccard indices reach from .04 to 1: .01, or a fifth of the printed figure if that is more."""
ALIKE = 0.03
"""Two means that differ by no more are alike."""


@dataclass(frozen=True)
class Figure:
    """A mean, its 95 % interval (NaN where there is none), and the number of rounds, seeds or patients behind it."""

    value: float
    low: float = float("nan")
    high: float = float("nan")
    n: int = 1

    def __str__(self) -> str:
        if not np.isfinite(self.low):
            return number(self.value)
        return f"{number(self.value)} [{number(self.low)}, {number(self.high)}]"


Figures: TypeAlias = Mapping[str, Figure]


def number(value: float) -> str:
    """Three digits after the point, two from 1, one from 10 on, none for whole counts; tiny ones as powers of ten."""
    if not np.isfinite(value):
        return "–"
    if value == round(value):
        return f"{value:.0f}"
    if abs(value) < 0.0005:
        return f"{value:.0e}"
    return f"{value:.3f}" if abs(value) < 1 else f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"


def mean_figure(values: Any) -> Figure:
    """Mean over rounds or seeds and Student's 95 % interval; rounds share rows, so it says nothing of new patients."""
    values = np.asarray(values, dtype=float)
    values = values[np.isfinite(values)]
    if len(values) < 2:
        return Figure(float(values.mean()) if len(values) else float("nan"), n=len(values))
    half = _student(len(values)) * float(values.std(ddof=1)) / np.sqrt(len(values))
    mean = float(values.mean())
    return Figure(mean, mean - half, mean + half, len(values))


def jaccard_figure(selections: Any, *others: Any) -> Figure:
    """Mean Jaccard index over all pairs of rounds, jackknifed; with `others` minus the largest of theirs."""
    means, without = _jackknifed(selections)
    rest = [_jackknifed(other) for other in others]
    if rest:
        best = max(rest, key=lambda one: one[0])
        means, without = means - best[0], without - best[1]
    n = len(without)
    if n < 3:
        return Figure(means, n=n)
    half = _student(n) * float(np.sqrt((n - 1) / n * np.square(without - without.mean()).sum()))
    low = means - half if rest else max(0.0, means - half)
    return Figure(means, low, means + half, n)


def _student(n: int) -> float:
    """Half width of a 95 % interval of a mean of n, in standard errors: few seeds say little."""
    from scipy import stats

    return float(stats.t.ppf(0.975, n - 1))


def _jackknifed(selections: Any) -> tuple[float, Any]:
    """The mean over pairs of rounds, and the same without each round."""
    pairs = jaccard_matrix(np.asarray(selections, dtype=bool))
    n = len(pairs)
    own = pairs.sum(axis=1) - np.diag(pairs)
    total = own.sum() / 2
    return float(total / (n * (n - 1) / 2)), (total - own) / max((n - 1) * (n - 2) / 2, 1)


# Rules ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Near:
    """Every figure lies in the printed range, widened by the slack of its measure."""

    names: tuple[str, ...]
    low: float
    high: float
    measure: str

    @property
    def limits(self) -> tuple[float, float]:
        """The range that counts."""
        if self.measure == "J":
            slack = (max(JACCARD_SLACK, JACCARD_SHARE * end) for end in (self.low, self.high))
        else:
            slack = (end for end in [SLACK[self.measure]] * 2)
        return self.low - next(slack), self.high + next(slack)

    def misses(self, figures: Figures) -> list[str]:
        """Names of the figures that break the rule."""
        low, high = self.limits
        return [name for name in self.names if not low - 1e-9 <= figures[name].value <= high + 1e-9]

    def __str__(self) -> str:
        return f"every figure from {number(self.limits[0])} to {number(self.limits[1])}"


@dataclass(frozen=True)
class Above:
    """Every figure, a difference as a rule, has its whole interval above a bound."""

    names: tuple[str, ...]
    bound: float = 0.0

    def misses(self, figures: Figures) -> list[str]:
        """Names of the figures that break the rule."""
        lowest = {name: figures[name].low for name in self.names}
        lowest = {name: low if np.isfinite(low) else figures[name].value for name, low in lowest.items()}
        return [name for name, low in lowest.items() if not low > self.bound]

    def __str__(self) -> str:
        return f"every interval above {number(self.bound)}"


@dataclass(frozen=True)
class Between:
    """Every figure lies from `low` to `high`: a difference that is small, a p-value, a loss that is slight."""

    names: tuple[str, ...]
    low: float
    high: float

    def misses(self, figures: Figures) -> list[str]:
        """Names of the figures that break the rule."""
        return [name for name in self.names if not self.low - 1e-9 <= figures[name].value <= self.high + 1e-9]

    def __str__(self) -> str:
        ends = [number(end) if np.isfinite(end) else "any" for end in (self.low, self.high)]
        return f"every figure from {ends[0]} to {ends[1]}"


@dataclass(frozen=True)
class All:
    """Several rules at once."""

    rules: tuple[Near | Above | Between, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Figures of all of them."""
        return tuple(name for rule in self.rules for name in rule.names)

    def misses(self, figures: Figures) -> list[str]:
        """Names of the figures that break one of the rules."""
        return [name for rule in self.rules for name in rule.misses(figures)]

    def __str__(self) -> str:
        return "; ".join(map(str, self.rules))


Rule: TypeAlias = Near | Above | Between | All


def alike(*names: str) -> Between:
    """Differences that are no more than ALIKE either way."""
    return Between(names, -ALIKE, ALIKE)


# Claims -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Claim:
    """What a paper says, where, its figure, and the rule that decides.

    data : the set of data whose absence makes the claim untestable; stand_in : that set takes the place of one that
        is not public; rule : None where nothing public can decide, and `why` says so
    """

    key: str
    says: str
    where: str
    paper: str
    data: str
    rule: Rule | None = None
    stand_in: bool = False
    why: str = ""


@dataclass(frozen=True)
class Verdict:
    """A claim, under one protocol: our figures, the word, and why."""

    claim: Claim
    protocol: str
    word: str
    figures: Figures
    why: str = ""

    @property
    def ours(self) -> str:
        """Our figures in words; many are told by the smallest and the largest."""
        short = short_names(tuple(self.figures))
        shown = [(short[name], figure) for name, figure in self.figures.items()]
        if len(shown) > 4:
            ends = [pick(shown, key=lambda item: item[1].value) for pick in (min, max)]
            return " to ".join(str(figure) for _, figure in ends)
        return "; ".join(str(figure) if len(shown) == 1 else f"{name}: {figure}" for name, figure in shown)

    def row(self) -> dict[str, str]:
        """One line of the table of claims."""
        claim = self.claim
        return {
            "paper": claim.key.split(".")[0],
            "claim": claim.says,
            "where": claim.where,
            "printed": claim.paper,
            "data": f"{claim.data} (stand-in)" if claim.stand_in else claim.data,
            "protocol": self.protocol,
            "ours": self.ours or "–",
            "verdict": self.word + (" on a stand-in" if claim.stand_in and self.word != UNTESTED else ""),
            "rule": str(claim.rule) if claim.rule else "–",
            "why": self.why,
        }


def short_names(names: tuple[str, ...]) -> dict[str, str]:
    """Names without the words that all of them begin or end with; one name alone stays as it is."""
    if len(names) < 2:
        return {name: name for name in names}
    words = [name.split() for name in names]
    first = last = 0
    while len({tuple(of[: first + 1]) for of in words}) == 1:
        first += 1
    while len({tuple(of[len(of) - last - 1 :]) for of in words}) == 1:
        last += 1
    return {
        name: " ".join(of[first : len(of) - last]).strip(",") or name for name, of in zip(names, words, strict=True)
    }


def judge(claim: Claim, figures: Mapping[str, Figures], missing: Mapping[str, str] | None = None) -> list[Verdict]:
    """One verdict for each protocol that gave all figures of the rule; one that says why if none did."""
    if claim.rule is None:
        return [Verdict(claim, "–", UNTESTED, {}, claim.why)]
    found = []
    for protocol, own in figures.items():
        if all(name in own and np.isfinite(own[name].value) for name in claim.rule.names):
            misses = claim.rule.misses(own)
            shown = {name: own[name] for name in dict.fromkeys(claim.rule.names)}
            short = short_names(tuple(shown))
            why = f"broken by {', '.join(short[name] for name in dict.fromkeys(misses))}" if misses else claim.why
            found.append(Verdict(claim, protocol, NOT_REPRODUCED if misses else REPRODUCED, shown, why))
    if found:
        return found
    why = (missing or {}).get(claim.data, "not tested: its figures were not computed")
    return [Verdict(claim, "–", UNTESTED, {}, why)]


def counted(verdicts: Sequence[Verdict]) -> dict[str, int]:
    """How many of each word."""
    return {word: sum(verdict.word == word for verdict in verdicts) for word in VERDICTS}
