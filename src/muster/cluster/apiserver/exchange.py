"""Keep the state of one request from its arrival to its response, and report it to the audit log and the metrics."""

import logging

from msgspec import Struct, field
from msgspec.structs import replace

from muster.api.status import ApiError, bad_request, internal_error
from muster.cluster.apiserver.access.audit import AuditRecord
from muster.cluster.apiserver.answers import Answer, make_refusal
from muster.cluster.apiserver.identity.users import Access
from muster.cluster.apiserver.registry.resources import Resource
from muster.cluster.apiserver.request.requestinfo import Target
from muster.cluster.apiserver.traffic import Traffic
from muster.runtime.transport import Request

log = logging.getLogger(__name__)


class Exchange(Struct):
    """A request that the server is handling.

    request: the request, whose body may still be missing.
    user: the name of the sender, even if the request runs as another user.
    began: the monotonic time at which the request arrived.
    target: None for a path that belongs to no resource.
    resource: None if the target is not served.
    access: the action that the request asks for; None until it is known.
    record: the request's entry in the audit log; None without an audit log.
    is_own: whether a component of the cluster itself sent the request.
    waited: whether the body arrived after the user was authorized.
    refused: the response, if the server refuses the request before it reads the body.
    """

    request: Request
    user: str
    traffic: Traffic
    began: float
    verb: str = ""
    target: Target | None = None
    resource: Resource | None = None
    access: Access | None = None
    record: AuditRecord | None = None
    waited: bool = False
    is_own: bool = False
    refused: Answer | None = None
    warnings: list[str] = field(default_factory=list)
    annotations: dict[str, str] = field(default_factory=dict)

    def store_body(self, body: bytes) -> None:
        """Store the complete body of the request."""
        self.request = replace(self.request, body=body)
        self.waited = True

    def record_answer(self, answer: Answer) -> Answer:
        """Count the response in metrics and log it; return the response to send."""
        self.traffic.count_answer(self.verb, self.target, self.resource, answer.status, self.began)
        return answer if self.record is None else self.record.log_answer(answer, self.request, self.annotations)

    def make_error_answer(self, error: Exception) -> Answer:
        """Return the response that reports an error, after counting and logging it.

        A `RecursionError` becomes a 400. Any other error but `ApiError` becomes a 500, with its traceback in the log.
        """
        if isinstance(error, RecursionError):
            error = bad_request("the request nests too deep")
        elif not isinstance(error, ApiError):
            extra = {"method": self.request.method, "path": self.request.path[:500]}
            log.error("request failed", exc_info=error, extra=extra)
            error = internal_error(f"{type(error).__name__} (see the server's log)")
        return self.record_answer(make_refusal(error, self.warnings))

    def log_abandoned(self) -> None:
        """Report to the audit log that the client disconnected before the response. The request may have effects."""
        if self.record is not None:
            self.record.log_abandoned()
