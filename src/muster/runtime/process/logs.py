"""Format the log of the process: one line per record, JSON for machines or short for people.

Parts log with the standard `logging` module and pass their fields as `extra`; this module only decides how a line
looks. Everything that looks like a credential is removed: values of fields with secret-looking names, and bearer tokens
in any text.
"""

import logging
import os
import re
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TextIO

import msgspec

LogFormat = Literal["json", "text"]

REDACTED = "[redacted]"
MAX_FILE_BYTES = 100 << 20  # the limit of a log file

_SHORT = {"WARNING": "WARN", "CRITICAL": "FATAL"}

_STANDARD = frozenset(vars(logging.LogRecord("", 0, "", 0, "", (), None))) | {"message", "asctime", "taskName"}
_SECRET_NAME = re.compile(r"token|passw|secret|authorization|private_?key|key_?data", re.IGNORECASE)
_SECRET_TEXT = re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}|\beyJ[\w-]+\.[\w-]+\.[\w-]*")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")


def configure(
    format: LogFormat = "text", level: str = "INFO", stream: TextIO | None = None, file: Path | None = None
) -> None:
    """Send all logs of the process to a stream, by default standard error, and nowhere else.

    file: the file to which standard error is redirected, and which is renamed when it is too long; None for no file.
    """
    handler = logging.StreamHandler(stream or sys.stderr) if file is None else Rotating(file)
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)


class Rotating(logging.StreamHandler[TextIO]):
    """A handler that writes to standard error in a file, and renames that file when it has reached a size.

    The renamed file replaces the previous one. Other output of the process, such as the interpreter's last messages,
    goes to the new file, too.
    """

    def __init__(self, path: Path, max_bytes: int = MAX_FILE_BYTES) -> None:
        super().__init__(sys.stderr)
        self._path = path
        self._max_bytes = max_bytes
        self._limit = max_bytes

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line; then rename the file if it is long enough."""
        super().emit(record)
        size = os.fstat(sys.stderr.fileno()).st_size
        if size >= self._limit:
            self._limit = self._max_bytes if self._move_aside() else size + self._max_bytes

    def _move_aside(self) -> bool:
        """Rename the log file and start a new one; return whether that worked.

        If it failed, logging continues in the file, and the next attempt comes much later.
        """
        try:
            with suppress(FileNotFoundError):  # a user removed the file, or an earlier attempt stopped here
                self._path.rename(self._path.with_name(f"{self._path.name}.1"))
            new = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError:
            return False
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            os.dup2(new, stream.fileno())
        os.close(new)
        return True


class JsonFormatter(logging.Formatter):
    """A log formatter with one JSON object per line: time, level, logger, message, the record's own fields, error."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a log record as one line of JSON, with secrets removed."""
        line: dict[str, Any] = {
            "time": _get_time(record).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **fields_of(record),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return redact(msgspec.json.encode(line, enc_hook=str).decode())


class TextFormatter(logging.Formatter):
    """A formatter of lines such as `12:34:56.789 WARN  message  key=value`, with control characters escaped."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, and the traceback if there is one."""
        time = _get_time(record).astimezone().strftime("%H:%M:%S.%f")[:-3]
        level = _SHORT.get(record.levelname, record.levelname)
        parts = [f"{time} {level:5} {record.getMessage()}"]
        parts += [f"{name}={value}" for name, value in fields_of(record).items()]
        line = _CONTROL.sub(lambda match: repr(match[0])[1:-1], "  ".join(parts))
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return redact(line)


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields passed as `extra`. Values of fields with secret-looking names are hidden."""
    fields = {name: value for name, value in vars(record).items() if name not in _STANDARD}
    return {name: REDACTED if _SECRET_NAME.search(name) else value for name, value in fields.items()}


def redact(text: str) -> str:
    """Return the text without anything that looks like a bearer token, basic credentials or a JWT."""
    return _SECRET_TEXT.sub(lambda match: f"{match[1]} {REDACTED}" if match[1] else REDACTED, text)


def _get_time(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)
