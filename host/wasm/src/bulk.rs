//! How much there is to compile and to instantiate, before either starts.
//!
//! Compilation has limits of its own where a child process does it (`compiler.rs`). Counting comes
//! first all the same: it costs next to nothing, it says what there is too much of, and it is all
//! that bounds what instances take where no code of the plugin runs.

mod code;
mod tree;

use wasmparser::{Parser, Payload};

use code::Code;
use tree::Tree;

/// One count of a component, the most that it may be, and what to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cap {
    pub(crate) most: u64,
    pub(crate) what: &'static str,
    advice: &'static str,
}

const LEAVE_OUT: &str = "build it with optimisation for size, and leave out what it does not use";
const SPLIT: &str = "split the function up";
const NEST_LESS: &str = "make a component of one module, or of a few";

impl Cap {
    const fn new(most: u64, what: &'static str, advice: &'static str) -> Self {
        Self { most, what, advice }
    }

    /// Refuses a count above the most.
    pub(crate) fn check(self, count: u64) -> Result<(), String> {
        let Self { most, what, advice } = self;
        if count <= most {
            return Ok(());
        }
        Err(format!(
            "has more than {most} {what}, the most of a plugin: {advice}"
        ))
    }
}

/// What a component may have. CPython, SpiderMonkey and QuickJS in a component stay well below.
pub(crate) mod cap {
    use super::{Cap, LEAVE_OUT, NEST_LESS, SPLIT};

    /// Of modules and components, each as often as it is instantiated.
    pub(crate) const INSTANCES: Cap = Cap::new(
        1000,
        "instances of modules and nested components",
        NEST_LESS,
    );
    /// Imports, exports, aliases, types and arguments between modules, as often as instantiated.
    pub(crate) const ITEMS: Cap = Cap::new(
        100_000,
        "imports, exports, types and aliases in its instances",
        NEST_LESS,
    );
    /// As often as their modules are instantiated.
    pub(crate) const FUNCTIONS: Cap = Cap::new(40_000, "functions in its instances", LEAVE_OUT);
    /// As often as their modules are instantiated.
    pub(crate) const GLOBALS: Cap = Cap::new(50_000, "globals in its instances", LEAVE_OUT);
    /// As often as their modules are instantiated.
    pub(crate) const ELEMENTS: Cap = Cap::new(
        100_000,
        "entries of element segments in its instances",
        LEAVE_OUT,
    );
    /// As often as their modules are instantiated.
    pub(crate) const DATA: Cap = Cap::new(
        256 << 20,
        "bytes of data segments in its instances",
        LEAVE_OUT,
    );
    /// The time to compile a function grows faster than its size.
    pub(crate) const FUNCTION_BYTES: Cap = Cap::new(512 << 10, "bytes in one function", SPLIT);
    /// The compiler holds something for each of them in each block.
    pub(crate) const FUNCTION_LOCALS: Cap = Cap::new(5000, "locals in one function", SPLIT);
    /// All functions together.
    pub(crate) const LOCALS: Cap = Cap::new(1_000_000, "locals", LEAVE_OUT);
    /// Blocks, loops and branches in each other.
    pub(crate) const NESTING: Cap = Cap::new(2000, "blocks nested in each other", SPLIT);

    /// All of them, as the documentation lists them.
    pub(crate) const ALL: [Cap; 10] = [
        INSTANCES,
        ITEMS,
        FUNCTIONS,
        GLOBALS,
        ELEMENTS,
        DATA,
        FUNCTION_BYTES,
        FUNCTION_LOCALS,
        LOCALS,
        NESTING,
    ];
}

/// Refuses what would keep the compiler or instantiation busy for long.
pub(crate) fn check(bytes: &[u8]) -> Result<(), String> {
    let (mut tree, mut code) = (Tree::default(), Code::default());
    for payload in Parser::new(0).parse_all(bytes) {
        let payload = payload.map_err(|error| invalid(&error))?;
        if let Payload::CodeSectionEntry(body) = &payload {
            code.add(body)?;
        }
        tree.add(&payload)?;
    }
    Ok(())
}

fn invalid(error: &wasmparser::BinaryReaderError) -> String {
    format!("is no valid component: {error}")
}
