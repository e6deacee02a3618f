// Calibration maps of streamcal, format 1 (docs/map_format.md), as an ES module without dependencies.
//
//     import { loadMap } from "./calibration_map.mjs";
//     const calibrate = loadMap(text);
//     calibrate(0.25);             // the probability, NaN for a score outside the domain of the scale
//     calibrate(0.2, 0.25, 0.3);   // a map of three folds also takes a score for each

const FORMAT = 1;
const LOGIT_LIMIT = 16;
const PRIOR_EVENTS = 0.25;
const TINY = 1e-300;

const clamp = (x, lo, hi) => Math.min(Math.max(x, lo), hi);
const mean = (values) => values.reduce((sum, value) => sum + value) / values.length;

const sigmoid = (z) => 1 / (1 + Math.exp(-z));

/** The log-odds of p, clamped. */
const logit = (p, lo, hi) => clamp(Math.log(p) - Math.log1p(-p), lo, hi);

/** The number of cuts that are at most x. */
function count(cuts, x) {
  let lo = 0;
  let hi = cuts.length;
  while (lo < hi) {
    const middle = (lo + hi) >>> 1;
    if (cuts[middle] <= x) lo = middle + 1;
    else hi = middle;
  }
  return lo;
}

const steps = ({ cuts, values }, x) => values[count(cuts, x)];

/** Between knots f(t, i), t of the way from knot i to the next; the end values outside. */
function pieces(knots, values, x, f) {
  const i = count(knots, x) - 1;
  if (i < 0 || i === knots.length - 1) return values[Math.max(i, 0)];
  const half = Number.isFinite(knots[i + 1] - knots[i]) ? 1 : 0.5; // the distance of two knots may overflow
  return f((half * x - half * knots[i]) / (half * knots[i + 1] - half * knots[i]), i);
}

const lines = (knots, values, x) =>
  pieces(knots, values, x, (t, i) => values[i] + t * (values[i + 1] - values[i]));

function cubics({ knots, values, rises, falls }, x) {
  return pieces(knots, values, x, (t, i) => {
    const [low, high] = [values[i], values[i + 1]];
    const bend = t * (1 - t) * (rises[i] * (1 - t) - falls[i] * t);
    return clamp(low + (high - low) * t * t * (3 - 2 * t) + bend, low, high);
  });
}

/** Σ cᵢ·C(n, i)·uⁱ·(1 − u)ⁿ⁻ⁱ by de Casteljau's algorithm. */
function bernstein(coefficients, u) {
  const row = [...coefficients];
  for (let n = row.length - 1; n > 0; n--) {
    for (let i = 0; i < n; i++) row[i] = (1 - u) * row[i] + u * row[i + 1];
  }
  return row[0];
}

/** Σ cₘ·Tₘ(2u − 1) by Reinsch's recurrence from the nearer end. */
function chebyshev(coefficients, u) {
  const e = Math.min(u, 1 - u);
  let [total, value, step, sign] = [0, 1, -2 * e, 1];
  for (const c of coefficients) {
    total += sign * c * value;
    value += step;
    step -= 4 * e * value;
    if (u < 0.5) sign = -sign;
  }
  return total;
}

/** The probability of K pairs, each [p₀, p₁]. */
function point(rule, pairs) {
  const lower = pairs.map(([low]) => low);
  const upper = pairs.map(([, high]) => high);
  if (rule === "log-minimax") {
    const geometric = (values) => values.reduce((product, p) => product * p ** (1 / values.length), 1);
    const positive = geometric(upper);
    return positive / (geometric(lower.map((p) => 1 - p)) + positive);
  }
  if (rule === "brier-minimax") return mean(pairs.map(([low, high]) => high + 0.5 * (low * low - high * high)));
  if (rule !== "self-consistent") throw new Error(`unknown point: ${rule}`);
  const [low, high] = [mean(lower), mean(upper)];
  return 1 - high + low === 0 ? 0.5 : low / (1 - high + low);
}

/** The point of one pair at the score x, whose prior counts. */
function scorePrior(map, [low, high], x) {
  const middle = clamp(clamp(x, map.least, map.greatest), low, high);
  const rarer = Math.max(Math.min(middle, 1 - middle), TINY);
  const width = PRIOR_EVENTS * (high - low);
  return (low * rarer + width * middle) / ((1 - high + low) * rarer + width);
}

