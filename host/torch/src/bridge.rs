//! Calls of libtorch, which are resolved when libtorch is loaded instead of when the program is linked.
//!
//! libtorch's interface is C++, which differs between versions of PyTorch. `tch` calls it through C functions of
//! `torch-sys`. Here these are not linked: each version of PyTorch has a *bridge*, a small library that consists of
//! them, compiled against the headers of that version. The functions of this module have the names that `tch` calls,
//! and jump to those of the bridge that was loaded.

#![expect(
    unsafe_code,
    reason = "jumps to functions whose types only the compiler of the bridge knows"
)]

use std::ffi::CString;
use std::process;
use std::sync::atomic::{AtomicPtr, Ordering};

use libloading::os::unix::Library;

/// Declares the functions, their names and their places in the table of addresses.
macro_rules! declare {
    ($($name:ident)*) => {
        /// Place of a function in the table.
        #[expect(non_camel_case_types, reason = "the names are those of functions")]
        #[repr(usize)]
        enum Place { $($name),* }

        /// Names of the functions, in the order of the table.
        pub(super) const NAMES: &[&str] = &[$(stringify!($name)),*];

        $(
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name() {
                crate::bridge::jump!(Place::$name)
            }
        )*
    };
}

/// Jumps to the function whose address is at a place in the table. All arguments stay where the caller has put them.
#[cfg(target_arch = "x86_64")]
macro_rules! jump {
    ($place:expr) => {
        std::arch::naked_asm!(
            "jmp qword ptr [rip + {table} + {offset}]",
            table = sym crate::bridge::TABLE,
            offset = const 8 * $place as usize,
        )
    };
}

/// Jumps to the function whose address is at a place in the table. All arguments stay where the caller has put them;
/// calls may change register 16.
#[cfg(target_arch = "aarch64")]
macro_rules! jump {
    ($place:expr) => {
        std::arch::naked_asm!(
            "adrp x16, {table}",
            "add x16, x16, :lo12:{table}",
            "ldr x16, [x16, #{offset}]",
            "br x16",
            table = sym crate::bridge::TABLE,
            offset = const 8 * $place as usize,
        )
    };
}

use {declare, jump};

mod functions;

/// Addresses of the functions, in the order of their names.
static TABLE: [AtomicPtr<()>; functions::NAMES.len()] =
    [const { AtomicPtr::new(not_loaded as *mut ()) }; functions::NAMES.len()];

/// Stands for every function before a bridge is loaded. Nothing calls `tch` before.
extern "C" fn not_loaded() {
    process::abort();
}

/// Lets the functions jump to those of `bridge`, which must stay loaded.
///
/// # Errors
/// The name of a function that the bridge does not have.
pub(crate) fn connect(bridge: &Library) -> Result<(), &'static str> {
    let mut found = Vec::with_capacity(TABLE.len());
    for &name in functions::NAMES {
        let symbol = CString::new(name).map_err(|_| name)?;
        // SAFETY: the address is only stored.
        let function = unsafe { bridge.get::<*mut ()>(symbol.as_bytes_with_nul()) };
        found.push(function.map_err(|_| name)?.into_raw());
    }
    for (entry, function) in TABLE.iter().zip(found) {
        entry.store(function.cast(), Ordering::Release);
    }
    Ok(())
}
