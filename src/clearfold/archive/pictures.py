"""From images to cases: one commit each, so that work can stop at any moment and go on."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from clearfold.archive.adding import insert_cases
from clearfold.archive.cases import IDS, digest, identity, label_of, scalar
from clearfold.archive.fitted import Fitted
from clearfold.archive.store import Added, Case, Floats, Scalar, Store
from clearfold.errors import ArchiveError
from clearfold.table.columns import listed, no_duplicates, present

SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff")
THUMBNAIL = 256
"""Longest side of a stored picture in pixels."""
WHOLE = 64 * 2**20
"""Bytes up to which a whole file makes its mark; of a larger one, both ends and the size."""


@dataclass(frozen=True)
class Measuring:
    """How images become features: a function, micrometres a pixel (None: as the image says) and other arguments."""

    extract: Callable[..., Any] | None
    mpp: float | None
    extraction: dict[str, Any]

    def measure(self, image: Any) -> pd.Series[float]:
        """Named features of one image."""
        extract = self.extract or import_module("clearfold.features").extract
        features = pd.Series(extract(image, **self.extraction))
        return features.astype(float).set_axis([str(name) for name in features.index])


def are_pictures(what: Any) -> bool:
    """Whether a folder, an image or a list of images came, not a table."""
    if isinstance(what, str | PathLike):
        return Path(what).is_dir() or Path(what).suffix.lower() in SUFFIXES
    return isinstance(what, list | tuple)


def add_pictures(
    store: Store,
    what: Any,
    labels: Any,
    measuring: Measuring,
    progress: Callable[[int, int, str], None] | None,
    roles: Mapping[str, str | None],
    fitted: Callable[[int], Fitted],
) -> Added:
    """Measure images and add each; those that cannot be used are listed with the reason and never stop the rest."""
    named = _named(what)
    known = {} if labels is None else read_labels(labels, roles)
    measuring = _as_before(store, measuring)
    added, skipped, failed = 0, 0, dict[str, str]()
    for done, (name, source) in enumerate(named.items(), start=1):
        try:
            case, features, mpp = _case(store, name, source, known, measuring)
        except Exception as error:  # whatever is wrong with one image, the others are still wanted
            failed[name] = f"{type(error).__name__}: {error}" if not isinstance(error, ValueError) else str(error)
        else:
            if case is None:
                skipped += 1
            else:
                settings = {"mpp": mpp, "mpp_given": measuring.mpp is not None, "extraction": measuring.extraction}
                added += insert_cases(store, [case], features, settings, fitted).added
        if progress is not None:
            progress(done, len(named), name)
    return Added(added, skipped, failed)


def _as_before(store: Store, measuring: Measuring) -> Measuring:
    """The way in which the archive's first images were measured; another one is refused."""
    with store.reading():
        known = store.settings()
    if "features" not in known:
        return measuring
    mpp, extraction = known.get("mpp"), known.get("extraction") or {}
    if measuring.mpp is not None and measuring.mpp != mpp:
        raise ArchiveError(f"mpp={measuring.mpp} came; the archive's images were measured with mpp={mpp}. Use that.")
    if measuring.extraction and measuring.extraction != extraction:
        raise ArchiveError(f"extraction={measuring.extraction} came; the archive was made with {extraction}. Use that.")
    return Measuring(measuring.extract, mpp if known.get("mpp_given") else None, extraction)


def _case(
    store: Store, name: str, source: Any, known: Mapping[str, dict[str, Any]], measuring: Measuring
) -> tuple[Case | None, list[str], float | None]:
    """A case from an image, with the names of its features and its scale; None when it is there already."""
    from clearfold.images import as_image
    from clearfold.retrieval.asking import at_scale

    about = _about(name, source, known)
    mark = digest(name, about, _content(source))
    with store.reading():
        there, settings = store.digests([name]), store.settings()
    if there:
        if there[name] != mark:
            raise ArchiveError("the archive has another case of this name. Rename the image, or remove that case.")
        return None, [], None
    image = as_image(source, mpp=measuring.mpp)
    if "features" in settings:
        image = at_scale(image, settings.get("mpp"))  # of the first image, unless it was given
    features = measuring.measure(image)
    names, values = [str(name) for name in features.index], np.array(features, dtype=np.float64)
    _check_features(names, values, settings.get("features"))
    ids = {role: about.pop(role, None) for role in (*IDS[1:], "label")}
    rest: dict[str, Scalar] = {key: value for key, value in about.items() if value is not None}
    patient, slide = (None if ids[role] is None else str(ids[role]) for role in IDS[1:])
    case = Case(name, patient, slide, ids["label"], rest, values, _thumbnail(image.pixels), mark)
    return case, names, image.mpp


