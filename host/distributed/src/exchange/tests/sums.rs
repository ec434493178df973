//! The additions of all trainers reach every trainer, and unsettled additions of a lost trainer disappear everywhere.

use super::*;

#[test]
fn what_all_workers_added_is_everywhere_whoever_comes_and_goes() {
    let hub = hub();
    let mut trainers: Vec<Trainer> = (1..=3).map(|token| Trainer::join(&hub, token)).collect();
    let mut expected = train(&trainers, 40);
    agree(&trainers, expected);
    // One joins with initial values and takes over the blocks that it owns.
    trainers.push(Trainer::join(&hub, 4));
    agree(&trainers, expected);
    expected += train(&trainers, 40);
    agree(&trainers, expected);
    // One leaves.
    trainers.remove(0).leave();
    expected += train(&trainers, 40);
    agree(&trainers, expected);
}

#[test]
fn what_one_that_is_lost_had_not_settled_is_nowhere() {
    let hub = hub();
    let mut trainers: Vec<Trainer> = (1..=3).map(|token| Trainer::join(&hub, token)).collect();
    // After this, each block has an owner that has received the first message of every trainer.
    agree(&trainers, 0.0);
    trainers[0].work(10, 0);
    trainers[0].settle();
    agree(&trainers, 10.0 * arrays());
    trainers[0].work(5, 0);
    agree(&trainers, 15.0 * arrays());
    trainers.remove(0).die(&hub);
    // Blocks that the lost trainer owned continue from copies, in which its unsettled additions cannot be told apart.
    for _ in 0..3 {
        trainers.iter().for_each(Trainer::tell);
    }
    let totals: Vec<f64> = trainers.iter().map(Trainer::total).collect();
    assert!((totals[0] - totals[1]).abs() < 1e-9, "{totals:?}");
    assert!(
        (10.0 * arrays()..15.0 * arrays()).contains(&totals[0]),
        "{totals:?}"
    );
}

#[test]
fn what_adagrads_sum_does_not_tell_arrives_too() {
    let hub = hub();
    let trainers: Vec<Trainer> = (1..=2).map(|token| Trainer::join(&hub, token)).collect();
    // Like updates whose squares are lost to rounding, in rows of blocks of both owners.
    let gate = trainers[0].exchange.gate();
    for row in 0..ENTITIES {
        let _batch = gate.read().unwrap();
        let table = &trainers[0].table;
        table.embeddings.add_to_row(row, 1.0, &[1.0; DIMENSION]);
    }
    agree(&trainers, ENTITIES as f64);
}
