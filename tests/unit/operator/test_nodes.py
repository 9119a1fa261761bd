"""Which version simulated nodes say beside a server of any kind."""

import pytest
from tests.unit.runtime.conftest import ScriptedTransport

from muster.cluster.release import GIT_VERSION
from muster.operator.nodes import find_version
from muster.runtime.client import Client
from muster.runtime.clock import run_virtual
from muster.runtime.transport import Response


@pytest.mark.parametrize(
    ("body", "version"),
    [
        (b'{"major": "1", "minor": "36", "gitVersion": "v1.36.0"}', "v1.36.0"),
        (b"{}", GIT_VERSION),
        (b"[]", GIT_VERSION),
        (b"nothing", GIT_VERSION),
    ],
)
def test_the_version_is_the_servers(body: bytes, version: str) -> None:
    assert run_virtual(find_version(Client(ScriptedTransport(Response(200, body))))) == version
