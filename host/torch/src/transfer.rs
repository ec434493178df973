//! Copies of numbers between main memory and a device.

use tch::{TchError, Tensor};

use super::device::TorchDevice;

/// Floats that are copied at once: enough to reach a copy's full rate, but little compared with a table, since libtorch
/// copies through its own buffer.
const BLOCK: usize = 4 << 20;

/// Copies `values`, which are `rows` rows, to `place`.
pub(super) fn upload(values: &[f32], rows: usize, place: TorchDevice) -> Result<Tensor, TchError> {
    let width = values.len() / rows.max(1);
    let on_place = Tensor::f_empty([rows as i64, width as i64], place.floats())?;
    let at_once = (BLOCK / width.max(1)).max(1);
    for (first, block) in (0_i64..)
        .step_by(at_once)
        .zip(values.chunks(at_once * width.max(1)))
    {
        let count = (block.len() / width.max(1)) as i64;
        let block = Tensor::f_from_slice(block)?.f_reshape([count, width as i64])?;
        on_place.f_narrow(0, first, count)?.f_copy_(&block)?;
    }
    Ok(on_place)
}

/// Copies `values` back to main memory, block by block: passes the first row and the numbers of each block to `take`.
pub(super) fn download(
    values: &Tensor,
    mut take: impl FnMut(usize, &[f32]),
) -> Result<(), TchError> {
    let rows = values.size()[0];
    let width = values.numel() / rows.max(1) as usize;
    let at_once = (BLOCK / width.max(1)).max(1) as i64;
    let mut numbers = Vec::new();
    for first in (0..rows).step_by(at_once as usize) {
        let count = at_once.min(rows - first);
        numbers.resize(count as usize * width, 0.0);
        let block = values.f_narrow(0, first, count)?;
        block.f_copy_data(&mut numbers, count as usize * width)?;
        take(first as usize, &numbers);
    }
    Ok(())
}

/// Copies `values` to `place`.
pub(super) fn floats(values: &[f32], place: TorchDevice) -> Result<Tensor, TchError> {
    Tensor::f_from_slice(values)?.f_to_device(place.device())
}

/// Copies `values`, of any shape, to main memory.
pub(super) fn to_host(values: &Tensor) -> Result<Vec<f32>, TchError> {
    let mut numbers = vec![0.0; values.numel()];
    values.f_copy_data(&mut numbers, values.numel())?;
    Ok(numbers)
}
