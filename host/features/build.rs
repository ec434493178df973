//! Nothing: Cargo looks at dependencies of build scripts only where there is one.

fn main() {}
