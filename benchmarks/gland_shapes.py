"""Which distance of contours finds glands of the same grade? `python -m benchmarks.gland_shapes FOLDER/glas`.

Constants of the distances were chosen on the patients with odd numbers only. The table shows them, the other half
(never looked at before), all glands, and all glands that the border of the image does not cut.
"""

import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image
from scipy.spatial import ConvexHull

from clearfold.evaluate import retrieval
from clearfold.features.contours import METHODS, shape_distances
from clearfold.objects import Objects


def glands(folder: Path) -> tuple[list[np.ndarray], pd.DataFrame]:
    """The contour of every gland, and its grade, patient and whether the border of the image cuts it."""
    contours, about = [], []
    for row in pd.read_csv(folder / "glas_labels.csv").itertuples():
        objects = Objects.from_labels(np.array(Image.open(folder / "masks" / f"{row.name}.png")), kind="gland")
        height, width = objects.labels.shape
        for contour in objects.contours:
            whole = contour.min() >= 0 and contour[:, 0].max() <= width - 1 and contour[:, 1].max() <= height - 1
            contours.append(contour)
            about.append((row.grade, row.patient, whole))
    return contours, pd.DataFrame(about, columns=["grade", "patient", "whole"])


def solidity(contours: list[np.ndarray]) -> np.ndarray:
    """Area / area of the convex hull: one number to beat."""
    areas = [abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2 for x, y in (contour.T for contour in contours)]
    return np.array(areas) / [ConvexHull(contour).volume for contour in contours]


def main(folder: Path) -> None:
    contours, about = glands(folder)
    odd = (about["patient"] % 2 == 1).to_numpy()
    parts = {"design": odd, "held out": ~odd, "all": odd | True, "whole": about["whole"].to_numpy()}
    values = {"random order": np.random.default_rng(0).normal(size=len(contours)), "solidity alone": solidity(contours)}
    tables = {name: (lambda of=of: np.abs(np.subtract.outer(of, of))) for name, of in values.items()}
    tables |= {method: (lambda method=method: shape_distances(contours, method)) for method in METHODS}
    tables |= {"concavity, size=0.25": lambda: shape_distances(contours, size=0.25)}
    for name, make in tables.items():
        begin = time.perf_counter()
        table = make()
        seconds = time.perf_counter() - begin
        cells = []
        for part, mask in parts.items():
            found = retrieval(
                table[np.ix_(mask, mask)],
                about["grade"][mask],
                groups=about["patient"][mask],
                metric="precomputed",
                measure="average_precision",
            )
            span = f"[{found['micro_low']:.3f}, {found['micro_high']:.3f}]"
            cells.append(f"{part} {found['micro']:.3f} {span} ({found['chance_micro']:.3f}) macro {found['macro']:.3f}")
        print(f"{name} ({seconds:.1f} s): " + "; ".join(cells), flush=True)
    print({part: int(mask.sum()) for part, mask in parts.items()})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
