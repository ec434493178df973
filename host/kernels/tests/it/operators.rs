//! Operators that are formulas: compares their results with the handwritten operators, their gradients with central
//! differences, and the settings of initial values.

use pbg_core::model::{Comparator, Operator};
use pbg_formula::node::{Binary, FormulaNode, NodeId, Unary};
use pbg_formula::operator::{FormulaHandle, InitialValue, OperatorDefinition, ParameterVector};
use pbg_kernels::step::Execution;
use pbg_rows::params::{Params, TensorSize};
use pbg_rows::spec::ModelSpec;

use crate::gradients::{Twin, check, spec};
use crate::reference::LossKind;
use crate::shares::{World, alone};

/// Builder of a formula, node by node.
#[derive(Default)]
struct Notes(Vec<FormulaNode>);

impl Notes {
    fn push(&mut self, node: FormulaNode) -> NodeId {
        self.0.push(node);
        self.0.len() as NodeId - 1
    }

    fn components<const N: usize>(&mut self) -> [NodeId; N] {
        std::array::from_fn(|i| self.push(FormulaNode::Component(i as u32)))
    }

    fn parameters<const N: usize>(&mut self) -> [NodeId; N] {
        std::array::from_fn(|i| self.push(FormulaNode::Parameter(i as u32)))
    }

    fn unary(&mut self, op: Unary, x: NodeId) -> NodeId {
        self.push(FormulaNode::Unary(op, x))
    }

    fn binary(&mut self, op: Binary, a: NodeId, b: NodeId) -> NodeId {
        self.push(FormulaNode::Binary(op, a, b))
    }

    /// Returns the sum of `sign[i] a[i] b[i]`.
    fn products<const N: usize>(&mut self, terms: [(bool, NodeId, NodeId); N]) -> NodeId {
        let mut sum = None;
        for (plus, a, b) in terms {
            let product = self.binary(Binary::Mul, a, b);
            sum = Some(match (sum, plus) {
                (None, _) => product,
                (Some(sum), true) => self.binary(Binary::Add, sum, product),
                (Some(sum), false) => self.binary(Binary::Sub, sum, product),
            });
        }
        sum.expect("a term")
    }

    fn formula(self, outputs: &[NodeId], parameters: &[(&str, InitialValue)]) -> Operator {
        let parameters = parameters.iter().map(|&(name, initial)| ParameterVector {
            name: name.to_owned(),
            initial,
        });
        let definition = OperatorDefinition {
            name: "test".to_owned(),
            components: outputs.len() as u32,
            parameters: parameters.collect(),
            nodes: self.0,
            outputs: outputs.to_vec(),
        };
        let formula = definition.check(256).expect("a formula");
        Operator::Traced(FormulaHandle::new(formula))
    }
}

fn distmult() -> Operator {
    let mut notes = Notes::default();
    let ([x], [p]) = (notes.components(), notes.parameters());
    let y = notes.binary(Binary::Mul, x, p);
    notes.formula(&[y], &[("diagonal", InitialValue::One)])
}

fn transe() -> Operator {
    let mut notes = Notes::default();
    let ([x], [p]) = (notes.components(), notes.parameters());
    let y = notes.binary(Binary::Add, x, p);
    notes.formula(&[y], &[("translation", InitialValue::Zero)])
}

fn complex() -> Operator {
    let mut notes = Notes::default();
    let ([a, b], [c, d]) = (notes.components(), notes.parameters());
    let re = notes.products([(true, a, c), (false, b, d)]);
    let im = notes.products([(true, a, d), (true, b, c)]);
    notes.formula(
        &[re, im],
        &[("real", InitialValue::One), ("imag", InitialValue::Zero)],
    )
}

fn rotate() -> Operator {
    let mut notes = Notes::default();
    let ([a, b], [angle]) = (notes.components(), notes.parameters());
    let (cos, sin) = (
        notes.unary(Unary::Cos, angle),
        notes.unary(Unary::Sin, angle),
    );
    let re = notes.products([(true, a, cos), (false, b, sin)]);
    let im = notes.products([(true, a, sin), (true, b, cos)]);
    notes.formula(&[re, im], &[("angle", InitialValue::Angle)])
}

/// Returns the product with a quaternion of length 1.
fn quate() -> Operator {
    let mut notes = Notes::default();
    let ([a, b, c, d], p): (_, [NodeId; 4]) = (notes.components(), notes.parameters());
    let square = notes.products(p.map(|p| (true, p, p)));
    let norm = notes.unary(Unary::Sqrt, square);
    let [p, q, u, v] = p.map(|p| notes.binary(Binary::Div, p, norm));
    let outputs = [
        notes.products([(true, a, p), (false, b, q), (false, c, u), (false, d, v)]),
        notes.products([(true, a, q), (true, b, p), (true, c, v), (false, d, u)]),
        notes.products([(true, a, u), (false, b, v), (true, c, p), (true, d, q)]),
        notes.products([(true, a, v), (true, b, u), (false, c, q), (true, d, p)]),
    ];
    let normal = InitialValue::Normal(0.5);
    let parameters = [("r", normal), ("i", normal), ("j", normal), ("k", normal)];
    notes.formula(&outputs, &parameters)
}

/// Returns an operator with functions that known operators lack, a value with several uses, and outputs that are
/// untransformed components.
fn odd() -> Operator {
    let mut notes = Notes::default();
    let ([a, b], [p, q]) = (notes.components(), notes.parameters());
    let two = notes.push(FormulaNode::Constant(2.0));
    let gate = notes.unary(Unary::Sigmoid, a);
    let scaled = notes.binary(Binary::Mul, gate, p);
    let shifted = notes.binary(Binary::Sub, scaled, q);
    let squared = notes.binary(Binary::Mul, shifted, shifted);
    let soft = notes.unary(Unary::Softplus, squared);
    let wave = notes.unary(Unary::Sin, shifted);
    let tail = notes.binary(Binary::Div, wave, two);
    let y = notes.binary(Binary::Sub, tail, soft);
    let above = notes.binary(Binary::Greater, b, q);
    let chosen = notes.push(FormulaNode::Select(above, y, b));
    notes.formula(
        &[chosen, a],
        &[("p", InitialValue::One), ("q", InitialValue::Zero)],
    )
}

/// Returns formulas that accept embeddings of any even dimension.
pub(crate) fn formulas() -> [Operator; 4] {
    [distmult(), complex(), rotate(), odd()]
}

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
    ];
    for (name, operator) in formulas {
        for comparator in Comparator::ALL {
            for (dynamic, bias) in [(false, false), (false, true), (true, false), (true, true)] {
                let spec = ModelSpec {
                    bias,
                    ..spec(dynamic, false, operator, comparator)
                };
                let name = format!("{name} {comparator:?} dynamic {dynamic} bias {bias}");
                check(&name, &twin(spec, 8, 1), LossKind::Softmax, 1 << 20);
            }
        }
        for (dynamic, all_negs) in [(false, true), (true, true), (false, false), (true, false)] {
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
        let before: Vec<_> = Params::new(&still, 0)
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
        for comparator in Comparator::ALL {
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
