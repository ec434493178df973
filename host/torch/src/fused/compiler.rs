//! Compilation of kernels, and their start on a GPU.

#![expect(
    unsafe_code,
    reason = "functions of libraries that are opened at run time, which the compiler cannot check"
)]

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr;

use pbg_kernels::device::OpenError;
use tch::{Device, TchError, Tensor};

use super::cuda::{CudaFunctions, CudaStatus, Handle, functions, succeeded};
use crate::device::TorchDevice;
use crate::error::message_of;

/// Flag of an event that records no time.
const DISABLE_TIMING: c_uint = 2;
/// Flag of a stream that does not wait for the null stream.
const NON_BLOCKING: c_uint = 1;
/// Numbers of the attributes that hold a GPU's compute capability.
const MAJOR: c_int = 75;
const MINOR: c_int = 76;

/// A GPU on which kernels are compiled and started.
#[derive(Clone, Copy)]
pub(super) struct Gpu {
    functions: &'static CudaFunctions,
    /// CUDA context, which libtorch uses, too.
    context: Handle,
    /// Compute capability: major and minor version.
    capability: [c_int; 2],
}

// SAFETY: the context is a handle of CUDA's that is valid until the process ends, and CUDA allows all threads to use
// it.
unsafe impl Send for Gpu {}

/// Target for which kernels are compiled.
#[derive(Clone, Copy)]
pub(super) enum KernelCompiler {
    Gpu(Gpu),
    /// The CPU, for tests.
    #[cfg(test)]
    Core,
}

impl KernelCompiler {
    /// Compiles kernels; see [`Gpu::compile`].
    pub(super) fn compile<const N: usize>(
        self,
        source: &str,
        names: [&CStr; N],
    ) -> Result<[DeviceKernel; N], TchError> {
        match self {
            Self::Gpu(gpu) => gpu.compile(source, names),
            #[cfg(test)]
            Self::Core => Ok(super::cpu_kernels::compile(source, names)),
        }
    }
}

/// A compiled kernel of one GPU.
#[derive(Clone, Copy)]
pub(super) enum DeviceKernel {
    Gpu {
        gpu: Gpu,
        function: Handle,
    },
    /// A kernel on the CPU, for tests.
    #[cfg(test)]
    Core(super::cpu_kernels::CpuKernel),
}

// SAFETY: as for the GPU's context. The module that contains the function is never unloaded.
unsafe impl Send for DeviceKernel {}

/// Argument of a kernel. Its value is read when the kernel is started; the content of a tensor, when it runs.
pub(super) enum KernelArgument<'t> {
    /// Address of a tensor's numbers, which must be contiguous.
    Tensor(&'t Tensor),
    /// Null pointer for a tensor that is not given.
    None,
    Count(i64),
    Number(f32),
}

/// Threads of a warp.
pub(super) const WARP: u32 = 32;

/// Number of threads with which a kernel is started.
#[derive(Clone, Copy)]
pub(super) struct LaunchSize {
    pub(super) blocks: i64,
    /// Threads of a block in x and y direction.
    pub(super) block: [u32; 2],
}

impl Gpu {
    /// Opens the GPU of `place`; `None` for main memory.
    ///
    /// # Errors
    /// When the compiler or the driver cannot be opened.
    pub(super) fn new(place: TorchDevice) -> Result<Option<Self>, TchError> {
        let Device::Cuda(index) = place.device() else {
            return Ok(None);
        };
        let functions = functions()?;
        let (mut device, mut context, mut capability) = (0, ptr::null_mut(), [0; 2]);
        // SAFETY: every pointer is to a place for what the function writes.
        unsafe {
            succeeded(
                "cuDeviceGet",
                (functions.device)(&raw mut device, index as c_int),
            )?;
            for (number, which) in capability.iter_mut().zip([MAJOR, MINOR]) {
                let status = (functions.attribute)(number, which, device);
                succeeded("cuDeviceGetAttribute", status)?;
            }
            // Never released: libtorch keeps it until the process ends, too.
            let status = (functions.retain_context)(&raw mut context, device);
            succeeded("cuDevicePrimaryCtxRetain", status)?;
        }
        Ok(Some(Self {
            functions,
            context,
            capability,
        }))
    }

