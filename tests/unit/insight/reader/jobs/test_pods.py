"""The pods of one job, of which no more is kept than is asked for."""

import asyncio
from typing import Any

import msgspec
import pytest
from tests.unit.runtime.conftest import ScriptedTransport

from muster.api.batch import Job
from muster.api.core import POD
from muster.insight.reader.jobs.apart import read_jobs_apart
from muster.insight.reader.jobs.pods import read_own_pods
from muster.insight.reader.listing.lists import Lists
from muster.insight.reader.listing.views import POD_LINES
from muster.insight.record import record_of
from muster.runtime.client import Client
from muster.runtime.transport import Response


def make_answer(pods: int) -> Response:
    """Return a list of running pods of a job, and of one pod of an earlier job of the same name."""
    spec = {"nodeName": "n", "containers": [{"name": "c", "command": ["x" * 100]}]}
    items = [
        {
            "metadata": {"name": f"a-{n}", "ownerReferences": [{"kind": "Job", "uid": "new" if n else "old"}]},
            "spec": spec | {"hostname": f"h-{n}"},
            "status": {"phase": "Running", "podIP": f"10.0.0.{n}"},
        }
        for n in range(pods + 1)
    ]
    return Response(200, msgspec.json.encode({"items": items}))


def read(**options: Any) -> list[Any]:
    client = Client(ScriptedTransport(make_answer(5)))
    job = record_of(msgspec.convert({"metadata": {"name": "a", "namespace": "ns", "uid": "new"}}, Job))
    return asyncio.run(read_own_pods(client, job, **options))


def test_pods_of_a_job_share_what_they_have_in_common() -> None:
    pods = read()

    assert [pod.metadata.name for pod in pods] == ["a-1", "a-2", "a-3", "a-4", "a-5"]
    assert len({id(pod.spec) for pod in pods}) == len({id(pod.status) for pod in pods}) == 1
    assert pods[0].spec.containers[0].command == ()


def test_whole_pods_are_read_where_more_is_shown() -> None:
    pods = read(kind=POD)

    assert [pod.spec.hostname for pod in pods] == ["h-1", "h-2", "h-3", "h-4", "h-5"]


REFUSED = Response(403, msgspec.json.encode({"kind": "Status", "code": 403, "reason": "Forbidden"}))
TERM = {"labelSelector": {}, "topologyKey": "kubernetes.io/hostname"}
APART = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}


def make_pod(job: str, spec: dict[str, Any]) -> dict[str, Any]:
    owner = {"kind": "Job", "name": job, "uid": job, "controller": True}
    return {"metadata": {"name": job, "namespace": "ns", "uid": job, "ownerReferences": [owner]}, "spec": spec}


@pytest.mark.parametrize("answers", [(), (REFUSED,)], ids=["all", "namespace"])
def test_the_rules_of_a_waiting_pod_and_of_others_name_the_jobs_apart(answers: tuple[Response, ...]) -> None:
    pods = [make_pod("me", {"affinity": APART}), make_pod("other", {"nodeName": "n"}), make_pod("late", {})]
    client = Client(ScriptedTransport(*answers, Response(200, msgspec.json.encode({"items": pods}))))
    line = POD_LINES.typed(pods[0])

    assert asyncio.run(read_jobs_apart(Lists(client), line)) == ("other",)
