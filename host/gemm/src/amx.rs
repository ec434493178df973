//! Products with AMX, which adds products of bfloat16 numbers; single precision is composed from them.
//!
//! A float is exactly the sum of three bfloat16 numbers. Of the nine products of such parts six are added up; the other
//! three are smaller than the rounding error of a product of floats (Henry, Tang, Heinecke: "Leveraging the bfloat16
//! artificial intelligence datatype for higher-precision computations", 2019). Sums are in single precision, as in the
//! other kernels.
//!
//! One factor is kept packed in the second-level cache, while the lines of the other one are streamed, two tiles at
//! once.

mod pack;
mod tiles;

use std::ops::Range;
use std::sync::LazyLock;

use super::product::{CheckedProduct, StridedMatrix};
use pack::{FactorLines, TileOrder, pack_step};
use tiles::{LINES, PLANES, Panel, STEP, SumsTarget, TILE, TileRegisters};

/// Greatest number of terms of a sum that are packed at once.
const DEPTH: usize = 512;
/// Numbers of 32 bits that the kept factor may take: 1.25 MiB.
const KEPT_WORDS: usize = 320 << 10;

/// Returns whether the processor has AMX for bfloat16, and the system permits this process to use it.
pub(super) fn is_usable() -> bool {
    static USABLE: LazyLock<bool> = LazyLock::new(|| {
        let others = is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512bf16");
        others && tiles::is_supported() && tiles::system_permits()
    });
    *USABLE
}

/// Lines of a factor, and their division into tiles and panels of two tiles.
#[derive(Clone)]
struct Factor {
    lines: FactorLines,
    range: Range<usize>,
    height: usize,
    order: TileOrder,
}

impl Factor {
    fn rows_of(a: StridedMatrix<'_>, rows: usize) -> Self {
        let lines = FactorLines {
            from: a.values.as_ptr(),
            line_stride: a.row_stride,
            term_stride: a.column_stride,
        };
        let height = rows.div_ceil(rows.div_ceil(LINES));
        Self {
            lines,
            range: 0..rows,
            height,
            order: TileOrder::Lines,
        }
    }

    fn columns_of(b: StridedMatrix<'_>, columns: usize) -> Self {
        let lines = FactorLines {
            from: b.values.as_ptr(),
            line_stride: b.column_stride,
            term_stride: b.row_stride,
        };
        Self {
            lines,
            range: 0..columns,
            height: LINES,
            order: TileOrder::Pairs,
        }
    }

    fn panels(&self) -> usize {
        self.range.len().div_ceil(2 * self.height)
    }

    fn lines_of(&self, panel: usize) -> Range<usize> {
        let first = self.range.start + panel * 2 * self.height;
        first..(first + 2 * self.height).min(self.range.end)
    }

    fn packed(&self, panel: usize, start: *const u32) -> Panel {
        let lines = self.lines_of(panel).len();
        Panel {
            start,
            tiles: lines.div_ceil(self.height),
            lines,
        }
    }

    /// Packs terms of panels to their places, in the order of the source in memory.
    ///
    /// # Safety
    /// The processor has the instructions, the lines have these terms, and the places have room for them.
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    unsafe fn pack(
        &self,
        panels: Range<usize>,
        terms: &Range<usize>,
        place: impl Fn(usize) -> *mut u32,
    ) {
        let steps = terms.len().div_ceil(STEP);
        // SAFETY: the caller guarantees it.
        unsafe {
            if self.lines.terms_contiguous() {
                for panel in panels {
                    for step in 0..steps {
                        self.pack_step(panel, step, terms, place(panel));
                    }
                }
            } else {
                for step in 0..steps {
                    for panel in panels.clone() {
                        self.pack_step(panel, step, terms, place(panel));
                    }
                }
            }
        }
    }

    /// Packs one step of a panel whose place is `start`.
    ///
    /// # Safety
    /// As for [`Factor::pack`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    unsafe fn pack_step(&self, panel: usize, step: usize, terms: &Range<usize>, start: *mut u32) {
        let (lines, first) = (self.lines_of(panel), terms.start + step * STEP);
        let source = self.lines.from(lines.start, first);
        let to = start.wrapping_add(step * PLANES * 2 * TILE);
        let terms = (terms.end - first).min(STEP);
        // SAFETY: the caller guarantees it.
        unsafe { pack_step(source, lines.len(), self.height, terms, self.order, to) };
    }
}

