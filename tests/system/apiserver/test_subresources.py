"""binding, eviction, scale and log; status and finalize are in test_update."""

import asyncio

import pytest
from tests.system.apiserver.harness import DEFAULT, JOBS, NAMESPACES, PODS, api, job, pod

from muster.api.status import bad_request
from muster.cluster.nodeconnection import LogOptions

BIND = {"apiVersion": "v1", "kind": "Binding", "target": {"kind": "Node", "name": "n1"}}
EVICT = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}


# -- binding


@api
async def test_binding_gives_a_pod_to_a_node(api):
    await api.made(PODS, pod())
    answer = await api.post(f"{PODS}/p/binding", BIND | {"metadata": {"name": "p", "annotations": {"a": "b"}}})
    assert (answer.status, answer.json["status"], answer.json["code"]) == (201, "Success", 201)
    bound = (await api.get(f"{PODS}/p")).json
    assert (bound["spec"]["nodeName"], bound["metadata"]["annotations"]) == ("n1", {"a": "b"})
    assert bound["status"]["conditions"] == [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    ]
    assert bound["metadata"]["generation"] == 1


@api
async def test_a_pod_keeps_the_annotations_of_its_binding(api):
    await api.made(PODS, pod() | {"metadata": {"name": "p", "annotations": {"a": "1", "b": "1"}}})
    binding = BIND | {"metadata": {"name": "p", "annotations": {"b": "2", "c": "2"}}}
    assert (await api.post(f"{PODS}/p/binding", binding)).status == 201
    assert (await api.get(f"{PODS}/p")).meta["annotations"] == {"a": "1", "b": "2", "c": "2"}


@api
async def test_the_old_way_of_binding(api):
    await api.made(PODS, pod())
    answer = await api.post(f"{DEFAULT}/bindings", BIND | {"metadata": {"name": "p"}})
    assert (answer.status, (await api.get(f"{PODS}/p")).json["spec"]["nodeName"]) == (201, "n1")
    assert (await api.post(f"{DEFAULT}/bindings", BIND)).status == 400
    assert (await api.post(f"{DEFAULT}/bindings", BIND | {"metadata": {"name": "none"}})).status == 404
    assert (await api.get(f"{DEFAULT}/bindings")).status == 405


BIND_REFUSALS = [
    # pod, binding, status, message
    ({}, {"metadata": {"name": "q"}}, 400, "the name of the object (q) does not match the name on the URL (p)"),
    ({}, {"metadata": {"namespace": "x"}}, 400, "namespace"),
    ({}, {"target": {"kind": "Pod", "name": "n"}}, 422, 'target.kind: Unsupported value: "Pod"'),
    ({}, {"target": {}}, 422, "target.name: Required value"),
    ({}, {"target": 5}, 400, "json: cannot unmarshal number into Go struct field Binding"),
    ({}, {"metadata": {"uid": "x"}}, 409, "Precondition failed: UID in precondition: x"),
    ({}, {"metadata": {"resourceVersion": "1"}}, 409, "Precondition failed: ResourceVersion in precondition: 1"),
    ({"node": "n2"}, {}, 409, 'cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n2"'),
    ({"schedulingGates": [{"name": "example.com/g"}]}, {}, 409, "pod p has non-empty .spec.schedulingGates"),
]


@pytest.mark.parametrize(("spec", "change", "status", "message"), BIND_REFUSALS)
@api
async def test_binding_refusals(api, spec, change, status, message):
    made = await api.made(PODS, pod(**spec))
    answer = await api.post(f"{PODS}/p/binding", BIND | change)
    assert (answer.status, message in answer.message) == (status, True), answer.body
    assert (await api.get(f"{PODS}/p")).json == made


@api
async def test_a_pod_that_is_going_is_not_bound(api):
    await api.made(PODS, pod() | {"metadata": {"name": "p", "finalizers": ["example.com/f"]}})
    await api.delete(f"{PODS}/p")
    answer = await api.post(f"{PODS}/p/binding", BIND)
    assert (answer.status, "pod p is being deleted, cannot be assigned to a host" in answer.message) == (409, True)
    assert (await api.post(f"{PODS}/none/binding", BIND)).status == 404


@api
async def test_of_two_schedulers_one_wins(api):
    await api.made(PODS, pod())
    bindings = [BIND | {"target": {"name": f"n{n}"}} for n in range(10)]
    answers = await asyncio.gather(*(api.post(f"{PODS}/p/binding", binding) for binding in bindings))
    assert sorted(answer.status for answer in answers) == [201] + [409] * 9


