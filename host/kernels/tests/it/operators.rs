//! Operators that are formulas: compares their results with the handwritten operators, their gradients with central
//! differences, and the settings of initial values.

use pbg_core::model::{Comparator, Operator, Regularizer};
use pbg_kernels::step::Execution;
use pbg_reference::formulas::{
    complex, distmult, householder, normed, octonions, odd, paired, quate, rotate, transe,
};
use pbg_reference::losses::LossKind;
use pbg_reference::twin::{Twin, spec};
use pbg_rows::params::{Params, TensorSize};
use pbg_rows::spec::ModelSpec;

use crate::gradients::check;
use crate::shares::{World, alone, random_parameters};

fn twin(spec: ModelSpec, dimension: usize, seed: u64) -> Twin {
    let mut spec = spec;
    spec.entities
        .iter_mut()
        .for_each(|e| e.dimension = dimension);
    Twin::new(spec, true, seed)
}

#[test]
fn gradients_of_every_formula_are_the_slopes() {
    let formulas = [
        ("distmult", distmult()),
        ("transe", transe()),
        ("complex", complex()),
        ("rotate", rotate()),
        ("quate", quate()),
        ("odd", odd()),
        ("octonions", octonions()),
        ("householder", householder()),
        ("paired", paired()),
        ("normed", normed()),
    ];
    for (name, operator) in formulas {
        // An operator of both sides has static relations.
        let of_both = operator.on_lhs() != Operator::None;
        for comparator in Comparator::BUILT_IN {
            for (dynamic, bias) in [(false, false), (false, true), (true, false), (true, true)] {
                if dynamic && of_both {
                    continue;
                }
                let spec = ModelSpec {
                    bias,
                    ..spec(dynamic, false, operator, comparator)
                };
                let name = format!("{name} {comparator:?} dynamic {dynamic} bias {bias}");
                check(&name, &twin(spec, 8, 1), LossKind::Softmax, 1 << 20);
            }
        }
        for (dynamic, all_negs) in [(false, true), (true, true), (false, false), (true, false)] {
            if dynamic && of_both {
                continue;
            }
            let mut spec = spec(dynamic, true, operator, Comparator::Dot);
            spec.relations
                .iter_mut()
                .for_each(|r| r.all_negs = all_negs);
            let name = format!("{name} dynamic {dynamic} all {all_negs} in slices");
            check(&name, &twin(spec, 8, 2), LossKind::Logistic, 1);
        }
    }
}

#[test]
fn both_sides_are_penalised() {
    for regularizer in Regularizer::ALL {
        let mut spec = spec(false, false, paired(), Comparator::Dot);
        (spec.regularizer, spec.regularization_coef) = (regularizer, 0.05);
        let name = format!("{regularizer:?}");
        check(&name, &twin(spec, 8, 3), LossKind::Softmax, 1 << 20);
    }
}

#[test]
fn an_operator_of_both_sides_is_refused_with_dynamic_relations() {
    let refused = spec(true, false, paired(), Comparator::Dot).validate();
    let text = refused.expect_err("a refusal").to_string();
    assert!(text.contains("dynamic_relations"), "{text}");
}

#[test]
fn n3_is_that_of_the_operators_written_by_hand() {
    for (formula, by_hand) in pairs() {
        for dynamic in [false, true] {
            let trained = [formula, by_hand].map(|operator| {
                let spec = ModelSpec {
                    regularization_coef: 0.05,
                    ..usual(dynamic, operator, Comparator::Dot)
                };
                alone(&spec, Execution::default(), WORLD).numbers
            });
            assert_eq!(trained[0], trained[1], "{by_hand:?} dynamic {dynamic}");
        }
    }
}

#[test]
fn n3_leaves_angles_alone() {
    for dynamic in [false, true] {
        let spec = ModelSpec {
            regularization_coef: 0.05,
            ..usual(dynamic, rotate(), Comparator::Dot)
        };
        let mut still = spec.clone();
        still
            .relations
            .iter_mut()
            .for_each(|r| r.weight = f32::MIN_POSITIVE);
        let before: Vec<_> = random_parameters(&still, WORLD.seed)
            .tensors()
            .iter()
            .map(|t| t.to_vec())
            .collect();
        let numbers = alone(&still, Execution::default(), WORLD).numbers;
        let angles = before.concat();
        let after = &numbers[numbers.len() - angles.len()..];
        // The remaining gradient of the loss moves them by less.
        let still = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-4;
        assert!(
            after.iter().zip(&angles).all(still),
            "{after:?}, not {angles:?}"
        );
    }
}

const WORLD: World = World {
    entities: [30, 20],
    edges: 70,
    seed: 5,
};

/// Returns formulas with the equivalent handwritten operators.
fn pairs() -> [(Operator, Operator); 3] {
    [
        (distmult(), Operator::Diagonal),
        (transe(), Operator::Translation),
        (complex(), Operator::ComplexDiagonal),
    ]
}

