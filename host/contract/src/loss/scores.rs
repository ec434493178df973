//! Scores on which losses are tried, and their evaluation.

use pbg_core::strategy::{LossWorker, MASKED, ScoreBlock};

/// Scores of some rows, as the host passes them.
#[derive(Clone, Debug)]
pub(super) struct ScoreRows {
    pub(super) name: &'static str,
    pub(super) positive: Vec<f32>,
    pub(super) negative: Vec<f32>,
    pub(super) columns: usize,
}

/// Losses and gradients of some rows.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct EvaluatedRows {
    pub(super) loss: Vec<f32>,
    pub(super) positive: Vec<f32>,
    pub(super) negative: Vec<f32>,
}

/// Returns the scores on which every loss is tried.
pub(super) fn cases() -> Vec<ScoreRows> {
    let cases = extremes().into_iter();
    cases.chain([ordinary(7, 5), ordinary(1, 200)]).collect()
}

/// Returns pseudo-random scores in [-2, 2), the same each time.
pub(super) fn ordinary(rows: usize, columns: usize) -> ScoreRows {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 40) as f32 / (1_u64 << 22) as f32 - 2.0
    };
    ScoreRows {
        name: "ordinary scores",
        positive: (0..rows).map(|_| next()).collect(),
        negative: (0..rows * columns).map(|_| next()).collect(),
        columns,
    }
}

fn extremes() -> Vec<ScoreRows> {
    let rows = |name, positive: &[f32], row: &[f32]| ScoreRows {
        name,
        positive: positive.to_vec(),
        negative: row.repeat(positive.len()),
        columns: row.len(),
    };
    vec![
        rows("no negatives", &[1.0, -1.0], &[]),
        rows("one row", &[0.5], &[0.25]),
        rows("equal scores", &[1.0], &[1.0; 8]),
        rows("zeros", &[0.0], &[0.0; 8]),
        rows("scores of 1e9", &[1e9, -1e8, 0.0], &[1e9, -1e8, 0.0]),
        rows("scores of 1e-30", &[1e-30], &[1e-30, -1e-30]),
        rows("masked negatives", &[0.5], &[MASKED, 0.25, MASKED]),
        rows("only masked negatives", &[0.5], &[MASKED, MASKED]),
    ]
}

pub(super) fn evaluate(
    loss: &mut dyn LossWorker,
    rows: &ScoreRows,
) -> Result<EvaluatedRows, String> {
    let mut found = EvaluatedRows {
        loss: vec![0.0; rows.positive.len()],
        positive: vec![0.0; rows.positive.len()],
        negative: rows.negative.clone(),
    };
    loss.evaluate(&mut ScoreBlock {
        positive: &rows.positive,
        negative: &mut found.negative,
        columns: rows.columns,
        positive_gradient: &mut found.positive,
        loss: &mut found.loss,
    })
    .map_err(|fault| format!("{}: {}: {}", rows.name, fault.function, fault.reason))?;
    Ok(found)
}

pub(super) fn finite(loss: &mut dyn LossWorker, rows: &ScoreRows) -> Result<EvaluatedRows, String> {
    let found = evaluate(loss, rows)?;
    for (what, numbers) in [
        ("loss", &found.loss),
        ("gradient of a positive", &found.positive),
        ("gradient of a negative", &found.negative),
    ] {
        if let Some(number) = numbers.iter().find(|number| !number.is_finite()) {
            return Err(format!(
                "{}: a {what} is {number}; positives {:?}, negatives of a row {:?}",
                rows.name,
                rows.positive,
                &rows.negative[..rows.columns]
            ));
        }
    }
    let masked = rows.negative.iter().zip(&found.negative);
    if masked
        .clone()
        .any(|(&score, &gradient)| score == MASKED && gradient != 0.0)
    {
        return Err(format!("{}: a masked negative has a gradient", rows.name));
    }
    Ok(found)
}
