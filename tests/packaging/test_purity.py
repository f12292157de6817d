"""The scheduler's core decides from its arguments alone: no I/O, no clock, no randomness, no logging."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

# All that the core may import besides itself; import-linter forbids the rest by name, this list by default.
ALLOWED = {
    "__future__", "abc", "bisect", "collections", "contextlib", "dataclasses", "datetime", "enum", "functools",
    "hashlib", "heapq", "itertools", "json", "math", "operator", "typing",
}  # fmt: skip
# Calls that reach the clock, the outside or the identity of objects without any import.
FORBIDDEN_CALLS = {"now", "utcnow", "today", "open", "print", "input", "exec", "eval", "__import__", "id", "hash"}


def imported(tree: ast.AST) -> set[str]:
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return {name.split(".")[0] for name in names}


def called(tree: ast.AST) -> set[str]:
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return {c.id if isinstance(c, ast.Name) else c.attr for c in calls if isinstance(c, ast.Name | ast.Attribute)}


def core(packages: dict[str, Path]) -> dict[str, ast.AST]:
    return {path.name: ast.parse(path.read_text()) for path in packages["gang_scheduler"].rglob("*.py")}


def test_core_imports_only_what_is_pure(packages: dict[str, Path]) -> None:
    found = {name: imported(tree) - ALLOWED - {"gang_scheduler"} for name, tree in core(packages).items()}
    assert {name: names for name, names in found.items() if names} == {}


def test_core_calls_nothing_that_reads_the_clock_or_the_outside(packages: dict[str, Path]) -> None:
    found = {name: called(tree) & FORBIDDEN_CALLS for name, tree in core(packages).items()}
    assert {name: names for name, names in found.items() if names} == {}


@pytest.mark.parametrize("line", ["import os.path", "from time import monotonic", "import random as r"])
def test_an_impure_import_is_seen_when_there_is_one(line: str) -> None:
    assert imported(ast.parse(line)) - ALLOWED


def test_an_impure_call_is_seen_when_there_is_one() -> None:
    assert called(ast.parse("datetime.now(UTC)")) & FORBIDDEN_CALLS