@api
async def test_dry_run_binds_and_evicts_nothing(api):
    made = await api.made(PODS, pod())
    assert (await api.post(f"{PODS}/p/binding", BIND, dryRun="All")).status == 201
    assert (await api.post(f"{PODS}/p/eviction", EVICT, dryRun="All")).status == 201
    assert (await api.post(f"{PODS}/p/eviction", EVICT | {"deleteOptions": {"dryRun": ["All"]}})).status == 201
    assert (await api.get(f"{PODS}/p")).json == made


# -- eviction


@api
async def test_eviction_ends_a_pod_gracefully(api):
    await api.made(PODS, pod(node="n"))
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "p"},
        "deleteOptions": {"gracePeriodSeconds": 5},
    }
    answer = await api.post(f"{PODS}/p/eviction", eviction)
    assert (answer.status, answer.json["status"]) == (201, "Success")
    found = (await api.get(f"{PODS}/p")).json
    assert found["metadata"]["deletionGracePeriodSeconds"] == 5
    [condition] = found["status"]["conditions"]
    assert (condition["type"], condition["reason"]) == ("DisruptionTarget", "EvictionByEvictionAPI")


@pytest.mark.parametrize(
    ("eviction", "status", "message"),
    [
        ({"metadata": {}}, 400, "name in URL does not match name in Eviction object"),
        ({"metadata": {"name": "q"}}, 400, "name in URL does not match name in Eviction object"),
        ({"deleteOptions": {"preconditions": {"uid": "x"}}}, 409, "the UID in the precondition (x) does not match"),
        ({"deleteOptions": {"propagationPolicy": "x"}}, 422, "propagationPolicy: Unsupported value"),
        ({"deleteOptions": 3}, 400, "json: cannot unmarshal number"),
    ],
)
@api
async def test_eviction_refusals(api, eviction, status, message):
    made = await api.made(PODS, pod())
    answer = await api.post(f"{PODS}/p/eviction", EVICT | eviction)
    assert (answer.status, message in answer.message) == (status, True), answer.body
    assert (await api.get(f"{PODS}/p")).json == made
    assert (await api.post(f"{PODS}/none/eviction", {"metadata": {"name": "none"}})).status == 404


# -- scale


