//! Lines are read: a line that begins with { is a map, any other holds scores, and is answered.

mod calibration_map;
mod formulas;
mod json;
mod reading;

use calibration_map::CalibrationMap;
use std::{error::Error, io::stdin};

fn main() -> Result<(), Box<dyn Error>> {
    let mut map = None;
    for line in stdin().lines() {
        let line = line?;
        if line.starts_with('{') {
            map = Some(CalibrationMap::read(&line)?);
        } else {
            let scores = line.split(' ').map(str::parse).collect::<Result<Vec<f64>, _>>()?;
            println!("{:e}", map.as_ref().ok_or("a map comes first")?.at(&scores));
        }
    }
    Ok(())
}
