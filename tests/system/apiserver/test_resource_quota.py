"""ResourceQuotas: what is counted, what is refused, and that nothing gets past them."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.system.apiserver.harness import DEFAULT, MAPS, PODS, Api, api, config_map, job, pod
from tests.system.plane import World, running, virtual

from muster.api.core.quota import RESOURCE_QUOTA
from muster.runtime.clock import run_virtual

QUOTAS = f"{DEFAULT}/resourcequotas"
SERVICES = f"{DEFAULT}/services"
JOBS = "/apis/batch/v1/namespaces/default/jobs"


def quota(name: str = "q", scopes: Any = None, selector: Any = None, **hard: Any) -> dict[str, Any]:
    amounts = {resource.replace("__", "/").replace("_", "."): str(amount) for resource, amount in hard.items()}
    spec = {"hard": amounts} | ({"scopes": scopes} if scopes else {})
    return {"metadata": {"name": name}, "spec": spec | ({"scopeSelector": selector} if selector else {})}


def sized(name: str = "p", requests: Any = None, limits: Any = None, **spec: Any) -> dict[str, Any]:
    made = pod(name, **spec)
    made["spec"]["containers"][0]["resources"] = {"requests": requests or {}, "limits": limits or {}}
    return made


FORBIDDEN = 'pods "{}" is forbidden: '


@api
async def test_the_words_of_a_refusal(api):
    await api.made(QUOTAS, quota(pods=2, requests_cpu=2, limits_memory="3Gi"))
    await api.made(PODS, sized("a", {"cpu": "1500m", "memory": "1Gi"}, {"memory": "2Gi"}))
    answer = await api.post(PODS, sized("b", {"cpu": "1"}, {"memory": "2Gi"}))
    assert (answer.status, answer.json["reason"]) == (403, "Forbidden")
    assert answer.message == (
        FORBIDDEN.format("b") + "exceeded quota: q, requested: limits.memory=2Gi,requests.cpu=1, "
        "used: limits.memory=2Gi,requests.cpu=1500m, limited: limits.memory=3Gi,requests.cpu=2"
    )
    assert (await api.post(PODS, sized("b", {"cpu": "500m"}, {"memory": "1Gi"}))).status == 201
    answer = await api.post(PODS, sized("c", {"cpu": "0"}, {"memory": "0"}))
    assert (
        answer.message == FORBIDDEN.format("c") + "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"
    )


@api
async def test_what_is_limited_must_be_said(api):
    await api.made(QUOTAS, quota(requests_cpu=2, limits_memory="3Gi"))
    two = pod()
    two["spec"]["containers"].append({"name": "d", "image": "i", "resources": {"requests": {"cpu": "1"}}})
    answer = await api.post(PODS, two)
    assert answer.message == (
        FORBIDDEN.format("p") + "failed quota: q: must specify limits.memory for: c,d; requests.cpu for: c"
    )


@api
async def test_pods_that_have_ended_or_gone_use_nothing(api):
    await api.made(QUOTAS, quota(pods=1, count__pods=2))
    await api.made(PODS, pod("a"))
    assert (await api.post(PODS, pod("b"))).status == 403
    await api.merge(f"{PODS}/a/status", {"status": {"phase": "Succeeded"}})
    await api.made(PODS, pod("b"))
    await api.delete(f"{PODS}/b")
    answer = await api.post(PODS, pod("c"))
    assert answer.status == 201
    answer = await api.post(PODS, pod("d"))
    assert "count/pods=1, used: count/pods=2" in answer.message.replace(
        "requested: count/pods=1,pods=1", "count/pods=1"
    )


@pytest.mark.parametrize(
    ("hard", "path", "first", "second", "refused"),
    [
        ({"configmaps": 1}, MAPS, config_map("a"), config_map("b"), "configmaps=1, used: configmaps=1"),
        ({"count__configmaps": 1}, MAPS, config_map("a"), config_map("b"), "count/configmaps=1, used: "),
        ({"count__jobs_batch": 1}, JOBS, job("a"), job("b"), "count/jobs.batch=1, used: count/jobs.batch=1"),
        ({"services": 1}, SERVICES, {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 1}]}},
         {"metadata": {"name": "b"}, "spec": {"ports": [{"port": 1}]}}, "services=1, used: services=1"),
        ({"resourcequotas": 2}, QUOTAS, quota("a"), quota("b"), "resourcequotas=1, used: resourcequotas=2"),
        ({"requests_nvidia_com__gpu": 2}, PODS, sized("a", limits={"nvidia.com/gpu": "2"}),
         sized("b", limits={"nvidia.com/gpu": "1"}), "requests.nvidia.com/gpu=1, used: requests.nvidia.com/gpu=2"),
        ({"requests_ephemeral-storage": "1Gi"}, PODS, sized("a", {"ephemeral-storage": "1Gi"}),
         sized("b", {"ephemeral-storage": "1"}), "requests.ephemeral-storage=1, used: requests.ephemeral-storage=1Gi"),
    ],
)  # fmt: skip
@api
async def test_what_counts(api, hard, path, first, second, refused):
    await api.made(QUOTAS, quota(**hard))
    await api.made(path, first)
    answer = await api.post(path, second)
    assert (answer.status, refused in answer.message) == (403, True), answer.message


@api
async def test_services_that_become_more(api):
    await api.made(QUOTAS, quota(services_nodeports=1))
    ports = [{"port": 1, "name": "a"}, {"port": 2, "name": "b"}]
    service = {"metadata": {"name": "a"}, "spec": {"ports": ports}}
    await api.made(SERVICES, service)
    answer = await api.merge(f"{SERVICES}/a", {"spec": {"type": "NodePort"}})
    assert (answer.status, "requested: services.nodeports=2" in answer.message) == (403, True), answer.message


HIGH = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}


@pytest.mark.parametrize(
    ("scope", "inside", "outside"),
    [
        ({"scopes": ["BestEffort"]}, pod(), sized(requests={"cpu": "1"})),
        ({"scopes": ["NotBestEffort"]}, sized(requests={"cpu": "1"}), pod()),
        ({"scopes": ["Terminating"]}, pod(activeDeadlineSeconds=5), pod()),
        ({"scopes": ["NotTerminating"]}, pod(), pod(activeDeadlineSeconds=5)),
        ({"selector": HIGH}, pod(priorityClassName="high"), pod()),
    ],
)
@api
async def test_scopes(api, scope, inside, outside):
    await api.made("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "high"}, "value": 5})
    await api.made(QUOTAS, quota(pods=0, **scope))
    assert (await api.post(PODS, outside)).status == 201
    answer = await api.post(PODS, inside | {"metadata": {"name": "in"}})
    assert (answer.status, "exceeded quota: q" in answer.message) == (403, True)


@api
async def test_a_dry_run_takes_nothing(api):
    await api.made(QUOTAS, quota(pods=1))
    for _ in range(3):
        assert (await api.post(PODS, pod(), dryRun="All")).status == 201
    await api.made(PODS, pod())
    assert (await api.post(PODS, pod("b"), dryRun="All")).status == 403


@api
async def test_raising_and_removing_a_quota(api):
    await api.made(QUOTAS, quota(pods=0))
    assert (await api.post(PODS, pod("a"))).status == 403
    await api.merge(f"{QUOTAS}/q", {"spec": {"hard": {"pods": "1"}}})
    await api.made(PODS, pod("a"))
    assert (await api.post(PODS, pod("b"))).status == 403
    await api.delete(f"{QUOTAS}/q")
    await api.made(PODS, pod("b"))
    await api.made(QUOTAS, quota(pods=2))
    answer = await api.post(PODS, pod("c"))
    assert "used: pods=2, limited: pods=2" in answer.message


@virtual
async def test_the_use_is_written_down(world: World):
    api = Api(world.plane)
    await api.made(QUOTAS, quota(pods=5, requests_cpu=4, count__configmaps=7))

    async def used() -> dict[str, Any]:
        found = await world.client.get(RESOURCE_QUOTA, "q", "default")
        return dict(found.status.used)

    await world.until(lambda: _same(used, {"pods": "0", "requests.cpu": "0", "count/configmaps": "0"}))
    await api.made(PODS, sized("a", {"cpu": "1500m"}))
    await api.made(MAPS, config_map())
    await world.until(lambda: _same(used, {"pods": "1", "requests.cpu": "1500m", "count/configmaps": "1"}))
    await api.merge(f"{QUOTAS}/q", {"spec": {"hard": {"count/configmaps": None, "pods": "6"}}})
    await world.until(lambda: _same(used, {"pods": "1", "requests.cpu": "1500m"}))
    await api.delete(f"{PODS}/a")
    await world.until(lambda: _same(used, {"pods": "0", "requests.cpu": "0"}))
    found = await world.client.get(RESOURCE_QUOTA, "q", "default")
    assert found.status.hard == found.spec.hard
    revision = world.plane.store.revision
    await world.settle(60)
    assert world.plane.store.revision == revision


async def _same(read: Any, expected: Any) -> bool:
    return bool(await read() == expected)


STEPS = st.lists(
    st.tuples(st.sampled_from(["create", "delete", "finish"]), st.integers(0, 7), st.integers(1, 4)), max_size=12
)


@settings(max_examples=25, deadline=None)
@given(st.lists(STEPS, min_size=2, max_size=5))
def test_whatever_comes_at_once_stays_within_the_quota(writers):
    """Concurrent creations, deletions and ends of pods: the sum of what lives never passes the limit."""

    async def body() -> None:
        async with running(controllers=False) as plane:
            api = Api(plane)
            await api.made(QUOTAS, quota(pods=5, requests_cpu=8))
            over = []

            def check(_: Any = None) -> None:
                alive = [
                    e
                    for e in plane.store.latest_list("pods").entries
                    if e.header.fields.get("status.phase") != "Failed"
                ]
                cpus = sum(int(e.header.labels["cpu"]) for e in alive)
                if len(alive) > 5 or cpus > 8:
                    over.append((len(alive), cpus))

            async def write(steps: Any) -> None:
                for verb, number, cpus in steps:
                    name = f"p{number}"
                    if verb == "create":
                        made = sized(name, {"cpu": str(cpus)}, labels={"cpu": str(cpus)})
                        await api.post(PODS, made)
                    elif verb == "delete":
                        await api.delete(f"{PODS}/{name}")
                    else:
                        await api.merge(f"{PODS}/{name}/status", {"status": {"phase": "Failed"}})
                    check()

            await asyncio.gather(*map(write, writers))
            check()
            assert not over
            # What the ledger has kept is what counting anew gives.
            fresh = [e for e in plane.store.list("pods").entries if e.header.fields.get("status.phase") != "Failed"]
            answer = await api.post(PODS, sized("last", {"cpu": "9"}))
            assert f"requests.cpu={sum(int(e.header.labels['cpu']) for e in fresh) or 0}, limited" in answer.message

    run_virtual(body())


def claim(name: str, size: str, **spec: Any) -> dict[str, Any]:
    resources = {"requests": {"storage": size}}
    return {"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": resources} | spec}


@api
async def test_volume_claims(api):
    claims, of_fast = f"{DEFAULT}/persistentvolumeclaims", "fast.storageclass.storage.k8s.io/requests.storage"
    hard = {"requests.storage": "3Gi", of_fast: "1Gi", "persistentvolumeclaims": "3"}
    await api.made(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": hard}})
    await api.made(claims, claim("a", "1Gi", storageClassName="fast"))
    answer = await api.post(claims, claim("b", "1Gi", storageClassName="fast"))
    assert f"requested: {of_fast}=1Gi, used: {of_fast}=1Gi, limited: {of_fast}=1Gi" in answer.message
    await api.made(claims, claim("b", "2Gi"))
    answer = await api.post(claims, claim("c", "1"))
    assert "requested: requests.storage=1, used: requests.storage=3Gi, limited: requests.storage=3Gi" in answer.message


# -- PodGroups that set quota aside (KEP-34: totalResources)

GROUPS = "/apis/incubator.scheduling.k8s.io/v1alpha1/namespaces/default/podgroups"


def group(name: str = "g", members: int = 3, **total: Any) -> dict[str, Any]:
    spec = {"minMembers": members} | ({"totalResources": total} if total else {})
    return {
        "apiVersion": "incubator.scheduling.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": spec,
    }


def member(name: str, group: str = "g", cpu: str = "1") -> dict[str, Any]:
    made = sized(name, {"cpu": cpu})
    made["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": group}
    return made


@api
async def test_3_29_a_group_gets_its_quota_whole_or_none_of_it(api):
    await api.made(QUOTAS, quota(requests_cpu=4, pods=10))
    await api.made(GROUPS, group("a", cpu="3"))
    refused = await api.post(GROUPS, group("b", cpu="2"))
    assert refused.status == 403
    assert refused.message == (
        'podgroups.incubator.scheduling.k8s.io "b" is forbidden: exceeded quota: q, requested: requests.cpu=2, '
        "used: requests.cpu=3, limited: requests.cpu=4"
    )
    assert [(await api.post(PODS, sized(f"other-{n}", {"cpu": "1"}))).status for n in range(2)] == [201, 403]
    assert [(await api.post(PODS, member(f"a-{n}", "a"))).status for n in range(4)] == [201, 201, 201, 403]


@api
async def test_3_29_only_what_is_beyond_the_reservation_pays(api):
    await api.made(QUOTAS, quota(requests_cpu=4))
    await api.made(GROUPS, group(cpu="3"))
    await api.made(PODS, member("one", cpu="2"))
    refused = await api.post(PODS, member("two", cpu="3"))
    assert refused.message == (
        FORBIDDEN.format("two") + "exceeded quota: q, requested: requests.cpu=2, used: requests.cpu=3, "
        "limited: requests.cpu=4"
    )
    assert (await api.post(PODS, member("two", cpu="2"))).status == 201
    assert (await api.post(PODS, sized("other", {"cpu": "1m"}))).status == 403


@pytest.mark.parametrize(
    ("total", "hard", "taken"),
    [
        pytest.param({"cpu": "2"}, {"cpu": 2, "requests_cpu": 2}, True, id="both names of a resource"),
        pytest.param({"requests.cpu": "2"}, {"cpu": 2}, True, id="by the name that quotas have"),
        pytest.param({"cpu": "2"}, {"pods": 2}, True, id="as many pods as must start"),
        pytest.param({"cpu": "2", "pods": "1"}, {"pods": 2}, False, id="as many pods as it says"),
        pytest.param({"cpu": "2"}, {"count__pods": 2}, True, id="stored pods"),
        pytest.param({"memory": "2"}, {"cpu": 2}, False, id="another resource"),
        pytest.param({"limits.cpu": "2"}, {"limits_cpu": 2}, True, id="limits, where it names them"),
        pytest.param({"cpu": "2"}, {"limits_cpu": 2}, False, id="limits, where it does not"),
        pytest.param({}, {"pods": 2}, False, id="nothing said"),
    ],
)
@api
async def test_3_29_what_is_set_aside(api, total, hard, taken):
    await api.made(QUOTAS, quota(**hard))
    await api.made(GROUPS, group(members=2, **total))
    answer = await api.post(PODS, sized("p", {"cpu": "1"}, {"cpu": "1"}))
    assert answer.status == (403 if taken else 201), answer.body


@api
async def test_3_29_pods_that_were_there_first_are_counted_once(api):
    await api.made(QUOTAS, quota(requests_cpu=3))
    await api.made(PODS, member("early", cpu="2"))
    await api.made(GROUPS, group(cpu="3"))
    assert (await api.post(PODS, sized("other", {"cpu": "1"}))).status == 403
    assert (await api.post(PODS, member("late", cpu="1"))).status == 201


@api
async def test_3_29_a_reservation_is_given_back_once(api):
    await api.made(QUOTAS, quota(requests_cpu=3))
    await api.made(GROUPS, group(cpu="3"))
    await api.made(PODS, member("one"))
    await api.merge(f"{PODS}/one/status", {"status": {"phase": "Failed"}})
    assert (await api.post(PODS, sized("other", {"cpu": "1"}))).status == 403  # its place is kept for another
    await api.delete(f"{GROUPS}/g")
    assert (await api.post(PODS, sized("other", {"cpu": "3"}))).status == 201
    assert (await api.post(PODS, sized("more", {"cpu": "1"}))).status == 403


@api
async def test_3_29_a_complete_group_holds_nothing_and_takes_nothing_back_for_free(api):
    await api.made(QUOTAS, quota(requests_cpu=3))
    await api.made(GROUPS, group(cpu="3"))
    status = f"{GROUPS}/g/status"
    assert (await api.merge(status, {"status": {"completionTime": "2026-01-01T00:00:00Z"}})).status == 200
    await api.made(PODS, sized("other", {"cpu": "2"}))
    refused = await api.merge(status, {"status": {"completionTime": None}})
    assert (refused.status, "requested: requests.cpu=3, used: requests.cpu=2" in refused.message) == (403, True)


@api
async def test_3_29_nobody_slips_into_or_out_of_a_reservation(api):
    await api.made(QUOTAS, quota(requests_cpu=3))
    await api.made(GROUPS, group(cpu="2"))
    await api.made(PODS, member("inside", cpu="2"))
    await api.made(PODS, sized("outside", {"cpu": "1"}))
    gone = {"metadata": {"annotations": {"scheduling.k8s.io/group-name": "another"}}}
    for path in ("inside", "inside/status"):
        refused = await api.merge(f"{PODS}/{path}", gone)
        assert (refused.status, "exceeded quota: q, requested: requests.cpu=2" in refused.message) == (403, True)
    assert (await api.merge(f"{PODS}/inside", {"metadata": {"labels": {"a": "b"}}})).status == 200


def test_3_29_the_status_of_a_quota_shows_what_is_set_aside():
    @virtual
    async def scenario(world: World) -> None:
        api = Api(world.plane)
        await api.made(QUOTAS, quota(requests_cpu=8))
        await api.made(GROUPS, group(cpu="5"))
        await world.settle()
        used = [(await api.get(f"{QUOTAS}/q")).json["status"]["used"]]
        await api.made(PODS, member("one", cpu="2"))
        await world.settle()
        used.append((await api.get(f"{QUOTAS}/q")).json["status"]["used"])
        await api.delete(f"{GROUPS}/g")
        await world.settle()
        used.append((await api.get(f"{QUOTAS}/q")).json["status"]["used"])
        assert used == [{"requests.cpu": "5"}, {"requests.cpu": "5"}, {"requests.cpu": "2"}]

    scenario()
