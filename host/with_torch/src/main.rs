//! `pbg-host-torch`: `pbg-host` with libtorch, in whose place it goes on where a run needs that.

fn main() {
    pbg_torch::install();
    pbg_cli::main()
}
