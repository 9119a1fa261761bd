"""Which container uses a GPU, from what drivers report."""

import pytest

from muster.cluster.nodeconnection import GpuUse
from muster.cluster.nodes.gpus.consumption import GpuProcess, GpuState, attribute_use

A, B = ("uid-a", "main"), ("uid-b", "main")
GIB = 1 << 30
TREES = {A: {10, 11}, B: {20}}


@pytest.mark.parametrize(
    ("states", "held", "use"),
    [
        ({"0": GpuState(500, GIB, [GpuProcess(11, GIB)])}, {A: ("0",)}, {A: GpuUse(500, GIB)}),
        (  # several GPUs of one container add up, also those of one process
            {
                "0": GpuState(900, GIB, [GpuProcess(10, 1), GpuProcess(11, 2)]),
                "1": GpuState(600, 9, [GpuProcess(10, 4)]),
            },
            {A: ("0", "1")},
            {A: GpuUse(1500, 7)},
        ),
        (  # one program of the user's own beside the jobs counts for nobody
            {"0": GpuState(1000, GIB, [GpuProcess(99, GIB)])},
            {A: ("0",)},
            {A: GpuUse()},
        ),
        (
            {"0": GpuState(1000, GIB, [GpuProcess(99, 5), GpuProcess(10, 6)])},
            {A: ("0",), B: ()},
            {A: GpuUse(1000, 6)},
        ),
        (  # a program that took a GPU of another container is charged for the memory
            {"0": GpuState(1000, GIB, [GpuProcess(10, 5), GpuProcess(20, 6)])},
            {A: ("0",), B: ()},
            {A: GpuUse(1000, 5), B: GpuUse(0, 6)},
        ),
        ({"0": GpuState(300, 7)}, {A: ("0",)}, {A: GpuUse(300, 7)}),  # the driver reports no processes
        ({"0": GpuState(300, 7)}, {A: ()}, {}),
        ({"0": GpuState(300, 7, [GpuProcess(10, None)])}, {A: ("0",)}, {A: GpuUse(300, 7)}),  # nor their memory
        (
            {"0": GpuState(300, 7, [GpuProcess(10, None), GpuProcess(20, None)])},
            {A: ("0",)},
            {A: GpuUse(300), B: GpuUse()},
        ),
        ({}, {A: ("0",)}, {A: GpuUse()}),
        ({"0": GpuState(0, 0, [])}, {A: ("0",)}, {A: GpuUse()}),
    ],
)
def test_use_belongs_to_whom_it_is_of(states, held, use):
    assert attribute_use(states, held, TREES) == use
