//! A text is read correctly, or refused.

use proptest::prelude::*;

use super::*;

const NAMES: [&str; 5] = ["a.tsv", "a.csv", "a.sif", "a.txt", "a"];
const SEPARATORS: [&str; 8] = ["\t", ",", ", ", ";", "|", " | ", "  ", " \t  "];

/// Edges whose names are words, or numbers.
fn edges() -> impl Strategy<Value = Vec<(String, String, String)>> {
    let of = |name: &'static str, relation: &'static str| {
        prop::collection::vec((name, relation, name), 1..12)
    };
    prop_oneof![of("[a-e]{1,5}", "[a-c]{1,3}"), of("[0-9]{1,3}", "[0-9]")]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn edges_are_read_as_they_were_written_or_refused(
        edges in edges(),
        separator in prop::sample::select(&SEPARATORS[..]),
        name in prop::sample::select(&NAMES[..]),
        header in any::<bool>(),
        count in any::<bool>(),
        comments in 0..3_usize,
        said in any::<bool>(),
    ) {
        let line = |lhs: &str, rel: &str, rhs: &str| [lhs, rel, rhs].join(separator) + "\n";
        let mut text = "# a comment with words\n".repeat(comments);
        if count {
            text += &format!("{}\n", edges.len());
        }
        if header {
            text += &line("source", "relation", "target");
        }
        for (lhs, rel, rhs) in &edges {
            text += &line(lhs, rel, rhs);
        }
        let mut workshop = Workshop::new(1);
        if said {
            workshop.options.text.header = Some(header);
        }
        match workshop.import_text(name, &text) {
            Ok(dataset) => {
                let mut expected: Vec<NamedEdge> =
                    edges.iter().map(|(lhs, rel, rhs)| edge(lhs, rel, rhs)).collect();
                expected.sort();
                prop_assert_eq!(named_edges(&dataset, "train"), expected, "{}", text);
            }
            Err(error) => {
                let asks = match separator {
                    // Words with commas may be column names.
                    "," | ", " | ";" if !said && !header => "--header yes",
                    // Tabs may be the separator, and names may have blanks around them.
                    " \t  " => "--separator space",
                    _ => "nothing",
                };
                prop_assert!(error.to_string().contains(asks), "{}: {}", error, text);
            }
        }
    }
}
