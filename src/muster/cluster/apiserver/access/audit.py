"""Write the audit log: one line of JSON for each stage of a request, with the user, the target and the outcome.

The lines are events of `audit.k8s.io/v1`. The policy decides what each event contains (`audit_policy`). The server
writes a line before it sends the answer, so a killed process has logged every request that it answered. A failed
write, such as on a full disk, is reported in the server's own log and fails no request.
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
from muster.cluster.apiserver.access.audit_policy import Policy, Scope, Stage, find_scope
from muster.cluster.apiserver.access.rbac import AccessDecision
from muster.cluster.apiserver.answers import Answer, Stream, Tunnel
from muster.cluster.apiserver.decode import decode_any
from muster.cluster.apiserver.identity.users import Access, User, user_info
from muster.runtime.clock import Clock
from muster.runtime.ids import Ids
from muster.runtime.transport import Request, Response

MAX_LOG_BYTES = 100 << 20  # a full log is renamed to `.1`, which replaces the one renamed before

log = logging.getLogger(__name__)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class AuditLog:
    """A log file that only its owner may read. Lines are appended, and a full file is renamed."""

    def __init__(self, path: Path, max_bytes: int = MAX_LOG_BYTES) -> None:
        """Open the file, or create it. Raises `OSError`."""
        self._path = path
        self._max_bytes = max_bytes
        self._descriptor = self._open()
        self._failing = False

    def write(self, line: bytes) -> None:
        """Append a line. If that fails, report it in the server's log, unless the write before failed, too."""
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
            with suppress(FileNotFoundError):  # an earlier call renamed the file and then could not open a new one
                self._path.rename(self._path.with_name(f"{self._path.name}.1"))
            full, self._descriptor = self._descriptor, self._open()
            os.close(full)
        rest = memoryview(line)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


class Audit:
    """The audit of one server: its policy, its log, and the clock and IDs that all records use.

    write: writes a line to the log.
    decide: returns whether a user may do something, and why.
    """

    def __init__(
        self,
        policy: Policy,
        write: Callable[[bytes], None],
        decide: Callable[[Access], AccessDecision],
        clock: Clock,
        ids: Ids,
    ) -> None:
        self._policy = policy
        self._write = write
        self._decide = decide
        self._clock = clock
        self._ids = ids

    def open_record(self, request: Request, access: Access, version: str) -> "AuditRecord | None":
        """Open the audit record of a request, and log `RequestReceived`.

        Return None if the policy logs nothing of the request.

        version: the version of the resource's API.
        """
        policy_scope = find_scope(self._policy, access)
        if policy_scope.level == "None":
            return None
        record = self._begin_record(request, access, version, policy_scope)
        record.log_stage("RequestReceived", self._clock.now())
        return record

    def log_unauthenticated(self, request: Request, access: Access, version: str) -> None:
        """Log a request without a known credential, as one event, as kube-apiserver does."""
        policy_scope = find_scope(self._policy, access)
        if policy_scope.level != "None":
            self._begin_record(request, access, version, policy_scope).log_unauthenticated()

    def _begin_record(self, request: Request, access: Access, version: str, policy_scope: Scope) -> "AuditRecord":
        event = _make_head(request, access, version) | {
            "level": policy_scope.level,
            "auditID": request.audit_id or self._ids.uid(),
            "requestReceivedTimestamp": _render_moment(self._clock.now()),
        }
        return AuditRecord(event, policy_scope, access, self)

    def moment(self) -> datetime:
        """Return the current time."""
        return self._clock.now()

    def put(self, event: Mapping[str, Any]) -> None:
        """Write an audit event as a line of the log."""
        self._write(_encode(event))

    def annotations(self, access: Access) -> dict[str, str]:
        """Return the annotations that record whether the access was allowed, and why."""
        decision = self._decide(access)
        word = "allow" if decision.allowed else "forbid"
        return {"authorization.k8s.io/decision": word, "authorization.k8s.io/reason": decision.reason}


