"""`SequentialLearner`: what depends on the order of its observations, in every package."""

from __future__ import annotations

from streamcal.learners.learner import Learner


class SequentialLearner(Learner):
    """A learner that takes one step per observation, so that nothing is merged or taken back.

    An observation of weight 2 is one step of double size; weight 0 is no step. Forgetting is a parameter of the step.
    """

    merges = False
    unlearns = False
