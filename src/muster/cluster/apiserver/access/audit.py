"""The audit log: who asked for what, and what came of it, a line of JSON for each stage of a request.

Events are those of `audit.k8s.io/v1`. What goes into one, the policy says (`audit_policy`). A line is written before
the answer goes out: a killed process loses none of what was answered. A disk that is full is said in the
server's own log, and stops no request.
"""

import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
from msgspec.structs import replace

from muster.api.status import ApiError
from muster.cluster.apiserver.access.audit_policy import Policy, Scope, Stage, scope
from muster.cluster.apiserver.access.rbac import Decision
from muster.cluster.apiserver.answers import Answer, Stream, Tunnel
from muster.cluster.apiserver.decode import decode_any
from muster.cluster.apiserver.identity.users import Access, User, user_info
from muster.runtime.clock import Clock
from muster.runtime.ids import Ids
from muster.runtime.transport import Request, Response

MAX_LOG_BYTES = 100 << 20  # then the log is moved aside, in place of the one before it

log = logging.getLogger(__name__)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class AuditLog:
    """Appends lines to a file that only its owner may read."""

    def __init__(self, path: Path, max_bytes: int = MAX_LOG_BYTES) -> None:
        """Raises `OSError`."""
        self._path = path
        self._max_bytes = max_bytes
        self._descriptor = self._open()
        self._failing = False

    def write(self, line: bytes) -> None:
        """Append a line, if the disk takes it."""
        try:
            self._append(line + b"\n")
        except OSError as error:
            if not self._failing:
                log.error("the audit log is not complete from here on: %s: %s", self._path, error.strerror)  # noqa: TRY400
            self._failing = True
        else:
            self._failing = False

    def _append(self, line: bytes) -> None:
        if os.fstat(self._descriptor).st_size + len(line) > self._max_bytes:
            with suppress(FileNotFoundError):  # it was moved, and then no new one could be opened
                self._path.rename(self._path.with_name(f"{self._path.name}.1"))
            full, self._descriptor = self._descriptor, self._open()
            os.close(full)
        rest = memoryview(line)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


class Audit:
    """Follows requests. `write` gets the lines; `decide` says why a user may do something."""

    def __init__(
        self,
        policy: Policy,
        write: Callable[[bytes], None],
        decide: Callable[[Access], Decision],
        clock: Clock,
        ids: Ids,
    ) -> None:
        self._policy = policy
        self._write = write
        self._decide = decide
        self._clock = clock
        self._ids = ids

    def received(self, request: Request, access: Access, version: str) -> "Record | None":
        """A request has come; None if nothing of it is kept. `version` is that of the resource's API."""
        kept = scope(self._policy, access)
        if kept.level == "None":
            return None
        record = self._begun(request, access, version, kept)
        record.reached("RequestReceived", self._clock.now())
        return record

    def turned_away(self, request: Request, access: Access, version: str) -> None:
        """A request has come without a credential that is known: as upstream, one event says so."""
        kept = scope(self._policy, access)
        if kept.level != "None":
            self._begun(request, access, version, kept).turned_away()

    def _begun(self, request: Request, access: Access, version: str, kept: Scope) -> "Record":
        event = _head(request, access, version) | {
            "level": kept.level,
            "auditID": request.audit_id or self._ids.uid(),
            "requestReceivedTimestamp": _moment(self._clock.now()),
        }
        return Record(event, kept, access, self)

    def moment(self) -> datetime:
        """Now."""
        return self._clock.now()

    def put(self, event: Mapping[str, Any]) -> None:
        """Write an event down."""
        self._write(_encode(event))

    def annotations(self, access: Access) -> dict[str, str]:
        """Whether it was allowed, and why."""
        decision = self._decide(access)
        word = "allow" if decision.allowed else "forbid"
        return {"authorization.k8s.io/decision": word, "authorization.k8s.io/reason": decision.reason}


