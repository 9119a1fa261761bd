"""Format finished runs as a table. Control characters in texts of other users are escaped."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from muster.insight.text import (
    GAP,
    escape_controls,
    format_duration,
    format_owner,
    format_quantity,
    format_table,
    shorten,
)

# The field below each heading.
_COLUMNS = {
    "SUBMITTED": "submitted", "NAME": "name", "STATE": "state", "EXIT": "exitCode", "OWNER": "owner", "QUEUE": "queue",
    "WAITED": "waitedSeconds", "TIME": "runSeconds",
}  # fmt: skip
_WIDE = {
    "STARTED": "started", "ENDED": "ended", "PODS": "workers", "RESTARTS": "restarts",
    "INTERRUPTIONS": "interruptions", "CPU": "cpuSeconds", "CPUS USED": "meanCpus", "CPUS ASKED": "requestedCpus",
    "MEMORY": "memoryBytes", "NODES": "nodes",
}  # fmt: skip
_GPUS = {"GPUS USED": "meanGpus", "GPU MEMORY": "gpuMemoryBytes"}

# The columns that a narrow terminal omits, in this order.
_SPARE = ("WAITED", "QUEUE", "OWNER", "EXIT")

# The largest and the smallest width of a command in the table.
_MOST_COMMAND, _LEAST_COMMAND = 40, 12


def as_table(rows: Sequence[dict[str, Any]], *, everywhere: bool, wide: bool, width: int = 0) -> str:
    """Return a table of runs for users, with times in their time zone.

    A terminal shows times without seconds unless the table is wide.

    width: the width of the terminal; 0 without a terminal, which shows all columns.
    """
    gpus = _GPUS if any(row["gpuMemoryBytes"] is not None for row in rows) else {}
    columns = ({"NAMESPACE": "namespace"} if everywhere else {}) | _COLUMNS | (_WIDE | gpus if wide else {})
    short = bool(width) and not wide
    cells = {name: [_format_cell(field, one[field], short=short) for one in rows] for name, field in columns.items()}
    if not wide:
        cells["OWNER"] = [format_owner(one["owner"]) or "-" for one in rows]
    widths = {name: max(map(len, (name, *column))) + GAP for name, column in cells.items()}
    for name in _SPARE:
        if short and sum(widths.values()) + _LEAST_COMMAND > width:
            del cells[name], widths[name]
    room = width - sum(widths.values()) if short else _MOST_COMMAND
    whole_commands = [_format_cell("command", one["command"]) for one in rows]
    most = max(min(room, _MOST_COMMAND), _LEAST_COMMAND)
    commands = whole_commands if wide else [shorten(command, most) for command in whole_commands]
    whole = cells | {"COMMAND": commands, "REASON": [_format_cell("reason", one["reason"]) for one in rows]}
    return format_table(list(whole), list(zip(*whole.values(), strict=True)), width=width)


def _format_cell(field: str, value: Any, *, short: bool = False) -> str:
    if value in (None, "", []):
        return "" if field == "reason" else "-"
    if isinstance(value, datetime):
        return f"{value.astimezone():%Y-%m-%d %H:%M{'' if short else ':%S'}}"
    match field:
        case "waitedSeconds" | "runSeconds":
            return format_duration(value)
        case "cpuSeconds":
            return f"{value:.1f}s" if value < 100 else format_duration(int(value))
        case "meanCpus" | "requestedCpus" | "meanGpus":
            return f"{value:.2f}".rstrip("0").rstrip(".")
        case "memoryBytes" | "gpuMemoryBytes":
            return format_quantity("memory", value)
        case "nodes":
            return ",".join(value)
    return escape_controls(str(value))
