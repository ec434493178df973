//! Subnormal numbers, which processors compute with many times slower than with others: zeros
//! while kernels run, numbers while anybody else's code does.

use std::marker::PhantomData;

/// The processor's mode of this thread until the value is dropped.
pub(crate) struct Mode {
    before: u64,
    /// It is the thread's, so it must end on the thread.
    thread: PhantomData<*const ()>,
}

impl Mode {
    /// Subnormal numbers count as zero, and results that would be subnormal become zero.
    pub(crate) fn flushing() -> Self {
        Self::set(true)
    }

    /// Subnormal numbers are numbers, as guests may rely on.
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

impl Drop for Mode {
    fn drop(&mut self) {
        if register::read() != self.before {
            register::write(self.before);
        }
    }
}

/// The control and status register of vector instructions.
#[cfg(target_arch = "x86_64")]
mod register {
    use std::arch::asm;

    /// Results to zero, and operands to zero.
    pub(super) const FLUSH: u64 = (1 << 15) | (1 << 6);

    pub(super) fn read() -> u64 {
        let mut value = 0_u32;
        // SAFETY: the instruction writes 4 bytes to where it is told, which is `value`.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut value, options(nostack)) };
        value.into()
    }

    pub(super) fn write(value: u64) {
        let value = value as u32;
        // SAFETY: the value is what the register held, with other bits of `FLUSH`: rounding and
        // masks of exceptions stay. The compiler takes for granted that these bits are clear only
        // where it computes with constants, which are not subnormal here; everything that runs
        // with the bits set is in this crate, ends before the mode does, and may take a subnormal
        // number for zero.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const value, options(nostack)) };
    }
}

#[cfg(target_arch = "aarch64")]
mod register {
    use std::arch::asm;

    /// Operands and results to zero.
    pub(super) const FLUSH: u64 = 1 << 24;

    pub(super) fn read() -> u64 {
        let value: u64;
        // SAFETY: the instruction copies the register, and does nothing else.
        unsafe { asm!("mrs {}, fpcr", out(reg) value, options(nomem, nostack)) };
        value
    }

    pub(super) fn write(value: u64) {
        // SAFETY: as on x86-64: the value is what the register held, with another bit `FLUSH`.
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
            let _kernel = Mode::flushing();
            assert!(black_box(half_of_the_least()) == 0.0);
            {
                let _guest = Mode::exact();
                assert!(black_box(half_of_the_least()) > 0.0);
            }
            assert!(black_box(half_of_the_least()) == 0.0);
        }
        assert!(half_of_the_least() > 0.0);
    }
}
