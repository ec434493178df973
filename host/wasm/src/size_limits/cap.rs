//! Bounds on the counts of a component, and the message about what is none. CPython, SpiderMonkey and QuickJS as components stay well below them.

/// Upper bound on one count of a component, with advice for exceeding it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SizeLimit {
    pub(crate) most: u64,
    pub(crate) what: &'static str,
    advice: &'static str,
}

const LEAVE_OUT: &str = "build it with optimisation for size, and leave out what it does not use";
const SPLIT: &str = "split the function up";
const NEST_LESS: &str = "make a component of one module, or of a few";

impl SizeLimit {
    const fn new(most: u64, what: &'static str, advice: &'static str) -> Self {
        Self { most, what, advice }
    }

    /// Returns an error if `count` exceeds the bound.
    pub(crate) fn check(self, count: u64) -> Result<(), String> {
        let Self { most, what, advice } = self;
        if count <= most {
            return Ok(());
        }
        Err(format!(
            "has more than {most} {what}, the limit for a plugin: {advice}"
        ))
    }
}

/// Modules and components, counted once per instantiation.
pub(crate) const INSTANCES: SizeLimit = SizeLimit::new(
    1000,
    "instances of modules and nested components",
    NEST_LESS,
);
/// Imports, exports, aliases, types and arguments between modules, counted once per instantiation.
pub(crate) const ITEMS: SizeLimit = SizeLimit::new(
    100_000,
    "imports, exports, types and aliases in its instances",
    NEST_LESS,
);
/// Functions, counted once per instantiation of their module.
pub(crate) const FUNCTIONS: SizeLimit =
    SizeLimit::new(40_000, "functions in its instances", LEAVE_OUT);
/// Globals, counted once per instantiation of their module.
pub(crate) const GLOBALS: SizeLimit = SizeLimit::new(50_000, "globals in its instances", LEAVE_OUT);
/// Entries of element segments, counted once per instantiation of their module.
pub(crate) const ELEMENTS: SizeLimit = SizeLimit::new(
    100_000,
    "entries of element segments in its instances",
    LEAVE_OUT,
);
/// Bytes of data segments, counted once per instantiation of their module.
pub(crate) const DATA: SizeLimit = SizeLimit::new(
    256 << 20,
    "bytes of data segments in its instances",
    LEAVE_OUT,
);
/// Size of one function. The time to compile a function grows faster than its size.
pub(crate) const FUNCTION_BYTES: SizeLimit =
    SizeLimit::new(512 << 10, "bytes in one function", SPLIT);
/// Locals of one function. The compiler keeps data for each of them in each block.
pub(crate) const FUNCTION_LOCALS: SizeLimit = SizeLimit::new(5000, "locals in one function", SPLIT);
/// Locals of all functions together.
pub(crate) const LOCALS: SizeLimit = SizeLimit::new(1_000_000, "locals", LEAVE_OUT);
/// Nesting depth of blocks, loops and branches.
pub(crate) const NESTING: SizeLimit = SizeLimit::new(2000, "blocks nested in each other", SPLIT);

/// All bounds, in the order of the documentation.
pub(crate) const ALL: [SizeLimit; 10] = [
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
