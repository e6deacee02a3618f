"""A stream's solves of `GaussianProcessCDF`: the same as solves from nothing, with a certificate for each short cut."""

import numpy as np
import pytest

from streamcal import Decay, Forever, Window
from streamcal.regression import GaussianProcessCDF, Normal
from streamcal.regression import gaussian_process_cdf as module
from streamcal.regression.gaussian_process_cdf import KERNELS, most_evident
from streamcal.solvers.gaussian_process import LaplaceProblem

SUPPORT = (-8.0, 8.0)
#: What the steps leave of a log-odds (`REMAINING`), times the ratio of the largest log-odds here to 1.
SAME = 1e-9


def log_evidence(problem, mode):
    """Laplace's approximation of the log marginal likelihood at the mode."""
    found = problem.at(mode)
    return -found.value - 0.5 * problem.posterior(found).log_det


def stream(size, seed=0, drift=0.0):
    rng = np.random.default_rng(seed)
    mean = rng.normal(size=size)
    spread = 1.0 + drift * np.arange(size) / size
    return [Normal(m, 1.0) for m in mean], mean + spread * rng.normal(size=size)


def problems_after(cal):
    return cal._problems(cal._engine.memory.present(None))


@pytest.mark.sample(6)
@pytest.mark.parametrize("forgetting", [Forever(), Window(150), Decay(60)])
@pytest.mark.parametrize("mean", ["base", "zero"])
def test_a_stream_is_solved_as_from_nothing(forgetting, mean):
    """Also where the law of the outcomes changes, and with it the kernel of the largest evidence."""
    forecasts, y = stream(400, drift=3.0)
    cal = GaussianProcessCDF(8, support=SUPPORT, mean=mean, forgetting=forgetting)
    cal.learn_many(forecasts[:200], y[:200])
    cal.map()
    for i in range(200, 400, 23):
        cal.learn_many(forecasts[i : i + 23], y[i : i + 23])
        cold = cal.solve(cal._engine.memory.present(None), None)
        for one in (Normal(0.0, 1.0), Normal(-2.0, 0.5)):
            np.testing.assert_allclose(cal.map().probabilities(one), cold.probabilities(one), atol=SAME)


def test_a_step_costs_no_factor(monkeypatch):
    """After the first solve the matrices of second derivatives are rarely taken apart."""
    forecasts, y = stream(2_040)
    cal = GaussianProcessCDF(support=SUPPORT)
    cal.learn_many(forecasts[:2_000], y[:2_000])
    cal.map()
    taken = []
    whole = LaplaceProblem.posterior
    monkeypatch.setattr(LaplaceProblem, "posterior", lambda *a: taken.append(1) or whole(*a))
    for one, outcome in zip(forecasts[2_000:], y[2_000:], strict=True):
        cal.learn_one(one, outcome)
        cal.map()
    assert len(taken) < 0.1 * 40 * len(KERNELS)


def test_a_followed_mode_has_no_gradient():
    """The Newton decrement, in the precision at the mode itself, is below the rounding of the objective."""
    forecasts, y = stream(320)
    cal = GaussianProcessCDF(8, support=SUPPORT)
    cal.learn_many(forecasts[:300], y[:300])
    before = cal.map().posteriors
    cal.learn_many(forecasts[300:303], y[300:303])
    for problem, earlier in zip(problems_after(cal), before, strict=True):
        mode = problem.followed(earlier)
        gradient = problem._gradient(mode.point, mode.terms.excess)
        decrement = gradient @ np.linalg.solve(problem.precision(mode.point), gradient)
        assert decrement < 1e-16
        assert mode.value == pytest.approx(problem.at(problem.mode(earlier.mode).x).value, rel=1e-13)


def test_too_far_to_follow_is_said():
    forecasts, y = stream(320)
    cal = GaussianProcessCDF(8, support=SUPPORT)
    cal.learn_many(forecasts[:10], y[:10])
    before = cal.map().posteriors
    cal.learn_many(forecasts[10:], y[10:])
    assert [problem.followed(one) for problem, one in zip(problems_after(cal), before, strict=True)] == [None] * 5


@pytest.mark.sample(6)
@pytest.mark.parametrize("more", [1, 3, 10, 30, 300])
def test_the_evidence_is_within_its_bounds(more):
    forecasts, y = stream(300 + more, drift=1.0)
    cal = GaussianProcessCDF(8, support=SUPPORT)
    cal.learn_many(forecasts[:300], y[:300])
    before = cal.map().posteriors
    cal.learn_many(forecasts[300:], y[300:])
    widths = []
    for problem, earlier in zip(problems_after(cal), before, strict=True):
        mode = problem.at(problem.mode(earlier.mode).x)
        least, most = problem.evidence_bounds(mode, earlier)
        assert least <= log_evidence(problem, mode.point) <= most
        widths.append(most - least)
        least, most = problem.evidence_bounds(mode, problem.posterior(mode))
        assert least <= log_evidence(problem, mode.point) <= most < least + 1e-8
    if more == 1:
        assert max(widths) < 1.0, "or the bounds decide nothing"


def test_the_kernel_is_chosen_exactly_where_bounds_cannot_tell():
    """Two kernels that differ by 1e-7: their evidence differs by less than the bounds' width."""
    forecasts, y = stream(303)
    base = KERNELS[1]
    near = module.RBF(base.variance * (1.0 + 1e-7), base.q_length, base.t_length)
    cal = GaussianProcessCDF(8, support=SUPPORT, kernel=(base, near, KERNELS[0], near))
    cal.learn_many(forecasts[:300], y[:300])
    cal.map()
    for one, outcome in zip(forecasts[300:], y[300:], strict=True):
        cal.learn_one(one, outcome)
        problems = problems_after(cal)
        posteriors = list(cal.map().posteriors)
        modes = [problem.at(one.mode) for problem, one in zip(problems, posteriors, strict=True)]
        evidences = [log_evidence(problem, mode.point) for problem, mode in zip(problems, modes, strict=True)]
        assert most_evident(problems, modes, posteriors) == int(np.argmax(evidences))