/// # Safety
/// The processor has AMX for bfloat16, the system permits this process to use it, and the matrices lie within their
/// slices.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(super) unsafe fn run(product: CheckedProduct<'_>, packed: &mut [f32]) {
    let CheckedProduct {
        out,
        out_stride,
        rows,
        inner,
        columns,
        a,
        b,
        accumulate,
    } = product;
    let (left, right) = (Factor::rows_of(a, rows), Factor::columns_of(b, columns));
    let steps = inner.div_ceil(STEP).div_ceil(inner.div_ceil(DEPTH));
    assert!(
        KEPT_WORDS + DEPTH * PLANES * LINES <= packed.len(),
        "the memory holds the kept panels and one streamed panel"
    );
    // SAFETY: the caller guarantees it, and there is memory for the packed panels.
    unsafe {
        let tiles = &TileRegisters::of_height(left.height);
        for first in (0..inner).step_by(steps * STEP) {
            let part = Part {
                tiles,
                terms: first..(first + steps * STEP).min(inner),
                target: SumsTarget {
                    start: out.as_mut_ptr(),
                    stride: out_stride,
                    accumulate: accumulate || first > 0,
                },
                packed: packed.as_mut_ptr().cast(),
            };
            part.add(&left, &right);
        }
    }
}

/// The part of a product that belongs to some of its terms.
struct Part<'t> {
    tiles: &'t TileRegisters,
    terms: Range<usize>,
    target: SumsTarget,
    packed: *mut u32,
}

impl Part<'_> {
    fn steps(&self) -> usize {
        self.terms.len().div_ceil(STEP)
    }

    /// Returns the numbers of 32 bits in a packed panel.
    fn panel_size(&self) -> usize {
        self.steps() * PLANES * 2 * TILE
    }

    /// # Safety
    /// As for [`run`].
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    unsafe fn add(&self, left: &Factor, right: &Factor) {
        let most = (KEPT_WORDS / self.panel_size()).max(1);
        let blocks = |side: &Factor| side.panels().div_ceil(most);
        // Number of lines that are packed if the left or the right side is kept.
        let left_stays = left.range.len() + right.range.len() * blocks(left);
        let right_stays = right.range.len() + left.range.len() * blocks(right);
        let (stays, passes) = if left_stays < right_stays {
            (left, right)
        } else {
            (right, left)
        };
        let size = stays.panels().div_ceil(blocks(stays));
        for first in (0..stays.panels()).step_by(size) {
            let block = first..(first + size).min(stays.panels());
            // SAFETY: the caller guarantees it.
            unsafe { self.stream(stays, block, passes) };
        }
    }

    /// Adds the products of some kept panels with all panels of the other side.
    ///
    /// # Safety
    /// As for [`run`].
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    unsafe fn stream(&self, stays: &Factor, block: Range<usize>, passes: &Factor) {
        let size = self.panel_size();
        let (first, passing_place) = (block.start, self.packed);
        let place = |panel: usize| self.packed.wrapping_add((1 + panel - first) * size);
        // SAFETY: the caller guarantees it; there is room for the panels of `KEPT` and one more.
        unsafe {
            stays.pack(block.clone(), &self.terms, place);
            for passing in 0..passes.panels() {
                passes.pack(passing..passing + 1, &self.terms, |_| passing_place);
                let passed = passes.packed(passing, passing_place);
                for staying in block.clone() {
                    let kept = stays.packed(staying, place(staying));
                    let (stays_at, passes_at) = (
                        stays.lines_of(staying).start,
                        passes.lines_of(passing).start,
                    );
                    let (left, right, row, column) = match stays.order {
                        TileOrder::Lines => (kept, passed, stays_at, passes_at),
                        TileOrder::Pairs => (passed, kept, passes_at, stays_at),
                    };
                    self.tiles
                        .multiply(left, right, self.steps(), self.target.at(row, column));
                }
            }
        }
    }
}
