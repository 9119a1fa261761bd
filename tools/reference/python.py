"""The page of the Python interface, made from the sources: signatures and docstrings of what `muster` offers."""

import ast
import inspect
import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from types import ModuleType

import muster
from tools.reference.markdown import render_text

_INTRODUCTION = """\
This page lists all public names of the Python package `muster`, each with its signature and its docstring.
[In Python](../python.md) explains how to use it, from the first job on."""
# In the order of a reader's interest; a test holds that no public name is missing.
_NAMES = ("run", "job", "simulate", "Job", "Executor", "Why", "JobState", "Error", "JobFailedError")
_MODULES = ("aio", "submitit", "joblib")


def render_python() -> list[str]:
    """Return the lines of the page."""
    lines = ["# Python interface", "", *_INTRODUCTION.splitlines(), ""]
    for name in _NAMES:
        value = getattr(muster, name)
        lines += _render_name(import_module(value.__module__), name, "muster", 2)
    for name in _MODULES:
        module = import_module(f"muster.{name}")
        lines += [f"## muster.{name}", "", *_render_docstring(inspect.getdoc(module) or "")]
        for inside in module.__all__:
            if inspect.isfunction(getattr(module, inside)) or inspect.isclass(getattr(module, inside)):
                lines += _render_name(module, inside, f"muster.{name}", 3)
    return lines


def list_names() -> set[str]:
    """Return the names and modules of `muster` that the page describes."""
    return {*_NAMES, *_MODULES}


def _render_name(module: ModuleType, name: str, prefix: str, depth: int) -> Iterator[str]:
    node = _find(ast.parse(inspect.getsource(module)).body, name)
    yield from (f"{'#' * depth} {prefix}.{name}", "")
    if not isinstance(node, ast.ClassDef):
        yield from _render_function(node, f"{prefix}.{name}")
        return
    constructor = _find(node.body, "__init__", optional=True)
    if isinstance(constructor, ast.FunctionDef) and not _is_hidden(name):
        yield from ("```python", f"{prefix}.{name}({_arguments(constructor)})", "```", "")
    yield from _render_docstring(ast.get_docstring(node) or "")
    for member in node.body:
        if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef) and not member.name.startswith("_"):
            yield from (f"{'#' * (depth + 1)} {name}.{member.name}", "")
            yield from _render_function(member, f"{name}.{member.name}")


def _is_hidden(name: str) -> bool:
    """Tell whether the constructor of a class is not for callers: jobs and errors are made by Muster."""
    return name in ("Job", "JobFailedError", "JobEnvironment")


def _render_function(node: ast.stmt | None, called: str) -> Iterator[str]:
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    # A forward reference is a name in quotes.
    returned = " -> " + ast.unparse(node.returns).strip("'") if node.returns else ""
    if any(ast.unparse(each) == "property" for each in node.decorator_list):
        signature = f"{called}{returned}"
    else:
        asynchronous = "await " if isinstance(node, ast.AsyncFunctionDef) and not _is_generator(node) else ""
        signature = f"{asynchronous}{called}({_arguments(node)}){returned}"
    yield from ("```python", signature.removesuffix(" -> None"), "```", "")
    yield from _render_docstring(ast.get_docstring(node) or "")


def _is_generator(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Yield | ast.YieldFrom) for each in ast.walk(node))


def _arguments(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    return re.sub(r"^self(, /)?(, |$)", "", ast.unparse(node.args))


def _render_docstring(text: str) -> Iterator[str]:
    """Yield paragraphs; lines that explain an argument (`name: ...`) become a list, and indented lines are code."""
    for paragraph in text.split("\n\n"):
        lines = paragraph.splitlines()
        if paragraph.startswith("    "):
            yield from ("```python", *(line[4:] for line in lines), "```", "")
            continue
        for line in _join(lines):
            yield f"- {render_text(line)}" if _explains(line) else render_text(line)
        yield ""


def _join(lines: Iterable[str]) -> Iterator[str]:
    """Yield each explained argument as one line, and the lines of prose before it as another."""
    whole = ""
    for line in lines:
        if _explains(line) and whole:
            yield whole
            whole = line
        else:
            whole = f"{whole} {line.strip()}".strip()
    yield whole


def _explains(line: str) -> bool:
    return re.match(r"[a-z_]+(, [a-z_]+)*: ", line) is not None


def _find(body: list[ast.stmt], name: str, *, optional: bool = False) -> ast.stmt | None:
    for node in body:
        if getattr(node, "name", None) == name:
            return node
    assert optional, f"the source has no {name}"
    return None
