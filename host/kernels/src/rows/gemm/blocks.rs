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

        /// A panel of the right factor whose rows are contiguous: `[depth, vectors]`, zero beyond its width.
        ///
        /// # Safety
        /// There are as many rows and columns, and there is room.
        #[target_feature(enable = $feature)]
        unsafe fn pack_rows(from: *const f32, stride: usize, depth: usize, width: usize, to: *mut f32) {
            let vectors = width.div_ceil(LANES);
            let mask = mask(width);
            for k in 0..depth {
                for j in 0..vectors {
                    // SAFETY: as the caller promised; the mask leaves out what is beyond the width.
                    unsafe {
                        let from = from.add(k * stride + j * LANES);
                        let vector = if j + 1 < vectors { load(from) } else { load_some(mask, from) };
                        store(to.add((k * vectors + j) * LANES), vector);
                    }
                }
            }
        }

        /// The same of a factor whose columns are contiguous.
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
                        // SAFETY: as the caller promised; the mask leaves out what is beyond the depth.
                        *column = unsafe { load_some(mask, from.add((j * LANES + c) * stride + k)) };
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
            let &Product { rows, columns, a, b, .. } = product;
            let depth = terms.len();
            let vectors = columns.div_ceil(LANES);
            let (panels, tiles) = (vectors.div_ceil(VECTORS), rows.div_ceil(TILES.len()));
            let whole = depth * vectors * LANES <= WHOLE;
            let room = depth * LANES * if whole { vectors } else { VECTORS };
            let panel_room = &mut packed[..room];
            let place = |panel: usize| if whole { panel_of(panel, columns).0 * depth } else { 0 };
            let packed = panel_room.as_mut_ptr();
            let pack = |panel: usize| {
                let (first, width) = panel_of(panel, columns);
                // SAFETY: the right factor has these terms and columns; with all panels each has its own place,
                // else each takes the room of the widest.
                unsafe {
                    let from = b.values.as_ptr().add(terms.start * b.row_stride + first * b.column_stride);
                    let to = packed.add(place(panel));
                    match b.column_stride {
                        1 => pack_rows(from, b.row_stride, depth, width, to),
                        stride => pack_columns(from, stride, depth, width, to),
                    }
                }
            };
            let run = |tile: usize, panel: usize| {
                let (first, width) = panel_of(panel, columns);
                let of = |tile: usize| tile * rows / tiles;
                let (top, count) = (of(tile), of(tile + 1) - of(tile));
                // SAFETY: the left factor has these rows and terms, the result these rows and columns, and the panel
                // was packed.
                unsafe {
                    let operands = Operands {
                        depth,
                        left: a.values.as_ptr().add(top * a.row_stride + terms.start * a.column_stride),
                        row_stride: a.row_stride,
                        column_stride: a.column_stride,
                        panel: packed.add(place(panel)),
                        out: out.add(top * columns + first),
                        out_stride: columns,
                        mask: mask(width),
                        accumulate,
                    };
                    TILES[count - 1][width.div_ceil(LANES) - 1](operands);
                }
            };
            if whole {
                (0..panels).for_each(pack);
                (0..tiles).for_each(|tile| (0..panels).for_each(|panel| run(tile, panel)));
            } else {
                for panel in 0..panels {
                    pack(panel);
                    (0..tiles).for_each(|tile| run(tile, panel));
                }
            }
        }
    };
}

pub(super) use blocks;
