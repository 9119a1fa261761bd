"""Decide what a user sees of lines that a program writes over, as a progress bar does with carriage returns.

The functions take and give bytes of one stream of one worker. They write nothing.
"""

import re

# A longer line is split into several.
LINE_BYTES = 1 << 20

# Escape sequences and control characters: in a row that is drawn in place, they would move the cursor or ring.
_CONTROLS = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)|[\x00-\x1f\x7f]", re.DOTALL)


def split_lines(begun: bytes, text: bytes) -> tuple[bytes, bytes]:
    """Split text that follows an unfinished line; return the whole lines, and the new unfinished line.

    A carriage return lets later text overwrite a line: each whole line is returned as it looks in the end. The
    unfinished line keeps nothing that is already overwritten. One that gets very long is returned as it is, without a
    line break.
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
    """Return what a terminal shows of a line once its carriage returns have let later text overwrite it."""
    return line.rstrip(b"\r").rpartition(b"\r")[2]


def is_wiped(line: bytes) -> bool:
    """Return whether a line ends up blank because blanks overwrote it, as at the end of a progress bar."""
    return b"\r" in line and not last_state(line).strip()


def make_row(line: bytes) -> str:
    """Return what a terminal shows of an unfinished line now, without control characters; "" if it is blank."""
    return _CONTROLS.sub(b"", last_state(line).replace(b"\t", b" ")).decode(errors="replace").rstrip()


def _forget_earlier_states(line: bytes) -> bytes:
    """Return an unfinished line without text that carriage returns have let later text overwrite."""
    states = line.rstrip(b"\r")
    return states[max(states.rfind(b"\r"), 0) :] + line[len(states) :][:1]
