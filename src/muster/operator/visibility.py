"""Serve the visibility API of a real cluster: kube-apiserver forwards requests for that group to the leader.

Only the leader has the queues, so only the leader serves: the Service selects it by its label (`leaderlabel`). The
responses are those of the embedded server.
"""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

from muster.api.config import Configuration
from muster.api.core import CONFIG_MAP
from muster.api.server.authorization import (
    SUBJECT_ACCESS_REVIEW,
    NonResourceAttributes,
    ResourceAttributes,
    SubjectAccessReview,
    SubjectAccessReviewSpec,
)
from muster.api.status import ApiError, internal_error, method_not_allowed, path_not_found
from muster.cluster.apiserver.answers import make_refusal
from muster.cluster.apiserver.endpoints import Endpoints
from muster.cluster.apiserver.front.inbound import InboundRequest
from muster.cluster.apiserver.identity import users
from muster.cluster.apiserver.identity.users import Access, User
from muster.cluster.apiserver.registry.kueue import VISIBILITY
from muster.cluster.apiserver.registry.resources import Registry
from muster.cluster.apiserver.request.attributes import access_of, find_resource, verb_of
from muster.cluster.apiserver.request.call import Call
from muster.cluster.apiserver.request.requestinfo import parse_path
from muster.cluster.apiserver.visibility import PendingWorkloads, pending_actions
from muster.operator import frontproxy
from muster.operator.endpoints import serve_handlers
from muster.operator.frontproxy import FrontProxy
from muster.operator.replica import Replica
from muster.operator.routes import ANY, Handler
from muster.operator.serving import run_manager
from muster.runtime import metrics
from muster.runtime.client import Client
from muster.runtime.control.manager import Manager
from muster.runtime.tasks import run_until_first
from muster.runtime.transport import Request, Response, TransportError
from muster.webhooks.bundles import VISIBILITY as TOLD
from muster.webhooks.bundles import Bundles
from muster.webhooks.keeping import Certificates

# Checks access by a user, given the version of the group. Raises `ApiError` (403) if forbidden, `TransportError`.
Authorizer = Callable[[Access, str], Awaitable[None]]

# The wait after a failure to serve.
RETRY_SECONDS = 30.0

log = logging.getLogger(__name__)


def make_authorizer(client: Client) -> Authorizer:
    """Return an authorizer that asks the API server, and raises `ApiError` if the user lacks the right."""

    async def authorize(access: Access, version: str) -> None:
        review = await client.create(
            SUBJECT_ACCESS_REVIEW, SubjectAccessReview(spec=_make_access_review(access, version))
        )
        if not review.status.allowed:
            raise users.make_refusal(access, review.status.reason)

    return authorize


def _make_access_review(access: Access, version: str) -> SubjectAccessReviewSpec:
    plural, _, subresource = access.resource.partition("/")
    on_resource = ResourceAttributes(
        namespace=access.namespace,
        verb=access.verb,
        group=access.group,
        version=version,
        resource=plural,
        subresource=subresource,
        name=access.name,
    )
    user = access.user
    return SubjectAccessReviewSpec(
        resource_attributes=on_resource if access.resource else None,
        non_resource_attributes=None if access.resource else NonResourceAttributes(path=access.path, verb=access.verb),
        user=user.name,
        groups=tuple(sorted(user.groups)),
        extra=dict(user.extra),
        uid=user.uid,
    )


class VisibilityServer:
    """The handler of requests to the visibility API, for authenticated users."""

    def __init__(self, pending: PendingWorkloads, authorize: Authorizer) -> None:
        self._registry = Registry(VISIBILITY)
        self._endpoints = Endpoints(self._registry, metrics.Registry())
        self._actions = pending_actions(pending)
        self._authorize = authorize

    async def answer(self, request: Request, user: User) -> Response:
        """Return the answer to a user's request. Raises `ApiError`, `TransportError`."""
        target = parse_path(request.path)
        verb = verb_of(request, target)
        await self._authorize(access_of(request, user, target, verb), target.version if target else "")
        if target is None:
            if request.method != "GET":
                raise method_not_allowed()
            answer = await self._endpoints.answer(request)
            assert isinstance(answer, Response), "nothing here goes on"
            return answer
        resource = find_resource(self._registry, target, verb)
        subresource = resource.subresource(target.subresource)
        if subresource is None:
            raise path_not_found()
        if verb not in subresource.verbs:
            raise method_not_allowed()
        view, where = subresource.bodies, (target.namespace, target.name, target.subresource)
        call = Call(request, user, verb, resource, view, *where)
        return await self._actions[call.action](call)


