"""Images from outside: decoded, measured as the archive's were, outlined, and mapped tile by tile."""

from __future__ import annotations

import base64
import io
import json
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from clearfold.errors import ImageError
from clearfold.web.tasks import Report, Unusable

SHOWN = 1600
"""Longest side of the picture of an upload that is kept for the page."""
MOST_TILES = 400
LEAST_TISSUE = 0.1


def ready(report: Report) -> dict[str, Any]:
    """Import, and compile, what the first image would have to wait for."""
    from clearfold.features.extraction import extract

    disk = np.hypot(*np.mgrid[-24:24, -24:24]) < 8
    extract(np.where(disk[..., None], [90, 60, 140], [235, 200, 225]).astype(np.uint8), mpp=0.5)
    return {}


def measure(report: Report, source: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """Features of an image, or of a box in it, as the archive measures; and a picture for the page."""
    report(None, "reading the image")
    image = _read(source, settings.get("mpp"))
    width, height = image.size
    known: dict[str, Any] = {"large": True, "features": None, "nuclei": None}
    if width * height <= source["measured"]:
        report(None, f"measuring {width} x {height} pixels")
        found = _extract(image, settings)
        known = {"large": False, "features": dict(found.items()), "nuclei": found.attrs.get("n_nuclei")}
    return {
        **known,
        "mpp": image.mpp,
        "width": width,
        "height": height,
        "picture": base64.b64encode(as_jpeg(image.pixels, SHOWN)).decode("ascii"),
    }


def nuclei(
    report: Report, source: dict[str, Any], feature: str | None, frame: dict[str, float] | None = None
) -> dict[str, Any]:
    """Outlines of nuclei as GeoJSON, each with the value of the column that a feature is made of.

    frame : x, y, width and height of the image in the coordinates that are wanted; by default those of the file
    """
    from clearfold.features.extraction import extract_objects

    report(None, "finding nuclei")
    image, found = _segmented(json.dumps(source, sort_keys=True), Path(source["path"]).stat().st_mtime_ns)
    families = [feature.split(".")[0]] if feature and feature.split(".")[0] in _families() else None
    column, values = None, np.full(len(found), np.nan)
    if families and len(found):
        table = extract_objects(image, found, families=families)
        column = _column(str(feature), list(table.columns))
        values = table[column].to_numpy(dtype=float) if column else values
    box = frame or source.get("box") or {"x": 0, "y": 0, "width": image.size[0], "height": image.size[1]}
    scale = np.array([box["width"] / image.size[0], box["height"] / image.size[1]])
    corner = np.array([box["x"], box["y"]])
    rings = [np.round((ring + 0.5) * scale + corner, 1) for ring in found.contours]
    known = values[~np.isnan(values)]
    low, high = np.quantile(known, [0.05, 0.95]) if len(known) else (np.nan, np.nan)
    return {
        "type": "FeatureCollection",
        "width": box["width"],
        "height": box["height"],
        "column": column,
        "low": low,
        "high": high,
        "note": "" if column or not feature else f"{feature} is not a feature of single nuclei: these are outlines.",
        "features": [_polygon(ring, value) for ring, value in zip(rings, values, strict=True)],
    }


@lru_cache(maxsize=4)
def _segmented(source: str, changed: int) -> tuple[Any, Any]:
    """An image and its nuclei, kept because one feature after the other is looked at."""
    from clearfold.objects import segment_nuclei

    asked = json.loads(source)
    image = _read(asked, None)
    if image.size[0] * image.size[1] > asked["measured"]:
        raise Unusable(413, f"{image.name} has more than {asked['measured']:,} pixels. Draw a box on it.")
    return image, segment_nuclei(image)


def heat(
    report: Report, source: dict[str, Any], settings: dict[str, Any], feature: str, tile: int, region: Any = None
) -> dict[str, Any]:
    """A feature of each tile with tissue; where there are too many, of the middle of larger ones."""
    from clearfold.images import open_slide, tissue_mask

    with open_slide(source["path"], mpp=source.get("mpp")) as slide:
        mpp = settings.get("mpp") if slide.mpp is not None else None
        scale = mpp / slide.mpp if mpp is not None and slide.mpp is not None else 1.0
        area = region or {"x": 0, "y": 0, "width": slide.size[0], "height": slide.size[1]}
        cells, side = _cells(area, tile * scale)
        tiles = []
        for done, (x, y, width, height) in enumerate(cells):
            report(done / len(cells), f"tile {done + 1} of {len(cells)}")
            core = min(tile * scale, width), min(tile * scale, height)
            image = slide.read(x + (width - core[0]) / 2, y + (height - core[1]) / 2, *core, mpp=mpp)
            if tissue_mask(image.pixels).mean() < LEAST_TISSUE:
                continue
            value = float(_extract(image, settings, feature)[feature])
            tiles.append({"x": x, "y": y, "width": width, "height": height, "value": value})
    known = np.array([one["value"] for one in tiles], dtype=float)
    known = known[np.isfinite(known)]
    low, high = np.quantile(known, [0.05, 0.95]) if len(known) else (np.nan, np.nan)
    return {"feature": feature, "tile": side, "measured": tile * scale, "low": low, "high": high, "tiles": tiles}


# Parts ------------------------------------------------------------------------------------------------------


def _read(source: dict[str, Any], mpp: float | None) -> Any:
    """The image, or a box of it at `mpp`, as `source` says: path, name, mpp, box, and the most `pixels`."""
    from clearfold.images import open_slide, read_image
    from clearfold.images.reading import kind_of

    path, name, most = Path(source["path"]), source["name"], source["pixels"]
    try:
        if source.get("box") is None:
            if kind_of(path) is None:
                raise Unusable(415, f"{name} is not an image that can be read. Wanted is a PNG, JPEG or TIFF.")
            return replace(read_image(path, mpp=source.get("mpp"), max_pixels=most), name=name)
        box = source["box"]
        with open_slide(path, mpp=source.get("mpp")) as slide:
            wanted = mpp if slide.mpp is not None else None
            scale = wanted / slide.mpp if wanted is not None and slide.mpp is not None else 1.0
            if box["width"] * box["height"] / scale**2 > source["measured"]:
                raise Unusable(413, f"The box has more than {source['measured']:,} pixels. Draw a smaller one.")
            found = slide.read(box["x"], box["y"], box["width"], box["height"], mpp=wanted)
            return replace(found, name=name)
    except ImageError as error:
        text = str(error).replace(f"{path}: ", "").replace(str(path), name)
        if " pixels, more than the " in text:
            text = text.split(". ")[0]
            raise Unusable(413, f"{name}: {text}. Cut it into smaller images, or open it as a slide.") from error
        raise Unusable(422, f"{name}: {text}") from error


def _extract(image: Any, settings: dict[str, Any], feature: str | None = None) -> Any:
    """Measured as the archive's images were; only the family of one feature, if one is named."""
    from clearfold.features.extraction import extract
    from clearfold.retrieval.asking import at_scale

    if settings.get("mpp") is not None and image.mpp is None:
        raise Unusable(
            422,
            f"{image.name} does not say how many micrometres a pixel has; the archive's images have "
            f"{settings['mpp']:g}. Say it in the field “µm per pixel” (mpp), then it is brought to the same scale.",
        )
    options = dict(settings.get("extraction") or {})
    if feature is not None:
        family = feature.split(".")[0]
        if family not in _families():
            raise Unusable(422, f"{feature} is not measured from images by clearfold: there is no map of it.")
        options["families"] = [family]
    found = extract(at_scale(image, settings.get("mpp")), **options)
    if feature is not None and feature not in found:
        raise Unusable(422, f"{feature} is not measured from images by clearfold: there is no map of it.")
    return found


def _families() -> tuple[str, ...]:
    from clearfold.features.extraction import FAMILIES

    return FAMILIES


def _column(feature: str, columns: list[str]) -> str | None:
    """shape.nucleus.area.mean -> shape.area: what a feature summarises, where each nucleus has it."""
    parts = [part for part in feature.split(".")[:-1] if part != "nucleus"]
    return next((name for name in (".".join(parts), feature) if name in columns), None)


def _polygon(ring: Any, value: float) -> dict[str, Any]:
    points = ring.tolist()
    return {
        "type": "Feature",
        "geometry": {"type": "Polygon", "coordinates": [[*points, points[0]]]},
        "properties": {"value": value},
    }


def _cells(area: dict[str, float], side: float) -> tuple[list[tuple[float, float, float, float]], float]:
    """Squares that cover an area, at most MOST_TILES; their side is doubled until that is so."""
    while -(-area["width"] // side) * -(-area["height"] // side) > MOST_TILES:
        side *= 2
    return [
        (x, y, min(side, area["x"] + area["width"] - x), min(side, area["y"] + area["height"] - y))
        for y in np.arange(area["y"], area["y"] + area["height"], side).tolist()
        for x in np.arange(area["x"], area["x"] + area["width"], side).tolist()
    ], side


def as_jpeg(pixels: Any, most: int) -> bytes:
    """A JPEG whose longer side has at most so many pixels."""
    from PIL import Image

    picture = Image.fromarray(pixels)
    picture.thumbnail((most, most))
    data = io.BytesIO()
    picture.save(data, "JPEG", quality=88)
    return data.getvalue()
