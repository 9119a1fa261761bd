"""What is written about the Workloads of jobs."""

import json
from datetime import UTC, datetime

import msgspec
import pytest
from tests.unit.runtime.conftest import ScriptedTransport

from muster.api.batch import JOB
from muster.api.config.features import FeatureGates
from muster.api.kueue import Workload
from muster.api.meta import ObjectMeta
from muster.api.ours.submitter import SUBMITTER_ANNOTATION
from muster.controllers.customlabels import CustomLabels
from muster.controllers.integrations.workloads import Workloads, find_submitter
from muster.controllers.waits import CreationWaits
from muster.queueing.conditions import put
from muster.runtime.client import Client
from muster.runtime.clock import VirtualClock, run_virtual
from muster.runtime.events.recorder import EventSink
from muster.runtime.ids import Ids, Random
from muster.runtime.metrics import Registry
from muster.runtime.transport import Response

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DOCUMENT = {
    "metadata": {"name": "w", "namespace": "ns", "uid": "u", "resourceVersion": "7"},
    "status": {"clusterName": "a", "admission": {"clusterQueue": "q", "podSetAssignments": [{"name": "main"}]}},
}


def test_of_a_status_only_what_is_new_is_written():
    async def scenario():
        server = ScriptedTransport(Response(200, json.dumps(DOCUMENT).encode()))
        workload = msgspec.convert(DOCUMENT, Workload)
        client, clock = Client(server), VirtualClock()
        waits = CreationWaits(Registry(), JOB.kind, FeatureGates(), CustomLabels((), lambda *_: None))
        recorder = EventSink(client, clock, Ids(1), Random(1)).recorder("c")
        conditions = put((), "PodsReady", True, "Started", "m", NOW)
        status = msgspec.structs.replace(workload.status, conditions=conditions)
        await Workloads(client, clock, recorder, JOB, (), waits).set_status(workload, status)
        body = json.loads(server.requests[0].body)
        assert list(body["status"]) == ["conditions"]
        assert body["metadata"] == {"uid": "u", "resourceVersion": "7"}

    run_virtual(scenario())


@pytest.mark.parametrize(
    ("submitters", "one"),
    [(["ada"], "ada"), (["ada", "ada"], "ada"), (["ada", "bob"], ""), (["ada", ""], ""), ([""], "")],
)
def test_a_workload_has_the_submitter_of_all_its_members(submitters, one):
    metas = [ObjectMeta(annotations={SUBMITTER_ANNOTATION: name} if name else {}) for name in submitters]
    assert find_submitter(metas) == one
