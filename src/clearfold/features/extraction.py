"""image + objects -> named numbers: a composition of shape, texture, stain and arrangement."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd

from clearfold.errors import InputError, UnknownScaleWarning, warn
from clearfold.features import architecture as arrangement
from clearfold.features.architecture import architecture, neighborhood
from clearfold.features.catalogue import STATISTICS, Features, Measure, feature_names
from clearfold.features.gabor import GABOR, gabor
from clearfold.features.shape import SHAPE, object_shape, of_structure
from clearfold.features.stain import STAIN, object_stain, region_stain
from clearfold.features.statistics import summarise_table
from clearfold.features.texture import (
    CO_OCCURRENCE,
    FIRST_ORDER,
    first_order,
    grey_limits,
    haralick,
    region_haralick,
    texture_distances,
)
from clearfold.images import Image, as_image, separate_stains, tissue_mask
from clearfold.objects import Objects, as_objects, segment_nuclei

if TYPE_CHECKING:
    from clearfold.images import Stains

Segmenter: TypeAlias = Callable[[np.ndarray], Any]
"""RGB pixels [height, width, 3] -> labels [height, width]."""

FAMILIES = ("shape", "texture", "stain", "graph", "density", "orientation")
USUAL_DIAMETER = 8.0
"""Diameter of a nucleus in um (16 pixels without a scale) where an image has none to measure."""
NO_DIRECTION = ("orientation",)
"""Columns of shape that are directions: their mean is none; `orientation` is a family of its own."""

NUCLEUS = (
    *(m for name, m in of_structure(SHAPE, "nucleus").items() if name not in NO_DIRECTION),
    *of_structure(FIRST_ORDER, "nucleus").values(),
    *of_structure(CO_OCCURRENCE, "nucleus").values(),
    *of_structure(STAIN, "nucleus").values(),
    *arrangement.MEASURES,
)
REGION = (
    *(
        measure
        for channel in ("grey", "hematoxylin")
        for table in (CO_OCCURRENCE, GABOR)
        for measure in of_structure(table, channel, region=True).values()
    ),
    *of_structure(STAIN, "region", region=True).values(),
)
GLAND = (
    *(m for name, m in of_structure(SHAPE, "gland").items() if name not in NO_DIRECTION),
    *of_structure({m.name: m for m in arrangement.MEASURES}, "gland").values(),
)
MEASURES: dict[str, tuple[Measure, ...]] = {"nucleus": NUCLEUS, "region": REGION, "gland": GLAND}
"""All that `extract` measures; of glands only when they are given."""


def extract(
    image: Any,
    objects: Any = None,
    *,
    mpp: float | None = None,
    glands: Any = None,
    families: Collection[str] | None = None,
    segmenter: Segmenter | None = None,
) -> pd.Series:
    """Named numbers of one region of tissue: `family.structure.statistic`, always the same names.

    Parameters
    ----------
    image : what `as_image` takes: an array, a path, an Image
    objects : nuclei as labels [height, width] or Objects; by default they are segmented. Objects of kind "gland" count
        as `glands`
    mpp : micrometres a pixel; without it lengths are in pixels, and a warning says so
    glands : labels or Objects of glands; without them nothing is measured of glands
    families : some of FAMILIES, all by default; "stain" is apart because it tells laboratories as well as patients
    segmenter : finds nuclei instead of `segment_nuclei`: a function from pixels to labels

    Returns
    -------
    a Series; its `attrs` have "unit" ("um" or "px"), "n_nuclei", "n_glands", "stains" and "reasons" for what is NaN
    """
    region = read_region(image, objects, mpp=mpp, glands=glands, segmenter=segmenter)
    wanted = checked_families(families)
    found = Features({})
    for part in _parts(region, wanted):
        found |= part
    names = expected_names(wanted, glands=region.glands is not None)
    series = pd.Series({name: found.values[name] for name in names}, dtype=float, name=region.image.name)
    series.attrs.update(region.facts)
    series.attrs["reasons"] = {name: found.reasons[name] for name in names if name in found.reasons}
    return series


def extract_objects(
    image: Any,
    objects: Any = None,
    *,
    mpp: float | None = None,
    families: Collection[str] | None = None,
    segmenter: Segmenter | None = None,
) -> pd.DataFrame:
    """One row for each nucleus, or for each gland of Objects of that kind; x and y in pixels, columns `family.measure`.

    Parameters as in `extract`. For heat maps over tissue, and for retrieval of single glands.
    """
    if isinstance(objects, Objects) and objects.kind == "gland":
        region = read_region(image, np.zeros(objects.shape, np.int32), mpp=mpp, glands=objects)
    else:
        region = read_region(image, objects, mpp=mpp, segmenter=segmenter)
    wanted = checked_families(families)
    own = region.glands if region.glands is not None else region.nuclei
    kind = "nucleus" if region.glands is None else "gland"
    tables = {name: table for name, table in region.tables(own, wanted).items() if len(table.columns)}
    around = neighborhood(region.points(own), region.shape_of(own)["orientation"], unit=region.unit)
    around = around[[name for name in around.columns if name.split(".")[0] in wanted]]
    x, y = own.centroids.T if len(own) else np.empty((2, 0))
    place = pd.DataFrame({"x": x, "y": y, "class": own.classes or [""] * len(own)}, index=around.index)
    columns = [table.add_prefix(f"{name}.") for name, table in tables.items()]
    result = pd.concat([place, *(table.set_axis(around.index) for table in columns), around], axis=1)
    result.index.name = kind
    result.attrs.update(region.facts)
    return result


def expected_names(families: Collection[str] | None = None, *, glands: bool = False) -> list[str]:
    """The names that `extract` gives for these families, in their order."""
    return list(_names(checked_families(families), glands))


@cache
def _names(families: tuple[str, ...], glands: bool) -> tuple[str, ...]:
    """Made once: the rows of thousands of tiles share these strings, which are most of their memory."""
    measures = (*NUCLEUS, *REGION, *(GLAND if glands else ()))
    return feature_names(measure for measure in measures if measure.family in families)


def checked_families(families: Collection[str] | None) -> tuple[str, ...]:
    """The families asked for, in the order of FAMILIES."""
    asked = FAMILIES if families is None else (families,) if isinstance(families, str) else tuple(families)
    unknown = sorted(set(asked) - set(FAMILIES))
    if unknown or not asked:
        raise InputError(f"families={list(asked)} came; wanted are some of {', '.join(FAMILIES)}.")
    return tuple(family for family in FAMILIES if family in asked)


def read_region(
    image: Any, objects: Any = None, *, mpp: float | None = None, glands: Any = None, segmenter: Segmenter | None = None
) -> Region:
    """Check what came, and segment nuclei where none are given."""
    read = as_image(image, mpp)
    known = next((given.mpp for given in (objects, glands) if isinstance(given, Objects) and given.mpp), None)
    if read.mpp is None and known is not None:
        read = replace(read, mpp=known)
    if read.mpp is None:
        warn(
            "nobody said how many micrometres a pixel has: lengths are in pixels, and nuclei are sought at the usual "
            "scale of 0.5. Give mpp=...",
            UnknownScaleWarning,
        )
    shape = (read.pixels.shape[0], read.pixels.shape[1])
    if isinstance(objects, Objects) and objects.kind == "gland" and glands is None:
        objects, glands = None, objects
    if objects is None:
        objects = segment_nuclei(read) if segmenter is None else segmenter(read.pixels)
    nuclei = as_objects(objects, shape, read.mpp)
    if glands is not None:
        glands = replace(as_objects(glands, shape, read.mpp, "gland"), kind="gland")
    return Region(read, nuclei, glands)


@dataclass(frozen=True)
class Region:
    """One image with its nuclei and perhaps glands, and what is computed of it once."""

    image: Image
    nuclei: Objects
    glands: Objects | None

    @property
    def unit(self) -> str:
        """ "um" where the scale is known, else "px"."""
        return "px" if self.image.mpp is None else "um"

    @property
    def scale(self) -> float:
        """Of a pixel, in the unit."""
        return self.image.mpp or 1.0

    @property
    def facts(self) -> dict[str, Any]:
        """What a reader of the numbers should know."""
        return {
            "unit": self.unit,
            "mpp": self.image.mpp,
            "n_nuclei": len(self.nuclei),
            "n_glands": None if self.glands is None else len(self.glands),
            "stains": self.stains.method,
        }

    @cached_property
    def stains(self) -> Stains:
        """Concentrations of hematoxylin and eosin."""
        return separate_stains(self.image)

    @cached_property
    def tissue(self) -> np.ndarray:
        """Where there is tissue."""
        return tissue_mask(self.image)

    @cached_property
    def grey(self) -> np.ndarray:
        """Luminance, 0 to 255."""
        return self.image.pixels @ np.array([0.2125, 0.7154, 0.0721])

    @cached_property
    def diameter(self) -> float:
        """Median diameter of the nuclei in pixels."""
        if not len(self.nuclei):
            return max(USUAL_DIAMETER / self.image.mpp if self.image.mpp else 16.0, 1.0)
        return float(np.sqrt(4 * np.median(self.nuclei.areas) / np.pi))

    def points(self, objects: Objects) -> np.ndarray:
        """Centres in the unit."""
        return objects.centroids.reshape(-1, 2) * self.scale

    def shape_of(self, objects: Objects) -> pd.DataFrame:
        """Shape of each of the nuclei, or of the glands."""
        return self._nucleus_shape if objects is self.nuclei else self._gland_shape

    @cached_property
    def _nucleus_shape(self) -> pd.DataFrame:
        return object_shape(self.nuclei.labels, self.image.mpp)

    @cached_property
    def _gland_shape(self) -> pd.DataFrame:
        assert self.glands is not None
        return object_shape(self.glands.labels, self.image.mpp)

    def tables(self, objects: Objects, families: Collection[str]) -> dict[str, pd.DataFrame]:
        """One table a family, one row an object; texture and stain of nuclei only."""
        tables = {}
        if "shape" in families:
            tables["shape"] = self.shape_of(objects)
        if objects.kind == "gland":
            return tables
        labels, channel = objects.labels, self.stains.hematoxylin
        if "texture" in families:
            limits, distances = grey_limits(channel, labels), texture_distances(self.diameter)
            both = [first_order(channel, labels, limits=limits), haralick(channel, labels, distances, limits=limits)]
            tables["texture"] = pd.concat(both, axis=1)
            tables["texture"].attrs["reasons"] = both[0].attrs["reasons"] | both[1].attrs["reasons"]
        if "stain" in families:
            tables["stain"] = object_stain(self.image.pixels, channel, self.stains.eosin, labels)
        return tables


def _parts(region: Region, families: Collection[str]) -> Iterator[Features]:
    """The numbers of nuclei, of the tissue and of glands."""
    yield from _of_objects(region, region.nuclei, families)
    if "texture" in families:
        distances = texture_distances(region.diameter)
        for name, channel in (("grey", region.grey), ("hematoxylin", region.stains.hematoxylin)):
            yield region_haralick(channel, region.tissue, distances, structure=name)
            yield gabor(channel, region.diameter, region.tissue, structure=name)
    if "stain" in families:
        stains = region.stains
        yield region_stain(region.image.pixels, stains.hematoxylin, stains.eosin, region.tissue)
    if region.glands is not None:
        yield from _of_objects(region, region.glands, families)


def _of_objects(region: Region, objects: Objects, families: Collection[str]) -> Iterator[Features]:
    """Tables summarised, and the arrangement."""
    for family, table in region.tables(objects, families).items():
        yield _summarised(table.drop(columns=list(NO_DIRECTION), errors="ignore"), f"{family}.{objects.kind}")
    if {"graph", "density", "orientation"} & set(families):
        found = architecture(
            region.points(objects),
            region.shape_of(objects)["orientation"].to_numpy(),
            region_area=float(region.tissue.sum()) * region.scale**2 or None,
            unit=region.unit,
        )
        yield found if objects.kind == "nucleus" else _renamed(found, objects.kind)


def _summarised(table: pd.DataFrame, prefix: str) -> Features:
    """Statistics of each column; a column that has no value says why."""
    values = summarise_table(table, prefix)
    known: Mapping[str, str] = table.attrs.get("reasons", {})
    reasons = {
        f"{prefix}.{column}.{statistic}": known.get(str(column), "no objects")
        for column in table.columns
        for statistic in STATISTICS
    }
    return Features(values, {name: reasons[name] for name, value in values.items() if np.isnan(value)})


def _renamed(found: Features, structure: str) -> Features:
    """graph.mst.edge_length -> graph.gland.mst.edge_length."""

    def name(old: str) -> str:
        return old.replace(".", f".{structure}.", 1)

    return Features(
        {name(key): value for key, value in found.values.items()},
        {name(key): value for key, value in found.reasons.items()},
    )


def measure_table() -> pd.DataFrame:
    """Every measure with what it is: structure, formula, unit, source, and how many numbers a region gets from it."""
    rows = [
        asdict(measure) | {"of": of, "family": measure.family, "numbers": len(measure.features)}
        for of, measures in MEASURES.items()
        for measure in measures
    ]
    return pd.DataFrame(rows)[["name", "family", "of", "formula", "unit", "source", "numbers"]]


def markdown_table() -> str:
    """`measure_table` for readers: measures of glands are those of nuclei, and stand there once."""
    table = measure_table()
    lines = ["| measure | formula | unit | from | numbers |", "|---|---|---|---|---|"]
    for row in table[table["of"] != "gland"].itertuples():
        formula = str(row.formula).replace("|", "\\|")
        lines.append(f"| `{row.name}` | {formula} | {row.unit} | {row.source} | {row.numbers} |")
    return "\n".join(lines) + "\n"
