"""Where the constants of `segment_nuclei` come from, and how good it is: `python -m benchmarks.learn_nuclei DATA`.

DATA holds nuclei_gbm40 (40 tiles of glioblastoma) and nuclei_ucsb26 (26 breast images). Images are sorted by name and
counted from 1: odd ones are learned from, even ones are reported (`--report`). Neither set states its
scale: both are taken as 40x, 0.25 um a pixel. In UCSB only a part of each image was annotated: found nuclei
whose centre lies outside of the convex hull of the annotated ones do not count, and
touching nuclei are one object there, connected parts of the mask.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from PIL import Image
from sklearn.linear_model import Ridge

from clearfold.objects import Objects, match, segment_nuclei
from clearfold.objects import nuclei as settings
from clearfold.objects.candidates import SEEN, Candidates, find_candidates

MPP = 0.25
MEASURES = ["f1", "precision", "recall", "pq", "sq", "aji", "dice"]


@dataclass(frozen=True)
class Case:
    source: str
    name: str
    pixels: np.ndarray
    truth: Objects
    region: np.ndarray


def cases(data: Path, odd: bool) -> Iterator[Case]:
    from skimage.morphology import convex_hull_image

    for source, masks in (("gbm40", "labels"), ("ucsb26", "masks")):
        for number, path in enumerate(sorted((data / f"nuclei_{source}" / "images").iterdir()), start=1):
            if number % 2 != odd:
                continue
            mask = next((data / f"nuclei_{source}" / masks).glob(path.stem.removesuffix("_ccd") + ".*"))
            values = np.asarray(Image.open(mask))
            truth = Objects.from_labels(values if values.ndim == 2 else values[:, :, 0] >= 128, MPP)
            everywhere = np.ones(truth.shape, dtype=bool)
            region = everywhere if source == "gbm40" else convex_hull_image(truth.labels > 0)
            yield Case(source, path.stem, np.asarray(Image.open(path)), truth, region)


def within(found: Objects, region: np.ndarray) -> Objects:
    x, y = np.rint(found.centroids).astype(int).T
    return found.select(region[y, x])


def report(data: Path, odd: bool, mpp: float = MPP) -> pd.DataFrame:
    def one(case: Case) -> dict[str, object]:
        found = within(segment_nuclei(case.pixels, mpp=mpp), case.region)
        return {"set": case.source, "name": case.name, **asdict(match(case.truth, found))}

    rows = Parallel(2)(delayed(one)(case) for case in cases(data, odd))
    return pd.DataFrame(rows)


def overlaps(case: Case) -> tuple[str, Candidates, np.ndarray, np.ndarray, tuple[int, ...], Case]:
    """The candidates of an image, the best IoU of each with a true nucleus, and which of them lie in the region."""
    channel = settings.nuclear_channel(settings.resized(case.pixels, MPP / settings.WORKING_MPP))
    rows, columns = (
        np.minimum(((np.arange(small) + 0.5) * large / small).astype(int), large - 1)
        for small, large in zip(channel.shape, case.truth.shape, strict=True)
    )
    truth, region = case.truth.labels[np.ix_(rows, columns)], case.region[np.ix_(rows, columns)]
    areas = np.bincount(truth.ravel(), minlength=len(case.truth) + 1)
    found = find_candidates(channel, settings.WORKING_MPP, (6.0, 255.0), settings.DIP, settings.OPENING, settings.HOLE)
    best, inside = np.zeros(len(found.masks)), np.zeros(len(found.masks), dtype=bool)
    for i, (place, mask) in enumerate(zip(found.places, found.masks, strict=True)):
        shared = np.bincount(truth[place][mask], minlength=len(areas))
        best[i] = (shared[1:] / (areas[1:] + mask.sum() - shared[1:])).max(initial=0)
        inside[i] = region[place][mask].mean() > 0.5
    return case.source, found, best, inside, channel.shape, case


def learn(parts: list) -> tuple[float, dict[str, tuple[float, float, float, float]]]:
    """Ridge regression of the best IoU on z and z^2; both sets weigh the same."""
    seen = np.vstack([found.seen[inside] for _, found, _, inside, _, _ in parts])
    best = np.concatenate([best[inside] for _, _, best, inside, _, _ in parts])
    source = np.concatenate([[name] * int(inside.sum()) for name, _, _, inside, _, _ in parts])
    weight = 1 / pd.Series(source).map(pd.Series(source).value_counts())
    low, high = np.round(np.percentile(seen, [1, 99], axis=0), 3)
    z = 2 * (np.clip(seen, low, high) - low) / (high - low) - 1
    fitted = Ridge(1.0).fit(np.hstack([z, z**2]), best, sample_weight=weight / weight.mean())
    linear, square = np.round(fitted.coef_.reshape(2, -1), 3)
    columns = zip(low.tolist(), high.tolist(), linear.tolist(), square.tolist(), strict=True)
    return round(float(fitted.intercept_), 3), dict(zip(SEEN, columns, strict=True))


def cross_validate(parts: list, leasts: tuple[float, ...], folds: int = 4) -> pd.DataFrame:
    """What images get that were not learned from, within the odd half."""
    rows = []
    for fold in range(folds):
        settings.BASE, settings.WEIGHTS = learn([part for i, part in enumerate(parts) if i % folds != fold])
        for source, found, _, _, shape, case in parts[fold::folds]:
            for least in leasts:
                labels = settings.best_apart(found, settings.quality(found.seen), least, shape)
                objects = Objects.from_labels(settings.enlarged(labels, case.truth.shape), MPP)
                rows.append({"set": source, "least": least, **asdict(match(case.truth, within(objects, case.region)))})
    return pd.DataFrame(rows).groupby(["set", "least"])[MEASURES].mean()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument(
        "--report", action="store_true", help="figures of the even half, with the constants as they are"
    )
    options = parser.parse_args()
    if options.report:
        print(report(options.data, odd=False).groupby("set")[MEASURES].mean().round(3).to_string())
        return
    parts = Parallel(2)(delayed(overlaps)(case) for case in cases(options.data, odd=True))
    print(cross_validate(parts, (0.36, 0.4, 0.44)).round(3).to_string())
    base, weights = learn(parts)
    print("BASE =", base)
    for name, numbers in weights.items():
        print(f'    "{name}": {numbers},')


if __name__ == "__main__":
    main()
