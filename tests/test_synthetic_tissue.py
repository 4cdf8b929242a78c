"""Drawn tissue: the truth is true, what is asked for is seen, and a seed is a promise."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from scipy import ndimage
from scipy.spatial import Delaunay, cKDTree

from clearfold.datasets import SyntheticTissue, synthetic_cohort, synthetic_tissue
from clearfold.datasets.placement import lattice
from clearfold.errors import InputError
from clearfold.images import separate_stains


def edge_variation(tissue: SyntheticTissue) -> float:
    """SD / mean of the distances of neighbours, away from the border of the image."""
    height, width = tissue.nuclei.shape
    inner = ((tissue.centres > 20) & (tissue.centres < np.array([width, height]) - 20)).all(axis=1)
    corners = Delaunay(tissue.centres).simplices
    pairs = np.unique(np.sort(np.concatenate([corners[:, [0, 1]], corners[:, [1, 2]], corners[:, [0, 2]]])), axis=0)
    pairs = pairs[inner[pairs].all(axis=1)]
    length = np.linalg.norm(tissue.centres[pairs[:, 0]] - tissue.centres[pairs[:, 1]], axis=1)
    return float(length.std() / length.mean())


# --- the truth


@pytest.mark.parametrize("grade", ["low", "high"])
@pytest.mark.parametrize("glands", [0, 2])
@pytest.mark.parametrize("mpp", [0.25, 0.5])
def test_the_truth_is_what_the_labels_say(grade: str, glands: int, mpp: float) -> None:
    tissue = synthetic_tissue(grade, glands=glands, size=(256, 320), mpp=mpp, seed=3)
    assert tissue.image.shape == (256, 320, 3)
    assert tissue.image.dtype == np.uint8
    assert tissue.nuclei.shape == tissue.glands.shape == (256, 320)
    assert tissue.nuclei.dtype == tissue.glands.dtype == np.int32
    names, pixels = np.unique(tissue.nuclei[tissue.nuclei > 0], return_counts=True)
    assert np.array_equal(names, np.arange(1, tissue.truth.count + 1))
    areas = pixels * mpp**2
    assert tissue.truth.area == pytest.approx(areas.mean())
    assert tissue.truth.pleomorphism == pytest.approx(areas.std() / areas.mean())
    assert tissue.truth.density == pytest.approx(len(names) / (256 * 320 * mpp**2 * 1e-6))
    assert len(tissue.centres) == tissue.truth.count


@pytest.mark.parametrize("density", [0, 500, 1000, 2500, 5000, 8000])
def test_density_is_what_was_asked_for_within_rounding(density: float) -> None:
    tissue = synthetic_tissue("low", density=density, seed=1)
    assert tissue.truth.count == round(density * (512 * 0.5 / 1000) ** 2)


def test_areas_are_those_of_the_grade() -> None:
    """Within 3 %: pixels of nuclei that the border of the image cuts are not there."""
    inner = []
    for seed in range(3):
        tissue = synthetic_tissue("low", mpp=0.25, seed=seed)
        cut = np.unique(np.concatenate([tissue.nuclei[[0, -1]].ravel(), tissue.nuclei[:, [0, -1]].ravel()]))
        pixels = np.bincount(tissue.nuclei.ravel())
        inner.append(np.delete(pixels, np.union1d(cut, [0])) * 0.25**2)
    areas = np.concatenate(inner)
    assert areas.mean() == pytest.approx(34.0, rel=0.03)
    assert areas.std() / areas.mean() == pytest.approx(0.14, abs=0.03)


def test_a_nucleus_lies_where_its_centre_is_and_in_one_piece() -> None:
    tissue = synthetic_tissue("high", seed=5)
    inner = ((tissue.centres > 20) & (tissue.centres < 492)).all(axis=1)
    middles = np.array(ndimage.center_of_mass(tissue.nuclei > 0, tissue.nuclei, range(1, tissue.truth.count + 1)))
    apart = np.linalg.norm(middles[:, ::-1] + 0.5 - tissue.centres, axis=1)
    assert np.median(apart[inner]) < 1.0
    pieces = [ndimage.label(tissue.nuclei == name)[1] for name in range(1, tissue.truth.count + 1)]
    assert np.mean(np.array(pieces) == 1) > 0.98


def test_a_lattice_is_a_lattice() -> None:
    """32 rows of 34: every point has its neighbours at the distance of a triangular lattice, nearly."""
    points = lattice(32 * 34, 600.0, 500.0)
    assert len(points) == 32 * 34
    assert (points >= 0).all()
    assert (points < [600, 500]).all()
    nearest = cKDTree(points).query(points, 2)[0][:, 1]
    assert nearest.std() < 1e-9
    assert nearest.mean() == pytest.approx(np.sqrt(2 / 3**0.5 * 600 * 500 / len(points)), rel=0.03)
    assert [len(lattice(count, 600.0, 500.0)) for count in (0, 1, 2, 7, 1201)] == [0, 1, 2, 7, 1201]


# --- what is asked for is seen


@pytest.mark.parametrize("grade", ["low", "high"])
def test_more_disorder_is_less_order(grade: str) -> None:
    seen = [
        np.mean([edge_variation(synthetic_tissue(grade, density=3000, disorder=d, seed=seed)) for seed in range(3)])
        for d in (0.0, 0.25, 0.5, 0.75, 1.0)
    ]
    assert (np.diff(seen) > 0.02).all()


def test_grades_differ_as_they_should() -> None:
    for seed in range(3):
        low, high = (synthetic_tissue(grade, seed=seed) for grade in ("low", "high"))
        assert high.truth.density > 1.3 * low.truth.density
        assert high.truth.area > 1.3 * low.truth.area
        assert high.truth.pleomorphism > 2 * low.truth.pleomorphism
        assert high.truth.disorder > low.truth.disorder
        assert edge_variation(high) > edge_variation(low)


@pytest.mark.parametrize("grade", ["low", "high"])
def test_nuclei_are_blue_over_pink(grade: str) -> None:
    tissue = synthetic_tissue(grade, glands=2, seed=2)
    inside = tissue.nuclei > 0
    red, green, blue = (tissue.image[..., channel].astype(float) for channel in range(3))
    assert (blue - red)[inside].mean() > 20
    assert (red - blue)[~inside & (tissue.glands == 0)].mean() > 0
    assert green[inside].mean() < green[~inside].mean() - 50
    stain = separate_stains(tissue.image).hematoxylin
    assert stain[inside].mean() > 3 * stain[~inside].mean()


def test_glands_have_a_white_lumen_and_a_ring_of_nuclei() -> None:
    tissue = synthetic_tissue("low", glands=3, size=640, seed=4)
    names = np.unique(tissue.glands[tissue.glands > 0])
    assert np.array_equal(names, [1, 2, 3])
    for name in names:
        inside = tissue.glands == name
        white = (tissue.image.min(axis=2) > 220) & inside
        assert 0.1 < white.sum() / inside.sum() < 0.5
        assert len(np.unique(tissue.nuclei[inside])) > 8
        assert not (white & (tissue.nuclei > 0)).any()


def test_glands_find_only_the_room_there_is() -> None:
    assert 1 <= synthetic_tissue(glands=500, size=256).glands.max() < 20


# --- a seed is a promise


def test_the_same_seed_draws_the_same_pixels() -> None:
    one, again, other = (synthetic_tissue("high", glands=1, size=128, seed=seed) for seed in (7, 7, 8))
    assert np.array_equal(one.image, again.image)
    assert np.array_equal(one.nuclei, again.nuclei)
    assert one.truth == again.truth
    assert not np.array_equal(one.image, other.image)
    assert not np.array_equal(one.nuclei, other.nuclei)


def test_drawing_leaves_the_global_generator_alone() -> None:
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    synthetic_tissue(size=64)
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_it_prints_itself() -> None:
    assert repr(synthetic_tissue(size=(64, 128))) == "SyntheticTissue: low grade, 128 x 64 pixels of 0.5 um, 5 nuclei"


def test_no_nuclei_is_tissue_too() -> None:
    tissue = synthetic_tissue(density=0, size=64)
    assert tissue.truth.count == 0
    assert np.isnan(tissue.truth.area)
    assert not tissue.nuclei.any()


@pytest.mark.parametrize(
    "wrong",
    [
        {"grade": "medium"},
        {"density": -1},
        {"density": np.nan},
        {"density": 50_000},
        {"disorder": 1.5},
        {"disorder": "much"},
        {"size": 3},
        {"size": 99.5},
        {"size": (64, 64, 3)},
        {"size": 1_000_000},
        {"mpp": 0},
        {"mpp": 50},
        {"seed": -1},
        {"seed": 1.5},
        {"glands": -2},
    ],
)
def test_what_cannot_be_drawn_is_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match="came"):
        synthetic_tissue(**wrong)


# --- cohorts


def test_a_cohort_is_patients_of_two_grades(tmp_path: Path) -> None:
    cohort = synthetic_cohort(tmp_path / "cohort", n_patients=5, images_per_patient=2, size=96, seed=1)
    assert len(cohort) == 10
    assert repr(cohort) == "SyntheticCohort: 10 images of 5 patients"
    table = pd.read_csv(tmp_path / "cohort" / "labels.csv")
    pd.testing.assert_frame_equal(table, cohort.table, check_dtype=False)
    assert table.groupby("patient_id")["label"].nunique().eq(1).all()
    assert table.groupby("patient_id")["label"].first().tolist() == ["low", "high", "low", "high", "low"]
    assert [tissue.grade for tissue in cohort.images] == table["label"].tolist()
    for row, tissue in zip(table.itertuples(), cohort.images, strict=True):
        assert np.array_equal(np.array(Image.open(tmp_path / "cohort" / row.file)), tissue.image)
        mask = np.array(Image.open(tmp_path / "cohort" / "nuclei" / f"{row.case_id}.png"))
        assert np.array_equal(mask, tissue.nuclei)


def test_images_of_a_patient_differ_and_earlier_patients_stay(tmp_path: Path) -> None:
    few, more = (synthetic_cohort(n_patients=n, images_per_patient=2, size=64, seed=2) for n in (2, 4))
    assert all(np.array_equal(a.image, b.image) for a, b in zip(few.images, more.images[:4], strict=True))
    pictures = {tissue.image.tobytes() for tissue in more.images}
    assert len(pictures) == 8
    assert not list(tmp_path.iterdir())


def test_truth_orders_the_grades_of_a_cohort() -> None:
    cohort = synthetic_cohort(n_patients=8, images_per_patient=1, size=256)
    for name in ("density", "area", "pleomorphism", "disorder"):
        values = np.array([getattr(tissue.truth, name) for tissue in cohort.images])
        assert values[1::2].min() > values[::2].max()


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("")
    with pytest.raises(InputError, match="folder"):
        synthetic_cohort(tmp_path / "there", n_patients=1, images_per_patient=1, size=32)


@pytest.mark.parametrize("wrong", [{"n_patients": 0}, {"images_per_patient": 2.5}, {"seed": -3}, {"size": "large"}])
def test_an_impossible_cohort_is_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match="came"):
        synthetic_cohort(**wrong)
