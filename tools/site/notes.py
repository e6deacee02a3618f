"""When to take each method of one score, and when not: two sentences for its page."""

#: Name → (when to take it, when another one is better).
NOTES = {
    "identity": (
        "As a baseline, and for scores that are calibrated already: whatever replaces it has to earn it.",
        "Where the log loss of another method is shown to be lower.",
    ),
    "platt": (
        "For margins, and for probabilities that are over- or underconfident by one factor, on little data.",
        "On streams that drift, where `ops` costs a tenth; where the reliability curve is no sigmoid of the log-odds.",
    ),
    "temperature": (
        "For neural networks that decide well at ½ and are too confident, on little data: one parameter.",
        "Where the base rate has moved: a temperature cannot shift the log-odds.",
    ),
    "beta": (
        "For probabilities whose two ends are distorted differently, such as those of naive Bayes or boosted trees.",
        "For scores of exactly 0 or 1, which count as clamped; on little data, where `platt` has one parameter less.",
    ),
    "gaussian": (
        "For scores that are normal in both classes with one variance, and where a closed formula is wanted.",
        "For all other scores: nothing corrects a wrong assumption, however much data there is.",
    ),
    "bernstein": (
        "For a smooth monotone map whose shape is not known, in memory that does not grow, and cheap to forget with.",
        "For rare events on the scale of probabilities: the degree limits how fast the curve rises near 0.",
    ),
    "bernstein-logistic": (
        "As `bernstein`, for rare events and steep maps: a polynomial of log-odds, fitted by log loss.",
        "Where a prediction after every outcome has to cost microseconds.",
    ),
    "rpr": (
        "To compare with the paper: the least squares fit among all monotone polynomials.",
        "Where a prediction after every outcome has to be cheap: each solves a semidefinite program; see `bernstein`.",
    ),
    "histogram": (
        "Where a table of a few bins has to be explained to others.",
        "Where forecasts matter: it jumps at the edges of bins, and bins hide what happens within them.",
    ),
    "bbq": (
        "As `histogram`, without choosing the number of bins.",
        "On fast streams: it weighs all binnings again after an outcome.",
    ),
    "acp": (
        "Where the relation need not be monotone, and a probability is explained by similar scores.",
        "At the ends of the scores, where an interval has few observations on one side.",
    ),
    "isotonic": (
        "With thousands of outcomes and no idea of the shape: exact, and as fast as a sorted list.",
        "Under log loss: it says 0 and 1; take `venn-abers`. For ranking: it makes ties.",
    ),
    "centered-isotonic": (
        "As `isotonic`, where scores must stay in their order without ties.",
        "With few outcomes, of which every block is a knot.",
    ),
    "smooth-isotonic": (
        "As `centered-isotonic`, as a smooth curve.",
        "Where a prediction after every outcome has to cost microseconds, or steps are real.",
    ),
    "near-isotonic": (
        "Where the relation is monotone but for a few places, such as a base that is wrong in a range of scores.",
        "Under a budget of microseconds: the whole path is solved again.",
    ),
    "enir": (
        "As `near-isotonic`, averaged over all penalties instead of choosing one.",
        "As `near-isotonic`.",
    ),
    "lite": (
        "For a curve of few straight pieces, found by itself.",
        "With fewer than some hundred outcomes, and under a budget of microseconds.",
    ),
    "elite": (
        "As `lite`, averaged over all penalties.",
        "As `lite`.",
    ),
    "venn-abers": (
        "Where probabilities must be valid without assumptions on the score: exchangeable data, and an interval that "
        "says how much is known. It never says 0 or 1.",
        "Where a confidence interval for the probability at a score is wanted, which this is not; for rare events, "
        'unless with `point="score-prior"`: the other points are drawn towards ½.',
    ),
    "cross-venn-abers": (
        "As `venn-abers`, where training data are too few to set some aside: K folds calibrate one another.",
        "On a stream, where the outcomes that come are new data anyway.",
    ),
    "ops": (
        "On drifting streams, and where an update has to cost nanoseconds: two parameters by Newton steps.",
        "Where the reliability curve is no sigmoid of the log-odds; `tops` and `auto` correct what is left.",
    ),
    "online-beta": (
        "As `ops`, for probabilities whose two ends are distorted differently.",
        "For scores of exactly 0 or 1; on short streams, where `ops` has one parameter less.",
    ),
    "tops": (
        "As `ops`, where it leaves bins that are wrong.",
        "For ranking: bins make ties.",
    ),
    "hops": (
        "Where somebody may choose the outcomes against you: calibrated on every stream, by randomised forecasts.",
        "Everywhere else: it pays for that in log loss.",
    ),
    "protected": (
        "Where calibration must never cost more than it gains: total log loss at most ln 2 above that of the score.",
        "Where the score is known to be far off: others learn the shape sooner.",
    ),
    "auto": (
        "By default: it weighs 25 calibrators by their log loss so far, with a bound on what that costs.",
        "Where a step has to cost less than microseconds, the map must be monotone, or streams are to be merged.",
    ),
}
