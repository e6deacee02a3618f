"""The table at the end of each paper's page: what the paper has, what is here, and why the two differ.

    python -m benchmarks.papers.differences    # writes the tables into the pages as they are

The scripts of the pages insert the same tables.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "papers"
TITLE = "## In the paper, here, and why they differ"
#: The line above the command of a page.
RULE = "\n---\n"

#: Page → rows of its table.
ROWS: dict[str, list[tuple[str, str, str]]] = {
    "fusion_000": [
        (
            "BernPolyFusion as a quadratic program, solved by CVX",
            "`BernsteinFusion`: the same program, an active set",
            "exact to rounding, and followed from one observation to the next",
        ),
        (
            "degree K of BernPolyFusion and λ of MR-MIC by cross-validation",
            "`PrequentialFusion(candidates)`; this page cross-validates as the paper",
            "a stream has no folds: each candidate predicts before it learns",
        ),
        (
            "CopulaFusion: eight families by maximum likelihood",
            "`CopulaFusion`: the same families; the degrees of freedom of Student's are estimated, 0.8 to 75",
            "the paper does not say how they are chosen",
        ),
        (
            "copula densities of ranks",
            "kernels placed on log-odds by default, on ranks on this page",
            "ranks need the whole sample; log-odds do not change with the stream",
        ),
        (
            "MR-MIC: Ω is 'the similarity matrix' ω in pᵀΩp",
            "`MRMIC`: the Laplacian of ω",
            "with ω itself the form is indefinite and draws values to 0",
        ),
        (
            "MCE and ECE at the centres of a 10 × 10 grid, cells of 1,000 rows and more",
            "the same on this page; `streamcal.metrics.GridECE` takes the mean forecast in a cell",
            "the mean needs no model beside the stream",
        ),
        ("M scores that are all known", '`missing="marginal"` for scores that are missing', "streams lose scores"),
    ],
    "blog_001": [
        (
            "polynomials scaled by the range of the calibration margins",
            "`Interval(lo, hi)`, given in advance",
            "the range is not known before the stream ends",
        ),
        (
            "least squares by CVXPY at every fit",
            "`Bernstein`: an active set on 3n + 2 sums",
            "a fit per observation, with the same solution",
        ),
        (
            "degrees 10 and 20",
            "degree 20 by default; `PrequentialChoice(Bernstein, degree=[5, 10, 20, 40])` chooses",
            "[regret](prequential_choice.md) of at most ln 4",
        ),
        (
            "`BernsteinSigmoidCalibrator` overrides `_compute_coef`, which the base does not call",
            "`BernsteinLogistic`: the formula of the text",
            "the code of the post fits the other model",
        ),
    ],
    "rpr_002": [
        ("RPR (22), degree k and bound λ", "`MonotonePolynomial(degree, bound)`", "the same program, on 3k + 2 sums"),
        (
            "k and λ by 2-fold cross-validation of the MCE",
            "given, or `PrequentialChoice(method, degree=[…], bound=[…])`",
            "a stream has no folds; the log loss bounds [the regret](prequential_choice.md), the MCE does not",
        ),
        (
            "HistBin: number of bins by BDeu",
            "`HistogramBinning(15)`; `bins=None` is the number by BDeu",
            "on the development streams neither is better: 27 of 54 comparisons each",
        ),
        (
            "NearIso, LiTE: λ by a BDeu score",
            "`NearIsotonic`: BIC, `LinearTrend`: AICc, or λ given",
            "BDeu chooses the labels themselves, and has the higher ECE in 8 of 8 cells "
            "([hyperparameters](rpr_002_choices.md)): it is not offered",
        ),
        (
            "ENIR, ELiTE: weights by a BDeu score",
            "weights by BIC and by AICc",
            "as in the papers of their authors; BDeu has no definition for lines",
        ),
        (
            "SmoIsoReg: interpolation in §2.2.5, a λ in §5.3",
            "`SmoothIsotonic()` interpolates; `SmoothIsotonic(penalty=λ)` is the spline of eq. (13)",
            "the λ belongs to eq. (13); its ECE is lower in 8 of 8 cells, but a prediction costs O(k)",
        ),
        (
            "eq. (13): ∫ f⁽ᵐ⁾, 'no tractable algorithm'",
            "∫ f″², B-splines of 20 pieces",
            "the integral without the square has no minimum",
        ),
        (
            "ACP: confidence intervals of logistic regression",
            "`AdaptiveCalibration`: intervals given, of fixed width, or of the nearest scores",
            "a calibrator sees scores alone",
        ),
        (
            "the sigmoid with s² (8)",
            "not offered",
            "it is not monotone, and its ECE is below that of Platt in 4 of 8 cells only "
            "([hyperparameters](rpr_002_choices.md)); `Beta` is the monotone map of three parameters",
        ),
    ],
    "venn_abers_003": [
        (
            "IVAP: Algorithms 1 to 6, for a test set",
            "`VennAbers`: a balanced tree, O(log² k) for an observation and for an interval",
            "a stream has no test set; the intervals are the same",
        ),
        (
            "CVAP: Algorithm 7, the classifier trained K times",
            "`CrossVennAbers`: a fold given with each score, or drawn",
            "the classifier is not streamcal's",
        ),
        (
            "log- and Brier-minimax merging",
            "both, and the self-consistent point",
            "the point between the two is free",
        ),
        ("scores in a partial order", "`PartialOrderVennAbers`", "exact, by minimum closures"),
        (
            "isotonic regression without regularisation; footnote 1: two dummy observations",
            "`Isotonic()`; `Isotonic(prior=DummyObservations())` is the footnote",
            "without them the log loss is infinite on all 18 development streams of the race; with them on none, and "
            "3 to 10 % below that of the clipped fit",
        ),
        ("Weka's classifiers", "their counterparts in scikit-learn", "see the base learners above"),
    ],
    "regression_004": [
        (
            "e-logistic, e-beta: one calibrator for each threshold",
            "`EmpiricalDensity(Platt(), …)`, `EmpiricalDensity(Beta(), …)`",
            "the same, on tables that are shared by the thresholds",
        ),
        (
            "a sample of the labels at the largest K, to limit the size of the GPC",
            "all labels, in cells of a table",
            "the posterior is a function of the table, whatever the number of observations",
        ),
        (
            "GPC: kernel parameters optimised by the likelihood",
            "`GaussianProcessCDF`: the largest evidence of five kernels, or of those given, at every refresh",
            "a coarse grid cannot run away on little data; bounds spare most of its fits",
        ),
        (
            "prior mean 0",
            'the log-odds of the base forecast; `mean="zero"` is the paper\'s',
            "without data the forecast is kept",
        ),
        (
            "densities by differences of the cdf",
            "the same, on a monotone cdf",
            "a cdf of a process may fall: it is made to rise",
        ),
    ],
}


def section(page: str) -> str:
    """Write the section of a page."""
    lines = ["| in the paper | here | why they differ |", "|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in ROWS[page]]
    return f"{TITLE}\n\n" + "\n".join(lines) + "\n"


def with_differences(page: str, text: str) -> str:
    """Return the text of a page with its section, in place of an older one, above the command of the page."""
    head, rule, foot = text.rpartition(RULE)
    head = head.split(TITLE)[0].rstrip("\n")
    return f"{head}\n\n{section(page)}{rule}{foot}"


def main() -> None:
    """Write the section into each page."""
    for page in ROWS:
        path = FOLDER / f"{page}.md"
        path.write_text(with_differences(page, path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
