"""What the scheduler counts."""

from tests.system.gangs.test_gang_preemption import bury, classes, job
from tests.system.plane import virtual


def numbers(world, name):
    lines = world.plane.manager.registry.text().decode().splitlines()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if line.startswith(name)}


@virtual
async def test_attempts_victims_and_who_waits(world):
    await classes(world)
    await world.node("a", cpu="4")
    await job(world, "small", 4, "low")
    await job(world, "large", 5, "low")
    attempts = numbers(world, "scheduler_schedule_attempts_total")
    assert attempts['scheduler_schedule_attempts_total{result="scheduled"}'] == 4
    assert attempts['scheduler_schedule_attempts_total{result="unschedulable"}'] >= 5
    assert numbers(world, "muster_scheduler_waiting_gangs") == {"muster_scheduler_waiting_gangs": 1}
    await job(world, "urgent", 2, "high")
    await bury(world)
    gangs = numbers(world, "scheduler_podgroup_schedule_attempts_total")
    assert gangs['scheduler_podgroup_schedule_attempts_total{result="scheduled"}'] == 2
    assert numbers(world, "scheduler_preemption_attempts_total") == {"scheduler_preemption_attempts_total": 1}
    assert numbers(world, "scheduler_preemption_victims_sum") == {"scheduler_preemption_victims_sum": 4}
    assert numbers(world, "scheduler_scheduling_algorithm_duration_seconds_count").popitem()[1] > 0
