"""What both scripts that run PyTorch-BigGraph 1.0.0 need."""

from typing import Optional

from torchbiggraph import schema

SETS = ("train", "valid", "test")


def tolerate_new_typing():
    """PBG compares types by identity, which newer versions of Python do not keep."""
    def unpack(type_):
        arguments = getattr(type_, "__args__", ())
        if not arguments or type_ != Optional[arguments[0]]:
            raise TypeError("Not an optional type")
        return arguments[0]

    schema.unpack_optional = unpack
