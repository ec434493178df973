//! Counts of function bodies that determine how long they take to compile.

use wasmparser::{FunctionBody, Operator};

use super::cap;
use crate::fault::invalid_component;

/// Counts of all functions so far.
#[derive(Default)]
pub(super) struct FunctionCounter {
    locals: u64,
}

impl FunctionCounter {
    pub(super) fn add(&mut self, body: &FunctionBody<'_>) -> Result<(), String> {
        cap::FUNCTION_BYTES.check(body.range().len() as u64)?;
        let mut own = 0;
        for locals in body.get_locals_reader().map_err(invalid_component)? {
            let (count, _) = locals.map_err(invalid_component)?;
            own += u64::from(count);
        }
        cap::FUNCTION_LOCALS.check(own)?;
        self.locals += own;
        cap::LOCALS.check(self.locals)?;
        cap::NESTING.check(nesting(body))
    }
}

/// Returns the largest nesting depth of blocks. Counting stops at an instruction that cannot be read: the compiler
/// rejects the function there, too.
fn nesting(body: &FunctionBody<'_>) -> u64 {
    let (mut depth, mut deepest) = (0_u64, 0);
    let Ok(operators) = body.get_operators_reader() else {
        return 0;
    };
    for operator in operators {
        match operator {
            Ok(
                Operator::Block { .. }
                | Operator::Loop { .. }
                | Operator::If { .. }
                | Operator::TryTable { .. },
            ) => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            // The last `end` closes the function itself.
            Ok(Operator::End) => depth = depth.saturating_sub(1),
            Ok(_) => {}
            Err(_) => break,
        }
    }
    deepest
}
