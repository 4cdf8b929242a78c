"""Texture and stain: equal to mahotas, scikit-image and scipy, and what must not matter does not."""

import os
import warnings
from pathlib import Path
from typing import Any

import mahotas
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage, stats
from skimage import color, feature, filters

from clearfold.errors import InputError
from clearfold.features import cooccurrence, kernels
from clearfold.features.cooccurrence import HARALICK
from clearfold.features.gabor import GABOR, WIDTH, gabor, gabor_responses
from clearfold.features.shape import of_structure
from clearfold.features.stain import STAIN, object_stain, region_stain
from clearfold.features.texture import (
    CO_OCCURRENCE,
    FIRST_ORDER,
    first_order,
    grey_limits,
    haralick,
    quantise,
    region_haralick,
    texture_distances,
)

seeds = st.integers(0, 10_000)


@pytest.fixture(params=["numpy", "numba"], autouse=True)
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every truth holds on both paths."""
    monkeypatch.setenv("CLEARFOLD_NUMBA", "1" if request.param == "numba" else "0")
    if request.param == "numba" and kernels.compiled(kernels.pairs) is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("numba is not installed")
    return request.param


def sample(seed: int = 0, shape: tuple[int, int] = (60, 80)) -> tuple[np.ndarray, np.ndarray]:
    """A smooth channel, and objects of all sizes, some at the border and some that touch."""
    rng = np.random.default_rng(seed)
    noise = ndimage.gaussian_filter(rng.normal(size=shape), 2)
    labels = ndimage.label(noise > np.quantile(noise, 0.5))[0]
    labels = np.where((labels > 0) & (noise > np.quantile(noise, 0.85)), labels + labels.max(), labels)
    labels = np.unique(labels, return_inverse=True)[1].reshape(shape).astype(np.int32)
    return ndimage.gaussian_filter(rng.normal(size=shape), 0.8), labels


def by_mahotas(grey: np.ndarray, labels: np.ndarray, distance: int) -> np.ndarray:
    """Haralick's measures by mahotas; NaN where it refuses because a direction has no pairs."""
    rows = []
    options = {"ignore_zeros": True, "use_x_minus_y_variance": True, "distance": distance}
    for label, box in enumerate(ndimage.find_objects(labels), start=1):
        crop = np.where(labels[box] == label, grey[box], 0).astype(np.uint8)
        try:
            directions = mahotas.features.haralick(crop, **options)
        except ValueError:
            directions = np.full((4, 13), np.nan)
        directions[:, 12][directions[:, 12] < 1e-6] = 0  # the root of what is rounding in a difference of entropies
        rows.append(directions.mean(axis=0))
    return np.array(rows)


# --- Haralick


