# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The period of a cycle in errors, found online from their times.

Of the last `size` observations it keeps the times t and the errors e. At looks, ever fewer of them as more is held, it
computes the power of every frequency f over them,

    P(f) = |Σ h·(e − ē)·exp(2πi·f·t)|² / Σ h²·(e − ē)²,     h = sin²(π·(t − first)/span),

at half the distance 1/span of frequencies that can be told apart. Where errors are independent of one another, P(f) is
about exponential, with mean 1 (Lomb, Astrophysics and Space Science 39, 1976; Scargle, Astrophysical Journal 263,
1982); the window h of Hann keeps a strong cycle from appearing far from its own frequency. Times are rounded to cells
of about the mean gap, so that one fast Fourier transform has all powers. Errors that persist have more power at low
frequencies: powers are divided by their median in the octave, where that is above ln 2, the median of independent
errors.

A cycle that was found is followed: h and e give its phase at each look, and where phases turn steadily, the frequency
is off by as much.

Fields and C signatures are in `period_search.pxd`.
"""

import cython

if not cython.compiled:
    import math

    floor = math.floor
else:
    from cython.cimports.libc.math import floor

import numpy as np

SHORTEST, LONGEST = 1e-150, 1e150
"""Spans of time, in seconds, in which periods are searched."""
FAR = cython.declare(cython.double, 1e15)
"""So many turns from the reference the place in the cycle is lost to rounding."""
CYCLES = 3
"""A period is found that fits so often in the time of what is held,"""
GAPS = 4
"""and is as long as so many mean distances of two observations."""
BESIDE = 2
"""Nor do harmonics of the period found count, at so many steps on both sides."""
ALIKE = 0.9
"""Of powers that differ by less the lowest frequency is taken: at equally distant times some are the same."""
STRONGER = 2.0
"""Another period replaces the one that was found where its power is so many times larger."""
PHASES = 32
"""Looks whose phases are kept."""
SPARSE = cython.declare(cython.longlong, 64)
"""Observations between two looks, at least; else an eighth of what is held."""


def _mean(times):
    """The mean of times whose sum may be too large for a float."""
    return float(times[0] + (times - times[0]).mean())


@cython.final
@cython.cclass
class PeriodSearch:
    """The search. `frequency` is that of the period found, 0 before; `learned` the observations since it was.

    A period is found where its power exceeds ln(number of frequencies/`rate`), so that where there is no cycle one look
    in 1/`rate` finds one. Its frequency is corrected at each look; the place in the cycle then stays where it was at
    the mean time of what was learned since.

    Parameters
    ----------
    size : int
        Observations held.
    least : int
        Observations before the first look.
    rate : float
    covered : sequence of float
        Frequencies that need not be found.
    harmonics : int
        Nor do 2 to so many times the frequency that was found.

    Notes
    -----
    O(1) to add; a look, O(size·log(size)), at every 64th observation, and from 512 on at every eighth of what is held.
    """

    def __init__(self, *, size: cython.Py_ssize_t, least, rate, covered, harmonics):
        self._size, self._rate = size, rate
        self._covered, self._harmonics = list(covered), harmonics
        self._times, self._errors = np.zeros(size), np.zeros(size)
        self.held = self._next = 0
        self._due = least
        self.frequency = self._reference = self._turns = 0.0
        self.learned = 0
        self._phases = []

    def turns_at(self, t):
        """The place in the cycle at the time t, in [0, 1)."""
        turns: cython.double = self._turns + (t - self._reference) * self.frequency
        return turns - floor(turns) if abs(turns) < FAR else 0.0

    def add(self, t, error):
        """Add an observation; whether another period is found."""
        self._times[self._next], self._errors[self._next] = t, error
        self._next = self._next + 1 if self._next + 1 < self._size else 0
        self.held = min(self.held + 1, self._size)
        if self.frequency > 0.0:
            self.learned += 1
        self._due -= 1
        if self._due > 0:
            return False
        self._due = max(SPARSE, self.held // 8)
        return self._look()

    def _look(self):
        """Find a period, or follow the one that was found; whether another is found."""
        times, errors = self._in_order()
        span = float(times.max()) - float(times.min())
        if not SHORTEST < span < LONGEST:
            return False
        powers = self._powers(times, errors, span)
        self._level(powers)
        others = powers.copy()
        others[: 2 * CYCLES] = 0.0
        for frequency in self._covered:
            self._leave_out(others, 2.0 * span * frequency, 0)
        here, place = 0.0, 0
        if self.frequency > 0.0:
            for k in range(1, self._harmonics + 1):
                self._leave_out(others, 2.0 * span * k * self.frequency, BESIDE)
            at = 2.0 * span * self.frequency
            if 3.0 <= at < len(powers) - 4:
                place = self._highest(powers, round(at) - 2)
                here = float(powers[place])
        searched = int(np.count_nonzero(others))
        others[1:-1][powers[1:-1] < np.maximum(powers[:-2], powers[2:])] = 0.0  # slopes, of what is left out too
        best = float(others.max(initial=0.0))
        if searched and best >= max(np.log(searched / self._rate), STRONGER * here):
            place = int(np.flatnonzero(others >= ALIKE * best)[0])
            self.learned, self._phases = 0, []
            self._follow(times, errors, powers, place, span)
            return True
        if here >= np.log(1.0 / self._rate):
            self._follow(times, errors, powers, place, span)
        return False

    def _in_order(self):
        """Times and errors, the oldest first; new arrays."""
        order = (np.arange(self.held) + (self._next - self.held)) % self._size
        return np.asarray(self._times)[order], np.asarray(self._errors)[order]

    def _powers(self, times, errors, span):
        """P at the frequencies 0, ½, 1, … in units of 1/span, as far as a period has `GAPS` mean gaps."""
        number = len(times)
        cells = 1 << (number - 1).bit_length()
        tapered = self._tapered(times, errors, span)
        square = float(tapered @ tapered)
        place = np.minimum((times - times.min()) * (cells / span), cells - 1.0).astype(np.intp)
        sums = np.bincount(place, tapered, cells)
        found = np.fft.rfft(sums, 2 * cells)[: 2 * number // GAPS + 1]
        return (np.square(found.real) + np.square(found.imag)) / (square if square > 0.0 else 1.0)

    def _level(self, powers):
        """Divide the powers of each octave by their median, where that is above the one of independent errors, ln 2."""
        first, last = 2 * CYCLES, 8 * CYCLES
        while first < len(powers):
            powers[first:last] /= max(float(np.median(powers[first:last])) / np.log(2.0), 1.0)
            first, last = last, 2 * last

    def _leave_out(self, powers, at, beside):
        """Set the power at this place to 0, and those of so many places on both sides."""
        if at < len(powers) + beside:
            powers[max(round(at) - beside, 0) : round(at) + beside + 1] = 0.0

    def _highest(self, powers, first):
        """The place of the highest of five powers."""
        return first + int(np.argmax(powers[first : first + 5]))

    def _follow(self, times, errors, powers, place, span):
        """Correct the frequency: by the top of the powers, and by the slope of phases once they were seen for long."""
        middle = _mean(times)
        steady = len(self._phases) > 0 and abs(middle - self._phases[0][0]) >= 0.5 * span
        if not steady:
            self._change(self._top(powers, place) / (2.0 * span), times)
        if self.held < self._size:
            return  # the span of times still grows, and early phases are worth little
        tapered = self._tapered(times, errors, span)
        turns = self._turns + (times - self._reference) * self.frequency
        total = complex(tapered @ np.exp(2j * np.pi * (turns - np.floor(turns))))
        self._phases = [*self._phases[1 - PHASES :], [middle, float(np.angle(total)) / (2.0 * np.pi)]]
        if steady:
            seen, phases = np.array(self._phases).T
            seen, phases = seen - seen.mean(), np.unwrap(phases, period=1.0)
            square = float(seen @ seen)
            if square > 0.0:
                self._change(self.frequency - float(seen @ (phases - phases.mean())) / square, times)

    def _tapered(self, times, errors, span):
        """h·(e − ē)."""
        taper = np.sin(np.pi * ((times - times.min()) / span))
        return taper * taper * (errors - errors.mean())

    def _change(self, frequency, times):
        """Take another frequency; the place in the cycle stays at the mean time of what was learned with it."""
        if not 0.0 < frequency < 1.0 / SHORTEST:
            return
        middle = _mean(times[-self.learned :] if self.learned > 0 else times)
        more = frequency - self.frequency
        self._phases = [[at, phase + more * (at - middle)] for at, phase in self._phases]
        self._turns = self.turns_at(middle)
        self._reference = middle
        self.frequency = frequency

    def _top(self, powers, place):
        """The place of the top of the parabola through the logarithms of three powers."""
        step = 0.0
        if 0 < place < len(powers) - 1:
            before, top, after = np.log(np.maximum(powers[place - 1 : place + 2], 1e-300)).tolist()
            if top >= max(before, after) and 2.0 * top > before + after:
                step = 0.5 * (after - before) / (2.0 * top - before - after)
        return place + step

    def state(self):
        """Times and errors that are held, the oldest first; when the next look is due; what was found; for `load`."""
        times, errors = self._in_order()
        found = [float(self.frequency), float(self._reference), float(self._turns)]
        return [times.tolist(), errors.tolist(), [int(self._due), int(self.learned)], found, self._phases]

    def load(self, times, errors, counts, found, phases):
        """Load an earlier `state` into a new search."""
        self.held = len(times)
        np.asarray(self._times)[: self.held], np.asarray(self._errors)[: self.held] = times, errors
        self._next = self.held % self._size
        self._due, self.learned = counts
        self.frequency, self._reference, self._turns = found
        self._phases = [list(one) for one in phases]
