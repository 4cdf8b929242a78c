"""Slides to look at: files of the allowed folders and images of stored cases, in tiles as Deep Zoom cuts them."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearfold.errors import ImageError
from clearfold.web.answers import Refused
from clearfold.web.library import NAMED_BY
from clearfold.web.tasks.images import as_jpeg

if TYPE_CHECKING:
    from clearfold.archive import Case
    from clearfold.images import Slide
    from clearfold.web.library import Library

TILE = 256
OPEN = 8
"""Slides that stay open."""
LISTED = 1000
UNNAMED = (OSError, ValueError, RuntimeError)
"""What a path raises whose name no file can have, or whose links go round."""
SUFFIXES = {
    *(".svs", ".ndpi", ".mrxs", ".scn", ".bif", ".vms", ".vmu", ".svslide", ".tif", ".tiff", ".png", ".jpg", ".jpeg")
}


class Slides:
    """Opens what may be opened, and keeps the latest few open.

    An id is `file:` and a path inside one of the folders, or `case:` and the id of a case.
    """

    def __init__(self, library: Library) -> None:
        self._library = library
        self._open: OrderedDict[Path, tuple[Slide, float | None]] = OrderedDict()
        self._lock = threading.Lock()

    def close(self) -> None:
        """Let go of every slide."""
        with self._lock:
            for slide, _ in self._open.values():
                slide.close()
            self._open.clear()

    def listed(self) -> dict[str, Any]:
        """The first slides of the folders."""
        found = []
        for folder in self._library.settings.slides:
            for path in sorted(folder.rglob("*")):
                if path.suffix.lower() in SUFFIXES and path.is_file():
                    name = path.relative_to(folder).as_posix()
                    found.append({"id": f"file:{name}", "name": name})
                if len(found) > LISTED:
                    return {"slides": found[:LISTED], "more": True}
        return {"slides": found, "more": False}

    def path(self, slide_id: str) -> Path:
        """The file that an id stands for."""
        kind, _, name = slide_id.partition(":")
        if kind == "case":
            path = self.of_case(self._library.case(name))
            if path is None:
                raise Refused(
                    404,
                    f"Case {name!r} has no image file here, only what was measured of it. Images are shown that lie "
                    "beside the archive or in a folder given with --slides.",
                )
            return path
        if kind != "file" or "\0" in name:
            raise Refused(404, f"There is no slide {slide_id[:200]!r}.")
        try:
            places = [(folder, (folder / name).resolve()) for folder in self._library.settings.slides]
            inside = [path for folder, path in places if _holds(folder, path)]
            there = [path for path in inside if path.is_file()]
        except UNNAMED:
            raise Refused(404, f"There is no slide {name[:200]!r}.") from None
        if not inside:
            raise Refused(403, "Only slides inside the folder that was given with --slides can be opened.")
        if not there:
            raise Refused(404, f"There is no slide {name[:200]!r}.")
        return there[0]

    def of_case(self, case: Case) -> Path | None:
        """The image that a case names, beside the archive or in the folders of slides if it has been moved.

        Whoever wrote the archive does not decide what is shown: an image elsewhere needs its folder in `--slides`.
        """
        for column in NAMED_BY:
            named = case.about.get(column)
            if not isinstance(named, str) or Path(named).suffix.lower() not in SUFFIXES or "\0" in named:
                continue
            beside = Path(self._library.where).parent
            folders = [Path(), beside, *self._library.settings.slides]
            places = [folder / named for folder in folders] + [folder / Path(named).name for folder in folders[2:]]
            for path in places:
                if _may_be_shown(path, folders):
                    return path.resolve()
        return None

    def mpp(self, slide_id: str) -> float | None:
        """Micrometres a pixel that were said when a case was added; None where its file has to say them."""
        settings = self._library.archive.settings
        given = slide_id.startswith("case:") and settings.get("mpp_given")
        return settings.get("mpp") if given else None

    def facts(self, slide_id: str) -> dict[str, Any]:
        """Size, scale and levels: level 0 is one pixel, each level doubles, the last is the slide itself."""
        slide, mpp = self._opened(self.path(slide_id))
        width, height = slide.size
        kind, _, name = slide_id.partition(":")
        case = self._library.case(name) if kind == "case" else None
        return {
            "id": slide_id,
            "name": name,
            "width": width,
            "height": height,
            "mpp": self.mpp(slide_id) or mpp,
            "tile": TILE,
            "levels": _levels(width, height),
            "case": None if case is None else case.case_id,
            "patient_id": None if case is None else case.patient_id,
        }

    def tile(self, slide_id: str, level: int, column: int, row: int) -> bytes:
        """One tile as JPEG; those at the right and the bottom are smaller."""
        slide, _ = self._opened(self.path(slide_id))
        width, height = slide.size
        if not 0 <= level < _levels(width, height):
            raise Refused(404, f"There is no level {level}; there are {_levels(width, height)}.")
        scale = 2.0 ** (_levels(width, height) - 1 - level)
        across, down = math.ceil(width / scale), math.ceil(height / scale)
        x, y = column * TILE, row * TILE
        if column < 0 or row < 0 or x >= across or y >= down:
            raise Refused(404, f"There is no tile {column}, {row} on level {level}.")
        size = min(TILE, across - x) * scale, min(TILE, down - y) * scale
        return as_jpeg(slide.read(x * scale, y * scale, *size, mpp=scale).pixels, TILE)

    def thumbnail(self, slide_id: str, most: int) -> bytes:
        """The whole slide as JPEG."""
        return self.picture(self.path(slide_id), most)

    def picture(self, path: Path, most: int) -> bytes:
        """A file as JPEG, at most so large."""
        slide, _ = self._opened(path)
        return as_jpeg(slide.thumbnail(most).pixels, most)

    def _opened(self, path: Path) -> tuple[Slide, float | None]:
        """A slide whose scale is counted in pixels of its full size, and its true micrometres a pixel."""
        from clearfold.images import open_slide

        with self._lock:
            if path in self._open:
                self._open.move_to_end(path)
                return self._open[path]
        try:
            with open_slide(path) as true:
                mpp = true.mpp
            found = open_slide(path, mpp=1.0), mpp
        except ImageError as error:
            raise Refused(
                415, f"{path.name} cannot be opened as a slide: {str(error).replace(str(path), path.name)}"
            ) from error
        with self._lock:
            self._open[path] = found
            while len(self._open) > OPEN:
                self._open.popitem(last=False)  # not closed here: another thread may still read it
        return found


def _levels(width: int, height: int) -> int:
    return math.ceil(math.log2(max(width, height, 1))) + 1


def _may_be_shown(path: Path, folders: list[Path]) -> bool:
    """Whether there is such a file, and it lies, links followed, in one of the folders."""
    try:
        return path.is_file() and any(_holds(folder, path.resolve()) for folder in folders)
    except UNNAMED:
        return False


def _holds(folder: Path, path: Path) -> bool:
    return path.is_relative_to(folder.resolve())
