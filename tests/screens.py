"""What stands on a terminal after the bytes that were written to it."""

import re

_PIECES = re.compile(r"\x1b\[\??(?P<number>\d*)(?P<command>[A-Za-z])|(?P<text>[^\x1b])", re.DOTALL)


def picture(written: bytes) -> list[str]:
    """The rows, without the blanks at their ends; colours and modes make no difference. It is as wide as it must be.

    A line feed goes to the start of the next row, as in the mode in which a shell leaves its terminal.
    """
    rows, row, column = [""], 0, 0
    for piece in _PIECES.finditer(written.decode()):
        command, text = piece["command"], piece["text"]
        if command == "K":
            rows[row] = rows[row][:column]
        elif command == "A":
            row -= int(piece["number"] or 1)
            assert row >= 0
        elif text == "\r":
            column = 0
        elif text == "\n":
            row, column = row + 1, 0
            rows += [""] * (row + 1 - len(rows))
        elif text:
            rows[row] = rows[row][:column].ljust(column) + text + rows[row][column + 1 :]
            column += 1
        else:
            assert command in ("m", "h", "l"), piece[0]
    return [line.rstrip() for line in rows]
