"""The words of `muster status` about nodes."""

from muster.api.core import Node, NodeStatus, NodeSystemInfo
from muster.api.meta import ObjectMeta
from muster.api.ours.embedded import NODE_IDENTITY
from muster.cli.commands.server.status import describe_full, describe_upgrade


def test_nodes_with_a_full_disk_are_named() -> None:
    assert describe_full({}) == ""
    disks = {"a": "", "b": "the disk of /srv is full"}
    assert describe_full(disks) == "; a full disk keeps new pods from starting: a, b (the disk of /srv is full)"
    assert describe_full({f"n{number}": "" for number in range(7)}).endswith(": n0, n1, n2, n3, n4 and 2 more")


def node(runtime: str, **annotations: str) -> Node:
    info = NodeSystemInfo(container_runtime_version=runtime)
    return Node(metadata=ObjectMeta(name="n", annotations=annotations), status=NodeStatus(node_info=info))


def test_a_server_of_another_release_is_to_be_restarted():
    assert describe_upgrade([], "0.2.0") == ""
    assert describe_upgrade([node("process://0.2.0"), node("simulated://")], "0.2.0") == ""
    assert describe_upgrade([node("process://0.1.0", **{NODE_IDENTITY: "x"})], "0.2.0") == "", "a joined machine"
    said = "the server runs Muster 0.1.0, and 0.2.0 is installed: muster restart"
    assert describe_upgrade([node("process://0.1.0"), node("process://0.1.0")], "0.2.0") == said
