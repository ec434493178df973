//! The loops around tiles, for any type of float vector.

/// Defines the loops for a processor's vectors. The arguments are its target features, the rows of the largest tile,
/// and the vectors of the largest tile, each followed by the numbers up to it. The calling module must also define
/// `LANES`, `Vector`, `Mask`, and for these `zero`, `splat`, `load`, `load_some`, `store`, `store_some`, `add`,
/// `multiply_add`, `mask` and `transpose`.
macro_rules! blocks {
    ($feature:literal, $rows:literal: $($r:literal)*, $vectors:literal: $v:tt) => {
        /// Vectors across a panel. With the rows of a tile they give as many sums as the registers can hold in addition
        /// to the vectors themselves and one factor.
        const VECTORS: usize = $vectors;

        /// Operands of a tile: `depth` terms of rows of the left factor and of a packed panel.
        #[derive(Clone, Copy)]
        struct Operands {
            depth: usize,
            left: *const f32,
            row_stride: usize,
            column_stride: usize,
            panel: *const f32,
            out: *mut f32,
            out_stride: usize,
            /// Lanes that the last vector of the panel occupies.
            mask: Mask,
            /// Whether the mask includes all lanes. Masked stores are slow on some processors.
            whole: bool,
            accumulate: bool,
        }

        /// Computes a tile of `R` rows and `V` vectors of the result.
        ///
        /// # Safety
        /// The operands point to `R` rows, `depth` terms and `V` vectors.
        #[target_feature(enable = $feature)]
        unsafe fn tile<const R: usize, const V: usize>(operands: Operands) {
            let Operands { depth, mut left, row_stride, column_stride, mut panel, out, out_stride, mask, whole, accumulate } = operands;
            let mut sums = [[zero(); V]; R];
            for i in 0..R {
                // The sums are stored, or added to the result, after all terms.
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
                    // SAFETY: the result has `R` rows and `V` vectors; of the last vector, the mask includes only the
                    // lanes that exist.
                    unsafe {
                        let to = out.add(i * out_stride + j * LANES);
                        if j + 1 < V || whole {
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

        /// Tile functions, indexed by rows minus 1 and vectors minus 1.
        static TILES: [[Tile; VECTORS]; $rows] = [$(tiles_of!($r $v)),*];

        /// Rows of a factor that are packed together, while the following rows are loaded from memory.
        const ROWS_AT_ONCE: usize = 8;

        /// Packs panels of a right factor whose rows are contiguous, each as `[depth, vectors]`, with zeros beyond its
        /// width. `panels` are the first column, the width and the place of each panel. Some rows are packed for all
        /// panels before the next rows, since memory is read fastest in this order.
        ///
        /// # Safety
        /// The factor has these rows and columns, and the places have room for them.
        #[target_feature(enable = $feature)]
        unsafe fn pack_rows(from: *const f32, stride: usize, depth: usize, panels: impl Iterator<Item = (usize, usize, *mut f32)> + Clone) {
            for some in (0..depth).step_by(ROWS_AT_ONCE) {
                for (first, width, to) in panels.clone() {
                    let vectors = width.div_ceil(LANES);
                    let mask = mask(width);
                    for k in some..(some + ROWS_AT_ONCE).min(depth) {
                        for j in 0..vectors {
                            // SAFETY: the caller guarantees it; the mask excludes columns beyond the width.
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

        /// Packs one panel of a factor whose columns are contiguous.
        ///
        /// # Safety
        /// As for `pack_rows`.
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
                        // SAFETY: the caller guarantees it; the mask excludes rows beyond the depth.
                        *column = unsafe { load_some(mask, from) };
                    }
                    let block = transpose(block);
                    for (r, &row) in block.iter().take(rows).enumerate() {
                        // SAFETY: the caller guarantees room for `vectors` vectors in each of `depth` rows.
                        unsafe { store(to.add(((k + r) * vectors + j) * LANES), row) };
                    }
                }
            }
        }

        /// Packs the rows of a tile, as `[depth, rows]`, from a factor whose columns are contiguous.
        ///
        /// # Safety
        /// The factor has these rows, fewer than a vector has floats, and there is room for them and one more vector.
        #[target_feature(enable = $feature)]
        unsafe fn pack_tile(from: *const f32, stride: usize, depth: usize, rows: usize, to: *mut f32) {
            let mask = mask(rows);
            for k in 0..depth {
                // SAFETY: the caller guarantees it. Floats beyond the rows are overwritten by the next term, or unused.
                unsafe { store(to.add(k * rows), load_some(mask, from.add(k * stride))) };
            }
        }

        /// Returns the first column of panel `panel` and its width; vectors are divided evenly among panels.
        fn panel_of(panel: usize, columns: usize) -> (usize, usize) {
            let vectors = columns.div_ceil(LANES);
            let panels = vectors.div_ceil(VECTORS);
            let first = panel * vectors / panels * LANES;
            let end = ((panel + 1) * vectors / panels * LANES).min(columns);
            (first, end - first)
        }

        /// # Safety
        /// The processor has the instructions of this module, and the matrices lie within their slices.
        #[target_feature(enable = $feature)]
        pub(super) unsafe fn run(product: CheckedProduct<'_>, packed: &mut [f32]) {
            let parts = product.inner.div_ceil(DEPTH);
            let out = product.out.as_mut_ptr();
            for part in 0..parts {
                let of = |part: usize| part * product.inner / parts;
                let terms = of(part)..of(part + 1);
                // SAFETY: the terms are a part of the product's; the caller guarantees the rest.
                unsafe { add_terms(&product, out, terms, product.accumulate || part > 0, packed) };
            }
        }

        /// Adds the part of a product that belongs to some of its terms.
        ///
        /// # Safety
        /// As for `run`, and the terms are the product's.
        #[target_feature(enable = $feature)]
        unsafe fn add_terms(product: &CheckedProduct<'_>, out: *mut f32, terms: Range<usize>, accumulate: bool, packed: &mut [f32]) {
            const STEP: usize = VECTORS * LANES;
            const { assert!(TILES.len() < LANES && TILES.len() * DEPTH <= L2_FLOATS, "tiles of the left factor have room") };
            let (left, packed) = packed.split_at_mut(L2_FLOATS + LANES);
            let most = packed.len() / terms.len() / STEP * STEP;
            for first in (0..product.columns).step_by(most) {
                let columns = first..(first + most).min(product.columns);
                // SAFETY: the columns are a part of the product's; the caller guarantees the rest.
                unsafe {
                    Part { product, out, terms: terms.clone(), columns, accumulate, packed: packed.as_mut_ptr(), packed_left: left.as_mut_ptr() }.add();
                }
            }
        }

        /// The part of a product that belongs to some terms and some columns: so many that the packed right factor fits
        /// its memory.
        struct Part<'p, 'a> {
            product: &'p CheckedProduct<'a>,
            out: *mut f32,
            terms: Range<usize>,
            columns: Range<usize>,
            accumulate: bool,
            /// Memory for panels of the right factor.
            packed: *mut f32,
            /// Memory for rows of the left factor.
            packed_left: *mut f32,
        }

        impl Part<'_, '_> {
            /// Adds this part of the product. Panels stay in the first- and second-level cache while all tiles of some
            /// rows use them. If the rows are too many for that cache, all panels are packed before the first rows.
            ///
            /// # Safety
            /// The processor has the instructions, and matrices and panels lie within their slices.
            #[target_feature(enable = $feature)]
            unsafe fn add(&self) {
                let depth = self.terms.len();
                let vectors = self.columns.len().div_ceil(LANES);
                let (panels, tiles) = (vectors.div_ceil(VECTORS), self.tiles());
                let at_once = match depth * vectors * LANES <= L2_FLOATS {
                    true => 1,
                    false => (L2_FLOATS / depth / TILES.len()).max(1),
                };
                let used_once = at_once >= tiles;
                let place = |panel: usize| if used_once { 0 } else { self.panel(panel).0 * depth };
                // SAFETY: the caller guarantees it. Each panel has a separate place, or all share the first one.
                unsafe {
                    if !used_once {
                        self.pack(0..panels, place);
                    }
                    for first in (0..tiles).step_by(at_once) {
                        let some = first..(first + at_once).min(tiles);
                        self.pack_left(some.clone());
                        for panel in 0..panels {
                            if used_once {
                                self.pack(panel..panel + 1, place);
                            }
                            for tile in some.clone() {
                                self.add_tile(tile, tile - first, panel, place(panel));
                            }
                        }
                    }
                }
            }

            fn tiles(&self) -> usize {
                self.product.rows.div_ceil(TILES.len())
            }

            /// Returns the first row of tile `tile` and its number of rows; rows are divided evenly among tiles.
            fn tile(&self, tile: usize) -> (usize, usize) {
                let of = |tile: usize| tile * self.product.rows / self.tiles();
                (of(tile), of(tile + 1) - of(tile))
            }

            fn panel(&self, panel: usize) -> (usize, usize) {
                panel_of(panel, self.columns.len())
            }

            /// # Safety
            /// As for `add`, and there is room for each panel at its place.
            #[target_feature(enable = $feature)]
            unsafe fn pack(&self, panels: Range<usize>, place: impl Fn(usize) -> usize + Clone) {
                let (b, depth) = (&self.product.b, self.terms.len());
                let panels = panels.map(|panel| {
                    let (first, width) = self.panel(panel);
                    (first, width, self.packed.wrapping_add(place(panel)))
                });
                // SAFETY: the right factor has these terms and columns; the caller guarantees the room.
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

            /// Returns whether rows of the left factor are packed. If a tile's columns are contiguous, each of its
            /// terms is in a different cache line, and with many terms the lines leave the first-level cache before the
            /// next panel needs them.
            fn packs_left(&self) -> bool {
                self.product.a.row_stride == 1 && self.terms.len() >= MANY_TERMS
            }

            /// Returns the address of row `top` of the left factor, at the first of these terms.
            ///
            /// # Safety
            /// The left factor has row `top`.
            unsafe fn left(&self, top: usize) -> *const f32 {
                let a = &self.product.a;
                // SAFETY: the caller guarantees the row; the left factor has these terms.
                unsafe { a.values.as_ptr().add(top * a.row_stride + self.terms.start * a.column_stride) }
            }

            /// Packs the rows of some tiles, one tile after the other, if that is faster.
            ///
            /// # Safety
            /// As for `add`, and there is room for these tiles.
            #[target_feature(enable = $feature)]
            unsafe fn pack_left(&self, some: Range<usize>) {
                if !self.packs_left() {
                    return;
                }
                for (nth, tile) in some.enumerate() {
                    let (top, count) = self.tile(tile);
                    // SAFETY: the left factor has these rows and terms; the caller guarantees the room.
                    unsafe { pack_tile(self.left(top), self.product.a.column_stride, self.terms.len(), count, self.left_place(nth)) };
                }
            }

            fn left_place(&self, nth: usize) -> *mut f32 {
                self.packed_left.wrapping_add(nth * self.terms.len() * TILES.len())
            }

            /// # Safety
            /// As for `add`; the panel was packed to `place`, and the rows of the tile, if packed, to the `nth` place.
            #[target_feature(enable = $feature)]
            unsafe fn add_tile(&self, tile: usize, nth: usize, panel: usize, place: usize) {
                let &CheckedProduct { out_stride, a, .. } = self.product;
                let (first, width) = self.panel(panel);
                let (top, count) = self.tile(tile);
                // SAFETY: the left factor has these rows and terms, the result these rows and columns.
                unsafe {
                    let (left, column_stride) = match self.packs_left() {
                        true => (self.left_place(nth).cast_const(), count),
                        false => (self.left(top), a.column_stride),
                    };
                    let operands = Operands {
                        depth: self.terms.len(),
                        left,
                        row_stride: a.row_stride,
                        column_stride,
                        panel: self.packed.add(place),
                        out: self.out.add(top * out_stride + self.columns.start + first),
                        out_stride,
                        mask: mask(width),
                        whole: width.is_multiple_of(LANES),
                        accumulate: self.accumulate,
                    };
                    TILES[count - 1][width.div_ceil(LANES) - 1](operands);
                }
            }
        }
    };
}

/// Returns the tile functions of a number of rows.
macro_rules! tiles_of {
    ($r:literal [$($v:literal)*]) => { [$(tile::<$r, $v>),*] };
}

pub(super) use {blocks, tiles_of};