class AuditRecord:
    """The audit event of one request, which grows from stage to stage."""

    def __init__(self, event: dict[str, Any], scope: Scope, access: Access, audit: Audit) -> None:
        self._event = event
        self._scope = scope
        self._access = access
        self._audit = audit

    def record_impersonation(self, user: User) -> None:
        """Record that the request runs as another user (impersonation)."""
        self._event["impersonatedUser"] = user_info(user)
        self._access = replace(self._access, user=user)

    def log_answer(self, answer: Answer, request: Request, annotations: Mapping[str, str]) -> Answer:
        """Log a response, and return the response to send, which also logs when a stream or tunnel ends.

        annotations: further annotations of the audit event, such as those that admission added.
        """
        self._event["annotations"] = {**annotations, **self._audit.annotations(self._access)}
        self._event["responseStatus"] = _make_status(answer)
        if self._scope.level in ("Request", "RequestResponse") and request.body:
            self._add("requestObject", request.body, request.content_type)
        if isinstance(answer, Stream):
            self.log_stage("ResponseStarted", self._audit.moment())
            return replace(answer, chunks=self._log_after_end(answer))
        if isinstance(answer, Tunnel):
            self.log_stage("ResponseStarted", self._audit.moment())
            return replace(answer, ended=lambda: self.log_stage("ResponseComplete", self._audit.moment()))
        if isinstance(answer, Response):
            if self._scope.level == "RequestResponse":
                self._add("responseObject", answer.body, answer.content_type)
            self.log_stage("ResponseComplete", self._audit.moment())
        return answer

    def log_unauthenticated(self) -> None:
        """Log that the request was refused with 401."""
        self._end(401, "Unauthorized", "Authentication failed")
        self.log_stage("ResponseStarted", self._audit.moment())

    def log_abandoned(self) -> None:
        """Log that the client disconnected before the response. The request may have effects."""
        self._event["annotations"] = self._audit.annotations(self._access)
        self._end(504, "Timeout", "the answer was not waited for")
        self.log_stage("ResponseComplete", self._audit.moment())

    def _end(self, code: int, reason: str, message: str) -> None:
        status = {"status": "Failure", "message": message, "reason": reason, "code": code}
        self._event["responseStatus"] = {"metadata": {}} | status

    def log_stage(self, stage: Stage, now: datetime) -> None:
        """Log a stage, unless the policy omits it."""
        if stage not in self._scope.omit_stages:
            self._audit.put(self._event | {"stage": stage, "stageTimestamp": _render_moment(now)})

    async def _log_after_end(self, stream: Stream) -> AsyncIterator[Any]:
        try:
            async for chunk in stream.chunks:
                yield chunk
        finally:
            await stream.close()
            self.log_stage("ResponseComplete", self._audit.moment())

    def _add(self, field: str, body: bytes, content_type: str) -> None:
        try:
            value, _ = decode_any(body, content_type, "", strict=False)
        except ApiError:
            return  # the answer already says why the body is invalid
        if self._scope.omit_managed_fields:
            _remove_managed_fields(value)
        self._event[field] = value


def _make_head(request: Request, access: Access, version: str) -> dict[str, Any]:
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


def _make_status(answer: Answer) -> dict[str, Any]:
    status: dict[str, Any] = {"metadata": {}, "code": answer.status}
    if isinstance(answer, Response) and answer.status >= 400:
        body = _decode(answer.body) if answer.content_type == "application/json" else {}
        names = ("status", "message", "reason", "details")
        status |= {name: body[name] for name in names if name in body}
    return status


def _remove_managed_fields(value: Any) -> None:
    if not isinstance(value, dict):
        return
    items = value.get("items")
    for obj in (value, *(items if isinstance(items, list) else ())):
        meta = obj.get("metadata") if isinstance(obj, dict) else None
        if isinstance(meta, dict):
            meta.pop("managedFields", None)


def _render_moment(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