class Record:
    """What the log says of one request."""

    def __init__(self, event: dict[str, Any], kept: Scope, access: Access, audit: Audit) -> None:
        self._event = event
        self._kept = kept
        self._access = access
        self._audit = audit

    def acts_as(self, user: User) -> None:
        """The request is taken for another user's."""
        self._event["impersonatedUser"] = user_info(user)
        self._access = replace(self._access, user=user)

    def answered(self, answer: Answer, request: Request, annotations: Mapping[str, str]) -> Answer:
        """The answer to the whole request as it is to go out; the end of a stream is an event too.

        `annotations` are others'.
        """
        self._event["annotations"] = {**annotations, **self._audit.annotations(self._access)}
        self._event["responseStatus"] = _status(answer)
        if self._kept.level in ("Request", "RequestResponse") and request.body:
            self._add("requestObject", request.body, request.content_type)
        if isinstance(answer, Stream):
            self.reached("ResponseStarted", self._audit.moment())
            return replace(answer, chunks=self._until_end(answer))
        if isinstance(answer, Tunnel):
            self.reached("ResponseStarted", self._audit.moment())
            return replace(answer, ended=lambda: self.reached("ResponseComplete", self._audit.moment()))
        if isinstance(answer, Response):
            if self._kept.level == "RequestResponse":
                self._add("responseObject", answer.body, answer.content_type)
            self.reached("ResponseComplete", self._audit.moment())
        return answer

    def turned_away(self) -> None:
        """It is not known who asks."""
        self._end(401, "Unauthorized", "Authentication failed")
        self.reached("ResponseStarted", self._audit.moment())

    def given_up(self) -> None:
        """The answer was not waited for: what was asked may have been done."""
        self._event["annotations"] = self._audit.annotations(self._access)
        self._end(504, "Timeout", "the answer was not waited for")
        self.reached("ResponseComplete", self._audit.moment())

    def _end(self, code: int, reason: str, message: str) -> None:
        status = {"status": "Failure", "message": message, "reason": reason, "code": code}
        self._event["responseStatus"] = {"metadata": {}} | status

    def reached(self, stage: Stage, now: datetime) -> None:
        """Write down a stage, unless it is left out."""
        if stage not in self._kept.omit_stages:
            self._audit.put(self._event | {"stage": stage, "stageTimestamp": _moment(now)})

    async def _until_end(self, stream: Stream) -> AsyncIterator[bytes]:
        try:
            async for chunk in stream.chunks:
                yield chunk
        finally:
            await stream.close()
            self.reached("ResponseComplete", self._audit.moment())

    def _add(self, field: str, body: bytes, content_type: str) -> None:
        try:
            value, _ = decode_any(body, content_type, "", strict=False)
        except ApiError:
            return  # the answer says what is wrong with it
        if self._kept.omit_managed_fields:
            _without_managed_fields(value)
        self._event[field] = value


def _head(request: Request, access: Access, version: str) -> dict[str, Any]:
    query = f"?{urlencode(request.query)}" if request.query else ""
    event: dict[str, Any] = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "requestURI": quote(request.path) + query,
        "verb": access.verb,
        "user": user_info(access.user),
        "sourceIPs": ["127.0.0.1"],  # in process, or from this machine
        "userAgent": request.user_agent,
    }
    if access.resource:
        plural, _, subresource = access.resource.partition("/")
        reference = {
            "resource": plural,
            "namespace": access.namespace,
            "name": access.name,
            "apiGroup": access.group,
            "apiVersion": version,
            "subresource": subresource,
        }
        event["objectRef"] = {name: value for name, value in reference.items() if value}
    return event


def _status(answer: Answer) -> dict[str, Any]:
    status: dict[str, Any] = {"metadata": {}, "code": answer.status}
    if isinstance(answer, Response) and answer.status >= 400:
        said = _decode(answer.body) if answer.content_type == "application/json" else {}
        names = ("status", "message", "reason", "details")
        status |= {name: said[name] for name in names if name in said}
    return status


def _without_managed_fields(value: Any) -> None:
    if not isinstance(value, dict):
        return
    items = value.get("items")
    for obj in (value, *(items if isinstance(items, list) else ())):
        meta = obj.get("metadata") if isinstance(obj, dict) else None
        if isinstance(meta, dict):
            meta.pop("managedFields", None)


def _moment(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
