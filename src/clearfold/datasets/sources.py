"""Where every set of data comes from: its file in CLEARFOLD_DATA, its official files, its digest, its licence.

A digest is that of the parsed numbers. We do not know the checksums of the official files themselves; where one is
given (`sha256`), a download is held against it before it is read.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from clearfold.datasets.download import LARGEST, Progress, download, sha256_of
from clearfold.errors import DatasetError, DatasetMissingError

__all__ = ["SOURCES", "Found", "Progress", "RemoteFile", "Source", "cache_folder", "find", "image_folder", "refuse"]

VARIABLE = "CLEARFOLD_DATA"
Names: TypeAlias = tuple[str, ...]


@dataclass(frozen=True)
class RemoteFile:
    """One official file; `sha256` None if its checksum is not known to us."""

    name: str
    address: str
    sha256: str | None = None
    largest: int = LARGEST


@dataclass(frozen=True)
class Source:
    """prepared: files below CLEARFOLD_DATA; files: official ones; digest: of the parsed numbers, None if not known."""

    name: str
    prepared: Names
    home: str
    licence: str = "not known to us: ask the source"
    files: tuple[RemoteFile, ...] = ()
    digest: str | None = None


@dataclass(frozen=True)
class Found:
    """Files that are there; official ones are in the official format; ours to remove if they lie in our cache."""

    source: Source
    paths: tuple[Path, ...]
    official: bool
    ours: bool


def cache_folder() -> Path:
    """The user's folder for downloads: XDG_CACHE_HOME if set, else what is usual on this system."""
    named = os.environ.get("XDG_CACHE_HOME")
    if named:
        return Path(named) / "clearfold"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", str(Path.home() / "AppData" / "Local"))) / "clearfold" / "Cache"
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "clearfold"


def find(source: Source, progress: Progress | None = None) -> Found:
    """The files of a set: in CLEARFOLD_DATA, else in the cache, else downloaded into the cache."""
    for root, ours in _roots():
        prepared = tuple(root / name for name in source.prepared)
        if prepared and all(path.exists() for path in prepared):
            return Found(source, prepared, official=False, ours=False)
        official = tuple(root / source.name / file.name for file in source.files)
        if official and all(path.is_file() for path in official):
            found = Found(source, official, official=True, ours=ours)
            _check(found)
            return found
    if not source.files:
        raise DatasetMissingError(_missing(source))
    folder = cache_folder() / source.name
    for file in source.files:
        if not (folder / file.name).is_file():
            download(file.address, folder / file.name, sha256=file.sha256, largest=file.largest, progress=progress,
                     hint=_by_hand(source))  # fmt: skip
    found = Found(source, tuple(folder / file.name for file in source.files), official=True, ours=True)
    _check(found)
    return found


def image_folder(source: Source) -> Path:
    """The folder of a set of images, which is only taken from CLEARFOLD_DATA or the cache."""
    return find(source).paths[0]


def refuse(found: Found, why: str) -> DatasetError:
    """The error for files that are not what they should be; those of our own cache are removed."""
    if found.ours:
        for path in found.paths:
            path.unlink(missing_ok=True)
    end = "They were removed from the cache: call again to fetch them anew." if found.ours else "Get the files anew."
    return DatasetError(f"{found.source.name}: {why} ({', '.join(map(str, found.paths[:5]))}). {end}")


def _roots() -> list[tuple[Path, bool]]:
    named = os.environ.get(VARIABLE)
    if named and not Path(named).is_dir():
        raise DatasetMissingError(f"{VARIABLE}={named} names no folder. Set it to the folder that holds the data.")
    return [*([(Path(named), False)] if named else []), (cache_folder(), True)]


def _check(found: Found) -> None:
    for file, path in zip(found.source.files, found.paths, strict=True):
        if file.sha256 is not None and sha256_of(path) != file.sha256:
            raise refuse(found, f"{file.name} has another checksum than the official file")


def _missing(source: Source) -> str:
    return (
        f"{source.name} is not available here. It is not downloaded for you, since its address or its licence is not "
        f"known to us; get it from {source.home}. Set the environment variable {VARIABLE} to a folder that "
        f"holds {' and '.join(source.prepared)}."
    )


def _by_hand(source: Source) -> str:
    names = ", ".join(file.name for file in source.files)
    prepared = f"{' and '.join(source.prepared)}, or " if source.prepared else ""
    return (
        f"Without a network, set the environment variable {VARIABLE} to a folder that holds {prepared}the official "
        f"files {source.name}/ ({names}) from {source.home}."
    )


UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"
UCI_LICENCE = "CC BY 4.0 by the page of the UCI repository: cite the donors"
DIGESTS = {
    "madelon": "2d1f7f0d23f70096abf0a2082aba964687e1000a4075df46e66107a61ba8598d",
    "arcene": "4724701cea80a8bf7334de59d46d5397efe841cf19b52c4481ad82071444db42",
    "dexter": "8793868dfe6d9ae03210d9446ecfed5e25383e26b8d461b25b7f27e4e3363eea",
    "wpbc": "89dae5ff21aedef5cf07b9471080a274be4cc5ba762dd687d9e6532bf5ed6b49",
    "golub": "6d413ea6dcaab570c2ab755c98681711b82b1f483f8d9c592c591e8ed08338b8",
    "golub_3051": "cf7ba6d97b7cbec16180f2068f1fe49b5497d5ec37595fb35bb6108e40860b52",
    "mibc": "2f361850535c08af2570d2d9f756244cdea7f6d794a014afa341dde192971535",
    "kather": "81b8c392431843757544d09e17feda560057090b8c9d9ad66664cb25d11984dd",
    "ucsb": "e49c3d7d3727ce1606ac2f0eef27fef43e45ee05d7a8522ca88e3a76284f04ec",
}
"""Of the parsed numbers (`reading.digest`). Gisette's is not known to us: only its shape and its labels are checked."""


def _challenge(name: str, number: int, prepared: Names) -> Source:
    """A set of the feature selection challenge of 2003: four text files; labels of validation lie one folder up."""
    upper = name.upper()
    folders = {"train.data": f"{upper}/", "train.labels": f"{upper}/", "valid.data": f"{upper}/", "valid.labels": ""}
    files = tuple(RemoteFile(f"{name}_{end}", f"{UCI}/{name}/{at}{name}_{end}") for end, at in folders.items())
    home = f"https://archive.ics.uci.edu/dataset/{number}/{name}"
    return Source(name, prepared, home, UCI_LICENCE, files, DIGESTS.get(name))


def _local(name: str, prepared: Names, home: str) -> Source:
    """A set that is only taken from CLEARFOLD_DATA."""
    return Source(name, prepared, home, digest=DIGESTS.get(name))


DEXTER = ("nips2003/dexter_train_X.npz", "nips2003/dexter_valid_X.npz", "nips2003/dexter_labels.npz")
WPBC = Source(
    "wpbc",
    ("tables/wpbc.csv",),
    "https://archive.ics.uci.edu/dataset/16/breast+cancer+wisconsin+prognostic",
    UCI_LICENCE,
    (RemoteFile("wpbc.data", f"{UCI}/breast-cancer-wisconsin/wpbc.data"),),
    DIGESTS["wpbc"],
)
UCSB = "the UCSB bio-segmentation benchmark"
SOURCES: dict[str, Source] = {
    "madelon": _challenge("madelon", 171, ("nips2003/madelon.npz",)),
    "arcene": _challenge("arcene", 167, ("nips2003/arcene.npz",)),
    "dexter": _challenge("dexter", 168, DEXTER),
    "gisette": _challenge("gisette", 170, ("nips2003/gisette.npz",)),
    "wpbc": WPBC,
    "golub": _local("golub", ("golub/golub.npz",), "the Broad Institute (Golub et al., Science 1999)"),
    "golub_3051": _local("golub_3051", ("golub/golub_multtest_3051.npz",), "the Bioconductor package multtest"),
    "mibc": _local("mibc", ("tables/mibc_discovery.csv.gz",), "the authors of that cohort"),
    "kather": _local("kather", ("tables/kather_texture.npz",), "its authors (Kather et al., Scientific Reports 2016)"),
    "ucsb": _local("ucsb", ("tables/ucsb_mil.npz",), f"{UCSB}, cut into patches for multiple instance learning"),
    "glas": _local("glas", ("glas", "glas/glas_labels.csv"), "the GlaS challenge of MICCAI 2015"),
    "prostate_tma": _local("prostate_tma", ("prostate_tma",), "its authors (Arvaniti et al., Scientific Reports 2018)"),
    "nuclei_gbm40": _local("nuclei_gbm40", ("nuclei_gbm40",), "its authors (40 tiles of glioblastoma)"),
    "nuclei_ucsb26": _local("nuclei_ucsb26", ("nuclei_ucsb26",), UCSB),
}
"""Every set that is read from files; WDBC and the Swiss roll come with scikit-learn."""
