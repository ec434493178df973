//! Floating-point formats of the numbers in files.

/// Format of a number, with the least significant byte first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NumberFormat {
    F16,
    Bf16,
    F32,
    F64,
}

impl NumberFormat {
    /// Returns the bytes of a number.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::F16 | Self::Bf16 => 2,
            Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    /// Appends the numbers in `bytes` to `out`.
    pub(crate) fn decode(self, bytes: &[u8], out: &mut Vec<f32>) {
        match self {
            Self::F16 => out.extend(numbers(bytes).map(|n| half(u16::from_le_bytes(n)))),
            Self::Bf16 => {
                let numbers = numbers(bytes).map(u16::from_le_bytes);
                out.extend(numbers.map(|bits| f32::from_bits(u32::from(bits) << 16)));
            }
            Self::F32 => out.extend(numbers(bytes).map(f32::from_le_bytes)),
            Self::F64 => out.extend(numbers(bytes).map(|n| f64::from_le_bytes(n) as f32)),
        }
    }
}

fn numbers<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> + '_ {
    bytes.as_chunks::<N>().0.iter().copied()
}

/// Converts a number of IEEE 754's format binary16.
fn half(bits: u16) -> f32 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (
        i32::from(bits >> 10 & 0x1f),
        f32::from(bits & 0x3ff) / 1024.0,
    );
    sign * match exponent {
        0 => fraction * (-14_f32).exp2(),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1.0 + fraction) * ((exponent - 15) as f32).exp2(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(format: NumberFormat, bytes: &[u8]) -> Vec<f32> {
        let mut out = Vec::new();
        format.decode(bytes, &mut out);
        out
    }

    #[test]
    fn formats_are_decoded() {
        let halves = [0x3c00_u16, 0xc000, 0x7bff, 0x0001, 0x0400, 0x8000, 0x3555];
        let bytes: Vec<u8> = halves.iter().flat_map(|half| half.to_le_bytes()).collect();
        let expected = [
            1.0,
            -2.0,
            65504.0,
            5.960_464_5e-8,
            6.103_515_6e-5,
            -0.0,
            0.333_251_95,
        ];
        assert_eq!(decoded(NumberFormat::F16, &bytes), expected);
        assert!(decoded(NumberFormat::F16, &[0, 0x7c, 1, 0x7c])[1].is_nan());
        assert_eq!(
            decoded(NumberFormat::Bf16, &[0x80, 0x3f, 0x40, 0xc0]),
            [1.0, -3.0]
        );
        assert_eq!(decoded(NumberFormat::F64, &1.5_f64.to_le_bytes()), [1.5]);
        assert_eq!(decoded(NumberFormat::F32, &0.1_f32.to_le_bytes()), [0.1]);
    }
}
