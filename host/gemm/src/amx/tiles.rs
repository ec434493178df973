//! Tiles of a product, computed with the instructions of AMX, which the compiler does not support yet.
//!
//! AMX has eight tile registers of up to 16 rows of 64 bytes. Four hold sums, `[2 x height, 2 x 16]`, two a plane of
//! the left factor, and two a plane of the right one. The compiler uses no tile registers, so they keep their contents
//! from one block of assembly to the next.

use std::arch::asm;

/// Rows of a tile of the right factor, and greatest number of rows of a tile of the left one: 16 lines or pairs of
/// terms.
pub(super) const LINES: usize = 16;
/// Number of terms that one instruction adds to a sum.
pub(super) const STEP: usize = 32;
/// Number of bfloat16 numbers whose sum is a float.
pub(super) const PLANES: usize = 3;
/// Numbers of 32 bits per tile: pairs of bfloat16, or sums.
pub(super) const TILE: usize = 16 * LINES;

pub(super) fn is_supported() -> bool {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    const BFLOAT16: u32 = 1 << 22;
    const TILES: u32 = 1 << 24;
    // The features are in leaf 7, if the processor has that many leaves.
    __cpuid(0).eax >= 7 && __cpuid_count(7, 0).edx & (BFLOAT16 | TILES) == BFLOAT16 | TILES
}

/// Asks the system to save the tile registers at every thread switch, which it does only on request.
#[cfg(target_os = "linux")]
pub(super) fn system_permits() -> bool {
    const ARCH_PRCTL: i64 = 158;
    const REQUEST_PERMISSION: i64 = 0x1023;
    const TILE_DATA: i64 = 18;
    let result: i64;
    // SAFETY: the call reads and writes no memory of this process; it clobbers the registers of every system call.
    unsafe {
        asm!("syscall", inlateout("rax") ARCH_PRCTL => result, in("rdi") REQUEST_PERMISSION, in("rsi") TILE_DATA,
            out("rcx") _, out("r11") _, options(nostack, nomem));
    }
    result == 0
}

#[cfg(not(target_os = "linux"))]
pub(super) fn system_permits() -> bool {
    false
}

