"""Which GPUs a node has, and how they are."""

import asyncio
import threading

import pytest

from muster.cluster.nodes.gpus import finding
from muster.cluster.nodes.gpus.device import AMD, NVIDIA, Gpu
from muster.cluster.nodes.gpus.finding import (
    Health,
    NoAnswerError,
    choose_offered,
    discover,
    find_unhealthy,
    select_allowed_gpus,
    simulate_gpus,
)

THREE = tuple(Gpu(NVIDIA, number, uuid=f"GPU-{letter}{letter}") for number, letter in enumerate("abc"))
ONE = (Gpu(AMD, 0),)


@pytest.mark.parametrize(
    ("environment", "left"),
    [
        ({}, "0 1 2 amd-0"),
        ({"CUDA_VISIBLE_DEVICES": "2,0"}, "0 2 amd-0"),
        ({"CUDA_VISIBLE_DEVICES": ""}, "amd-0"),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, "amd-0"),
        ({"CUDA_VISIBLE_DEVICES": "1,7,0"}, "1 amd-0"),
        ({"CUDA_VISIBLE_DEVICES": "GPU-b, GPU-cc"}, "1 2 amd-0"),
        ({"CUDA_VISIBLE_DEVICES": "GPU-"}, "amd-0"),
        ({"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, "amd-0"),
        ({"ROCR_VISIBLE_DEVICES": ""}, "0 1 2"),
        ({"ROCR_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "0"}, "0 amd-0"),
    ],
)
def test_a_node_offers_what_its_own_variables_leave_it(environment, left):
    assert [gpu.name for gpu in select_allowed_gpus((*THREE, *ONE), environment)] == left.split()


@pytest.mark.parametrize(
    ("offered", "left"),
    [
        ({}, "0 1 2 amd-0"),
        ({"nvidia.com/gpu": 2, "cpu": 1}, "0 1 amd-0"),
        ({"nvidia.com/gpu": 0, "amd.com/gpu": 9}, "amd-0"),
    ],
)
def test_a_node_that_offers_fewer_gives_the_first(offered, left):
    assert [gpu.name for gpu in choose_offered((*THREE, *ONE), offered)] == left.split()


def test_played_gpus_are_ill_when_a_file_says_so(tmp_path):
    three = simulate_gpus(3)
    assert find_unhealthy(three, tmp_path) == {}
    (tmp_path / "ill-gpus").write_text("2\n7\n")
    assert find_unhealthy(three, tmp_path) == {"2": "it stands in ill-gpus"}


def test_they_are_asked_beside_the_loop(tmp_path):
    async def main():
        return [gpu for gpu in await discover() if gpu.played], await Health(simulate_gpus(2), tmp_path).problems()

    assert asyncio.run(main()) == ([], {})


def test_a_driver_that_does_not_answer_is_not_asked_again_until_it_has(tmp_path, monkeypatch):
    asked, answers = [], threading.Event()

    def late(gpus, _state):
        asked.append(gpus)
        answers.wait()
        return {"0": "it is late"}

    async def main():
        health = Health(simulate_gpus(1), tmp_path)
        for _ in range(3):
            with pytest.raises(NoAnswerError, match="has not answered"):
                await health.problems()
        assert len(asked) == 1
        answers.set()
        monkeypatch.setattr(finding, "ANSWER_SECONDS", 60.0)
        while True:
            try:
                return await health.problems()
            except NoAnswerError:  # of the first question
                await asyncio.sleep(0)

    monkeypatch.setattr(finding, "find_unhealthy", late)
    monkeypatch.setattr(finding, "ANSWER_SECONDS", 0.01)
    assert asyncio.run(main()) == {"0": "it is late"}
    assert len(asked) == 2
