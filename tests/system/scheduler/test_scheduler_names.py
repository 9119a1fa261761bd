"""For which schedulers pods may ask."""

import msgspec
import pytest
from tests.system.plane import World, running

from muster.api.config import Configuration, Muster, Scheduling
from muster.api.core import POD, Pod
from muster.runtime.clock import run_virtual
from muster.runtime.transport import Request

NARROW = msgspec.structs.replace(
    Configuration.default(), muster=Muster(scheduling=Scheduling(scheduler_names=("mine",)))
)


def pod(name):
    container = {"name": "c", "image": "none"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"schedulerName": name, "containers": [container]},
    }


@pytest.mark.parametrize(
    ("configuration", "name", "is_ours"),
    [
        pytest.param(Configuration.default(), "default-scheduler", True, id="Kubernetes'"),
        pytest.param(Configuration.default(), "volcano", True, id="Volcano's, as people's manifests say"),
        pytest.param(Configuration.default(), "yunikorn", False, id="of nobody"),
        pytest.param(NARROW, "mine", True, id="as configured"),
        pytest.param(NARROW, "default-scheduler", False, id="not configured"),
    ],
)
def test_pods_of_our_schedulers_are_placed_and_of_others_it_is_said(configuration, name, is_ours):
    async def body():
        async with running(configuration=configuration) as plane:
            world = World(plane)
            await world.node("a")
            path, body = "/api/v1/namespaces/default/pods", msgspec.json.encode(pod(name))
            answer = await world.client.transport.request(Request("POST", path, body=body))
            await world.settle()
            found: Pod = await world.client.get(POD, "p", "default")
            assert bool(found.spec.node_name) is is_ours
            warned = f"no scheduler here is called '{name}'" in answer.headers.get("warning", "")
            assert warned is not is_ours

    run_virtual(body())


@pytest.mark.parametrize(
    ("path", "body", "where"),
    [
        ("/apis/batch/v1/namespaces/default/jobs", lambda job: job, "spec.template.spec"),
        (
            "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets",
            lambda job: {"replicatedJobs": [{"name": "a", "template": {"spec": job}}]},
            "spec.replicatedJobs[0].template.spec.template.spec",
        ),
    ],
    ids=["Job", "JobSet"],
)
def test_of_those_who_make_pods_it_is_said_when_they_are_made(path, body, where):
    async def scenario():
        async with running(controllers=False) as plane:
            template = {"spec": pod("yunikorn")["spec"] | {"restartPolicy": "Never"}}
            document = {"metadata": {"name": "j"}, "spec": body({"template": template})}
            request = Request("POST", path, body=msgspec.json.encode(document))
            answer = await World(plane).client.transport.request(request)
            assert answer.status == 201
            assert f"{where}.schedulerName: no scheduler here is called 'yunikorn'" in answer.headers["warning"]

    run_virtual(scenario())
