"""Measures of nuclei beside scikit-image, mahotas and find_contours with pyefd.

Nuclei are irregular ellipses of about 30 pixels, one in each cell of a lattice, in smooth noise. The peers are called
as their documentation shows: `regionprops_table` once for the label image; `haralick` and `find_contours` with
`elliptic_fourier_descriptors` for the crop of each nucleus. Columns are compared as shares of the largest value.

Ours is also run without numba (CLEARFOLD_NUMBA=0). "first call" is a fresh process that has no compiled code on disk:
its start, the compilation of all kernels and the work; "next process" is the same with the code on disk.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import ndimage

from benchmarks.cases import OURS, Against, Case
from benchmarks.differences import Difference
from benchmarks.measure import Work
from clearfold.features.fourier import FOURIER
from clearfold.features.shape import SHAPE, object_shape
from clearfold.features.texture import grey_limits, haralick, quantise

DIAMETER = 30
NUCLEI = "nuclei"
PLAIN = "clearfold without numba"
LARGEST = 2000
LEVELS = 16
DISTANCE = 2
COLUMNS = {
    "area": "area",
    "filled_area": "area_filled",
    "convex_area": "area_convex",
    "perimeter": "perimeter",
    "equivalent_diameter": "equivalent_diameter_area",
    "major_axis": "axis_major_length",
    "minor_axis": "axis_minor_length",
    "eccentricity": "eccentricity",
    "orientation": "orientation",
    "extent": "extent",
    "solidity": "solidity",
    "feret_max": "feret_diameter_max",
    "euler_number": "euler_number",
} | {f"hu_{k + 1}": f"moments_hu-{k}" for k in range(7)}
"""Ours and scikit-image's."""
GEOMETRY = [name for name in SHAPE if name not in FOURIER]
"""28 columns: those of COLUMNS, the box, and six that scikit-image has not."""
PROPERTIES = tuple(dict.fromkeys(name.split("-")[0] for name in (*COLUMNS.values(), "centroid", "bbox")))
"""26 columns of `regionprops_table`."""
ELLIPTIC = [name for name in FOURIER if name.startswith("elliptic")]


def tissue(size: int) -> dict[str, Any]:
    """Labels, a channel, and the grey levels of the channel."""
    rng = np.random.default_rng(0)
    side, cell = int(np.ceil(np.sqrt(size))), DIAMETER + 8
    labels = np.zeros((side * cell, side * cell), np.int32)
    y, x = np.mgrid[:cell, :cell] - cell / 2
    for i in range(size):
        row, column = divmod(i, side)
        a, turn, phase = DIAMETER / 2 * rng.uniform(0.8, 1.15), rng.uniform(0, np.pi), rng.uniform(0, 2 * np.pi)
        b, (dy, dx) = a * rng.uniform(0.55, 1), rng.uniform(-1, 1, 2)
        along = ((x - dx) * np.cos(turn) + (y - dy) * np.sin(turn)) / a
        across = ((y - dy) * np.cos(turn) - (x - dx) * np.sin(turn)) / b
        inside = np.hypot(along, across) <= 1 + 0.08 * np.cos(3 * np.arctan2(across, along) + phase)
        labels[row * cell : (row + 1) * cell, column * cell : (column + 1) * cell][inside] = i + 1
    channel = ndimage.gaussian_filter(rng.normal(size=labels.shape), 1)
    limits = grey_limits(channel, labels)
    return {"labels": labels, "channel": channel, "limits": limits, "grey": quantise(channel, limits, LEVELS)}


def without_numba(size: int) -> dict[str, Any]:
    os.environ["CLEARFOLD_NUMBA"] = "0"  # of the process that prepares this
    return tissue(size)


# Ours ------------------------------------------------------------------------------------------------------


def our_shape(state: dict[str, Any]) -> Any:
    return object_shape(state["labels"], columns=GEOMETRY)


def our_haralick(state: dict[str, Any]) -> Any:
    distances = {"d": DISTANCE}
    return haralick(state["channel"], state["labels"], distances, limits=state["limits"], levels=LEVELS)


def our_fourier(state: dict[str, Any]) -> Any:
    return object_shape(state["labels"], columns=list(FOURIER))


def our_everything(state: dict[str, Any]) -> Any:
    """48 columns of shape and 13 of texture."""
    return object_shape(state["labels"]), our_haralick(state)


def read_shape(table: Any) -> np.ndarray:
    return table[list(COLUMNS)].to_numpy()


def read_fourier(table: Any) -> np.ndarray:
    return table[ELLIPTIC].to_numpy()


def read_everything(tables: Any) -> np.ndarray:
    return np.hstack([read_shape(tables[0]), tables[1].to_numpy(), read_fourier(tables[0])])


# The peers -------------------------------------------------------------------------------------------------


