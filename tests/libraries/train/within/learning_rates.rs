//! Learning rates of a schedule reach embeddings and parameters, with both optimizers, on cores and on devices.

use super::{Told, With, World, numbers};

/// The one pass of a run is trained with half of the rates: they fall linearly to 0, and the middle of the pass counts.
#[test]
fn scheduled_rates_are_those_of_a_run_with_other_rates() {
    for (dynamic, optimizer, device) in [
        (true, "row_adagrad", false),
        (false, "row_adagrad", false),
        (true, "adagrad", false),
        (false, "row_adagrad", true),
    ] {
        let world = World::of_neighbours(dynamic);
        let trained = |model: &str, keys: &[(&str, &str)]| {
            let common = [
                ("num_epochs", "1"),
                ("relations.0.operator", "translation"),
                ("optimizer", optimizer),
            ];
            let keys = [&common, keys].concat();
            let keys: Vec<_> = keys
                .iter()
                .map(|(key, value)| (*key, (*value).to_owned()))
                .collect();
            let config = world.config(model, &keys);
            let with = With {
                weight: 1.0,
                sampler: 0,
                device,
            };
            Told::default().go_on(&config, with, None).unwrap();
            numbers(&config)
        };
        let halved = trained("halved", &[("lr", "0.05"), ("relation_lr", "0.125")]);
        let full = [("lr", "0.1"), ("relation_lr", "0.25")];
        let linear = [&full[..], &[("lr_schedule.decay", "linear")]].concat();
        assert_eq!(trained("linear", &linear), halved);
        let warm = [&full[..], &[("lr_schedule.warmup_epochs", "1")]].concat();
        assert_eq!(trained("warm", &warm), halved);
        assert_ne!(trained("full", &full), halved);
    }
}