const pair = (fold, x) => [steps(fold.lower, x), steps(fold.upper, x)];

function crossInterval(map, xs) {
  const holds = ({ lower, upper }) =>
    lower.cuts.length + upper.cuts.length > 0 || lower.values[0] > 0 || upper.values[0] < 1;
  const all = map.folds.map((fold, k) => ({ fold, x: xs.length > 1 ? xs[k] : xs[0] }));
  const taking = all.some(({ fold }) => holds(fold)) ? all.filter(({ fold }) => holds(fold)) : all;
  return point(map.point, taking.map(({ fold, x }) => pair(fold, x)));
}

function coordinate(scale, s) {
  const [lo, hi] = [scale.lo ?? -Infinity, scale.hi ?? Infinity];
  if (scale.kind === "probability") return s;
  if (scale.kind === "logit") return logit(s, lo, hi);
  if (scale.kind === "interval") return clamp(s, lo, hi);
  return lines(scale.knots, scale.ranks, s);
}

function beta(map, scale, x, u) {
  const z = scale.kind === "logit" ? x : clamp(u === null ? x : logit(u, -Infinity, Infinity), -LOGIT_LIMIT, LOGIT_LIMIT);
  const tail = Math.log1p(Math.exp(-Math.abs(z)));
  return sigmoid(map.a * (Math.min(z, 0) - tail) + map.b * (Math.max(z, 0) + tail) + map.c);
}

/** Coordinates xs → probability; u is the unit coordinate, null where coordinates are log-odds. */
const KINDS = {
  identity: (map, [x], u) => u ?? sigmoid(x),
  sigmoid: (map, [x]) => sigmoid(map.slope * x + map.offset),
  sigmoids: (map, [x]) =>
    Math.min(1, map.weights.reduce((p, w, k) => p + w * sigmoid(map.slopes[k] * x + map.offsets[k]), 0)),
  beta: (map, [x], u) => beta(map, map.scale, x, u),
  bernstein: (map, [x]) => clamp(bernstein(map.coefficients, unit(map.scale, x)), 0, 1),
  "bernstein-logistic": (map, [x]) => sigmoid(bernstein(map.coefficients, unit(map.scale, x))),
  chebyshev: (map, [x]) => clamp(chebyshev(map.coefficients, unit(map.scale, x)), 0, 1),
  steps: (map, [x]) => steps(map, x),
  lines: (map, [x]) => lines(map.knots, map.values, x),
  "log-odds-lines": (map, [x]) => sigmoid(lines(map.knots, map.log_odds, x)),
  cubics: (map, [x]) => cubics(map, x),
  interval: (map, [x]) =>
    map.point === "score-prior" ? scorePrior(map, pair(map, x), x) : point(map.point, [pair(map, x)]),
  "cross-interval": crossInterval,
};
const SCALES = ["probability", "logit", "interval", "empirical-cdf"];

const unit = ({ lo = 0, hi = 1 }, x) => (x - lo) / (hi - lo);

/** Read a map; returns the function score → probability. */
export function loadMap(text) {
  const map = JSON.parse(text);
  if (map.streamcal_map !== FORMAT) throw new Error(`not a calibration map of format ${FORMAT}`);
  if (!Object.hasOwn(KINDS, map.kind)) throw new Error(`unknown kind of map: ${map.kind}`);
  if (!SCALES.includes(map.scale.kind)) throw new Error(`unknown kind of scale: ${map.scale.kind}`);
  const { scale, spots } = map;
  const probability = scale.kind === "probability" || scale.kind === "logit";
  const top = probability ? 1 : 0;
  const logistic = scale.kind === "logit" || (scale.kind === "interval" && (scale.lo === null || scale.hi === null));

  return (...scores) => {
    // `Number.isFinite` is false of null, which is compared as 0.
    if (!scores.every((s) => Number.isFinite(s) && !(probability && (s < 0 || s > 1)))) return NaN;
    const rising = scale.decreasing ? scores.map((s) => top - s) : scores;
    if (spots) {
      const i = count(spots.first, rising[0]) - 1;
      if (i >= 0 && rising[0] <= spots.last[i]) return spots.values[i];
    }
    const xs = rising.map((s) => coordinate(scale, s));
    return KINDS[map.kind](map, xs, logistic ? null : unit(scale, xs[0]));
  };
}
