"""Kernels that walk round objects: along their borders and round their hulls (see `kernels`).

They do what `outlines` and `hulls` do in numpy for all objects at once, for one object after the other.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]


def edges(
    cells: NDArray[np.int32],
    width: int,
    boxes: Integers,
    start: Integers,
    row: Integers,
    column: Integers,
    length: Integers,
) -> tuple[Integers, Integers]:
    """For each object the number of sides that face up, and of border pixels by their code (see outlines).

    boxes : top, left, bottom, right of each object, as rows; start : the first run of each object, and after the last
    """
    count = boxes.shape[1]
    up, codes = np.zeros(count, np.int64), np.zeros((count, 50), np.int64)
    marked = np.zeros(((boxes[2] - boxes[0] + 2) * (boxes[3] - boxes[1] + 2)).max(), np.bool_)
    for i in range(count):
        label, top, left, wide = i + 1, boxes[0, i] - 1, boxes[1, i] - 1, boxes[3, i] - boxes[1, i] + 2
        marked[: (boxes[2, i] - top + 1) * wide] = False  # border pixels of this object, in its box
        for run in range(start[i], start[i + 1]):  # slices spare the compiled code questions about negative indices
            first, size = row[run] * width + column[run], length[run]
            here = (row[run] - top) * wide + column[run] - left
            above, below = cells[first - width : first - width + size], cells[first + width : first + width + size]
            mark, faces = marked[here : here + size], 0
            for k in range(size):
                faces += above[k] != label
                mark[k] = (above[k] != label) | (below[k] != label)
            mark[0], mark[-1] = True, True
            up[i] += faces
        for run in range(start[i], start[i + 1]):
            here, size = (row[run] - top) * wide + column[run] - left - 1, length[run] + 2
            above, mark = marked[here - wide : here - wide + size], marked[here : here + size]
            below = marked[here + wide : here + wide + size]
            for k in range(1, size - 1):
                if mark[k]:
                    beside = mark[k - 1] + mark[k + 1] + above[k] + below[k]
                    across = above[k - 1] + above[k + 1] + below[k - 1] + below[k + 1]
                    codes[i, 1 + 2 * beside + 10 * across] += 1
    return up, codes


def trace(
    cells: NDArray[np.int32], width: int, boxes: Integers, up: Integers, sides: int
) -> tuple[Integers, Integers, Integers, NDArray[np.bool_], Integers, NDArray[np.bool_]]:
    """The outline of each object that encloses most: start, y, x, straight; and euler number, whether it is alone.

    boxes : top, left, bottom, right of each object, as rows; up : sides that face up; sides : all of them together
    """
    down_by, right_by = (
        np.array([-1, 0, 1, 0]),
        np.array([0, 1, 0, -1]),
    )  # outward of a side; of the next one it is the way onward
    count = len(up)
    seen = np.zeros(((boxes[2] - boxes[0]) * (boxes[3] - boxes[1])).max(), np.bool_)
    start, euler, alone = np.zeros(count + 1, np.int64), np.zeros(count, np.int64), np.ones(count, np.bool_)
    ys, xs, straight = np.empty(sides, np.int64), np.empty(sides, np.int64), np.empty(sides, np.bool_)
    at = 0
    for i in range(count):
        label, top, left, end, best = i + 1, boxes[0, i], boxes[1, i], at, 0
        wide, place, remaining = boxes[3, i] - left, 0, up[i]  # place : of a pixel in the box
        down, right = (top + boxes[2, i]) // 2 - top, (left + boxes[3, i]) // 2 - left  # to the middle of the box
        seen[: (boxes[2, i] - top) * wide] = False  # sides that face up and were walked along
        while remaining > 0:
            cell = (top + place // wide) * width + left + place % wide
            while cells[cell] != label or cells[cell - width] == label or seen[place]:
                place += 1
                cell = (top + place // wide) * width + left + place % wide
            here, side, turns, area, p = cell, 0, 0, 0, end
            y, x = 2 * (place // wide - down) - 1, 2 * (place % wide - right)
            while True:
                if side == 0:
                    seen[((y + 1) // 2 + down) * wide + x // 2 + right] = True
                    remaining -= 1
                ahead_y, ahead_x = down_by[(side + 1) % 4], right_by[(side + 1) % 4]
                out_y, out_x = down_by[side], right_by[side]
                ahead = here + ahead_y * width + ahead_x
                beyond = ahead + out_y * width + out_x
                ys[p], xs[p] = y, x
                if cells[beyond] == label:
                    turn, here, y, x = -1, beyond, y + ahead_y + out_y, x + ahead_x + out_x
                elif cells[ahead] == label:
                    turn, here, y, x = 0, ahead, y + 2 * ahead_y, x + 2 * ahead_x
                else:
                    turn, y, x = 1, y + ahead_y - out_y, x + ahead_x - out_x
                straight[p] = turn == 0
                area += xs[p] * y - x * ys[p]
                turns += turn
                side = (side + turn) % 4
                p += 1
                if here == cell and side == 0:
                    break
            euler[i] += turns // 4
            if end == at:
                end, best = p, area
            else:
                alone[i] = False
                if area > best or (area == best and p - end > end - at):
                    best = area
                    for k in range(p - end):
                        ys[at + k], xs[at + k], straight[at + k] = ys[end + k], xs[end + k], straight[end + k]
                    end = at + p - end
        at = end
        start[i + 1] = at
    return start, ys[:at], xs[:at], straight[:at], euler, alone


def bend(start: Integers, row: Integers, left: Integers, right: Integers) -> tuple[Integers, ...]:
    """Hulls of rows of pixels: start, y and x of their corners; first and last column inside of each row."""
    count, total = len(start) - 1, len(row)
    first, ys, xs = np.zeros(count + 1, np.int64), np.empty(6 * total, np.int64), np.empty(6 * total, np.int64)
    inside = np.empty((2, total), np.int64)
    at = 0
    for i in range(count):
        begin = at
        for side in range(2):
            base, sign = at, 1 - 2 * side
            above = start[i] - 2  # the row of the corners that came last
            for r in range(start[i], start[i + 1]):
                if left[r] > right[r]:
                    continue  # a row without pixels
                own = left[r] if side == 0 else -right[r]
                low = own
                if r + 1 < start[i + 1] and left[r + 1] <= right[r + 1]:
                    low = min(own, left[r + 1] if side == 0 else -right[r + 1])
                for part in range(-1 if above < r - 1 else 0, 2):
                    y, x = 2 * row[r] + part, 2 * own if part < 0 else (2 * own - 1 if part == 0 else 2 * low)
                    while at - base >= 2 and (xs[at - 1] - xs[at - 2]) * (y - ys[at - 2]) >= (x - xs[at - 2]) * (
                        ys[at - 1] - ys[at - 2]
                    ):
                        at -= 1
                    ys[at], xs[at] = y, x
                    at += 1
                above = r
            k = base
            for r in range(start[i], start[i + 1]):
                while ys[k + 1] < 2 * row[r]:
                    k += 1
                height = ys[k + 1] - ys[k]
                lean = (xs[k + 1] - xs[k]) * (2 * row[r] - ys[k]) + xs[k] * height
                inside[side, r] = -(-lean // (2 * height)) * sign
        # the right side was mirrored and goes down: turn it over, and leave out what both sides have
        middle = begin
        while middle + 1 < at and ys[middle + 1] > ys[middle]:
            middle += 1
        middle += 1
        for k in range((at - middle) // 2):
            ys[middle + k], ys[at - 1 - k] = ys[at - 1 - k], ys[middle + k]
            xs[middle + k], xs[at - 1 - k] = xs[at - 1 - k], xs[middle + k]
        for k in range(middle, at):
            xs[k] = -xs[k]
        if xs[at - 1] == xs[begin]:
            at -= 1
        if xs[middle - 1] == xs[middle]:
            for k in range(middle, at - 1):
                ys[k], xs[k] = ys[k + 1], xs[k + 1]
            at -= 1
        first[i + 1] = at
    return first, ys[:at], xs[:at], inside[0], inside[1]


def calipers(start: Integers, y: Integers, x: Integers) -> tuple[Floats, Floats]:
    """Largest distance of two corners of each hull and its smallest width, in the units of the corners."""
    count = len(start) - 1
    longest, narrowest = np.zeros(count), np.zeros(count)
    for i in range(count):
        furthest, least = 0, np.inf
        for a in range(start[i], start[i + 1]):
            b = a + 1 if a + 1 < start[i + 1] else start[i]
            dy, dx, widest = y[b] - y[a], x[b] - x[a], 0
            for c in range(start[i], start[i + 1]):
                down, along = y[c] - y[a], x[c] - x[a]
                furthest = max(furthest, down * down + along * along)
                widest = max(widest, abs(dx * down - dy * along))
            least = min(least, widest / np.sqrt(dy * dy + dx * dx))
        longest[i], narrowest[i] = np.sqrt(furthest), least
    return longest, narrowest