def peer_shape(state: dict[str, Any]) -> np.ndarray:
    from skimage.measure import regionprops_table

    table = regionprops_table(state["labels"], properties=PROPERTIES)
    return np.stack([table[name] for name in COLUMNS.values()], axis=1)


def peer_haralick(state: dict[str, Any]) -> np.ndarray:
    from mahotas.features import haralick

    rows = []
    for label, box in enumerate(ndimage.find_objects(state["labels"]), start=1):
        crop = np.where(state["labels"][box] == label, state["grey"][box], 0).astype(np.uint8)
        options = {"ignore_zeros": True, "return_mean": True, "use_x_minus_y_variance": True, "distance": DISTANCE}
        rows.append(haralick(crop, **options))
    return np.array(rows)


def peer_fourier(state: dict[str, Any]) -> np.ndarray:
    from pyefd import elliptic_fourier_descriptors
    from skimage.measure import find_contours

    rows = []
    for label, box in enumerate(ndimage.find_objects(state["labels"]), start=1):
        mask = np.pad(state["labels"][box] == label, 1).astype(float)
        outline = max(find_contours(mask, 0.5), key=len)
        rows.append(elliptic_fourier_descriptors(outline, order=10, normalize=True))
    return np.linalg.norm(rows, axis=2)


def peer_everything(state: dict[str, Any]) -> np.ndarray:
    return np.hstack([peer_shape(state), peer_haralick(state), peer_fourier(state)])


# Cases -----------------------------------------------------------------------------------------------------


def apart(ours: np.ndarray, peer: np.ndarray) -> float:
    """Largest difference in a column as a share of its largest value."""
    return float((np.abs(ours - peer).max(axis=0) / np.abs(peer).max(axis=0)).max())


A_SECOND = 10_000
"""Nuclei a second and core that are wanted of all features together."""
SAME_COLUMNS = Difference("columns", apart, 1e-12)
TASKS: dict[str, tuple[str, Callable[[Any], Any], Callable[[Any], Any], Callable[[Any], Any], float]] = {
    "shape": ("scikit-image", our_shape, read_shape, peer_shape, 40.0),
    "haralick": ("mahotas", our_haralick, np.asarray, peer_haralick, 15.0),
    "fourier": ("find_contours + pyefd", our_fourier, read_fourier, peer_fourier, 18.0),
    "everything": ("the three", our_everything, read_everything, peer_everything, 30.0),
}
"""For each task the peer, how ours is run and read, how the peer is run, and the ratio that is wanted."""


def nuclei_case(name: str, size: int) -> Case:
    who, run, read, peer, wanted = TASKS[name]
    return Case(
        f"nuclei: {name}",
        NUCLEI,
        size,
        prepare={OURS: tissue, PLAIN: without_numba, who: tissue},
        works={OURS: Work(OURS, run, read), PLAIN: Work(PLAIN, run, read), who: Work(who, peer)},
        comparisons=(
            Against(
                who,
                (SAME_COLUMNS,),
                wanted if size == LARGEST else None,
                limit_s=size / A_SECOND if size == LARGEST and name == "everything" else None,
            ),
            Against(PLAIN, (SAME_COLUMNS,)),
            Against(who, (SAME_COLUMNS,), ours=PLAIN, task="without numba"),
        ),
        warm_up=64,
        axis="nuclei",
    )


def nuclei(quick: bool) -> Iterable[Case]:
    for size in (200,) if quick else (500, LARGEST):
        for name in TASKS:
            yield nuclei_case(name, size)


FIRST_CALL = "from benchmarks.nuclei import our_everything, tissue; our_everything(tissue(64))"


def first_call(folder: str) -> None:
    """All kernels in a process of its own, whose compiled code is kept in this folder."""
    root = Path(__file__).resolve().parents[1]
    environment = os.environ | {"NUMBA_CACHE_DIR": folder}
    subprocess.run([sys.executable, "-c", FIRST_CALL], cwd=root, env=environment, check=True)


def cold(_: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        first_call(folder)


def compiled_before(_: int) -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory()
    first_call(folder.name)
    return folder


def next_call(folder: tempfile.TemporaryDirectory[str]) -> None:
    first_call(folder.name)


def start(quick: bool) -> Iterable[Case]:
    """Wall seconds of a process that measures 64 nuclei."""
    if quick:
        return
    for name, prepare, run in (("first call", partial(int), cold), ("next process", compiled_before, next_call)):
        works = {OURS: Work(OURS, run, once=True)}
        yield Case(f"nuclei: {name}", NUCLEI, 64, {OURS: prepare}, works, on_the_clock=True)


SUITE: dict[str, Callable[[bool], Iterable[Case]]] = {"nuclei": nuclei, "kernels": start}
