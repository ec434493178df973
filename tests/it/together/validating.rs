//! Processes that rank validation edges together.

use serde_json::Value;

use super::Meeting;

#[test]
fn two_processes_validate_and_stop_as_one_does() {
    let Some(meeting) = Meeting::new(4) else {
        return;
    };
    let rules = ["validation.edges=test", "validation.early_stop=1"];
    let keys = [&rules[..], &["num_epochs=60"]].concat();
    let mut second = meeting.start(1, 2, &keys);
    let mut first = meeting.start(0, 2, &keys);
    assert_eq!(first.ends(), Some(0), "{}", first.errors());
    assert_eq!(second.ends(), Some(0), "{}", second.errors());
    let told = [&first, &second].map(|trainer| {
        let what = |event: &Value| ["epochs", "ranks", "best"].map(|key| event[key].clone());
        let told = trainer.of("validated");
        told.iter().map(what).collect::<Vec<_>>()
    });
    assert!(told[0].len() > 1 && told[0] == told[1], "{told:?}");
    let best = "eval --json --edges test --filter train,test --set checkpoint_path=model/best";
    let best = meeting.place.run(best.split(' ')).succeeds().stdout;
    let best: Value = serde_json::from_str(&best).unwrap();
    let expected = best["filtered"]["mrr"].as_f64().unwrap();
    for trainer in [&first, &second] {
        let found = trainer.of("stopped_early")[0]["best_mrr"].as_f64().unwrap();
        assert!((found - expected).abs() < 1e-12, "{found}, not {expected}");
    }
}
