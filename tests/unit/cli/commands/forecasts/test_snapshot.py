"""`muster snapshot --with-decisions` on a cluster that keeps no decisions."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from muster.api.ours.decisions import PATH
from muster.api.status import ApiError, Status
from muster.cli.commands.forecasts import snapshot
from muster.insight.reader.history.decisions import NO_DECISIONS
from muster.runtime.transport import JSON, Request, Response


class Empty:
    """A server without objects, as a Kubernetes cluster has no record of decisions."""

    async def raw(self, request: Request) -> Response:
        if request.path == PATH:
            raise ApiError(Status(code=404, reason="NotFound", message="no such path"))
        return Response(200, b'{"items": [], "metadata": {"resourceVersion": "7"}}', JSON)


@asynccontextmanager
async def connect(target: Any) -> AsyncIterator[SimpleNamespace]:
    yield SimpleNamespace(client=Empty(), namespace="default")


@pytest.mark.parametrize(("option", "said"), [(["--with-decisions"], f"{NO_DECISIONS}\n"), ([], "")])
def test_a_cluster_that_keeps_no_decisions_is_named(
    option: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "connect", connect)
    done = CliRunner().invoke(snapshot.command, ["-o", "json", *option])
    assert (done.exit_code, done.stderr) == (0, said)
    assert "decisions" not in json.loads(done.stdout)["spec"]
