"""Any image becomes RGB in 8 bits or an error that names the file; slides give the right pixels in bounded memory."""

import io
import pickle
import struct
import subprocess
import sys
import warnings
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image as Pillow

from clearfold.errors import ImageError, InputError, InputTypeError, MissingExtraError
from clearfold.images import (
    Image,
    Slide,
    as_image,
    open_slide,
    read_image,
    resampling,
    separate_stains,
    tissue_mask,
    white_balance,
)
from clearfold.images.stain import DENSITY, FIXED

tifffile = pytest.importorskip("tifffile")
pyvips = pytest.importorskip("pyvips")

colours = arrays.arrays(np.uint8, st.tuples(st.integers(1, 9), st.integers(1, 9), st.just(3)))
quick = settings(max_examples=40, deadline=None)


def noise(*shape: int, dtype: Any = np.uint8, below: int = 256, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, below, shape).astype(dtype)


def tissue(height: int, width: int, seed: int = 0) -> np.ndarray:
    """White glass with a pink disc in its middle, with texture."""
    y, x = np.mgrid[:height, :width]
    inside = (y - height / 2) ** 2 + (x - width / 2) ** 2 < (min(height, width) / 3) ** 2
    pixels = np.full((height, width, 3), 245, np.uint8)
    pixels[inside] = np.array((200, 120, 170)) + np.random.default_rng(seed).integers(-30, 31, (inside.sum(), 3))
    return pixels


