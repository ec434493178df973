//! The program `pbg-host`, which loads libtorch only where it is needed so that it starts quickly.

fn main() {
    pbg_cli::main()
}
