//! `pbg-host`, which is linked without libtorch and so starts at once.

fn main() {
    pbg_cli::main()
}
