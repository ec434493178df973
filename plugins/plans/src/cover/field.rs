//! Finite fields of prime-power order, and the lines of affine spaces over them.

/// Finite field of `order` elements, represented by the numbers below `order`; 0 and 1 are the neutral elements.
#[derive(Clone, Debug)]
pub(super) struct Field {
    order: usize,
    characteristic: usize,
    /// Powers of the generator, by exponent.
    exp: Vec<usize>,
    /// Exponent of each element; the entry of 0 is not used.
    log: Vec<usize>,
}

impl Field {
    /// Constructs the field; `None` if `order` is not a prime power.
    pub(super) fn new(order: usize) -> Option<Self> {
        let characteristic = (2..=order).find(|p| order.is_multiple_of(*p))?;
        let degree = order.ilog(characteristic);
        if characteristic.pow(degree) != order {
            return None;
        }
        // Elements are polynomials over the prime field, whose coefficients are the digits of the
        // number. A polynomial `x^degree = tail` is primitive if the powers of x are all elements
        // except 0. For degree 1, the generator `tail` is a number and takes the role of x.
        (1..order).find_map(|tail| {
            let next = |power: usize| match degree {
                1 => power * tail % order,
                _ => times_x(power, tail, characteristic, order),
            };
            let mut exp = vec![1];
            while let Some(&power) = exp.last()
                && next(power) != 1
                && exp.len() < order
            {
                exp.push(next(power));
            }
            if exp.len() != order - 1 {
                return None;
            }
            let mut log = vec![0; order];
            for (exponent, &power) in exp.iter().enumerate() {
                log[power] = exponent;
            }
            Some(Self {
                order,
                characteristic,
                exp,
                log,
            })
        })
    }

    pub(super) const fn order(&self) -> usize {
        self.order
    }

    pub(super) fn add(&self, a: usize, b: usize) -> usize {
        add_digits(a, b, self.characteristic)
    }

    pub(super) fn multiply(&self, a: usize, b: usize) -> usize {
        if a == 0 || b == 0 {
            return 0;
        }
        self.power(self.log[a] + self.log[b])
    }

    /// Returns a power of the generator.
    pub(super) fn power(&self, exponent: usize) -> usize {
        self.exp[exponent % (self.order - 1)]
    }

    /// Returns the exponent of an element other than 0.
    pub(super) fn exponent(&self, element: usize) -> usize {
        self.log[element]
    }
}

/// Adds two polynomials, digit by digit without carry.
fn add_digits(mut a: usize, mut b: usize, characteristic: usize) -> usize {
    let (mut sum, mut unit) = (0, 1);
    while a > 0 || b > 0 {
        sum += (a % characteristic + b % characteristic) % characteristic * unit;
        unit *= characteristic;
        a /= characteristic;
        b /= characteristic;
    }
    sum
}

/// Multiplies `power` by x, where `x^degree = tail`.
fn times_x(power: usize, tail: usize, characteristic: usize, order: usize) -> usize {
    let top = power * characteristic / order;
    let shifted = power * characteristic % order;
    (0..top).fold(shifted, |sum, _| add_digits(sum, tail, characteristic))
}

/// Returns the lines of the affine space of `dimension` over `field`, grouped by direction. The lines
/// of one direction contain every point once, and any two points are on exactly one line. A point is a
/// number whose digits to base `field.order()` are its coordinates.
pub(super) fn lines(field: &Field, dimension: u32) -> Vec<Vec<Vec<usize>>> {
    let base = field.order();
    let points = base.pow(dimension);
    let directions = (1..points).filter(|&point| leading_digit(point, base) == 1);
    directions
        .map(|direction| {
            let mut met = vec![false; points];
            let mut parallel = Vec::with_capacity(points / base);
            for start in 0..points {
                if met[start] {
                    continue;
                }
                let line: Vec<usize> = (0..base)
                    .map(|factor| along(field, start, direction, factor))
                    .collect();
                line.iter().for_each(|&point| met[point] = true);
                parallel.push(line);
            }
            parallel
        })
        .collect()
}

fn leading_digit(mut point: usize, base: usize) -> usize {
    while point >= base {
        point /= base;
    }
    point
}

/// Computes `start + factor · direction`, coordinate by coordinate.
fn along(field: &Field, mut start: usize, mut direction: usize, factor: usize) -> usize {
    let base = field.order();
    let (mut point, mut unit) = (0, 1);
    while start > 0 || direction > 0 {
        let step = field.multiply(direction % base, factor);
        point += field.add(start % base, step) * unit;
        unit *= base;
        start /= base;
        direction /= base;
    }
    point
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prime_powers_have_fields() {
        let orders: Vec<usize> = (0..50).filter(|&q| Field::new(q).is_some()).collect();
        let expected = [
            2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 19, 23, 25, 27, 29, 31, 32, 37, 41, 43, 47, 49,
        ];
        assert_eq!(orders, expected);
    }

    #[test]
    fn the_laws_hold() {
        for field in [2, 3, 4, 5, 7, 8, 9, 16, 25, 27]
            .map(Field::new)
            .into_iter()
            .flatten()
        {
            let q = field.order();
            for a in 0..q {
                assert_eq!((field.add(a, 0), field.multiply(a, 1)), (a, a));
                assert!((0..q).any(|b| field.add(a, b) == 0));
                assert!(a == 0 || (0..q).any(|b| field.multiply(a, b) == 1));
                for (b, c) in (0..q).flat_map(|b| (0..q).map(move |c| (b, c))) {
                    assert_eq!(field.add(a, b), field.add(b, a));
                    assert_eq!(field.add(field.add(a, b), c), field.add(a, field.add(b, c)));
                    let product = field.multiply(a, field.add(b, c));
                    assert_eq!(
                        product,
                        field.add(field.multiply(a, b), field.multiply(a, c))
                    );
                }
            }
        }
    }

    #[test]
    fn any_two_points_lie_on_one_line() {
        for (q, dimension) in [
            (2, 3),
            (3, 2),
            (3, 3),
            (4, 2),
            (4, 3),
            (5, 2),
            (8, 2),
            (9, 2),
        ] {
            let field = Field::new(q).expect("a prime power");
            let points = q.pow(dimension);
            let rounds = lines(&field, dimension);
            assert_eq!(rounds.len(), (points - 1) / (q - 1));
            let mut meetings = vec![0; points * points];
            for line in rounds.iter().flatten() {
                for (&a, &b) in line.iter().flat_map(|a| line.iter().map(move |b| (a, b))) {
                    meetings[a * points + b] += 1;
                }
            }
            for (at, &count) in meetings.iter().enumerate() {
                let expected = if at / points == at % points {
                    rounds.len()
                } else {
                    1
                };
                assert_eq!(count, expected, "q={q} k={dimension}");
            }
            assert!(rounds.iter().all(|round| round.len() == points / q));
        }
    }
}
