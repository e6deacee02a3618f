"""A small canvas for SVG inside a page: axes, lines, areas and points; colours are classes of its style sheet."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

from streamcal.app.prepared import Axis, cut

Point = tuple[float, float]
#: The size of a canvas, in units of a CSS pixel on a telephone, where it fills the width.
WIDTH, HEIGHT = 360, 290
LEFT, RIGHT, TOP, BOTTOM = 60, 12, 10, 38
#: Space between two ticks of the y axis.
APART = 26
#: The height of a line of text.
LINE = 12
#: The width of a character of a tick, and the space between two ticks of the x axis.
CHARACTER, BETWEEN = 6.3, 3


class Canvas:
    """A picture with two axes, in the rectangle of the canvas between `top` and `bottom`.

    Examples
    --------
    >>> canvas = Canvas(Axis(0.0, 1.0), Axis(0.0, 1.0))
    >>> canvas.line([(0.0, 0.0), (1.0, 1.0)], "diagonal")
    >>> canvas.parts
    ['<path class="diagonal" d="M60 252L348 10"/>']
    """

    def __init__(
        self, x: Axis, y: Axis, *, top: float = TOP, bottom: float = HEIGHT - BOTTOM, names: Sequence[str] = ()
    ) -> None:
        self.x, self.y = x, y
        self._top, self._bottom = top, bottom
        self._names = [cut(name) for name in names]
        self._left = max(LEFT, 10 + CHARACTER * max(map(len, self._names), default=0))
        self.parts: list[str] = []

    def across(self, value: float) -> float:
        """Return the position of a value on the x axis."""
        return self._left + self.x.place(value) * (WIDTH - self._left - RIGHT)

    def up(self, value: float) -> float:
        """Return the position of a value on the y axis."""
        return self._bottom - self.y.place(value) * (self._bottom - self._top)

    def axes(self, below: str, beside: str, *, lines: bool = True) -> None:
        """Draw ticks with their values, faint lines, and the names of the axes."""
        for tick in self.x.ticks():
            place = _number(self.across(tick))
            if lines:
                self.parts.append(f'<path class="grid" d="M{place} {_number(self._top)}V{_number(self._bottom)}"/>')
        if below:
            self._ticks_below()
        above = -math.inf
        for tick in reversed(self.y.ticks(max(int((self._bottom - self._top) / APART), 1))):
            height = self.up(tick)
            self.parts.append(f'<path class="grid" d="M{LEFT} {_number(height)}H{WIDTH - RIGHT}"/>')
            if height - above >= LINE:
                self._text(self.y.text(tick), LEFT - 5, height + 4, "tick", "end")
                above = height
        self._below(below)
        middle = _number((self._top + self._bottom) / 2)
        self.parts.append(
            f'<text class="label" text-anchor="middle" transform="translate(11 {middle})rotate(-90)">'
            f"{escape(beside)}</text>"
        )

    def rows(self, below: str) -> None:
        """Draw the x axis, and instead of a y axis the name of each row, the i-th at the height −i."""
        for tick in self.x.ticks():
            place = _number(self.across(tick))
            self.parts.append(f'<path class="grid" d="M{place} {_number(self._top)}V{_number(self._bottom)}"/>')
        self._ticks_below()
        self._below(below)
        for row, name in enumerate(self._names, 1):
            self._text(name, self._left - 5, self.up(-row) + 4, "tick", "end")

    def _ticks_below(self) -> None:
        """Write the values of the x axis from the last one on, without those that would touch the next one."""
        end = float(WIDTH)
        for tick in reversed(self.x.ticks()):
            half = 0.5 * CHARACTER * len(text := self.x.text(tick))
            middle = min(self.across(tick), WIDTH - half)
            if middle + half <= end:
                self._text(text, middle, self._bottom + 14, "tick", "middle")
                end = middle - half - BETWEEN

    def _below(self, text: str) -> None:
        if text:
            middle = min((self._left + WIDTH - RIGHT) / 2, WIDTH - 0.5 * CHARACTER * len(text))
            self._text(text, middle, self._bottom + 31, "label", "middle")

    def line(self, points: Sequence[Point], css: str) -> None:
        """Draw a line through points."""
        if points:
            self.parts.append(f'<path class="{css}" d="{self._path(points)}"/>')

    def area(self, upper: Sequence[Point], lower: Sequence[Point], css: str) -> None:
        """Fill the area between two lines."""
        if upper and lower:
            self.parts.append(f'<path class="{css}" d="{self._path([*upper, *reversed(lower)])}Z"/>')

    def steps(self, edges: Sequence[float], values: Sequence[float], css: str) -> None:
        """Draw a histogram as an area."""
        points = [(edge, value) for i, value in enumerate(values) for edge in edges[i : i + 2]]
        base = self.y.low
        self.area(points, [(points[0][0], base), (points[-1][0], base)] if points else [], css)

    def dots(self, points: Iterable[tuple[float, float, float]], css: str) -> None:
        """Draw circles: x, y and the radius."""
        for x, y, radius in points:
            place = f'cx="{_number(self.across(x))}" cy="{_number(self.up(y))}"'
            self.parts.append(f'<circle class="{css}" {place} r="{_number(radius)}"/>')

    def marks(self, places: Iterable[float], row: int, css: str) -> None:
        """Draw short vertical marks at the top, in one of several rows."""
        top = self._top + 7 * row
        for place in places:
            self.parts.append(f'<path class="{css}" d="M{_number(self.across(place))} {_number(top)}v6"/>')

    def _text(self, text: str, x: float, y: float, css: str, anchor: str) -> None:
        place = f'x="{_number(x)}" y="{_number(y)}"'
        self.parts.append(f'<text class="{css}" {place} text-anchor="{anchor}">{escape(text)}</text>')

    def _path(self, points: Iterable[Point]) -> str:
        return "M" + "L".join(f"{_number(self.across(x))} {_number(self.up(y))}" for x, y in points)


def drawing(canvases: Sequence[Canvas], description: str) -> str:
    """Return the picture, with its description for readers who cannot see it."""
    body = "".join(part for canvas in canvases for part in canvas.parts)
    cursor = f'<path class="cursor" d="M0 {TOP}V{HEIGHT - BOTTOM}" hidden="hidden"/>'
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(description)}">{body}{cursor}</svg>'


def _number(value: float) -> str:
    """Write a coordinate to a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0")
