//! The formulas of the kinds of maps.

use crate::calibration_map::{Fold, Steps};

pub fn logit(p: f64) -> f64 {
    p.ln() - (-p).ln_1p()
}

pub fn sigmoid(z: f64) -> f64 {
    1.0 / (1.0 + (-z).exp())
}

/// The number of cuts that are at most x.
pub fn count(cuts: &[f64], x: f64) -> usize {
    cuts.partition_point(|cut| *cut <= x)
}

impl Steps {
    pub fn at(&self, x: f64) -> f64 {
        self.1[count(&self.0, x)]
    }
}

pub fn pair(fold: &Fold, x: f64) -> (f64, f64) {
    (fold.0.at(x), fold.1.at(x))
}

/// The knot to the left of x and the share of the way to the next; outside, the end knot as an error.
pub fn between(knots: &[f64], x: f64) -> Result<(usize, f64), usize> {
    let after = count(knots, x);
    if after == 0 || after == knots.len() {
        return Err(after.saturating_sub(1));
    }
    let (left, right) = (knots[after - 1], knots[after]);
    let half = if (right - left).is_finite() { 1.0 } else { 0.5 }; // the distance of two knots may overflow
    Ok((after - 1, (half * x - half * left) / (half * right - half * left)))
}

/// Linear between the knots, constant outside.
pub fn lines(knots: &[f64], values: &[f64], x: f64) -> f64 {
    between(knots, x).map_or_else(|i| values[i], |(i, t)| values[i] + t * (values[i + 1] - values[i]))
}

/// De Casteljau's algorithm.
pub fn bernstein(coefficients: &[f64], u: f64) -> f64 {
    let mut row = coefficients.to_vec();
    for n in (1..row.len()).rev() {
        for i in 0..n {
            row[i] = (1.0 - u) * row[i] + u * row[i + 1];
        }
    }
    row[0]
}

/// Reinsch's recurrence from the nearer end.
pub fn chebyshev(coefficients: &[f64], u: f64) -> f64 {
    let e = u.min(1.0 - u);
    let (mut total, mut value, mut step, mut sign) = (0.0, 1.0, -2.0 * e, 1.0);
    for c in coefficients {
        total += sign * c * value;
        value += step;
        step -= 4.0 * e * value;
        sign = if u < 0.5 { -sign } else { sign };
    }
    total
}

/// The probability of K pairs.
pub fn point(rule: &str, pairs: &[(f64, f64)]) -> f64 {
    let k = pairs.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / k;
    let geometric = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(|p| of(p).powf(1.0 / k)).product::<f64>();
    match rule {
        "log-minimax" => {
            let positive = geometric(|p| p.1);
            positive / (geometric(|p| 1.0 - p.0) + positive)
        }
        "brier-minimax" => mean(|p| p.1 + 0.5 * (p.0 * p.0 - p.1 * p.1)),
        "self-consistent" => {
            let (low, high) = (mean(|p| p.0), mean(|p| p.1));
            if 1.0 - high + low == 0.0 { 0.5 } else { low / (1.0 - high + low) }
        }
        _ => f64::NAN,
    }
}