@given(seed=seeds, distance=st.integers(1, 6), levels=st.sampled_from([2, 8, 16, 32]))
@settings(max_examples=12, deadline=None)
def test_haralick_is_mahotas_on_each_object(seed: int, distance: int, levels: int) -> None:
    channel, labels = sample(seed)
    limits = grey_limits(channel, labels)
    ours = haralick(channel, labels, {"d": distance}, limits=limits, levels=levels)
    theirs = by_mahotas(quantise(channel, limits, levels), labels, distance)
    np.testing.assert_array_equal(np.isnan(ours), np.isnan(theirs))
    np.testing.assert_allclose(ours.iloc[:, :12], theirs[:, :12], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(ours.iloc[:, 12], theirs[:, 12], rtol=1e-9, atol=2e-9)  # a root: steep near 0


def test_counts_are_scikit_images() -> None:
    channel, _ = sample(1)
    grey = quantise(channel, grey_limits(channel), 8)
    everything = np.ones(channel.shape, np.int32)
    ours = haralick(channel, everything, {"a": 3}, levels=8).loc[1]
    angles = [0, np.pi / 2]
    counts = feature.graycomatrix(grey - 1, [3], angles, levels=8, symmetric=True, normed=True)
    straight = [feature.graycoprops(counts, name)[0] for name in ("contrast", "homogeneity", "ASM", "correlation")]
    diagonal = []
    for down, right in ((3, 3), (3, -3)):
        first, second = grey[: 60 - down], grey[down:]
        first, second = (first[:, :-right], second[:, right:]) if right > 0 else (first[:, -right:], second[:, :right])
        joint = np.histogram2d(first.ravel(), second.ravel(), bins=np.arange(1, 10) - 0.5)[0]
        pairs = ((joint + joint.T) / (2 * joint.sum()))[:, :, None, None]
        diagonal.append(
            [feature.graycoprops(pairs, name)[0, 0] for name in ("contrast", "homogeneity", "ASM", "correlation")]
        )
    theirs = (np.sum(straight, axis=1) + np.sum(diagonal, axis=0)) / 4
    np.testing.assert_allclose(
        ours[[f"haralick_{n}_a" for n in ("contrast", "idm", "asm", "correlation")]], theirs, rtol=1e-10
    )


def test_real_nuclei_equal_mahotas(data: Path) -> None:
    from skimage.io import imread

    folder = data / "nuclei_gbm40"
    mask = sorted((folder / "labels").iterdir())[0]
    image = next(path for path in (folder / "images").iterdir() if path.stem == mask.stem)
    labels = np.unique(imread(mask), return_inverse=True)[1].reshape(512, 512).astype(np.int32)
    grey = imread(image)[:, :, 0]
    ours = haralick(grey, labels, {"d": 2}, limits=(0, 255))
    theirs = by_mahotas(quantise(grey.astype(float), (0, 255), 16), labels, 2)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


@given(seeds)
@settings(max_examples=8, deadline=None)
def test_turning_and_moving_do_not_change_texture(seed: int) -> None:
    channel, labels = sample(seed)
    limits = grey_limits(channel, labels)
    distances = {"d1": 1, "d2": 3}
    table = haralick(channel, labels, distances, limits=limits)
    turned = haralick(np.rot90(channel), np.rot90(labels), distances, limits=limits)
    np.testing.assert_allclose(turned, table, rtol=1e-9, atol=1e-9)
    room = ((4, 1), (2, 7))
    moved = haralick(np.pad(channel, room), np.pad(labels, room), distances, limits=limits)
    pd.testing.assert_frame_equal(moved, table, check_exact=True)
    values = first_order(channel, labels, limits=limits)
    np.testing.assert_allclose(
        first_order(np.rot90(channel), np.rot90(labels), limits=limits), values, rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(
        first_order(np.pad(channel, room), np.pad(labels, room), limits=limits), values, rtol=1e-12
    )


def test_a_row_does_not_depend_on_other_objects() -> None:
    channel, labels = sample(2)
    limits = grey_limits(channel, labels)
    table, values = haralick(channel, labels, {"d": 2}, limits=limits), first_order(channel, labels, limits=limits)
    for label in table.index:
        alone = (labels == label).astype(int)
        np.testing.assert_array_equal(haralick(channel, alone, {"d": 2}, limits=limits), table.loc[[label]])
        np.testing.assert_allclose(first_order(channel, alone, limits=limits), values.loc[[label]], rtol=1e-12)


@given(seed=seeds, distance=st.integers(1, 4))
@settings(max_examples=8, deadline=None)
def test_both_paths_give_the_same_numbers(seed: int, distance: int) -> None:
    channel, labels = sample(seed)
    fast = haralick(channel, labels, {"d": distance})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLEARFOLD_NUMBA", "0")
        patch.setattr(cooccurrence, "BINS", 3 * 16**2)  # three objects at a time
        plain = haralick(channel, labels, {"d": distance})
    np.testing.assert_allclose(fast.iloc[:, :12], plain.iloc[:, :12], rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(fast.iloc[:, 12], plain.iloc[:, 12], rtol=1e-9, atol=2e-9)


def test_small_objects_have_no_texture_and_say_so() -> None:
    labels = np.zeros((12, 30), int)
    labels[1, 1], labels[3, 1:9], labels[6:10, 12:16] = 1, 2, 3
    channel = np.random.default_rng(0).random(labels.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = haralick(channel, labels, {"d1": 1, "far": 4, "beyond": 100})
    assert table.loc[[1, 2]].isna().all(axis=None)
    assert table.loc[3].notna().sum() == 13
    assert "too small" in table.attrs["reasons"]["haralick_asm_far"]


def test_a_flat_object_has_the_texture_of_one_level() -> None:
    labels = np.ones((5, 5), int)
    row = haralick(np.full((5, 5), 7.0), labels, {"d": 1}, limits=(0, 16)).loc[1]
    flat = {"asm": 1, "correlation": 1, "idm": 1, "sum_average": 16}
    for measure in HARALICK:
        assert row[f"haralick_{measure}_d"] == flat.get(measure, 0), measure


def test_stripes_and_noise_are_told_apart_by_direction_free_measures() -> None:
    rng = np.random.default_rng(0)
    labels = np.ones((64, 64), int)
    smooth = ndimage.gaussian_filter(rng.normal(size=(64, 64)), 4)
    noise = rng.normal(size=(64, 64))
    one, other = (haralick(channel, labels, {"d": 1}).loc[1] for channel in (smooth, noise))
    assert one["haralick_contrast_d"] < other["haralick_contrast_d"]
    assert one["haralick_correlation_d"] > 0.9 > 0.1 > abs(other["haralick_correlation_d"])
    assert one["haralick_entropy_d"] < other["haralick_entropy_d"]


@given(seeds)
@settings(max_examples=6, deadline=None)
def test_a_region_is_one_object_and_units_of_a_channel_do_not_matter(seed: int) -> None:
    channel, labels = sample(seed)
    distances = texture_distances(20)
    region = region_haralick(channel, labels, distances)
    table = haralick(channel, (labels > 0).astype(int), distances)
    assert list(region.values.values()) == table.loc[1].tolist()
    assert list(region.values) == [about.name for about in of_structure(CO_OCCURRENCE, "region").values()]
    other = region_haralick(-3 + 2.0**10 * channel, labels, distances)
    np.testing.assert_allclose(list(other.values.values()), list(region.values.values()), rtol=0.02, atol=0.02)


def test_distances_scale_with_nuclei() -> None:
    assert texture_distances(8) == {"d1": 1, "d2": 1, "d3": 2}
    assert texture_distances(64) == {"d1": 4, "d2": 8, "d3": 16}


# --- first-order statistics


@given(seed=seeds, kind=st.sampled_from([np.float64, np.float32, np.uint8]))
@settings(max_examples=8, deadline=None)
def test_first_order_is_scipys_on_each_object(seed: int, kind: Any) -> None:
    channel, labels = sample(seed)
    channel = (np.clip(channel * 40 + 120, 0, 255)).astype(kind)
    limits = grey_limits(channel, labels)
    ours = first_order(channel, labels, limits=limits)
    assert list(ours.columns) == list(FIRST_ORDER)
    grey = quantise(channel.astype(float), limits, 16)
    for label, row in ours.iterrows():
        inside = channel[labels == label].astype(float)
        shares = np.bincount(grey[labels == label], minlength=17) / len(inside)
        flat = np.ptp(inside) == 0
        theirs = {
            "grey_mean": inside.mean(),
            "grey_sd": inside.std(),
            "grey_median": np.median(inside),
            "grey_min": inside.min(),
            "grey_max": inside.max(),
            "grey_skewness": np.nan if flat else stats.skew(inside),
            "grey_kurtosis": np.nan if flat else stats.kurtosis(inside),
            "grey_entropy": stats.entropy(shares, base=2),
            "grey_energy": np.sum(shares**2),
        }
        np.testing.assert_allclose(row, [theirs[name] for name in ours.columns], rtol=1e-9, atol=1e-9)


def test_no_objects_give_no_rows_and_all_columns() -> None:
    nothing, channel = np.zeros((6, 7), int), np.ones((6, 7))
    assert list(first_order(channel, nothing).columns) == list(FIRST_ORDER)
    assert list(haralick(channel, nothing, texture_distances(30)).columns) == list(CO_OCCURRENCE)
    rgb = np.zeros((6, 7, 3), np.uint8)
    assert list(object_stain(rgb, channel, channel, nothing).columns) == list(STAIN)
    for table in (first_order(channel, nothing), object_stain(rgb, channel, channel, nothing)):
        assert len(table) == 0
    for region in (
        region_haralick(channel, nothing, texture_distances(30)),
        gabor(channel, 30, nothing),
        region_stain(rgb, channel, channel, nothing),
    ):
        assert np.isnan(list(region.values.values())).all()
        assert set(region.reasons) == set(region.values)
        assert set(region.reasons.values()) == {"the region is empty"}


def test_levels_are_equal_steps_between_the_limits() -> None:
    values = np.array([[-5.0, 0.0, 0.9, 1.0, 2.5, 3.999, 4.0, 99.0]])
    assert quantise(values, (0, 4), 4).tolist() == [[1, 1, 1, 2, 3, 4, 4, 4]]
    assert quantise(values, (2, 2), 4).tolist() == [[1] * 8]


# --- Gabor


def test_gabor_is_scikit_images_along_the_axes() -> None:
    channel, _ = sample(0, (40, 50))
    wavelength = 6.0
    ours = gabor_responses(channel, wavelength)
    sigma = WIDTH * wavelength
    for turn, angle in ((0, 0.0), (2, np.pi / 2)):
        real, imaginary = filters.gabor(channel, 1 / wavelength, angle, sigma_x=sigma, sigma_y=sigma, mode="reflect")
        np.testing.assert_allclose(ours[turn], np.hypot(real, imaginary), atol=1e-12)


def test_gabor_is_the_plain_convolution_on_the_diagonals() -> None:
    channel, _ = sample(3, (30, 34))
    wavelength, reach = 5.0, int(np.ceil(3 * WIDTH * 5.0))
    y, x = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    s = WIDTH * wavelength
    for turn in (1, 3):
        angle = np.pi * turn / 4
        wave = np.exp(2j * np.pi * (x * np.cos(angle) + y * np.sin(angle)) / wavelength)
        kernel = np.exp(-(x**2 + y**2) / (2 * s**2)) / (2 * np.pi * s**2) * wave
        parts = [ndimage.convolve(channel, part, mode="reflect") for part in (kernel.real, kernel.imag)]
        np.testing.assert_allclose(gabor_responses(channel, wavelength)[turn], np.hypot(*parts), atol=1e-12)


def test_stripes_answer_at_their_own_wavelength_and_in_one_direction() -> None:
    x = np.arange(96)
    stripes = np.tile(np.cos(2 * np.pi * x / 8), (96, 1))
    found = gabor(stripes, diameter=32).values
    means = {name: value for name, value in found.items() if ".gabor_mean" in name}
    assert max(means, key=lambda name: means[name]) == "texture.region.gabor_mean_w2"  # 32 / 4
    board = stripes + stripes.T
    assert (
        found["texture.region.gabor_anisotropy_w2"]
        > 1.5 * gabor(board, 32).values["texture.region.gabor_anisotropy_w2"]
    )
    turned = gabor(stripes.T, diameter=32).values
    np.testing.assert_allclose(list(turned.values()), list(found.values()), rtol=1e-9, atol=1e-12)
    assert list(found) == [about.name for about in of_structure(GABOR, "region").values()]


def test_a_flat_region_has_no_gabor_response() -> None:
    assert set(gabor(np.full((20, 20), 3.0), 10).values.values()) == {0.0}


# --- stain


@given(seeds)
@settings(max_examples=6, deadline=None)
def test_stain_statistics_are_numpys_and_colours_scikit_images(seed: int) -> None:
    channel, labels = sample(seed, (40, 50))
    rng = np.random.default_rng(seed)
    rgb = rng.integers(0, 256, (40, 50, 3)).astype(np.uint8)
    rgb[..., 0] = np.maximum(rgb[..., 0], 200)  # pink to purple: hues on both sides of red
    hematoxylin, eosin = np.abs(channel), np.abs(channel.T.ravel().reshape(40, 50)).astype(np.float32)
    table = object_stain(rgb, hematoxylin, eosin, labels)
    assert list(table.columns) == list(STAIN)
    hsv = color.rgb2hsv(rgb)
    for label, row in table.iterrows():
        inside = labels == label
        for name, stain in (("hematoxylin", hematoxylin), ("eosin", eosin)):
            values = stain[inside].astype(float)
            expected = [values.mean(), values.std(), *np.percentile(values, [10, 50, 90])]
            columns = [f"{name}_{kind}" for kind in ("mean", "sd", "p10", "p50", "p90")]
            np.testing.assert_allclose(row[columns], expected, rtol=1e-9, atol=1e-12)
        share = hematoxylin[inside].mean() / (hematoxylin[inside].mean() + eosin[inside].astype(float).mean())
        assert row["hematoxylin_share"] == pytest.approx(share, rel=1e-9)
        np.testing.assert_allclose(row[["red", "green", "blue"]], rgb[inside].mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(row[["saturation", "value"]], hsv[inside][:, 1:].mean(axis=0), rtol=1e-9)
        around = np.exp(2j * np.pi * hsv[inside][:, 0])[np.ptp(rgb[inside], axis=1) > 0].sum()
        assert np.cos(2 * np.pi * row["hue"] - np.angle(around)) == pytest.approx(1, abs=1e-9)
    region = region_stain(rgb, hematoxylin, eosin, labels > 0)
    assert region.values["stain.region.red"] == pytest.approx(rgb[labels > 0][:, 0].mean())
    assert list(region.values) == [about.name for about in of_structure(STAIN, "region").values()]


def test_grey_without_stain_has_neither_hue_nor_share() -> None:
    rgb, nothing = np.full((4, 4, 3), 90, np.uint8), np.zeros((4, 4))
    table = object_stain(rgb, nothing, nothing, np.ones((4, 4), int))
    assert table.columns[table.isna().any()].tolist() == ["hematoxylin_share", "hue"]
    assert set(table.attrs["reasons"]) == {"hematoxylin_share", "hue"}
    region = region_stain(rgb, nothing, nothing, np.ones((4, 4), int))
    assert region.reasons["stain.region.hue"] == table.attrs["reasons"]["hue"]


# --- what cannot be used


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c, n: haralick(c[:-1], n, {"d": 1}), "one size"),
        (lambda c, n: haralick(np.where(n == 1, np.nan, c), n, {"d": 1}), "not finite"),
        (lambda c, n: haralick(c, n, {"d": 0}), "from 1 on"),
        (lambda c, n: haralick(c, n, {"d": 1}, levels=1), "levels=1"),
        (lambda c, n: haralick(c, n, {"d": 1}, limits=(2, 1)), "limits="),
        (lambda c, n: first_order(np.stack([c, c]), n), r"\(2, 60, 80\)"),
        (lambda c, n: first_order(c.astype(str), n), "type <U"),
        (lambda c, n: texture_distances(0), "diameter=0"),
        (lambda c, n: gabor(c, np.nan), "diameter=nan"),
        (lambda c, n: object_stain(c, c, c, n), "RGB"),
    ],
)
def test_bad_input_is_named(call: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call(*sample())
