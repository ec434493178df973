"""Configurations of PyTorch-BigGraph, read as data: docs/pbg-keys.md lists every key."""

from __future__ import annotations

import ast
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ._config import Config
from .errors import ConfigError, _warn

_FUNCTION = "get_torchbiggraph_config"

_SAME = (
    "dimension init_scale max_norm global_emb comparator bias loss_fn margin regularization_coef regularizer num_epochs "
    "num_edge_chunks bucket_order workers batch_size num_batch_negs num_uniform_negs disable_lhs_negs disable_rhs_negs "
    "lr relation_lr eval_fraction eval_num_batch_negs eval_num_uniform_negs dynamic_relations"
).split()
"""Keys with the same name and meaning in both."""

_WITHOUT = (
    "entities relations entity_path edge_paths checkpoint_path verbose background_io hogwild_delay num_gpus "
    "num_machines num_partition_servers distributed_init_method distributed_tree_init_order "
    "num_groups_for_partition_server num_groups_per_sharded_partition_server partition_shard_size "
    "checkpoint_preservation_interval init_path half_precision max_edges_per_chunk"
).split()
"""Keys of PBG that are set elsewhere, or that the host decides."""

_WORDS = ("comparator", "loss_fn", "regularizer", "bucket_order")


def read_config(path: str | os.PathLike[str], /) -> dict[str, Any]:
    """Returns the dictionary that `get_torchbiggraph_config` of a Python file returns. The file is read as data:
    nothing in it is run. It may use literals, names assigned to literals, sums and products of these, lists,
    dictionaries, `dict(...)` and f-strings. For anything else, raises `ConfigError` with the line."""
    file = Path(path)
    try:
        tree = ast.parse(file.read_text(), str(file))
    except (OSError, SyntaxError) as error:
        raise ConfigError(f"{file}: {error}") from None
    names: dict[str, Any] = {}
    body: list[ast.stmt] = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == _FUNCTION:
            body = node.body
        elif isinstance(node, ast.Assign):
            _assign(node, names, file, strict=False)
    for node in body:
        if isinstance(node, ast.Assign):
            _assign(node, names, file, strict=True)
        elif isinstance(node, ast.Return) and node.value is not None:
            found = _value(node.value, names, file)
            if not isinstance(found, dict):
                break
            return found
    raise ConfigError(f"{file}: {_FUNCTION} returns no dictionary that can be read as data")


def _assign(node: ast.Assign, names: dict[str, Any], file: Path, *, strict: bool) -> None:
    try:
        value = _value(node.value, names, file)
    except ConfigError:
        # Values that the configuration does not use may be anything.
        if strict:
            raise
        return
    for target in node.targets:
        if isinstance(target, ast.Name):
            names[target.id] = value
        elif isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
            names[target.value.id][_value(target.slice, names, file)] = value


def _value(node: ast.expr, names: Mapping[str, Any], file: Path) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name) and node.id in names:
        return names[node.id]
    if isinstance(node, (ast.List, ast.Tuple)):
        return [_value(item, names, file) for item in node.elts]
    if isinstance(node, ast.Dict) and all(key is not None for key in node.keys):
        keys = [_value(key, names, file) for key in node.keys if key is not None]
        return dict(zip(keys, (_value(value, names, file) for value in node.values)))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
        if not node.args and all(keyword.arg for keyword in node.keywords):
            return {str(k.arg): _value(k.value, names, file) for k in node.keywords}
    if isinstance(node, ast.JoinedStr):
        parts = (
            str(_value(part.value if isinstance(part, ast.FormattedValue) else part, names, file))
            for part in node.values
        )
        return "".join(parts)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, names, file)
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mult, ast.Sub, ast.Div)):
        left, right = _value(node.left, names, file), _value(node.right, names, file)
        numbers = isinstance(left, (int, float)) and isinstance(right, (int, float))
        if numbers and isinstance(node.op, ast.Mult):
            return left * right
        if numbers and isinstance(node.op, ast.Sub):
            return left - right
        if numbers and isinstance(node.op, ast.Div):
            return left / right
        if isinstance(node.op, ast.Add) and (numbers or type(left) is type(right)):
            return left + right
    raise ConfigError(f"{file}, line {node.lineno}: `{ast.unparse(node)}` cannot be read as data, and is not run")


_OF_ENTITIES = ("num_partitions", "dimension", "featurized")
"""Keys of entity types with the same name and meaning in both."""

_OPERATORS = ("none", "diagonal", "translation", "linear", "affine", "complex_diagonal")


def ours_of(theirs: Mapping[str, Any]) -> dict[str, Any]:
    """Converts a configuration of PBG to our keys, without paths. Keys without a counterpart are listed in a
    warning."""
    values: dict[str, Any] = {}
    for key in _SAME:
        if (value := theirs.get(key)) is not None:
            values[key] = value.lower() if key in _WORDS else value
    if theirs.get("half_precision"):
        values["execution"] = {"precision": "bf16"}
    values["entities"] = {
        name: {key: about[key] for key in _OF_ENTITIES if key in about}
        for name, about in theirs["entities"].items()
    }
    known = ("name", "lhs", "rhs", "operator", "weight", "all_negs")
    values["relations"] = [
        {key: about[key] for key in known if about.get(key) is not None} for about in theirs["relations"]
    ]
    if unknown := sorted(set(theirs) - set(_SAME) - set(_WITHOUT)):
        _warn(f"keys of PBG that have no counterpart are ignored: {', '.join(unknown)}")
    return values


def theirs_of(config: Config, relations: Sequence[str]) -> dict[str, Any]:
    """Converts our configuration to PBG's, without paths. Relations are in the order of their ids."""
    values = {key: config[key] for key in _SAME if config[key] is not None and key != "regularizer"}
    # PBG 1.0.0 has no regularizer, and rejects its keys.
    if coefficient := values.pop("regularization_coef", None):
        _warn(f"PBG 1.0.0 has no regularizer: regularization_coef = {coefficient:g} is omitted")
    if values.get("global_emb") is None:
        # Our default. PBG would add a global embedding to dynamic relations, too, and fail.
        values["global_emb"] = not config["dynamic_relations"]
    values["entities"] = {
        name: {key: about[key] for key in _OF_ENTITIES if about.get(key) not in (None, False)}
        for name, about in config["entities"].items()
    }
    if frozen := [name for name, about in config["entities"].items() if about.get("frozen")]:
        _warn(f"PBG trains the embeddings of all types: frozen is omitted for {', '.join(frozen)}")
    given = {about["name"]: about for about in config["relations"]}
    of = [config["relations"][0]] if config["dynamic_relations"] else [
        {**given.get(name, given.get("*", {})), "name": name} for name in relations
    ]
    for about in of:
        if about.get("operator", "none") not in _OPERATORS:
            raise ConfigError(
                f"relation {about['name']}: PBG has no operator {about['operator']}; only models with "
                f"{', '.join(_OPERATORS)} can be written for PBG"
            )
    values["relations"] = [
        {key: value for key, value in about.items() if value is not None and value is not False}
        for about in of
    ]
    return values
