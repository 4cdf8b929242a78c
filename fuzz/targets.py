"""What is fuzzed: name -> seeds, how they are changed, and who reads them."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile
import warnings
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from clearfold.errors import ClearfoldError
from fuzz import frames, mutators, requests, seeds

MOST_PIXELS = 1_000_000
SHAPE = (12, 16)


@dataclass(frozen=True)
class Target:
    """`read` may raise nothing; errors of clearfold are answers, and are swallowed where they belong."""

    seeds: Callable[[], list[bytes]]
    mutate: mutators.Mutate
    read: Callable[[bytes], None]


@cache
def folder() -> Path:
    """Where inputs are written: in memory where the system allows it."""
    found = Path(tempfile.mkdtemp(prefix="clearfold-fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    atexit.register(shutil.rmtree, found, ignore_errors=True)
    return found


def written(data: bytes, name: str) -> Path:
    """The input as a file."""
    path = folder() / name
    path.write_bytes(data)
    return path


def table(data: bytes, suffix: str) -> None:
    """Read, then use what a table offers, and write it."""
    from clearfold.table import binary, read_table, write_table

    binary.check_hdf5 = walked
    path = written(data, f"input{suffix}")
    with suppress(ClearfoldError):
        found = read_table(path)
        _ = found.X, found.y, repr(found), found.n_missing
        with suppress(ClearfoldError):
            _ = found.groups, found.complete()
        if zlib.crc32(data) % 8 == 0:  # slow, and much the same for every table
            write_table(found, folder() / "output.csv")


def walked(path: Path) -> None:
    """`check_hdf5` in a fork instead of a new interpreter: much faster, and as safe where nothing else runs."""
    from clearfold.errors import TableError
    from clearfold.table.bounds import most_of
    from clearfold.table.hdf5_walk import limited, refusal

    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGXCPU):
            signal.signal(number, signal.SIG_DFL)
        used = int(sum(os.times()[:2]))
        limited(used + 6, 2**33)
        try:
            os._exit(1 if refusal(str(path), most_of(path)) else 0)
        except BaseException:
            os._exit(2)
    if os.waitpid(child, 0)[1] != 0:
        raise TableError("this is not a readable HDF5 file.")


def image(data: bytes, suffix: str) -> None:
    """Read whole, then as a slide in parts."""
    from clearfold.images import open_slide, read_image

    path = written(data, f"input{suffix}")
    with suppress(ClearfoldError):
        assert read_image(path, max_pixels=MOST_PIXELS).pixels.dtype == np.uint8
    with suppress(ClearfoldError), open_slide(path) as slide:
        slide.read(0, 0, 9, 9)
        slide.thumbnail(32)
        slide.read(-3, 5, 20, 20)


def objects(data: bytes, suffix: str) -> None:
    """Outlines or masks on an image of 16 x 12 pixels; written and read again they are the same objects."""
    from clearfold.objects import read_objects, write_objects

    path = written(data, f"input{suffix}")
    with suppress(ClearfoldError):
        found = read_objects(path, SHAPE)
        write_objects(found, folder() / "output.geojson")
        assert len(read_objects(folder() / "output.geojson", SHAPE)) == len(found)


def archive(data: bytes) -> None:
    """Open, look at everything, search, add, remove."""
    from clearfold.archive import Archive

    path = written(data, "input.clearfold")
    for log in ("-wal", "-shm"):
        (folder() / f"input.clearfold{log}").unlink(missing_ok=True)
    with suppress(ClearfoldError), Archive.open(path, create=False) as opened:
        tries: list[Callable[[], Any]] = [
            lambda: (repr(opened), len(opened), opened.feature_names, opened.settings),
            lambda: (opened.cases(), opened.features()),
            lambda: [opened.case(name) for name in list(opened.features().index)[:2]],
            lambda: (opened.coordinates(), opened.nearest(np.zeros(2), 2, where={"organ": "breast"})),
            lambda: opened.query(opened.features().iloc[0], k=2).hits,
            lambda: opened.label_counts(),
            lambda: opened.add(seeds.frame(5).assign(case_id=list("vwxyz"), organ="x")),
            lambda: opened.remove(case_id="c1"),
        ]
        chosen = zlib.crc32(data)
        for attempt in [*tries[:4], tries[4 + chosen % 4]]:  # the last ones are slow
            with suppress(ClearfoldError):
                attempt()


def model(data: bytes) -> None:
    """Load; what loads places new samples, or fails as an estimator does."""
    from clearfold.archive.model import load_model

    try:
        loaded = load_model(data)
    except ClearfoldError:
        return
    with suppress(Exception), np.errstate(all="ignore"):  # a forged estimator may fail in any words, but not crash
        loaded.transform(np.zeros((2, 3)))


TARGETS: dict[str, Target] = {
    "csv": Target(seeds.separated, mutators.text, partial(table, suffix=".csv")),
    "tsv": Target(partial(seeds.separated, "\t"), mutators.text, partial(table, suffix=".tsv")),
    "csv.gz": Target(seeds.compressed, mutators.packed, partial(table, suffix=".csv.gz")),
    "parquet": Target(seeds.parquet, mutators.flip, partial(table, suffix=".parquet")),
    "h5ad": Target(seeds.h5ad, mutators.flip, partial(table, suffix=".h5ad")),
    "hdf5": Target(seeds.hdf5, mutators.flip, partial(table, suffix=".h5")),
    "columns": Target(frames.seeds, mutators.flip, frames.read),
    "png": Target(partial(seeds.pictures, "PNG"), mutators.png, partial(image, suffix=".png")),
    "jpeg": Target(partial(seeds.pictures, "JPEG"), mutators.flip, partial(image, suffix=".jpg")),
    "tiff": Target(seeds.tiffs, mutators.tiff, partial(image, suffix=".tif")),
    "svs": Target(lambda: seeds.tiffs()[-2:], mutators.tiff, partial(image, suffix=".svs")),
    "geojson": Target(seeds.outlines, mutators.as_json, partial(objects, suffix=".geojson")),
    "mask.png": Target(partial(seeds.masks, ".png"), mutators.png, partial(objects, suffix=".png")),
    "mask.tif": Target(partial(seeds.masks, ".tif"), mutators.tiff, partial(objects, suffix=".tif")),
    "mask.npy": Target(partial(seeds.masks, ".npy"), mutators.flip, partial(objects, suffix=".npy")),
    "archive": Target(lambda: [seeds.archive()], mutators.archive, archive),
    "model": Target(seeds.models, mutators.model, model),
    "api": Target(requests.seeds, mutators.as_json, requests.send),
}


def quiet(read: Callable[[bytes], None], data: bytes) -> None:
    """Read without showing warnings: they are fine."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        read(data)


os.environ.setdefault("OMP_NUM_THREADS", "1")
