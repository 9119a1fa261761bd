"""The logs that a process node serves: of a caller that has gone, nothing is left open."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import msgspec
import pytest
from aiohttp import ClientConnectionResetError
from aiohttp.abc import AbstractStreamWriter
from aiohttp.test_utils import make_mocked_request
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import load_pem_x509_certificate
from tests.unit.runtime.conftest import ScriptedTransport

from muster.api.core import Container, Pod, PodSpec
from muster.api.meta import ObjectMeta
from muster.cluster.apiserver.identity.certificates import Authority
from muster.cluster.apiserver.identity.users import User
from muster.cluster.nodeconnection import LogOptions, LogSource
from muster.operator.nodelogs import PATH, handler
from muster.runtime.client import Client
from muster.runtime.clock import run_virtual
from muster.runtime.transport import Response

ALLOWED = Response(201, msgspec.json.encode({"status": {"allowed": True}}))
POD = Pod(metadata=ObjectMeta(name="p", namespace="n"), spec=PodSpec(containers=(Container(name="c"),)))


class Source:
    """Pieces for as long as they are read."""

    def __init__(self) -> None:
        self.is_open = False

    async def logs(self, pod: Pod, options: LogOptions) -> AsyncIterator[bytes]:
        assert (pod.metadata.name, options.container) == ("p", "c")
        self.is_open = True
        try:
            while True:
                yield b"piece\n"
        finally:
            self.is_open = False


class Connection(AbstractStreamWriter):
    """To a caller that goes at a certain moment."""

    def __init__(self, gone: str) -> None:
        self._gone = gone

    async def write_headers(self, status_line: str, headers: object) -> None:
        self._step("write_headers")

    async def write(self, chunk: bytes | bytearray | memoryview) -> None:
        self._step("write")

    def send_headers(self) -> None:
        pass

    def enable_chunking(self) -> None:
        pass

    def enable_compression(self, *_: object) -> None:
        pass

    async def write_eof(self, chunk: bytes = b"") -> None:
        pass

    async def drain(self) -> None:
        pass

    def _step(self, name: str) -> None:
        if name == self._gone:
            raise ClientConnectionResetError("gone")


def asked(home: Path, writer: Any) -> Any:
    """A request of the server that has its certificate checked already."""
    caller = Authority(home, datetime.now(UTC)).client("server", User("kube-apiserver")).file
    der = load_pem_x509_certificate(caller.read_bytes()).public_bytes(Encoding.DER)
    tls = Mock(getpeercert=lambda binary_form: der)
    transport = Mock(get_extra_info=lambda name, default=None: tls if name == "ssl_object" else default)
    found = {"namespace": "n", "pod": "p", "container": "c"}
    return make_mocked_request("GET", PATH.format(**found), match_info=found, writer=writer, transport=transport)


@pytest.mark.parametrize("gone", ["write_headers", "write"])
def test_what_is_read_is_closed_whenever_the_caller_goes(tmp_path: Path, gone: str) -> None:
    source = Source()
    answer = handler(Client(ScriptedTransport(ALLOWED)), "box", cast("Any", {"n/p": POD}), cast("LogSource", source))

    async def body() -> None:
        with pytest.raises(ClientConnectionResetError):
            await answer(asked(tmp_path, Connection(gone)))
        assert not source.is_open

    run_virtual(body())
