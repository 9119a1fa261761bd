"""Serves the logs of a process node's pods to the API server, at the path and port of a kubelet.

A caller shows a certificate of the cluster's authority, and the API server says whether that user may do as much (`get`
of `nodes/proxy`, as kubelets ask). There is no other way in.
"""

import logging
import ssl
from contextlib import aclosing
from datetime import datetime
from pathlib import Path

from aiohttp import web

from muster.api.core import Pod
from muster.api.server.authorization import (
    SUBJECT_ACCESS_REVIEW,
    ResourceAttributes,
    SubjectAccessReview,
    SubjectAccessReviewSpec,
)
from muster.api.status import ApiError, not_found
from muster.cluster.apiserver.identity.certificates import Authority, user_of_der
from muster.cluster.apiserver.identity.users import User
from muster.cluster.apiserver.pods.logs import TEXT, container_of, log_options, started
from muster.cluster.nodeconnection import LogSource
from muster.operator.endpoints import Handler
from muster.runtime.client import Client
from muster.runtime.informer import Informer
from muster.runtime.transport import TransportError

PORT = 10250  # a kubelet's
PATH = "/containerLogs/{namespace}/{pod}/{container}"

log = logging.getLogger(__name__)


def context(home: Path, now: datetime, names: tuple[str, ...], callers: bytes) -> ssl.SSLContext:
    """TLS with a certificate of this node's own; callers: the authority of theirs, PEM. Raises `OSError`."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.verify_mode = ssl.CERT_REQUIRED
    made.load_verify_locations(cadata=callers.decode("ascii", "replace"))
    made.load_cert_chain(Authority(home, now).server(names).file)
    return made


def handler(client: Client, node: str, pods: Informer[Pod], source: LogSource) -> Handler:
    """Answers at `PATH`. pods: those of the node."""

    async def answer(request: web.Request) -> web.StreamResponse:
        try:
            if not await _may(client, _caller(request), node):
                return web.Response(text=f"Forbidden: it takes get of nodes/proxy for node {node}\n", status=403)
            namespace, name, container = (request.match_info[part] for part in ("namespace", "pod", "container"))
            pod = pods.get(f"{namespace}/{name}")
            if pod is None:
                raise not_found("pods", name[:100])
            options = log_options(name, container_of(pod, container), request.query)
            pieces = await started(source.logs(pod, options))
        except ApiError as error:
            return web.Response(text=f"{error}\n", status=error.code)
        except TransportError as error:
            log.warning("%s: logs: whether they may be read could not be asked: %s", node, error)
            return web.Response(text=f"{error}\n", status=503)
        async with aclosing(pieces):
            response = web.StreamResponse(headers={"Content-Type": TEXT})
            await response.prepare(request)
            async for piece in pieces:
                await response.write(piece)
        return response

    return answer


def _caller(request: web.Request) -> User | None:
    """Whom the certificate names that the TLS layer has checked."""
    tls = request.get_extra_info("ssl_object")
    certificate = tls.getpeercert(binary_form=True) if tls is not None else None
    return user_of_der(certificate) if certificate else None


async def _may(client: Client, user: User | None, node: str) -> bool:
    """Raises `ApiError`, `TransportError`."""
    if user is None:
        return False
    access = ResourceAttributes(verb="get", version="v1", resource="nodes", subresource="proxy", name=node)
    asked = SubjectAccessReviewSpec(resource_attributes=access, user=user.name, groups=tuple(sorted(user.groups)))
    return (await client.create(SUBJECT_ACCESS_REVIEW, SubjectAccessReview(spec=asked))).status.allowed
