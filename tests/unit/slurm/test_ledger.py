"""How steps share the CPUs of their job."""

import asyncio
import multiprocessing
import os

import pytest

from muster.runtime.clock import RealClock
from muster.slurm.ledger import make_ledger, take_cpus
from muster.slurm.steps import StepDemand

SPAWN = multiprocessing.get_context("spawn")
ROOM = 4


def take(path, demand, pipe):
    """Be a step: take the CPUs, tell of it, and end when told so."""
    pipe.send(asyncio.run(take_cpus(path, demand, ROOM, RealClock())))
    pipe.recv()


@pytest.fixture
def step():
    """Start steps, which hold what they have taken until `end`."""
    path, running = make_ledger(), []

    class Step:
        def __init__(self, nodes, counts, cpus=1):
            self.pipe, theirs = SPAWN.Pipe()
            self.process = SPAWN.Process(target=take, args=(path, StepDemand(nodes, counts, cpus, waits=True), theirs))
            self.process.start()
            running.append(self)

        def nodes(self):
            return self.pipe.recv()

        def end(self):
            self.process.kill()
            self.process.join()

    yield Step
    for one in running:
        one.end()
        one.process.close()
        one.pipe.close()
    os.close(int(path.rpartition("/")[2]))


def test_a_step_takes_the_first_nodes_that_have_room(step):
    assert step([0, 1], [1], 3).nodes() == [0]
    assert step([0, 1], [1], 1).nodes() == [0]
    assert step([0, 1], [1], 2).nodes() == [1]


def test_a_step_waits_for_one_that_is_killed(step):
    first = step([0, 1], [4, 4])
    assert first.nodes() == [0, 1]
    second = step([0, 1], [2])
    first.end()
    assert second.nodes() == [0]


def test_a_step_that_waits_holds_nothing(step):
    assert step([0], [3]).nodes() == [0]
    step([0, 1], [2, 2])
    assert step([0, 1], [1], 4).nodes() == [1]
