import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.function.ToDoubleFunction;

/**
 * A calibration map of streamcal, format 1 (docs/map_format.md): immutable, from a score to a probability; NaN for a score
 * outside the domain of the scale. A map of K folds also takes K scores. Java 17, no library.
 */
public final class CalibrationMap {
    private record Pair(double low, double high) {}

    private static final double LOGIT_LIMIT = 16.0, PRIOR_EVENTS = 0.25, TINY = 1e-300, INF = Double.POSITIVE_INFINITY;

    private final Map<String, Object> map, scale;
    private final double lo, hi;
    private final boolean probabilities, logistic;
    private final ToDoubleFunction<double[]> at;

    public CalibrationMap(String json) {
        map = object(Json.read(json));
        if (!Double.valueOf(1.0).equals(map.get("streamcal_map"))) throw new IllegalArgumentException("no map of format 1");
        scale = object(map.get("scale"));
        String kind = (String) scale.get("kind");
        boolean ends = kind.equals("logit") || kind.equals("interval");
        lo = !ends ? 0.0 : scale.get("lo") == null ? -INF : number(scale, "lo");
        hi = !ends ? 1.0 : scale.get("hi") == null ? INF : number(scale, "hi");
        probabilities = kind.equals("probability") || kind.equals("logit");
        logistic = kind.equals("logit") || Double.isInfinite(hi - lo);
        at = kind();
    }

    /** The probability of a score, or of one score a fold. */
    public double at(double... scores) {
        double[] x = new double[scores.length];
        for (int k = 0; k < x.length; k++) {
            double s = scores[k];
            if (probabilities ? !(s >= 0.0 && s <= 1.0) : !Double.isFinite(s)) return Double.NaN;
            if (Boolean.TRUE.equals(scale.get("decreasing"))) s = (probabilities ? 1.0 : 0.0) - s;
            if (k == 0 && map.containsKey("spots")) {
                Map<String, Object> spots = object(map.get("spots"));
                int i = count(list(spots, "first"), s) - 1;
                if (i >= 0 && s <= list(spots, "last")[i]) return list(spots, "values")[i];
            }
            x[k] = coordinate(s);
        }
        return at.applyAsDouble(x);
    }

    private double coordinate(double s) {
        return switch ((String) scale.get("kind")) {
            case "probability" -> s;
            case "logit" -> clamp(logit(s), lo, hi);
            case "interval" -> clamp(s, lo, hi);
            case "empirical-cdf" -> lines(list(scale, "knots"), list(scale, "ranks"), s);
            default -> throw new IllegalArgumentException("unknown scale " + scale.get("kind"));
        };
    }

    private ToDoubleFunction<double[]> kind() {
        String kind = (String) map.get("kind");
        return switch (kind) {
            case "identity" -> x -> logistic ? sigmoid(x[0]) : unit(x[0]);
            case "sigmoid" -> x -> sigmoid(number(map, "slope") * x[0] + number(map, "offset"));
            case "sigmoids" -> x -> sigmoids(x[0]);
            case "beta" -> x -> beta(x[0]);
            case "bernstein" -> x -> clamp(bernstein(list(map, "coefficients"), unit(x[0])), 0.0, 1.0);
            case "bernstein-logistic" -> x -> sigmoid(bernstein(list(map, "coefficients"), unit(x[0])));
            case "chebyshev" -> x -> clamp(chebyshev(list(map, "coefficients"), unit(x[0])), 0.0, 1.0);
            case "steps" -> x -> steps(map, x[0]);
            case "lines" -> x -> lines(list(map, "knots"), list(map, "values"), x[0]);
            case "log-odds-lines" -> x -> sigmoid(lines(list(map, "knots"), list(map, "log_odds"), x[0]));
            case "cubics" -> x -> cubics(x[0]);
            case "interval" -> "score-prior".equals(map.get("point"))
                ? x -> scorePrior(x[0]) : x -> point(List.of(pair(map, x[0])));
            case "cross-interval" -> this::crossInterval;
            default -> throw new IllegalArgumentException("unknown kind " + kind);
        };
    }

    private double unit(double x) { return (x - lo) / (hi - lo); }
    private static double clamp(double x, double lo, double hi) { return Math.min(Math.max(x, lo), hi); }
    private static double logit(double p) { return Math.log(p) - Math.log1p(-p); }

    private static double sigmoid(double z) { return 1.0 / (1.0 + Math.exp(-z)); }

    private double sigmoids(double x) {
        double[] weights = list(map, "weights"), slopes = list(map, "slopes"), offsets = list(map, "offsets");
        double p = 0.0;
        for (int k = 0; k < weights.length; k++) p += weights[k] * sigmoid(slopes[k] * x + offsets[k]);
        return Math.min(p, 1.0);
    }

