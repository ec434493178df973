//! The program `pbg-host`, which is linked without libtorch so that it starts quickly.

fn main() {
    pbg_cli::main()
}
