//! Soon.
use super::checked::holds;
use super::world::{Budget, Model};

fn measure(name: &str, model: Model) {
    let start = std::time::Instant::now();
    let states = holds(model);
    eprintln!("{name}: {states} states in {:?}", start.elapsed());
}

#[test]
fn probe() {
    let none = Budget::default();
    measure("2x2 shared, 2", Model::new(2, 2, true, 2, none));
    measure("3x3 shared, 3", Model::new(3, 3, true, 3, none));
    measure("2x3 bipartite, 3", Model::new(2, 3, false, 3, none));
    let evict = Budget { evictions: 1, ..none };
    measure("2x3 bipartite, 3, evict", Model::new(2, 3, false, 3, evict));
    let wakes = Model { wakes_at_once: true, ..Model::new(2, 3, false, 3, evict) };
    measure("2x3 bipartite, 3, evict, wakes", wakes);
    measure("2x2 bip, 2, set back", Model::new(2, 2, false, 2, Budget { set_back: 1, ..none }));
    measure("2x2 bip, 2, lost", Model::new(2, 2, false, 2, Budget { lost: 1, ..none }));
    measure("2x2 bip, 2, late", Model::new(2, 2, false, 2, Budget { late: 1, ..none }));
    measure("2x2 bip, 2, doubled, set_back", Model::new(2, 2, false, 2, Budget { doubled: 1, set_back: 1, ..none }));
    measure("2x2 bip, 2, checkpoint", Model::new(2, 2, false, 2, Budget { checkpoints: 1, ..none }));
    measure("2x2 bip, 2, checkpoint, set back", Model::new(2, 2, false, 2, Budget { checkpoints: 1, set_back: 1, ..none }));
    let wakes = Model { wakes_at_once: true, ..Model::new(3, 3, true, 3, evict) };
    measure("3x3 shared, 3, evict, wakes", wakes);
    measure("3x3 shared, 3, evict", Model::new(3, 3, true, 3, evict));
}
