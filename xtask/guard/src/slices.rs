//! Slices of batches, whose size must not depend on the processor.

/// Target size in bytes of the buffers of a slice. By default it follows from the processor's cache.
pub(crate) const SLICE_BYTES: usize = 256 << 10;
