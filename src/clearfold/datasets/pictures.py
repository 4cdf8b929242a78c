"""Sets of images: paths of images and masks, labels and patients. Only taken from the folder CLEARFOLD_DATA."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clearfold.datasets.dataset import Dataset
from clearfold.datasets.sources import SOURCES, image_folder
from clearfold.errors import DatasetError

GRADES = ("Benign", "Gleason3", "Gleason4", "Gleason5")


def load_glas() -> Dataset:
    """GlaS: 165 images of colon glands with instance masks (0 is background), grade of each image, 16 patients.

    split is train, testA or testB; `table` has subgrade and the number of glands. About 0.62 um a pixel.
    """
    import pandas as pd

    folder = image_folder(SOURCES["glas"])
    frame = pd.read_csv(folder / "glas_labels.csv", dtype={"name": str, "patient": str})
    names = [_plain(folder, name) for name in frame["name"]]
    table = pd.DataFrame(
        {
            "case_id": names,
            "image": [str(folder / "images" / f"{name}.jpg") for name in names],
            "mask": [str(folder / "masks" / f"{name}.png") for name in names],
            "subgrade": frame["subgrade"],
            "n_glands": frame["n_glands"].astype(int),
        }
    )
    return _dataset(
        "glas", table, 165, frame["grade"], "glands of the colon: benign or malignant", frame["patient"], frame["split"]
    )


def load_prostate_tma() -> Dataset:
    """Prostate tissue: 30 patches of 750 x 750 pixels for each of benign, Gleason 3, 4 and 5; no patients, no scale."""
    import pandas as pd

    folder = image_folder(SOURCES["prostate_tma"])
    paths = [path for grade in GRADES for path in _pictures(folder / grade, "*.jpg")]
    table = pd.DataFrame({"case_id": [f"{path.parent.name}_{path.stem}" for path in paths], "image": map(str, paths)})
    grades = [path.parent.name for path in paths]
    return _dataset("prostate_tma", table, 120, grades, "prostate: benign, or the Gleason grade of a patch")


def load_nuclei_gbm40() -> Dataset:
    """Glioblastoma: 40 tiles of 512 x 512 pixels with instance masks of 4976 nuclei (uint16, 0 is background)."""
    folder = image_folder(SOURCES["nuclei_gbm40"])
    images = _pictures(folder / "images", "*.jpg")
    masks = [folder / "labels" / f"{path.stem}.png" for path in images]
    return _dataset("nuclei_gbm40", _pairs(images, masks), 40, None, "glioblastoma: outlined nuclei")


def load_nuclei_ucsb26() -> Dataset:
    """Breast: 26 images of 896 x 768 pixels with masks of nuclei (JPEG: nuclei are above 128)."""
    folder = image_folder(SOURCES["nuclei_ucsb26"])
    images = _pictures(folder / "images", "*.jpg")
    masks = [folder / "masks" / f"{path.stem.removesuffix('_ccd')}.jpg" for path in images]
    return _dataset("nuclei_ucsb26", _pairs(images, masks), 26, None, "breast: nuclei of malignant tissue")


def _pictures(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.glob(pattern))


def _pairs(images: Sequence[Path], masks: Sequence[Path]) -> Any:
    import pandas as pd

    return pd.DataFrame({"case_id": [p.stem for p in images], "image": map(str, images), "mask": map(str, masks)})


def _plain(folder: Path, name: str) -> str:
    """A file's name that stays inside its folder."""
    if Path(name).name != name or name in ("", ".", ".."):
        raise DatasetError(f"{folder / 'glas_labels.csv'} names {name!r}, which is no plain file name.")
    return name


def _dataset(
    name: str, table: Any, count: int, labels: Any, about: str, groups: Any = None, split: Any = None
) -> Dataset:
    import pandas as pd

    if len(table) != count:
        raise DatasetError(f"{name}: {len(table)} images are there; wanted are {count}. Get the missing ones.")
    paths = [Path(path) for column in ("image", "mask") if column in table for path in table[column]]
    gone = [str(path) for path in paths if not path.is_file()]
    if gone:
        raise DatasetError(f"{name}: {len(gone)} files are missing, the first is {gone[0]}. Get them from the source.")
    source = SOURCES[name]
    label, patient, part = (
        None if values is None else pd.Series(list(values), name=title)
        for values, title in ((labels, "label"), (groups, "patient"), (split, "split"))
    )
    return Dataset(name, None, label, patient, part, table, about, source.home, source.licence)
