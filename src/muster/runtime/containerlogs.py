"""Read and write container logs in the format of the container runtimes: `<time> <stream> <tag> <text>` a line.

The tag is F for a full line and P for a part of a line. Muster's nodes write times of one length, so all heads have one
length. They serve logs verbatim to clients that request `raw`, with the node's records in between:
`- <what> F <number>`. No log line looks like a record, because each begins with a time.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import groupby

import msgspec

# `2026-01-01T12:00:00.000000000Z stdout F `
HEAD_BYTES = 40
STAMP_BYTES = 30
STDOUT, STDERR = b"stdout", b"stderr"
_WHOLE = {b" %s F " % stream: stream for stream in (STDOUT, STDERR)}
_PARTIAL = {b" %s P " % stream: stream for stream in (STDOUT, STDERR)}
_RECORD = re.compile(rb"(?m)^- (attempt|missing) F (\d+)\n")


class LineRun(msgspec.Struct, frozen=True):
    """Consecutive lines of a log that were written in one piece, with the same time and stream.

    A run may also be a part of one long line.

    stamp: the time.
    lines: the number of lines.
    """

    stamp: bytes
    stream: bytes
    text: bytes  # including the line ends
    lines: int  # how many lines of the log

    @property
    def goes_on(self) -> bool:
        """Whether the last line of this run continues in the next run."""
        return not self.text.endswith(b"\n")


class AttemptRecord(msgspec.Struct, frozen=True):
    """A record in a log: all following lines are from this attempt of the container. number: counted from 0."""

    number: int


class Missing(msgspec.Struct, frozen=True):
    """A record in a log: bytes of text that were logged at this place and are lost. bytes: their number."""

    bytes: int


class KeptPod(msgspec.Struct, frozen=True, rename="camel"):
    """A deleted pod of a Job or a JobSet whose logs are kept.

    rank: the pod's index in the Job, or the last part of its name.
    created: its creation time, RFC 3339.
    containers: the numbers of the runs that have logs, in order, by container.
    role, job_index: for a pod of a JobSet, which of its Jobs the pod belonged to.
    """

    name: str
    uid: str
    rank: str
    created: str
    containers: Mapping[str, tuple[int, ...]]
    role: str = ""
    job_index: str = ""


def split_runs(block: bytes) -> Iterator[LineRun]:
    """Yield the runs in whole lines of a log.

    Only a newline ends a line. A line without a head, as a full disk leaves it, is skipped.
    """
    lines = block.removesuffix(b"\n").split(b"\n")
    if len(lines) * HEAD_BYTES > len(block) + HEAD_BYTES:  # no log: a user filled the file with short lines
        lines = [line for line in filter(None, lines) if len(line) >= HEAD_BYTES]
    heads = [line[:HEAD_BYTES] for line in lines]
    position = 0
    for head, same in groupby(heads):
        start, position = position, position + len(list(same))
        stamp, kind = head[:STAMP_BYTES], head[STAMP_BYTES:]
        if kind in _WHOLE:
            text = b"\n".join([line[HEAD_BYTES:] for line in lines[start:position]])
            yield LineRun(stamp, _WHOLE[kind], text + b"\n", position - start)
        elif kind in _PARTIAL:
            for line in lines[start:position]:
                yield LineRun(stamp, _PARTIAL[kind], line[HEAD_BYTES:], 1)


def ends_line(line: bytes) -> bool:
    """Return whether a line of a log is a whole line of text or the last part of one."""
    return line[STAMP_BYTES:HEAD_BYTES] in _WHOLE


def stream_of(line: bytes) -> bytes:
    """Return the stream of a line of a log, `STDOUT` or `STDERR`; other bytes for a line without a head."""
    return line[STAMP_BYTES + 1 : HEAD_BYTES - 3]


def read_raw(block: bytes) -> Iterator[LineRun | AttemptRecord | Missing]:
    """Yield the parts of a raw log: runs of lines with one time stamp, and records that the node wrote between them."""
    position = 0
    records = _RECORD.finditer(block) if block.startswith(b"- ") or b"\n- " in block else ()
    for match in records:
        yield from split_runs(block[position : match.start()])
        yield (AttemptRecord if match[1] == b"attempt" else Missing)(int(match[2]))
        position = match.end()
    yield from split_runs(block[position:])


def record(node_record: AttemptRecord | Missing) -> bytes:
    """Return the line of a raw log that contains a node's record."""
    name, number = (
        ("attempt", node_record.number) if isinstance(node_record, AttemptRecord) else ("missing", node_record.bytes)
    )
    return b"- %s F %d\n" % (name.encode(), number)
