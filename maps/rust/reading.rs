//! The parts of a map, from JSON.

use crate::calibration_map::{Fold, Kind, Scale, Steps};
use crate::json::Json;

pub fn read_scale(scale: &Json) -> Result<Scale, String> {
    let bound = |name, missing| match scale.get(name)? {
        Json::Null => Ok(missing),
        value => value.number(),
    };
    match scale.get("kind")?.text()? {
        "probability" => Ok(Scale::Probability),
        "logit" => Ok(Scale::Logit(bound("lo", 0.0)?, bound("hi", 0.0)?)),
        "interval" => Ok(Scale::Interval(bound("lo", f64::NEG_INFINITY)?, bound("hi", f64::INFINITY)?)),
        "empirical-cdf" => Ok(Scale::EmpiricalCdf(scale.list("knots")?, scale.list("ranks")?)),
        other => Err(format!("unknown kind of scale {other}")),
    }
}

fn read_steps(steps: &Json) -> Result<Steps, String> {
    Ok(Steps(steps.list("cuts")?, steps.list("values")?))
}

fn read_fold(fold: &Json) -> Result<Fold, String> {
    Ok((read_steps(fold.get("lower")?)?, read_steps(fold.get("upper")?)?))
}

pub fn read_kind(map: &Json) -> Result<Kind, String> {
    let number = |name: &str| map.get(name)?.number();
    let list = |name: &str| map.list(name);
    let one = |name: &str| Ok::<_, String>(vec![number(name)?]);
    Ok(match map.get("kind")?.text()? {
        "identity" => Kind::Identity,
        "sigmoid" => Kind::Sigmoids(vec![1.0], one("slope")?, one("offset")?),
        "sigmoids" => Kind::Sigmoids(list("weights")?, list("slopes")?, list("offsets")?),
        "beta" => Kind::Beta(number("a")?, number("b")?, number("c")?),
        "bernstein" => Kind::Bernstein(list("coefficients")?),
        "bernstein-logistic" => Kind::BernsteinLogistic(list("coefficients")?),
        "chebyshev" => Kind::Chebyshev(list("coefficients")?),
        "steps" => Kind::Steps(read_steps(map)?),
        "lines" => Kind::Lines(list("knots")?, list("values")?),
        "log-odds-lines" => Kind::LogOddsLines(list("knots")?, list("log_odds")?),
        "cubics" => Kind::Cubics(list("knots")?, [list("values")?, list("rises")?, list("falls")?]),
        "interval" if map.get("point")?.text()? == "score-prior" => {
            Kind::ScorePrior(read_fold(map)?, number("least")?, number("greatest")?)
        }
        "interval" => Kind::Intervals(vec![read_fold(map)?], map.get("point")?.text()?.into()),
        "cross-interval" => {
            let folds = map.get("folds")?.items()?.iter().map(read_fold).collect::<Result<_, _>>()?;
            Kind::Intervals(folds, map.get("point")?.text()?.into())
        }
        other => return Err(format!("unknown kind of map {other}")),
    })
}
