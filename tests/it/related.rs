//! Neighbours by a relation.

use serde_json::Value;

use crate::index::{MODELS, scored, trained};

#[test]
fn neighbors_by_a_relation_are_predictions_that_nothing_is_left_out_of() {
    for model in MODELS {
        let place = trained(model);
        let near = ["neighbors", "pbg.toml", "e7", "--relation", "r1", "--json"];
        let found: Value = serde_json::from_str(&place.run(near).succeeds().stdout).unwrap();
        place.write("q.tsv", "e7\tr1\t?\n?\tr1\te7\n");
        let all = [
            "predict",
            "--questions",
            "q.tsv",
            "--json",
            "--unfiltered",
            "--no-loops",
        ];
        let answers = place.run(all).succeeds().stdout;
        let expected = answers
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        assert_eq!(found, Value::Array(expected.collect()), "{model:?}");

        let one = place
            .run([&near[..], &["--asked", "head"]].concat())
            .succeeds();
        let one: Value = serde_json::from_str(&one.stdout).unwrap();
        assert_eq!(one, Value::Array(vec![found[1].clone()]));
        let told = place.run(&near[..5]).succeeds().stdout;
        let lines: Vec<&str> = told.lines().collect();
        assert_eq!(
            (lines.len(), lines[0], lines[11]),
            (22, "(e7, r1, ?)", "(?, r1, e7)")
        );
        let best = &found[0]["answers"][0];
        assert!(
            lines[1].ends_with(&format!("\t{}", best["name"].as_str().unwrap())),
            "{told}"
        );

        place.run(["index", "--recall-queries", "0"]).succeeds();
        let by_index = place
            .run([&near[..], &["--index", "--width", "200"]].concat())
            .succeeds();
        let by_index: Value = serde_json::from_str(&by_index.stdout).unwrap();
        for side in 0..2 {
            let of = |answer: &Value| -> Vec<(String, f32)> {
                answer[side]["answers"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(scored)
                    .collect()
            };
            let (exact, by_index) = (of(&found), of(&by_index));
            let both = by_index.iter().filter(|found| exact.contains(found));
            assert!(both.count() > 6, "{model:?} {exact:?} {by_index:?}");
        }
        place
            .run(["neighbors", "pbg.toml", "e7", "--relation", "r9"])
            .fails(4, &["r9"]);
    }
}
