"""Patients of two grades, several images of each: what a study looks like, before there is one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from clearfold.datasets.recipes import GRADES, pixels, recipe, scale, varied, whole
from clearfold.datasets.synthetic import SyntheticTissue, drawn
from clearfold.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False, eq=False)
class SyntheticCohort:
    """images : one SyntheticTissue for each line of table; table : case_id, patient_id, label, file, mpp."""

    images: tuple[SyntheticTissue, ...]
    table: pd.DataFrame

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        patients = self.table["patient_id"].nunique()
        return f"SyntheticCohort: {len(self)} images of {patients} patients"


def synthetic_cohort(
    folder: str | Path | None = None,
    *,
    n_patients: int = 8,
    images_per_patient: int = 3,
    size: int | tuple[int, int] = 256,
    mpp: float = 0.5,
    seed: int = 0,
) -> SyntheticCohort:
    """Patients in turn of low and high grade, each with a density, disorder and staining of its own.

    folder : gets labels.csv, images/*.png, and nuclei/*.png (label masks of 16 bits); None writes nothing
    """
    import pandas as pd

    patients, per_patient = whole(n_patients, "n_patients", 1), whole(images_per_patient, "images_per_patient", 1)
    height, width = pixels(size)
    mpp = scale(mpp)
    images, lines = [], []
    for number, source in enumerate(np.random.SeedSequence(whole(seed, "seed", 0)).spawn(patients)):
        grade = list(GRADES)[number % len(GRADES)]
        first, *others = (np.random.default_rng(child) for child in source.spawn(1 + per_patient))
        own = varied(recipe(grade), first)
        for place, random in enumerate(others, start=1):
            name = f"patient{number + 1:02d}_{place}"
            images.append(drawn(own, grade, 0, height, width, mpp, random))
            lines.append((name, f"patient{number + 1:02d}", grade, f"images/{name}.png", mpp))
    table = pd.DataFrame(lines, columns=["case_id", "patient_id", "label", "file", "mpp"])
    cohort = SyntheticCohort(tuple(images), table)
    if folder is not None:
        _write(cohort, Path(folder))
    return cohort


def _write(cohort: SyntheticCohort, folder: Path) -> None:
    from PIL import Image

    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; a folder is wanted.")
    for part in ("images", "nuclei"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    for name, tissue in zip(cohort.table["case_id"], cohort.images, strict=True):
        Image.fromarray(tissue.image).save(folder / "images" / f"{name}.png")
        Image.fromarray(tissue.nuclei.astype(np.uint16)).save(folder / "nuclei" / f"{name}.png")
    cohort.table.to_csv(folder / "labels.csv", index=False)
