"""The page of the Configuration, made from its types: each field, its type, its default and its meaning."""

import inspect
import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from muster.api.config import DEFAULT
from muster.api.config.file import ConfigurationFile, WrittenFairSharing, WrittenIntegrations, WrittenWait
from muster.api.config.types import (
    DURATION,
    ONLY_IN,
    V1BETA2,
    Configuration,
    FairSharing,
    Integrations,
    WaitForPodsReady,
)
from muster.api.config.unread import UNREAD
from muster.api.values import durations
from tools.reference.markdown import render_code, render_table, render_text

_INTRODUCTION = """\
`muster up --config FILE`, `muster controllers --config FILE` and the ConfigMap of an installed Muster read one file, a
`Configuration` of `config.kueue.x-k8s.io`. Its fields are Kueue's, and the fields below `muster` are Muster's own.
If the file has an unknown field or an invalid value, the command prints the path of the field, and does not start.
[Configure a cluster](../configuration.md) explains the most important settings. The smallest file sets nothing:

```yaml
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
```

The tables list the fields of `v1beta2`. Muster also reads files of `v1beta1`, with two differences:
`waitForPodsReady` and `fairSharing` have a field `enable`, and are off without it."""
_NOT_FIELDS = ("apiVersion", "kind")
# The structs of a file that are spelled in another way than what they mean.
_MEANT: dict[type[Any], type[Any]] = {
    ConfigurationFile: Configuration,
    WrittenWait: WaitForPodsReady,
    WrittenFairSharing: FairSharing,
    WrittenIntegrations: Integrations,
}


_WITHOUT_EFFECT = {setting.path: setting.reason for setting in UNREAD}


def render_configuration() -> list[str]:
    """Return the lines of the page."""
    form = msgspec.inspect.type_info(ConfigurationFile)
    assert isinstance(form, msgspec.inspect.StructType)
    lines = ["# Configuration", "", *_INTRODUCTION.splitlines(), ""]
    sections = list(_sections(form, "", DEFAULT))
    for path, type_, default in sections:
        lines += [f"## {path or 'The top of the file'}", ""]
        about, meanings = _read_docstring(type_.cls)
        if path:
            lines += [f"{render_text(about)}", ""]
        rows = [_row(field, f"{path}.{field.encode_name}".lstrip("."), default, meanings) for field in _fields(type_)]
        lines += render_table(("Field", "Type", "Default", "Meaning"), rows)
    return lines


def _sections(
    type_: msgspec.inspect.StructType, path: str, default: Any
) -> Iterator[tuple[str, msgspec.inspect.StructType, Any]]:
    """Yield each struct of the file with its path and its defaults, from the top down."""
    yield path, type_, default
    for field in _fields(type_):
        inner, _ = _plain(field.type)
        below = f"{path}.{field.encode_name}" if path else field.encode_name
        value = getattr(default, field.name, None)
        if isinstance(inner, msgspec.inspect.VarTupleType):
            inner, below, value = _plain(inner.item_type)[0], f"{below}[]", None
        if isinstance(inner, msgspec.inspect.StructType) and inner.cls.__module__.startswith("muster.api.config"):
            yield from _sections(inner, below, value if value is not None else _make_default(inner.cls))


def _make_default(type_: type[Any]) -> Any:
    return type_()


def _fields(type_: msgspec.inspect.StructType) -> list[msgspec.inspect.Field]:
    """Return the fields that v1beta2 has."""
    return [
        field
        for field in type_.fields
        if field.encode_name not in _NOT_FIELDS and _plain(field.type)[1].get(ONLY_IN, V1BETA2) == V1BETA2
    ]


def _row(field: msgspec.inspect.Field, path: str, default: Any, meanings: dict[str, str]) -> tuple[str, ...]:
    inner, extra = _plain(field.type)
    value = getattr(default, field.name, None)
    meaning = meanings.get(field.name, "")
    if isinstance(inner, msgspec.inspect.StructType) and not meaning:
        meaning, _ = _read_docstring(inner.cls)
    if path in _WITHOUT_EFFECT:
        meaning += f" Has no effect: {_WITHOUT_EFFECT[path]}."
    shown = _show_default(value, extra)
    return (
        render_code(field.encode_name),
        _name_type(inner, extra),
        render_code(shown) if shown else "",
        render_text(meaning[:1].upper() + meaning[1:]),
    )


def _name_type(type_: msgspec.inspect.Type, extra: dict[str, Any]) -> str:
    match type_:
        case _ if extra.get(DURATION):
            return "duration"
        case msgspec.inspect.LiteralType():
            return " or ".join(render_code(value) for value in sorted(map(str, type_.values)))
        case msgspec.inspect.VarTupleType():
            inner, extra = _plain(type_.item_type)
            return f"list of {_name_type(inner, extra)}"
        case msgspec.inspect.DictType():
            inner, extra = _plain(type_.value_type)
            return f"map to {_name_type(inner, extra)}"
        case msgspec.inspect.StructType():
            return str(_MEANT.get(type_.cls, type_.cls).__name__)
    named = {"BoolType": "bool", "IntType": "integer", "FloatType": "number", "StrType": "string"}
    return named.get(type(type_).__name__, "quantity")


def _show_default(value: Any, extra: dict[str, Any]) -> str:
    if value is None or value == "" or isinstance(value, msgspec.Struct) or value in ((), {}):
        return ""
    if extra.get(DURATION):
        return str(durations.format(value))
    return json.dumps(msgspec.to_builtins(value)) if not isinstance(value, str) else value


def _read_docstring(type_: type[Any]) -> tuple[str, dict[str, str]]:
    """Return what the docstring of a struct says of the struct, and of each field by its name, also in its bases."""
    meant = _MEANT.get(type_, type_)
    about: list[str] = []
    meanings: dict[str, str] = {}
    for base in meant.__mro__[::-1]:
        name, about = "", []
        for line in inspect.cleandoc(base.__doc__ or "").splitlines():
            if start := re.match(r"([a-z][a-z0-9_]*): (.*)", line):
                name = start[1]
                meanings[name] = start[2]
            elif name and line.startswith(" "):
                meanings[name] += " " + line.strip()
            else:
                name = ""
                about.append(line)
    return " ".join(about).strip(), meanings


def _plain(type_: msgspec.inspect.Type) -> tuple[msgspec.inspect.Type, dict[str, Any]]:
    """Return a type without `| None`, and the notes that stood beside it."""
    extra: dict[str, Any] = {}
    while True:
        if isinstance(type_, msgspec.inspect.Metadata):
            extra |= type_.extra or {}
            type_ = type_.type
        elif isinstance(type_, msgspec.inspect.UnionType) and type_.includes_none and len(type_.types) == 2:
            type_ = next(option for option in type_.types if not isinstance(option, msgspec.inspect.NoneType))
        else:
            return type_, extra
