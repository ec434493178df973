//! Errors of a step on a device.

use pbg_kernels::step::StepError;
use pbg_rows::table::TransferError;
use tch::TchError;

/// Error of a step on a device.
#[derive(Debug, thiserror::Error)]
pub(super) enum DeviceError {
    /// An error of libtorch.
    #[error("libtorch: {}", message_of(.0))]
    Tensor(#[from] TchError),
    /// Any other error, which can end a step on the CPU, too.
    #[error(transparent)]
    Step(#[from] StepError),
}

impl From<DeviceError> for StepError {
    fn from(error: DeviceError) -> Self {
        match error {
            DeviceError::Tensor(error) => failed(error),
            DeviceError::Step(error) => error,
        }
    }
}

/// Converts an error of libtorch into the error of a step.
pub(super) fn failed(error: TchError) -> StepError {
    transfer_failed(error).into()
}

/// Converts an error of libtorch into the error of a transfer from the device.
pub(super) fn transfer_failed(error: TchError) -> TransferError {
    let said = message_of(&error);
    match said.contains("out of memory") {
        true => TransferError::Memory(format!(
            "{}; lower batch_size, execution.slice_bytes or buffer_partitions; `pbg-host check` shows how much \
             memory they take",
            said.trim_end_matches('.')
        )),
        false => TransferError::Tensor(said),
    }
}

/// Returns libtorch's message, without notes for its developers (source locations and debugging advice).
pub(super) fn message_of(error: &TchError) -> String {
    let text = error.to_string();
    let asides = [
        "CUDA kernel errors might",
        "For debugging consider",
        "Compile with `TORCH_USE_CUDA_DSA`",
        "Search for `",
    ];
    let lines = text.lines().map(str::trim);
    let lines = lines.take_while(|line| !line.starts_with("Exception raised from"));
    let is_kept =
        |line: &&str| !line.is_empty() && !asides.iter().any(|aside| line.starts_with(aside));
    let said = lines.filter(is_kept).collect::<Vec<_>>().join(" ");
    // Drops the state of its allocator and a link to its documentation.
    let said = said
        .split(" Of the allocated memory")
        .next()
        .unwrap_or(&said);
    said.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libtorch_says_what_happened_and_no_more() {
        crate::load_found();
        let text = "CUDA out of memory. Tried to allocate 186.26 GiB. GPU 0 has a total capacity of 139.80 GiB of which 138 \
                    GiB is free. Of the allocated memory 12.00 MiB is allocated by PyTorch.\n\
                    Exception raised from malloc at /pytorch/c10/cuda/CUDACachingAllocator.cpp:1 (most recent call \
                    first):\nframe #0: c10::Error\n";
        let error = failed(TchError::Torch(text.to_owned()));
        let StepError::Memory(said) = error else {
            panic!("{error}");
        };
        assert!(said.contains("Tried to allocate 186.26 GiB."), "{said}");
        assert!(said.contains("138 GiB is free; lower batch_size"), "{said}");
        assert!(!said.contains("frame") && !said.contains('\n'), "{said}");
        let text = "CUDA error: unspecified launch failure\nCUDA kernel errors might be asynchronously reported\n\
                    For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n";
        let error = StepError::from(DeviceError::from(TchError::Torch(text.to_owned())));
        assert!(
            error
                .to_string()
                .ends_with("CUDA error: unspecified launch failure"),
            "{error}"
        );
    }
}