def _check_features(names: list[str], values: Floats, wanted: list[str] | None) -> None:
    no_duplicates(names, "feature")
    infinite = [name for name, value in zip(names, values, strict=True) if np.isinf(value)]
    if infinite:
        raise ArchiveError(f"infinite values in {listed(infinite, 3)}.")
    if wanted is not None and set(names) != set(wanted):
        other = sorted(set(names) ^ set(wanted))
        raise ArchiveError(f"its features are not those of the archive: {listed(other, 3)} differ.")


def _about(name: str, source: Any, known: Mapping[str, dict[str, Any]]) -> dict[str, Scalar]:
    """What the labels say of an image, found by its name with or without suffix or folder."""
    path = Path(source) if isinstance(source, str | PathLike) else None
    keys = [name] if path is None else [name, path.name, path.stem]
    found = next((known[key] for key in keys if key in known), {})
    return {**found, **({} if path is None else {"image": str(path)})}


def read_labels(labels: Any, roles: Mapping[str, str | None]) -> dict[str, dict[str, Any]]:
    """case_id -> patient_id, slide_id, label and every other column of a table of labels."""
    frame = _frame(labels)
    renamed = {present(name, frame, role): role for role, name in roles.items() if name is not None}
    frame = frame.rename(columns=renamed)
    if "case_id" not in frame:
        raise ArchiveError(
            "the labels have no column case_id (the names of the images). Say which one it is with case_id=. "
            f"The columns are {listed(list(map(str, frame)), 12)}."
        )
    ids = [identity(value) for value in frame["case_id"]]
    if None in ids:
        raise ArchiveError(f"{ids.count(None)} rows of the labels have no case_id. Fill them.")
    no_duplicates(ids, "case id")
    turn = dict.fromkeys(IDS, identity) | {"label": label_of}
    columns = {
        str(name): [turn.get(str(name), scalar)(value) for value in frame[name]]
        for name in frame.columns
        if name != "case_id"
    }
    return {str(key): {name: column[row] for name, column in columns.items()} for row, key in enumerate(ids)}


def _frame(labels: Any) -> pd.DataFrame:
    if isinstance(labels, pd.DataFrame):
        return labels.set_axis([str(name) for name in labels.columns], axis=1)
    if hasattr(labels, "frame"):
        return _frame(labels.frame)
    path = Path(labels)
    try:
        if path.suffix.lower() == ".parquet":
            return _frame(pd.read_parquet(path))
        return _frame(pd.read_csv(path, sep="\t" if path.suffix.lower() == ".tsv" else ",", encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise ArchiveError(f"the labels in {path.name} could not be read ({error}). Wanted is a CSV file.") from error


def _named(what: Any) -> dict[str, Any]:
    """case_id -> image: its path inside the folder without suffix, or the name of a given image."""
    if isinstance(what, str | PathLike) and Path(what).is_dir():
        folder = Path(what)
        paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
        if not paths:
            raise ArchiveError(f"There are no images in {folder}. Images are {', '.join(SUFFIXES)}.")
        pairs: Iterable[tuple[str, Any]] = [
            (path.relative_to(folder).with_suffix("").as_posix(), path) for path in paths
        ]
    else:
        pairs = [(_name(one), one) for one in ([what] if isinstance(what, str | PathLike) else what)]
    no_duplicates([name for name, _ in pairs], "case id")
    return dict(pairs)


def _name(one: Any) -> str:
    if isinstance(one, str | PathLike):
        return Path(one).stem
    if getattr(one, "name", None) and hasattr(one, "pixels"):
        return Path(one.name).stem
    raise ArchiveError(f"{type(one).__name__} came in a list of images; wanted are paths, or what read_image gives.")


def _content(source: Any) -> bytes:
    """A mark of an image's bytes."""
    if not isinstance(source, str | PathLike):
        return blake2b(np.ascontiguousarray(source.pixels).tobytes()).digest()
    mark = blake2b()
    with Path(source).open("rb") as file:
        size = Path(source).stat().st_size
        mark.update(str(size).encode())
        mark.update(file.read(WHOLE if size <= WHOLE else WHOLE // 64))
        if size > WHOLE:
            file.seek(-WHOLE // 64, 2)
            mark.update(file.read())
    return mark.digest()


def _thumbnail(pixels: np.ndarray[Any, Any]) -> bytes:
    from PIL import Image

    picture = Image.fromarray(pixels)
    picture.thumbnail((THUMBNAIL, THUMBNAIL))
    data = io.BytesIO()
    picture.save(data, "JPEG", quality=85)
    return data.getvalue()
