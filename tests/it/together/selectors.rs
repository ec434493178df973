//! Processes whose negatives a plugin selects.

use serde_json::Value;

use super::{Meeting, edges, edges_by_epoch};
use crate::support::plugin::negative_selector;

/// Selections are functions of their chunks, so the trainers need nothing in common; a trainer whose plugin fails goes on
/// with uniform negatives.
#[test]
fn two_processes_select_and_train_every_edge_once() {
    let Some(meeting) = Meeting::new(4) else {
        return;
    };
    meeting
        .place
        .write("evil.wasm", negative_selector("unreachable"));
    let failing = ["negative_sampler=./evil.wasm", "plugins.on_fault=fallback"];
    for (keys, fails) in [
        (&["negative_sampler=hard_negatives"][..], false),
        (&failing, true),
    ] {
        let folder = format!("checkpoint_path=model{}", keys.len());
        let keys = [keys, &["num_epochs=2", &folder]].concat();
        let mut second = meeting.start(1, 2, &keys);
        let mut first = meeting.start(0, 2, &keys);
        assert_eq!(first.ends(), Some(0), "{}", first.errors());
        assert_eq!(second.ends(), Some(0), "{}", second.errors());
        let all = edges(&meeting.place.path("train.tsv"));
        let epochs = edges_by_epoch(&[&first, &second]);
        assert_eq!(epochs.len(), 2, "{epochs:?}");
        assert!(epochs.iter().all(|(_, count)| *count == all), "{epochs:?}");
        for trainer in [&first, &second] {
            let faults = trainer.of("plugin_fault");
            let replaced = |fault: &Value| fault["fallback"] == "uniform_negatives 0.1.0";
            assert!(faults.iter().all(replaced), "{faults:?}");
            assert_eq!(faults.is_empty(), !fails, "{faults:?}");
        }
    }
}
