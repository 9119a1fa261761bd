"""Run the API server's pipeline: take a request of an authenticated user, and return a response.

Every request takes the same steps. The pipeline finds out the requested action, authorizes the user, and looks up the
resource and verb. Then the module of the verb does the work. HTTP is in `front`, calls without HTTP in `inprocess`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from typing import TypeAlias

from msgspec.structs import replace

from muster.api.batch import JOB
from muster.api.jobset import JOB_SET
from muster.api.status import (
    ApiError,
    StatusDetails,
    bad_request,
    method_not_allowed,
    not_acceptable,
    path_not_found,
)
from muster.cluster.apiserver.access.audit import Audit
from muster.cluster.apiserver.access.impersonation import find_impersonated_user
from muster.cluster.apiserver.admission.chain import AdmissionChain
from muster.cluster.apiserver.answers import Answer, Stream, make_success, warning_headers
from muster.cluster.apiserver.consumption import metrics_actions
from muster.cluster.apiserver.deadlines import Deadlines
from muster.cluster.apiserver.decode import Document, decode, media_type
from muster.cluster.apiserver.endpoints import Endpoints
from muster.cluster.apiserver.exchange import Exchange
from muster.cluster.apiserver.fairqueue import FairQueue, Flow
from muster.cluster.apiserver.identity.users import NOBODY, Authorizer, User, authorize
from muster.cluster.apiserver.objects.documents import Documents
from muster.cluster.apiserver.objects.loading import load_entry
from muster.cluster.apiserver.objects.shared import SharedObjects
from muster.cluster.apiserver.pods.access import PodAccess
from muster.cluster.apiserver.pods.actions import PodActions
from muster.cluster.apiserver.pods.logs import read_kept_log, read_log
from muster.cluster.apiserver.registry.builtin import BINDING, PODS
from muster.cluster.apiserver.registry.resources import Registry, Subresource
from muster.cluster.apiserver.request.attributes import access_of, find_resource, verb_of
from muster.cluster.apiserver.request.call import Call
from muster.cluster.apiserver.request.representation import Listed, Presentation, form_of
from muster.cluster.apiserver.request.requestinfo import list_options, parse_path
from muster.cluster.apiserver.tables import require_include
from muster.cluster.apiserver.throttle import NamespaceThrottle
from muster.cluster.apiserver.traffic import Traffic
from muster.cluster.apiserver.verbs.read import Reader
from muster.cluster.apiserver.verbs.remove import Remover
from muster.cluster.apiserver.verbs.watch import Watcher
from muster.cluster.apiserver.verbs.write import Writer
from muster.cluster.apiserver.visibility import pending_actions
from muster.cluster.nodeconnection import NodeConnection
from muster.cluster.store import Entry, Store
from muster.runtime import metrics
from muster.runtime.clock import Clock
from muster.runtime.ids import Ids, Random
from muster.runtime.transport import APPLY_PATCH, JSON, Request, Response

_STEADY = frozenset({"leases", "events"})
_NO_NODES: Mapping[str, NodeConnection] = {}
_NO_HEADERS: Mapping[str, str] = {}


# Answers a request that neither reads nor writes an object. Raises `ApiError`.
Action: TypeAlias = Callable[[Call], Awaitable[Answer]]


class ApiServer:
    """The API server: the resources of a registry, served from a store."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        ids: Ids,
        random: Random,
        *,
        registry: Registry,
        admission: AdmissionChain,
        authorizer: Authorizer = authorize,
        metrics_registry: metrics.Registry | None = None,
        nodes: Mapping[str, NodeConnection] = _NO_NODES,
        shared: SharedObjects | None = None,
    ) -> None:
        """Make the server.

        nodes: the connections to the nodes, by name; the mapping may change.
        shared: the cache of decoded objects; None for a cache of this server alone.
        """
        self.registry = registry
        self.audit: Audit | None = None  # set by a host that keeps an audit log
        self.metrics = metrics_registry or metrics.Registry()
        self.endpoints = Endpoints(registry, self.metrics)
        self.traffic = Traffic(self.metrics, clock)
        self._authorize = authorizer
        self._admission, self._store = admission, store
        self.ids = ids
        self.clock = clock
        self._nodes = nodes
        self.shared = shared or SharedObjects()
        self.deadlines = Deadlines()
        documents = Documents(store, self.shared)
        self._reader = Reader(store, clock)
        self._fair_queue = FairQueue(clock.monotonic)
        self._throttle = NamespaceThrottle(clock.monotonic)
        self._watcher = Watcher(store, clock, random, self._fair_queue)
        registry.on_replaced(self._watcher.end)
        self._writer = Writer(documents, clock, ids, admission, authorizer)
        self._remover = Remover(documents, self._reader, clock, admission)
        self._pod_actions = PodActions(documents, self._remover, clock, admission.webhooks)
        # By name, such as `pods/log`: the resources and subresources that are neither read nor written as objects.
        self.actions: dict[str, Action] = {
            "bindings": self._bind_named,
            "pods/binding": self._bind,
            "pods/eviction": self._evict,
            "pods/log": self._read_log,
            **{f"{kind.resource}/log": self._read_kept_log for kind in (JOB, JOB_SET)},
            **PodAccess(self._get_entry, self._admit_connection, self._nodes).actions,
            **pending_actions(None),
            **metrics_actions(store, nodes, clock),
        }

    def stop(self) -> None:
        """End all watches. Other requests finish; after the store has closed, it refuses them."""
        self._watcher.stop()

    def record_unauthenticated(self, request: Request) -> None:
        """Record an unauthenticated request in the audit log; nothing else happens to it."""
        if self.audit is None:
            return
        try:
            target = parse_path(request.path)
            access = access_of(request, NOBODY, target, verb_of(request, target))
        except ApiError:
            return  # an invalid request, which the log cannot name
        self.audit.log_unauthenticated(request, access, target.version if target else "")

    async def handle(self, request: Request, user: User, *, is_own: bool = True) -> Answer:
        """Answer a request that this process sends. Raises nothing but cancellation.

        is_own: whether a component of the cluster itself sends the request, not a user.
        """
        exchange = self.begin(request, user)
        exchange.is_own = is_own
        return await self.answer(exchange)

    def begin(self, request: Request, user: User) -> Exchange:
        """Find out the action that a request asks for, and authorize its user.

        The body may still be missing. Raises nothing: if the request is refused, the exchange's `refused` contains the
        response.
        """
        exchange = Exchange(request, user.name, self.traffic, self.clock.monotonic())
        try:
            target = exchange.target = parse_path(request.path)
            verb = exchange.verb = verb_of(request, target)
            if target is not None:
                exchange.resource = self.registry.find(target.group, target.version, target.plural)
            access = self.endpoints.access(request, user) or access_of(request, user, target, verb)
            if self.audit is not None:
                exchange.record = self.audit.open_record(request, access, target.version if target else "")
            if request.headers:
                access = replace(access, user=find_impersonated_user(request.headers, user, self._authorize))
                if exchange.record is not None:
                    exchange.record.record_impersonation(access.user)
            self._authorize(access)
            exchange.access = access
        except Exception as error:  # noqa: BLE001  (`make_error_answer` logs the error)
            exchange.refused = exchange.make_error_answer(error)
        return exchange

    async def answer(self, exchange: Exchange) -> Answer:
        """Answer a request whose body is complete. Raises nothing but cancellation."""
        try:
            if exchange.refused is not None:
                return exchange.refused
            if not exchange.is_own:
                with self._throttle.of_user():
                    return await self._answer_in_turn(exchange, "")
            part = _find_own_namespace(exchange)
            is_limited = part != "" and exchange.request.method != "GET"
            async with self._throttle.of(part) if is_limited else nullcontext():
                return await self._answer_in_turn(exchange, part)
        except asyncio.CancelledError:
            exchange.log_abandoned()
            raise
        except Exception as error:  # noqa: BLE001  (`make_error_answer` logs the error)
            return exchange.make_error_answer(error)

    async def _answer_in_turn(self, exchange: Exchange, part: str) -> Answer:
        """Answer a request when it is its turn. part: the part of its flow (`Flow`)."""
        if not self._fair_queue.take_at_once():
            await self._fair_queue.take(Flow(exchange.user, part=part))
        return exchange.record_answer(await self._answer(exchange))

    async def _answer(self, exchange: Exchange) -> Answer:
        """Answer an authorized request: by an endpoint, a resource or a subresource. Raises `ApiError`."""
        request, access, target = exchange.request, exchange.access, exchange.target
        assert access is not None, "it was not refused"
        if exchange.waited:
            self._authorize(access)  # once more, because rights may have been revoked while the body came
        if target is None:
            if request.method != "GET":
                raise method_not_allowed()
            return await self.endpoints.answer(request)
        resource = find_resource(self.registry, target, access.verb)
        if resource.deprecation:
            exchange.warnings.append(resource.deprecation)
        subresource = resource.subresource(target.subresource) if target.subresource else None
        call = Call(
            request,
            access.user,
            access.verb,
            resource,
            resource.view if subresource is None else subresource.bodies,
            target.namespace,
            target.name,
            target.subresource,
            exchange.warnings,
            exchange.annotations,
            exchange.is_own,
        )
        return await (self._answer_subresource(call, subresource) if call.subresource else self._answer_resource(call))

    async def _answer_resource(self, call: Call) -> Answer:
        """Answer a request on a resource: by the resource's own action if it has one, otherwise by the verb."""
        if action := self.actions.get(call.resource.name):
            # An object that is not stored cannot be a table. kubectl prefers a table, but accepts the object.
            accepted = [each.strip() for each in call.request.accept.split(",")]
            if form_of(call.request.accept) != "object" and JSON not in accepted:
                raise not_acceptable()
            return await action(call)
        match call.verb:
            case "get":
                return await self._get(call)
            case "list" | "watch":
                return await self._list_or_watch(call)
            case "create":
                _check_form(call)
                return self._present_object(call, await self._writer.create(call), 201)
            case "delete":
                _check_form(call)
                removed = await self._remover.delete(call)
                if isinstance(removed, StatusDetails):
                    return make_success(removed, warnings=call.warnings)
                return self._present_object(call, removed)
            case "deletecollection":
                _check_form(call)
                return _make_list_answer(
                    call, await self._make_presentation(call).list(*await self._remover.delete_collection(call))
                )
            case _:
                return await self._change_object(call)

    async def _answer_subresource(self, call: Call, subresource: Subresource | None) -> Answer:
        if subresource is None:
            raise path_not_found()
        if call.verb not in subresource.verbs:
            raise method_not_allowed()
        if subresource.view is None:
            return await self.actions[call.action](call)
        return await (self._get(call) if call.verb == "get" else self._change_object(call))

    async def _bind_named(self, call: Call) -> Response:
        return await self._bind(replace(call, resource=PODS, name=_read_pod_name(call), subresource="binding"))

    async def _bind(self, call: Call) -> Response:
        await self._pod_actions.bind(call)
        return make_success(code=201, warnings=call.warnings)

    async def _evict(self, call: Call) -> Response:
        await self._pod_actions.evict(call)
        return make_success(code=201, warnings=call.warnings)

    async def _read_log(self, call: Call) -> Stream:
        return await read_log(self._get_entry(call), call.request.query, self._nodes)

    async def _read_kept_log(self, call: Call) -> Response | Stream:
        return await read_kept_log(self._get_entry(call), call.request.query, self._nodes)

    def _get_entry(self, call: Call) -> Entry:
        return self._reader.get(call.key, call.resource, {})

    async def _admit_connection(self, call: Call, options: Document) -> None:
        attempt = call.make_attempt("CONNECT", options)
        await self._admission.change(attempt, self._store, call.warnings)
        await self._admission.judge(attempt, self._store, call.warnings)

    async def _get(self, call: Call) -> Response:
        entry = self._reader.get(call.key, call.resource, call.request.query)
        return self._present_object(call, self.shared.read_body(await load_entry(call.resource, entry)))

    async def _list_or_watch(self, call: Call) -> Response | Stream:
        """Answer a list, or a watch as an endless stream."""
        query = call.request.query
        options = list_options(query)
        form, include = form_of(call.request.accept), query.get("includeObject", "")
        reading = (call.resource, call.view, call.namespace, options, form, include)
        if options.watch:
            flow = Flow(call.user.name, watches=True, part=call.resource.name if call.is_own else "")
            chunks = self._watcher.watch(flow, *reading, as_events=call.request.as_events)
            return Stream(chunks, headers=warning_headers(call.warnings), rests=True, is_endless=True)
        return _make_list_answer(call, await self._reader.list(*reading))

    async def _change_object(self, call: Call) -> Response:
        _check_form(call)
        if call.verb == "update":
            body, created = await self._writer.update(call)
        elif media_type(call.request.content_type) == APPLY_PATCH:
            body, created = await self._writer.apply(call)
        else:
            body, created = await self._writer.patch(call), False
        return self._present_object(call, body, 201 if created else 200)

    def _present_object(self, call: Call, body: bytes, code: int = 200) -> Response:
        headers = warning_headers(call.warnings) if call.warnings else _NO_HEADERS
        if call.view.show is None and form_of(call.request.accept) == "object":
            return Response(code, body, JSON, headers)
        return Response(code, self._make_presentation(call).one(body), JSON, headers)

    def _make_presentation(self, call: Call) -> Presentation:
        form = form_of(call.request.accept)
        include = call.request.query.get("includeObject", "") if form == "table" else ""
        return Presentation(call.resource, call.view, form, include, self.clock.now())


def _find_own_namespace(exchange: Exchange) -> str:
    """Return the namespace of a request from the cluster itself; "" for other requests, leases and events.

    The server slows down the requests of a busy namespace by this name.
    """
    target = exchange.target
    return "" if not exchange.is_own or target is None or target.plural in _STEADY else target.namespace


def _make_list_answer(call: Call, listed: Listed) -> Response | Stream:
    """Return the response for a list: a whole body, or a stream of pieces."""
    headers = warning_headers(call.warnings)
    return Response(200, listed, JSON, headers) if isinstance(listed, bytes) else Stream(listed, headers=headers)


def _check_form(call: Call) -> None:
    """Raise `ApiError` (400, 406) if the response's format is not available. Call this before any write."""
    if form_of(call.request.accept) == "table":
        require_include(call.request.query.get("includeObject", ""))


def _read_pod_name(call: Call) -> str:
    """Return the pod's name in a Binding that was posted to `bindings`. Raises `ApiError` (400)."""
    document = decode(call.request.body, call.request.content_type, BINDING.kind, strict=False).document
    meta = document.get("metadata")
    name = meta.get("name") if isinstance(meta, dict) else None
    if not isinstance(name, str) or not name:
        raise bad_request("name must be provided")
    return name
