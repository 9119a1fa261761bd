"""The node's half of its fence: when a pod is asked to end, and what its shims read."""

from pathlib import Path

import pytest

from muster.api.core import Pod, PodSpec, Toleration
from muster.cluster.nodes import fence
from muster.cluster.nodes.fence import Fence, can_take_pods, must_end_pod, seconds_until_replaced
from muster.cluster.nodes.shim.fence import Fence as ShimFence
from muster.runtime.clock import boot_nanoseconds

MINUTE = 60 * 10**9


def pod(seconds: int | None) -> Pod:
    bears = Toleration(key="node.kubernetes.io/unreachable", operator="Exists", toleration_seconds=seconds)
    return Pod(spec=PodSpec(tolerations=(bears,)))


@pytest.mark.parametrize(
    ("pod", "silent", "ends"),
    [
        (pod(300), 319.9, False),
        (pod(300), 320.0, True),
        (pod(0), 19.9, False),
        (pod(0), 20.0, True),
        (Pod(), 20.0, True),
        (pod(None), 1e9, False),
    ],
)
def test_a_pod_is_asked_to_end_half_a_lease_before_it_is_killed(pod: Pod, silent: float, ends: bool) -> None:
    assert must_end_pod(pod, silent, 40.0) == ends


@pytest.mark.parametrize("lease", [2.0, 8.0, 40.0])
def test_a_node_takes_no_pod_that_its_fence_would_end_at_once(lease: float) -> None:
    moments = [lease * step / 100 for step in range(300)]
    assert not any(can_take_pods(silent, lease) and must_end_pod(Pod(), silent, lease) for silent in moments)
    assert can_take_pods(lease / 4, lease), "one renewal after the other"
    assert not can_take_pods(lease, lease), "the renewal that wakes it up does not count"


def test_a_pod_without_tolerations_has_no_patience() -> None:
    assert [seconds_until_replaced(one) for one in (Pod(), pod(7), pod(None))] == [0.0, 7.0, None]


def test_a_shim_reads_what_its_node_has_written(tmp_path: Path) -> None:
    node = Fence(tmp_path)
    assert ShimFence(node.descriptor, 1000.0).is_over(), "the node was never heard"
    node.record_renewal(boot_nanoseconds(), 40.0)
    shim = ShimFence(node.descriptor, 0.0)
    assert not shim.is_over()
    node.close()
    again = Fence(tmp_path)
    assert not ShimFence(again.descriptor, 0.0).is_over(), "an agent that starts again changes nothing"
    again.record_renewal(boot_nanoseconds() - MINUTE, 40.0)
    assert shim.is_over()
    assert not ShimFence(again.descriptor, 3600.0).is_over()


def test_what_was_written_before_the_machine_was_started_holds_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Fence(tmp_path)
    before.record_renewal(boot_nanoseconds(), 1000.0)
    before.close()
    monkeypatch.setattr(fence, "boot_nanoseconds", lambda: 10**9)
    assert ShimFence(Fence(tmp_path).descriptor, 0.0).is_over()
