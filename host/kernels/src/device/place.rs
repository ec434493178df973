//! Where tensors live.

use std::fmt;

use tch::{Cuda, Device, Kind};

use super::library::{self, OpenError};

/// A device, opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(Device);

impl Place {
    /// Main memory: what a device computes, without one. For tests and comparisons; training on the cores
    /// has kernels of its own.
    pub const MAIN_MEMORY: Self = Self(Device::Cpu);

    /// GPU `index`. Opens libtorch's CUDA library the first time.
    ///
    /// # Errors
    /// When there is no such library or no such GPU.
    pub fn cuda(index: u32) -> Result<Self, OpenError> {
        library::open()?;
        let count = match Cuda::is_available() {
            true => u32::try_from(Cuda::device_count()).unwrap_or(0),
            false => 0,
        };
        match count {
            0 => Err(OpenError::NoGpu),
            _ if index >= count => Err(OpenError::Index { index, count }),
            _ => Ok(Self(Device::Cuda(index as usize))),
        }
    }

    /// The first GPU, whether or not there is one.
    #[cfg(test)]
    pub(super) const fn first_gpu() -> Self {
        Self(Device::Cuda(0))
    }

    pub(super) fn device(self) -> Device {
        self.0
    }

    /// Floats there.
    pub(super) fn floats(self) -> (Kind, Device) {
        (Kind::Float, self.0)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Device::Cuda(index) => write!(f, "cuda:{index}"),
            _ => f.write_str("main memory"),
        }
    }
}
