"""`--nodes`, by example."""

import pytest

from muster.cluster.nodespec import NodeSpec, NodeSpecError, parse


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("process", NodeSpec()),
        ("process:2,cpu=500m", NodeSpec("process", 2, {"cpu": "500m"})),
        (
            "simulated:1000,cpu=8,memory=32Gi,nvidia.com/gpu=8",
            NodeSpec("simulated", 1000, {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "8"}),
        ),
        ("process,gpus=4:fake,cpu=8", NodeSpec("process", 1, {"cpu": "8"}, 4)),
        (
            "simulated:2,cpu=8,device/gpu.example.com=8,device/nic.example.com=1",
            NodeSpec("simulated", 2, {"cpu": "8"}, devices={"gpu.example.com": 8, "nic.example.com": 1}),
        ),
        ("simulated:2,gpus=8", NodeSpec("simulated", 2, {"nvidia.com/gpu": "8"})),
        ("simulated:2,gpus=8:fake", NodeSpec("simulated", 2, {"nvidia.com/gpu": "8"})),
    ],
)
def test_parse(text, spec):
    assert parse(text) == spec


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "'' is not a kind of node; expected process or simulated"),
        ("docker", "'docker' is not a kind of node"),
        ("process:0", "'0' is not a number of nodes"),
        ("process:x", "'x' is not a number of nodes"),
        ("process:²", "'²' is not a number of nodes"),
        ("simulated:1000000", "'1000000' is not a number of nodes"),
        ("process,cpu", "'cpu' is not RESOURCE=QUANTITY"),
        ("process,=1", "'=1' is not RESOURCE=QUANTITY"),
        ("process,cpu=lots", "cpu: 'lots' is no quantity; write it as 8 or 500m"),
        ("simulated:2,memory=8x", "memory: '8x' is no quantity; write it as 512Mi or 32Gi"),
        ("simulated:2,hugepages-2Mi=8x", "hugepages-2Mi: '8x' is no quantity; write it as 512Mi or 32Gi"),
        ("simulated:2,nvidia.com/gpu=two", "nvidia.com/gpu: 'two' is no quantity; write it as a whole number, as 8"),
        ("process,cpu=-1", "cpu: less than nothing"),
        ("proces", "expected process or simulated; did you mean process?"),
        ("simulate:3", "did you mean simulated?"),
        ("process,device/gpu.example.com=8", "only simulated nodes play devices"),
        ("simulated,device/GPU=8", "'GPU' is not a name of a driver"),
        ("simulated,device/gpu.example.com", "'' is not a number of devices from 1 to 128"),
        ("simulated,device/gpu.example.com=129", "'129' is not a number of devices from 1 to 128"),
        ("process,cpus=8", "'cpus' is not a resource of a node; did you mean cpu?; there is cpu, memory, "),
        ("process,mem=4Gi", "'mem' is not a resource of a node; did you mean memory?"),
        ("process,storage=4Gi", "did you mean ephemeral-storage?"),
        ("simulated,gpu=8", "others have a domain, as nvidia.com/gpu"),
        ("process,cpu=1,cpu=2", "cpu is given twice"),
        ("process,gpus=4", "a process node offers the GPUs of its machine; gpus=4:fake plays four instead"),
        ("process,gpus=4:real", "gpus=4:fake plays four"),
        ("process,gpus=0:fake", "'0' is not a number of GPUs from 1 to 1024"),
        ("simulated,gpus=0.5", "'0.5' is not a number of GPUs"),
    ],
)
def test_bad_values_say_which_part(text, problem):
    with pytest.raises(NodeSpecError) as caught:
        parse(text)
    assert problem in str(caught.value)


def test_names_go_on_where_others_of_the_kind_ended():
    assert NodeSpec(count=2).names() == ["node-0", "node-1"]
    assert NodeSpec("simulated", 2).names(taken=3) == ["sim-3", "sim-4"]
