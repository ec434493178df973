//! Checkpoints of the ends of epochs that are preserved.

use super::*;

#[test]
fn the_ends_of_epochs_are_kept() {
    let world = World::new();
    let hub = Arc::new(Hub::default());
    let keys = [
        ("num_epochs", "3"),
        ("checkpoint_preservation_interval", "1"),
    ];
    let config = world.config("together", &keys);
    let connections: Vec<_> = (0..2).map(|i| Connection::new(&hub, i)).collect();
    for outcome in train(&config, &connections) {
        finished(&outcome);
    }
    let kept = |epoch: u32| {
        let folder = Path::new(&config.checkpoint_path).join(format!("epoch_{epoch}"));
        let checkpoint_path = folder.display().to_string();
        bytes(&Config {
            checkpoint_path,
            ..config.clone()
        })
    };
    assert!(kept(3) == bytes(&config));
    assert!(kept(1) != kept(2) && kept(2) != kept(3));
    // One machine that trains the same buckets has the same rows after the first epoch.
    replays(&world, &config, &hub.history(), &keys);
}
