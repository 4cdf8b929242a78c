"""The second half of `clearfold demo`: drawn tissue becomes an archive that can be asked and looked at."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from clearfold.cli.console import progress_bar
from clearfold.cli.search_page import Search

PATIENTS, EACH, SIZE, MPP = 12, 2, 256, 0.5
FAMILIES = ["shape", "texture", "graph", "density", "orientation"]
"""Without stain: each patient of the cohort is stained in another way, as by another laboratory."""
NAME = "cases.clearfold"
ABOUT = (
    f"The tissue below is drawn, not scanned, so that the truth is known: {PATIENTS} patients of two grades, {EACH} "
    "images each. Nuclei were found and measured (all but their stain), and an archive was made of all patients but "
    "one. An image of that one was then asked for its like."
)


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
        grade = str(cohort.table["label"].iloc[-1])
        asked = SimpleNamespace(case_id=images[-1].stem, label=grade, thumbnail=images[-1].read_bytes())
        return Search.of(archive, read_image(images[-1], mpp=MPP), asked)
