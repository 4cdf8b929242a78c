"""The built-in segmenters find what is there, at any scale, and say so on real tissue."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy import ndimage

from clearfold.errors import InputError, UnknownScaleWarning
from clearfold.objects import Objects, match, segment_glands, segment_nuclei
from clearfold.objects.candidates import fill_holes, split
from clearfold.objects.nuclei import WEIGHTS, best_apart, enlarged, quality

PINK, PURPLE = np.array([225, 150, 200]), np.array([90, 60, 140])


def tissue(mpp: float = 0.5, seed: int = 0, size: float = 96.0) -> tuple[np.ndarray, np.ndarray]:
    """Elliptic nuclei of known place on pink tissue, `size` um wide: pixels and true labels."""
    random = np.random.default_rng(seed)
    side = round(size / mpp)
    y, x = (np.mgrid[:side, :side] + 0.5) * mpp
    labels = np.zeros((side, side), dtype=np.int32)
    places = np.stack(np.meshgrid(np.arange(12, size - 6, 14), np.arange(12, size - 6, 14)), axis=-1).reshape(-1, 2)
    for number, (cx, cy) in enumerate(places + random.uniform(-2, 2, places.shape), start=1):
        turn, long, short = random.uniform(0, np.pi), random.uniform(3.6, 5), random.uniform(2.6, 3.4)
        u = (x - cx) * np.cos(turn) + (y - cy) * np.sin(turn)
        v = (y - cy) * np.cos(turn) - (x - cx) * np.sin(turn)
        labels[(u / long) ** 2 + (v / short) ** 2 <= 1] = number
    grain = ndimage.gaussian_filter(random.normal(size=(side, side, 1)), (0.4 / mpp, 0.4 / mpp, 0))
    grain *= 9 / grain.std()
    soft = ndimage.gaussian_filter((labels > 0).astype(float), 0.3 / mpp)[:, :, None]
    pixels = PINK * (1 - soft) + PURPLE * soft + grain
    return np.clip(pixels, 0, 255).astype(np.uint8), labels


# Nuclei -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mpp", [0.25, 0.5, 0.8])
def test_drawn_nuclei_are_found_at_every_scale(mpp: float) -> None:
    pixels, truth = tissue(mpp)
    agreement = match(truth, segment_nuclei(pixels, mpp=mpp))
    assert agreement.f1 > 0.95
    assert agreement.sq > 0.75


def test_sizes_are_in_micrometres() -> None:
    areas = [np.median(segment_nuclei(tissue(mpp)[0], mpp=mpp).areas) * mpp**2 for mpp in (0.25, 0.5)]
    assert areas[0] == pytest.approx(areas[1], rel=0.1)
    pixels = tissue()[0]
    assert len(segment_nuclei(pixels, mpp=0.5, largest=4.0)) < 5
    assert len(segment_nuclei(pixels, mpp=0.5, smallest=12.0)) == 0


def test_a_higher_least_quality_finds_fewer() -> None:
    pixels = tissue()[0]
    counts = [len(segment_nuclei(pixels, mpp=0.5, least_quality=least)) for least in (0.2, 0.5, 0.7, 1.5)]
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] == 0


def test_turning_the_image_turns_the_nuclei() -> None:
    pixels, _ = tissue(seed=3)
    upright, turned = segment_nuclei(pixels, mpp=0.5), segment_nuclei(np.rot90(pixels).copy(), mpp=0.5)
    assert match(np.rot90(upright.labels), turned).pq > 0.97  # watershed lines may move by a pixel


def test_the_same_image_gives_the_same_labels() -> None:
    pixels, _ = tissue()
    first, second = (segment_nuclei(pixels, mpp=0.5) for _ in range(2))
    np.testing.assert_array_equal(first.labels, second.labels)


@pytest.mark.parametrize("shape", [(1, 1), (3, 40), (40, 3), (64, 64)])
@pytest.mark.parametrize("value", [0, 128, 255])
@pytest.mark.parametrize("segmenter", [segment_nuclei, segment_glands])
def test_flat_images_have_no_objects(segmenter, value: int, shape: tuple[int, int]) -> None:
    found = segmenter(np.full((*shape, 3), value, dtype=np.uint8), mpp=0.5)
    assert len(found) == 0
    assert found.shape == shape


def test_tissue_without_nuclei_has_no_nuclei() -> None:
    random = np.random.default_rng(0)
    pixels = np.clip(PINK + random.normal(0, 4, (200, 200, 3)), 0, 255).astype(np.uint8)
    assert len(segment_nuclei(pixels, mpp=0.5)) == 0


def test_an_unknown_scale_is_assumed_and_said() -> None:
    pixels, _ = tissue()
    with pytest.warns(UnknownScaleWarning, match=r"0\.5 is assumed"):
        found = segment_nuclei(pixels)
    assert found.mpp is None
    np.testing.assert_array_equal(found.labels, segment_nuclei(pixels, mpp=0.5).labels)


def test_wrong_parameters_are_refused() -> None:
    pixels = tissue()[0]
    with pytest.raises(InputError, match="diameters"):
        segment_nuclei(pixels, mpp=0.5, smallest=9.0, largest=5.0)
    with pytest.raises(InputError, match="positive"):
        segment_glands(pixels, mpp=0.5, inside=-1.0)
    with pytest.raises(InputError):
        segment_nuclei(pixels, mpp=0.0)


# Parts --------------------------------------------------------------------------------------------------------


def test_two_disks_are_split_at_their_neck_and_one_is_not() -> None:
    y, x = np.mgrid[:40, :60]
    disks = [(x - cx) ** 2 + (y - 20) ** 2 <= 100 for cx in (20, 36)]
    labels = split(disks[0] | disks[1], dip=0.5, smooth=0.5)
    assert labels.max() == 2
    assert labels[20, 14] != labels[20, 44]
    assert split(disks[0], dip=0.5, smooth=0.5).max() == 1


def test_only_small_holes_inside_are_filled() -> None:
    mask = np.ones((20, 20), dtype=bool)
    mask[3:5, 3:5] = False
    mask[8:16, 8:16] = False
    mask[0, 10] = False
    filled = fill_holes(mask, 10)
    assert filled[3:5, 3:5].all()
    assert not filled[8:16, 8:16].any()
    assert not filled[0, 10]


def test_quality_is_flat_beyond_what_was_learned() -> None:
    low, high = (np.array([[numbers[i] for numbers in WEIGHTS.values()]]) for i in (0, 1))
    assert quality(low) == quality(low - 100)
    assert quality(high) == quality(high + 100)


def test_the_best_of_two_that_overlap_is_kept() -> None:
    from clearfold.objects.candidates import Candidates

    place = (slice(0, 4), slice(0, 4))
    candidates = Candidates([place, place], [np.ones((4, 4), bool), np.eye(4, dtype=bool)], np.empty((2, 7)))
    assert best_apart(candidates, np.array([0.5, 0.9]), 0.4, (4, 4)).sum() == 4
    assert best_apart(candidates, np.array([0.9, 0.5]), 0.4, (4, 4)).sum() == 16
    assert best_apart(candidates, np.array([0.9, 0.5]), 0.95, (4, 4)).sum() == 0


def test_enlarging_keeps_objects_in_place() -> None:
    small = np.zeros((20, 30), dtype=np.int32)
    small[4:12, 5:14], small[4:12, 14:22] = 1, 2
    large = enlarged(small, (40, 60))
    assert match(np.kron(small, np.ones((2, 2))), large).sq > 0.9
    np.testing.assert_allclose(Objects(large).centroids, 2 * Objects(small).centroids + 0.5, atol=0.25)


# Glands -------------------------------------------------------------------------------------------------------


def test_drawn_glands_are_found() -> None:
    y, x = np.mgrid[:300, :300].astype(float)
    pixels = np.broadcast_to(PINK, (300, 300, 3)).astype(float).copy()
    truth = np.zeros((300, 300), dtype=int)
    random = np.random.default_rng(0)
    for number, (cx, cy) in enumerate([(80, 80), (220, 90), (140, 220)], start=1):
        away = np.hypot(x - cx, y - cy)
        truth[away <= 44] = number
        pixels[away <= 44] = PURPLE
        pixels[away <= 30] = (250, 245, 250)
    for cx, cy in random.uniform(0, 300, (260, 2)):
        spot = (np.hypot(x - cx, y - cy) < 4) & (truth == 0)
        pixels[spot] = PURPLE
    pixels = np.clip(pixels + random.normal(0, 4, pixels.shape), 0, 255).astype(np.uint8)
    found = segment_glands(pixels, mpp=1.0)
    agreement = match(truth, found)
    assert found.kind == "gland"
    assert agreement.n_matched == 3


# Real tissue --------------------------------------------------------------------------------------------------


def cases(folder: Path, masks: str, wanted: list[int]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Images by their place in the order of names, from 1, with their label masks."""
    paths = sorted((folder / "images").iterdir())
    pairs = []
    for number in wanted:
        path = paths[number - 1]
        mask = np.asarray(Image.open(next((folder / masks).glob(path.stem.removesuffix("_ccd") + ".*"))))
        pairs.append((np.asarray(Image.open(path)), mask if mask.ndim == 2 else mask[:, :, 0] >= 128))
    return pairs


def test_nuclei_of_glioblastoma_are_found(data: Path) -> None:
    """Odd images were learned from; these are even ones. The mean of all even ones is in the documentation."""
    results = [
        match(truth, segment_nuclei(pixels, mpp=0.25))
        for pixels, truth in cases(data / "nuclei_gbm40", "labels", list(range(2, 41, 4)))
    ]
    assert np.mean([result.f1 for result in results]) >= 0.88
    assert np.mean([result.pq for result in results]) >= 0.68
    assert np.mean([result.aji for result in results]) >= 0.69


def test_nuclei_of_breast_are_found_with_the_same_setting(data: Path) -> None:
    """Only a part of each image was annotated: nuclei outside of its convex hull do not count."""
    from skimage.morphology import convex_hull_image

    results = []
    for pixels, mask in cases(data / "nuclei_ucsb26", "masks", list(range(2, 27, 2))):
        region, found = convex_hull_image(mask), segment_nuclei(pixels, mpp=0.25)
        x, y = np.rint(found.centroids).astype(int).T
        results.append(match(mask, found.select(region[y, x])))
    assert np.mean([result.f1 for result in results]) >= 0.65
    assert np.mean([result.pq for result in results]) >= 0.48