fn usual(dynamic: bool, operator: Operator, comparator: Comparator) -> ModelSpec {
    let mut spec = spec(dynamic, false, operator, comparator);
    (spec.lr, spec.relation_lr) = (0.1, 0.05);
    (spec.num_batch_negs, spec.num_uniform_negs) = (10, 0);
    spec.entities.iter_mut().for_each(|e| e.dimension = 8);
    spec
}

/// The results are equal to the bit, since the loops add and multiply in the same order.
#[test]
fn formulas_train_as_the_operators_written_by_hand() {
    for (formula, by_hand) in pairs() {
        for comparator in Comparator::BUILT_IN {
            for (dynamic, all_negs) in [(false, false), (true, false), (false, true), (true, true)]
            {
                let trained = [formula, by_hand].map(|operator| {
                    let mut spec = usual(dynamic, operator, comparator);
                    spec.relations
                        .iter_mut()
                        .for_each(|r| r.all_negs = all_negs);
                    alone(&spec, Execution::default(), WORLD).numbers
                });
                let name = format!("{by_hand:?} {comparator:?} dynamic {dynamic} all {all_negs}");
                assert_eq!(trained[0], trained[1], "{name}");
            }
        }
    }
}

#[test]
fn sizes_are_those_of_the_tensors_that_are_made() {
    for operator in Operator::BUILT_IN.into_iter().chain([rotate()]) {
        for (dynamic, global_emb) in [(false, false), (true, false), (false, true), (true, true)] {
            let spec = ModelSpec {
                global_emb,
                ..usual(dynamic, operator, Comparator::Dot)
            };
            let params = Params::new(&spec, 0);
            let made = params.tensors().iter().map(|tensor| TensorSize {
                rows: tensor.values.rows() as u64,
                width: tensor.values.width() as u64,
            });
            let computed: Vec<_> = Params::sizes(&spec).collect();
            assert_eq!(computed, made.collect::<Vec<_>>(), "{operator:?}");
        }
    }
}

#[test]
fn built_in_operators_begin_at_random_where_asked() {
    let of = |scale: Option<f32>, relations: usize, seed| {
        let mut spec = spec(true, false, Operator::ComplexDiagonal, Comparator::Dot);
        spec.dynamic_relations = Some(relations);
        spec.operator_init_scale = scale;
        let tensors = Params::new(&spec, seed);
        let tensors = tensors.tensors().iter();
        tensors.map(|tensor| tensor.to_vec()).collect::<Vec<_>>()
    };
    let identity = of(None, 500, 1);
    assert!(identity[0].iter().all(|&x| x == 1.0) && identity[1].iter().all(|&x| x == 0.0));
    let (random, wider) = (of(Some(0.5), 500, 1), of(Some(1.0), 500, 1));
    for (tensor, wider) in random.iter().zip(&wider) {
        let squares: f32 = tensor.iter().map(|x| x * x).sum();
        let deviation = (squares / tensor.len() as f32).sqrt();
        assert!((deviation - 0.5).abs() < 0.05, "{deviation}");
        assert!(tensor.iter().zip(wider).all(|(x, y)| 2.0 * x == *y));
    }
    assert_ne!(random[0], random[1], "real and imaginary parts differ");
    assert_ne!(random[0], random[2], "sides differ");
    assert_ne!(random, of(Some(0.5), 500, 2));
    let fewer = of(Some(0.5), 3, 1);
    assert!(
        fewer
            .iter()
            .zip(&random)
            .all(|(few, all)| all.starts_with(few))
    );
}

#[test]
fn random_beginnings_follow_the_seed_and_the_place() {
    let of = |relations: usize, seed| {
        let mut spec = spec(true, false, rotate(), Comparator::Dot);
        spec.dynamic_relations = Some(relations);
        let params = Params::new(&spec, seed);
        let tensors = params.tensors().iter();
        tensors
            .map(|t| (t.name.clone(), t.to_vec()))
            .collect::<Vec<_>>()
    };
    let (few, more, other) = (of(3, 1), of(5, 1), of(3, 2));
    for (few, more) in few.iter().zip(&more) {
        assert_eq!(few.0, more.0);
        assert_eq!(
            few.1[..],
            more.1[..few.1.len()],
            "new relations change no earlier ones"
        );
    }
    assert_ne!(few, other);
    assert_ne!(few[0].1, few[1].1, "sides differ");
    let all = few.iter().flat_map(|(_, values)| values);
    assert!(all.clone().all(|angle| angle.abs() <= std::f32::consts::PI));
    assert!(all.clone().any(|angle| angle.abs() > 1.0));
    assert_eq!(few[0].0, "relations/0/operator/lhs/angle");
}
