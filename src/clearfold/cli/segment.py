"""`clearfold segment`: nuclei or glands of images and slides, as GeoJSON."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clearfold.cli.console import progress_bar, recorded, show, stderr
from clearfold.errors import ClearfoldError, InputError

if TYPE_CHECKING:
    import pandas as pd
    from rich.progress import Progress

    from clearfold.images import Slide, Tile
    from clearfold.objects import Objects

IMAGES = (
    ".png",
    ".jpg",
    ".jpeg",
    ".tif",
    ".tiff",
    ".svs",
    ".ndpi",
    ".mrxs",
    ".scn",
    ".vms",
    ".vmu",
    ".bif",
    ".svslide",
)
OUTPUTS, PICTURES = (".geojson", ".json", ".png", ".tif", ".tiff", ".npy"), (".png", ".svg", ".pdf")
WHOLE = 3000
"""Images of at most this many pixels a side are segmented at once, larger ones in tiles."""


class Kind(StrEnum):
    """What to look for."""

    nucleus = "nucleus"
    gland = "gland"


# Pixels of a tile, its margin, micrometres a pixel: a margin holds the largest object that a tile's core cuts.
TILES = {Kind.nucleus: (1024, 48, 0.5), Kind.gland: (1536, 512, 1.0)}


@dataclass
class Found:
    """What is remembered of all objects of an image: enough to say how many and how large."""

    areas: list[float] = field(default_factory=list)
    unit: str = "px"
    tiles: list[dict[str, float]] = field(default_factory=list)

    def add(self, objects: Objects) -> None:
        """Areas, in um2 where the scale is known."""
        self.unit = "px" if objects.mpp is None else "um"
        self.areas.extend((objects.areas * (objects.mpp or 1.0) ** 2).tolist())

    def facts(self) -> dict[str, Any]:
        """How many, and the diameter of a disk of the same area."""
        sizes = [2 * math.sqrt(area / math.pi) for area in self.areas]
        median = round(statistics.median(sizes), 3) if sizes else None
        return {"objects": len(sizes), f"median diameter ({self.unit})": median}


def segment(
    images: Annotated[list[Path], typer.Argument(help="Image or slide; several; or a folder of them.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="GeoJSON or a label mask (.png, .tif); a folder for several images."),
    ] = None,
    mpp: Annotated[float | None, typer.Option(help="Micrometres a pixel; wins over what the file says.")] = None,
    kind: Annotated[Kind, typer.Option(help="What to look for.")] = Kind.nucleus,
    overlay: Annotated[
        Path | None, typer.Option(help="Picture of the outlines (.png, .svg, .pdf); a folder for several images.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what happened as JSON.")] = False,
) -> None:
    """Find nuclei or glands in images and slides, and write their outlines for QuPath and `clearfold extract`.

    A slide is worked through in tiles and never loaded whole. An image that cannot be read is named at the end and
    does not stop the others: the exit code is then 1, and 2 when nothing could be done.

    Examples:

    - `clearfold segment patch.png -o nuclei.geojson --mpp 0.5 --overlay overlay.png`
    - `clearfold segment images/ -o nuclei/ --mpp 0.25`
    - `clearfold segment slide.svs -o nuclei.geojson`
    """
    paths = image_paths(images)
    targets = output_paths(paths, output or Path("."), OUTPUTS, several=len(paths) > 1 or _is_folder(images))
    pictures = {} if overlay is None else output_paths(paths, overlay, PICTURES, len(paths) > 1 or _is_folder(images))
    results: dict[str, dict[str, Any]] = {}
    failed: dict[str, str] = {}
    with recorded() as notes, progress_bar() as bar:
        task = bar.add_task("images", total=len(paths))
        for path in paths:
            try:
                found = segment_file(path, targets[path], mpp, kind, pictures.get(path), bar)
            except (ClearfoldError, MemoryError) as error:
                failed[str(path)] = str(error) or type(error).__name__
            else:
                files = [str(file) for file in (targets[path], pictures.get(path)) if file]
                results[str(path)] = found.facts() | {"files": files}
            bar.advance(task)
    _say(results, failed, notes, as_json)
    if failed:
        raise typer.Exit(1 if results else 2)


def _is_folder(images: list[Path]) -> bool:
    return len(images) == 1 and images[0].is_dir()


def image_paths(images: list[Path]) -> list[Path]:
    """The images that were named, and those in folders that were."""
    found: list[Path] = []
    for path in images:
        if path.is_dir():
            inside = sorted(file for file in path.iterdir() if file.suffix.lower() in IMAGES and file.is_file())
            if not inside:
                raise InputError(f"The folder {path} holds no image. Wanted is one of {', '.join(IMAGES)}.")
            found.extend(inside)
        else:
            found.append(path)
    return list(dict.fromkeys(found))


def output_paths(paths: list[Path], output: Path, suffixes: tuple[str, ...], several: bool) -> dict[Path, Path]:
    """Where the result of each image goes: one file, or a file of the image's name in a folder."""
    if not several and output.suffix.lower() in suffixes:
        if output.resolve() == paths[0].resolve():
            raise InputError(f"{output} is the image itself. Give another name to write to.")
        return {paths[0]: output}
    if output.suffix.lower() in suffixes:
        raise InputError(f"{len(paths)} images need a folder to write to, and {output} is a file. Give a folder.")
    if not output.is_dir() and (output.exists() or (output.suffix and not several)):
        raise InputError(f"{output} has no known suffix. Wanted is {', '.join(suffixes)}, or a folder.")
    folder = {path: output / f"{path.stem}{suffixes[0]}" for path in paths}
    if len(set(folder.values())) < len(folder):
        folder = {path: output / f"{path.name}{suffixes[0]}" for path in paths}
    if len(set(folder.values())) < len(folder) or {*folder.values()} & {*paths}:
        raise InputError("Two images would write to one file. Segment their folders one after the other.")
    output.mkdir(parents=True, exist_ok=True)
    return folder


