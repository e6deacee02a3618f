"""When to take each method, when not, and what is guaranteed: three sentences for its page."""

from __future__ import annotations

from typing import NamedTuple


class Note(NamedTuple):
    """The three sentences; the third says under which conditions."""

    take: str
    leave: str
    holds: str


ADDED_UP = "Exact: a function of the observations held, in whatever order they came"

ONE_SCORE = {
    "identity": Note(
        "As a baseline, and for scores that are calibrated already: whatever replaces it has to earn it.",
        "Where the log loss of another method is shown to be lower.",
        "None is needed: what comes out is what went in.",
    ),
    "platt": Note(
        "For margins, and for probabilities that are over- or underconfident by one factor, on little data.",
        "On streams that drift, where `online-platt` costs a twenty-fifth; where the curve is no sigmoid of log-odds.",
        f"{ADDED_UP}; the maximum of its likelihood, with the targets that Platt regularises.",
    ),
    "temperature": Note(
        "For neural networks that decide well at ½ and are too confident, on little data: one parameter.",
        "Where the base rate has moved: a temperature cannot shift the log-odds.",
        f"{ADDED_UP}; scores stay in their order, and ½ stays ½.",
    ),
    "beta": Note(
        "For probabilities whose two ends are distorted differently, such as those of naive Bayes or boosted trees.",
        "For scores of exactly 0 or 1, which count as clamped; on little data, where `platt` has one parameter less.",
        f"{ADDED_UP}; the maximum of its likelihood, made finite by a ridge of 1e-9.",
    ),
    "gaussian": Note(
        "For scores that are normal in both classes with one variance, and where a closed formula is wanted.",
        "For all other scores: nothing corrects a wrong assumption, however much data there is.",
        f"{ADDED_UP}, to the last bit: its sums are exact integers.",
    ),
    "bernstein": Note(
        "For a smooth monotone map whose shape is not known, in memory that does not grow, and cheap to forget with.",
        "For rare events on the scale of probabilities: the degree limits how fast the curve rises near 0.",
        f"{ADDED_UP}; the least squares solution, with a KKT residual of some 1e-15 (Performance).",
    ),
    "bernstein-logistic": Note(
        "As `bernstein`, for rare events and steep maps: a polynomial of log-odds, fitted by log loss.",
        "Where a step has to cost as little as one of `bernstein`: it takes several times as long.",
        f"{ADDED_UP}; within 1e-11 nats of the smallest log loss, per unit of weight.",
    ),
    "monotone-polynomial": Note(
        "To compare with the paper: the least squares fit among all monotone polynomials.",
        "Where a prediction after every outcome has to be cheap: each solves a semidefinite program; see `bernstein`.",
        f"{ADDED_UP}; monotone to 1e-13, and within 1e-6 of the optimum in root mean square.",
    ),
    "histogram-binning": Note(
        "Where a table of a few bins has to be explained to others.",
        "Where forecasts matter: it jumps at the edges of bins, and bins hide what happens within them.",
        f"{ADDED_UP}.",
    ),
    "bbq": Note(
        "As `histogram-binning`, without choosing the number of bins.",
        "Where a step has to cost microseconds: it takes 40 to 70. For ranking: bins make ties.",
        f"{ADDED_UP}; binnings below 2⁻⁸⁰ of the best score are left out.",
    ),
    "adaptive-calibration": Note(
        "Where the relation need not be monotone, and a probability is explained by similar scores.",
        "At the ends of the scores, where an interval has few observations on one side.",
        f"{ADDED_UP}.",
    ),
    "isotonic": Note(
        "With thousands of outcomes and no idea of the shape: exact, and as fast as a sorted list.",
        "Under log loss: it says 0 and 1; take `venn-abers`. For ranking: it makes ties.",
        f"{ADDED_UP}; the smallest squared error among all maps that do not fall.",
    ),
    "centered-isotonic": Note(
        "As `isotonic`, where scores must stay in their order without ties.",
        "With few outcomes, of which every block is a knot.",
        f"{ADDED_UP}; strictly increasing between its smallest and its largest value.",
    ),
    "smooth-isotonic": Note(
        "As `centered-isotonic`, as a smooth curve; with a penalty, as a smoothing spline that does not follow noise.",
        "Where jumps of the curve are real: it smooths them.",
        f"{ADDED_UP}; it does not fall.",
    ),
    "near-isotonic": Note(
        "Where the relation is monotone but for a few places, such as a base that is wrong in a range of scores.",
        "Under a budget of microseconds: the whole path is solved again.",
        f"{ADDED_UP}; the exact path of solutions.",
    ),
    "enir": Note(
        "As `near-isotonic`, averaged over all penalties instead of choosing one.",
        "As `near-isotonic`.",
        f"{ADDED_UP}; the exact path of solutions.",
    ),
    "linear-trend": Note(
        "For a curve of few straight pieces, found by itself.",
        "With fewer than some hundred outcomes, and under a budget of microseconds.",
        f"{ADDED_UP}; exact up to 1e-9 of λ in the optimality conditions.",
    ),
    "elite": Note(
        "As `linear-trend`, averaged over all penalties.",
        "As `linear-trend`.",
        f"{ADDED_UP}; exact up to 1e-9 of λ in the optimality conditions.",
    ),
    "venn-abers": Note(
        "Where probabilities must be valid without assumptions on the score: exchangeable data, and an interval that "
        "says how much is known. With the default point it never says 0 or 1.",
        "Where a confidence interval for the probability at a score is wanted, which this is not; for rare events, "
        'unless with `point="score-prior"`: the other points are drawn towards ½, or say 0.',
        "The one of p₀ and p₁ that belongs to the outcome is perfectly calibrated, in finite samples: for a scoring "
        "rule fixed in advance, exchangeable data and unit weights. Otherwise there is no guarantee.",
    ),
    "cross-venn-abers": Note(
        "As `venn-abers`, where training data are too few to set some aside: K folds calibrate one another.",
        "On a stream, where the outcomes that come are new data anyway.",
        "That of `venn-abers` for the pair of each fold; none for what the folds are merged to.",
    ),
    "online-platt": Note(
        "On drifting streams, and where an update has to cost nanoseconds: sigmoid maps with memories of every length.",
        "Where the reliability curve is no sigmoid of the log-odds; `tracking-ops` and `auto` correct what is left.",
        "Within a few nats of the best of its memories. With `discount=1` it is online Platt scaling as published, "
        "whose regret against the best sigmoid in hindsight is O(log T), whatever the outcomes.",
    ),
    "online-beta": Note(
        "On streams without much drift, for probabilities whose two ends are distorted differently.",
        "For scores of exactly 0 or 1; on short streams, where `online-platt` has one parameter less.",
        "As `online-platt` with `discount=1`, against the best beta map.",
    ),
    "tracking-ops": Note(
        "As `online-platt` with `discount=1`, where it leaves bins that are wrong.",
        "For ranking: bins make ties.",
        "Calibeating: its Brier score is at most that of online Platt scaling less its ECE, up to O(log T / T) a bin.",
    ),
    "hedged-ops": Note(
        "Where somebody may choose the outcomes against you: calibrated on every stream, by randomised forecasts.",
        "Everywhere else: it pays for that in log loss.",
        "Its expected calibration error tends to 0, up to the width of its bins, for every stream without late labels.",
    ),
    "protected": Note(
        "Where calibration must never cost more than it gains: total log loss at most ln 2 above that of the score.",
        "Where the score is known to be far off: others learn the shape sooner.",
        "The summed log loss is at most ln 2 = 0.69 nats above that of the score, for every stream and at every time.",
    ),
    "auto": Note(
        "By default: it weighs calibrators of many kinds by their log loss so far, with a bound on what that costs.",
        "Where every microsecond counts, the map must be monotone, or streams are to be merged.",
        "A bound on its log loss against the best sequence of experts, for every stream without delay: see below.",
    ),
}

