//! The processor's treatment of subnormal numbers, which it computes with many times more slowly than with others.
//! They are flushed to zero while kernels run, and kept while a guest's code runs.

#![expect(
    unsafe_code,
    reason = "instructions that read and write the control register of vector instructions"
)]

use std::marker::PhantomData;

/// Sets the floating-point mode of the current thread, and restores the previous mode when dropped.
pub(crate) struct SubnormalMode {
    before: u64,
    /// Makes the type `!Send`: the mode must be restored on the thread whose mode it is.
    thread: PhantomData<*const ()>,
}

impl SubnormalMode {
    /// Flushes subnormal numbers: operands count as zero, and results become zero.
    pub(crate) fn flushing() -> Self {
        Self::set(true)
    }

    /// Keeps subnormal numbers, as guests may rely on.
    pub(crate) fn exact() -> Self {
        Self::set(false)
    }

    fn set(flush: bool) -> Self {
        let before = register::read();
        let after = match flush {
            true => before | register::FLUSH,
            false => before & !register::FLUSH,
        };
        if after != before {
            register::write(after);
        }
        Self {
            before,
            thread: PhantomData,
        }
    }
}

impl Drop for SubnormalMode {
    fn drop(&mut self) {
        if register::read() != self.before {
            register::write(self.before);
        }
    }
}

/// Access to the control and status register of vector instructions.
#[cfg(target_arch = "x86_64")]
mod register {
    use std::arch::asm;

    /// Bits that flush subnormal results and subnormal operands to zero.
    pub(super) const FLUSH: u64 = (1 << 15) | (1 << 6);

    pub(super) fn read() -> u64 {
        let mut value = 0_u32;
        // SAFETY: the instruction writes 4 bytes to the given address, that of `value`.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut value, options(nostack)) };
        value.into()
    }

    pub(super) fn write(value: u64) {
        let value = value as u32;
        // SAFETY: the value differs from the register's previous content only in the bits of `FLUSH`: the rounding mode
        // and the exception masks stay. The compiler assumes that these bits are clear only where it evaluates
        // constants, which are not subnormal here. All code that runs with the bits set is in this crate, `pbg-rows`
        // and `pbg-gemm`, ends before the mode does, and may treat a subnormal number as zero.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const value, options(nostack)) };
    }
}

#[cfg(target_arch = "aarch64")]
mod register {
    use std::arch::asm;

    /// Bit that flushes subnormal operands and results to zero.
    pub(super) const FLUSH: u64 = 1 << 24;

    pub(super) fn read() -> u64 {
        let value: u64;
        // SAFETY: the instruction copies the register and has no other effect.
        unsafe { asm!("mrs {}, fpcr", out(reg) value, options(nomem, nostack)) };
        value
    }

    pub(super) fn write(value: u64) {
        // SAFETY: as on x86-64: the value differs from the register's previous content only in the bit of `FLUSH`.
        unsafe { asm!("msr fpcr, {}", in(reg) value, options(nostack)) };
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod register {
    pub(super) const FLUSH: u64 = 0;

    pub(super) fn read() -> u64 {
        0
    }

    pub(super) fn write(_: u64) {}
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    fn half_of_the_least() -> f32 {
        black_box(f32::MIN_POSITIVE) * black_box(0.5)
    }

    #[test]
    fn modes_nest_and_end() {
        assert!(half_of_the_least() > 0.0);
        {
            let _kernel = SubnormalMode::flushing();
            assert!(black_box(half_of_the_least()) == 0.0);
            {
                let _guest = SubnormalMode::exact();
                assert!(black_box(half_of_the_least()) > 0.0);
            }
            assert!(black_box(half_of_the_least()) == 0.0);
        }
        assert!(half_of_the_least() > 0.0);
    }
}
