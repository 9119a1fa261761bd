from datetime import timedelta
from typing import Any

import pytest
from tests.unit.jobs.world import START, World, job_of, replace

from muster.jobs.job.sizing import wanted_active
from muster.jobs.job.terms import JobTerms


@pytest.mark.parametrize(
    ("spec", "active", "succeeded", "wanted"),
    [
        ({"parallelism": 3, "completions": 5}, 0, 0, 3),
        ({"parallelism": 3, "completions": 5}, 0, 3, 2),
        ({"parallelism": 3, "completions": 5}, 2, 7, 0),
        ({"parallelism": 3}, 0, 0, 3),
        ({"parallelism": 3}, 2, 1, 2),
        ({"parallelism": 3}, 7, 1, 7),
        ({"parallelism": 0, "completions": 5}, 2, 0, 0),
        ({"completionMode": "Indexed", "parallelism": 4, "completions": 4}, 0, 1, 3),
    ],
)
def test_wanted_active(spec: dict[str, Any], active: int, succeeded: int, wanted: int) -> None:
    assert wanted_active(JobTerms.of(job_of(spec)), active, succeeded) == wanted


PAIRS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    # (has less to lose, has more to lose)
    ({"phase": "Pending"}, {"phase": "Running"}),
    ({"phase": "Pending", "on_node": True}, {"phase": "Unknown"}),
    ({"phase": "Running", "on_node": False}, {"phase": "Pending", "on_node": True}),
    ({"phase": "Unknown"}, {"phase": "Running"}),
    ({"phase": "Running"}, {"phase": "Running", "ready": True}),
    (
        {"phase": "Running", "ready": True, "ago": timedelta(1)},
        {"phase": "Running", "ready": True, "ago": timedelta(2)},
    ),
    ({"phase": "Running", "restarts": 3}, {"phase": "Running", "restarts": 1}),
    ({"phase": "Running", "created": START}, {"phase": "Running", "created": START - timedelta(1)}),
]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize(("less", "more"), PAIRS)
def test_the_pod_with_less_to_lose_goes(
    less: dict[str, Any], more: dict[str, Any], indexed: bool, turned: bool
) -> None:
    """Of two too many, and of two with the same index."""
    spec = {"completionMode": "Indexed", "completions": 1} if indexed else {"completions": 5}
    world = World(job_of({"parallelism": 1} | spec))
    names: dict[str, bool] = {}
    for how in (more, less) if turned else (less, more):
        how = dict(how)
        on_node, created = how.pop("on_node", None), how.pop("created", None)
        pod = world.add(how.pop("phase"), 0 if indexed else None, **how)
        if on_node is not None:
            pod = replace(pod, spec=replace(pod.spec, node_name="node" if on_node else ""))
        if created is not None:
            pod = replace(pod, metadata=replace(pod.metadata, creation_timestamp=created))
        world.pods[pod.metadata.uid] = pod
        names[pod.metadata.uid] = len(names) == turned
    world.sync()
    assert [names[uid] for uid in world.deleted] == [True]


@pytest.mark.parametrize("failures", [(2, 0, 1), (0, 1, 2), (1, 2, 0)])
def test_the_index_whose_back_off_ends_first_is_looked_at_first(failures: tuple[int, ...]) -> None:
    spec = {"completionMode": "Indexed", "completions": 3, "parallelism": 3, "backoffLimitPerIndex": 9}
    world = World(job_of(spec))
    for index, count in enumerate(failures):
        world.add("Failed", index, failures=count, ago=timedelta())
    plan = world.decide()
    assert (plan.create, plan.wake_at) == ((), START + timedelta(seconds=10))
