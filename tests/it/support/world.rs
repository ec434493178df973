//! Random small worlds: a configuration, its edges, and naive counts of them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use pbg_fuzz::Dice;

use crate::support::Workplace;

/// Entity type.
struct Type {
    name: String,
    entities: usize,
    partitioned: bool,
    featurized: bool,
}

/// Configuration with its edge sets.
pub(crate) struct World {
    pub(crate) config: String,
    /// Names of the edge sets that are trained, with the number of their edges.
    pub(crate) sets: Vec<(String, usize)>,
    pub(crate) epochs: usize,
    pub(crate) workers: usize,
    /// Edge lists by file name.
    files: BTreeMap<String, String>,
    /// Arguments of the import.
    import: Vec<String>,
}

/// State of the generation of a world.
struct Maker {
    dice: Dice,
    /// Generator of keys that were added later, so that worlds keep their earlier keys.
    later: Dice,
    types: Vec<Type>,
    /// Name, left type, right type.
    relations: Vec<(String, usize, usize)>,
    partitions: usize,
    dynamic: bool,
    weighted: bool,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut maker = Maker::new(seed);
        let dice = &mut maker.dice;
        let (epochs, workers) = (dice.from(1, 3), *dice.pick(&[1, 1, 1, 2, 3]));
        let sets = dice.from(1, 2);
        let mut import = vec!["import".to_owned()];
        if maker.weighted {
            import.extend(["--columns".to_owned(), "lhs,rel,rhs,weight".to_owned()]);
        }
        let mut files = BTreeMap::new();
        let mut counts = Vec::new();
        for set in 0..sets + 1 {
            // The last set is for validation.
            let name = if set == sets {
                "valid".to_owned()
            } else {
                format!("set{set}")
            };
            let edges = maker.dice.from(1, 200);
            files.insert(format!("{name}.tsv"), maker.edges(edges));
            import.extend(["--edges".to_owned(), format!("{name}={name}.tsv")]);
            counts.push((name, edges));
        }
        for featurized in maker.types.iter().filter(|t| t.featurized) {
            let name = &featurized.name;
            let lines = (0..featurized.entities).map(|entity| {
                let second = (entity * 7 + 3) % featurized.entities;
                format!("{name} {entity}\tf{}\tf{}\n", entity % 5, 5 + second % 4)
            });
            files.insert(format!("{name}.features"), lines.collect());
            import.extend(["--features".to_owned(), format!("{name}={name}.features")]);
        }
        counts.pop();
        let config = maker.config(&counts, epochs, workers);
        Self {
            config,
            sets: counts,
            epochs,
            workers,
            files,
            import,
        }
    }

    /// Imports the world into a folder.
    pub(crate) fn imported(&self) -> Workplace {
        let place = Workplace::empty();
        place.write("pbg.toml", &self.config);
        for (name, text) in &self.files {
            place.write(name, text);
        }
        place.run(&self.import).succeeds();
        place
    }
}

