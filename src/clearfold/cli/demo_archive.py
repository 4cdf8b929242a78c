"""The second half of `clearfold demo`: drawn tissue becomes an archive that can be asked and looked at."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from clearfold.cli.console import progress_bar

if TYPE_CHECKING:
    from clearfold.report import Report

PATIENTS, EACH, SIZE, MPP = 12, 2, 256, 0.5
FAMILIES = ["shape", "texture", "graph", "density", "orientation"]
"""Without stain: each patient of the cohort is stained in another way, as by another laboratory."""
NAME = "cases.clearfold"
ABOUT = (
    f"The tissue below is drawn, not scanned, so that the truth is known: {PATIENTS} patients of two grades, {EACH} "
    "images each. Nuclei were found and measured (all but their stain), and an archive was made of all patients but "
    "one. An image of that one was then asked for its like."
)


@dataclass(frozen=True)
class Search:
    """An image that was asked, of this grade, and its hits."""

    image: Path
    grade: str
    hits: list[Any]


def make_archive(folder: Path) -> Search:
    """Draw a cohort, index all patients but the last, and ask with an image of the last one."""
    from clearfold.archive import Archive
    from clearfold.datasets import synthetic_cohort
    from clearfold.embedding import BeliefSpectralEmbedding
    from clearfold.images import read_image

    tissue = folder / "tissue"
    cohort = synthetic_cohort(tissue, n_patients=PATIENTS, images_per_patient=EACH, size=SIZE, mpp=MPP, seed=0)
    images = [tissue / name for name in cohort.table["file"]]
    for leftover in folder.glob(f"{NAME}*"):  # of an earlier demo
        leftover.unlink()
    with Archive.open(folder / NAME) as archive, progress_bar() as bar:
        task = bar.add_task("measuring tissue", total=len(images) - EACH)
        archive.add(
            images[:-EACH],
            labels=tissue / "labels.csv",
            mpp=MPP,
            extraction={"families": FAMILIES},
            progress=lambda done, total, name: bar.update(task, completed=done, total=total),
        )
        archive.fit(BeliefSpectralEmbedding(random_state=0))
        hits = list(archive.query(read_image(images[-1], mpp=MPP), k=4))
        for hit in hits:
            hit.reasons  # noqa: B018 - worked out now, while the archive is open
    return Search(images[-1], str(cohort.table["label"].iloc[-1]), hits)


def add_search(page: Report, found: Search) -> None:
    """The image that was asked beside its hits, and the first reasons."""
    import pandas as pd

    from clearfold.plot import pictures

    page.heading("Which earlier cases look like this one, and why?").text(ABOUT)
    asked = SimpleNamespace(case_id="asked", label=found.grade, thumbnail=found.image.read_bytes())
    page.figure(
        pictures([asked, *found.hits]),
        "First the image that was asked, then the nearest cases of the archive.",
        alt=f"A drawn tissue of {found.grade} grade and the {len(found.hits)} cases most like it.",
    )
    rows = [
        {"case": hit.case_id, "grade": hit.label, "near": str(hit.reasons.near[0]), "far": str(hit.reasons.far[0])}
        for hit in found.hits
    ]
    page.table(pd.DataFrame(rows), "The strongest reason for each hit, and the feature on which it differs most.")
