"""Make HTML and SVG from values. All text of a chart passes through this module, which escapes it."""

import re
from collections.abc import Iterable, Mapping
from html import escape

# Characters that XML and HTML forbid, whatever escapes them.
_FORBIDDEN = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 127, *range(55296, 57344), 65534, 65535), "�")

# Most names and numbers consist only of these characters, which escaping does not change.
_PLAIN = re.compile(r"[\w .,:;/%+-]*", re.ASCII)


class Markup(str):
    """A text that is HTML or SVG already, and is not escaped again."""

    __slots__ = ()

    def __html__(self) -> str:
        """Return the text; template engines call this method and then do not escape the text."""
        return str(self)


Child = str | Markup | Iterable["Child"]


def escape_text(text: str) -> Markup:
    """Return a text escaped for HTML, with replacements for characters that HTML forbids."""
    return Markup(text if _PLAIN.fullmatch(text) else escape(text.translate(_FORBIDDEN)))


def make_element(tag: str, attributes: Mapping[str, object] | None = None, *children: Child) -> Markup:
    """Return an element with its children. Attributes that are None or False are left out; True is an empty value."""
    pairs = "".join(_write_attribute(name, value) for name, value in (attributes or {}).items())
    return Markup(f"<{tag}{pairs}>{join(children)}</{tag}>")


def join(children: Iterable[Child]) -> Markup:
    """Return the parts as one text. A part that is no `Markup` is escaped."""
    return Markup("".join(_write_child(child) for child in children))


def _write_child(child: Child) -> str:
    if isinstance(child, Markup):
        return child
    return escape_text(child) if isinstance(child, str) else join(child)


def _write_attribute(name: str, value: object) -> str:
    if value is None or value is False:
        return ""
    if isinstance(value, float):
        return f' {name}="{format_number(value)}"'
    return f' {name}="{escape_text("" if value is True else str(value))}"'


def format_number(value: float) -> str:
    """Return a coordinate as text with at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if value % 1 else str(int(value))
