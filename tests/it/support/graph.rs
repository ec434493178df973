//! A small graph that can be learnt: two rings and a bridge, under names with spaces and umlauts.

/// Entities in each ring.
pub(crate) const RING: usize = 40;

/// Returns the edge lists for training and testing, in three columns.
pub(crate) fn tsv() -> (String, String) {
    let (mut train, mut test) = (String::new(), String::new());
    for (index, (lhs, relation, rhs)) in edges().into_iter().enumerate() {
        let list = if index % 10 == 7 {
            &mut test
        } else {
            &mut train
        };
        list.push_str(&format!("{lhs}\t{relation}\t{rhs}\n"));
    }
    (train, test)
}

/// Returns the name of an entity.
pub(crate) fn name(ring: usize, index: usize) -> String {
    let ring = ["north pole", "süden"][ring];
    format!("{ring} {}", index % RING)
}

fn edges() -> Vec<(String, &'static str, String)> {
    let mut edges = Vec::new();
    for ring in 0..2 {
        for index in 0..RING {
            for (step, relation) in [(1, "next"), (2, "next but one"), (3, "near"), (5, "near")] {
                edges.push((name(ring, index), relation, name(ring, index + step)));
            }
        }
    }
    for index in 0..RING {
        edges.push((name(0, index), "opposite", name(1, index)));
    }
    edges
}

/// Configuration for the graph: three partitions, of which two fit the buffer, one worker, a fixed seed.
pub(crate) const CONFIG: &str = r#"
dataset = "data"
checkpoint_path = "model"
dimension = 16
dynamic_relations = true
comparator = "dot"
loss_fn = "softmax"
num_epochs = 2
lr = 0.1
workers = 1
seed = 7
batch_size = 20
num_batch_negs = 10
num_uniform_negs = 10
eval_fraction = 0.0

[entities.place]
num_partitions = 3

[[relations]]
name = "any"
lhs = "place"
rhs = "place"
operator = "translation"
"#;
