"""The annotations of a job that sends notices of its start and end, and the labels of the pods that send them. Pure.

A target is a URL that gets the notice as JSON, a mail address, or a command. The server runs a pod in the namespace of
the job for each event, so that a command has the rights of the job's own pods and no others.
"""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

NOTIFY_ANNOTATION: Final = "muster.dev/notify"  # the targets, one on a line
NOTIFY_ON_ANNOTATION: Final = "muster.dev/notify-on"  # the events, with commas; without it, the end
# The events of which a notice was sent, with commas. The server writes it.
NOTIFIED_ANNOTATION: Final = "muster.dev/notified"
# Why the last notice that did not arrive failed. The server writes it.
NOTIFY_FAILURE_ANNOTATION: Final = "muster.dev/notify-failure"

# On a pod that sends notices: the UID of its job as a label, the name of the job and the event as annotations.
NOTICE_LABEL: Final = "muster.dev/notice-of"
NOTICE_JOB_ANNOTATION: Final = "muster.dev/notice-job"
NOTICE_EVENT_ANNOTATION: Final = "muster.dev/notice-event"
# The variable by which `muster notify` in such a pod finds a URL or an address.
NOTICE_TARGET_VARIABLE: Final = "MUSTER_NOTICE_TARGET"

MOST_TARGETS: Final = 5
_LONGEST_TARGET = 4096
_QUOTED = 60

_MAIL_PREFIX = "mailto:"
# No program has such a name.
_OTHER_URL = r"[A-Za-z][A-Za-z0-9+.-]*://"
_ADDRESS = r"(?a)[A-Za-z0-9._%+=/-]+@[A-Za-z0-9.-]+"
_LOCAL_USER = r"(?a)[A-Za-z0-9_][A-Za-z0-9._-]*"


class Event(StrEnum):
    """An event of a job of which a notice can be sent, at most once for each event."""

    START = "start"
    REQUEUE = "requeue"
    END = "end"
    FAIL = "fail"


class TargetKind(StrEnum):
    """The kinds of targets of a notice: a URL, a mail address, a command."""

    URL = "url"
    MAIL = "mail"
    COMMAND = "command"


class NotifyError(ValueError):
    """An invalid target or event of a notice. The message is for the user."""


def find_kind(target: str) -> TargetKind:
    """Return whether a target is a URL, a mail address or a command, by its form."""
    if target.startswith(("http://", "https://")):
        return TargetKind.URL
    return TargetKind.MAIL if target.startswith(_MAIL_PREFIX) or re.fullmatch(_ADDRESS, target) else TargetKind.COMMAND


def check_target(target: str) -> str:
    """Return the target of notices unchanged if it is valid. Raises `NotifyError` if not."""
    shown = repr(target) if len(target) <= _QUOTED else f"{target[:_QUOTED]!r}..."
    if not target.strip() or "\n" in target or "\0" in target:
        raise NotifyError(f"{shown}: a notice goes to a URL, a mail address or a command, on one line")
    if len(target) > _LONGEST_TARGET:
        raise NotifyError(f"{shown} is longer than {_LONGEST_TARGET} characters")
    kind = find_kind(target)
    if kind is TargetKind.COMMAND and re.match(_OTHER_URL, target):
        raise NotifyError(f"{shown}: a notice goes to URLs of http:// and https:// alone")
    if kind is TargetKind.URL and not _is_url(target):
        raise NotifyError(f"{shown} is no URL, such as https://example.org/hook")
    if kind is TargetKind.MAIL and not _is_address(address_of(target)):
        raise NotifyError(
            f"{shown} is no mail address, such as ada@example.org, or mailto:ada for a user of the machine"
        )
    return target


def address_of(target: str) -> str:
    """Return the mail address of a target, without `mailto:`."""
    return target.removeprefix(_MAIL_PREFIX)


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        has_host = bool(parts.hostname) and parts.port != 0
        return has_host and text.isprintable() and " " not in text
    except ValueError:
        return False


def _is_address(text: str) -> bool:
    return bool(re.fullmatch(_ADDRESS, text) or re.fullmatch(_LOCAL_USER, text))


def parse_targets(text: str) -> tuple[str, ...]:
    """Parse the annotation with the targets, one on each line; return each once. Raises `NotifyError`."""
    targets = tuple(dict.fromkeys(line.strip() for line in text.splitlines() if line.strip()))
    if len(targets) > MOST_TARGETS:
        raise NotifyError(f"{len(targets)} targets are more than {MOST_TARGETS}")
    return tuple(map(check_target, targets))


def parse_events(text: str) -> frozenset[Event]:
    """Parse events of a job, such as `start,end`. Raises `NotifyError`."""
    names = [name.strip() for name in text.split(",")]
    if "" in names:
        raise NotifyError(f"{text!r} has an empty name of an event; there are {', '.join(Event)}")
    if unknown := [name for name in names if name not in tuple(Event)]:
        raise NotifyError(f"{unknown[0]!r} is no event of a job: there are {', '.join(Event)}")
    return frozenset(map(Event, names))


class NoticeSettings(Struct, frozen=True):
    """The targets of a job's notices, and the events of which the targets get a notice."""

    targets: tuple[str, ...] = ()
    events: frozenset[Event] = frozenset({Event.END})

    def __bool__(self) -> bool:
        """Return whether there is any target."""
        return bool(self.targets)


def make_notice_settings(targets: Sequence[str], events: str = "") -> NoticeSettings:
    """Check targets and events, and return the settings. events: `start,end`; "" for the end. Raises `NotifyError`."""
    parsed = parse_targets("\n".join(map(check_target, targets)))
    return NoticeSettings(parsed, parse_events(events)) if events else NoticeSettings(parsed)


def read_notice_settings(annotations: Mapping[str, str]) -> NoticeSettings:
    """Parse the settings of notices in a job's annotations. Raises `NotifyError`."""
    targets = parse_targets(annotations.get(NOTIFY_ANNOTATION, ""))
    return NoticeSettings(targets, parse_events(annotations.get(NOTIFY_ON_ANNOTATION, Event.END)))


def make_annotations(settings: NoticeSettings) -> dict[str, str]:
    """Return the annotations for a new job with these settings of notices; {} without a target."""
    if not settings:
        return {}
    events = ",".join(event for event in Event if event in settings.events)
    return {NOTIFY_ANNOTATION: "\n".join(settings.targets), NOTIFY_ON_ANNOTATION: events}


def read_notified(annotations: Mapping[str, str]) -> frozenset[str]:
    """Return the names of the events of which a notice was sent already, from a job's annotations."""
    return frozenset(filter(None, annotations.get(NOTIFIED_ANNOTATION, "").split(",")))
