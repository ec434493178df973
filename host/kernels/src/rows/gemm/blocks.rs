//! The loops around tiles, for any vector of floats.

/// What a processor's module needs besides its vectors: `LANES`, `Vector`, `Mask`, and `zero`, `splat`, `load`,
/// `load_some`, `store`, `store_some`, `add`, `multiply_add`, `mask` and `transpose` of them.
macro_rules! blocks {
    ($feature:literal, $rows:literal: $($r:literal)*) => {
        /// Vectors across a panel. With the rows of a tile they make as many sums as registers hold beside
        /// the vectors themselves and one factor.
        const VECTORS: usize = 3;

        /// What a tile works on: `depth` terms of rows of the left factor and of a packed panel.
        #[derive(Clone, Copy)]
        struct Operands {
            depth: usize,
            left: *const f32,
            row_stride: usize,
            column_stride: usize,
            panel: *const f32,
            out: *mut f32,
            out_stride: usize,
            /// Of the last vector of the panel.
            mask: Mask,
            accumulate: bool,
        }

        /// `R` rows and `V` vectors of the result.
        ///
        /// # Safety
        /// The operands point to that many rows, terms and vectors.
        #[target_feature(enable = $feature)]
        unsafe fn tile<const R: usize, const V: usize>(operands: Operands) {
            let Operands { depth, mut left, row_stride, column_stride, mut panel, out, out_stride, mask, accumulate } = operands;
            let mut sums = [[zero(); V]; R];
            for i in 0..R {
                // The sums will be stored, or added to, when all terms are done.
                (0..V).for_each(|j| prefetch_write(out.wrapping_add(i * out_stride + j * LANES)));
            }
            for _ in 0..depth {
                let mut vectors = [zero(); V];
                for (j, vector) in vectors.iter_mut().enumerate() {
                    // SAFETY: the panel has `V` vectors for each term.
                    *vector = unsafe { load(panel.add(j * LANES)) };
                }
                for (i, sums) in sums.iter_mut().enumerate() {
                    // SAFETY: the left factor has `R` rows.
                    let factor = splat(unsafe { *left.add(i * row_stride) });
                    for (sum, &vector) in sums.iter_mut().zip(&vectors) {
                        *sum = multiply_add(factor, vector, *sum);
                    }
                }
                left = left.wrapping_add(column_stride);
                panel = panel.wrapping_add(V * LANES);
            }
            for (i, sums) in sums.into_iter().enumerate() {
                for (j, mut sum) in sums.into_iter().enumerate() {
                    // SAFETY: the result has `R` rows and `V` vectors, of which the mask leaves those of the last
                    // that it has.
                    unsafe {
                        let to = out.add(i * out_stride + j * LANES);
                        if j + 1 < V {
                            if accumulate {
                                sum = add(sum, load(to));
                            }
                            store(to, sum);
                        } else {
                            if accumulate {
                                sum = add(sum, load_some(mask, to));
                            }
                            store_some(to, mask, sum);
                        }
                    }
                }
            }
        }

        type Tile = unsafe fn(Operands);

        /// By rows and vectors, less one.
        static TILES: [[Tile; VECTORS]; $rows] = [$([tile::<$r, 1>, tile::<$r, 2>, tile::<$r, 3>]),*];

        /// Rows of a factor that are packed together, while the next ones are on their way from memory.
        const ROWS_AT_ONCE: usize = 8;

        /// Panels of the right factor whose rows are contiguous: each `[depth, vectors]`, zero beyond its width.
        /// `panels` are their first columns, widths and places; some rows at a time, as memory is read fastest.
        ///
        /// # Safety
        /// There are as many rows and columns, and there is room.
        #[target_feature(enable = $feature)]
        unsafe fn pack_rows(from: *const f32, stride: usize, depth: usize, panels: impl Iterator<Item = (usize, usize, *mut f32)> + Clone) {
            for some in (0..depth).step_by(ROWS_AT_ONCE) {
                for (first, width, to) in panels.clone() {
                    let vectors = width.div_ceil(LANES);
                    let mask = mask(width);
                    for k in some..(some + ROWS_AT_ONCE).min(depth) {
                        for j in 0..vectors {
                            // SAFETY: as the caller promised; the mask leaves out what is beyond the width.
                            unsafe {
                                let from = from.add(k * stride + first + j * LANES);
                                prefetch_read(from.wrapping_add(ROWS_AT_ONCE * stride));
                                let vector = if j + 1 < vectors { load(from) } else { load_some(mask, from) };
                                store(to.add((k * vectors + j) * LANES), vector);
                            }
                        }
                    }
                }
            }
        }

        /// One panel of a factor whose columns are contiguous.
        ///
        /// # Safety
        /// As above.
        #[target_feature(enable = $feature)]
        unsafe fn pack_columns(from: *const f32, stride: usize, depth: usize, width: usize, to: *mut f32) {
            let vectors = width.div_ceil(LANES);
            for j in 0..vectors {
                let columns = (width - j * LANES).min(LANES);
                for k in (0..depth).step_by(LANES) {
                    let rows = (depth - k).min(LANES);
                    let mask = mask(rows);
                    let mut block = [zero(); LANES];
                    for (c, column) in block.iter_mut().take(columns).enumerate() {
                        let from = from.wrapping_add((j * LANES + c) * stride + k);
                        prefetch_read(from.wrapping_add(LANES * stride));
                        // SAFETY: as the caller promised; the mask leaves out what is beyond the depth.
                        *column = unsafe { load_some(mask, from) };
                    }
                    let block = transpose(block);
                    for (r, &row) in block.iter().take(rows).enumerate() {
                        // SAFETY: there is room for `vectors` vectors in each of `depth` rows.
                        unsafe { store(to.add(((k + r) * vectors + j) * LANES), row) };
                    }
                }
            }
        }

        /// Where panel `panel` begins and how wide it is: as many vectors in each, more or less.
        fn panel_of(panel: usize, columns: usize) -> (usize, usize) {
            let vectors = columns.div_ceil(LANES);
            let panels = vectors.div_ceil(VECTORS);
            let first = panel * vectors / panels * LANES;
            let end = ((panel + 1) * vectors / panels * LANES).min(columns);
            (first, end - first)
        }

        /// # Safety
        /// The processor has the instructions of this module, and the matrices lie in their slices.
        #[target_feature(enable = $feature)]
        pub(super) unsafe fn carry_out(product: Product<'_>, packed: &mut [f32]) {
            let parts = product.inner.div_ceil(DEPTH);
            let out = product.out.as_mut_ptr();
            for part in 0..parts {
                let of = |part: usize| part * product.inner / parts;
                let terms = of(part)..of(part + 1);
                // SAFETY: the terms are some of the product's; the rest is the caller's promise.
                unsafe { add_terms(&product, out, terms, product.accumulate || part > 0, packed) };
            }
        }

        /// The part of a product that some terms of its sums make.
        ///
        /// # Safety
        /// As above, and the terms are the product's.
        #[target_feature(enable = $feature)]
        unsafe fn add_terms(product: &Product<'_>, out: *mut f32, terms: Range<usize>, accumulate: bool, packed: &mut [f32]) {
            const STEP: usize = VECTORS * LANES;
            let most = packed.len() / terms.len() / STEP * STEP;
            for first in (0..product.columns).step_by(most) {
                let columns = first..(first + most).min(product.columns);
                // SAFETY: the columns are some of the product's; the rest is the caller's promise.
                unsafe { Part { product, out, terms: terms.clone(), columns, accumulate, packed: packed.as_mut_ptr() }.add() };
            }
        }

        /// Some terms of the sums of some columns: no more of the right factor than there is room for.
        struct Part<'p, 'a> {
            product: &'p Product<'a>,
            out: *mut f32,
            terms: Range<usize>,
            columns: Range<usize>,
            accumulate: bool,
            packed: *mut f32,
        }

        impl Part<'_, '_> {
            /// Panels stay in the first- and second-level cache while all of some rows use them. If rows are
            /// too many for that cache, all panels are packed before the first rows.
            ///
            /// # Safety
            /// The processor has the instructions, and matrices and panels lie in their slices.
            #[target_feature(enable = $feature)]
            unsafe fn add(&self) {
                let depth = self.terms.len();
                let vectors = self.columns.len().div_ceil(LANES);
                let (panels, tiles) = (vectors.div_ceil(VECTORS), self.product.rows.div_ceil(TILES.len()));
                let at_once = match depth * vectors * LANES <= KEPT {
                    true => 1,
                    false => (KEPT / depth / TILES.len()).max(1),
                };
                let place = |panel: usize| self.panel(panel).0 * depth;
                // SAFETY: the caller's promise. Each panel has its own place, or all the first one's.
                unsafe {
                    if at_once >= tiles {
                        for panel in 0..panels {
                            self.pack(panel..panel + 1, |_| 0);
                            (0..tiles).for_each(|tile| self.run(tile, tiles, panel, 0));
                        }
                        return;
                    }
                    self.pack(0..panels, place);
                    for first in (0..tiles).step_by(at_once) {
                        for panel in 0..panels {
                            for tile in first..(first + at_once).min(tiles) {
                                self.run(tile, tiles, panel, place(panel));
                            }
                        }
                    }
                }
            }

            fn panel(&self, panel: usize) -> (usize, usize) {
                panel_of(panel, self.columns.len())
            }

            /// # Safety
            /// As above, and there is room for each panel at its place.
            #[target_feature(enable = $feature)]
            unsafe fn pack(&self, panels: Range<usize>, place: impl Fn(usize) -> usize + Clone) {
                let (b, depth) = (&self.product.b, self.terms.len());
                let panels = panels.map(|panel| {
                    let (first, width) = self.panel(panel);
                    (first, width, self.packed.wrapping_add(place(panel)))
                });
                // SAFETY: the right factor has these terms and columns; there is room.
                unsafe {
                    let from = b.values.as_ptr().add(self.terms.start * b.row_stride + self.columns.start * b.column_stride);
                    match b.column_stride {
                        1 => pack_rows(from, b.row_stride, depth, panels),
                        stride => {
                            for (first, width, to) in panels {
                                pack_columns(from.add(first * stride), stride, depth, width, to);
                            }
                        }
                    }
                }
            }

            /// # Safety
            /// As above, and the panel was packed to `place`.
            #[target_feature(enable = $feature)]
            unsafe fn run(&self, tile: usize, tiles: usize, panel: usize, place: usize) {
                let &Product { rows, columns, a, .. } = self.product;
                let (first, width) = self.panel(panel);
                let of = |tile: usize| tile * rows / tiles;
                let (top, count) = (of(tile), of(tile + 1) - of(tile));
                // SAFETY: the left factor has these rows and terms, the result these rows and columns.
                unsafe {
                    let operands = Operands {
                        depth: self.terms.len(),
                        left: a.values.as_ptr().add(top * a.row_stride + self.terms.start * a.column_stride),
                        row_stride: a.row_stride,
                        column_stride: a.column_stride,
                        panel: self.packed.add(place),
                        out: self.out.add(top * columns + self.columns.start + first),
                        out_stride: columns,
                        mask: mask(width),
                        accumulate: self.accumulate,
                    };
                    TILES[count - 1][width.div_ceil(LANES) - 1](operands);
                }
            }
        }
    };
}

pub(super) use blocks;
