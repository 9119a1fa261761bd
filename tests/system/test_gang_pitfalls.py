"""What other gang schedulers stumbled over, played with the whole engine; numbered as in the list of pitfalls."""

from itertools import chain

import msgspec
import pytest
from tests.system.plane import virtual

from muster.api.core import EVENT, POD, Pod
from muster.api.meta import ObjectMeta
from muster.api.podgroups.kep import POD_GROUP, PodGroup, PodGroupSpec


async def group(world, name, least):
    spec = PodGroupSpec(min_members=least)
    await world.client.create(POD_GROUP, PodGroup(metadata=ObjectMeta(name=name, namespace="default"), spec=spec))


async def member(world, group, number):
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    metadata = {"name": f"{group}-{number}", "annotations": {"scheduling.k8s.io/group-name": group}}
    document = {"metadata": metadata, "spec": {"restartPolicy": "Never", "containers": [container]}}
    await world.client.create(POD, msgspec.convert(document, Pod), "default")


async def bound(world, group):
    return sum(bool(pod.spec.node_name) for pod in await world.pods() if pod.metadata.name.startswith(f"{group}-"))


@pytest.mark.parametrize(
    "order",
    [
        pytest.param(list(chain(*((("a", n), ("b", n)) for n in range(6)))), id="in turns"),
        pytest.param([*(("a", n) for n in range(5)), *(("b", n) for n in range(6)), ("a", 5)], id="one is late"),
    ],
)
def test_pitfall_1_of_two_gangs_that_do_not_both_fit_exactly_one_starts(order):
    @virtual
    async def scenario(world):
        await world.node("n0", cpu="5")
        await world.node("n1", cpu="5")
        await group(world, "a", 6)
        await group(world, "b", 6)
        for name, number in order:
            await member(world, name, number)
            await world.settle(0.1)
        await world.settle(5)
        assert sorted([await bound(world, "a"), await bound(world, "b")]) == [0, 6]

    scenario()


@virtual
async def test_pitfall_3_a_gang_that_never_fits_is_told_so_and_stops_no_other(world):
    await world.node("n0", cpu="4")
    await world.job("impossible", 5)
    await world.settle(1)
    for number in range(3):
        await world.job(f"later{number}", 1)
        await world.settle(1)
        assert await world.nodes_of(f"later{number}") == ["n0"]
    told = [event.message for event in (await world.client.list(EVENT, "default")).items]
    assert any(text.endswith("It would not fit either if all that ever ends had ended.") for text in told)
    assert await world.nodes_of("impossible") == [""] * 5
