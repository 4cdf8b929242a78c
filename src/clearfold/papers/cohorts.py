"""Public data as the papers' experiments want them; stand-ins for cohorts that are not public are named as such."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clearfold.embedding.spectral import Matrix

if TYPE_CHECKING:
    import pandas as pd

TITLES = {
    "madelon": "Madelon",
    "arcene": "Arcene",
    "dexter": "Dexter",
    "gisette": "Gisette",
    "mibc": "bladder cores",
    "wpbc": "WPBC",
    "wdbc": "WDBC",
    "glas": "GlaS glands",
    "prostate_tma": "prostate patches",
    "golub": "Golub",
    "swiss_roll": "Swiss roll",
}
FAMILIES = {
    "glcm": "texture (co-occurrence)",
    "calc": "texture (summary)",
    "Nucl": "nuclei",
    "Clus": "cell clusters (graph)",
    "Spat": "spatial",
    "Cell": "cell types",
}
"""Families of the bladder cores by the first word of a feature; 48 features have only a number."""
TEXTURES = (
    *(f"grey_{name}" for name in ("mean", "sd", "skewness", "entropy")),
    *(f"haralick_{name}_d1" for name in ("asm", "contrast", "correlation", "idm", "entropy", "imc1")),
    *(f"gabor_mean_w{number}" for number in (1, 2, 3, 4)),
)
"""First-order, Haralick and Gabor: 14 texture features as in BoSE section 6.2, which does not name them."""
DIAMETER = 16.0
"""Of nuclei in pixels, for the distances of texture: the patches have no scale."""


@dataclass(frozen=True)
class Cohort:
    """Features (DataFrame), labels or values, and the patient of each row (None: every row is one)."""

    X: pd.DataFrame
    y: Any
    groups: Any = None
    note: str = ""


def challenge(name: str) -> tuple[Any, Any, Any, Any]:
    """Official training and validation rows of the NIPS 2003 challenge."""
    from clearfold import datasets

    data = getattr(datasets, f"load_{name}")()
    train, valid = data.part("train"), data.part("valid")
    return tuple(part for of in (train, valid) for part in (_values(of.X), np.asarray(of.y)))  # type: ignore[return-value]


def _values(X: Any) -> Any:
    return X.to_numpy(dtype=float) if hasattr(X, "to_numpy") else X


def is_here(name: str) -> bool:
    """Whether the files of a set lie in CLEARFOLD_DATA or in the cache: large sets are not fetched unasked."""
    from clearfold.datasets.sources import SOURCES, cache_folder

    source = SOURCES[name]
    roots = [Path(os.environ["CLEARFOLD_DATA"])] if os.environ.get("CLEARFOLD_DATA") else []
    for root in [*roots, cache_folder()]:
        official = [root / source.name / file.name for file in source.files]
        for files in ([root / part for part in source.prepared], official):
            if files and all(path.exists() for path in files):
                return True
    return False


def cohort(name: str) -> Cohort:
    """Patients with an outcome: bladder cores, WPBC or WDBC."""
    from clearfold import datasets

    if name == "wdbc":
        data = datasets.load_wdbc()
        return Cohort(data.X, np.asarray(data.y))
    if name == "wpbc":
        data = datasets.load_wpbc()
        whole = data.X.notna().all(axis=1).to_numpy()
        return Cohort(data.X[whole], np.asarray(data.y)[whole], note=f"{(~whole).sum()} patients miss a feature")
    data = datasets.load_mibc()
    data = data.take(np.asarray(data.y) != -1)
    gone = [column for column in data.X.columns if data.X[column].isna().any()]
    note = f"{len(gone)} of {data.X.shape[1]} features miss a value and are left out"
    return Cohort(data.X.drop(columns=gone), np.asarray(data.y), np.asarray(data.groups), note)


def family(feature: str) -> str:
    """Family of a feature of the bladder cores."""
    return FAMILIES.get(re.split(r"[._]", feature)[0], "no name")


def recurrence() -> tuple[pd.DataFrame, Any, Any]:
    """WPBC: features, months and whether the cancer came back; patients who miss a feature are left out."""
    from clearfold import datasets

    data = datasets.load_wpbc()
    whole = data.X.notna().all(axis=1).to_numpy()
    table = data.table[whole]
    return data.X[whole], table["time"].to_numpy(dtype=float), table["event"].to_numpy(dtype=int)


def leukemia() -> tuple[Matrix, Any, list[str]]:
    """The 38 training samples of Golub et al.: expression, ALL or AML, accessions."""
    from clearfold import datasets

    train = datasets.load_golub().part("train")
    return train.X.to_numpy(dtype=float), np.asarray(train.y).astype(str), [str(name) for name in train.X.columns]


def prostate_patches() -> Cohort:
    """30 benign patches and ten of each Gleason grade, 14 texture features; ten consecutive numbers are one block.

    The paper has 29 of each class. Nobody tells the patients; patches of near numbers are alike, so blocks of ten
    stay together.
    """
    import pandas as pd

    from clearfold import datasets

    data = datasets.load_prostate_tma()
    grade = np.asarray(data.y).astype(str)
    place = pd.Series(grade).groupby(grade).cumcount().to_numpy()
    data = data.take(np.flatnonzero((grade == "Benign") | (place % 3 == 0)))
    grade = np.asarray(data.y).astype(str)
    numbers = [int(re.sub(r"\D", "", Path(path).stem)) for path in data.images]
    blocks = np.array([f"{name} {count // 10}" for name, count in zip(grade, numbers, strict=True)])
    X = pd.DataFrame([textures(path) for path in data.images], columns=list(TEXTURES))
    return Cohort(X, np.where(grade == "Benign", "benign", "malignant"), blocks)


def textures(path: Any) -> list[float]:
    """The 14 texture features of one picture, on grey levels."""
    from clearfold.features.gabor import gabor
    from clearfold.features.texture import first_order, region_haralick, texture_distances
    from clearfold.images import as_image

    grey = as_image(path).pixels @ np.array([0.2125, 0.7154, 0.0721])
    region = np.ones(grey.shape, dtype=np.int32)
    distances = {"d1": texture_distances(DIAMETER)["d1"]}
    found = {str(name): float(value) for name, value in first_order(grey, region).iloc[0].items()}
    for part in (region_haralick(grey, region, distances), gabor(grey, DIAMETER)):
        found |= {name.split(".")[-1]: float(value) for name, value in part.values.items()}
    return [found[name] for name in TEXTURES]
