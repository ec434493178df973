//! How much there is to compile, before the compiler starts: it cannot be interrupted.

use wasmparser::{Parser, Payload};

/// Functions of all modules together. CPython and SpiderMonkey have about 13 000.
const FUNCTIONS: u64 = 40_000;
/// Bytes of one function: the time to compile it grows faster than they do. The largest of
/// CPython has 430 KiB.
const FUNCTION_BYTES: usize = 512 << 10;

/// Refuses what would keep the compiler busy for long.
pub(crate) fn check(bytes: &[u8]) -> Result<(), String> {
    let mut functions = 0;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(|error| format!("is no valid component: {error}"))? {
            Payload::CodeSectionStart { count, .. } => functions += u64::from(count),
            Payload::CodeSectionEntry(body) if body.range().len() > FUNCTION_BYTES => {
                return Err(format!(
                    "has a function of {} bytes, the most is {FUNCTION_BYTES}: split it up",
                    body.range().len()
                ));
            }
            _ => {}
        }
        if functions > FUNCTIONS {
            return Err(format!(
                "has more than {FUNCTIONS} functions, too many to compile: build it with \
                 optimisation for size, and leave out what it does not use"
            ));
        }
    }
    Ok(())
}
