"""Renders a Helm chart that keeps to the few constructs of its templates: for machines that have no helm.

It knows `if`, `else`, `with`, `define`, variables, pipelines, and the functions of `FUNCTIONS`; all else is an error.
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ACTION = re.compile(r"(\s*)\{\{(-?)\s*(.*?)\s*(-?)\}\}(\s*)", re.DOTALL)
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[()|]|:=|[^\s()|"]+')
COMMENT = "/*"


class FailError(Exception):
    """What a chart ends by with `fail`."""


def fail(message: str) -> str:
    raise FailError(message)


def dig(*arguments: Any) -> Any:
    *path, default, found = arguments
    for step in path:
        if not isinstance(found, Mapping) or step not in found:
            return default
        found = found[step]
    return found


def to_yaml(value: Any) -> str:
    return str(yaml.safe_dump(value, default_flow_style=False)).removesuffix("\n")


def said(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "and": lambda *values: next((value for value in values if not value), values[-1]),
    "default": lambda default, value=None: value or default,
    "dict": dict,
    "dig": dig,
    "eq": lambda one, other: one == other,
    "fail": fail,
    "fromYaml": lambda text: yaml.safe_load(text) or {},
    "fromYamlArray": lambda text: yaml.safe_load(text) or [],
    "gt": lambda one, other: one > other,
    "has": lambda item, items: item in items,
    "hasKey": lambda found, key: key in found,
    "indent": lambda count, text: "\n".join(" " * count + line for line in text.split("\n")),
    "int": int,
    "keys": list,
    "last": lambda items: items[-1],
    "len": len,
    "list": lambda *items: list(items),
    "ne": lambda one, other: one != other,
    "not": lambda value: not value,
    "or": lambda *values: next((value for value in values if value), values[-1]),
    "printf": lambda text, *values: text % values,
    "replace": lambda old, new, text: text.replace(old, new),
    "sortAlpha": sorted,
    "quote": lambda value: f'"{value}"',
    "sha256sum": lambda text: hashlib.sha256(text.encode()).hexdigest(),
    "splitList": lambda separator, text: text.split(separator),
    "toYaml": to_yaml,
    "trim": str.strip,
    "trunc": lambda count, text: text[:count],
}


class Chart:
    """The templates of a folder, with the values and the namespace of a release."""

    def __init__(self, folder: Path, values: Mapping[str, Any], namespace: str) -> None:
        self._root = {"Values": merged(yaml.safe_load((folder / "values.yaml").read_text()), values)}
        self._root["Release"] = {"Namespace": namespace}
        self._defined: dict[str, list[Any]] = {}
        self._templates = [
            parsed(path.read_text()) for path in sorted((folder / "templates").iterdir()) if path.suffix != ".txt"
        ]

    def render(self) -> list[Any]:
        """All documents."""
        texts = ["".join(self._run(nodes, self._root, {})) for nodes in self._templates]
        return [document for text in texts for document in yaml.load_all(text, yaml.CSafeLoader) if document]

    def _run(self, nodes: list[Any], dot: Any, variables: dict[str, Any]) -> Iterator[str]:
        for node in nodes:
            if isinstance(node, str):
                yield node
                continue
            word, expression, body, otherwise = node
            if word == "define":
                self._defined[expression.strip('"')] = body
            elif word in ("if", "with"):
                value = self._value(expression, dot, variables)
                inner = value if word == "with" and value else dot
                yield from self._run(body if value else otherwise, inner, variables)
            elif ":=" in expression:
                name, _, expression = expression.partition(":=")
                variables[name.strip()] = self._value(expression, dot, variables)
            else:
                yield said(self._value(expression, dot, variables))

    def _value(self, expression: str, dot: Any, variables: dict[str, Any]) -> Any:
        tokens = TOKEN.findall(expression)
        value = self._pipeline(tokens, dot, variables)
        assert not tokens, expression
        return value

    def _pipeline(self, tokens: list[str], dot: Any, variables: dict[str, Any]) -> Any:
        """Take tokens up to a closing parenthesis, or all."""
        piped: list[Any] = []
        while True:
            words: list[Any] = []
            while tokens and tokens[0] not in ("|", ")"):
                words.append(self._operand(tokens, dot, variables))
            first, *arguments = [*words, *piped]
            piped = [self._called(first, arguments, dot)]
            if not tokens or tokens[0] == ")":
                return piped[0]
            tokens.pop(0)

    def _called(self, first: Any, arguments: list[Any], dot: Any) -> Any:
        if first == ("function", "include"):
            return "".join(self._run(self._defined[arguments[0]], arguments[1], {}))
        if isinstance(first, tuple):
            return FUNCTIONS[first[1]](
                *(FUNCTIONS[each[1]]() if isinstance(each, tuple) else each for each in arguments)
            )
        assert not arguments, first
        return first

    def _operand(self, tokens: list[str], dot: Any, variables: dict[str, Any]) -> Any:
        token = tokens.pop(0)
        if token == "(":
            value = self._pipeline(tokens, dot, variables)
            tokens.pop(0)
            return value
        if token.startswith('"'):
            return token[1:-1]
        if token.isdigit():
            return int(token)
        if token in ("true", "false"):
            return token == "true"
        if token.startswith(("$", ".")):
            name, *path = token.split(".")
            found = variables[name] if name else dot
            for step in filter(None, path):
                found = found.get(step)
            return found
        assert token == "include" or token in FUNCTIONS, token
        return "function", token


def merged(one: Any, other: Any) -> Any:
    """Values over those of the chart."""
    if not isinstance(one, Mapping) or not isinstance(other, Mapping):
        return other
    return {**one, **{key: merged(one.get(key), value) for key, value in other.items()}}


def parsed(text: str) -> list[Any]:
    """The nodes of a template: texts, and (word, expression, body, otherwise)."""
    top: list[Any] = []
    stack: list[tuple[list[Any], Any]] = []
    current, at = top, 0
    for found in ACTION.finditer(text):
        before, left, action, right, after = found.groups()
        current.append(text[at : found.start()] + ("" if left else before))
        at = found.end() if right else found.end() - len(after)
        word, _, rest = action.partition(" ")
        if word in ("if", "with", "define"):
            node = (word, rest, list[Any](), list[Any]())
            current.append(node)
            stack.append((current, node))
            current = node[2]
        elif action == "else":
            current = stack[-1][1][3]
        elif action == "end":
            current, _ = stack.pop()
        elif not action.startswith(COMMENT):
            current.append(("", action, [], []))
    assert not stack
    return [*top, text[at:]]