FUSION = {
    "bernstein-fusion": Note(
        "Where the prediction must not fall when a score rises, of two to six scores.",
        "For more than six scores, where a solve takes tenths of a second to seconds; where scores are often missing.",
        f"{ADDED_UP}; monotone in every score everywhere, with a certified bound on the distance from the optimum.",
    ),
    "copula-fusion": Note(
        "To compare with the paper, and where the densities of the classes are of interest themselves.",
        "Where a prediction after every outcome has to cost less than tens of milliseconds; where it must be monotone.",
        f"{ADDED_UP}, up to the grid that its limit of tuples brings.",
    ),
    "logistic-fusion": Note(
        "By default: it follows drift, goes on where a model is down, and costs the same for two scores as for five.",
        "Where the prediction must not fall when a score rises; where observations are to be unlearned.",
        "None: an online method, whose steps are implicit, so that no observation makes it overshoot.",
    ),
    "mrmic": Note(
        "To compare with the paper: isotonic on the tuples held, and smooth between them.",
        "Where the map must be monotone between the tuples held, which it is not.",
        f"{ADDED_UP}, up to the grid that its limit of tuples brings; the fit is exact to rounding.",
    ),
    "partial-order-venn-abers": Note(
        "Where two or three scores are to give an interval that says how much is known.",
        "For many scores: few tuples are comparable, and the interval is then wide.",
        "That of Venn-Abers, for a scoring rule and a grid fixed in advance, exchangeable data and unit weights.",
    ),
    "prequential-fusion": Note(
        "Where a degree, a family or a penalty is to be chosen by what it predicted, and chosen again after a change.",
        "Where the cost of all candidates together is too much.",
        "None: it follows the candidate with the smallest loss so far.",
    ),
}

