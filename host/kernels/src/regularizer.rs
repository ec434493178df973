//! N3: cubed absolute values, or moduli of complex numbers (Lacroix, Usunier, Obozinski 2018).

/// N3 of one row of numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct N3 {
    /// Strength.
    pub(crate) coefficient: f32,
    /// Rows are a half of real parts and a half of imaginary parts.
    pub(crate) complex: bool,
}

impl N3 {
    /// `coefficient * sum |x|^3`, whose gradient is added to `gradient`.
    pub(crate) fn add(self, row: &[f32], gradient: &mut [f32]) -> f64 {
        let mut sum = 0.0_f32;
        let factor = 3.0 * self.coefficient;
        if self.complex {
            let half = row.len() / 2;
            let (re, im) = row.split_at(half);
            let (re_gradient, im_gradient) = gradient.split_at_mut(half);
            for i in 0..half {
                let square = re[i] * re[i] + im[i] * im[i];
                let modulus = square.sqrt();
                sum += square * modulus;
                re_gradient[i] += factor * modulus * re[i];
                im_gradient[i] += factor * modulus * im[i];
            }
        } else {
            for (&x, g) in row.iter().zip(gradient) {
                sum += x * x * x.abs();
                *g += factor * x.abs() * x;
            }
        }
        f64::from(self.coefficient) * f64::from(sum)
    }
}
