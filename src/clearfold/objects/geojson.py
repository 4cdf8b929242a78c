"""Outlines in files: GeoJSON as QuPath and StarDist have it, JSON of HoVer-Net; GeoJSON that QuPath opens."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from clearfold.errors import ObjectsError
from clearfold.objects.collection import KINDS, Contour, Kind, Objects, checked_mpp, extra
from clearfold.objects.polygons import Polygons

MAX_BYTES = 2_000_000_000
MAX_VERTICES = 100_000_000
WANTED = "Wanted is GeoJSON with polygons (QuPath: File > Export objects as GeoJSON) or the JSON of HoVer-Net."


def read_polygons(path: str | os.PathLike[str], *, mpp: float | None = None) -> Polygons:
    """Every polygon of a GeoJSON (QuPath, StarDist) or HoVer-Net file, with its class.

    All parts of a multipolygon are one object and holes stay holes. A cell of QuPath gives its nucleus. Annotations
    are left out when there are detections or cells beside them: they are the regions in which those were sought.
    Points and lines are left out. `mpp` wins over what the file says.
    """
    path = Path(path)
    content = _parsed(path)
    try:
        if isinstance(content, dict) and isinstance(content.get("nuc"), dict):
            return _hovernet(content, checked_mpp(mpp))
        return _geojson(content, checked_mpp(mpp))
    except ObjectsError as error:
        raise ObjectsError(f"{path.name}: {error}") from error


def _parsed(path: Path) -> Any:
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise ObjectsError(f"{path.name} has {size / 1e9:.1f} GB; wanted are at most {MAX_BYTES / 1e9:.0f} GB.")
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ObjectsError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:
        raise ObjectsError(f"{path.name} is not JSON, or is cut short ({error}). {WANTED}") from error


# GeoJSON ---------------------------------------------------------------------------------------------------


def _geojson(content: Any, mpp: float | None) -> Polygons:
    about = content.get("clearfold") if isinstance(content, dict) else None
    about = about if isinstance(about, dict) else {}
    features = _features(content)
    types = [_properties(feature).get("objectType") for feature in features]
    if {"detection", "cell"} & {kind for kind in types if isinstance(kind, str)}:
        features = [feature for feature, kind in zip(features, types, strict=True) if kind != "annotation"]
    rings, classes = [], []
    for number, feature in enumerate(features, start=1):
        own = _geometry_rings(feature.get("nucleusGeometry") or feature.get("geometry", feature), number)
        if own:
            rings.append(own)
            classes.append(_class_name(_properties(feature)))
    if features and not rings:
        raise ObjectsError(f"none of {len(features)} features is a polygon. {WANTED}")
    kind: Kind = "gland" if about.get("kind") == KINDS[1] else "nucleus"
    scale = mpp if mpp is not None or "mpp" not in about else checked_mpp(about["mpp"])
    return _bounded(Polygons(rings, tuple(classes) if any(classes) else None, scale, kind))


def _features(content: Any) -> list[dict[str, Any]]:
    """Features of a FeatureCollection, of a plain list, or one feature or geometry alone."""
    if isinstance(content, dict):
        content = content.get("features") if content.get("type") == "FeatureCollection" else [content]
    if not isinstance(content, list) or not all(isinstance(item, dict) and "type" in item for item in content):
        raise ObjectsError(f"this is JSON, but not GeoJSON. {WANTED}")
    return content


def _properties(feature: dict[str, Any]) -> dict[str, Any]:
    found = feature.get("properties")
    return found if isinstance(found, dict) else {}


def _class_name(properties: dict[str, Any]) -> str:
    """QuPath writes {"name": ...} or {"names": [...]}; others a word."""
    found = properties.get("classification")
    if isinstance(found, dict):
        names = found.get("names")
        found = found.get("name") or ": ".join(map(str, names if isinstance(names, list) else ()))
    return str(found) if found else ""


def _geometry_rings(geometry: Any, number: int) -> list[Contour]:
    """All rings of a polygon, a multipolygon or a collection; none of points and lines."""
    if not isinstance(geometry, dict):
        return []
    kind, parts = geometry.get("type"), geometry.get("coordinates")
    if kind == "GeometryCollection":
        inner = geometry.get("geometries")
        flat = [item for item in inner if isinstance(item, dict)] if isinstance(inner, list) else []
        return [ring for item in flat if item.get("type") != kind for ring in _geometry_rings(item, number)]
    if kind not in ("Polygon", "MultiPolygon"):
        return []
    polygons = parts if kind == "MultiPolygon" else [parts]
    if not isinstance(polygons, list) or not all(isinstance(polygon, list) for polygon in polygons):
        raise ObjectsError(f"feature {number} is a {kind} whose coordinates are not lists of rings.")
    rings = [_ring(ring, f"feature {number}") for polygon in polygons for ring in polygon]
    return [ring for ring in rings if len(ring) >= 3]


def _ring(points: Any, name: str) -> Contour:
    """[k, 2]; the repeated first point stays, which changes nothing."""
    try:
        ring = np.array([point[:2] for point in points], dtype=np.float64)
    except (TypeError, ValueError, IndexError, KeyError, OverflowError) as error:
        raise ObjectsError(f"{name} has a ring that is not a list of points x, y.") from error
    if ring.size == 0:
        return np.empty((0, 2))
    if ring.ndim != 2 or ring.shape[1] != 2:
        raise ObjectsError(f"{name} has a ring that is not a list of points x, y.")
    if not np.isfinite(ring).all() or np.abs(ring).max() > 1e9:
        raise ObjectsError(f"{name} has a coordinate that is NaN, infinite or beyond a billion pixels.")
    return ring


def _bounded(polygons: Polygons) -> Polygons:
    count = sum(len(ring) for rings in polygons.rings for ring in rings)
    if count > MAX_VERTICES:
        raise ObjectsError(f"there are {count:,} points; wanted are at most {MAX_VERTICES:,}. Split the file.")
    return polygons


# HoVer-Net -------------------------------------------------------------------------------------------------


def _hovernet(content: dict[str, Any], mpp: float | None) -> Polygons:
    """{"mag": 40, "nuc": {id: {"contour": [[x, y], ...], "type": 1}}}; the contour is of its pixels."""
    magnification = content.get("mag")
    if mpp is None and isinstance(magnification, int | float) and magnification > 0:
        mpp = 10 / magnification
    rings, classes = [], []
    for name, nucleus in content["nuc"].items():
        if not isinstance(nucleus, dict) or "contour" not in nucleus:
            raise ObjectsError(f"nucleus {name} has no contour. {WANTED}")
        points = _ring(nucleus["contour"], f"nucleus {name}")
        if len(points):
            rings.append(_around_pixels(points))
            classes.append("" if nucleus.get("type") is None else str(nucleus["type"]))
    return _bounded(Polygons(rings, tuple(classes) if any(classes) else None, mpp))


def _around_pixels(points: Contour) -> list[Contour]:
    """Rings around a path through the centres of outer pixels, half a pixel outside of it; corner coordinates."""
    shapely = extra("shapely")
    path = np.vstack([points, points[:1]]) + 0.5
    grown = shapely.buffer(shapely.LineString(path), 0.5, quad_segs=2)
    if len(points) > 2:
        grown = shapely.union(grown, shapely.make_valid(shapely.Polygon(path)))
    outer = [part.exterior for part in shapely.get_parts(grown) if part.geom_type == "Polygon"]
    return [shapely.get_coordinates(ring) for ring in outer]


# Writing ---------------------------------------------------------------------------------------------------


def features(objects: Objects, offset: tuple[float, float] = (0, 0), scale: float = 1.0) -> Iterator[dict[str, Any]]:
    """A GeoJSON feature for each object; pixel p of the image lies at offset + p scale in the file."""
    kind = "detection" if objects.kind == "nucleus" else "annotation"
    for number, rings in enumerate(objects.rings):
        properties: dict[str, Any] = {"objectType": kind}
        if objects.classes is not None and objects.classes[number]:
            properties["classification"] = {"name": objects.classes[number]}
        placed = [(ring + 0.5) * scale + offset for ring in rings]
        yield {"type": "Feature", "geometry": _geometry(placed), "properties": properties}


def _geometry(rings: Sequence[Contour]) -> dict[str, Any]:
    """Polygon, or MultiPolygon of an object in pieces; the outer ring is the largest, holes turn the other way."""
    sizes = np.array([_turning(ring) for ring in rings])
    outward = np.sign(sizes) == np.sign(sizes[np.argmax(np.abs(sizes))])
    polygons = {i: [rings[i]] for i in range(len(rings)) if outward[i]}
    for i in np.flatnonzero(~outward).tolist():
        polygons[_home(rings, i, list(polygons), sizes)].append(rings[i])
    coordinates = [[np.round(ring, 3).tolist() for ring in own] for own in polygons.values()]
    if len(coordinates) == 1:
        return {"type": "Polygon", "coordinates": coordinates[0]}
    return {"type": "MultiPolygon", "coordinates": coordinates}


def _home(rings: Sequence[Contour], hole: int, outer: list[int], sizes: np.ndarray) -> int:
    """The smallest outer ring whose box holds the hole."""
    low, high = rings[hole].min(axis=0), rings[hole].max(axis=0)
    around = [i for i in outer if (rings[i].min(axis=0) <= low).all() and (rings[i].max(axis=0) >= high).all()]
    return min(around or outer, key=lambda i: abs(sizes[i]))


def _turning(ring: Contour) -> float:
    x, y = ring.T
    return float(x[:-1] @ y[1:] - x[1:] @ y[:-1]) / 2


def write_features(file: IO[str], found: Iterable[dict[str, Any]], mpp: float | None, kind: Kind) -> int:
    """A FeatureCollection, one feature a line as they come; gives back how many."""
    about = json.dumps({"mpp": mpp, "kind": kind} if mpp is not None else {"kind": kind})
    file.write(f'{{"type": "FeatureCollection", "clearfold": {about}, "features": [')
    count = 0
    for count, feature in enumerate(found, start=1):
        file.write(("\n" if count == 1 else ",\n") + json.dumps(feature, separators=(",", ":")))
    file.write("\n]}\n")
    return count
