use serde::Deserialize;

use super::*;

#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum By {
    Edges,
    TotalBytes,
}

#[derive(Debug, Deserialize, PartialEq)]
struct Rate(f32);

#[derive(Debug, Deserialize, PartialEq)]
struct Inner {
    turns: u8,
}

#[derive(Debug, Deserialize, PartialEq)]
struct Mine {
    mirror: bool,
    by: By,
    rate: Rate,
    margin: Option<f64>,
    label: String,
    #[serde(flatten)]
    inner: Inner,
}

/// Returns values for [`Mine`], some of them replaced by `changed`.
fn mine(changed: &[(&str, Value)]) -> Vec<(String, Value)> {
    let values = [
        ("mirror", Value::Boolean(true)),
        ("by", Value::Text("total_bytes".to_owned())),
        ("rate", Value::Integer(1)),
        ("margin", Value::Number(1e-3)),
        ("label", Value::Text("x".to_owned())),
        ("turns", Value::Integer(7)),
    ];
    let value = |(name, value): (&str, Value)| {
        let instead = changed.iter().find(|(changed, _)| *changed == name);
        let value = instead.map_or(value, |(_, other)| other.clone());
        (name.to_owned(), value)
    };
    values.into_iter().map(value).collect()
}

#[test]
fn types_of_authors_are_read() {
    let expected = Mine {
        mirror: true,
        by: By::TotalBytes,
        rate: Rate(1.0),
        margin: Some(0.001),
        label: "x".to_owned(),
        inner: Inner { turns: 7 },
    };
    assert_eq!(read::<Mine>(&mine(&[])).unwrap(), expected);
}

#[test]
fn what_does_not_fit_is_named_with_its_parameter() {
    #[derive(Debug, Deserialize)]
    struct Turns {
        #[expect(dead_code, reason = "it is never read, as nothing fits")]
        turns: u8,
    }
    let text = |text: &str| Value::Text(text.to_owned());
    for (name, value, expected) in [
        (
            "mirror",
            Value::Number(1.5),
            "mirror: a number where a boolean is expected",
        ),
        ("by", text("age"), "by: unknown variant `age`"),
        (
            "by",
            Value::Integer(3),
            "by: an integer where enum By is expected",
        ),
    ] {
        let error = read::<Mine>(&mine(&[(name, value)]))
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{error}");
    }
    for (value, expected) in [
        (Value::Integer(300), "turns: 300, expected u8"),
        (Value::Integer(-1), "turns: -1, expected u8"),
        (text("x"), "turns: a text where u8 is expected"),
    ] {
        let error = read::<Turns>(&mine(&[("turns", value)])).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    let mut without = mine(&[]);
    without.retain(|(name, _)| name != "label");
    let error = read::<Mine>(&without).unwrap_err().to_string();
    assert_eq!(error, "missing field `label`");
}
