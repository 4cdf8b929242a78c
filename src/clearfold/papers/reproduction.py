"""Run the pieces of one paper or of all, in parallel and from where they were left, and decide on every claim.

found = reproduce("all", "evidence", quick=True)
found.claims   # DataFrame: paper, claim, where, printed, data, protocol, ours, verdict, rule, why
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearfold.cluster import parallel, unseen
from clearfold.errors import InputError, MissingExtraError
from clearfold.papers import bose, fine, ose_ssl, rve, vink
from clearfold.papers.claims import Claim, Figure, Verdict, judge
from clearfold.papers.pieces import Done, Piece, carry_out, read_done

if TYPE_CHECKING:
    import pandas as pd

PAPERS: dict[str, Any] = {"fine": fine, "vink": vink, "ose-ssl": ose_ssl, "bose": bose, "rve": rve}
QUICK = (
    "Quick: fewer rounds, seeds and permutations than the papers'. Intervals are wider, and a verdict near its border "
    "may turn; leave out --quick for the whole."
)
CUT = {
    "fine": "classifiers in 8 rounds (challenge) and 12 (cohorts) of the 50; 99 permutations instead of 999",
    "vink": "10 rounds instead of 30",
    "ose-ssl": "4 rolls instead of 10, fewer values of M and S; 5 draws of glands instead of 10",
    "bose": "5 halves instead of 10; forests repeated twice (prostate) and once (WDBC) instead of 50 and 10 times",
    "rve": "5 seeds instead of 20",
}
"""What the quick run leaves out."""
Progress = Callable[[str, int, int], None]
"""Called with the name of the piece that was finished, how many are, and how many there will be."""


@dataclass(frozen=True)
class Reproduction:
    """Everything that was found: results of pieces, what could not be tested and why, and verdicts."""

    papers: tuple[str, ...]
    quick: bool
    done: tuple[Done, ...]
    missing: Mapping[str, str]
    verdicts: tuple[Verdict, ...]

    @property
    def claims(self) -> pd.DataFrame:
        """One line for each claim and protocol."""
        import pandas as pd

        return pd.DataFrame([verdict.row() for verdict in self.verdicts])

    def of(self, paper: str) -> tuple[Verdict, ...]:
        """The verdicts of one paper."""
        return tuple(verdict for verdict in self.verdicts if verdict.claim.key.split(".")[0] == paper)

    def table(self, title: str) -> pd.DataFrame | None:
        """A table by its title, None if it was not made."""
        return next((one.findings.tables[title] for one in self.done if title in one.findings.tables), None)


def reproduce(
    which: str,
    folder: str | Path,
    *,
    quick: bool = False,
    n_jobs: int = 2,
    progress: Progress | None = None,
) -> Reproduction:
    """Reproduce a paper ("fine", "vink", "ose-ssl", "bose", "rve") or "all"; results lie in `folder`/pieces.

    A piece that lies there with the same settings and versions is not repeated. Data that are not here make claims
    untestable when all papers are asked for, and are an error when one is asked for alone.
    """
    papers = tuple(PAPERS) if which == "all" else (which,)
    if which != "all" and which not in PAPERS:
        raise InputError(f"{which!r} came; wanted is one of {', '.join(PAPERS)} or all.")
    home = Path(folder) / "pieces"
    home.mkdir(parents=True, exist_ok=True)
    work = [piece for paper in papers for piece in PAPERS[paper].pieces(quick=quick)]
    done, missing = carried_out(work, home, n_jobs, progress)
    lost = [missing[piece.name] for piece in work if piece.name in missing and not piece.optional]
    if lost and which != "all":
        raise InputError(f"{which} cannot be reproduced: {lost[0]}")
    by_data = {piece.data: missing[piece.name] for piece in work if piece.name in missing}
    claims = [claim for paper in papers for claim in PAPERS[paper].CLAIMS]
    verdicts = tuple(verdict for claim in claims for verdict in judge(claim, merged(done, claim), by_data))
    return Reproduction(papers, quick, tuple(done), by_data, verdicts)


def carried_out(
    work: Iterable[Piece], home: Path, n_jobs: int, progress: Progress | None
) -> tuple[list[Done], dict[str, str]]:
    """Results of all pieces in their order, and for each that has no data the reason."""
    from joblib import delayed

    work = list(work)
    results: dict[str, Done | str] = {}
    for piece in work:
        if (found := read_done(piece, home)) is not None:
            results[piece.name] = found
            _tell(progress, piece.name, len(results), len(work))
    left = sorted((piece for piece in work if piece.name not in results), key=lambda piece: -piece.cost)
    run = parallel(min(n_jobs, max(1, len(left))), return_as="generator_unordered", batch_size=1)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "A worker stopped", UserWarning)  # a fresh one takes its place
        for name, result in run(delayed(_attempt)(piece, home.absolute()) for piece in left):
            results[name] = result
            _tell(progress, name, len(results), len(work))
    done = [result for piece in work if isinstance(result := results[piece.name], Done)]
    return done, {name: result for name, result in results.items() if isinstance(result, str)}


def _attempt(piece: Piece, home: Path) -> tuple[str, Done | str]:
    from clearfold.datasets import DatasetMissingError

    if reason := unseen(home):  # the piece writes its file itself
        raise InputError(reason)
    try:
        return piece.name, carry_out(piece, home)
    except (DatasetMissingError, MissingExtraError) as error:
        return piece.name, str(error)


def _tell(progress: Progress | None, name: str, count: int, total: int) -> None:
    if progress is not None:
        progress(name, count, total)


def merged(done: Iterable[Done], claim: Claim) -> dict[str, dict[str, Figure]]:
    """protocol -> name -> figure, of the pieces of the claim's paper."""
    paper = claim.key.split(".")[0]
    found: dict[str, dict[str, Figure]] = {}
    for one in done:
        if one.paper == paper:
            for protocol, figures in one.findings.figures.items():
                found.setdefault(protocol, {}).update(figures)
    return dict(sorted(found.items(), key=lambda item: item[0] != "printed"))
