"""How commands print: aligned tables, ages, and `-o json|yaml|wide|name`."""

import re
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TextIO

import click
import msgspec

# Colours that can be told apart on light and dark terminals, for rank prefixes.
_COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "bright_red", "bright_cyan", "bright_magenta")

# Between two columns.
_GAP = 3

# Words that kubectl's reader of YAML takes for something else than strings, and ours does not: they are quoted.
_GO_BOOL = re.compile(r"[yYnN]$")
_GO_NUMBER = re.compile(r"[-+]?(0[bBoOxX][0-9A-Fa-f_]+|[0-9_]*\.?[0-9_]*([eE][-+]?[0-9]+)?)$")

# What may stand in JSON as it is, and not in YAML: manifests are read as YAML.
_NO_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, width: int = 0) -> str:
    """Columns as wide as their widest cell, three spaces apart, as kubectl prints them.

    Where that is wider than `width`, the sentences in the last column have lines of their own, below the others.
    """
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    if 0 < width < sum(widths) + _GAP * (len(widths) - 1):
        above = table(header[:-1], [row[:-1] for row in rows]).split("\n")
        return "\n".join(above[:1] + [line + _below(row[-1], width) for line, row in zip(above[1:], rows, strict=True)])
    gap = " " * _GAP
    lines = (gap.join(cell.ljust(most) for cell, most in zip(row, widths, strict=True)) for row in (header, *rows))
    return "\n".join(line.rstrip() for line in lines)


def _below(text: str, width: int) -> str:
    """A sentence as lines that are indented, and not broken within words; "" for none."""
    lines = textwrap.wrap(text, max(width - _GAP, 1), break_long_words=False, break_on_hyphens=False)
    return "".join(f"\n{' ' * _GAP}{line}" for line in lines)


def terminal_width() -> int:
    """Of the terminal that is written to; 0 if it is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0


def has_colours(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether a person sees colours there, and wants them (https://no-color.org)."""
    return stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def age(since: datetime | None, now: datetime) -> str:
    """`42s`, `5m`, `3h20m`, `12d`: how long ago, in two figures or fewer."""
    if since is None:
        return "<unknown>"
    seconds = max(int((now - since).total_seconds()), 0)
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    return f"{hours}h" if hours < 48 else f"{days}d"


def quantity(resource: str, value: int) -> str:
    """An amount in the units of decisions, for people: bytes in GiB."""
    from muster.api.quantity import format_amount

    if resource in ("memory", "ephemeral-storage") and value:
        text = f"{value / 2**30:.1f}"
        return f"{text.removesuffix('.0')}Gi"
    return format_amount(resource, value)


def dump(document: Any, form: str) -> str:
    """A JSON value as `json` or `yaml` text."""
    if form == "json":
        text = msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
        return _NO_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    import yaml

    class Dumper(yaml.SafeDumper):
        """Multi-line strings as blocks: commands stay readable."""

    def string(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)

    Dumper.add_representer(str, string)
    Dumper.add_implicit_resolver("tag:yaml.org,2002:bool", _GO_BOOL, list("yYnN"))
    Dumper.add_implicit_resolver("tag:yaml.org,2002:float", _GO_NUMBER, list("-+.0123456789"))
    return yaml.dump(msgspec.to_builtins(document), Dumper=Dumper, sort_keys=False, default_flow_style=False).rstrip()


def prefix(rank: str, *, colour: bool) -> str:
    """What stands before every line of a worker."""
    text = f"[{rank}] "
    if not colour:
        return text
    number = int(rank) if rank.isdigit() else sum(rank.encode())
    return click.style(text, fg=_COLOURS[number % len(_COLOURS)], bold=True)


def say(text: str) -> None:
    """Progress and remarks go to stderr: stdout carries nothing but data."""
    click.echo(text, err=True)
