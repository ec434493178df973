"""open.py WHEEL: opens the extension in a Python that is too old for the package.

The system's linker checks the versions of the C library's symbols before it binds names, of which this Python lacks
those that are newer.
"""

import ctypes
import sys
import zipfile

zipfile.ZipFile(sys.argv[1]).extract("pbg_host/_native.abi3.so", "/tmp")
try:
    ctypes.CDLL("/tmp/pbg_host/_native.abi3.so")
except OSError as error:
    if not any(f"undefined symbol: {name}" in str(error) for name in ("Py", "_Py")):
        raise
print("the C library has what the extension needs; this Python is older than the package supports")
