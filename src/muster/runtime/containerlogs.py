"""The log of a container as the container runtimes keep it: `<time> <stream> <tag> <text>` a line.

The tag is F for a line, P for a part of one that goes on. Our nodes write times of one length, so all heads have one.
They serve logs as they are to who asks for `raw`, with records of their own in between: `- <what> F <number>`, which no
line of a log looks like, since each begins with a time.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

import msgspec

# `2026-01-01T12:00:00.000000000Z stdout F `
HEAD_BYTES = 40
STAMP_BYTES = 30
STDOUT, STDERR = b"stdout", b"stderr"
_WHOLE = {b" %s F " % stream: stream for stream in (STDOUT, STDERR)}
_PARTIAL = {b" %s P " % stream: stream for stream in (STDOUT, STDERR)}
_RECORD = re.compile(rb"(?m)^- (attempt|missing) F (\d+)\n")


@dataclass(frozen=True, slots=True)
class Run:
    """Lines with one head, or a part of a line."""

    stamp: bytes
    stream: bytes
    text: bytes  # with the ends of the lines
    lines: int  # of the log

    @property
    def goes_on(self) -> bool:
        """Whether its line goes on."""
        return not self.text.endswith(b"\n")


@dataclass(frozen=True, slots=True)
class Attempt:
    """From here on the log is of this attempt; its number counts up from 0."""

    number: int


@dataclass(frozen=True, slots=True)
class Missing:
    """So many bytes of text were logged at this place and are gone."""

    bytes: int


class KeptPod(msgspec.Struct, frozen=True, rename="camel"):
    """A pod of a Job or a JobSet that is gone and has left its logs.

    rank: its index in the Job, or the last part of its name. created: when it was made, RFC 3339.
    containers: the numbers of their runs that there are logs of, in order.
    role, job_index: of a JobSet, which Job the pod was of.
    """

    name: str
    uid: str
    rank: str
    created: str
    containers: Mapping[str, tuple[int, ...]]
    role: str = ""
    job_index: str = ""


def runs(block: bytes) -> Iterator[Run]:
    """The text of whole lines of a log.

    Of all that looks like a line end, only this one is one. What has no head, as a full disk leaves it, is left out.
    """
    lines = block.removesuffix(b"\n").split(b"\n")
    heads = [line[:HEAD_BYTES] for line in lines]
    position = 0
    for head, same in groupby(heads):
        start, position = position, position + len(list(same))
        stamp, kind = head[:STAMP_BYTES], head[STAMP_BYTES:]
        if kind in _WHOLE:
            text = b"\n".join([line[HEAD_BYTES:] for line in lines[start:position]])
            yield Run(stamp, _WHOLE[kind], text + b"\n", position - start)
        elif kind in _PARTIAL:
            for line in lines[start:position]:
                yield Run(stamp, _PARTIAL[kind], line[HEAD_BYTES:], 1)


def read_raw(block: bytes) -> Iterator[Run | Attempt | Missing]:
    """What is in whole lines of a raw log."""
    position = 0
    records = _RECORD.finditer(block) if block.startswith(b"- ") or b"\n- " in block else ()
    for match in records:
        yield from runs(block[position : match.start()])
        yield (Attempt if match[1] == b"attempt" else Missing)(int(match[2]))
        position = match.end()
    yield from runs(block[position:])


def record(what: Attempt | Missing) -> bytes:
    """A record of the node's own, for a raw log."""
    name, number = ("attempt", what.number) if isinstance(what, Attempt) else ("missing", what.bytes)
    return b"- %s F %d\n" % (name.encode(), number)
