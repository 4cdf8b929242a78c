"""Tables of features: each function gives a `Dataset`, the same numbers for everybody.

Looked for in the folder CLEARFOLD_DATA, then in the user's cache, then at the official source where we know one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from clearfold.datasets import reading
from clearfold.datasets.dataset import Dataset
from clearfold.datasets.sources import SOURCES, Found, Progress, find, refuse
from clearfold.errors import InputError

T = TypeVar("T")
NUCLEAR = (
    "radius", "texture", "perimeter", "area", "smoothness", "compactness", "concavity", "concave_points", "symmetry",
    "fractal_dimension",
)  # fmt: skip
WPBC = [f"{name}_{kind}" for kind in ("mean", "se", "worst") for name in NUCLEAR] + ["tumor_size", "lymph_nodes"]


# The feature selection challenge of 2003 --------------------------------------------------------------------


def load_madelon(*, progress: Progress | None = None) -> Dataset:
    """Madelon: 2000 + 600 samples, 500 features, 20 of them with meaning, exclusive-or in five dimensions."""
    return _challenge("madelon", 500, (2600, 500), "artificial: 5 features make the classes, 15 repeat them", progress)


def load_arcene(*, progress: Progress | None = None) -> Dataset:
    """Arcene: 100 + 100 mass spectra of 10000 features, cancer or not; 3000 features are made up."""
    return _challenge("arcene", 10000, (200, 10000), "mass spectra: cancer (1) or not (-1)", progress)


def load_dexter(*, progress: Progress | None = None) -> Dataset:
    """Dexter: 300 + 300 texts of 20000 word counts, a sparse matrix; most words never occur."""
    return _challenge("dexter", 20000, (600, 20000), "texts: about corporate acquisitions (1) or not (-1)", progress)


def load_gisette(*, progress: Progress | None = None) -> Dataset:
    """Gisette: 6000 + 1000 digits four and nine of 5000 features. Its digest is not known: only shapes are checked."""
    return _challenge("gisette", 5000, (7000, 5000), "digits: four or nine, half of the features made up", progress)


def _challenge(name: str, width: int, shape: tuple[int, int], about: str, progress: Progress | None) -> Dataset:
    import pandas as pd
    from scipy import sparse

    found = find(SOURCES[name], progress)
    read = _official if found.official else _prepared
    X_train, y_train, X_valid, y_valid = _read(found, lambda: read(found, name, width))
    is_sparse = sparse.issparse(X_train)
    X = sparse.csr_array(sparse.vstack([X_train, X_valid])) if is_sparse else np.vstack([X_train, X_valid])
    y = np.concatenate([y_train, y_valid]).astype(int)
    if len(y) != X.shape[0] or set(np.unique(y)) != {-1, 1}:
        raise refuse(found, f"{len(y)} labels came for {X.shape[0]} samples; wanted is -1 or 1 for each")
    reading.checked(found, shape, (X, y))
    split = ["train"] * len(y_train) + ["valid"] * len(y_valid)
    frame = X if is_sparse else pd.DataFrame(X.astype(float), columns=[f"x{i}" for i in range(width)])
    return _dataset(found, frame, y, about=about, split=split)


def _prepared(found: Found, name: str, width: int) -> tuple[Any, ...]:
    if len(found.paths) == 1:
        held = reading.arrays(found.paths[0])
        return tuple(held[key] for key in ("X_train", "y_train", "X_valid", "y_valid"))
    train, valid, labels = found.paths
    held = reading.arrays(labels)
    return reading.sparse_arrays(train), held["y_train"], reading.sparse_arrays(valid), held["y_valid"]


def _official(found: Found, name: str, width: int) -> tuple[Any, ...]:
    table = reading.official_sparse if name == "dexter" else reading.official_dense
    train, train_labels, valid, valid_labels = found.paths
    return (
        table(train, width), reading.official_labels(train_labels),
        table(valid, width), reading.official_labels(valid_labels),
    )  # fmt: skip


# Patients -------------------------------------------------------------------------------------------------


def load_wpbc(*, progress: Progress | None = None) -> Dataset:
    """Wisconsin prognostic breast cancer: 198 patients, 32 features, time in months and event (47 recurrences).

    y is 1 for a recurrence; `table` has time and event. Four patients miss lymph_nodes.
    """
    import pandas as pd

    found = find(SOURCES["wpbc"], progress)
    columns = ["id", "outcome", "time", *WPBC]
    options: dict[str, Any] = {"na_values": ["?"], "float_precision": "round_trip", "dtype": {"id": str}}
    if found.official:
        options |= {"header": None, "names": columns}
    frame = _read(found, lambda: pd.read_csv(found.paths[0], **options)[columns])
    if not set(frame["outcome"]) <= {"N", "R"}:
        raise refuse(found, "an outcome other than N and R came")
    numbers = _read(found, lambda: frame[["time", *WPBC]].to_numpy(dtype=float))
    event = (frame["outcome"] == "R").astype(int)
    reading.checked(found, (198, 33), (numbers, event, frame["id"]))
    return _dataset(
        found, frame[WPBC], event, groups=frame["id"], about="breast cancer: recurrence and its time in months",
        table={"time": frame["time"].astype(float), "event": event},
    )  # fmt: skip


def load_wdbc() -> Dataset:
    """Wisconsin diagnostic breast cancer: 569 tumours, 30 features of nuclei; 0 malignant, 1 benign."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer(as_frame=True)
    return Dataset(
        "wdbc", data.data, data.target, None, None, data.target.to_frame("label"),
        "breast cancer: malignant (0) or benign (1), from nuclei of an aspirate",
        "the copy inside scikit-learn of https://archive.ics.uci.edu/dataset/17", "CC BY 4.0 by the page of UCI",
    )  # fmt: skip