impl Maker {
    fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let partitions = *dice.pick(&[1, 2, 3, 4]);
        let types = (0..dice.from(1, 3)).map(|index| {
            let featurized = dice.once_in(5);
            Type {
                name: format!("kind{index}"),
                entities: dice.from(8, 60),
                partitioned: !featurized && !dice.once_in(3),
                featurized,
            }
        });
        let types: Vec<Type> = types.collect();
        let dynamic = dice.once_in(3);
        let mut relations = Vec::new();
        let template = (dice.from(0, types.len() - 1), dice.from(0, types.len() - 1));
        for index in 0..dice.from(1, 4) {
            let (lhs, rhs) = match dynamic {
                true => template,
                false => (dice.from(0, types.len() - 1), dice.from(0, types.len() - 1)),
            };
            relations.push((format!("rel {index}"), lhs, rhs));
        }
        let weighted = dice.once_in(3);
        Self {
            dice,
            later: Dice::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            types,
            relations,
            partitions,
            dynamic,
            weighted,
        }
    }

    /// Returns lines of `count` edges, in random order of relations.
    fn edges(&mut self, count: usize) -> String {
        let mut text = String::new();
        for _ in 0..count {
            let (name, lhs, rhs) = &self.relations[self.dice.from(0, self.relations.len() - 1)];
            let (lhs, rhs) = (&self.types[*lhs], &self.types[*rhs]);
            let (from, to) = (
                self.dice.from(0, lhs.entities - 1),
                self.dice.from(0, rhs.entities - 1),
            );
            let _ = write!(text, "{} {from}\t{name}\t{} {to}", lhs.name, rhs.name);
            if self.weighted {
                let _ = write!(text, "\t{}", self.dice.pick(&["1", "0.5", "2.25", "0"]));
            }
            text.push('\n');
        }
        text
    }

    fn config(&mut self, sets: &[(String, usize)], epochs: usize, workers: usize) -> String {
        let featurized = self.types.iter().any(|t| t.featurized);
        let dice = &mut self.dice;
        let matrix = dice.once_in(4);
        let operators: &[&str] = match matrix {
            true => &["linear", "affine", "none"],
            false => &["none", "diagonal", "translation", "complex_diagonal"],
        };
        let names: Vec<String> = sets.iter().map(|(name, _)| format!("{name:?}")).collect();
        let mut text = format!(
            "dataset = \"data\"\ncheckpoint_path = \"model\"\nedge_sets = [{}]\n",
            names.join(", ")
        );
        let mut key = |line: String| {
            text.push_str(&line);
            text.push('\n');
        };
        key(format!("dimension = {}", 2 * dice.from(1, 6)));
        key(format!("num_epochs = {epochs}\nworkers = {workers}"));
        key(format!("seed = {}", dice.from(0, 1000)));
        let comparators = ["dot", "cos", "l2", "squared_l2"];
        key(format!("comparator = {:?}", dice.pick(&comparators)));
        let losses = [
            "ranking",
            "logistic",
            "softmax",
            "self_adversarial",
            "bce",
            "softmax_computed",
        ];
        key(format!("loss_fn = {:?}", dice.pick(&losses)));
        key(format!("dynamic_relations = {}", self.dynamic));
        key(format!("bias = {}", dice.once_in(4)));
        if !self.dynamic {
            key(format!("global_emb = {}", dice.once_in(2)));
        }
        if dice.once_in(3) {
            key("max_norm = 0.7".to_owned());
        }
        if dice.once_in(3) && !matrix {
            key("regularization_coef = 0.001".to_owned());
        }
        key(format!("lr = {}", dice.pick(&["0.1", "0.01"])));
        let per_chunk = *dice.pick(&[0, 3, 10]);
        // Featurized types have no uniform negatives.
        let per_chunk = if featurized {
            per_chunk.max(3)
        } else {
            per_chunk
        };
        key(format!("num_batch_negs = {per_chunk}"));
        key(format!("num_uniform_negs = {}", dice.from(1, 12)));
        key(format!(
            "batch_size = {}",
            per_chunk.max(1) * dice.from(1, 8)
        ));
        if per_chunk == 0 && dice.once_in(2) {
            key("chunk_size = 4".to_owned());
        }
        let from_bucket = dice.once_in(4);
        if from_bucket {
            key("negatives_from = \"bucket\"".to_owned());
        }
        if dice.once_in(5) {
            key("disable_lhs_negs = true".to_owned());
        }
        key(format!("num_edge_chunks = {}", dice.pick(&[1, 1, 2, 3])));
        key(format!("buffer_partitions = {}", dice.from(2, 5)));
        let orders = [
            "inside_out",
            "outside_in",
            "affinity",
            "random",
            "beta",
            "optimal",
            "hilbert",
            "comet",
            "overlap",
            "snake",
        ];
        key(format!("bucket_order = {:?}", dice.pick(&orders)));
        let samplers = ["proportional", "uniform", "round_robin", "hard_first"];
        let sampler = dice.pick(&samplers);
        if !self.dynamic {
            key(format!("relation_sampler = {sampler:?}"));
        }
        key(format!(
            "eval_fraction = {}",
            dice.pick(&["0", "0.1", "0.4"])
        ));
        key(format!(
            "checkpoint_interval = {}",
            dice.pick(&["0", "600"])
        ));
        if self.later.once_in(2) {
            key("storage = \"bf16\"".to_owned());
        }
        if self.later.once_in(3) {
            let optimizer = self.later.pick(&["adagrad", "adam"]);
            key(format!("optimizer = {optimizer:?}"));
            // Adam is for embeddings, and needs another learning rate than Adagrad.
            key("relation_lr = 0.05".to_owned());
        }
        if self.later.once_in(3) {
            key("lr_schedule.warmup_epochs = 0.7".to_owned());
            let decay = self
                .later
                .pick(&["constant", "linear", "cosine", "warm_restarts"]);
            key(format!("lr_schedule.decay = {decay:?}"));
        }
        if !from_bucket && self.later.once_in(2) {
            let samplers = ["degree", "types_seen", "hard_negatives", "bernoulli"];
            key(format!(
                "negative_sampler = {:?}",
                self.later.pick(&samplers)
            ));
        }
        key(format!(
            "\n[execution]\nprefetch = {}\nupdate = {:?}",
            !dice.once_in(3),
            dice.pick(&["batch", "slice"])
        ));
        if dice.once_in(3) {
            key(format!("partitions_ahead = {}", dice.from(0, 2)));
            key(format!("buckets_ahead = {}", dice.from(0, 3)));
        }
        if dice.once_in(3) {
            key(format!(
                "\n[validation]\nedges = \"valid\"\nlimit = {}",
                dice.from(1, 100)
            ));
        }
        for each in &self.types {
            key(format!(
                "\n[entities.{}]\nnum_partitions = {}\nfeaturized = {}",
                each.name,
                if each.partitioned { self.partitions } else { 1 },
                each.featurized
            ));
        }
        let count = if self.dynamic {
            1
        } else {
            self.relations.len()
        };
        for (name, lhs, rhs) in &self.relations[..count] {
            let all =
                !self.types[*lhs].featurized && !self.types[*rhs].featurized && dice.once_in(6);
            key(format!(
                "\n[[relations]]\nname = {name:?}\nlhs = {:?}\nrhs = {:?}\noperator = {:?}\nweight = {}\nall_negs = {all}",
                self.types[*lhs].name,
                self.types[*rhs].name,
                dice.pick(operators),
                dice.pick(&["1.0", "0.5", "3.0"]),
            ));
        }
        text
    }
}
