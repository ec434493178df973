//! Empty: Cargo considers dependencies of a build script only if one exists.

fn main() {}
