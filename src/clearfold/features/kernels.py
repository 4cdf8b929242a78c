"""Small loops that numba compiles where it is installed; everything has a numpy path that gives the same numbers.

A kernel, here or in `walks`, is plain Python; `compiled` gives its machine code (see clearfold.compiled).
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from clearfold.compiled import compiled as compiled

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]


def harmonics(
    start: Integers, y: Integers, x: Integers, straight: NDArray[np.bool_], row: Floats, column: Floats, order: int
) -> tuple[Floats, Floats, Floats]:
    """Fourier sums of x, y and the distance from (row, column) along each outline: cosine, sine; and mean distance.

    Outlines are in doubled coordinates; the sums are (objects, 3, order), as in `clearfold.features.fourier`.
    """
    count, diagonal = len(start) - 1, np.sqrt(0.5)
    real, imaginary, mean = np.zeros((count, 3, order)), np.zeros((count, 3, order)), np.zeros(count)
    ck, sk = np.empty(order), np.empty(order)
    for i in range(count):
        begin, end, ahead = start[i], start[i + 1], 0
        for p in range(begin, end):
            ahead += straight[p]
        length = ahead + diagonal * (end - begin - ahead)
        straight_c, straight_s = np.cos(2 * np.pi / length), np.sin(2 * np.pi / length)
        diagonal_c, diagonal_s = np.cos(2 * np.pi * diagonal / length), np.sin(2 * np.pi * diagonal / length)
        c, s = 1.0, 0.0
        p = end - 1
        here_y, here_x = y[p] / 2, x[p] / 2
        here = np.sqrt((here_y - row[i]) ** 2 + (here_x - column[i]) ** 2)
        slope_y, slope_x, slope, before = 0.0, 0.0, 0.0, 0.0
        ahead = 0
        for p in range(begin - 1, end):  # from the last point on: its slope comes before the first one's
            q = p + 1 if p + 1 < end else begin
            step = 1.0 if straight[p if p >= begin else end - 1] else diagonal
            next_y, next_x = y[q] / 2, x[q] / 2
            there = np.sqrt((next_y - row[i]) ** 2 + (next_x - column[i]) ** 2)
            new_y, new_x, new = (next_y - here_y) / step, (next_x - here_x) / step, (there - here) / step
            if p >= begin:
                if (p - begin) % 32 == 0:  # between, the angle is turned on: cheaper, and 32 roundings do not matter
                    phase = 2 * np.pi * (ahead + diagonal * (p - begin - ahead)) / length
                    c, s = np.cos(phase), np.sin(phase)
                ck[0], sk[0] = c, s
                for k in range(1, order):
                    ck[k], sk[k] = ck[k - 1] * c - sk[k - 1] * s, ck[k - 1] * s + sk[k - 1] * c
                jump_x, jump_y, jump = slope_x - new_x, slope_y - new_y, slope - new
                for k in range(order):
                    real[i, 0, k] += jump_x * ck[k]
                    imaginary[i, 0, k] += jump_x * sk[k]
                    real[i, 1, k] += jump_y * ck[k]
                    imaginary[i, 1, k] += jump_y * sk[k]
                    real[i, 2, k] += jump * ck[k]
                    imaginary[i, 2, k] += jump * sk[k]
                mean[i] += here * (step + before) / 2
                ahead += straight[p]
                turn_c, turn_s = (straight_c, straight_s) if straight[p] else (diagonal_c, diagonal_s)
                c, s = c * turn_c - s * turn_s, c * turn_s + s * turn_c
            slope_y, slope_x, slope, before = new_y, new_x, new, step
            here_y, here_x, here = next_y, next_x, there
        mean[i] /= length
    return real, imaginary, mean


def pairs(
    cells: NDArray[np.int32],
    grey: NDArray[np.uint8],
    owner: NDArray[np.int32],
    first: Integers,
    length: Integers,
    offsets: Integers,
    count: int,
    levels: int,
) -> Floats:
    """What Haralick's measures need of the co-occurrences of each object at each offset (see cooccurrence).

    grey : levels 1..levels; owner, first, length : the runs of pixels, ordered by object
    """
    tally = np.zeros((count, len(offsets), 11))
    joint = np.zeros((levels + 1, levels + 1), np.int64)
    known = np.arange(2048) * np.log2(np.maximum(np.arange(2048), 1))  # n log2 n
    sums, gaps, single = np.zeros(2 * levels + 1, np.int64), np.zeros(levels, np.int64), np.zeros(levels + 1, np.int64)
    begin = 0
    while begin < len(first):
        end = begin
        while end < len(first) and owner[end] == owner[begin]:
            end += 1
        label = owner[begin] + 1
        for way in range(len(offsets)):
            for run in range(begin, end):
                i, j = first[run], first[run] + offsets[way]
                there, own, other = cells[j : j + length[run]], grey[i : i + length[run]], grey[j : j + length[run]]
                for k in range(len(there)):
                    joint[own[k], other[k]] += there[k] == label  # added even if 0: faster than a question
            total, squares, logs, alike = 0, 0, 0.0, 0.0
            for low in range(1, levels + 1):
                for high in range(low, levels + 1):
                    n = joint[low, high] + joint[high, low]
                    if n:
                        twice = 1 if low == high else 2
                        joint[low, high], joint[high, low] = 0, 0
                        total += twice * n
                        squares += twice * n * n
                        logs += twice * (known[n] if n < 2048 else n * np.log2(n))
                        sums[low + high] += twice * n
                        gaps[high - low] += twice * n
                        single[low] += n
                        if twice == 2:
                            single[high] += n
            own_tally = tally[label - 1, way]
            own_tally[0], own_tally[1], own_tally[2] = total, squares, logs
            for k in range(len(sums)):
                n = sums[k]
                if n:
                    own_tally[3] += known[n] if n < 2048 else n * np.log2(n)
                    own_tally[6] += k * n
                    own_tally[7] += k * k * n
                    sums[k] = 0
            for k in range(levels):
                n = gaps[k]
                if n:
                    own_tally[4] += known[n] if n < 2048 else n * np.log2(n)
                    own_tally[8] += k * n
                    own_tally[9] += k * k * n
                    alike += n / (1.0 + k * k)
                    gaps[k] = 0
                n = single[k + 1]
                if n:
                    own_tally[5] += known[n] if n < 2048 else n * np.log2(n)
                    single[k + 1] = 0
            own_tally[10] = alike
        begin = end
    return tally