/// The shape of the tiles, in the format of the processor.
#[repr(C, align(64))]
struct Shape {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

/// Use of the tile registers by this thread, which ends when the value is dropped.
pub(super) struct TileRegisters {
    height: usize,
}

impl TileRegisters {
    /// Configures tiles with `height` rows for sums and the left factor.
    ///
    /// # Safety
    /// The processor has AMX, the system permits this process to use it, and `height` is 1 to 16.
    pub(super) unsafe fn of_height(height: usize) -> Self {
        let mut shape = Shape {
            palette: 1,
            start_row: 0,
            reserved: [0; 14],
            row_bytes: [0; 16],
            rows: [0; 16],
        };
        shape.row_bytes[..8].fill(64);
        shape.rows[..6].fill(height as u8);
        shape.rows[6..8].fill(LINES as u8);
        // SAFETY: the instruction reads the 64 bytes of `shape`.
        unsafe {
            asm!("ldtilecfg [{}]", in(reg) &raw const shape, options(nostack, preserves_flags, readonly))
        };
        Self { height }
    }
}

impl Drop for TileRegisters {
    fn drop(&mut self) {
        // SAFETY: the caller of `of_height` guarantees AMX. Unless released, the registers are saved at every thread
        // switch.
        unsafe { asm!("tilerelease", options(nostack, preserves_flags, nomem)) };
    }
}

/// A packed panel: `tiles` tiles of lines next to each other, `[steps, planes, 2, TILE]`.
#[derive(Clone, Copy)]
pub(super) struct Panel {
    pub(super) start: *const u32,
    /// Number of tiles: one or two.
    pub(super) tiles: usize,
    /// Number of lines, at most `tiles` times the lines of a tile.
    pub(super) lines: usize,
}

/// Destination of the sums.
#[derive(Clone, Copy)]
pub(super) struct SumsTarget {
    pub(super) start: *mut f32,
    pub(super) stride: usize,
    pub(super) accumulate: bool,
}

impl SumsTarget {
    /// Returns the part of the destination from a row and a column on.
    pub(super) fn at(self, row: usize, column: usize) -> Self {
        let start = self.start.wrapping_add(row * self.stride + column);
        Self { start, ..self }
    }
}

macro_rules! load {
    ($base:literal, $plane:literal, $($register:literal $offset:literal)*) => {
        concat!($("tileloadd ", $register, ", [", $base, " + {line}*1 + ", $offset, " + ", $plane, "]\n"),*)
    };
}

macro_rules! ahead {
    ($base:literal, $offset:literal) => {
        concat!(
            ".set ahead, ",
            $offset,
            "\n.rept 32\nprefetcht0 [",
            $base,
            " + ahead]\n.set ahead, ahead + 64\n.endr\n"
        )
    };
}

macro_rules! kernel {
    ($name:ident, [$($a:literal $a_offset:literal)*], [$($b:literal $b_offset:literal)*], [$($c:literal $x:literal $y:literal)*]) => {
        /// Adds the products of two panels' terms to the sums in the tile registers.
        ///
        /// # Safety
        /// The tile registers are in use by this thread, and both panels have `steps` steps of `PLANES` planes.
        unsafe fn $name(left: *const u32, right: *const u32, steps: usize) {
            macro_rules! a { ($plane:literal) => { load!("{left}", $plane, $($a $a_offset)*) }; }
            macro_rules! b { ($plane:literal) => { load!("{right}", $plane, $($b $b_offset)*) }; }
            macro_rules! add { () => { concat!($("tdpbf16ps ", $c, ", ", $x, ", ", $y, "\n"),*) }; }
            // SAFETY: the instructions read the panels and write tile registers, which no other code uses.
            unsafe {
                // Each product changes the plane of only one factor: high x low, high x middle, middle x middle, middle
                // x high, high x high, low x high.
                asm!(
                    "2:",
                    concat!(ahead!("{right}", "6144"), a!("0"), b!("4096"), add!(), ahead!("{right}", "8192"), b!("2048"), add!(), ahead!("{right}", "10240"),  a!("2048"), add!()),
                    concat!(ahead!("{left}", "6144"), b!("0"), add!(), ahead!("{left}", "8192"),  a!("0"), add!(), ahead!("{left}", "10240"),  a!("4096"), add!()),
                    "add {left}, 6144",
                    "add {right}, 6144",
                    "dec {steps}",
                    "jnz 2b",
                    left = inout(reg) left => _, right = inout(reg) right => _, steps = inout(reg) steps => _,
                    line = in(reg) 64_usize, options(nostack, readonly),
                );
            }
        }
    };
}

kernel!(two_by_two, ["tmm4" "0" "tmm5" "1024"], ["tmm6" "0" "tmm7" "1024"],
    ["tmm0" "tmm4" "tmm6" "tmm1" "tmm4" "tmm7" "tmm2" "tmm5" "tmm6" "tmm3" "tmm5" "tmm7"]);
kernel!(two_by_one, ["tmm4" "0" "tmm5" "1024"], ["tmm6" "0"], ["tmm0" "tmm4" "tmm6" "tmm2" "tmm5" "tmm6"]);
kernel!(one_by_two, ["tmm4" "0"], ["tmm6" "0" "tmm7" "1024"], ["tmm0" "tmm4" "tmm6" "tmm1" "tmm4" "tmm7"]);
kernel!(one_by_one, ["tmm4" "0"], ["tmm6" "0"], ["tmm0" "tmm4" "tmm6"]);

#[repr(align(64))]
struct Scratch([f32; 4 * TILE]);

impl TileRegisters {
    /// Computes `target = left right`, or `+=`: the sums of the products of two panels' terms.
    ///
    /// # Safety
    /// The panels have `steps` steps of `PLANES` planes; the target has a row for each line of `left`, and a column for
    /// each line of `right`.
    #[inline(always)]
    pub(super) unsafe fn multiply(
        &self,
        left: Panel,
        right: Panel,
        steps: usize,
        target: SumsTarget,
    ) {
        let (below, stride) = (self.height * target.stride, 4 * target.stride);
        // SAFETY: the caller guarantees the panels and the target; the tile registers are in use while `self` exists.
        unsafe {
            if (left.lines, right.lines) == (2 * self.height, 2 * LINES) {
                match target.accumulate {
                    true => load_sums(target.start, below, stride),
                    false => zero_sums(),
                }
                two_by_two(left.start, right.start, steps);
                store_sums(target.start, below, stride);
                return;
            }
            zero_sums();
            match (left.tiles, right.tiles) {
                (2, 2) => two_by_two(left.start, right.start, steps),
                (2, _) => two_by_one(left.start, right.start, steps),
                (_, 2) => one_by_two(left.start, right.start, steps),
                _ => one_by_one(left.start, right.start, steps),
            }
            self.store_partial(left.lines, right.lines, target);
        }
    }

