"""The format of printed output: colours, prefixes of ranks, and `-o json|yaml|wide|name`."""

import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

import click
import msgspec

# Colours that can be told apart on light and dark terminals, for rank prefixes.
_COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "bright_red", "bright_cyan", "bright_magenta")

# Characters that JSON allows unescaped and YAML does not allow. Manifests are parsed as YAML.
_NO_YAML = "[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]"


def terminal_width() -> int:
    """Return the width in characters of the terminal to which stdout writes; 0 if stdout is no terminal."""
    if not sys.stdout.isatty():
        return 0
    import shutil  # it loads every compressor

    return shutil.get_terminal_size().columns


def has_colours(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Return whether a stream is a terminal whose user wants colours (https://no-color.org)."""
    return stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def dump(document: Any, form: str) -> str:
    """Return a JSON value as `json` or `yaml` text."""
    if form == "json":
        return _escape(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
    from muster.api.values.yaml_encode import dump_yaml  # loads slowly

    return dump_yaml(msgspec.to_builtins(document))


def dump_line(document: Any) -> str:
    """Return a JSON value as JSON in one line."""
    return _escape(msgspec.json.encode(document).decode())


def _escape(text: str) -> str:
    return re.sub(_NO_YAML, lambda match: f"\\u{ord(match[0]):04x}", text)


def print_documents(documents: Sequence[Any], form: str) -> None:
    """Print manifests as a `json` List, or as a stream of `yaml` documents."""
    if form == "json":
        click.echo(dump({"apiVersion": "v1", "kind": "List", "items": documents}, "json"))
    else:
        click.echo("\n---\n".join(dump(document, "yaml") for document in documents))


def make_prefix(rank: str, *, colour: bool) -> str:
    """Return the text that precedes every line of a worker: its rank in brackets, which determines its colour."""
    text = f"[{rank}] "
    if not colour:
        return text
    number = int(rank) if rank.isdigit() else sum(rank.encode())
    return click.style(text, fg=_COLOURS[number % len(_COLOURS)], bold=True)


def say(text: str) -> None:
    """Print a remark on stderr. stdout carries data only."""
    click.echo(text, err=True)