MULTICLASS = {
    "one-vs-rest": Note(
        "Where a method of one score is wanted for each label, with its forgetting policy.",
        "Where classes are confused with one another: it looks at one label at a time.",
        "That of the binary method for each label, before the probabilities are divided by their sum; none after that.",
    ),
    "temperature-scaling": Note(
        "For neural networks that rank labels well and are too confident, on little data: one parameter.",
        "Where class frequencies have moved: one slope cannot repair them.",
        f"{ADDED_UP}, up to `limit` distinct score vectors; labels stay in their order.",
    ),
    "vector-scaling": Note(
        "For wrong class frequencies and slopes, with merging, retraction and windows.",
        "On streams that drift, where `online-vector-scaling` costs a thousandth.",
        f"{ADDED_UP}, up to `limit` distinct score vectors.",
    ),
    "dirichlet": Note(
        "Where a base confuses some classes with others, with many observations of each class.",
        "With few observations for each class: it has K² + K parameters; `structured-matrix-scaling` has penalties.",
        f"{ADDED_UP}, up to `limit` distinct score vectors.",
    ),
    "structured-matrix-scaling": Note(
        "For the lowest loss where milliseconds a prediction do not matter: few data give it few parameters.",
        "With more than some ten classes, unless with `refresh_every`.",
        f"{ADDED_UP}, up to `limit` distinct score vectors; the problem is convex, and solved.",
    ),
    "online-vector-scaling": Note(
        "By default on streams: one Newton step for an outcome.",
        "Where observations are to be merged or unlearned.",
        "For two classes it is `OnlinePlatt(discount=1)`, with its bound; for more, the step is ours.",
    ),
    "multiclass-venn-abers": Note(
        "Where each label is to have an interval that says how much is known.",
        "Where probabilities after dividing by their sum must have the guarantee, which holds before it.",
        "That of Venn-Abers for each label or pair, before coupling and dividing by the sum.",
    ),
}

REGRESSION = {
    "empirical-density": Note(
        "Where forecasts have the wrong shape at some outcomes and not at others, and a density is wanted.",
        "Where forecasts above and below a segment need different corrections: it sees the mass of a segment alone.",
        "That of the binary method for each segment, before masses are divided by their sum.",
    ),
    "quantile-recalibration": Note(
        "For levels that are wrong alike for all forecasts, for counts, and where streams are merged.",
        "Where forecasts are several times too narrow or too wide: correct their scale first (`composition`).",
        f"{ADDED_UP}: the distribution function of the levels that came.",
    ),
    "scale-recalibration": Note(
        "For forecasts with a mean and a standard deviation that may be off, cheaply and additively.",
        "Where the shape is wrong too, which it leaves; where a few gross errors are held for ever: give a window.",
        f"{ADDED_UP}, to the last bit: its five sums are exact.",
    ),
    "adaptive-scale": Note(
        "For forecasts of a model that learns, or whose errors stay of one sign for a while: no half-life to choose.",
        "Where streams are to be merged or observations unlearned: `scale-recalibration` is additive.",
        "The mixture of its memories loses at most ln(k)/T + ln(1/(1 − share)) nats an observation to the best of k.",
    ),
    "composition": Note(
        "By default: first the scale, then the shape, then the coverage of four intervals, under any drift.",
        "Where streams are to be merged or observations unlearned: take one of its stages alone.",
        "That of its last stage: with `adaptive-conformal` there, long-run coverage whatever happens.",
    ),
    "conformal-predictive": Note(
        "For a model that was fixed before, and exchangeable data: validity in finite samples.",
        "Where data drift or the model keeps learning, and the guarantee is the reason to take it.",
        "The level of the outcome is exactly uniform: for distributions fixed before, exchangeable data, unit weights.",
    ),
    "mondrian-conformal": Note(
        "As `conformal-predictive`, where every category of difficulty is to be valid, and not only all together.",
        "With few observations in each category.",
        "That of `conformal-predictive` within each category.",
    ),
    "adaptive-conformal": Note(
        "Where data drift in ways that nothing can foresee, and the coverage of some intervals matters.",
        "Where every single interval matters: the promise is one of averages over time.",
        "Coverage tends to the level for every sequence of forecasts and outcomes, with the bound that stands below.",
    ),
    "isotonic-distributional": Note(
        "Where only the median of the forecasts is to be believed, and nothing is known of the shape around it.",
        "Where the stated spread says something: it is not used.",
        f"{ADDED_UP}: the smallest mean CRPS among all families that increase with the median.",
    ),
    "venn-abers-regression": Note(
        "As `isotonic-distributional`, with a lower and an upper distribution function that say how much is known.",
        "Where one density is wanted: it is made of steps at the thresholds.",
        "That of Venn-Abers at each threshold, for distributions fixed in advance, exchangeable data and unit weights.",
    ),
    "gaussian-process-cdf": Note(
        "For smooth densities whose correction depends on the outcome, with few thousand observations.",
        "Under any budget of time: a step takes seconds.",
        "An approximation: Laplace's method, on labels of one observation that are taken for independent.",
    ),
}
