//! CUDA stream over which partitions are copied to and from a GPU, separate from the stream of its kernels.
//!
//! The bindings of libtorch do not support streams. Its CUDA library has functions for them with C names and status
//! codes, made for programs that are compiled separately (`torch/csrc/inductor/aoti_torch/c/shim.h` of libtorch); this
//! module calls them. They take streams of CUDA's driver.
//!
//! Neither stream has to wait for the other on the device. The thread that copies a table waits for the copies before
//! it passes the table on, and the last batch of a bucket is waited for before the bucket ends. So neither stream uses
//! memory that is freed.

#![expect(
    unsafe_code,
    reason = "functions of a library that is opened at run time, which the compiler cannot check"
)]

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::sync::{Mutex, PoisonError};

use tch::{Device, TchError};

use super::device::TorchDevice;
use super::fused::new_stream;
use super::library;

/// Status of a call; 0 for success.
type Status = c_int;
type NewGuard = unsafe extern "C" fn(*mut c_void, i32, *mut *mut c_void) -> Status;
type DeleteGuard = unsafe extern "C" fn(*mut c_void) -> Status;

/// A CUDA stream.
#[derive(Clone, Copy)]
struct Stream(*mut c_void);

// SAFETY: this crate never dereferences the pointer. It is CUDA's handle of a stream that exists until the process
// ends, and CUDA allows all threads to use a stream at any time.
unsafe impl Send for Stream {}

/// Guard that makes the GPU operations of its thread use the stream for copies.
pub(super) struct CopyStreamGuard {
    guard: *mut c_void,
    delete: DeleteGuard,
    /// The guard changes the state of its thread, so it must stay there.
    _thread: PhantomData<*mut ()>,
}

impl CopyStreamGuard {
    /// Makes the GPU operations of this thread use the stream for copies of `place`; does nothing in main memory.
    ///
    /// # Errors
    /// When libtorch fails.
    pub(super) fn begin(place: TorchDevice) -> Result<Option<Self>, TchError> {
        let Device::Cuda(index) = place.device() else {
            return Ok(None);
        };
        let index = index as i32;
        let stream = stream(place, index)?;
        // SAFETY: the types are those of the functions' declarations.
        let (create, delete) = unsafe {
            (
                library::function::<NewGuard>("aoti_torch_create_cuda_stream_guard")?,
                library::function::<DeleteGuard>("aoti_torch_delete_cuda_stream_guard")?,
            )
        };
        let mut guard = std::ptr::null_mut();
        // SAFETY: the stream belongs to this GPU, and the guard is written to a place for it.
        succeeded("aoti_torch_create_cuda_stream_guard", unsafe {
            create(stream.0, index, &raw mut guard)
        })?;
        Ok(Some(Self {
            guard,
            delete,
            _thread: PhantomData,
        }))
    }
}

impl Drop for CopyStreamGuard {
    fn drop(&mut self) {
        // SAFETY: the guard was created by the matching function, on this thread, and is deleted once. Deleting fails
        // only if the GPU does, which the next operation reports.
        let _failed = unsafe { (self.delete)(self.guard) };
    }
}

/// Returns the stream for copies of `place`, the GPU `index`. It is always the same one, since memory that libtorch keeps for reuse
/// belongs to a stream.
fn stream(place: TorchDevice, index: i32) -> Result<Stream, TchError> {
    static STREAMS: Mutex<BTreeMap<i32, Stream>> = Mutex::new(BTreeMap::new());
    let mut streams = STREAMS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(stream) = streams.get(&index) {
        return Ok(*stream);
    }
    let stream = Stream(new_stream(place)?);
    streams.insert(index, stream);
    Ok(stream)
}

fn succeeded(name: &str, status: Status) -> Result<(), TchError> {
    match status {
        0 => Ok(()),
        _ => Err(TchError::Torch(format!("{name} failed"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_in_main_memory_need_no_stream() {
        crate::load_found();
        assert!(matches!(
            CopyStreamGuard::begin(TorchDevice::MAIN_MEMORY),
            Ok(None)
        ));
    }

    #[test]
    fn a_stream_is_had_where_there_is_a_gpu_and_an_error_elsewhere() {
        crate::load_found();
        let begun = CopyStreamGuard::begin(TorchDevice::gpu(0));
        match TorchDevice::cuda(0) {
            Ok(_) => assert!(matches!(begun, Ok(Some(_)))),
            Err(_) => assert!(begun.is_err()),
        }
    }
}