    /** The number of cuts that are at most x. */
    private static int count(double[] cuts, double x) {
        int i = Arrays.binarySearch(cuts, x + 0.0); // the search has −0.0 below 0.0
        return i >= 0 ? i + 1 : -i - 1;
    }

    private static double steps(Map<String, Object> steps, double x) {
        return list(steps, "values")[count(list(steps, "cuts"), x)];
    }

    /** How far x is from knot i to the next; the distance of two knots may overflow. */
    private static double share(double[] knots, int i, double x) {
        double half = Double.isInfinite(knots[i + 1] - knots[i]) ? 0.5 : 1.0;
        return (half * x - half * knots[i]) / (half * knots[i + 1] - half * knots[i]);
    }

    private static double lines(double[] knots, double[] values, double x) {
        int i = count(knots, x) - 1;
        if (i < 0 || i == knots.length - 1) return values[Math.max(i, 0)];
        return values[i] + share(knots, i, x) * (values[i + 1] - values[i]);
    }

    private double cubics(double x) {
        double[] knots = list(map, "knots"), values = list(map, "values");
        int i = count(knots, x) - 1;
        if (i < 0 || i == knots.length - 1) return values[Math.max(i, 0)];
        double t = share(knots, i, x), low = values[i], high = values[i + 1];
        double bend = t * (1.0 - t) * (list(map, "rises")[i] * (1.0 - t) - list(map, "falls")[i] * t);
        return clamp(low + (high - low) * t * t * (3.0 - 2.0 * t) + bend, low, high);
    }

    private double beta(double x) {
        double z = scale.get("kind").equals("logit") ? x : clamp(logistic ? x : logit(unit(x)), -LOGIT_LIMIT, LOGIT_LIMIT);
        double tail = Math.log1p(Math.exp(-Math.abs(z)));
        double a = number(map, "a"), b = number(map, "b"), c = number(map, "c");
        return sigmoid(a * (Math.min(z, 0.0) - tail) + b * (Math.max(z, 0.0) + tail) + c);
    }

    private static double bernstein(double[] coefficients, double u) {
        double[] row = coefficients.clone();
        for (int n = row.length - 1; n > 0; n--)
            for (int i = 0; i < n; i++) row[i] = (1.0 - u) * row[i] + u * row[i + 1];
        return row[0];
    }

    private static double chebyshev(double[] coefficients, double u) {
        double e = Math.min(u, 1.0 - u), total = 0.0, value = 1.0, step = -2.0 * e, sign = 1.0;
        for (double c : coefficients) {
            total += sign * c * value;
            value += step;
            step -= 4.0 * e * value;
            sign = u < 0.5 ? -sign : sign;
        }
        return total;
    }

    private static Pair pair(Map<String, Object> fold, double x) {
        return new Pair(steps(object(fold.get("lower")), x), steps(object(fold.get("upper")), x));
    }

    private double scorePrior(double x) {
        Pair p = pair(map, x);
        double m = clamp(clamp(x, number(map, "least"), number(map, "greatest")), p.low, p.high);
        double r = Math.max(Math.min(m, 1.0 - m), TINY), width = PRIOR_EVENTS * (p.high - p.low);
        return (p.low * r + width * m) / ((1.0 - p.high + p.low) * r + width);
    }

    private double crossInterval(double[] x) {
        List<Pair> all = new ArrayList<>(), holding = new ArrayList<>();
        List<?> folds = (List<?>) map.get("folds");
        for (int k = 0; k < folds.size(); k++) {
            Map<String, Object> fold = object(folds.get(k));
            all.add(pair(fold, x[x.length > 1 ? k : 0]));
            int cuts = list(object(fold.get("lower")), "cuts").length + list(object(fold.get("upper")), "cuts").length;
            Pair pair = all.get(k);
            if (cuts > 0 || pair.low > 0.0 || pair.high < 1.0) holding.add(pair);
        }
        return point(holding.isEmpty() ? all : holding);
    }

    private double point(List<Pair> pairs) {
        double k = pairs.size(), positive = 1.0, negative = 1.0, brier = 0.0, low = 0.0, high = 0.0;
        for (Pair p : pairs) {
            positive *= Math.pow(p.high, 1.0 / k);
            negative *= Math.pow(1.0 - p.low, 1.0 / k);
            brier += p.high + 0.5 * (p.low * p.low - p.high * p.high);
            low += p.low;
            high += p.high;
        }
        double rest = 1.0 - high / k + low / k;
        return switch ((String) map.get("point")) {
            case "log-minimax" -> positive / (negative + positive);
            case "brier-minimax" -> brier / k;
            case "self-consistent" -> rest == 0.0 ? 0.5 : low / k / rest;
            default -> throw new IllegalArgumentException("unknown point " + map.get("point"));
        };
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> object(Object value) { return (Map<String, Object>) value; }
    private static double[] list(Map<String, Object> from, String name) { return (double[]) from.get(name); }
    private static double number(Map<String, Object> from, String name) { return (Double) from.get(name); }
}
