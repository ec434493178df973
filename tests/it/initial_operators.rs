//! `operator_init_scale`: operators begin at random instead of as the identity. `regularizer = "N3_embeddings"`: N3 of
//! the embeddings themselves. Both follow the literature on knowledge graphs where PBG differs from it.

use crate::support::graph::CONFIG;
use crate::support::{Workplace, with};

const TRAIN: [&str; 3] = ["train", "--progress", "none"];
const COMPLEX: &str = "relations.0.operator=complex_diagonal";
const SCALE: &str = "operator_init_scale=0.001";
const N3: [&str; 2] = ["regularizer=N3_embeddings", "regularization_coef=0.05"];

#[test]
fn a_resumed_run_equals_an_uninterrupted_one() {
    let keys = [&[COMPLEX, SCALE, "comparator=dot"][..], &N3].concat();
    let trained = |epochs: &[&str]| {
        let place = Workplace::with_dataset(CONFIG);
        for epochs in epochs {
            let keys = [&keys[..], &[epochs]].concat();
            place.run(with(&TRAIN, &keys)).succeeds();
        }
        place
    };
    let whole = trained(&["num_epochs=2"]);
    let resumed = trained(&["num_epochs=1", "num_epochs=2"]);
    assert_eq!(whole.committed("model"), resumed.committed("model"));
    // A run that began with other values is another run.
    let others = [
        (SCALE, "operator_init_scale=0.01", "operator_init_scale: "),
        (N3[0], "regularizer=N3", "regularizer: "),
    ];
    for (key, other, said) in others {
        let keys: Vec<_> = keys.iter().filter(|&&k| k != key).copied().collect();
        let keys = [&keys[..], &[other]].concat();
        whole.run(with(&TRAIN, &keys)).fails(5, &[said]);
    }
}

#[test]
fn both_change_what_is_trained() {
    let trained = |keys: &[&str]| {
        let place = Workplace::with_dataset(CONFIG);
        let keys = [&[COMPLEX, "comparator=dot", "num_epochs=1", N3[1]], keys].concat();
        place.run(with(&TRAIN, &keys)).succeeds();
        place.committed("model")
    };
    let (plain, random, penalised) = (trained(&[]), trained(&[SCALE]), trained(&[N3[0]]));
    assert_ne!(plain, random);
    assert_ne!(plain, penalised);
}

#[test]
fn where_they_are_not_there_one_line_says_so() {
    let place = Workplace::with_dataset(CONFIG);
    for (keys, words) in [
        (
            &[N3[0], N3[1], "comparator=cos"][..],
            &["regularizer", "N3_embeddings", "cos"][..],
        ),
        (
            &[
                N3[0],
                N3[1],
                "comparator=dot",
                "relations.0.operator=affine",
            ],
            &["regularizer N3", "affine"],
        ),
        (
            &["regularizer=N3_embedding"],
            &["regularizer", "N3_embeddings"],
        ),
    ] {
        place.run(with(&["check"], keys)).fails(3, words);
    }
    for operator in ["none", "rotate"] {
        let operator = format!("relations.0.operator={operator}");
        let found = place.run(with(&["check"], &[SCALE, &operator])).succeeds();
        assert!(
            found.stderr.contains("operator_init_scale: no relation"),
            "{}",
            found.stderr
        );
    }
}
