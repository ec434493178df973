"""Name, version and parameters of a plugin."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Sequence


@dataclass
class Parameter:
    """Declaration of a parameter. The host checks values against it before the plugin sees them.

    `kind` is one of "boolean", "integer", "number", "text" and "choice"; the class methods below
    create parameters. Bounds are included.
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
        """Declares a boolean."""
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
        """Declares a whole number."""
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
        """Declares a finite number."""
        return cls(name, doc, "number", float(default), minimum, maximum)

    @classmethod
    def text(cls, name: str, default: str, doc: str) -> Parameter:
        """Declares a text."""
        return cls(name, doc, "text", default)

    @classmethod
    def choice(cls, name: str, options: Sequence[str], doc: str) -> Parameter:
        """Declares a choice of options; the first is the default."""
        return cls(name, doc, "choice", options[0], options=list(options))


@dataclass
class Metadata:
    """Name, version, summary (one sentence) and parameters of a plugin; `fallback` names the plugin
    that replaces it if it fails."""

    name: str
    version: str
    summary: str
    parameters: List[Parameter] = field(default_factory=list)
    fallback: Optional[str] = None

    def defaults(self) -> Dict[str, Any]:
        """Returns the parameters that a plugin gets if the configuration sets none."""
        return {p.name: p.default for p in self.parameters}
