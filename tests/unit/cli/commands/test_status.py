"""The words of `muster status` about nodes."""

from muster.cli.commands.status import describe_full


def test_nodes_with_a_full_disk_are_named() -> None:
    assert describe_full([]) == ""
    assert describe_full(["a", "b"]) == "; their disk is full, so no new pods start there: a, b"
    assert describe_full([f"n{number}" for number in range(7)]).endswith(": n0, n1, n2, n3, n4 and 2 more")
