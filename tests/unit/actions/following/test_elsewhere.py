"""Which job in a worker cluster is taken for the copy of one here."""

from typing import Any

import msgspec
import pytest
from tests.unit.runtime.conftest import MemoryServer

from muster.actions.following.elsewhere import copy_of
from muster.api.batch import JOB
from muster.api.kueue.names import MULTI_KUEUE_ORIGIN_LABEL, MULTI_KUEUE_ORIGIN_UID
from muster.api.status import ApiError
from muster.insight.record import record_of
from muster.runtime.client import Client
from muster.runtime.clock import run_virtual
from muster.runtime.objects import split_key
from muster.runtime.transport import Request, Response


class Server(MemoryServer):
    """One with Jobs, and one that says its origin."""

    def job(self, key: str, uid: str, labels: dict[str, str], annotations: dict[str, str]) -> dict[str, Any]:
        namespace, name = split_key(key)
        meta = {"name": name, "namespace": namespace, "uid": uid, "labels": labels, "annotations": annotations}
        return self._store(JOB, key, {"metadata": meta, "spec": {"completions": 1}}, "ADDED")

    async def request(self, request: Request) -> Response:
        if request.path == "/configz":
            return Response(200, b'{"multiKueue.origin": "m"}')
        return await super().request(request)


@pytest.mark.parametrize(
    ("labels", "annotations", "is_copy"),
    [
        pytest.param({MULTI_KUEUE_ORIGIN_LABEL: "m"}, {MULTI_KUEUE_ORIGIN_UID: "here"}, True, id="it is"),
        pytest.param({}, {}, False, id="a user of the worker has made it"),
        pytest.param({}, {MULTI_KUEUE_ORIGIN_UID: "here"}, False, id="it has no mark"),
        pytest.param({MULTI_KUEUE_ORIGIN_LABEL: "m"}, {MULTI_KUEUE_ORIGIN_UID: "before"}, False, id="of another job"),
        pytest.param({MULTI_KUEUE_ORIGIN_LABEL: "m"}, {}, True, id="Kueue as manager names no job"),
        pytest.param({MULTI_KUEUE_ORIGIN_LABEL: "n"}, {}, False, id="another manager has made it"),
    ],
)
def test_only_what_was_made_for_the_job_is_its_copy(
    labels: dict[str, str], annotations: dict[str, str], is_copy: bool
) -> None:
    here, there = Server(), Server()
    job = record_of(msgspec.convert(here.job("default/train", "here", {}, {}), JOB.type))
    there.job("default/train", "there", labels, annotations)

    if is_copy:
        assert run_virtual(copy_of(Client(here), Client(there), job)).metadata.uid == "there"
    else:
        with pytest.raises(ApiError, match="the Job train that is there was not made for it") as raised:
            run_virtual(copy_of(Client(here), Client(there), job))
        assert raised.value.code == 404