def load_golub(*, version: str = "raw") -> Dataset:
    """Golub's leukaemia: 38 + 34 patients, 7129 probes, ALL or AML; raw average differences, negatives are normal.

    version="multtest" gives the 38 training patients with the 3051 genes that were kept and scaled by that package.
    """
    import pandas as pd

    if version not in ("raw", "multtest"):
        raise InputError(f"version={version!r} came; wanted is 'raw' or 'multtest'.")
    about = "leukaemia: lymphoblastic (ALL) or myeloid (AML), expression of genes"
    if version == "multtest":
        found = find(SOURCES["golub_3051"])
        held = _read(found, lambda: _keys(reading.arrays(found.paths[0]), "X", "y", "accession"))
        reading.checked(found, (38, 3051), (held["X"], held["y"]))
        return _dataset(found, pd.DataFrame(held["X"], columns=_unique(held["accession"])), held["y"], about=about)
    found = find(SOURCES["golub"])
    keys = ("X_train", "X_test", "y_train", "y_test", "patient_train", "patient_test", "accession")
    held = _read(found, lambda: _keys(reading.arrays(found.paths[0]), *keys))
    X, y, patient = (np.concatenate([held[f"{key}_train"], held[f"{key}_test"]]) for key in ("X", "y", "patient"))
    reading.checked(found, (72, 7129), (X, y))
    split = ["train"] * len(held["y_train"]) + ["test"] * len(held["y_test"])
    frame = pd.DataFrame(X.astype(float), columns=_unique(held["accession"]))
    return _dataset(found, frame, y, groups=patient, split=split, about=about)


# Tissue as numbers -----------------------------------------------------------------------------------------


