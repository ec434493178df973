//! Trainers without a model share a pass over a register within one process.

use std::sync::Mutex;

use pbg_core::strategy::{StrategyError, StrategyId};

use super::*;
use crate::ledger::tests::Wire;

/// Picks the first free bucket in grid order.
struct First(StrategyId);

impl BucketOrder for First {
    fn id(&self) -> &StrategyId {
        &self.0
    }

    fn plan(&mut self, pass: &Pass) -> Result<Vec<Bucket>, StrategyError> {
        let grid = Grid::of(pass);
        Ok((0..pass.buckets())
            .map(|index| grid.bucket(index))
            .collect())
    }

    fn pick(&mut self, _: &Pass, _: &[Bucket], _: &[Bucket]) -> Result<usize, StrategyError> {
        Ok(0)
    }
}

fn actor(wire: &Arc<Wire>) -> SimTrainer {
    SimTrainer {
        register: Arc::clone(wire) as Arc<dyn Register>,
        live: Arc::clone(wire) as Arc<dyn LiveTraffic>,
        order: Box::new(First(StrategyId {
            name: "first".to_owned(),
            version: "1".to_owned(),
            sha256: String::new(),
        })),
    }
}

fn scene(trainers: u32, ahead: bool) -> Scenario {
    Scenario {
        pass: Pass {
            lhs_partitions: 6,
            rhs_partitions: 6,
            shared: true,
            // Bucket (0, 1) has no edges.
            edges: (0..36).map(|cell| u64::from(cell != 1)).collect(),
            lhs_bytes: vec![100; 6],
            rhs_bytes: vec![100; 6],
            buffer_partitions: 6,
            resident: Vec::new(),
            epoch: 0,
            edge_set: 0,
            edge_chunk: 0,
            seed: 0,
        },
        trainers,
        tree_init: true,
        ahead: Some(ahead),
        patience: Duration::from_secs(60),
        stop: Arc::default(),
    }
}

#[test]
fn every_bucket_with_edges_is_trained_once() {
    for (trainers, ahead) in [(1, false), (3, false), (3, true)] {
        let (wire, scene) = (Arc::new(Wire::default()), scene(trainers, ahead));
        let trained = Mutex::new(Vec::new());
        let rehearsed: Vec<SimReport> = thread::scope(|scope| {
            let start = |_| {
                let (actor, scene, trained) = (actor(&wire), &scene, &trained);
                let mut train = move |bucket| trained.lock().unwrap().push(bucket);
                scope.spawn(move || simulate_trainer(actor, scene, &mut train).unwrap())
            };
            let threads: Vec<_> = (0..trainers).map(start).collect();
            let ended = threads.into_iter().map(|thread| thread.join().unwrap());
            ended.collect()
        });
        let mut trained = trained.into_inner().unwrap();
        trained.sort_unstable();
        let all = (0..6).flat_map(|lhs| (0..6).map(move |rhs| Bucket::new(lhs, rhs)));
        let expected: Vec<Bucket> = all.filter(|b| *b != Bucket::new(0, 1)).collect();
        assert_eq!(trained, expected);
        let sum = |of: fn(&SimReport) -> u64| rehearsed.iter().map(of).sum::<u64>();
        assert_eq!(sum(|one| one.buckets), 35);
        let (loads, writes) = (sum(|one| one.loads), sum(|one| one.writes));
        // A single trainer with room for all partitions reads each once. Every partition is trained and written.
        assert!(if trainers == 1 {
            loads == 6
        } else {
            loads >= 6
        });
        assert!(writes >= 6, "{writes}");
    }
}

#[test]
fn who_is_to_stop_takes_no_bucket_any_more() {
    let (wire, scene) = (Arc::new(Wire::default()), scene(1, true));
    let mut trained = 0;
    let mut train = |_| {
        trained += 1;
        scene.stop.store(trained == 3, Ordering::Relaxed);
    };
    let rehearsed = simulate_trainer(actor(&wire), &scene, &mut train).unwrap();
    assert_eq!((rehearsed.buckets, trained), (3, 3));
}