    /// Compiles `source`, whose kernels have C names, and returns the kernels `names`.
    ///
    /// # Errors
    /// The compiler's messages.
    pub(super) fn compile<const N: usize>(
        self,
        source: &str,
        names: [&CStr; N],
    ) -> Result<[DeviceKernel; N], TchError> {
        let image = self.image(source)?;
        let functions = self.functions;
        let mut module = ptr::null_mut();
        // SAFETY: the image was made by the compiler, and is copied. Every pointer is to a place for what is written.
        self.in_context(|| unsafe {
            let status = (functions.load)(&raw mut module, image.as_ptr().cast());
            succeeded("cuModuleLoadData", status)
        })?;
        let mut kernels = Vec::with_capacity(N);
        for name in names {
            let mut function = ptr::null_mut();
            // SAFETY: the module was just loaded, and the name ends with a zero byte.
            self.in_context(|| unsafe {
                let status = (functions.function)(&raw mut function, module, name.as_ptr());
                succeeded("cuModuleGetFunction", status)
            })?;
            kernels.push(DeviceKernel::Gpu {
                gpu: self,
                function,
            });
        }
        let wrong = |_| TchError::Torch("a kernel is missing".to_owned());
        kernels.try_into().map_err(wrong)
    }

    /// Does `work` in the GPU's context, and then restores the context of this thread.
    fn in_context<T>(self, work: impl FnOnce() -> Result<T, TchError>) -> Result<T, TchError> {
        // SAFETY: the context is never released.
        succeeded("cuCtxPushCurrent", unsafe {
            (self.functions.push_context)(self.context)
        })?;
        let done = work();
        let mut same = ptr::null_mut();
        // SAFETY: the context was pushed on this thread, and is written to a place for it.
        let status = unsafe { (self.functions.pop_context)(&raw mut same) };
        succeeded("cuCtxPopCurrent", status)?;
        done
    }

    /// Compiles `source` to machine code for this GPU.
    fn image(self, source: &str) -> Result<Vec<u8>, TchError> {
        let functions = self.functions;
        let [major, minor] = self.capability;
        let text = |text: String| CString::new(text).map_err(|e| TchError::Torch(e.to_string()));
        let options = [
            text(format!("--gpu-architecture=sm_{major}{minor}"))?,
            text("--std=c++17".to_owned())?,
        ];
        let options = [options[0].as_ptr(), options[1].as_ptr()];
        let source = text(source.to_owned())?;
        let mut program = ptr::null_mut();
        // SAFETY: strings end with a zero byte and outlive the calls. Sizes are queried before the data are copied. The
        // program is destroyed once.
        unsafe {
            let status = (functions.create)(
                &raw mut program,
                source.as_ptr(),
                c"pbg.cu".as_ptr(),
                0,
                ptr::null(),
                ptr::null(),
            );
            succeeded("nvrtcCreateProgram", status)?;
            let status = (functions.compile)(program, options.len() as c_int, options.as_ptr());
            let made = match status {
                0 => read(program, functions.cubin_size, functions.cubin),
                _ => read(program, functions.log_size, functions.log).and_then(|log| {
                    let log = String::from_utf8_lossy(&log);
                    Err(TchError::Torch(format!(
                        "a kernel cannot be compiled: {}",
                        log.trim_end_matches('\0')
                    )))
                }),
            };
            let _destroyed = (functions.destroy)(&raw mut program);
            made
        }
    }
}

/// Reads an output of a program, after querying its size.
///
/// # Safety
/// The program must be one of the compiler's, and the two functions must belong to the same output.
unsafe fn read(
    program: Handle,
    size_of: unsafe extern "C" fn(Handle, *mut usize) -> CudaStatus,
    copy: unsafe extern "C" fn(Handle, *mut c_char) -> CudaStatus,
) -> Result<Vec<u8>, TchError> {
    let mut size = 0;
    // SAFETY: the caller guarantees both; the buffer has the size that was queried.
    unsafe {
        succeeded("nvrtc", size_of(program, &raw mut size))?;
        let mut bytes = vec![0; size];
        succeeded("nvrtc", copy(program, bytes.as_mut_ptr().cast()))?;
        Ok(bytes)
    }
}

