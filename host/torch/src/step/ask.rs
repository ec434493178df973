//! Evaluation of computed losses on the host.

use pbg_core::strategy::{LossWorker, ScoreBlock};
use pbg_kernels::step::StepError;

use crate::device::TorchDevice;
use crate::error::DeviceError;
use crate::formula::LossTensors;
use crate::score_tensors::ScoreTensors;
use crate::transfer;

/// Scores per call of a loss: as many as a slice on the CPU has.
const ASKED_AT_ONCE: i64 = 1 << 18;

/// Evaluates a loss that is not a formula: copies scores to the host and gradients back to the device.
pub(super) fn evaluate_on_host(
    worker: &mut dyn LossWorker,
    scores: &ScoreTensors,
    place: TorchDevice,
) -> Result<LossTensors, DeviceError> {
    let (rows, columns) = (scores.negative.size()[0], scores.negative.size()[1]);
    let at_once = (ASKED_AT_ONCE / columns.max(1)).max(1);
    let positive = transfer::to_host(&scores.positive)?;
    let (mut gradient, mut loss) = (vec![0.0; positive.len()], vec![0.0; positive.len()]);
    let gradients = scores.negative.f_empty_like()?;
    for first in (0..rows).step_by(at_once as usize) {
        let count = at_once.min(rows - first);
        let mut negative = transfer::to_host(&scores.negative.f_narrow(0, first, count)?)?;
        let range = first as usize..(first + count) as usize;
        worker
            .evaluate(&mut ScoreBlock {
                positive: &positive[range.clone()],
                negative: &mut negative,
                columns: columns as usize,
                positive_gradient: &mut gradient[range.clone()],
                loss: &mut loss[range],
            })
            .map_err(StepError::Strategy)?;
        let negative = transfer::floats(&negative, place)?.f_reshape([count, columns])?;
        gradients.f_narrow(0, first, count)?.f_copy_(&negative)?;
    }
    Ok(LossTensors {
        loss: transfer::floats(&loss, place)?,
        positive: transfer::floats(&gradient, place)?,
        negative: gradients,
    })
}
