//! Functions of CUDA's runtime compiler and driver.
//!
//! Both are libraries that libtorch's CUDA library needs itself. The compiler is opened through libtorch's own link to
//! it; the driver is already loaded by then. Names and types are those of `nvrtc.h` and `cuda.h` of CUDA 13; the
//! functions have not changed since CUDA 12.

#![expect(
    unsafe_code,
    reason = "functions of libraries that are opened at run time, which the compiler cannot check"
)]

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use tch::TchError;

use crate::library;

/// libtorch's link to the compiler, in the folder of its CUDA library.
const LINK: &str = "libcaffe2_nvrtc.so";
const DRIVER: &str = "libcuda.so.1";

/// Status of a call to either library; 0 for success.
pub(super) type CudaStatus = c_int;
pub(super) type Handle = *mut c_void;

/// The functions that this crate calls.
pub(super) struct CudaFunctions {
    pub(super) create: unsafe extern "C" fn(
        *mut Handle,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> CudaStatus,
    pub(super) compile: unsafe extern "C" fn(Handle, c_int, *const *const c_char) -> CudaStatus,
    pub(super) destroy: unsafe extern "C" fn(*mut Handle) -> CudaStatus,
    pub(super) log_size: unsafe extern "C" fn(Handle, *mut usize) -> CudaStatus,
    pub(super) log: unsafe extern "C" fn(Handle, *mut c_char) -> CudaStatus,
    pub(super) cubin_size: unsafe extern "C" fn(Handle, *mut usize) -> CudaStatus,
    pub(super) cubin: unsafe extern "C" fn(Handle, *mut c_char) -> CudaStatus,
    pub(super) device: unsafe extern "C" fn(*mut c_int, c_int) -> CudaStatus,
    pub(super) attribute: unsafe extern "C" fn(*mut c_int, c_int, c_int) -> CudaStatus,
    pub(super) retain_context: unsafe extern "C" fn(*mut Handle, c_int) -> CudaStatus,
    pub(super) push_context: unsafe extern "C" fn(Handle) -> CudaStatus,
    pub(super) pop_context: unsafe extern "C" fn(*mut Handle) -> CudaStatus,
    pub(super) create_stream: unsafe extern "C" fn(*mut Handle, c_uint) -> CudaStatus,
    pub(super) create_event: unsafe extern "C" fn(*mut Handle, c_uint) -> CudaStatus,
    pub(super) record_event: unsafe extern "C" fn(Handle, Handle) -> CudaStatus,
    pub(super) wait_for_event: unsafe extern "C" fn(Handle) -> CudaStatus,
    pub(super) destroy_event: unsafe extern "C" fn(Handle) -> CudaStatus,
    pub(super) load: unsafe extern "C" fn(*mut Handle, *const c_void) -> CudaStatus,
    pub(super) function: unsafe extern "C" fn(*mut Handle, Handle, *const c_char) -> CudaStatus,
    pub(super) launch: unsafe extern "C" fn(
        Handle,
        c_uint,
        c_uint,
        c_uint,
        c_uint,
        c_uint,
        c_uint,
        c_uint,
        Handle,
        *mut *mut c_void,
        *mut *mut c_void,
    ) -> CudaStatus,
}

/// Returns the functions, looked up at the first call. The libraries are never closed.
pub(super) fn functions() -> Result<&'static CudaFunctions, TchError> {
    static FUNCTIONS: OnceLock<Result<CudaFunctions, String>> = OnceLock::new();
    let found = FUNCTIONS.get_or_init(|| look_up().map_err(|error| error.to_string()));
    found
        .as_ref()
        .map_err(|error| TchError::Torch(error.clone()))
}

fn look_up() -> Result<CudaFunctions, TchError> {
    let open = |path: &std::path::Path| {
        // SAFETY: libtorch's CUDA library loads both, too, at any time and on any thread.
        unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }
            .map_err(|error| library::not_found(path, &error))
    };
    let beside = library::folder()?.join(LINK);
    let compiler: &Library = Box::leak(Box::new(open(&beside)?));
    let driver: &Library = Box::leak(Box::new(open(DRIVER.as_ref())?));
    // SAFETY: the types are those of the functions' declarations.
    unsafe {
        Ok(CudaFunctions {
            create: symbol(compiler, "nvrtcCreateProgram")?,
            compile: symbol(compiler, "nvrtcCompileProgram")?,
            destroy: symbol(compiler, "nvrtcDestroyProgram")?,
            log_size: symbol(compiler, "nvrtcGetProgramLogSize")?,
            log: symbol(compiler, "nvrtcGetProgramLog")?,
            cubin_size: symbol(compiler, "nvrtcGetCUBINSize")?,
            cubin: symbol(compiler, "nvrtcGetCUBIN")?,
            device: symbol(driver, "cuDeviceGet")?,
            attribute: symbol(driver, "cuDeviceGetAttribute")?,
            retain_context: symbol(driver, "cuDevicePrimaryCtxRetain")?,
            push_context: symbol(driver, "cuCtxPushCurrent_v2")?,
            pop_context: symbol(driver, "cuCtxPopCurrent_v2")?,
            create_stream: symbol(driver, "cuStreamCreate")?,
            create_event: symbol(driver, "cuEventCreate")?,
            record_event: symbol(driver, "cuEventRecord")?,
            wait_for_event: symbol(driver, "cuEventSynchronize")?,
            destroy_event: symbol(driver, "cuEventDestroy_v2")?,
            load: symbol(driver, "cuModuleLoadData")?,
            function: symbol(driver, "cuModuleGetFunction")?,
            launch: symbol(driver, "cuLaunchKernel")?,
        })
    }
}

/// # Safety
/// `F` must be the type of the function, as its library declares it.
unsafe fn symbol<F: Copy>(library: &'static Library, name: &str) -> Result<F, TchError> {
    // SAFETY: the caller guarantees the type, and the library is never closed.
    unsafe { library.get::<F>(name.as_bytes()) }
        .map(|function| *function)
        .map_err(|error| TchError::Torch(format!("CUDA's libraries are too old: {error}")))
}

/// Status of the driver when a GPU has too little memory.
const OUT_OF_MEMORY: CudaStatus = 2;

pub(super) fn succeeded(name: &str, status: CudaStatus) -> Result<(), TchError> {
    match status {
        0 => Ok(()),
        OUT_OF_MEMORY => Err(TchError::Torch(format!("{name}: out of memory"))),
        _ => Err(TchError::Torch(format!(
            "{name} failed with status {status}"
        ))),
    }
}