def load_mibc() -> Dataset:
    """Bladder cancer: 217 tissue cores, 1240 features; y 1 did not respond, 0 did, -1 not known (61 cores).

    156 cores of 58 patients have an outcome: `data.take(data.y != -1)`. Some values are missing.
    """
    import pandas as pd

    found = find(SOURCES["mibc"])
    frame = _read(found, lambda: pd.read_csv(reading.gzipped(found.paths[0]), float_precision="round_trip"))
    about = ["TMA.set", "TMA.core", "patientID", "tissueType"]
    X = _read(found, lambda: frame.drop(columns=[*about, "nonresponder"]).astype(float))
    y = _read(found, lambda: frame["nonresponder"].fillna(-1).astype(int))
    reading.checked(found, (217, 1240), (X.to_numpy(), y))
    return _dataset(
        found, X, y, groups=frame["patientID"].astype(str), about="bladder cancer: no response (1) or one",
        table={name: frame[name] for name in about},
    )  # fmt: skip


def load_kather() -> Dataset:
    """Colorectal tissue: 5000 tiles, 84 textures, 8 kinds of tissue; no patients known, 42 tiles lack values."""
    import pandas as pd

    found = find(SOURCES["kather"])
    held = _read(found, lambda: _keys(reading.arrays(found.paths[0]), "X", "y", "feature_names", "class_names"))
    reading.checked(found, (5000, 84), (held["X"], held["y"]))
    frame = pd.DataFrame(held["X"], columns=[str(name) for name in held["feature_names"]])
    return _dataset(found, frame, held["class_names"][held["y"]], about="colorectal tissue: kind of tissue of a tile")


def load_ucsb() -> Dataset:
    """Breast tissue: 2002 patches of 58 images, 708 features; y 1 malignant; groups are the images."""
    import pandas as pd

    found = find(SOURCES["ucsb"])
    held = _read(found, lambda: _keys(reading.arrays(found.paths[0]), "X", "y", "bag"))
    reading.checked(found, (2002, 708), (held["X"], held["y"]))
    frame = pd.DataFrame(held["X"], columns=[f"x{i}" for i in range(708)])
    return _dataset(
        found, frame, held["y"].astype(int), groups=held["bag"], about="breast tissue: malignant (1) or not"
    )


def load_swiss_roll(n_samples: int = 2000, *, noise: float = 0.0, random_state: Any = 0) -> Dataset:
    """A Swiss roll in three dimensions: y 1 for the outer half (position beyond 3 pi); `table` has the position."""
    import pandas as pd
    from sklearn.datasets import make_swiss_roll

    X, position = make_swiss_roll(n_samples, noise=noise, random_state=random_state)
    frame = pd.DataFrame(X, columns=["x", "y", "z"])
    label = pd.Series((position > 3 * np.pi).astype(int), name="label")
    return Dataset(
        "swiss_roll", frame, label, None, None, pd.DataFrame({"position": position}),
        "artificial: a rolled plane", "scikit-learn's make_swiss_roll", "none: it is computed",
    )  # fmt: skip


def _read(found: Found, read: Callable[[], T]) -> T:
    """What `read` gives; a file that cannot be read is refused."""
    try:
        return read()
    except reading.BROKEN as error:
        raise refuse(found, f"the files cannot be read ({error})") from error


def _keys(held: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: held[name] for name in names}


def _unique(names: Any) -> list[str]:
    """Names as text, a number behind those that occur again."""
    seen: dict[str, int] = {}
    result = []
    for name in map(str, names):
        seen[name] = seen.get(name, 0) + 1
        result.append(name if seen[name] == 1 else f"{name}.{seen[name]}")
    return result


def _dataset(
    found: Found,
    X: Any,
    y: Any,
    *,
    about: str,
    groups: Any = None,
    split: Any = None,
    table: dict[str, Any] | None = None,
) -> Dataset:
    import pandas as pd

    label = pd.Series(np.asarray(y), name="label")
    return Dataset(
        found.source.name, X, label,
        None if groups is None else pd.Series(np.asarray(groups), name="patient"),
        None if split is None else pd.Series(split, name="split"),
        pd.DataFrame(table if table is not None else {"label": label}),
        about, found.source.home, found.source.licence,
    )  # fmt: skip