impl DeviceKernel {
    /// Starts the kernel, ordered after the operations that this thread has queued with libtorch.
    ///
    /// # Safety
    /// The arguments must have the types of the kernel's parameters. Tensors must be on its GPU and contain everything
    /// that it reads or writes. Nobody else may use what it writes until libtorch's next operation on this thread.
    pub(super) unsafe fn start(
        &self,
        threads: LaunchSize,
        arguments: &[KernelArgument<'_>],
    ) -> Result<(), TchError> {
        let mut values = Vec::with_capacity(arguments.len());
        for argument in arguments {
            values.push(match argument {
                KernelArgument::Tensor(tensor) => {
                    if !tensor.is_contiguous() {
                        let message = "a kernel was given a tensor that is not contiguous";
                        return Err(TchError::Torch(message.to_owned()));
                    }
                    tensor.data_ptr() as u64
                }
                KernelArgument::None => 0,
                KernelArgument::Count(count) => count.cast_unsigned(),
                KernelArgument::Number(number) => u64::from(number.to_bits()),
            });
        }
        let mut places: Vec<*mut c_void> = values
            .iter_mut()
            .map(|value| ptr::from_mut(value).cast())
            .collect();
        match *self {
            Self::Gpu { gpu, function } => {
                // SAFETY: guaranteed by the caller.
                unsafe { gpu.start(function, threads, &mut places) }
            }
            #[cfg(test)]
            Self::Core(entry) => {
                // SAFETY: guaranteed by the caller.
                unsafe { super::cpu_kernels::start(entry, threads, &mut places) };
                Ok(())
            }
        }
    }
}

impl Gpu {
    /// Starts a kernel with the addresses of its arguments.
    ///
    /// # Safety
    /// As [`DeviceKernel::start`]; each address must have eight bytes.
    unsafe fn start(
        self,
        function: Handle,
        threads: LaunchSize,
        places: &mut [*mut c_void],
    ) -> Result<(), TchError> {
        let blocks = c_uint::try_from(threads.blocks.max(1)).unwrap_or(c_uint::MAX);
        let [x, y] = threads.block;
        // SAFETY: each address has eight bytes, of which a kernel reads the size of its parameter (the lower ones: GPUs
        // and x86-64 are little-endian). The null stream is the one that libtorch uses on a thread that has selected no
        // other. The caller guarantees the rest.
        self.in_context(|| unsafe {
            let status = (self.functions.launch)(
                function,
                blocks,
                1,
                1,
                x,
                y,
                1,
                0,
                ptr::null_mut(),
                places.as_mut_ptr(),
                ptr::null_mut(),
            );
            succeeded("cuLaunchKernel", status)
        })
    }
}

/// Checks that kernels can be compiled and started on the GPU of `place`.
///
/// # Errors
/// What is missing, and what to do.
pub(crate) fn open(place: TorchDevice) -> Result<(), OpenError> {
    let opened = Gpu::new(place).map(drop);
    opened.map_err(|error| {
        OpenError::Library(format!(
            "kernels for GPUs cannot be compiled: {}\n\
             install PyTorch's build with CUDA, which brings them",
            message_of(&error)
        ))
    })
}

/// Creates a stream on the GPU `place` that does not wait for the stream of libtorch's operations, and exists until the
/// process ends.
///
/// # Errors
/// When the driver fails, or `place` is not a GPU.
pub(crate) fn new_stream(place: TorchDevice) -> Result<*mut c_void, TchError> {
    let no_gpu = || TchError::Torch("streams are for GPUs only".to_owned());
    let gpu = Gpu::new(place)?.ok_or_else(no_gpu)?;
    let mut stream = ptr::null_mut();
    // SAFETY: the stream is written to a place for it.
    gpu.in_context(|| unsafe {
        let status = (gpu.functions.create_stream)(&raw mut stream, NON_BLOCKING);
        succeeded("cuStreamCreate", status)
    })?;
    Ok(stream)
}

/// An event on a GPU's stream, for instance the end of a copy.
pub(crate) struct CudaEvent {
    gpu: Gpu,
    event: Handle,
}

// SAFETY: the event is a handle of CUDA's that is valid until it is destroyed, and CUDA allows all threads to use it.
unsafe impl Send for CudaEvent {}

impl CudaEvent {
    /// Records an event after everything that this thread has queued with libtorch and kernels so far.
    pub(super) fn new(gpu: Gpu) -> Result<Self, TchError> {
        let mut event = ptr::null_mut();
        // SAFETY: the event is written to a place for it.
        gpu.in_context(|| unsafe {
            let status = (gpu.functions.create_event)(&raw mut event, DISABLE_TIMING);
            succeeded("cuEventCreate", status)
        })?;
        let copied = Self { gpu, event };
        // SAFETY: the event was just created; the null stream is that of libtorch's operations.
        gpu.in_context(|| unsafe {
            let status = (gpu.functions.record_event)(copied.event, ptr::null_mut());
            succeeded("cuEventRecord", status)
        })?;
        Ok(copied)
    }

    /// Waits until the GPU has reached the event.
    pub(crate) fn wait(&self) -> Result<(), TchError> {
        // SAFETY: the event exists until `self` is dropped.
        self.gpu.in_context(|| unsafe {
            let status = (self.gpu.functions.wait_for_event)(self.event);
            succeeded("cuEventSynchronize", status)
        })
    }
}

impl Drop for CudaEvent {
    fn drop(&mut self) {
        // SAFETY: the event is destroyed once.
        let _failed = self.gpu.in_context(|| unsafe {
            let status = (self.gpu.functions.destroy_event)(self.event);
            succeeded("cuEventDestroy", status)
        });
    }
}
