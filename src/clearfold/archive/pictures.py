"""From images to cases: one commit each, so that work can stop at any moment and go on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd

from clearfold.archive.adding import insert_cases
from clearfold.archive.cases import IDS, digest, identity, label_of, scalar
from clearfold.archive.fitted import Fitted
from clearfold.archive.measuring import Measured, Measuring, content_of, measure_all, reason_of
from clearfold.archive.store import Added, Case, Scalar, Store
from clearfold.errors import ArchiveError
from clearfold.table.columns import listed, no_duplicates, present

SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff")
OTHER = "the archive has a case of this name with other pixels or other labels. Rename the image, or remove that case."

Progress = Callable[[int, int, str], None]


def are_pictures(what: Any) -> bool:
    """Whether a folder, an image, or images in a list or by name came, not a table."""
    if isinstance(what, str | PathLike):
        return Path(what).is_dir() or Path(what).suffix.lower() in SUFFIXES
    return isinstance(what, list | tuple | dict)


def add_pictures(
    store: Store,
    what: Any,
    labels: Any,
    measuring: Measuring,
    progress: Progress | None,
    roles: Mapping[str, str | None],
    fitted: Callable[[int], Fitted],
) -> Added:
    """Measure images and add each; those that cannot be used are listed with the reason and never stop the rest.

    What goes wrong with the store is raised: it would be the same for every image. What was added before stays.
    """
    named = pictures_of(what)
    known = {} if labels is None else read_labels(labels, roles)
    about = {name: _about(name, source, known) for name, source in named.items()}
    _as_before(store, measuring)
    tell = progress or (lambda done, of, name: None)
    todo, total, failed = _open(store, named, about, tell)
    for done, (name, measured) in enumerate(_measured(store, measuring, todo), start=len(named) - len(todo) + 1):
        reason = measured.reason or _unlike(store, measured)
        if reason:
            failed[name] = reason
        else:
            settings = {"mpp": measured.mpp, "mpp_given": measuring.mpp is not None, "extraction": measuring.extraction}
            one = insert_cases(store, [_case(name, about[name], measured)], measured.names, settings, fitted)
            total = replace(total, added=total.added + one.added, skipped=total.skipped + one.skipped)
        tell(done, len(named), name)
    return replace(total, failed=failed)


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
    given = mpp if known.get("mpp_given") else None
    return replace(measuring, mpp=given, extraction=extraction, settled=True, scale=mpp)


def _open(
    store: Store, named: Mapping[str, Any], about: Mapping[str, dict[str, Any]], tell: Progress
) -> tuple[dict[str, Any], Added, dict[str, str]]:
    """Images that are not in the archive yet, how many are, and those of which it has another one."""
    with store.reading():
        there = store.digests(list(named))
    failed: dict[str, str] = {}
    for done, name in enumerate(there, start=1):
        try:
            if there[name] != _mark(name, about[name], content_of(named[name])):
                failed[name] = OTHER
        except OSError as error:
            failed[name] = reason_of(error)
        tell(done, len(named), name)
    todo = {name: source for name, source in named.items() if name not in there}
    return todo, Added(skipped=len(there) - len(failed)), failed


def _measured(store: Store, measuring: Measuring, todo: Mapping[str, Any]) -> Iterator[tuple[str, Measured]]:
    """Every image in order: alone until the first has fixed the archive's scale, then several at once."""
    waiting = deque(todo.items())
    while waiting and not (way := _as_before(store, measuring)).settled:
        name, source = waiting.popleft()
        yield name, way.attempt(source)
    if waiting:
        found = measure_all(way, [source for _, source in waiting])
        yield from zip((name for name, _ in waiting), found, strict=True)


def _unlike(store: Store, measured: Measured) -> str:
    """Why an image's features cannot stand beside those of the archive, if so."""
    with store.reading():
        wanted = store.settings().get("features")
    other = [] if wanted is None else sorted(set(measured.names) ^ set(wanted))
    return f"its features are not those of the archive: {listed(other, 3)} differ." if other else ""


def _case(name: str, about: Mapping[str, Any], measured: Measured) -> Case:
    assert measured.values is not None
    rest: dict[str, Scalar] = {
        key: value for key, value in about.items() if value is not None and key not in (*IDS, "label")
    }
    patient, slide = (None if about.get(role) is None else str(about[role]) for role in IDS[1:])
    mark = _mark(name, about, measured.content)
    return Case(name, patient, slide, about.get("label"), rest, measured.values, measured.thumbnail, mark)


def _mark(name: str, about: Mapping[str, Any], content: bytes) -> bytes:
    """Of a case from an image; where its file lies makes no other case."""
    return digest(name, {key: value for key, value in about.items() if key != "image"}, content)


def _about(name: str, source: Any, known: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
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


def pictures_of(what: Any) -> dict[str, Any]:
    """case_id -> image: its path inside the folder without suffix, or the name of a given image."""
    if isinstance(what, dict):
        return {str(name): source for name, source in what.items()}
    if isinstance(what, str | PathLike) and Path(what).is_dir():
        folder = Path(what)
        paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and _own(path))
        if not paths:
            raise ArchiveError(f"There are no images in {folder}. Images are {', '.join(SUFFIXES)}.")
        pairs: Iterable[tuple[str, Any]] = [
            (path.relative_to(folder).with_suffix("").as_posix(), path) for path in paths
        ]
    else:
        pairs = [(_name(one), one) for one in ([what] if isinstance(what, str | PathLike) else what)]
    no_duplicates([name for name, _ in pairs], "case id")
    return dict(pairs)


def _own(path: Path) -> bool:
    """Whether this is a file of the user's, not one that a system put there."""
    return path.is_file() and not path.name.startswith(".")


def _name(one: Any) -> str:
    if isinstance(one, str | PathLike):
        return Path(one).stem
    if hasattr(one, "read") and hasattr(one, "mark"):
        return str(one.name)
    if getattr(one, "name", None) and hasattr(one, "pixels"):
        return Path(one.name).stem
    raise ArchiveError(f"{type(one).__name__} came in a list of images; wanted are paths, or what read_image gives.")
