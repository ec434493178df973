//! Compares the gradients of relation prediction with central differences, and tests which models are rejected.

use std::sync::Arc;

use pbg_core::model::{Comparator, Operator};
use pbg_kernels::step::StepWorker;
use pbg_reference::losses::LossKind;
use pbg_reference::twin::{Twin, spec};
use pbg_rows::spec::ModelSpec;

use crate::gradients::check;

#[test]
fn relations_are_predicted_with_every_operator_that_is_linear_in_its_parameters() {
    for operator in [
        Operator::Diagonal,
        Operator::Translation,
        Operator::ComplexDiagonal,
    ] {
        for shared in [false, true] {
            let base = ModelSpec {
                relation_prediction: 0.7,
                ..spec(true, shared, operator, Comparator::Dot)
            };
            let mut all = base.clone();
            all.relations[0].all_negs = true;
            let regularized = ModelSpec {
                regularization_coef: 0.05,
                ..base.clone()
            };
            let one_side = ModelSpec {
                disable_lhs_negs: true,
                ..base.clone()
            };
            let mut featurized = base.clone();
            featurized.entities[0].featurized = true;
            for (what, spec) in [
                ("sampled", base),
                ("all", all),
                ("N3", regularized),
                ("no left ones", one_side),
                ("features", featurized),
            ] {
                let features_on_both = what == "features" && shared;
                for slice_bytes in [1, 1 << 20] {
                    let name = format!("{what} {operator:?} shared {shared} in {slice_bytes}");
                    if !features_on_both {
                        let twin = Twin::new(spec.clone(), true, 7);
                        check(&name, &twin, LossKind::Softmax, slice_bytes);
                    }
                }
            }
        }
    }
}

#[test]
fn relations_are_predicted_where_scores_are_linear_in_the_parameters_only() {
    let refused = |spec: ModelSpec| {
        let spec = ModelSpec {
            relation_prediction: 1.0,
            ..spec
        };
        let error = StepWorker::new(Arc::new(spec)).expect_err("refused");
        assert!(error.to_string().contains("relation_prediction"), "{error}");
    };
    refused(spec(false, false, Operator::Diagonal, Comparator::Dot));
    refused(spec(true, false, Operator::Linear, Comparator::Dot));
    refused(spec(true, false, Operator::Diagonal, Comparator::Cos));
    refused(ModelSpec {
        bias: true,
        ..spec(true, false, Operator::Diagonal, Comparator::Dot)
    });
}
