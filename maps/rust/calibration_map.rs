//! Calibration maps of streamcal, format 1 (docs/map_format.md), with the standard library alone.
//!
//! `CalibrationMap::read` reads a map, and `at` gives the probability of a score, or of one score a fold; NaN for a
//! score outside the domain of the scale. Copy all files but main.rs, or read the JSON with serde.

use crate::formulas::*;
use crate::json::Json;
use crate::reading::{read_kind, read_scale};

pub enum Scale {
    Probability,
    Logit(f64, f64),
    Interval(f64, f64),
    EmpiricalCdf(Vec<f64>, Vec<f64>),
}

/// Cuts, and one value more.
pub struct Steps(pub Vec<f64>, pub Vec<f64>);

pub type Fold = (Steps, Steps);

pub enum Kind {
    Identity,
    Sigmoids(Vec<f64>, Vec<f64>, Vec<f64>),
    Beta(f64, f64, f64),
    Bernstein(Vec<f64>),
    BernsteinLogistic(Vec<f64>),
    Chebyshev(Vec<f64>),
    Steps(Steps),
    Lines(Vec<f64>, Vec<f64>),
    LogOddsLines(Vec<f64>, Vec<f64>),
    Cubics(Vec<f64>, [Vec<f64>; 3]),
    ScorePrior(Fold, f64, f64),
    Intervals(Vec<Fold>, String),
}

/// An immutable function from a score to a probability.
pub struct CalibrationMap {
    scale: Scale,
    decreasing: bool,
    kind: Kind,
    spots: [Vec<f64>; 3],
}

impl CalibrationMap {
    /// Reads a map; the error names what is wrong.
    pub fn read(text: &str) -> Result<Self, String> {
        let map = Json::read(text)?;
        if map.get("streamcal_map")?.number()? != 1.0 {
            return Err("not a calibration map of format 1".into());
        }
        let scale = map.get("scale")?;
        let decreasing = matches!(scale.get("decreasing"), Ok(Json::Bool(true)));
        let spots = match map.get("spots") {
            Ok(spots) => [spots.list("first")?, spots.list("last")?, spots.list("values")?],
            Err(_) => Default::default(),
        };
        Ok(Self { scale: read_scale(scale)?, decreasing, kind: read_kind(&map)?, spots })
    }

    /// The probability of one score, or of one score a fold.
    pub fn at(&self, scores: &[f64]) -> f64 {
        let (least, greatest) = match self.scale {
            Scale::Probability | Scale::Logit(..) => (0.0, 1.0),
            _ => (f64::MIN, f64::MAX),
        };
        if !scores.iter().all(|s| (least..=greatest).contains(s)) {
            return f64::NAN;
        }
        let rising: Vec<f64> = scores.iter().map(|s| if self.decreasing { least + greatest - s } else { *s }).collect();
        let [first, last, values] = &self.spots;
        let spot = count(first, rising[0]);
        if spot > 0 && rising[0] <= last[spot - 1] {
            return values[spot - 1];
        }
        self.probability(&rising.iter().map(|s| self.coordinate(*s)).collect::<Vec<f64>>())
    }

    fn coordinate(&self, s: f64) -> f64 {
        match &self.scale {
            Scale::Probability => s,
            Scale::Logit(lo, hi) => logit(s).clamp(*lo, *hi),
            Scale::Interval(lo, hi) => s.clamp(*lo, *hi),
            Scale::EmpiricalCdf(knots, ranks) => lines(knots, ranks, s),
        }
    }

    /// The bounds of the coordinate.
    fn ends(&self) -> (f64, f64) {
        match self.scale {
            Scale::Logit(lo, hi) | Scale::Interval(lo, hi) => (lo, hi),
            _ => (0.0, 1.0),
        }
    }

    /// The coordinate as a log-odds, if that is what it is.
    fn log_odds(&self, x: f64) -> Option<f64> {
        let (lo, hi) = self.ends();
        (matches!(self.scale, Scale::Logit(..)) || !(hi - lo).is_finite()).then_some(x)
    }

    fn unit(&self, x: f64) -> f64 {
        let (lo, hi) = self.ends();
        (x - lo) / (hi - lo)
    }

    fn probability(&self, xs: &[f64]) -> f64 {
        let x = xs[0];
        match &self.kind {
            Kind::Identity => self.log_odds(x).map_or_else(|| self.unit(x), sigmoid),
            Kind::Sigmoids(weights, slopes, offsets) => {
                let terms = weights.iter().zip(slopes).zip(offsets);
                terms.map(|((w, slope), offset)| w * sigmoid(slope * x + offset)).sum::<f64>().min(1.0)
            }
            Kind::Beta(a, b, c) => {
                let mut z = self.log_odds(x).unwrap_or_else(|| logit(self.unit(x)));
                if !matches!(self.scale, Scale::Logit(..)) {
                    z = z.clamp(-16.0, 16.0);
                }
                let tail = (-z.abs()).exp().ln_1p();
                sigmoid(a * (z.min(0.0) - tail) + b * (z.max(0.0) + tail) + c)
            }
            Kind::Bernstein(c) => bernstein(c, self.unit(x)).clamp(0.0, 1.0),
            Kind::BernsteinLogistic(c) => sigmoid(bernstein(c, self.unit(x))),
            Kind::Chebyshev(c) => chebyshev(c, self.unit(x)).clamp(0.0, 1.0),
            Kind::Steps(steps) => steps.at(x),
            Kind::Lines(knots, values) => lines(knots, values, x),
            Kind::LogOddsLines(knots, log_odds) => sigmoid(lines(knots, log_odds, x)),
            Kind::Cubics(knots, [values, rises, falls]) => between(knots, x).map_or_else(
                |i| values[i],
                |(i, t)| {
                    let (low, high) = (values[i], values[i + 1]);
                    let bend = t * (1.0 - t) * (rises[i] * (1.0 - t) - falls[i] * t);
                    (low + (high - low) * t * t * (3.0 - 2.0 * t) + bend).max(low).min(high)
                },
            ),
            Kind::ScorePrior(fold, least, greatest) => {
                let (low, high) = pair(fold, x);
                let middle = x.clamp(*least, *greatest).max(low).min(high);
                let rarer = middle.min(1.0 - middle).max(1e-300);
                let width = 0.25 * (high - low);
                (low * rarer + width * middle) / ((1.0 - high + low) * rarer + width)
            }
            Kind::Intervals(folds, rule) => {
                let holds = |(low, high): &Fold| {
                    !low.0.is_empty() || !high.0.is_empty() || low.1[0] > 0.0 || high.1[0] < 1.0
                };
                let any = folds.iter().any(holds);
                let of = |(k, fold)| pair(fold, xs[if xs.len() > 1 { k } else { 0 }]);
                let taking = folds.iter().enumerate().filter(|(_, fold)| holds(fold) || !any);
                point(rule, &taking.map(of).collect::<Vec<_>>())
            }
        }
    }
}
