"""`_native` with libtorch: the same functions."""

from ._native import *
