"""Laws of dispatch over random histories of a manager and its workers, with all that may become of them.

Workers are lost and found, come and go, evict, refuse, are silent, lose and restore what they have, or are other ones
under the same name. What the manager believes of their room is right or wrong. Requests land late, in another order,
or never. The manager is killed between its writes, and begins anew with the store of an earlier time or none. People
suspend, delete and submit again, here and there.
"""

from random import Random

import pytest
from tests.unit.multicluster.dispatch.world import World

from muster.api.config.types import ALL_AT_ONCE, EARLIEST_START, INCREMENTAL

STEPS = 160


@pytest.mark.parametrize(
    ("workers", "size", "dispatcher"), [(2, 1, ALL_AT_ONCE), (3, 1, INCREMENTAL), (2, 2, EARLIEST_START)]
)
def test_a_job_has_pods_in_one_cluster_at_most_and_only_with_quota_and_ends_and_stays_there_till_it_goes_here(
    workers: int, size: int, dispatcher: str, long: bool
) -> None:
    ended_early = stayed = 0
    for seed in range(34_000 if long else 200):
        world = World(Random(seed), workers, size, dispatcher)
        for _ in range(STEPS):
            world.step()
            assert len(world.running()) <= 1, f"seed {seed}: it runs in {world.running()}"
            assert world.may_run() or not world.running(), f"seed {seed}: it runs without quota"
        ended_early += world.has_finished()
        if world.random.random() < 0.7:
            hindrance, cluster = world.random.choice(("lost", "full")), world.random.choice(list(world.workers))
            world.settle(lost=cluster) if hindrance == "lost" else world.settle(full=cluster)
            assert world.has_finished(), f"seed {seed}: a {hindrance} cluster keeps it"
        world.settle()
        assert world.has_finished(), f"seed {seed}: it never ended"
        assert not world.home, f"seed {seed}: its home is kept"
        kept = world.kept()
        assert kept in ([], [world.cluster]), f"seed {seed}: something is left in {kept}"
        assert kept or world.cleared or size > 1, f"seed {seed}: its output is lost"  # pods of a group go one by one
        stayed += bool(kept)
        world.is_over = True
        world.delete_here()
        world.settle()
        assert not world.kept(), f"seed {seed}: something is left in {world.kept()}"
    assert ended_early, "no history comes to its end"
    assert stayed, "what has ended stays nowhere"