    /// Writes the first rows and columns of the sums to the target.
    ///
    /// # Safety
    /// The target has `rows` rows and `columns` columns.
    unsafe fn store_partial(&self, rows: usize, columns: usize, target: SumsTarget) {
        const WIDTH: usize = 2 * LINES;
        let mut scratch = Scratch([0.0; 4 * TILE]);
        // SAFETY: the scratch has room for all sums; the caller guarantees the target.
        unsafe {
            store_sums(scratch.0.as_mut_ptr(), self.height * WIDTH, 4 * WIDTH);
            for (i, sums) in scratch.0.chunks_exact(WIDTH).take(rows).enumerate() {
                let to = target.start.wrapping_add(i * target.stride);
                let row = std::slice::from_raw_parts_mut(to, columns);
                for (to, &sum) in row.iter_mut().zip(sums) {
                    *to = if target.accumulate { *to + sum } else { sum };
                }
            }
        }
    }
}

/// # Safety
/// The tile registers are in use by this thread.
#[inline(always)]
unsafe fn zero_sums() {
    // SAFETY: the caller guarantees it.
    unsafe {
        asm!(
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            options(nostack, preserves_flags, nomem)
        );
    }
}

/// Loads the four tiles of sums; the lower two start `below` floats after the upper two.
///
/// # Safety
/// The tile registers are in use by this thread, and the rows of the tiles, 32 floats each, `stride` bytes apart,
/// exist.
#[inline(always)]
unsafe fn load_sums(from: *const f32, below: usize, stride: usize) {
    // SAFETY: the caller guarantees it.
    unsafe {
        asm!(
            "tileloadd tmm0, [{above} + {stride}*1]",
            "tileloadd tmm1, [{above} + {stride}*1 + 64]",
            "tileloadd tmm2, [{below} + {stride}*1]",
            "tileloadd tmm3, [{below} + {stride}*1 + 64]",
            above = in(reg) from, below = in(reg) from.wrapping_add(below), stride = in(reg) stride,
            options(nostack, preserves_flags, readonly),
        );
    }
}

/// Stores the four tiles of sums, in the layout of [`load_sums`].
///
/// # Safety
/// As for [`load_sums`].
#[inline(always)]
unsafe fn store_sums(to: *mut f32, below: usize, stride: usize) {
    // SAFETY: the caller guarantees it.
    unsafe {
        asm!(
            "tilestored [{above} + {stride}*1], tmm0",
            "tilestored [{above} + {stride}*1 + 64], tmm1",
            "tilestored [{below} + {stride}*1], tmm2",
            "tilestored [{below} + {stride}*1 + 64], tmm3",
            above = in(reg) to, below = in(reg) to.wrapping_add(below), stride = in(reg) stride,
            options(nostack, preserves_flags),
        );
    }
}
