"""Handle lines that a program overwrites with carriage returns, as a progress bar does. Pure.

The functions accept and return bytes of one output stream of one worker.
"""

import re

# A longer line is split into several.
LINE_BYTES = 1 << 20

# Escape sequences and control characters. In a row that is redrawn in place, they would move the cursor or ring the
# bell.
_CONTROLS = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)|[\x00-\x1f\x7f]", re.DOTALL)


def split_lines(begun: bytes, text: bytes) -> tuple[bytes, bytes]:
    """Append text to an unfinished line; return the completed lines and the new unfinished line.

    A carriage return lets later text overwrite a line. A completed line is returned in its final state, and overwritten
    text is dropped from the unfinished line. A very long unfinished line is returned as it is, without a line break.
    """
    whole, newline, rest = (begun + text).rpartition(b"\n")
    if b"\r" in whole:
        whole = b"\n".join(map(last_state, whole.split(b"\n")))
    if b"\r" in rest:
        rest = _forget_earlier_states(rest)
    if len(rest) > LINE_BYTES:
        whole, newline, rest = whole + newline + rest, b"\n", b""
    return whole + newline, rest


def last_state(line: bytes) -> bytes:
    """Return the text of a line that a terminal shows after all carriage returns."""
    return line.rstrip(b"\r").rpartition(b"\r")[2]


def is_wiped(line: bytes) -> bool:
    """Return whether spaces have overwritten the whole line, as a progress bar does when it finishes."""
    return b"\r" in line and not last_state(line).strip()


def make_row(line: bytes) -> str:
    """Return the text that a terminal shows for an unfinished line, without control characters; "" if it is blank."""
    return _CONTROLS.sub(b"", last_state(line).replace(b"\t", b" ")).decode(errors="replace").rstrip()


def _forget_earlier_states(line: bytes) -> bytes:
    """Return an unfinished line without the text that later text has overwritten."""
    states = line.rstrip(b"\r")
    return states[max(states.rfind(b"\r"), 0) :] + line[len(states) :][:1]
