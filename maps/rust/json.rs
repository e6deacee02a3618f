//! A reader of JSON.

use std::{iter::Peekable, str::Chars};

pub enum Json {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    pub fn read(text: &str) -> Result<Json, String> {
        let mut rest = text.chars().peekable();
        let value = value(&mut rest)?;
        match next(&mut rest) {
            None => Ok(value),
            Some(c) => Err(format!("{c:?} after the JSON")),
        }
    }

    pub fn get(&self, name: &str) -> Result<&Json, String> {
        match self {
            Json::Object(fields) => fields.iter().find(|(key, _)| key == name).map(|(_, value)| value),
            _ => None,
        }
        .ok_or(format!("there is no field {name:?}"))
    }

    pub fn number(&self) -> Result<f64, String> {
        if let Json::Number(x) = self { Ok(*x) } else { Err("a number is missing".into()) }
    }

    pub fn text(&self) -> Result<&str, String> {
        if let Json::Text(text) = self { Ok(text) } else { Err("a text is missing".into()) }
    }

    pub fn items(&self) -> Result<&[Json], String> {
        if let Json::List(items) = self { Ok(items) } else { Err("a list is missing".into()) }
    }

    /// The list of numbers in a field.
    pub fn list(&self, name: &str) -> Result<Vec<f64>, String> {
        self.get(name)?.items()?.iter().map(Json::number).collect()
    }
}

type Rest<'a> = Peekable<Chars<'a>>;

/// The next character that is no space, which is not taken.
fn next(rest: &mut Rest) -> Option<char> {
    while rest.next_if(|c| c.is_whitespace()).is_some() {}
    rest.peek().copied()
}

fn value(rest: &mut Rest) -> Result<Json, String> {
    match next(rest).ok_or("the JSON ends early")? {
        '{' => Ok(Json::Object(items(rest, '}', |rest| {
            let name = text(rest)?;
            if next(rest) != Some(':') {
                return Err("a colon is missing".into());
            }
            rest.next();
            Ok((name, value(rest)?))
        })?)),
        '[' => Ok(Json::List(items(rest, ']', value)?)),
        '"' => Ok(Json::Text(text(rest)?)),
        _ => {
            let mut word = String::new();
            while let Some(c) = rest.next_if(|c| !",]}".contains(*c) && !c.is_whitespace()) {
                word.push(c);
            }
            match word.as_str() {
                "null" => Ok(Json::Null),
                "true" => Ok(Json::Bool(true)),
                "false" => Ok(Json::Bool(false)),
                _ => word.parse().map(Json::Number).map_err(|_| format!("{word:?} is no number")),
            }
        }
    }
}

fn items<T>(rest: &mut Rest, end: char, item: fn(&mut Rest) -> Result<T, String>) -> Result<Vec<T>, String> {
    let mut found = Vec::new();
    rest.next();
    while next(rest) != Some(end) {
        found.push(item(rest)?);
        if next(rest) == Some(',') {
            rest.next();
        } else if next(rest) != Some(end) {
            return Err(format!("{end:?} is missing"));
        }
    }
    rest.next();
    Ok(found)
}

/// A text; the names and kinds of a map contain no escapes.
fn text(rest: &mut Rest) -> Result<String, String> {
    if next(rest) != Some('"') {
        return Err("a text is missing".into());
    }
    rest.next();
    let mut found = String::new();
    loop {
        match rest.next().ok_or("a text does not end")? {
            '"' => return Ok(found),
            c => found.push(c),
        }
    }
}
