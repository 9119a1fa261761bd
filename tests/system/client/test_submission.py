"""Submissions from Python, on a connection that breaks."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.system.plane import World, virtual

from muster.actions.server.session import Session
from muster.api.jobset import JOB_SET
from muster.runtime.client import Client
from muster.runtime.transport import Request, Response, Transport, TransportError
from muster.sdk.submission import Submission, work_of


@contextmanager
def collecting(log: logging.Logger) -> Iterator[list[str]]:
    """Collect the messages of a logger."""
    messages: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    log.addHandler(handler)
    try:
        yield messages
    finally:
        log.removeHandler(handler)


class Breaking:
    """A transport that breaks when it is asked for nodes."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def request(self, request: Request) -> Response:
        """Return what the server answers."""
        if request.path == "/api/v1/nodes":
            raise TransportError("Connection refused")
        return await self._transport.request(request)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Opened:
    """The connections of a program to one cluster."""

    def __init__(self, client: Client) -> None:
        self._session = Session(client, "default")

    async def session(self, _target: object) -> Session:
        """Return the session with the cluster."""
        return self._session


@virtual
async def test_a_job_whose_start_cannot_be_foreseen_is_the_callers_all_the_same(world: World) -> None:
    connections: Any = Opened(Client(Breaking(world.client.transport)))
    submission = Submission(connections, work_of(["true"], (), None), {"name": "train", "cpus": 1})
    with collecting(logging.getLogger("muster")) as warnings:
        job = await submission.run()
    assert [one.metadata.uid for one in (await world.client.list(JOB_SET)).items] == [job.uid]
    assert warnings == ["it is not known whether train can start: Connection refused"]
