"""Who a plugin is and which parameters it takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Sequence


@dataclass
class Parameter:
    """One parameter. The host checks a configuration against it before the plugin sees a value.

    `kind` is one of "boolean", "integer", "number", "text" and "choice"; the class methods below
    are the way to make one. Bounds are included.
    """

    name: str
    doc: str
    kind: str
    default: Any
    minimum: Optional[float] = None
    maximum: Optional[float] = None
    options: List[str] = field(default_factory=list)

    @classmethod
    def boolean(cls, name: str, default: bool, doc: str) -> Parameter:
        """True or false."""
        return cls(name, doc, "boolean", bool(default))

    @classmethod
    def integer(
        cls,
        name: str,
        default: int,
        doc: str,
        minimum: Optional[int] = None,
        maximum: Optional[int] = None,
    ) -> Parameter:
        """A whole number."""
        return cls(name, doc, "integer", default, minimum, maximum)

    @classmethod
    def number(
        cls,
        name: str,
        default: float,
        doc: str,
        minimum: Optional[float] = None,
        maximum: Optional[float] = None,
    ) -> Parameter:
        """A finite number."""
        return cls(name, doc, "number", float(default), minimum, maximum)

    @classmethod
    def text(cls, name: str, default: str, doc: str) -> Parameter:
        """Any text."""
        return cls(name, doc, "text", default)

    @classmethod
    def choice(cls, name: str, options: Sequence[str], doc: str) -> Parameter:
        """One of several words; the first is the default."""
        return cls(name, doc, "choice", options[0], options=list(options))


@dataclass
class Metadata:
    """Name, version, summary (one sentence) and parameters of a plugin; `fallback` names the one
    that goes on where this one fails."""

    name: str
    version: str
    summary: str
    parameters: List[Parameter] = field(default_factory=list)
    fallback: Optional[str] = None

    def defaults(self) -> Dict[str, Any]:
        """The parameters that a plugin gets where a configuration sets nothing."""
        return {p.name: p.default for p in self.parameters}
