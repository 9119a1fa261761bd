"""Serve the logs of a process node's pods to the API server, at the path and port of a kubelet.

A caller needs a client certificate of the cluster's authority, and the API server decides whether that user may read
logs (`get` of `nodes/proxy`, as for kubelets). There is no other authentication.
"""

import logging
import ssl
from datetime import datetime
from pathlib import Path

from muster.api.core import Pod
from muster.api.server.authorization import (
    SUBJECT_ACCESS_REVIEW,
    ResourceAttributes,
    SubjectAccessReview,
    SubjectAccessReviewSpec,
)
from muster.api.status import not_found, path_not_found
from muster.cluster.apiserver.answers import Stream
from muster.cluster.apiserver.front.inbound import InboundRequest
from muster.cluster.apiserver.identity.certificates import Authority
from muster.cluster.apiserver.identity.users import User
from muster.cluster.apiserver.pods.logs import TEXT, await_first_piece, container_of, log_options
from muster.cluster.nodeconnection import LogSource
from muster.operator.routes import Handler, text_answer
from muster.runtime.client import Client
from muster.runtime.informer import Informer
from muster.runtime.transport import Response, TransportError

PORT = 10250  # a kubelet's
PATH = "/containerLogs/"  # then namespace, pod and container

log = logging.getLogger(__name__)


def make_tls_context(home: Path, now: datetime, names: tuple[str, ...], callers: bytes) -> ssl.SSLContext:
    """Return a TLS context with the node's own certificate. callers: the authority (PEM) of the callers' certificates.

    Raises `OSError`.
    """
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.verify_mode = ssl.CERT_REQUIRED
    made.load_verify_locations(cadata=callers.decode("ascii", "replace"))
    made.load_cert_chain(Authority(home, now).server(names).file)
    return made


def make_log_handler(client: Client, node: str, pods: Informer[Pod], source: LogSource) -> Handler:
    """Return the handler of requests below `PATH` for the logs of a container. pods: the pods of the node."""

    async def answer(request: InboundRequest) -> Response | Stream:
        try:
            if not await _is_allowed(client, request.user, node):
                return text_answer(403, f"Forbidden: it takes get of nodes/proxy for node {node}\n")
            namespace, name, container = _parse_path(request.path)
            pod = pods.get(f"{namespace}/{name}")
            if pod is None:
                raise not_found("pods", name[:100])
            options = log_options(name, container_of(pod, container), request.query)
            return Stream(await await_first_piece(source.logs(pod, options)), TEXT, is_endless=True)
        except TransportError as error:
            log.warning("%s: logs: whether they may be read could not be asked: %s", node, error)
            return text_answer(503, f"{error}\n")

    return answer


def _parse_path(path: str) -> tuple[str, str, str]:
    """Return the namespace, pod and container of a path. Raises `ApiError` (404) for any other path."""
    parts = path.removeprefix(PATH).split("/")
    if len(parts) != 3:
        raise path_not_found()
    namespace, name, container = parts
    return namespace, name, container


async def _is_allowed(client: Client, user: User | None, node: str) -> bool:
    """Return whether the user may read the node's logs. Raises `ApiError`, `TransportError`."""
    if user is None:
        return False
    access = ResourceAttributes(verb="get", version="v1", resource="nodes", subresource="proxy", name=node)
    review_spec = SubjectAccessReviewSpec(resource_attributes=access, user=user.name, groups=tuple(sorted(user.groups)))
    return (await client.create(SUBJECT_ACCESS_REVIEW, SubjectAccessReview(spec=review_spec))).status.allowed
