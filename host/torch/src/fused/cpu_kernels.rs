//! Kernels on the CPU, for tests on machines without a GPU: the same source, compiled as C++. A warp has one lane
//! there, and threads run one after the other.

use std::ffi::{CStr, c_long, c_uint, c_void};
use std::fmt::Write as _;
use std::process::Command;

use libloading::os::unix::Library;

use super::compiler::{DeviceKernel, LaunchSize, WARP};

/// Function that runs a kernel for all of its threads.
pub(super) type CpuKernel = unsafe extern "C" fn(*mut *mut c_void, c_long, c_uint, c_uint);

/// Definitions that CUDA has and C++ lacks.
const PRELUDE: &str = r"
#include <cmath>
#include <cstring>
#include <utility>
#define __global__
#define __device__ static inline
#define __shared__ static
#define __launch_bounds__(threads)
#define WARP 1
struct Place { unsigned x, y; };
static Place threadIdx, blockIdx, blockDim, gridDim;
static float __int_as_float(int bits) { float x; memcpy(&x, &bits, 4); return x; }
static void __syncthreads() {}
template <class T> static T __shfl_xor_sync(unsigned, T x, int) { return x; }
template <class T> static void atomicAdd(T* sum, T x) { *sum += x; }
template <class... A, std::size_t... I>
static void call(void (*kernel)(A...), void** places, std::index_sequence<I...>) { kernel(*(A*)places[I]...); }
template <class... A>
static void start(void (*kernel)(A...), void** places, long blocks, unsigned x, unsigned y) {
    blockDim = {x, y};
    gridDim = {(unsigned)blocks, 1};
    for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x)
        for (threadIdx.y = 0; threadIdx.y < y; ++threadIdx.y)
            for (threadIdx.x = 0; threadIdx.x < x; ++threadIdx.x)
                call(kernel, places, std::index_sequence_for<A...>());
}
";

/// Compiles `source`, whose kernels have C names, and returns the kernels `names`.
pub(super) fn compile<const N: usize>(source: &str, names: [&CStr; N]) -> [DeviceKernel; N] {
    let names = names.map(|name| name.to_str().expect("a name of C"));
    let mut text = format!("{PRELUDE}{source}");
    for name in names {
        let _infallible = writeln!(
            text,
            "extern \"C\" void start_{name}(void** places, long blocks, unsigned x, unsigned y) \
             {{ start({name}, places, blocks, x, y); }}"
        );
    }
    let folder = tempfile::tempdir().expect("a folder");
    let [source, library] = ["kernels.cpp", "kernels.so"].map(|name| folder.path().join(name));
    std::fs::write(&source, text).expect("room on the disk");
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    let mut command = Command::new(compiler);
    command.args(["-std=c++17", "-w", "-shared", "-fPIC", "-o"]);
    let said = command.arg(&library).arg(&source).output();
    let said = said.expect("a C++ compiler, which libtorch's bindings need, too");
    assert!(
        said.status.success(),
        "{}",
        String::from_utf8_lossy(&said.stderr)
    );
    // SAFETY: the library runs no code while it is loaded.
    let library = unsafe { Library::new(&library) }.expect("a library");
    let library: &Library = Box::leak(Box::new(library));
    names.map(|name| {
        // SAFETY: the type is that of the function written above.
        let entry = unsafe { library.get::<CpuKernel>(format!("start_{name}").as_bytes()) };
        DeviceKernel::Core(*entry.expect("it was written"))
    })
}

/// Starts a kernel with the addresses of its arguments.
///
/// # Safety
/// As [`DeviceKernel::start`].
pub(super) unsafe fn start(entry: CpuKernel, threads: LaunchSize, places: &mut [*mut c_void]) {
    let [x, y] = threads.block;
    // A warp has one lane. A block that is not made of warps may have any number of threads.
    let x = if x == WARP { 1 } else { x };
    // SAFETY: the caller guarantees the arguments.
    unsafe { entry(places.as_mut_ptr(), threads.blocks.max(1) as c_long, x, y) }
}
