//! Losses and gradients by the interpreter, in f64: the reference that faster executors are compared with, and what a
//! plugin's own tests run.

use super::MASKED;
use super::definition::{LossDefinition, LossGraph};
use super::derive::DerivedLoss;
use crate::interpret::{FormulaInput, NodeValue};
use crate::node::{FormulaNode, NodeId};

/// Loss and gradients of one row.
#[derive(Clone, Debug, PartialEq)]
pub struct RowLoss {
    /// The loss.
    pub loss: f64,
    /// Its derivative by the positive's score.
    pub positive: f64,
    /// Its derivatives by the negatives' scores; 0 for masked ones.
    pub negative: Vec<f64>,
}

/// Loss and gradients of several rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evaluation {
    /// Loss of each positive, `[rows]`.
    pub loss: Vec<f32>,
    /// Derivatives by the positives' scores, `[rows]`.
    pub positive_gradient: Vec<f32>,
    /// Derivatives by the negatives' scores, `[rows, columns]`; 0 for masked ones.
    pub negative_gradient: Vec<f32>,
}

/// Returns the values of the outputs for each negative of one row, or for the whole row.
fn outputs<const N: usize>(
    nodes: &[FormulaNode],
    outputs: [NodeId; N],
    parameters: &[f32],
    positive: f64,
    negatives: &[f64],
) -> [NodeValue; N] {
    let parameters: Vec<f64> = parameters.iter().map(|&value| value.into()).collect();
    let row = FormulaInput {
        parameters: &parameters,
        positive: Some(positive),
        negatives,
        ..FormulaInput::default()
    };
    let values = row.evaluate(nodes);
    outputs.map(|id| values[id as usize].clone())
}

impl LossGraph {
    /// Returns the loss of one row, with the given values of the parameters.
    #[must_use]
    pub fn loss_of(&self, parameters: &[f32], positive: f64, negatives: &[f64]) -> f64 {
        let output = [self.output()];
        let [loss] = outputs(self.nodes(), output, parameters, positive, negatives);
        loss.at(0)
    }
}

impl DerivedLoss {
    /// Returns the loss and gradients of one row, with the given values of the parameters.
    #[must_use]
    pub fn row(&self, parameters: &[f32], positive: f64, negatives: &[f64]) -> RowLoss {
        let wanted = [self.loss, self.positive, self.negative];
        let [loss, by_positive, by_negative] =
            outputs(&self.nodes, wanted, parameters, positive, negatives);
        let masked = f64::from(MASKED);
        let gradient = |(j, &score): (usize, &f64)| match score == masked {
            true => 0.0,
            false => by_negative.at(j),
        };
        RowLoss {
            loss: loss.at(0),
            positive: by_positive.at(0),
            negative: negatives.iter().enumerate().map(gradient).collect(),
        }
    }
}

impl LossDefinition {
    /// Returns the loss and gradients of one row, with the given values of the parameters.
    ///
    /// # Panics
    /// If the definition is invalid. The message has the error.
    #[must_use]
    pub fn row(&self, parameters: &[f32], positive: f64, negatives: &[f64]) -> RowLoss {
        self.derived().row(parameters, positive, negatives)
    }

    /// Returns the losses and gradients of several rows, with the initial values of the parameters.
    ///
    /// * `positive`: `[rows]`.
    /// * `negative`: `[rows, columns]`, row by row.
    ///
    /// # Panics
    /// If the lengths do not match, or if the definition is invalid. The message has the error.
    #[must_use]
    pub fn evaluate(&self, positive: &[f32], negative: &[f32], columns: usize) -> Evaluation {
        assert_eq!(negative.len(), positive.len() * columns);
        let derived = self.derived();
        let values: Vec<f32> = self.parameters.iter().map(|p| p.value).collect();
        let mut found = Evaluation::default();
        for (i, &score) in positive.iter().enumerate() {
            let row = &negative[i * columns..(i + 1) * columns];
            let wide: Vec<f64> = row.iter().map(|&t| t.into()).collect();
            let row = derived.row(&values, score.into(), &wide);
            found.loss.push(row.loss as f32);
            found.positive_gradient.push(row.positive as f32);
            let gradients = row.negative.into_iter().map(|g| g as f32);
            found.negative_gradient.extend(gradients);
        }
        found
    }

    fn derived(&self) -> DerivedLoss {
        match self.clone().check(usize::MAX) {
            Ok(graph) => DerivedLoss::of(&graph),
            Err(error) => panic!("the formula is invalid: {error}"),
        }
    }
}
