//! A tree of values that knows which line each value came from.

use std::collections::BTreeMap;

use toml::de::{DeTable, DeValue};

/// Where a value came from; ordered as problems are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// A line of the file, counted from 1.
    Line(usize),
    /// An override.
    Set,
    /// No place of its own: a key that is missing.
    Nowhere,
}

/// A value and its place.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) value: Value,
    pub(super) place: Place,
}

/// What TOML can say.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Boolean(bool),
    /// Integers beyond 128 bits become the nearest one.
    Integer(i128),
    Float(f64),
    Text(String),
    Datetime(String),
    List(Vec<Node>),
    Table(BTreeMap<String, Node>),
}

impl Node {
    /// The tree of a file. On syntax errors: each with its line.
    pub(super) fn parse(text: &str) -> Result<Self, Vec<(Place, String)>> {
        let lines = Lines::new(text);
        let (table, errors) = DeTable::parse_recoverable(text);
        if errors.is_empty() {
            return Ok(Self {
                value: lines.table(table.into_inner()),
                place: Place::Nowhere,
            });
        }
        let place = |error: &toml::de::Error| {
            error
                .span()
                .map_or(Place::Nowhere, |span| lines.place(span.start))
        };
        Err(errors
            .iter()
            .map(|e| (place(e), e.message().to_owned()))
            .collect())
    }

    /// The value that `text` writes in TOML, as an override; `None` when it is not one.
    pub(super) fn parse_value(text: &str) -> Option<Value> {
        let value = DeValue::parse(text).ok()?.into_inner();
        let mut node = Self {
            value: Lines::new(text).value(value),
            place: Place::Set,
        };
        node.move_to(Place::Set);
        Some(node.value)
    }

    /// The place of the value at `path`, or of the nearest value above it.
    pub(super) fn place_of(&self, path: &[String]) -> Place {
        let child = path
            .split_first()
            .and_then(|(first, rest)| match &self.value {
                Value::Table(entries) => entries.get(first).map(|n| (n, rest)),
                Value::List(items) => Some((items.get(first.parse::<usize>().ok()?)?, rest)),
                _ => None,
            });
        match child {
            Some((node, rest)) => match node.place_of(rest) {
                Place::Nowhere => node.place,
                place => place,
            },
            None => self.place,
        }
    }

    /// Gives every value the same place.
    pub(super) fn move_to(&mut self, place: Place) {
        self.place = place;
        match &mut self.value {
            Value::List(items) => items.iter_mut().for_each(|n| n.move_to(place)),
            Value::Table(entries) => entries.values_mut().for_each(|n| n.move_to(place)),
            _ => {}
        }
    }
}

impl Value {
    /// For messages: what this is, with its value where that is short.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Boolean(b) => b.to_string(),
            Self::Integer(i) => i.to_string(),
            Self::Float(x) => format!("{x:?}"),
            Self::Text(s) => format!("the text {}", excerpt(s)),
            Self::Datetime(d) => format!("the date {d}"),
            Self::List(_) => "a list".to_owned(),
            Self::Table(_) => "a table".to_owned(),
        }
    }
}

/// The beginning of `text` in quotes, safe to print.
pub(super) fn excerpt(text: &str) -> String {
    const MOST: usize = 60;
    match text.char_indices().nth(MOST) {
        None => format!("{text:?}"),
        Some((end, _)) => format!("{:?}...", &text[..end]),
    }
}

/// Finds the line of a position in a text.
struct Lines(Vec<usize>);

impl Lines {
    fn new(text: &str) -> Self {
        Self(text.match_indices('\n').map(|(i, _)| i).collect())
    }

    fn place(&self, position: usize) -> Place {
        Place::Line(1 + self.0.partition_point(|&newline| newline < position))
    }

    fn value(&self, value: DeValue<'_>) -> Value {
        match value {
            DeValue::Boolean(b) => Value::Boolean(b),
            DeValue::String(s) => Value::Text(s.into_owned()),
            DeValue::Datetime(d) => Value::Datetime(d.to_string()),
            DeValue::Float(x) => Value::Float(x.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Integer(i) => {
                let nearest = if i.as_str().starts_with('-') {
                    i128::MIN
                } else {
                    i128::MAX
                };
                Value::Integer(i128::from_str_radix(i.as_str(), i.radix()).unwrap_or(nearest))
            }
            DeValue::Array(items) => Value::List(
                items
                    .into_iter()
                    .map(|item| {
                        let place = self.place(item.span().start);
                        Node {
                            value: self.value(item.into_inner()),
                            place,
                        }
                    })
                    .collect(),
            ),
            DeValue::Table(entries) => self.table(entries),
        }
    }

    fn table(&self, entries: DeTable<'_>) -> Value {
        Value::Table(
            entries
                .into_iter()
                .map(|(key, value)| {
                    let place = self.place(key.span().start);
                    let node = Node {
                        value: self.value(value.into_inner()),
                        place,
                    };
                    (key.into_inner().into_owned(), node)
                })
                .collect(),
        )
    }
}
