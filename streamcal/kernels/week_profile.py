# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""A profile of the week that moves in steps: offsets in log-odds, by the half-hour.

For each half-hour of the week it sums, with forgetting, what labels y say of an offset m beside log-odds b: with p =
σ(b + m) and h = p(1 − p),

    H = Σ w·h,    E = Σ w·(y − p + h·m),    so that ln likelihood(m) ≈ E·m − H·m²/2.

At looks, ever fewer of them, the profile is computed again. All days are alike, or some days in a row are one kind and
the others another: one, two or three such days, at any place in the week. Each kind has offsets that are constant
between cuts, each half-hour having a cut with the same probability, and an offset of a segment is N(0, s²). With the
sums H and E of a segment its evidence is

    exp(½ E²/(H + 1/s²)) / √(1 + s²H),

and the evidence of all ways to cut a day follows by recursion over where the last segment begins (Fearnhead,
Statistics and Computing 16, 2006). The kinds of days are those of the largest evidence, with cuts at full hours; the
profile is the mean over all ways to cut at half-hours.

Fields and C signatures are in `week_profile.pxd`.
"""

import cython

if not cython.compiled:
    import math

    exp, floor, log, sqrt = math.exp, math.floor, math.log, math.sqrt
else:
    from cython.cimports.libc.math import exp, floor, log, sqrt

import numpy as np

CELL = cython.declare(cython.double, 1800.0)
"""Seconds in a half-hour."""
DAYS = cython.declare(cython.Py_ssize_t, 7)
CELLS = cython.declare(cython.Py_ssize_t, 48)
"""Half-hours in a day."""
HOURS = cython.declare(cython.Py_ssize_t, 24)
WEEK = cython.declare(cython.double, 336.0)
"""Half-hours in a week."""
LONGEST_RUN = cython.declare(cython.Py_ssize_t, 3)
"""Days in a row that may be of another kind than the rest, at most."""
KINDS = cython.declare(cython.double, 21.0)
"""So many ways are there to have days of two kinds; they and days of one kind are equally probable beforehand."""
CUTS = cython.declare(cython.double, 2.4)
"""Cuts expected in a day."""
VARIANCE = cython.declare(cython.double, 0.5)
"""s²."""
FURTHEST = cython.declare(cython.double, 4.0)
"""Offsets stay within ± this."""
SELDOM = cython.declare(cython.longlong, 4096)
"""Observations between two looks, at most; else a quarter of those that were learned."""
LEAST = cython.declare(cython.double, -1e308)
"""Below every log-evidence."""


@cython.final
@cython.cclass
class WeekProfile:
    """The profile; `learned` is the number of observations it has learned.

    Parameters
    ----------
    keep : float
        What an observation keeps of earlier ones.
    least : int
        Observations before the first look, and between two.

    Notes
    -----
    O(1) to learn; a look takes O(43·24² + 2·48²), a seventh of a millisecond.
    """

    def __init__(self, keep: cython.double, least: cython.longlong):
        self._keep, self._least, self._due, self.learned = keep, least, least, 0
        self._unit = 1.0
        self._curvature, self._slope, self._offset = np.zeros((3, DAYS * CELLS))
        self._h, self._e, self._terms = np.zeros((3, CELLS + 1))
        self._before, self._after = np.zeros((2, CELLS + 1))
        self._of_runs = np.zeros((DAYS, DAYS))

    def cell(self, t):
        """The half-hour of the week of a time in seconds, from the beginning of 1970 on."""
        half: cython.double = floor(t / CELL)
        place: cython.double = half - WEEK * floor(half / WEEK)
        return cython.cast(cython.Py_ssize_t, place) if 0.0 <= place < WEEK else 0  # of huge times nothing is known

    def at(self, t):
        """The offset at a time."""
        return self._offset[self.cell(t)]

    def learn(self, t, h, e):
        """Add w·h and w·(y − p + h·m) of an observation; look if it is time."""
        place: cython.Py_ssize_t = self.cell(t)
        self._unit /= self._keep
        self._curvature[place] += self._unit * h
        self._slope[place] += self._unit * e
        self.learned += 1
        self._due -= 1
        if self._due <= 0:
            self._due = min(max(self._least, self.learned // 4), SELDOM)
            self._look()

    def _look(self):
        """Compute the profile again, from sums in the unit 1."""
        k: cython.Py_ssize_t
        first: cython.Py_ssize_t
        days: cython.Py_ssize_t
        best: cython.double
        found: cython.double
        start: cython.Py_ssize_t = 0
        run: cython.Py_ssize_t = 0
        for k in range(DAYS * CELLS):
            self._curvature[k] /= self._unit
            self._slope[k] /= self._unit
        self._unit = 1.0
        for first in range(DAYS):
            for days in range(1, DAYS):
                self._gather(first, days, HOURS)
                self._of_runs[first, days] = self._evidence(self._before, HOURS)
        self._gather(0, DAYS, HOURS)
        best = self._evidence(self._before, HOURS) + log(KINDS)
        for first in range(DAYS):
            for days in range(1, LONGEST_RUN + 1):
                found = self._of_runs[first, days] + self._of_runs[(first + days) % DAYS, DAYS - days]
                if found > best:
                    best, start, run = found, first, days
        if run > 0:
            self._set(start, run)
        self._set((start + run) % DAYS, DAYS - run)

    def _gather(self, first, days, bins):
        """Set the sums of H and E before each bin of the day, over so many days from one on."""
        k: cython.Py_ssize_t
        d: cython.Py_ssize_t
        at: cython.Py_ssize_t
        place: cython.Py_ssize_t
        cells: cython.Py_ssize_t = CELLS // bins
        self._h[0] = self._e[0] = 0.0
        for k in range(bins):
            self._h[k + 1], self._e[k + 1] = self._h[k], self._e[k]
            for d in range(first, first + days):
                at = (d % DAYS) * CELLS + cells * k
                for place in range(at, at + cells):
                    self._h[k + 1] += self._curvature[place]
                    self._e[k + 1] += self._slope[place]

    def _evidence(self, out, bins):
        """Set out[j] to the log-evidence of what is before bin j; that of all bins."""
        i: cython.Py_ssize_t
        j: cython.Py_ssize_t
        e: cython.double
        best: cython.double
        total: cython.double
        uncut: cython.double = log(1.0 - CUTS / bins)
        cut: cython.double = log(CUTS / bins) - uncut
        out[0] = 0.0
        for j in range(1, bins + 1):
            best = LEAST
            for i in range(j):
                e = self._e[j] - self._e[i]
                self._terms[i] = out[i] + (cut if i > 0 else 0.0) + 0.5 * e * e / (self._between(i, j) + 1.0 / VARIANCE)
                best = max(best, self._terms[i])
            total = 0.0
            for i in range(j):
                total += exp(self._terms[i] - best) / sqrt(1.0 + VARIANCE * self._between(i, j))
            out[j] = best + log(total)
        return out[bins] + (bins - 1) * uncut

    def _between(self, i, j):
        """H of a segment; rounding may make it negative."""
        return max(self._h[j] - self._h[i], 0.0)

    def _set(self, first, days):
        """Set the offsets of these days to the mean over all ways to cut them."""
        i: cython.Py_ssize_t
        j: cython.Py_ssize_t
        h: cython.double
        e: cython.double
        mean: cython.double
        weight: cython.double
        cut: cython.double = log(CUTS / CELLS) - log(1.0 - CUTS / CELLS)
        self._gather(first, days, CELLS)
        self._evidence(self._before, CELLS)
        self._turn_round()
        self._evidence(self._after, CELLS)
        self._turn_round()
        for j in range(CELLS + 1):
            self._terms[j] = 0.0  # by how much the offsets grow there
        for j in range(1, CELLS + 1):
            for i in range(j):
                h, e = self._between(i, j), self._e[j] - self._e[i]
                mean = e / (h + 1.0 / VARIANCE)
                weight = self._before[i] + self._after[CELLS - j] - self._before[CELLS] + 0.5 * e * mean
                weight += (cut if i > 0 else 0.0) + (cut if j < CELLS else 0.0)
                mean *= exp(min(weight, 700.0)) / sqrt(1.0 + VARIANCE * h)
                self._terms[i] += mean
                self._terms[j] -= mean
        mean = 0.0
        for j in range(CELLS):
            mean += self._terms[j]
            for i in range(first, first + days):
                self._offset[(i % DAYS) * CELLS + j] = min(max(mean, -FURTHEST), FURTHEST)

    def _turn_round(self):
        """Let the day go backwards, in the sums before each half-hour."""
        j: cython.Py_ssize_t
        h: cython.double = self._h[CELLS]
        e: cython.double = self._e[CELLS]
        for j in range(CELLS // 2 + 1):
            self._h[j], self._h[CELLS - j] = h - self._h[CELLS - j], h - self._h[j]
            self._e[j], self._e[CELLS - j] = e - self._e[CELLS - j], e - self._e[j]

    def state(self):
        """H, E and the offsets of all half-hours; the unit of H and E; when the next look is due; `learned`."""
        sums = [np.asarray(self._curvature).tolist(), np.asarray(self._slope).tolist()]
        return [*sums, np.asarray(self._offset).tolist(), float(self._unit), [int(self._due), int(self.learned)]]

    def load(self, curvature, slope, offset, unit, counts):
        """Load an earlier `state`."""
        np.asarray(self._curvature)[:], np.asarray(self._slope)[:] = curvature, slope
        np.asarray(self._offset)[:] = offset
        self._unit = unit
        self._due, self.learned = counts