def png_of_size(width: int, height: int) -> bytes:
    """A header that promises much, and next to nothing behind it."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b"\0" * 1000))
        + chunk(b"IEND", b"")
    )


# --- pixels of every kind


@quick
@given(colours)
def test_colours_come_back_as_they_went(tmp_path_factory: pytest.TempPathFactory, pixels: np.ndarray) -> None:
    folder = tmp_path_factory.mktemp("same")
    Pillow.fromarray(pixels).save(folder / "a.png")
    Pillow.fromarray(pixels).save(folder / "lzw.tif", compression="tiff_lzw")
    tifffile.imwrite(folder / "a.tif", pixels, photometric="rgb", compression="zlib")
    planes = np.moveaxis(pixels, 2, 0)
    tifffile.imwrite(folder / "planes.tif", planes, photometric="rgb", planarconfig="separate", metadata=None)
    for path in sorted(folder.iterdir()):
        np.testing.assert_array_equal(read_image(path).pixels, pixels, err_msg=path.name)
        with open_slide(path) as slide:
            np.testing.assert_array_equal(slide.read(0, 0, *slide.size).pixels, pixels, err_msg=path.name)


@quick
@given(arrays.arrays(np.uint8, st.tuples(st.integers(1, 9), st.integers(1, 9), st.just(4))))
def test_alpha_is_laid_over_white(pixels: np.ndarray) -> None:
    alpha = pixels[:, :, 3:] / 255
    expected = np.rint(pixels[:, :, :3] * alpha + 255 * (1 - alpha))
    for given_as in (pixels, Pillow.fromarray(pixels)):
        assert np.abs(as_image(given_as).pixels - expected).max() <= 1
    grey = as_image(pixels[:, :, 2:]).pixels
    np.testing.assert_array_equal(grey[:, :, 0], as_image(pixels[:, :, [2, 2, 2, 3]]).pixels[:, :, 0])


def test_further_channels_are_alpha_only_where_the_file_says_so(tmp_path: Path) -> None:
    pixels = np.full((4, 5, 4), 100, np.uint8)
    expected = {"unspecified": 100, "unassalpha": 255 - round(155 * 100 / 255), "assocalpha": 255}
    for kind, level in expected.items():
        tifffile.imwrite(tmp_path / "a.tif", pixels, photometric="rgb", extrasamples=[kind])
        assert set(read_image(tmp_path / "a.tif").pixels.ravel()) == {level}, kind


@quick
@given(arrays.arrays(np.uint16, (4, 5, 3)))
def test_sixteen_bits_are_divided_by_257(tmp_path_factory: pytest.TempPathFactory, pixels: np.ndarray) -> None:
    folder = tmp_path_factory.mktemp("deep")
    pixels[0, 0] = 65535  # says that all 16 bits are used
    image = pyvips.Image.new_from_array(pixels).copy(interpretation="rgb16")
    image.write_to_file(str(folder / "a.png"))
    image.write_to_file(str(folder / "lzw.tif[compression=lzw]"))
    tifffile.imwrite(folder / "a.tif", pixels, photometric="rgb")
    Pillow.fromarray(pixels[:, :, 0]).save(folder / "grey.png")
    for path in sorted(folder.iterdir()):
        expected = pixels[:, :, :1] if path.name == "grey.png" else pixels
        np.testing.assert_array_equal(read_image(path).pixels, np.broadcast_to(np.rint(expected / 257), (4, 5, 3)))


@pytest.mark.parametrize(("bits", "top"), [(8, 255), (12, 4095), (16, 65535)])
def test_fewer_bits_in_sixteen_are_scaled_by_the_range_in_use(tmp_path: Path, bits: int, top: int) -> None:
    pixels = noise(20, 30, 3, dtype=np.uint16, below=top + 1)
    pixels[0, 0] = top
    tifffile.imwrite(tmp_path / "a.tif", pixels, photometric="rgb")
    pyvips.Image.new_from_array(pixels).copy(interpretation="rgb16").write_to_file(str(tmp_path / "a.png"))
    for name in ("a.tif", "a.png"):
        assert np.abs(read_image(tmp_path / name).pixels - pixels * (255 / top)).max() <= 0.5 + 1e-9
    with open_slide(tmp_path / "a.tif") as slide:  # one scale for the whole slide, not one for each tile
        assert np.abs(slide.read(5, 5, 2, 2).pixels - pixels[5:7, 5:7] * (255 / top)).max() <= 0.5 + 1e-9


def test_declared_bits_win_over_the_range_in_use(tmp_path: Path) -> None:
    dim = np.full((8, 8, 3), 1000, np.uint16)
    tifffile.imwrite(tmp_path / "a.ome.tif", dim, photometric="rgb", metadata={"axes": "YXS", "SignificantBits": 14})
    assert set(read_image(tmp_path / "a.ome.tif").pixels.ravel()) == {round(1000 * 255 / (2**14 - 1))}


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_floats_are_shares_of_light_or_levels(tmp_path: Path, dtype: Any) -> None:
    pixels = noise(10, 12, 3)
    for factor in (1, 255):
        tifffile.imwrite(tmp_path / "a.tif", (pixels / 255 * factor).astype(dtype), photometric="rgb")
        assert np.abs(read_image(tmp_path / "a.tif").pixels.astype(int) - pixels).max() <= (
            1 if dtype == np.float16 else 0
        )


def test_grey_one_bit_palette_and_cmyk(tmp_path: Path) -> None:
    grey = noise(9, 11)
    black = grey > 100
    colour = Pillow.fromarray(tissue(9, 11))
    pictures = {
        "grey.png": (Pillow.fromarray(grey), np.stack([grey] * 3, axis=2)),
        "grey.tif": (Pillow.fromarray(grey), np.stack([grey] * 3, axis=2)),
        "bit.png": (Pillow.fromarray(black), np.stack([black * 255] * 3, axis=2)),
        "bit.tif": (Pillow.fromarray(black), np.stack([black * 255] * 3, axis=2)),
        "palette.png": (palette := colour.quantize(16), np.asarray(palette.convert("RGB"))),
        "palette.tif": (palette, np.asarray(palette.convert("RGB"))),
        "cmyk.tif": (cmyk := colour.convert("CMYK"), np.asarray(cmyk.convert("RGB"))),
    }
    for name, (picture, expected) in pictures.items():
        picture.save(tmp_path / name)
        np.testing.assert_array_equal(read_image(tmp_path / name).pixels, expected, err_msg=name)
    cmyk.save(tmp_path / "cmyk.jpg", quality=95)
    assert np.abs(read_image(tmp_path / "cmyk.jpg").pixels - np.asarray(cmyk.convert("RGB"), int)).mean() < 8
    tifffile.imwrite(tmp_path / "inverse.tif", grey, photometric="miniswhite")
    np.testing.assert_array_equal(read_image(tmp_path / "inverse.tif").pixels[:, :, 0], 255 - grey)


def test_a_transparent_palette_is_white(tmp_path: Path) -> None:
    picture = Pillow.fromarray(np.zeros((4, 4), np.uint8), mode=None).convert("P")
    picture.save(tmp_path / "a.png", transparency=0)
    assert (read_image(tmp_path / "a.png").pixels == 255).all()


@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_is_respected(tmp_path: Path, orientation: int) -> None:
    pixels = np.kron(noise(3, 4, 3), np.ones((16, 16, 1), np.uint8))
    exif = Pillow.Exif()
    exif[274] = orientation
    Pillow.fromarray(pixels).save(tmp_path / "a.jpg", exif=exif, quality=100, subsampling=0)
    Pillow.fromarray(pixels).save(tmp_path / "a.png", exif=exif)
    Pillow.fromarray(pixels).save(tmp_path / "lzw.tif", compression="tiff_lzw", tiffinfo={274: orientation})
    tifffile.imwrite(tmp_path / "b.tif", pixels, photometric="rgb", extratags=[(274, "H", 1, orientation, True)])
    turns: dict[int, Callable[[np.ndarray], np.ndarray]] = {
        1: lambda a: a, 2: np.fliplr, 3: lambda a: np.rot90(a, 2), 4: np.flipud,
        5: lambda a: np.fliplr(np.rot90(a, -1)), 6: lambda a: np.rot90(a, -1),
        7: lambda a: np.fliplr(np.rot90(a)), 8: np.rot90,
    }  # fmt: skip
    expected = turns[orientation](pixels).astype(int)
    for name in ("a.jpg", "a.png", "lzw.tif", "b.tif"):
        assert np.abs(read_image(tmp_path / name).pixels - expected).max() <= (6 if name == "a.jpg" else 0), name
        with open_slide(tmp_path / name) as slide:
            assert slide.size == expected.shape[1::-1]


@pytest.mark.parametrize("level", [0, 255])
def test_blank_and_black_pass_through(tmp_path: Path, level: int) -> None:
    pixels = np.full((6, 7, 3), level, np.uint8)
    Pillow.fromarray(pixels).save(tmp_path / "a.png")
    tifffile.imwrite(tmp_path / "deep.tif", pixels.astype(np.uint16) * 257, photometric="rgb")
    for name in ("a.png", "deep.tif"):
        np.testing.assert_array_equal(read_image(tmp_path / name).pixels, pixels)
    assert not tissue_mask(pixels).any()
    np.testing.assert_array_equal(white_balance(pixels), pixels)
    stains = separate_stains(pixels)
    assert np.isfinite(stains.hematoxylin).all()
    assert stains.method == "fixed"


# --- what as_image takes


def test_as_image_takes_arrays_pictures_paths_and_images(tmp_path: Path) -> None:
    pixels = tissue(10, 12)
    Pillow.fromarray(pixels).save(tmp_path / "a.png")
    image = Image(pixels, 0.5, "mine")
    for came in (pixels, Pillow.fromarray(pixels), tmp_path / "a.png", str(tmp_path / "a.png"), image, pixels.tolist()):
        np.testing.assert_array_equal(as_image(came).pixels, pixels)
        assert as_image(came, mpp=0.25).mpp == 0.25
    assert as_image(image) is image
    assert as_image(pixels, name="x").name == "x"
    assert as_image(tmp_path / "a.png").name == "a.png"


@pytest.mark.parametrize(
    "wrong",
    [
        np.zeros((3, 5, 7)),
        np.zeros(4),
        np.zeros((0, 4, 3)),
        np.full((2, 2), np.nan),
        np.full((2, 2), -1),
        [[1], [1, 2]],
    ],
)
def test_as_image_refuses_what_is_no_image(wrong: Any) -> None:
    with pytest.raises(ImageError):
        as_image(wrong)


@pytest.mark.parametrize("wrong", [None, 3, {"a": 1}, np.array([["a"]]), np.zeros((2, 2), complex), object()])
def test_as_image_refuses_other_kinds(wrong: Any) -> None:
    with pytest.raises(InputTypeError):
        as_image(wrong)


@pytest.mark.parametrize("mpp", [0, -1, np.nan, np.inf, "0.5", True])
def test_the_users_mpp_is_checked(tmp_path: Path, mpp: Any) -> None:
    with pytest.raises(InputError, match="micrometres a pixel"):
        as_image(np.zeros((2, 2)), mpp=mpp)


# --- bad files


def bad_files(folder: Path) -> dict[str, str]:
    """Files that cannot be read, and a word of what is said of each."""
    pixels = noise(200, 300, 3)
    Pillow.fromarray(pixels).save(folder / "a.png")
    Pillow.fromarray(pixels).save(folder / "a.jpg")
    Pillow.fromarray(pixels).save(folder / "lzw.tif", compression="tiff_lzw")
    tifffile.imwrite(folder / "raw.tif", pixels, photometric="rgb")
    tifffile.imwrite(folder / "tiled.tif", pixels, photometric="rgb", tile=(64, 64), compression="zlib")
    whole = sorted(folder.iterdir())
    wanted = {}
    for path in whole:
        content = path.read_bytes()
        for percent in (1, 50, 97):
            (folder / f"cut{percent}_{path.name}").write_bytes(content[: len(content) * percent // 100])
            wanted[f"cut{percent}_{path.name}"] = "again from its source"
        path.unlink()
    (folder / "text.png").write_text("this is not an image")
    (folder / "empty.png").write_bytes(b"")
    (folder / "folder.png").mkdir()
    (folder / "damaged.png").write_bytes(content[:60] + bytes(500) + content[560:])
    (folder / "only_magic.tif").write_bytes(b"II*\0")
    (folder / "only_magic.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (folder / "only_magic.jpg").write_bytes(b"\xff\xd8\xff")
    (folder / "bomb.png").write_bytes(png_of_size(60_000, 60_000))
    grey = noise(4, 20, 30)
    tifffile.imwrite(folder / "depths.ome.tif", grey, photometric="minisblack", metadata={"axes": "ZYX"})
    tifffile.imwrite(folder / "stains.ome.tif", grey, photometric="minisblack", metadata={"axes": "CYX"})
    tifffile.imwrite(folder / "three.ome.tif", grey[:3], photometric="minisblack", metadata={"axes": "CYX"})
    tifffile.imwrite(folder / "pages.tif", noise(3, 20, 30, 3), photometric="rgb", metadata=None)
    tifffile.imwrite(folder / "complex.tif", np.zeros((4, 5), np.complex64))
    tifffile.imwrite(folder / "nan.tif", np.full((4, 5), np.nan, np.float32))
    tifffile.imwrite(folder / "negative.tif", np.full((4, 5), -7, np.int16))
    return wanted | {
        "text.png": "PNG", "empty.png": "empty", "folder.png": "folder", "missing.png": "no such file",
        "damaged.png": "PNG", "only_magic.tif": "", "only_magic.png": "", "only_magic.jpg": "",
        "bomb.png": "60,000 x 60,000", "depths.ome.tif": "4 depths", "stains.ome.tif": "4 channels",
        "three.ome.tif": "3 channels", "pages.tif": "3 pages", "complex.tif": "complex", "nan.tif": "finite",
        "negative.tif": "negative",
    }  # fmt: skip


def test_bad_files_are_refused_by_name(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for name, word in bad_files(tmp_path).items():
        for opened in (read_image, open_slide, as_image):
            with pytest.raises(ImageError) as caught:
                opened(tmp_path / name)
            assert str(tmp_path / name) in str(caught.value), name
            assert word in str(caught.value), (name, str(caught.value))
    assert not capfd.readouterr().err


def test_a_bomb_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    (tmp_path / "bomb.png").write_bytes(png_of_size(15_000, 15_000))
    with pytest.raises(ImageError, match=r"bomb\.png.*15,000 x 15,000.*max_pixels"):
        read_image(tmp_path / "bomb.png")
    page = tifffile.memmap(tmp_path / "bomb.tif", shape=(64, 64, 3), dtype=np.uint8, photometric="rgb")
    page.flush()
    with tifffile.TiffFile(tmp_path / "bomb.tif", mode="r+") as file:
        for name in ("ImageWidth", "ImageLength"):
            file.pages[0].tags[name].overwrite(60_000)
    with pytest.raises(ImageError, match=r"bomb\.tif.*60,000 x 60,000"):
        read_image(tmp_path / "bomb.tif")
    Pillow.fromarray(noise(20, 20, 3)).save(tmp_path / "a.png")
    with pytest.raises(ImageError, match="more than the 399"):
        read_image(tmp_path / "a.png", max_pixels=399)
    assert read_image(tmp_path / "a.png", max_pixels=400).size == (20, 20)


def test_pillows_own_limit_neither_warns_nor_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Pillow.fromarray(noise(20, 20, 3)).save(tmp_path / "a.png")
    monkeypatch.setattr(Pillow, "MAX_IMAGE_PIXELS", 10)
    assert read_image(tmp_path / "a.png").size == (20, 20)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(["png", "jpg", "tif"]), st.integers(0, 10**6), st.integers(0, 255), st.booleans())
def test_any_changed_byte_gives_an_image_or_our_error(
    tmp_path_factory: pytest.TempPathFactory, kind: str, place: int, byte: int, header: bool
) -> None:
    buffer = io.BytesIO()
    Pillow.fromarray(tissue(12, 10)).save(buffer, {"png": "PNG", "jpg": "JPEG", "tif": "TIFF"}[kind])
    content = bytearray(buffer.getvalue())
    content[place % min(len(content), 120 if header else len(content))] = byte
    path = tmp_path_factory.mktemp("byte") / f"a.{kind}"
    path.write_bytes(content)
    for opened in (lambda: read_image(path, max_pixels=10**6), lambda: open_slide(path).read(0, 0, 9, 9)):
        try:
            pixels, said = opened().pixels, str(path)
        except ImageError as error:
            pixels, said = np.zeros(1, np.uint8), str(error)
        assert pixels.dtype == np.uint8
        assert str(path) in said


@pytest.mark.parametrize("missing", ["tifffile", "openslide"])
def test_missing_extras_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: Path, missing: str) -> None:
    Pillow.fromarray(tissue(9, 9)).save(tmp_path / "a.png")
    monkeypatch.setitem(sys.modules, missing, None)
    assert read_image(tmp_path / "a.png").size == (9, 9)
    assert open_slide(tmp_path / "a.png").size == (9, 9)
    assert separate_stains(tmp_path / "a.png").hematoxylin.shape == (9, 9)
    with pytest.raises(MissingExtraError, match=r'pip install "clearfold\[images\]"'):
        (read_image if missing == "tifffile" else open_slide)(data / "slides" / "TCGA-CR-7395-01A-01-TS1.svs")


# --- micrometres a pixel


def ome(size: float, unit: str | None = None) -> dict[str, Any]:
    units = {} if unit is None else {"PhysicalSizeXUnit": unit, "PhysicalSizeYUnit": unit}
    return {"metadata": {"axes": "YXS", "PhysicalSizeX": size, "PhysicalSizeY": size} | units}


SCALES: dict[str, tuple[dict[str, Any], float | None]] = {
    "cm": ({"resolution": (20_000, 20_000), "resolutionunit": 3}, 0.5),
    "inch": ({"resolution": (101_600, 101_600), "resolutionunit": 2}, 0.25),
    "paper": ({"resolution": (300, 300), "resolutionunit": 2}, None),
    "unitless": ({"resolution": (20_000, 20_000), "resolutionunit": 1}, None),
    "oblong": ({"resolution": (20_000, 10_000), "resolutionunit": 3}, None),
    "aperio": ({"description": "Aperio Image Library\n9x9|AppMag = 20|MPP = 0.4990|Left = 2", "metadata": None}, 0.499),
    "aperio_none": ({"description": "Aperio Image Library\n9x9|AppMag = 20", "metadata": None}, None),
    "micron": ({"description": "ImageJ=1.53\nunit=micron\n", "resolution": (4, 4), "metadata": None}, 0.25),
    "ome_default": (ome(0.5), 0.5),
    "ome_nm": (ome(250, "nm"), 0.25),
    "ome_mm": (ome(1e-3, "mm"), 1.0),
    "ome_zero": (ome(0), None),
    "ome_pixel": (ome(1, "pixel"), None),
    "nothing": ({}, None),
}  # fmt: skip


@pytest.mark.parametrize("name", SCALES)
def test_mpp_comes_from_the_file_or_the_user(tmp_path: Path, name: str) -> None:
    options, expected = SCALES[name]
    path = tmp_path / ("a.ome.tif" if name.startswith("ome") else "a.tif")
    tifffile.imwrite(path, tissue(9, 9), photometric="rgb", **options)
    with open_slide(path) as slide:
        for found in (read_image(path).mpp, slide.mpp):
            assert found == (pytest.approx(expected, rel=1e-6) if expected else None)
    assert read_image(path, mpp=0.7).mpp == 0.7
    assert open_slide(path, mpp=0.7).mpp == 0.7


@pytest.mark.parametrize(("dots", "expected"), [(50_800, 0.5), (72, None), (300, None)])
def test_mpp_of_png_and_jpeg_only_where_a_microscope_can_have_made_it(
    tmp_path: Path, dots: float, expected: float | None
) -> None:
    Pillow.fromarray(tissue(9, 9)).save(tmp_path / "a.png", dpi=(dots, dots))
    Pillow.fromarray(tissue(9, 9)).save(tmp_path / "a.jpg", dpi=(dots, dots))
    for name in ("a.png", "a.jpg"):
        assert read_image(tmp_path / name).mpp == (pytest.approx(expected, rel=1e-3) if expected else None)


# --- slides


def pyramid(path: Path, pixels: np.ndarray, how: str) -> Path:
    """A slide at 0.5 um a pixel with levels that are means of 2 x 2 pixels of the one before."""
    levels = [pixels]
    while min(levels[-1].shape[:2]) >= 64:
        levels.append(np.rint(mean_of(levels[-1], 2)).astype(np.uint8))
    if how == "vips":
        image = pyvips.Image.new_from_array(pixels).copy(interpretation="srgb", xres=2000, yres=2000)
        image.tiffsave(str(path), tile=True, pyramid=True, compression="jpeg", Q=95, tile_width=64, tile_height=64)
        return path
    options: dict[str, Any] = {"photometric": "rgb", "tile": (64, 64), "compression": "zlib"}
    with tifffile.TiffWriter(path, ome=how == "ome") as file:
        if how == "ome":
            scale = {"axes": "YXS", "PhysicalSizeX": 0.5, "PhysicalSizeY": 0.5}
            file.write(levels[0], subifds=len(levels) - 1, metadata=scale, **options)
        else:
            file.write(levels[0], resolution=(20_000, 20_000), resolutionunit=3, metadata=None, **options)
        for level in levels[1:]:
            file.write(level, subfiletype=1, metadata=None, **options)
    return path


@pytest.fixture(params=["vips", "ome", "pages"])
def slide(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    with open_slide(pyramid(tmp_path / "a.ome.tif", smooth(300, 400), request.param)) as opened:
        opened.exact = request.param != "vips"
        yield opened


def smooth(height: int, width: int) -> np.ndarray:
    y, x = np.mgrid[:height, :width]
    waves = [np.sin(x / 23 + c) * np.cos(y / 31 - c) for c in range(3)]
    return np.rint(150 + 80 * np.stack(waves, axis=2)).astype(np.uint8)


def mean_of(pixels: np.ndarray, factor: int) -> np.ndarray:
    height, width = (length // factor * factor for length in pixels.shape[:2])
    blocks = pixels[:height, :width].reshape(height // factor, factor, width // factor, factor, 3)
    return blocks.astype(float).mean(axis=(1, 3))


def test_a_slide_gives_the_pixels_of_the_image(slide: Any) -> None:
    pixels = smooth(300, 400)
    assert slide.size == (400, 300)
    assert slide.mpp == pytest.approx(0.5)
    for x, y, width, height in [(0, 0, 400, 300), (61, 70, 130, 99), (399, 299, 1, 1)]:
        got = slide.read(x, y, width, height)
        assert got.size == (width, height)
        assert np.abs(got.pixels.astype(int) - pixels[y : y + height, x : x + width]).max() <= (0 if slide.exact else 6)


@pytest.mark.parametrize("factor", [2, 4])
def test_a_level_that_fits_is_the_mean_over_the_area(slide: Any, factor: int) -> None:
    got = slide.read(20, 40, 200, 160, mpp=0.5 * factor)
    assert got.size == (200 // factor, 160 // factor)
    assert got.mpp == 0.5 * factor
    expected = mean_of(smooth(300, 400)[40:200, 20:220], factor)
    assert np.abs(got.pixels - expected).max() <= (1.51 if slide.exact else 6)


@pytest.mark.parametrize(("factor", "finer"), [(2, 1), (3, 1), (5, 1), (10, 1), (2.5, 2), (1.25, 4)])
def test_without_levels_a_coarser_resolution_is_exactly_the_mean(tmp_path: Path, factor: float, finer: int) -> None:
    pixels = noise(120, 150, 3)
    Pillow.fromarray(pixels).save(tmp_path / "a.png")
    got = open_slide(tmp_path / "a.png", mpp=0.5).read(10, 20, 120, 60, mpp=0.5 * factor)
    assert got.size == (120 / factor, 60 / factor)
    parts = np.kron(pixels[20:80, 10:130], np.ones((finer, finer, 1), np.uint8))
    assert np.abs(got.pixels - mean_of(parts, int(factor * finer))).max() <= 0.501


def test_blocks_leave_no_seams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Pillow.fromarray(smooth(120, 150)).save(tmp_path / "a.png")
    slide = open_slide(tmp_path / "a.png", mpp=0.5)
    places = [(3, 4, 130, 100, mpp) for mpp in (0.21, 0.5, 0.8, 3.0)]
    whole = [slide.read(*place, mpp=mpp).pixels for *place, mpp in places]
    monkeypatch.setattr(resampling, "BLOCK", 17)
    for (*place, mpp), expected in zip(places, whole, strict=True):
        assert np.abs(slide.read(*place, mpp=mpp).pixels.astype(int) - expected).max() <= 1, mpp
    assert np.abs(slide.thumbnail(2).pixels - mean_of(smooth(120, 150), 75)[:1, :, :]).max() < 60


def test_other_resolutions_have_the_right_size_and_content(slide: Any) -> None:
    pixels = smooth(300, 400)
    for mpp in (0.2, 0.3, 0.5001, 0.7, 1.3, 3.3):
        got = slide.read(40, 40, 240, 200, mpp=mpp)
        assert got.size == (round(240 * 0.5 / mpp), round(200 * 0.5 / mpp))
        rows, columns = (
            40 + (np.arange(n) + 0.5) * length / n for n, length in ((got.size[1], 200), (got.size[0], 240))
        )
        there = pixels[rows.astype(int)][:, columns.astype(int)].astype(int)
        assert np.abs(got.pixels - there).mean() < 3, mpp


def test_outside_of_a_slide_is_white(slide: Any) -> None:
    got = slide.read(-30, -20, 460, 350).pixels.astype(int)
    inside = got[20:320, 30:430]
    assert np.abs(inside - smooth(300, 400)).max() <= (0 if slide.exact else 6)
    got[20:320, 30:430] = 255
    assert (got == 255).all()
    assert (slide.read(1000, 1000, 10, 10, mpp=3.0).pixels == 255).all()


def test_a_damaged_header_never_reaches_openslide(tmp_path: Path) -> None:
    path = pyramid(tmp_path / "a.tif", smooth(100, 100), "vips")
    with tifffile.TiffFile(path, mode="r+") as file:
        for name in ("TileWidth", "TileLength"):
            file.pages[0].tags[name].overwrite(160_000, dtype="I")
    with pytest.raises(ImageError, match=r"a\.tif: .*160,000 x 160,000 pixels"):  # it would end the whole process
        open_slide(path)


def test_tiles_that_were_never_written_are_white(tmp_path: Path) -> None:
    encoded = iter([zlib.compress(bytes(64 * 64 * 3)), b"", b"", zlib.compress(bytes(64 * 64 * 3))])
    options: dict[str, Any] = {"photometric": "rgb", "compression": "zlib", "dtype": np.uint8, "metadata": None}
    tifffile.imwrite(tmp_path / "a.tif", encoded, shape=(128, 128, 3), tile=(64, 64), **options)
    with open_slide(tmp_path / "a.tif") as slide:
        got = slide.read(0, 0, 128, 128).pixels
    assert (got[:64, :64] == 0).all()
    assert (got[:64, 64:] == 255).all()


def test_ome_that_only_openslide_decodes_keeps_its_scale(tmp_path: Path) -> None:
    image = pyvips.Image.new_from_array(smooth(200, 260)).copy(interpretation="srgb", xres=1, yres=1)
    pixels = '<Pixels SizeX="260" SizeY="200" SizeC="3" SizeZ="1" SizeT="1" DimensionOrder="XYCZT" Type="uint8" '
    scale = 'PhysicalSizeX="0.5" PhysicalSizeY="0.5"><Channel SamplesPerPixel="3"/><TiffData/></Pixels>'
    xml = f'<OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06"><Image>{pixels}{scale}</Image></OME>'
    image.set_type(pyvips.GValue.gstr_type, "image-description", xml)
    options: dict[str, Any] = {"tile": True, "pyramid": True, "subifd": True, "tile_width": 64, "tile_height": 64}
    image.tiffsave(str(tmp_path / "a.ome.tif"), compression="lzw", **options)
    with open_slide(tmp_path / "a.ome.tif") as slide:
        assert slide.mpp == 0.5
        np.testing.assert_array_equal(slide.read(10, 20, 100, 90).pixels, smooth(200, 260)[20:110, 10:110])
        assert np.abs(slide.read(0, 0, 260, 200, mpp=1.0).pixels - mean_of(smooth(200, 260), 2)).max() <= 0.51


def test_a_thumbnail_shows_all_and_is_bounded(slide: Any) -> None:
    small = slide.thumbnail(50)
    assert small.size == (50, 38)
    assert small.mpp == pytest.approx(4.0)
    assert np.abs(small.pixels.mean(axis=(0, 1)) - smooth(300, 400).mean(axis=(0, 1))).max() < 2
    assert slide.thumbnail().size == slide.size
    assert slide.thumbnail(1).size == (1, 1)


@quick
@given(
    st.tuples(st.integers(1, 90), st.integers(1, 90)), st.integers(5, 40), st.sampled_from([None, 0.3, 0.5, 0.77, 1.9]),
    st.integers(0, 5),
)  # fmt: skip
def test_tiles_cover_a_slide_exactly_once(
    tmp_path_factory: pytest.TempPathFactory, size: tuple[int, int], length: int, mpp: float | None, margin: int
) -> None:
    path = tmp_path_factory.mktemp("tiles") / "a.png"
    pixels = noise(size[1], size[0], 3)
    Pillow.fromarray(pixels).save(path)
    seen = np.zeros(size[::-1], int)
    slide = open_slide(path, mpp=0.5)
    tiles = list(slide.tiles(length, mpp=mpp, margin=margin, tissue=0))
    for tile in tiles:
        seen[tile.y : tile.y + tile.height, tile.x : tile.x + tile.width] += 1
        across, down = tile.image.size[0] - 2 * margin, tile.image.size[1] - 2 * margin
        assert 1 <= across <= length + 1
        assert 1 <= down <= length + 1
        if mpp is None:
            core = tile.image.pixels[margin : margin + down, margin : margin + across]
            np.testing.assert_array_equal(core, pixels[tile.y : tile.y + tile.height, tile.x : tile.x + tile.width])
    assert (seen == 1).all()
    assert len(tiles) == slide.count_tiles(length, mpp=mpp, margin=margin, tissue=0)
    assert [(tile.y, tile.x) for tile in tiles] == sorted((tile.y, tile.x) for tile in tiles)


def test_a_margin_shows_the_neighbourhood(slide: Any) -> None:
    for mpp in (None, 1.0):
        scale = 1 if mpp is None else 2
        for tile in slide.tiles(64, mpp=mpp, margin=8, tissue=0):
            around = slide.read(
                tile.x - 8 * scale, tile.y - 8 * scale, tile.width + 16 * scale, tile.height + 16 * scale, mpp=mpp
            )
            if tile.width % scale == 0 and tile.height % scale == 0:
                np.testing.assert_array_equal(tile.image.pixels, around.pixels)


def test_only_tiles_with_tissue_are_given(tmp_path: Path) -> None:
    pixels = tissue(400, 400)
    with open_slide(pyramid(tmp_path / "a.tif", pixels, "pages")) as slide:
        all_tiles = list(slide.tiles(50, tissue=0))
        kept = {(tile.x, tile.y) for tile in slide.tiles(50, tissue=0.5)}
        assert slide.count_tiles(50, tissue=0.5) == len(kept)
        for tile in all_tiles:
            share = (np.ptp(tile.image.pixels, axis=2) > 0).mean()
            if abs(share - 0.5) > 0.15:
                assert ((tile.x, tile.y) in kept) == (share > 0.5)


def test_a_slide_survives_threads_processes_and_pickle(slide: Any) -> None:
    places = [(x, y) for x in range(0, 400, 50) for y in range(0, 300, 50)]
    expected = [slide.read(x, y, 60, 60).pixels for x, y in places]
    with ThreadPoolExecutor(4) as pool:
        for got, wanted in zip(pool.map(lambda p: slide.read(*p, 60, 60).pixels, places), expected, strict=True):
            np.testing.assert_array_equal(got, wanted)
    copy = pickle.loads(pickle.dumps(slide))
    np.testing.assert_array_equal(copy.read(0, 0, 60, 60).pixels, expected[0])
    with warnings.catch_warnings():  # forking beside the threads of others is what is tested
        warnings.simplefilter("ignore", DeprecationWarning)
        with get_context("fork").Pool(2) as workers:
            sums = workers.starmap(_sum_at, [(slide, x, y) for x, y in places])
    assert sums == [int(pixels.sum()) for pixels in expected]


def _sum_at(slide: Slide, x: int, y: int) -> int:
    return int(slide.read(x, y, 60, 60).pixels.sum())


def test_real_slides(data: Path) -> None:
    folder = data / "slides"
    with open_slide(folder / "CMU-1-Small-Region.svs") as slide:
        assert slide.size == (2220, 2967)
        assert slide.mpp == pytest.approx(0.499)
        whole = read_image(folder / "CMU-1-Small-Region.svs")
        assert whole.mpp == pytest.approx(0.499)
        assert np.abs(slide.read(700, 900, 500, 400).pixels.astype(int) - whole.pixels[900:1300, 700:1200]).mean() < 1
        half = slide.read(700, 900, 500, 400, mpp=0.998)
        assert half.size == (250, 200)
        assert np.abs(half.pixels - mean_of(whole.pixels[900:1300, 700:1200], 2)).mean() < 1
        assert 0.3 < slide.count_tiles(256) / slide.count_tiles(256, tissue=0) < 0.7
    with open_slide(folder / "TCGA-CR-7395-01A-01-TS1.svs") as slide:
        assert slide.mpp is None
        assert slide.thumbnail(500).mpp is None
        with pytest.raises(ImageError, match=r"TS1\.svs.*open_slide\(path, mpp="):
            slide.read(0, 0, 100, 100, mpp=0.5)
        with pytest.raises(ImageError, match="micrometres"):
            slide.tiles(256, mpp=0.5)
        assert next(slide.tiles(256)).image.size == (256, 256)
    with open_slide(folder / "TCGA-CR-7395-01A-01-TS1.svs", mpp=0.25) as slide:
        for x, y in ((1000, 1000), (3000, 2500)):  # the slide's own level 1 was compressed anew, but lies as it should
            coarse = slide.read(x, y, 512, 512, mpp=0.5).pixels
            near = {d: slide.read(x + d, y + d, 512, 512).pixels for d in (-2, -1, 0, 1, 2)}
            off = {d: float(np.abs(coarse - mean_of(pixels, 2)).mean()) for d, pixels in near.items()}
            assert min(off, key=off.__getitem__) == 0, off
    with open_slide(folder / "small_HE_levels.tiff") as slide:
        assert slide.size == (300, 250)
        assert slide.mpp is None  # 353 um: a resolution for paper


@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_a_truncated_slide_is_refused_by_name(data: Path, tmp_path: Path, share: float) -> None:
    for name in ("CMU-1-Small-Region.svs", "small_HE_levels.tiff"):
        content = (data / "slides" / name).read_bytes()
        (tmp_path / name).write_bytes(content[: int(len(content) * share)])
        with pytest.raises(ImageError, match=name), open_slide(tmp_path / name) as slide:
            for _ in slide.tiles(512, tissue=0):
                pass


def test_reading_is_checked(slide: Any) -> None:
    for wrong in [(0, 0, 0, 5), (0, 0, 5, -1), (np.nan, 0, 5, 5), ("0", 0, 5, 5), (0, 1e300, 5, 5)]:
        with pytest.raises(InputError, match="wanted"):
            slide.read(*wrong)
    for options in [{"size": 0}, {"size": 2.5}, {"margin": -1}, {"tissue": 1.5}, {"tissue": np.nan}, {"mpp": 0}]:
        with pytest.raises(InputError, match="wanted"):
            slide.tiles(**options)
    with pytest.raises(ImageError, match="read at once"):
        slide.read(0, 0, 400, 300, mpp=0.001)
    slide.close()
    with pytest.raises(ImageError, match="closed"):
        slide.read(0, 0, 5, 5)


LARGE = """
import resource, sys
from clearfold.images import open_slide
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
with open_slide(sys.argv[1]) as slide:
    slide.read(0, 0, 600, 600, mpp=0.5)  # what imports take is not counted
    before, seen = peak(), 0
    for tile in slide.tiles(1024, mpp=float(sys.argv[3]), margin=32, tissue=float(sys.argv[2])):
        seen += tile.width * tile.height
    thumbnail = slide.thumbnail(700)
