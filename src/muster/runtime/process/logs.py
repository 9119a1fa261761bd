"""Logs of the process: one line each, JSON for machines or short for people.

Parts log with the standard `logging` module and give their fields as `extra`; here is only how a line looks. What
looks like a credential never leaves: values of fields with telling names, and bearer tokens in any text.
"""

import logging
import re
import sys
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

import msgspec

LogFormat = Literal["json", "text"]

REDACTED = "[redacted]"

_SHORT = {"WARNING": "WARN", "CRITICAL": "FATAL"}

_STANDARD = frozenset(vars(logging.LogRecord("", 0, "", 0, "", (), None))) | {"message", "asctime", "taskName"}
_SECRET_NAME = re.compile(r"token|passw|secret|authorization|private_?key|key_?data", re.IGNORECASE)
_SECRET_TEXT = re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}|\beyJ[\w-]+\.[\w-]+\.[\w-]*")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")


def configure(format: LogFormat = "text", level: str = "INFO", stream: TextIO | None = None) -> None:
    """Send all logs of the process to a stream (standard error), and nowhere else."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, the record's own fields, error."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, Any] = {
            "time": _time(record).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **fields_of(record),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return redact(msgspec.json.encode(line, enc_hook=str).decode())


class TextFormatter(logging.Formatter):
    """`12:34:56.789 WARN  message  key=value`; control characters are escaped, a traceback follows on its own lines."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, and the traceback if there is one."""
        time = _time(record).astimezone().strftime("%H:%M:%S.%f")[:-3]
        level = _SHORT.get(record.levelname, record.levelname)
        parts = [f"{time} {level:5} {record.getMessage()}"]
        parts += [f"{name}={value}" for name, value in fields_of(record).items()]
        line = _CONTROL.sub(lambda match: repr(match[0])[1:-1], "  ".join(parts))
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return redact(line)


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """What was given as `extra`; values whose names say that they are secret are not shown."""
    found = {name: value for name, value in vars(record).items() if name not in _STANDARD}
    return {name: REDACTED if _SECRET_NAME.search(name) else value for name, value in found.items()}


def redact(text: str) -> str:
    """The text without anything that looks like a bearer token, basic credentials or a JWT."""
    return _SECRET_TEXT.sub(lambda match: f"{match[1]} {REDACTED}" if match[1] else REDACTED, text)


def _time(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)
