use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::Deserialize;

use super::*;

fn values() -> impl Strategy<Value = Value> {
    let finite = any::<f64>().prop_filter("finite", |x| x.is_finite());
    prop_oneof![
        any::<bool>().prop_map(Value::Boolean),
        any::<i64>().prop_map(Value::Integer),
        finite.prop_map(Value::Number),
        any::<String>().prop_map(Value::Text),
    ]
}

/// As the host writes it.
fn of_host(value: &Value) -> serde_json::Value {
    match value.clone() {
        Value::Boolean(value) => value.into(),
        Value::Integer(value) => value.into(),
        Value::Number(value) => value.into(),
        Value::Text(value) => value.into(),
    }
}

proptest! {
    #[test]
    fn what_the_host_writes_is_read(given in proptest::collection::btree_map(any::<String>(), values(), 0..6)) {
        let theirs: serde_json::Map<_, _> = given.iter().map(|(k, v)| (k.clone(), of_host(v))).collect();
        let theirs = serde_json::Value::Object(theirs);
        for text in [theirs.to_string(), serde_json::to_string_pretty(&theirs).unwrap()] {
            let found: BTreeMap<_, _> = members(&text).unwrap().into_iter().collect();
            prop_assert_eq!(&found, &given);
        }
        let ours = write(given.iter().map(|(name, value)| (name.as_str(), value.clone())));
        prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&ours).unwrap(), theirs);
    }

    #[test]
    fn what_is_no_json_is_refused_without_a_panic(text: String, object in r#"\{"[ab]":[0-9a-z"\\,{}\[\].+ \n-]{0,9}\}?"#) {
        for text in [text, object] {
            if members(&text).is_ok() {
                prop_assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{}", text);
            }
        }
    }
}

#[test]
fn numerals_are_those_of_json() {
    for numeral in ["0", "-0", "10", "-1.50", "0.5e+3", "1E-3"] {
        members(&format!(r#"{{"a":{numeral}}}"#)).expect(numeral);
    }
    for other in [
        "00", "-01", "+1", ".5", "-.5", "1.", "1.e3", "1e", "1.5.5", "-", "--1", "1e999",
    ] {
        members(&format!(r#"{{"a":{other}}}"#)).expect_err(other);
    }
}

#[test]
fn escapes_are_those_of_json() {
    let text = r#"{"a": "\"\\\/\b\f\n\r\t\u0041\ud83d\ude00 ü"}"#;
    let expected = "\"\\/\u{8}\u{c}\n\r\tA😀 ü";
    assert_eq!(
        members(text).unwrap(),
        [("a".to_owned(), Value::Text(expected.to_owned()))]
    );
    for lone in [
        r#"{"a": "\ud83d"}"#,
        r#"{"a": "\ud83dx"}"#,
        r#"{"a": "\udc00"}"#,
        "{\"a\": \"\n\"}",
    ] {
        members(lone).unwrap_err();
    }
}

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

const MINE: &str =
    r#"{"mirror": true, "by": "total_bytes", "rate": 1, "margin": 1e-3, "label": "x", "turns": 7}"#;

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
    assert_eq!(read::<Mine>(MINE).unwrap(), expected);
}

#[test]
fn what_does_not_fit_is_named() {
    for (from, to, expected) in [
        ("true", "1.5", "a number where a boolean is expected"),
        ("total_bytes", "age", "unknown variant `age`"),
        (
            "\"total_bytes\"",
            "3",
            "an integer where enum By is expected",
        ),
        ("7}", "300}", "300, expected u8"),
        ("7}", "-1}", "-1, expected u8"),
        ("\"label\"", "\"table\"", "missing field `label`"),
        (
            "true",
            "null",
            "expected a boolean, a number or a text at ` null",
        ),
        ("7}", "7", "expected }"),
        ("7}", "7} x", "expected the end"),
    ] {
        let error = read::<Mine>(&MINE.replace(from, to)).unwrap_err();
        assert!(error.to_string().contains(expected), "{to}: {error}");
    }
}