@pytest.mark.parametrize(
    ("spec", "replicas", "parallelism", "completions"),
    [
        ({}, 4, 4, 1),
        ({"parallelism": 2, "completions": 2}, 4, 4, 2),
        ({"parallelism": 2, "completions": 2, "completionMode": "Indexed"}, 4, 4, 4),
        ({"parallelism": 2, "completions": 5, "completionMode": "Indexed"}, 4, 4, 5),
        ({"parallelism": 2}, 0, 0, None),
    ],
)
@api
async def test_scaling_a_job(api, spec, replicas, parallelism, completions):
    made = await api.made(JOBS, job(**spec))
    scale = (await api.get(f"{JOBS}/j/scale")).json
    assert (scale["apiVersion"], scale["kind"]) == ("autoscaling/v1", "Scale")
    assert scale["spec"]["replicas"] == made["spec"]["parallelism"]
    assert scale["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    assert scale["status"]["selector"].startswith("batch.kubernetes.io/controller-uid=")
    scale["spec"]["replicas"] = replicas
    answer = await api.put(f"{JOBS}/j/scale", scale)
    assert (answer.status, answer.json["kind"], answer.json["spec"]["replicas"]) == (200, "Scale", replicas)
    found = (await api.get(f"{JOBS}/j")).json
    assert (found["spec"]["parallelism"], found["spec"].get("completions")) == (parallelism, completions)
    assert found["metadata"]["generation"] == 2
    assert found["metadata"]["labels"] == made["metadata"]["labels"]
    assert (await api.put(f"{JOBS}/j/scale", scale)).status == 409
    patched = await api.merge(f"{JOBS}/j/scale", {"spec": {"replicas": 3}, "metadata": {"labels": {"x": "y"}}})
    assert (patched.status, patched.json["spec"]["replicas"]) == (200, 3)
    assert (await api.get(f"{JOBS}/j")).json["metadata"]["labels"] == made["metadata"]["labels"]


@api
async def test_scale_refusals(api):
    await api.made(JOBS, job())
    negative = await api.merge(f"{JOBS}/j/scale", {"spec": {"replicas": -1}})
    assert (negative.status, "spec.parallelism: Invalid value: -1" in negative.message) == (422, True)
    assert (await api.merge(f"{JOBS}/j/scale", {"spec": {"replicas": "x"}})).status == 422
    assert (await api.merge(f"{JOBS}/none/scale", {})).status == 404
    assert (await api.get(f"{PODS}/p/scale")).status == 404


# -- logs


class Node:
    """Gives out what it is told to."""

    def __init__(self, *pieces, error=None, waits=False):
        self.pieces, self.error, self.waits = pieces, error, waits
        self.asked: LogOptions | None = None
        self.closed = False

    async def logs(self, pod, options):
        self.asked = options
        try:
            if self.error:
                raise self.error
            for piece in self.pieces:
                yield piece
            if self.waits:
                await asyncio.Event().wait()
        finally:
            self.closed = True


@api
async def test_logs_come_from_the_node(api):
    await api.made(PODS, pod(node="n"))
    node = api.plane.nodes["n"] = Node(b"one\n", b"two\n")
    answer = await api.get(f"{PODS}/p/log", tailLines=5, timestamps="true", limitBytes=100, sinceSeconds=7, previous=1)
    assert (answer.status, answer.content_type, answer.body) == (200, "text/plain", b"one\ntwo\n")
    assert node.asked == LogOptions("c", previous=True, timestamps=True, since_seconds=7, tail_lines=5, limit_bytes=100)
    await api.get(f"{PODS}/p/log", sinceTime="2026-01-01T00:00:00Z", container="c")
    assert str(node.asked.since_time) == "2026-01-01 00:00:00+00:00"


@api
async def test_following_begins_before_there_is_anything(api):
    from muster.cluster.apiserver.inprocess import InProcessTransport
    from muster.runtime.transport import Request

    await api.made(PODS, pod(node="n"))
    for pieces in ((), (b"one\n",)):
        node = api.plane.nodes["n"] = Node(*pieces, waits=True)
        request = Request("GET", f"{PODS}/p/log", {"follow": "true"})
        async with InProcessTransport(api.server).stream(request) as chunks:
            for piece in pieces:
                assert await anext(chunks) == piece
            assert node.asked is not None
            assert node.asked.follow
        assert node.closed


@api
async def test_a_pod_without_a_node_has_an_empty_log(api):
    await api.made(PODS, pod())
    answer = await api.get(f"{PODS}/p/log")
    assert (answer.status, answer.body) == (200, b"")


LOG_REFUSALS = [
    # query, status, message
    ({"container": "x"}, 400, "container x is not valid for pod p"),
    ({}, 400, "a container name must be specified for pod p, choose one of: [a b] or one of the init containers: [i]"),
    ({"container": "a", "tailLines": "-1"}, 422, "tailLines: Invalid value: -1"),
    ({"container": "a", "tailLines": "x"}, 400, "invalid syntax"),
    ({"container": "a", "limitBytes": "0"}, 422, "limitBytes: Invalid value: 0: must be greater than 0"),
    ({"container": "a", "sinceSeconds": "0"}, 422, "sinceSeconds: Invalid value: 0: must be greater than 0"),
    ({"container": "a", "sinceTime": "yesterday"}, 400, 'parsing time "yesterday"'),
    ({"container": "a", "sinceTime": "0001-01-01T00:00:00+23:59"}, 400, 'parsing time "0001-01-01T00:00:00+23:59"'),
    (
        {"container": "a", "sinceTime": "2026-01-01T00:00:00Z", "sinceSeconds": "1"},
        422,
        "at most one of `sinceTime` or `sinceSeconds` may be specified",
    ),
    ({"container": "a"}, 503, 'the node "n" of pod "p" is not connected'),
]


@pytest.mark.parametrize(("query", "status", "message"), LOG_REFUSALS)
@api
async def test_log_refusals(api, query, status, message):
    containers = [{"name": name, "image": "i", "command": ["x"]} for name in "ab"]
    initial = [{"name": "i", "image": "i", "command": ["x"]}]
    await api.made(PODS, pod(node="n", containers=containers, initContainers=initial))
    answer = await api.get(f"{PODS}/p/log", **query)
    assert (answer.status, message in answer.message) == (status, True), answer.body


@api
async def test_what_the_node_refuses(api):
    await api.made(PODS, pod(node="n"))
    api.plane.nodes["n"] = Node(error=bad_request('container "c" in pod "p" is waiting to start: ContainerCreating'))
    answer = await api.get(f"{PODS}/p/log")
    assert (answer.status, answer.message) == (400, 'container "c" in pod "p" is waiting to start: ContainerCreating')
    assert (await api.get(f"{PODS}/none/log")).status == 404


# -- what there is not


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", f"{PODS}/p/binding", 405),
        ("DELETE", f"{PODS}/p/status", 405),
        ("POST", f"{PODS}/p/log", 405),
        ("POST", f"{PODS}/p/exec", 400),
        ("DELETE", f"{PODS}/p/exec", 405),
        ("GET", f"{PODS}/p/none", 404),
        ("GET", f"{NAMESPACES}/default/finalize", 405),
        ("GET", f"{NAMESPACES}/default/status", 200),
        ("GET", "/api/v1/pods/p/status", 404),
        ("GET", f"{PODS}/p/status/more", 404),
    ],
)
@api
async def test_other_subresources(api, method, path, status):
    await api.made(PODS, pod())
    assert (await api.call(method, path)).status == status
