"""Writes the C++ source of a bridge to libtorch: the functions of torch-sys that the program calls.

Arguments: the folder `libtch` of torch-sys, and the Rust file that lists the functions.
"""

import re
import sys
from pathlib import Path

# Functions that others of torch-sys call.
HELPERS = {"at_value_at_indexes", "device_of_int", "of_carray_tensor"}

HEAD = """// Templates of GCC's C++ library are compiled into the bridge, since older versions of the library lack some.
#if __has_include(<bits/c++config.h>)
#include <bits/c++config.h>
#undef _GLIBCXX_EXTERN_TEMPLATE
#define _GLIBCXX_EXTERN_TEMPLATE 0
#endif
#include "torch_api_generated.h"
#include <vector>

using namespace std;

// Symbols that the C library has since version 2.32 only.
extern "C" __attribute__((visibility("hidden"))) char __libc_single_threaded = 0;

thread_local char *torch_last_err = nullptr;

at::Device device_of_int(int d);
vector<torch::Tensor> of_carray_tensor(torch::Tensor **vs, int len);
"""


def definitions(text: str) -> dict[str, str]:
    """Returns the functions that a source defines, by name. Each begins at the first column and ends with a closing
    brace there, or on its only line."""
    found: dict[str, str] = {}
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        start = at
        at += 1
        named = re.match(r"[A-Za-z_].*?\b(\w+)\(", lines[start])
        if named is None or lines[start].startswith(("using", "typedef", "extern", "template")):
            continue
        end = start
        while end + 1 < len(lines) and lines[end] != "}" and not (
            end == start and lines[end].rstrip().endswith(("}", ";"))
        ):
            end += 1
        at = end + 1
        first = start - 1 if start > 0 and lines[start - 1].startswith("template") else start
        found[named.group(1)] = "\n".join(lines[first:at])
    return found


def main() -> None:
    """Writes the source of a bridge with the listed functions of torch-sys."""
    folder, listed = map(Path, sys.argv[1:])
    names = re.findall(r"^    (\w+)$", listed.read_text(), re.MULTILINE)
    known: dict[str, str] = {}
    for name in ("torch_api.cpp", "torch_api_generated.cpp"):
        known.update(definitions((folder / name).read_text()))
    if missing := sorted(set(names) - known.keys()):
        sys.exit(f"torch-sys has no {', '.join(missing)}")
    wanted = HELPERS | set(names)
    chosen = [text for name, text in known.items() if name in wanted]
    print("\n\n".join([HEAD, *chosen]))


main()
