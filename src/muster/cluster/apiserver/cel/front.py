"""Parse and type-check CEL: `check` takes a text and returns a checked expression.

The CEL library (cel-expr-python, which wraps Google's cel-cpp) parses, expands macros and checks types. The module
`evaluate` runs the expressions, because the evaluator of the library has three limits:

- It copies the whole object to evaluate an expression on it.
- Functions cannot return types of their own (quantities, addresses).
- The memory that an expression uses is unbounded.

The library has 50 MB, so this module imports it when the first expression is compiled.
"""

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from muster.cluster.apiserver.cel.errors import CompileError
from muster.cluster.apiserver.cel.library import OURS, OVERLOADS, Overload
from muster.cluster.apiserver.cel.syntax import Expression, Node, UnsupportedError, read

# The library itself refuses expressions of more than 32 levels or 100,000 characters.
_EXTENSIONS = ("optional", "two-var-comprehensions", "bindings")
_FRAME = re.compile(r"^[A-Z_]+: (.*?)(?: \[[A-Z_]+\])?$", re.DOTALL)


def check(text: str, variables: Mapping[str, str]) -> tuple[Expression, str]:
    """Return the checked expression and the type of its value.

    Raises `CompileError` if the text is not a valid expression.

    variables: the type (such as `list<string>`) of each variable, by its name.
    """
    environment = _make_environment(tuple(variables.items()))
    try:
        compiled = environment.compile(text)
        return read(text, compiled.serialize()), str(compiled.return_type().name()).lower()
    except (RuntimeError, TypeError, UnicodeError) as error:
        raise CompileError(_extract_sentence(str(error))) from None
    except UnsupportedError as error:
        raise CompileError(str(error)) from None


def make_compile_error(expression: Expression, node: Node, message: str) -> CompileError:
    """Return the error that points at a node of an expression, formatted like the library's errors."""
    offset = expression.positions.get(node.id, 0)
    before = expression.text[:offset]
    line, column = before.count("\n") + 1, offset - (before.rfind("\n") + 1)
    shown = expression.text.split("\n")[line - 1]
    return CompileError(f"ERROR: <input>:{line}:{column + 1}: {message}\n | {shown}\n | {'.' * column}^")


def _extract_sentence(error: str) -> str:
    if error.startswith("compile():"):
        return "ERROR: <input>:1:1: Syntax error: the text is not valid Unicode"
    match = _FRAME.match(error)
    return match.group(1) if match else error


# Users choose the types of variables, so the cache is bounded.
@lru_cache(maxsize=64)
def _make_environment(variables: tuple[tuple[str, str], ...]) -> Any:
    from cel_expr_python import cel

    config = {
        "name": "kubernetes",
        "extensions": [{"name": name} for name in _EXTENSIONS],
        # The library does not accept more overloads of its own functions, so Muster declares these functions in full.
        "stdlib": {"exclude_functions": [{"name": name} for name in OURS]},
        "functions": _FUNCTIONS,
        "variables": [{"name": name, **_convert_type(type_)} for name, type_ in variables],
    }
    return cel.NewEnv(config=cel.NewEnvConfigFromYaml(json.dumps(config)))


def _make_declarations(functions: Mapping[str, Sequence[Overload]]) -> list[Mapping[str, Any]]:
    """Return the declarations of the functions that the library does not declare itself."""
    ours = {name: [each for each in overloads if not each.standard] for name, overloads in functions.items()}
    return [
        {"name": name, "overloads": [_declare_overload(name, each) for each in overloads]}
        for name, overloads in ours.items()
        if overloads
    ]


def _declare_overload(name: str, overload: Overload) -> Mapping[str, Any]:
    types = [_convert_type(parameter) for parameter in overload.parameters]
    target = {"target": types.pop(0)} if overload.is_member else {}
    key = f"{name}({', '.join(overload.parameters)})"
    return {"id": key, **target, "args": types, "return": _convert_type(overload.result)}


def _convert_type(name: str) -> Mapping[str, Any]:
    """Convert a type such as `map<string, list<int>>` to the form of the library's configuration."""
    head, _, rest = name.partition("<")
    if not rest:
        parameters = _DEFAULTS.get(head, ())
    else:  # every declared map has string keys
        parameters = ("string", rest.removeprefix("string, ")[:-1]) if head == "map" else (rest[:-1],)
    return {"type_name": _NAMES.get(head, head), "params": [_convert_type(each) for each in parameters]}


_NAMES = {"optional": "optional_type", "null": "null_type"}
_DEFAULTS: Mapping[str, tuple[str, ...]] = {"list": ("dyn",), "map": ("string", "dyn"), "optional": ("dyn",)}
_FUNCTIONS = _make_declarations(OVERLOADS)
