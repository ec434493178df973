"""Configurations."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Union

from . import _native
from ._formulas import read_with_formulas
from ._load import as_json
from .errors import UsageError

ConfigLike = Union["Config", str, "os.PathLike[str]", Mapping[str, Any]]
"""Argument that names a configuration: a `Config`, the path of a TOML file or of a checkpoint's folder, or a
dictionary. `None` means `pbg.toml` in the working folder."""


class Config(Mapping[str, Any]):
    """A configuration that was read and checked.

    `source` is the path of a TOML file, the folder of a checkpoint (for the configuration that trained it), a
    dictionary, or another configuration. `keys` change it, as `--set` does on the command line: dictionaries change
    only the keys that they contain, lists replace the old value, `None` unsets a key.

        Config("pbg.toml", num_epochs=10, execution={"precision": "bf16"})
        Config("pbg.toml", **{"entities.user.num_partitions": 4})
        Config(Config.preset("complex"), dataset="data", checkpoint_path="model")

    Without `source`, keys that include `entities` form a complete configuration; other keys change `pbg.toml` in the
    working folder. Paths in a file are relative to that file, all others to the working folder. docs/config.md
    documents every key. The operator of a relation may be one of `pbg_host.operator`, and `comparator` one of
    `pbg_host.comparator`, whose formulas become part of the configuration.

    Raises `ConfigError` with all errors of the configuration.
    """

    def __init__(self, source: ConfigLike | None = None, /, **keys: Any) -> None:
        self._native = _read(source, keys)
        self._values: dict[str, Any] = json.loads(self._native.to_json())

    @classmethod
    def _of(cls, native: _native.Config) -> Config:
        config = cls.__new__(cls)
        config._native = native
        config._values = json.loads(native.to_json())
        return config

    @classmethod
    def trained(
        cls,
        source: ConfigLike | None = None,
        /,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        best: bool = False,
        **keys: Any,
    ) -> Config:
        """Returns the configuration of a trained model: keys that `source` does not set have the values of its
        training. `checkpoint` replaces its `checkpoint_path`, or is the source if there is no other. With `best` it is
        the model that was best in validation, which early stopping keeps, not the last one of the run."""
        if source is None or isinstance(source, (str, os.PathLike)):
            alone = _are_alone(source, keys)
            return cls._of(
                read_with_formulas(
                    keys,
                    lambda values: _native.Config.trained(
                        source, checkpoint, best, as_json(values), alone
                    ),
                )
            )
        merged = _merged(source, keys)
        if checkpoint is not None:
            merged["checkpoint_path"] = os.fspath(checkpoint)
        return cls._of(
            read_with_formulas(
                merged, lambda values: _native.Config.trained(None, None, best, as_json(values), True)
            )
        )

    @staticmethod
    def preset(name: str) -> dict[str, Any]:
        """Returns the keys of a well-known model, with values that work well on real graphs: `complex`, `distmult`,
        `transe`, `rotate`, `small` (for graphs of at most some thousand entities) or `pbg`. Change the paths and
        partitions to yours."""
        return dict(Config._of(_native.Config.from_toml(_native.Config.preset(name))))

    def to_toml(self) -> str:
        """Returns the configuration as a TOML file, with every key."""
        return self._native.to_toml()

    def to_dict(self) -> dict[str, Any]:
        """Returns a copy of the values."""
        values: dict[str, Any] = json.loads(self._native.to_json())
        return values

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return _unpickled, (self.to_toml(),)

    def __repr__(self) -> str:
        dataset, checkpoint = self["dataset"], self["checkpoint_path"]
        return f"<pbg_host.Config of {dataset!r}, {checkpoint!r}>"


def _read(
    source: ConfigLike | None, keys: dict[str, Any], given: bool = False
) -> _native.Config:
    if source is None or isinstance(source, (str, os.PathLike)):
        alone = _are_alone(source, keys)
        return read_with_formulas(
            keys, lambda values: _native.Config.read(source, as_json(values), alone, given)
        )
    if isinstance(source, Config) and not keys:
        return source._native
    return read_with_formulas(
        _merged(source, keys),
        lambda values: _native.Config.read(None, as_json(values), True, given),
    )


def _are_alone(source: object, keys: Mapping[str, Any]) -> bool:
    """Returns whether `keys` form a complete configuration. Otherwise, without a source, they change that of the
    working folder."""
    return source is None and any(key.partition(".")[0] == "entities" for key in keys)


def _unpickled(text: str) -> Config:
    return Config._of(_native.Config.from_toml(text))


def _merged(source: Mapping[str, Any], keys: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `source` with `keys` changed, tables key by key."""
    if not isinstance(source, Mapping):
        raise UsageError(
            "a configuration must be the path of a file, the folder of a checkpoint, a dictionary or a pbg_host.Config, "
            f"not {source!r}"
        )
    merged = dict(source)
    for key, value in keys.items():
        key, *parts = key.split(".")
        for part in reversed(parts):
            value = {part: value}
        old = merged.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            value = _merged(old, value)
        merged[key] = value
    return merged


def config_of(
    source: ConfigLike | None, keys: dict[str, Any], given: Sequence[object] = ()
) -> Config:
    """Returns the configuration that a function's arguments name. `given` are plugins of a run: they may replace
    formulas, so the run checks whether parameters of plugins have an effect."""
    if isinstance(source, Config) and not keys:
        return source
    return Config._of(_read(source, keys, bool(given)))
