"""One request from its arrival to its answer: what it was found to ask for, and what logs and numbers say of it."""

import logging
from dataclasses import dataclass, field

from msgspec.structs import replace

from muster.api.status import ApiError, bad_request, internal_error
from muster.cluster.apiserver.access.audit import Record
from muster.cluster.apiserver.answers import Answer, refusal
from muster.cluster.apiserver.identity.users import Access
from muster.cluster.apiserver.registry.resources import Resource
from muster.cluster.apiserver.request.requestinfo import Target
from muster.cluster.apiserver.traffic import Traffic
from muster.runtime.transport import Request

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Exchange:
    """A request that has begun.

    request: its body may be still to come.
    user: who sent it; an impersonated request acts as another.
    began: on the monotonic clock.
    access: what it is about to do, once that is known.
    is_own: it comes from a part of the cluster itself.
    waited: its body came after it was found that the user may.
    refused: its answer, if it has one already: there is nothing more to do.
    """

    request: Request
    user: str
    traffic: Traffic
    began: float
    verb: str = ""
    target: Target | None = None
    resource: Resource | None = None
    access: Access | None = None
    record: Record | None = None
    waited: bool = False
    is_own: bool = False
    refused: Answer | None = None
    warnings: list[str] = field(default_factory=list)
    annotations: dict[str, str] = field(default_factory=dict)

    def body_came(self, body: bytes) -> None:
        """The request is there as a whole."""
        self.request = replace(self.request, body=body)
        self.waited = True

    def answered(self, answer: Answer) -> Answer:
        """The answer as it is to go out."""
        self.traffic.answered(self.verb, self.target, self.resource, answer.status, self.began)
        return answer if self.record is None else self.record.answered(answer, self.request, self.annotations)

    def failed(self, error: Exception) -> Answer:
        """The answer that says why there is no other."""
        if isinstance(error, RecursionError):
            error = bad_request("the request nests too deep")
        elif not isinstance(error, ApiError):
            extra = {"method": self.request.method, "path": self.request.path[:500]}
            log.error("request failed", exc_info=error, extra=extra)
            error = internal_error(f"{type(error).__name__} (see the server's log)")
        return self.answered(refusal(error, self.warnings))

    def given_up(self) -> None:
        """The client does not wait for the answer: what was asked may have been done."""
        if self.record is not None:
            self.record.given_up()
