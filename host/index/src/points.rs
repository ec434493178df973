//! Points of which graphs are built.

/// Points in a Euclidean space, row by row.
#[derive(Debug)]
pub struct Points {
    rows: Vec<f32>,
    width: usize,
}

impl Points {
    /// Creates points from rows of `width` coordinates.
    ///
    /// # Panics
    /// If `rows` is not a whole number of rows, or has more than 2^32 - 2 of them.
    #[must_use]
    pub fn new(rows: Vec<f32>, width: usize) -> Self {
        assert!(width > 0 && rows.len().is_multiple_of(width), "whole rows");
        assert!(rows.len() / width < u32::MAX as usize, "ids have 32 bits");
        Self { rows, width }
    }

    /// Returns the number of points.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len() / self.width
    }

    /// Returns whether there are no points.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the number of coordinates per point.
    #[must_use]
    pub const fn width(&self) -> usize {
        self.width
    }

    /// Returns the coordinates of point `id`.
    pub(crate) fn get(&self, id: u32) -> &[f32] {
        &self.rows[id as usize * self.width..][..self.width]
    }

    /// Returns the point nearest to the mean of all points, which becomes the entry point.
    pub(crate) fn medoid(&self) -> u32 {
        let mut mean = vec![0.0_f64; self.width];
        for row in self.rows.chunks_exact(self.width) {
            for (sum, &x) in mean.iter_mut().zip(row) {
                *sum += f64::from(x);
            }
        }
        let count = self.len().max(1) as f64;
        let distance = |row: &[f32]| -> f64 {
            let pairs = mean.iter().zip(row);
            pairs
                .map(|(sum, &x)| (sum / count - f64::from(x)).powi(2))
                .sum()
        };
        let rows = self.rows.chunks_exact(self.width).map(distance);
        let nearest = (0..).zip(rows).min_by(|a, b| a.1.total_cmp(&b.1));
        nearest.map_or(0, |(id, _)| id)
    }
}
