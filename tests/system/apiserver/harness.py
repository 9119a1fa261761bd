"""An API server in virtual time, without controllers: tests speak to it in requests and see answers."""

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from tests.system.plane import running

from muster.api.config import EMBEDDED, Configuration
from muster.cluster.apiserver.identity.users import ADMIN, User
from muster.cluster.apiserver.inprocess import InProcessTransport
from muster.cluster.controlplane import ControlPlane
from muster.runtime.client import iterate_lines
from muster.runtime.clock import run_virtual
from muster.runtime.transport import JSON, Request, Response

NAMESPACES = "/api/v1/namespaces"
DEFAULT = f"{NAMESPACES}/default"
PODS = f"{DEFAULT}/pods"
MAPS = f"{DEFAULT}/configmaps"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
EVENTS = f"{DEFAULT}/events"
EVENTS_V1 = "/apis/events.k8s.io/v1/namespaces/default/events"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes
    headers: dict[str, str]
    content_type: str

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def message(self) -> str:
        return str(self.json["message"])

    @property
    def meta(self) -> Any:
        return self.json["metadata"]

    @property
    def names(self) -> list[str]:
        return [item["metadata"]["name"] for item in self.json["items"]]


class Api:
    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.server = plane.server
        self.store = plane.store
        self.clock = plane.inputs.clock

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        type: str = JSON,
        accept: str = JSON,
        user: User = ADMIN,
        headers: tuple[tuple[str, str], ...] = (),
        **query: Any,
    ) -> Answer:
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        texts = {name.rstrip("_"): str(value) for name, value in query.items()}
        request = Request(method, path, texts, data, type, accept, headers=headers)
        response = await self.answered(request, user)
        return Answer(response.status, response.body, dict(response.headers), response.content_type)

    async def answered(self, request: Request, user: User) -> Response:
        return await InProcessTransport(self.server, user).request(request)

    def chunks(self, request: Request, user: User) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return InProcessTransport(self.server, user).stream(request)

    async def get(self, path: str, **options: Any) -> Answer:
        return await self.call("GET", path, **options)

    async def post(self, path: str, body: Any = None, **options: Any) -> Answer:
        return await self.call("POST", path, body, **options)

    async def put(self, path: str, body: Any, **options: Any) -> Answer:
        return await self.call("PUT", path, body, **options)

    async def merge(self, path: str, body: Any, **options: Any) -> Answer:
        return await self.call("PATCH", path, body, type="application/merge-patch+json", **options)

    async def delete(self, path: str, body: Any = None, **options: Any) -> Answer:
        return await self.call("DELETE", path, body, **options)

    async def made(self, path: str, body: Any, **options: Any) -> Any:
        """Create, which must succeed; returns the object."""
        answer = await self.post(path, body, **options)
        assert answer.status == 201, answer.body
        return answer.json

    @asynccontextmanager
    async def watch(
        self, path: str, *, accept: str = JSON, user: User = ADMIN, **query: Any
    ) -> AsyncIterator["Events"]:
        texts = {"watch": "1"} | {name.rstrip("_"): str(value) for name, value in query.items()}
        async with self.chunks(Request("GET", path, texts, accept=accept), user) as chunks:
            yield Events(iterate_lines(chunks))


class Events:
    """What a watch says."""

    def __init__(self, stream: AsyncIterator[bytes]) -> None:
        self._stream = stream

    async def next(self, seconds: float = 10.0) -> tuple[str, Any]:
        async with asyncio.timeout(seconds):
            event = json.loads(await anext(self._stream))
        return event["type"], event["object"]

    async def names(self, count: int) -> list[str]:
        """The next events as `TYPE name`."""
        found = []
        for _ in range(count):
            type_, obj = await self.next()
            found.append(f"{type_} {obj['metadata'].get('name', '')}".strip())
        return found

    async def rest(self, seconds: float = 1e9) -> list[tuple[str, Any]]:
        """All events until the server ends the watch."""
        found = []
        async with asyncio.timeout(seconds):
            async for line in self._stream:
                event = json.loads(line)
                found.append((event["type"], event["object"]))
        return found

    async def silent(self, seconds: float = 1.0) -> bool:
        """Nothing comes for so long. The watch cannot be read afterwards."""
        try:
            await self.next(seconds)
        except TimeoutError:
            return True
        return False


def with_parameters(run: Callable[..., None], test: Callable[..., Any], *fixtures: str) -> Callable[..., None]:
    """Let pytest see of the test that is run its name and parameters; the first one is what the decorator gives."""
    _given, *rest = inspect.signature(test).parameters.values()
    added = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in fixtures]
    signature = inspect.Signature([*added, *rest])
    vars(run).update(vars(test), __signature__=signature)
    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


# Runs a test against another server than the embedded one: tests/cluster sets it for its own.
ELSEWHERE: ContextVar[Callable[[Callable[[Api], Awaitable[None]]], None] | None] = ContextVar("elsewhere", default=None)


def api_under(configuration: Configuration) -> Callable[[Callable[..., Awaitable[None]]], Callable[..., None]]:
    """Run a test that takes an `Api` first, in virtual time, under these settings."""

    def decorated(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
        def run(**parameters: Any) -> None:
            if (elsewhere := ELSEWHERE.get()) is not None:
                elsewhere(lambda api: test(api, **parameters))
                return

            async def body() -> None:
                async with running(controllers=False, configuration=configuration) as plane:
                    await test(Api(plane), **parameters)

            run_virtual(body())

        return with_parameters(run, test)

    return decorated


api = api_under(EMBEDDED)


def pod(name: str = "p", *, node: str = "", labels: Any = None, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "command": ["x"]}
    assigned = {"nodeName": node} if node else {}
    meta = {"name": name} | ({"labels": labels} if labels else {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {"containers": [container], **assigned, **spec},
    }


def job(name: str = "j", **spec: Any) -> dict[str, Any]:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i", "command": ["x"]}]}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": template, **spec}}


def config_map(name: str = "m", data: Any = None, **meta: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **meta}, "data": data or {}}
