"""No function keeps a reference to an error that passes through its frame.

A traceback refers to frames and a frame to its variables. A variable that holds the error makes a
cycle, which keeps the arrays of a run in memory until the garbage collector runs. It does not run
at the end of a command, and the kernels in the cycle are reported as leaked.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def kept_errors(tree: ast.AST) -> Iterator[int]:
    """The lines that raise a variable, or keep an error with its traceback in one."""
    for function in ast.walk(tree):
        if isinstance(function, FUNCTIONS):
            yield from _in_block(function.body, frozenset())


def _in_block(statements: list[ast.stmt], released: frozenset[str]) -> Iterator[int]:
    """``released`` are names that Python, or a ``finally``, deletes when the error passes."""
    for node in statements:
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            continue
        if isinstance(node, ast.Raise) and node.exc is not None:
            if _variables(node.exc) - released:
                yield node.lineno
        elif (
            isinstance(node, ast.Assign | ast.AnnAssign)
            and isinstance(node.value, ast.Name)
            and f"error {node.value.id}" in released
        ):
            # Of these names only that of a handler is certainly an error.
            yield node.lineno
        for name, block in ast.iter_fields(node):
            if name == "handlers":
                for handler in block:
                    yield from _in_block(handler.body, released | _of_handler(handler))
            elif isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                deleted = _deleted_names(node) if name == "body" else set()
                yield from _in_block(block, released | deleted)


def _of_handler(handler: ast.ExceptHandler) -> set[str]:
    return {handler.name, f"error {handler.name}"} if handler.name else set()


def _variables(raised: ast.expr) -> set[str]:
    """The variables in a raised expression; names of classes start with a capital letter."""
    if isinstance(raised, ast.Name):
        return set() if raised.id.lstrip("_")[:1].isupper() else {raised.id}
    if isinstance(raised, ast.Subscript):
        return {ast.unparse(raised)}
    if isinstance(raised, ast.IfExp):
        return _variables(raised.body) | _variables(raised.orelse)
    return set()


def _deleted_names(node: ast.stmt) -> set[str]:
    if not isinstance(node, ast.Try):
        return set()
    return {
        target.id
        for statement in node.finalbody
        if isinstance(statement, ast.Delete)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }


def test_no_function_keeps_an_error_that_it_raises() -> None:
    lines = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted((ROOT / "dbanon").rglob("*.py"))
        for line in kept_errors(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not lines


@pytest.mark.parametrize(
    "code",
    [
        "error = Refused()\nraise error",
        "for error in errors:\n    raise error from None",
        "raise errors[0]",
        "raise error if error else Refused()",
        "try:\n    f()\nexcept Refused as error:\n    refusal = error",
        "if refusal := f():\n    raise refusal",
    ],
)
def test_a_stored_error_is_detected(code: str) -> None:
    body = "\n".join(f"    {line}" for line in code.splitlines())
    assert list(kept_errors(ast.parse(f"def f(errors):\n{body}")))


@pytest.mark.parametrize(
    "code",
    [
        "raise Refused",
        "raise refusal()",
        "raise errors.pop()",
        "try:\n    f()\nexcept Refused as error:\n    raise error",
        "try:\n    f()\nexcept Refused as error:\n    refusal = error.with_traceback(None)",
        "error = Refused()\ntry:\n    raise error\nfinally:\n    del error",
    ],
)
def test_an_unreferenced_error_is_accepted(code: str) -> None:
    body = "\n".join(f"    {line}" for line in code.splitlines())
    assert not list(kept_errors(ast.parse(f"def f(errors):\n{body}")))
