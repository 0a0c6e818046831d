"""What the source says about declared types and their keys: help, docs and schemas are made from it and can't drift."""

from __future__ import annotations

import ast
import inspect
import sys
from functools import cache
from itertools import pairwise


def meanings(declared: type) -> dict[str, str]:
    """Return what each key means: the string below it in the source, on one line; keys without one are left out."""
    found: dict[str, str] = {}
    for base in reversed(declared.__mro__):
        if base.__module__.startswith("contracts."):
            found |= _module(base.__module__).get(base.__name__, {})
    return found


@cache
def _module(name: str) -> dict[str, dict[str, str]]:
    """Return the meanings of all classes of a module."""
    tree = ast.parse(inspect.getsource(sys.modules[name]))
    return {node.name: _class(node) for node in tree.body if isinstance(node, ast.ClassDef)}


def _class(node: ast.ClassDef) -> dict[str, str]:
    found = {}
    for key, below in pairwise(node.body):
        if not isinstance(below, ast.Expr) or not isinstance(below.value, ast.Constant):
            continue
        match key:
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                found[name] = " ".join(str(below.value.value).split())
    return found
