"""Shape of nuclei and glands: one row an object, one column a measure.

Everything follows from the label image alone. Where scikit-image's `regionprops` has a measure of the same meaning,
the numbers are the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from clearfold.errors import InputError
from clearfold.features.catalogue import Measure
from clearfold.features.fourier import FOURIER, fourier
from clearfold.features.grid import Grid, Integers, grid
from clearfold.features.hulls import hulls, rows_of
from clearfold.features.moments import Moments, moments
from clearfold.features.outlines import Outlines, outlines

Floats: TypeAlias = NDArray[np.float64]

_GEOMETRY = (
    ("area", "number of pixels", "um2", "VINK; FINE"),
    ("filled_area", "number of pixels, holes filled", "um2", "FINE"),
    ("convex_area", "number of pixels in the convex hull", "um2", "FINE"),
    ("perimeter", "length of the line through border pixels, holes included", "um", "Benkrid and Crookes 2000"),
    ("convex_perimeter", "length of the convex hull of the outline", "um", "FINE"),
    ("perimeter_ratio", "convex_perimeter / length of the outer outline (of the largest piece)", "1", "FINE"),
    ("equivalent_diameter", "sqrt(4 area / pi)", "um", "regionprops"),
    ("major_axis", "4 sqrt(l1), l1 the larger variance of the pixels along an axis", "um", "regionprops"),
    ("minor_axis", "4 sqrt(l2), l2 the smaller variance of the pixels along an axis", "um", "regionprops"),
    ("eccentricity", "sqrt(1 - l2 / l1)", "1", "regionprops"),
    ("aspect_ratio", "major_axis / minor_axis", "1", "regionprops"),
    ("orientation", "angle from the vertical to the major axis, counter-clockwise", "rad", "regionprops"),
    ("extent", "area / (box_width box_height)", "1", "regionprops"),
    ("solidity", "area / convex_area", "1", "regionprops"),
    ("circularity", "4 pi area / perimeter^2", "1", "Cox 1927"),
    ("feret_max", "largest distance of two points of the convex hull", "um", "Feret 1930"),
    ("feret_min", "smallest distance of two parallel lines with the convex hull between them", "um", "Feret 1930"),
    ("box_width", "width of the upright box", "um", "regionprops"),
    ("box_height", "height of the upright box", "um", "regionprops"),
    ("euler_number", "pieces - holes; pixels that touch at a corner belong together", "1", "Gray 1971"),
    (
        "roughness",
        "SD along the outline of sqrt(d' C^-1 d) / 2, d from the centroid, C the covariance of the pixels: "
        "0 for an ellipse",
        "1",
        "clearfold",
    ),
)
HU = tuple((f"hu_{k}", f"Hu's invariant moment {k} of the pixels", "1", "Hu 1962; FINE") for k in range(1, 8))
SHAPE = {
    name: Measure(f"shape.{name}", formula, unit, source) for name, formula, unit, source in (*_GEOMETRY, *HU)
} | FOURIER
"""What `object_shape` measures, by column."""
MISSING = {
    "aspect_ratio": "pixels on a line have no minor axis",
    "orientation": "no axis is longer than another",
    "circularity": "one or two pixels have no perimeter",
    "roughness": "pixels on a line have no ellipse",
}
"""Why a value is NaN."""
POWERS = {"um": 1, "um2": 2}
"""How a value grows with the number of micrometres a pixel has."""


def object_shape(labels: Any, mpp: float | None = None, *, columns: Collection[str] | None = None) -> pd.DataFrame:
    """The measures of SHAPE for each object of a label image, in micrometres, or in pixels where mpp is None.

    labels : (height, width) whole numbers, 0 for background, objects 1..n; row i of the result is object i
    columns : some of SHAPE, by default all; without any of FOURIER it takes half the time
    `attrs` of the result has "unit" ("um" or "px") and "reasons", why values of a column are NaN. What follows from
    the outline (fourier, elliptic, roughness) is that of the largest piece of an object in several pieces.

    >>> square = np.pad(np.ones((6, 6), int), 2)
    >>> object_shape(square, mpp=0.5)[["area", "box_width", "solidity"]].loc[1].tolist()
    [9.0, 3.0, 1.0]
    """
    scale, wanted = _scale(mpp), _wanted(columns)
    cells = grid(labels)
    if not cells.count:
        return object_table({name: [] for name in wanted}, mpp, {})
    centre = moments(cells.runs)
    lines = outlines(cells)
    values: dict[str, Any] = {}
    if not FOURIER.keys() >= set(wanted):
        values |= _geometry(cells, centre, lines)
    if FOURIER.keys() & set(wanted):
        values |= dict(zip(FOURIER, fourier(lines, centre.row, centre.column).T, strict=True))
    scaled = {name: values[name] * scale ** POWERS.get(SHAPE[name].unit, 0) for name in wanted}
    return object_table(scaled, mpp, MISSING)


def positions(labels: Any) -> pd.DataFrame:
    """Centroid and box of each object in pixels: x to the right, y down, the box without its right and bottom end."""
    cells = grid(labels)
    if not cells.count:
        return object_table({name: [] for name in ("x", "y", "left", "top", "right", "bottom")}, None, {})
    centre, boxes = moments(cells.runs), cells.runs.boxes
    x, y = centre.middle_column + centre.column, centre.middle_row + centre.row
    columns = {"x": x - 1, "y": y - 1}  # 1: the frame
    columns |= {name: getattr(boxes, name) - 1.0 for name in ("left", "top", "right", "bottom")}
    return object_table(columns, None, {})


def of_structure(measures: Mapping[str, Measure], structure: str, *, region: bool = False) -> dict[str, Measure]:
    """The measures named for what was measured: `shape.area` becomes `shape.nucleus.area`.

    region : one number for a region, not a value for each object

    >>> of_structure(SHAPE, "nucleus")["area"].name
    'shape.nucleus.area'
    """
    return {
        column: replace(
            measure, name=measure.name.replace(".", f".{structure}.", 1), summarised=measure.summarised and not region
        )
        for column, measure in measures.items()
    }


def object_table(columns: Mapping[str, Any], mpp: float | None, missing: Mapping[str, str]) -> pd.DataFrame:
    """One row an object, numbered from 1; the unit and the reasons for NaN are in `attrs`."""
    values = np.stack([np.asarray(column, dtype=float) for column in columns.values()], axis=1)
    frame = pd.DataFrame(values, index=pd.RangeIndex(1, len(values) + 1, name="object"), columns=list(columns))
    gone = {str(name) for name in frame.columns[np.isnan(values).any(axis=0)]}
    frame.attrs["unit"] = "px" if mpp is None else "um"
    frame.attrs["reasons"] = {name: reason for name, reason in missing.items() if name in gone}
    return frame


def _scale(mpp: float | None) -> float:
    if mpp is None:
        return 1.0
    if not (np.isfinite(mpp) and mpp > 0):
        raise InputError(f"mpp={mpp} came; micrometres a pixel are wanted, a number above 0 such as 0.25, or None.")
    return float(mpp)


def _wanted(columns: Collection[str] | None) -> list[str]:
    if columns is not None and (not columns or set(columns) - SHAPE.keys()):
        raise InputError(f"columns={list(columns)} came; some of {', '.join(SHAPE)} are wanted.")
    return [name for name in SHAPE if columns is None or name in set(columns)]


def _geometry(cells: Grid, centre: Moments, lines: Outlines) -> dict[str, Any]:
    """Everything but Fourier descriptors, in pixels."""
    values = _sizes(cells, centre, lines) | _ellipse(centre)
    values |= {"euler_number": lines.euler, "roughness": _roughness(lines, centre)}
    values |= _ratios(values, lines)
    return values | {name: column for (name, *_), column in zip(HU, centre.hu.T, strict=True)}


def _sizes(cells: Grid, centre: Moments, lines: Outlines) -> dict[str, Any]:
    runs, boxes = cells.runs, cells.runs.boxes
    hull = hulls(rows_of(runs, boxes))
    feret_max, feret_min = hulls(hull.inside).feret  # of the pixels in the hull, as in scikit-image
    return {
        "area": centre.area,
        "filled_area": centre.area + _holes(cells, lines),
        "convex_area": hull.area,
        "perimeter": lines.perimeter,
        "convex_perimeter": hull.perimeter,
        "feret_max": feret_max,
        "feret_min": feret_min,
        "box_width": boxes.width,
        "box_height": boxes.height,
    }


def _ellipse(centre: Moments) -> dict[str, Any]:
    larger, smaller = centre.ellipse
    some = np.where(larger == 0, 1.0, larger)
    return {
        "equivalent_diameter": np.sqrt(4 * centre.area / np.pi),
        "major_axis": 4 * np.sqrt(larger),
        "minor_axis": 4 * np.sqrt(smaller),
        "eccentricity": np.where(larger == 0, 0.0, np.sqrt(1 - smaller / some)),
        "orientation": centre.orientation,
    }


def _ratios(values: Mapping[str, Any], lines: Outlines) -> dict[str, Any]:
    minor, perimeter = values["minor_axis"], values["perimeter"]
    return {
        "perimeter_ratio": values["convex_perimeter"] / lines.length,
        "aspect_ratio": values["major_axis"] / np.where(minor == 0, np.nan, minor),
        "extent": values["area"] / (values["box_width"] * values["box_height"]),
        "solidity": values["area"] / values["convex_area"],
        "circularity": 4 * np.pi * values["area"] / np.where(perimeter == 0, np.nan, perimeter) ** 2,
    }


def _roughness(lines: Outlines, centre: Moments) -> Floats:
    """SD along the outline of the distance from the centroid in units of the ellipse with the same moments."""
    rows, columns, both = centre.spread
    determinant = rows * columns - both**2
    determinant = np.where(centre.ellipse[1] == 0, np.nan, determinant)
    y, x = lines.y / 2 - centre.row[lines.owner], lines.x / 2 - centre.column[lines.owner]
    form = columns[lines.owner] * y**2 + rows[lines.owner] * x**2 - 2 * both[lines.owner] * x * y
    radius = np.sqrt(form / determinant[lines.owner]) / 2
    start, points = lines.start[:-1], np.diff(lines.start)
    mean = np.add.reduceat(radius, start) / points
    return np.sqrt(np.add.reduceat((radius - mean[lines.owner]) ** 2, start) / points)


def _holes(cells: Grid, lines: Outlines) -> Integers:
    """Pixels in the holes of each object; background reaches through corners, as in scikit-image."""
    from scipy.ndimage import binary_fill_holes

    holes = np.zeros(cells.count, np.int64)
    image, boxes = cells.cells.reshape(-1, cells.width), cells.runs.boxes
    for i in np.flatnonzero(~lines.plain):
        crop = image[boxes.top[i] : boxes.bottom[i], boxes.left[i] : boxes.right[i]] == i + 1
        holes[i] = binary_fill_holes(crop, np.ones((3, 3))).sum() - crop.sum()
    return holes
