"""Format ages, amounts and tables for users."""

import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

from muster.api.ours.users import short_user
from muster.api.values.quantity import format_amount

_LONGEST = 10_000
_MOST_DIGITS = 12
# From this number on, a whole number is shown, because three digits would say less.
_WHOLE_FROM = 999.5
_BYTES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
# The spaces between two columns.
GAP = 3

# The maximum number of characters of an owner in a column.
_MOST_OWNER = 20

# The maximum number of names in a list that shares one text.
_LISTED = 5


def format_age(since: datetime | None, now: datetime) -> str:
    """Return how long ago a time was, in at most two units: `42s`, `5m`, `3h20m`, `12d`; `<unknown>` for None."""
    if since is None:
        return "<unknown>"
    return format_duration(int((now - since).total_seconds()))


def format_duration(seconds: int) -> str:
    """Return a duration in at most two units, such as `42s`, `5m` or `3h20m`. A negative duration is `0s`."""
    seconds = max(seconds, 0)
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


def format_span(seconds: int) -> str:
    """Return a duration in the form that a user would write: `90s`, `2h`, `1h30m`."""
    minutes, rest = divmod(seconds, 60)
    if rest or not minutes:
        return f"{seconds}s" if seconds < 600 else f"{minutes}m{rest}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes}m" if hours and minutes else f"{hours}h" if hours else f"{minutes}m"


def escape_controls(text: str) -> str:
    r"""Return an untrusted text on one line, safe for terminals: control characters are escaped (`\x1b`, `\n`)."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def format_quantity(resource: str, value: int) -> str:
    """Return an amount as users read it: bytes in the largest unit that fits, to a tenth; others as in Kubernetes.

    An amount that is whole in a smaller unit is shown in that unit, as a user would write it. A number with many
    digits, such as the sum of a quota of 1e30 and one of 8, is rounded to three digits.
    """
    if resource not in ("memory", "ephemeral-storage"):
        text = format_amount(resource, value)
        if len(text) <= _MOST_DIGITS:
            return text
        return f"{value / (1000 if resource == 'cpu' else 1):.3g}".replace("e+", "e")
    largest = min(max(abs(value).bit_length() - 1, 0) // 10, len(_BYTES) - 1)
    round_ones = (power for power in range(largest, -1, -1) if value * 10 % 1024**power == 0)
    power = next(round_ones, largest)
    if abs(value) >= _LONGEST * 1024**power:
        power = largest
    return f"{value / 1024**power:.1f}".removesuffix(".0") + _BYTES[power]


def format_mean(resource: str, value: float) -> str:
    """Return a mean amount, or a change of one, to three digits: `57.9` CPUs, `1.5Gi`. From 1,000 on, it is whole."""
    if resource in ("memory", "ephemeral-storage"):
        return format_quantity(resource, round(value))
    number = value / 1000 if resource == "cpu" else value
    return f"{number:,.0f}" if abs(number) >= _WHOLE_FROM else f"{number:.3g}"


def shorten(text: str, most: int) -> str:
    """Return the text cut to at most this many characters, ending with `…` if it was cut."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def format_owner(name: str) -> str:
    """Return a user's short name for a narrow column, cut off if it is long."""
    return shorten(escape_controls(short_user(name)), _MOST_OWNER)


def format_owners(names: Iterable[str]) -> dict[str, str]:
    """Return the short name of each of several users, or the whole name if two short names are the same."""
    short = {name: format_owner(name) for name in names}
    counts = Counter(short.values())
    return {name: text if counts[text] == 1 else escape_controls(name) for name, text in short.items()}


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, width: int = 0) -> str:
    """Return columns as wide as their widest cell, three spaces apart, as kubectl prints them.

    If the table is wider than `width`, the sentences of the last column get lines of their own below the other columns.
    If these are still wider, they are one space apart.

    width: the width of the terminal in characters; 0 for no limit.
    """
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    if not 0 < width < sum(widths) + GAP * (len(widths) - 1):
        return "\n".join(_align(row, widths, GAP) for row in (header, *rows))
    *widths, _ = widths
    gap = GAP if sum(widths) + GAP * (len(widths) - 1) <= width else 1
    return "\n".join(
        [_align(header[:-1], widths, gap)]
        + [_align(row[:-1], widths, gap) + _wrap_sentence(row[-1], width) for row in rows]
    )


def _align(row: Sequence[str], widths: Sequence[int], gap: int) -> str:
    return (" " * gap).join(cell.ljust(most) for cell, most in zip(row, widths, strict=True)).rstrip()


def _wrap_sentence(text: str, width: int) -> str:
    """Return a sentence as indented lines, broken only between words; "" for none."""
    lines = textwrap.wrap(text, max(width - GAP, 1), break_long_words=False, break_on_hyphens=False)
    return "".join(f"\n{' ' * GAP}{line}" for line in lines)


def format_ranges(numbers: Iterable[int]) -> str:
    """Return ascending numbers as text, with ranges: `0-3, 7`."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def group_alike(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return each distinct text once, with the list of the names that have it, such as `a, b and 3 more`.

    pairs: pairs of a name and a text.
    """
    names: dict[str, list[str]] = {}
    for name, text in pairs:
        names.setdefault(text, []).append(name)
    return [(list_names(names_of_text), text) for text, names_of_text in names.items()]


def list_names(names: Sequence[str], most: int = _LISTED) -> str:
    """Return the first names, at most `most`, and how many more there are: `a, b and 3 more`."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def count_things(number: int, one: str, many: str) -> str:
    """Return a number with its noun: `1 node`, `3 nodes`.

    one, many: the singular and the plural.
    """
    return f"{number} {one if number == 1 else many}"


def make_sentence(text: str) -> str:
    """Return a text as a sentence: with a capital letter at the beginning and a full stop at the end."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '?')) else '.'}"
