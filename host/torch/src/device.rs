//! Devices on which tensors are stored.

use std::fmt;

use tch::{Device, Kind};

/// An opened device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TorchDevice(Device);

impl TorchDevice {
    /// Main memory: the device's computations, without a device. For tests and comparisons; training on the CPU has its
    /// own kernels.
    pub const MAIN_MEMORY: Self = Self(Device::Cpu);

    /// Returns GPU `index`, whether or not it exists.
    pub(super) const fn gpu(index: usize) -> Self {
        Self(Device::Cuda(index))
    }

    pub(super) fn device(self) -> Device {
        self.0
    }

    /// Returns the kind and device of floats there.
    pub(super) fn floats(self) -> (Kind, Device) {
        (Kind::Float, self.0)
    }
}

impl fmt::Display for TorchDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Device::Cuda(index) => write!(f, "cuda:{index}"),
            _ => f.write_str("main memory"),
        }
    }
}