def segment_file(path: Path, target: Path, mpp: float | None, kind: Kind, picture: Path | None, bar: Progress) -> Found:
    """One image or slide: outlines written, a picture if wanted."""
    from clearfold.images import open_slide

    with open_slide(path, mpp=mpp) as slide:
        if max(slide.size) <= WHOLE:
            return _whole_image(slide, target, kind, picture)
        return _in_tiles(slide, target, kind, picture, bar)


def segmenter(kind: Kind) -> Callable[..., Objects]:
    """The built-in for nuclei or for glands."""
    from clearfold.objects import segment_glands, segment_nuclei

    return segment_nuclei if kind is Kind.nucleus else segment_glands


def _whole_image(slide: Slide, target: Path, kind: Kind, picture: Path | None) -> Found:
    from clearfold.objects import write_objects
    from clearfold.plot.files import save
    from clearfold.plot.overlay import overlay

    image = slide.read(0, 0, *slide.size)
    objects, found = segmenter(kind)(image), Found()
    found.add(objects)
    write_objects(objects, target)
    if picture is not None:
        save(overlay(image, objects), picture)
    return found


def _in_tiles(slide: Slide, target: Path, kind: Kind, picture: Path | None, bar: Progress) -> Found:
    """Features are written as tiles are done; an object belongs to the tile whose core holds its centre."""
    import pandas as pd

    from clearfold.objects.geojson import write_features
    from clearfold.plot.files import save
    from clearfold.plot.overlay import heat_map
    from clearfold.table import atomic_write

    if target.suffix.lower() not in (".geojson", ".json"):
        raise InputError(f"{slide.path} is worked through in tiles, which give GeoJSON, not {target.name}.")
    found = Found()
    with atomic_write(target) as temporary, temporary.open("w", encoding="utf-8") as file:
        write_features(file, _tile_features(slide, kind, found, bar), slide.mpp, kind.value)
    if picture is not None:
        tiles = pd.DataFrame(found.tiles, columns=["x", "y", "width", "height", "objects"])
        save(heat_map(slide.thumbnail(1600), _dense(tiles), "objects a megapixel", size=slide.size), picture)
    return found


def _dense(tiles: pd.DataFrame) -> pd.DataFrame:
    return tiles.assign(**{"objects a megapixel": 1e6 * tiles["objects"] / (tiles["width"] * tiles["height"])})


def _tile_features(slide: Slide, kind: Kind, found: Found, bar: Progress) -> Iterator[dict[str, Any]]:
    from clearfold.objects.geojson import features

    size, margin, wanted = TILES[kind]
    scale = None if slide.mpp is None else max(wanted, slide.mpp)
    task = bar.add_task(slide.name, total=slide.count_tiles(size, mpp=scale, margin=margin))
    for tile in slide.tiles(size, mpp=scale, margin=margin):
        objects = in_core(segmenter(kind)(tile.image), tile)
        found.add(objects)
        found.tiles.append(
            {"x": tile.x, "y": tile.y, "width": tile.width, "height": tile.height, "objects": len(objects)}
        )
        step = tile.width / (tile.image.size[0] - 2 * margin)
        yield from features(objects, (tile.x - margin * step, tile.y - margin * step), step)
        bar.advance(task)
    bar.remove_task(task)


def in_core(objects: Objects, tile: Tile) -> Objects:
    """The objects whose centre lies in the tile without its margin: each belongs to exactly one tile."""
    width, height = (length - 2 * tile.margin for length in tile.image.size)
    x, y = objects.centroids.T - tile.margin + 0.5
    return objects.select((x >= 0) & (x < width) & (y >= 0) & (y < height))


def _say(results: dict[str, dict[str, Any]], failed: dict[str, str], notes: list[str], as_json: bool) -> None:
    for name, reason in failed.items():
        stderr().print(f"could not do {name}: {reason}", style="red", soft_wrap=True, markup=False, highlight=False)
    if as_json:
        print(json.dumps({"images": results, "failed": failed, "warnings": notes}, indent=2))
    elif len(results) == 1:
        show(next(iter(results.values())))
    elif results:
        counts = {Path(name).name: facts["objects"] for name, facts in results.items()}
        show({"images": len(results), "could not be done": len(failed) or None, "objects": sum(counts.values())})
        show(counts)