def make_handler(server: VisibilityServer, proxy: FrontProxy) -> Handler:
    """Return the handler for requests that the front proxy forwards."""

    async def handle(inbound: InboundRequest) -> Response:
        request = Request(inbound.method, inbound.path, inbound.query, accept=inbound.header("accept"))
        try:
            return await server.answer(request, frontproxy.find_user(proxy, inbound.user, inbound.headers))
        except ApiError as error:
            return make_refusal(error)
        except TransportError as error:
            log.warning("visibility API: whether a user may ask could not be asked: %s", error)
            return make_refusal(internal_error("whether it is allowed cannot be found out now"))

    return handle


class _Proxies:
    """A watcher of the ConfigMap that describes the cluster's front proxy (`extension-apiserver-authentication`)."""

    def __init__(self, manager: Manager) -> None:
        named = f"metadata.name={frontproxy.CONFIG_MAP_NAME}"
        self._told = manager.informer(CONFIG_MAP, namespace=frontproxy.NAMESPACE, fields=named)
        self._changed = asyncio.Event()
        self._told.on_change(lambda _old, _new: self._changed.set())

    def known(self) -> FrontProxy | None:
        """Return the front proxy that the ConfigMap describes now; None if it describes none or is invalid."""
        config = self._told.get(f"{frontproxy.NAMESPACE}/{frontproxy.CONFIG_MAP_NAME}")
        try:
            return frontproxy.read(config.data) if config is not None else None
        except ValueError as error:
            log.warning("visibility API: ConfigMap %s cannot be read: %s", frontproxy.CONFIG_MAP_NAME, error)
            return None

    async def until_other_than(self, proxy: FrontProxy | None) -> None:
        while self.known() == proxy:
            self._changed.clear()
            await self._changed.wait()


def serve_visibility(
    manager: Manager,
    certificates: Certificates,
    settings: Configuration,
    replica: Replica,
    report: Callable[[str], None],
) -> AbstractAsyncContextManager[None]:
    """Serve the visibility API until the context closes, as soon as the replica leads and has a certificate.

    report: called with the address.
    """
    manager.add(Bundles(manager, certificates, replica.began, TOLD))
    proxies = _Proxies(manager)
    bound = settings.visibility_server
    where = f"{bound.bind_address or ''}:{bound.bind_port}"

    async def serve_for(proxy: FrontProxy, server: VisibilityServer) -> None:
        with certificates.context() as context:
            context.verify_mode = ssl.CERT_OPTIONAL  # probes show no certificate, and get 401
            context.load_verify_locations(cadata=proxy.authorities.encode("ascii", "replace").decode())
            async with serve_handlers(where, {"/": make_handler(server, proxy)}, context, ANY) as port:
                report(f"visibility API at port {port}")
                with replica.selected():
                    await proxies.until_other_than(proxy)

    async def attempt(proxy: FrontProxy, server: VisibilityServer) -> None:
        """Serve as long as this front proxy is valid.

        An invalid authority or a port in use is logged, because an administrator may correct it later.
        """
        try:
            await serve_for(proxy, server)
        except OSError as error:
            log.warning("no visibility API: %s; the next try is in %d s", error, RETRY_SECONDS)
            await run_until_first(proxies.until_other_than(proxy), manager.clock.sleep(RETRY_SECONDS))

    async def serve() -> None:
        for ready in (replica.started, manager.ready, certificates.ready):
            await ready.wait()
        if replica.visibility is None:
            return
        server = VisibilityServer(replica.visibility, make_authorizer(manager.client))
        while True:
            proxy = proxies.known()
            if proxy is None:
                log.warning("no visibility API: the server passes on no requests (--requestheader-client-ca-file)")
                await proxies.until_other_than(None)
            else:
                await attempt(proxy, server)

    return run_manager("visibility API", manager, serve)
