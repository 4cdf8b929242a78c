"""Growth curves as SVG: log-log, a line for each kind of work, its fitted exponent before its name."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape

WIDTH, PLOT, HEIGHT, LEFT, TOP, BOTTOM = 900, 430, 380, 64, 16, 44
COLOURS = ("#3949ab", "#d81b60", "#00897b", "#f4511e", "#8e24aa", "#6d4c41", "#1e88e5", "#7cb342", "#fb8c00", "#546e7a")
MOST = len(COLOURS)


@dataclass(frozen=True)
class Curve:
    """Seconds at sizes."""

    name: str
    sizes: tuple[float, ...]
    seconds: tuple[float, ...]
    exponent: float


def drawn(curves: list[Curve], along: str, up: str = "seconds") -> str:
    """An SVG of at most MOST curves."""
    curves = curves[:MOST]
    x = _decades([size for curve in curves for size in curve.sizes])
    y = _decades([second for curve in curves for second in curve.seconds])
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="12"><rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>'
    ]
    parts += _axes(x, y, along, up)
    for number, curve in enumerate(curves):
        parts += _line(curve, COLOURS[number], x, y, number)
    return "\n".join([*parts, "</svg>", ""])


def _decades(values: list[float]) -> tuple[int, int]:
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def _x(value: float, span: tuple[int, int]) -> float:
    return LEFT + (math.log10(value) - span[0]) / (span[1] - span[0]) * PLOT


def _y(value: float, span: tuple[int, int]) -> float:
    height = HEIGHT - TOP - BOTTOM
    return TOP + height - (math.log10(value) - span[0]) / (span[1] - span[0]) * height


def _axes(x: tuple[int, int], y: tuple[int, int], along: str, up: str) -> list[str]:
    parts = []
    for power in range(x[0], x[1] + 1):
        at = _x(10.0**power, x)
        parts.append(f'<path d="M{at:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#ddd"/>')
        parts.append(f'<text x="{at:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{_power(power)}</text>')
    for power in range(y[0], y[1] + 1):
        at = _y(10.0**power, y)
        parts.append(f'<path d="M{LEFT} {at:.1f}H{LEFT + PLOT}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{_power(power)}</text>')
    middle = TOP + (HEIGHT - TOP - BOTTOM) / 2
    parts.append(f'<text x="{LEFT + PLOT / 2:.0f}" y="{HEIGHT - 8}" text-anchor="middle">{escape(along)}</text>')
    turned = f'text-anchor="middle" transform="rotate(-90 14 {middle:.0f})"'
    parts.append(f'<text x="14" y="{middle:.0f}" {turned}>{escape(up)}</text>')
    return parts


def _power(power: int) -> str:
    return f'10<tspan dy="-5" font-size="9">{power}</tspan>' if not 0 <= power <= 3 else str(10**power)


def _line(curve: Curve, colour: str, x: tuple[int, int], y: tuple[int, int], number: int) -> list[str]:
    points = [(_x(a, x), _y(b, y)) for a, b in sorted(zip(curve.sizes, curve.seconds, strict=True))]
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
    dots = "".join(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in points)
    at = TOP + 14 + 24 * number
    name = f"{curve.exponent:.2f} {curve.name}"
    return [
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>{dots}',
        f'<path d="M{LEFT + PLOT + 14} {at - 4}h16" stroke="{colour}" stroke-width="3"/>'
        f'<text x="{LEFT + PLOT + 36}" y="{at}" font-size="11">{escape(name)}</text>',
    ]