print(slide.size[0] * slide.size[1] * 3, seen, peak() - before, thumbnail.pixels[300:400, 300:400].mean())
"""


def large_slide(path: Path, tiles: int) -> None:
    """Squares of 512 pixels, written again and again as they are compressed once: glass, and tissue in the middle."""
    inside = np.tile(tissue(32, 32), (16, 16, 1))
    squares = [zlib.compress(part.tobytes(), 1) for part in (np.full((512, 512, 3), 245, np.uint8), inside)]
    middle = range(tiles // 3, 2 * tiles // 3)
    encoded = (squares[row in middle and column in middle] for row in range(tiles) for column in range(tiles))
    options: dict[str, Any] = {"photometric": "rgb", "compression": "zlib", "metadata": None, "dtype": np.uint8}
    with tifffile.TiffWriter(path, bigtiff=True) as file:
        length = tiles * 512
        scale = {"resolution": (20_000, 20_000), "resolutionunit": 3}
        file.write(encoded, shape=(length, length, 3), tile=(512, 512), **scale, **options)
        where = np.isin(np.arange(tiles), middle)
        shown = np.kron((where[:, None] & where)[:, :, None], np.ones((32, 32, 1), bool))
        small = np.where(shown, np.tile(inside[::16, ::16], (tiles, tiles, 1)), 245).astype(np.uint8)
        file.write(small, tile=(256, 256), subfiletype=1, **options)


@pytest.mark.parametrize(("share", "mpp"), [(0.1, 1.0), (0.0, 0.5)], ids=["tissue, coarser", "all, as it is"])
def test_two_gigabytes_are_read_in_bounded_memory(tmp_path: Path, share: float, mpp: float) -> None:
    large_slide(tmp_path / "large.tif", 52)
    command = [sys.executable, "-c", LARGE, str(tmp_path / "large.tif"), str(share), str(mpp)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    raw, seen, growth, middle = (float(word) for word in done.stdout.split())
    assert raw > 2e9
    assert (0.08 < seen * 3 / raw < 0.2) if share else seen * 3 == raw  # a ninth of the slide has tissue
    assert growth < 300  # MB
    assert 180 < middle < 240


# --- tissue


def test_tissue_is_found_on_white_and_on_grey_glass() -> None:
    truth = tissue(300, 300)[:, :, 1] != 245
    for background in (255, 245, 200, 150):
        pixels = np.rint(tissue(300, 300) * (background / 245.0)).clip(0, 255).astype(np.uint8)
        mask = tissue_mask(pixels)
        assert (mask & truth).sum() / (mask | truth).sum() > 0.95, background
    tinted = (tissue(300, 300) * [1.0, 0.97, 0.88]).astype(np.uint8)
    assert (tissue_mask(tinted) & truth).sum() / (tissue_mask(tinted) | truth).sum() > 0.95


def test_ink_can_be_left_out_and_glass_is_never_tissue() -> None:
    pixels = np.full((100, 200, 3), 240, np.uint8)
    for place, colour in enumerate([(200, 120, 180), (30, 150, 60), (30, 60, 180), (20, 20, 20)]):
        pixels[20:80, 10 + 50 * place : 40 + 50 * place] = colour
    with_ink, without = tissue_mask(pixels), tissue_mask(pixels, ink=False)
    for place, (ink, tissue_only) in enumerate([(True, True), (True, False), (True, False), (False, False)]):
        inside = np.s_[30:70, 20 + 50 * place : 30 + 50 * place]
        assert with_ink[inside].all() == ink
        assert without[inside].all() == tissue_only
    assert not with_ink[:10].any()


@quick
@given(colours)
def test_masks_and_balance_take_any_image(pixels: np.ndarray) -> None:
    assert tissue_mask(pixels).shape == pixels.shape[:2]
    assert tissue_mask(pixels).dtype == bool
    once = white_balance(pixels)
    assert np.abs(white_balance(once).astype(int) - once).max() <= 1
    for channel in range(3):  # order within a channel is kept
        before, after = pixels[:, :, channel].ravel(), once[:, :, channel].ravel()
        order = np.argsort(before, kind="stable")
        assert (np.diff(after[order].astype(int)) >= 0).all()


def test_white_balance_makes_the_background_white_and_keeps_tissue_without_any() -> None:
    grey = (tissue(120, 120) * [0.9, 0.8, 0.85]).astype(np.uint8)
    assert (white_balance(grey)[0, 0] == 255).all()
    assert (white_balance(grey)[60, 60] > grey[60, 60]).all()
    bright_pink = grey.copy()
    bright_pink[50:70, 50:70] = (250, 150, 240)  # is redder than glass, and no measure of it
    assert np.ptp(white_balance(bright_pink)[0, 0]) == 0
    pink = tissue(120, 120)[40:80, 40:80]
    np.testing.assert_array_equal(white_balance(pink), pink)


# --- stains


def stained(matrix: np.ndarray, seed: int = 0, side: int = 120) -> tuple[np.ndarray, np.ndarray]:
    """An image made of known amounts (2, side, side) of two stains: nuclei, stroma, mixtures and glass."""
    random = np.random.default_rng(seed)
    amounts = random.gamma(2, 0.15, (2, side, side))
    amounts[0, :, : side // 3] *= 0.02
    amounts[1, :, -side // 3 :] *= 0.02
    amounts[:, :10] = 0
    density = np.tensordot(amounts, matrix, axes=(0, 0))
    return np.rint(255 * 10.0**-density).clip(0, 255).astype(np.uint8), amounts


def degrees(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.degrees(np.arccos(np.clip(a @ b / np.linalg.norm(a) / np.linalg.norm(b), -1, 1))))


@pytest.mark.parametrize("seed", range(4))
def test_known_stains_are_recovered(seed: int) -> None:
    random = np.random.default_rng(seed)
    matrix = np.clip(FIXED + random.normal(0, 0.05, (2, 3)), 0.02, None)
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    pixels, amounts = stained(matrix, seed)
    stains = separate_stains(pixels)
    assert stains.method == "macenko"
    for row, truth in zip(stains.matrix, matrix, strict=True):
        assert degrees(row, truth) < 4
    for got, truth in zip((stains.hematoxylin, stains.eosin), amounts, strict=True):
        assert np.corrcoef(got.ravel(), truth.ravel())[0, 1] > 0.99
    assert (stains.hematoxylin[:10] == 0).all()
    assert (stains.eosin[:10] == 0).all()
    assert (stains.matrix >= 0).all()


def test_a_given_matrix_is_inverted_exactly() -> None:
    pixels, amounts = stained(FIXED)
    stains = separate_stains(pixels, matrix=FIXED * 3)
    np.testing.assert_allclose(stains.matrix, FIXED)
    assert stains.method == "given"
    faint = pixels.min(axis=2) > 60  # where rounding to 8 bits is small
    assert np.abs(np.stack([stains.hematoxylin, stains.eosin]) - amounts)[:, faint].max() < 0.02
    mixed = stains.hematoxylin[:, :, None] * FIXED[0] + stains.eosin[:, :, None] * FIXED[1]
    residual = DENSITY[pixels] - mixed  # least squares: what is left has no part of either stain
    assert np.abs(residual @ FIXED.T).max() < 1e-12


def test_the_guard_says_why_it_took_the_fixed_stains() -> None:
    few = np.full((50, 50, 3), 255, np.uint8)
    few[:5, :5] = (120, 60, 140)
    single = np.rint(255 * 10.0 ** -(np.random.default_rng(0).gamma(3, 0.2, (80, 80, 1)) * FIXED[0])).astype(np.uint8)
    green = (noise(60, 60, 3) * [0.2, 0.8, 0.2]).astype(np.uint8)
    brown, _ = stained(np.array([[0.27, 0.57, 0.78], [0.1, 0.3, 0.95]]))
    reasons = [separate_stains(pixels) for pixels in (few, single, green, brown)]
    for stains, word in zip(reasons, ("25 stained pixels", "degrees between", "", ""), strict=True):
        assert stains.method == "fixed"
        assert stains.reason
        assert word in stains.reason
        np.testing.assert_allclose(stains.matrix, FIXED)
    assert "25 stained pixels" in repr(reasons[0])


def test_turning_an_image_turns_its_stains() -> None:
    pixels, _ = stained(FIXED)
    turned = separate_stains(np.rot90(pixels))
    np.testing.assert_allclose(turned.hematoxylin, np.rot90(separate_stains(pixels).hematoxylin), atol=1e-9)


@pytest.mark.parametrize("wrong", [np.eye(3), np.ones((2, 3)), -FIXED, [[1, 2, 3]], "h&e", FIXED * np.nan])
def test_a_matrix_of_stains_is_checked(wrong: Any) -> None:
    with pytest.raises(InputError, match="two different rows"):
        separate_stains(np.zeros((3, 3, 3), np.uint8), matrix=wrong)


def test_real_sections_have_their_own_stains(data: Path) -> None:
    for name in ("01", "03", "05"):
        stains = separate_stains(read_image(data / "nuclei_gbm40" / "images" / f"{name}.jpg"))
        assert stains.method == "macenko"
        mask = np.asarray(Pillow.open(data / "nuclei_gbm40" / "labels" / f"{name}.png")) > 0
        assert stains.hematoxylin[mask].mean() > 1.5 * stains.hematoxylin[~mask].mean()
