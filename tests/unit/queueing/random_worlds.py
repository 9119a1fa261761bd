"""Draw random trees, full of workloads, and one more that waits, as lines of `worlds`, so that a failure reads well."""

from typing import Any

from hypothesis import strategies as st
from tests.unit.queueing.worlds import World, incoming_of, tree_of, usage_of

_RESOURCES = ("cpu", "gpu")


def _limits(draw: st.DrawFn) -> str:
    return "".join(f",{kind}{draw(st.integers(0, 4))}" for kind in "bl" if draw(st.integers(0, 4)) == 0)


def _quota(draw: st.DrawFn, most: int) -> str:
    lines = [f"{resource}={draw(st.integers(0, most))}{_limits(draw)}" for resource in _RESOURCES]
    return " ".join(lines)


def _weight(draw: st.DrawFn) -> str:
    return "weight=" + draw(st.sampled_from(["1", "1", "0", "1/2", "3"]))


@st.composite
def worlds(draw: st.DrawFn, most: int = 12) -> dict[str, Any]:
    """Draw a case without its expected result.

    most: the largest number of admitted workloads.
    """
    cohorts: dict[str, str] = {}
    for number in range(draw(st.integers(1, 4))):
        parent = f"in=c{draw(st.integers(0, number - 1))}" if number else ""
        cohorts[f"c{number}"] = f"{parent} {_quota(draw, 2)} {_weight(draw)}"
    queues: dict[str, str] = {}
    policies = st.sampled_from(["lower", "newer", "any", "never"])
    for number in range(draw(st.integers(1, 5))):
        cohort = f"in=c{draw(st.integers(0, len(cohorts) - 1))}" if draw(st.integers(0, 9)) else ""
        borrow = draw(st.sampled_from(["", "", "borrow=lower", "borrow=0"]))
        queues[f"q{number}"] = (
            f"{cohort} {_quota(draw, 4)} {_weight(draw)} within={draw(policies)} reclaim={draw(policies)} {borrow}"
        )
    names = st.sampled_from(sorted(queues))
    admitted = {
        f"w{number}": (
            f"{draw(names)} cpu={draw(st.integers(0, 3))} gpu={draw(st.integers(0, 2))} p={draw(st.integers(-2, 2))}"
            f" since={draw(st.integers(0, 2))} queued={draw(st.integers(-2, 2))}"
            f"{' evicted' if draw(st.integers(0, 7)) == 0 else ''}"
        )
        for number in range(draw(st.integers(0, most)))
    }
    incoming = f"cpu={draw(st.integers(1, 6))}" + (f" gpu={draw(st.integers(0, 3))}" if draw(st.booleans()) else "")
    about = f"p={draw(st.integers(-2, 3))} queued={draw(st.integers(-2, 2))}"
    return {
        "cohorts": cohorts,
        "queues": queues,
        "admitted": admitted,
        "incoming": f"{draw(names)} {about} {incoming}",
    }


def built(case: dict[str, Any], *, backwards: bool = False) -> World:
    """Build the world, in which every resource that is short is contested.

    backwards: admit the workloads in the opposite order.
    """
    admitted = list(case["admitted"].items())
    tree = tree_of({**case, "admitted": dict(reversed(admitted) if backwards else admitted)})
    queue, priority, queued, *requests = case["incoming"].split()
    node = tree.queues[queue]
    words = [
        word if amount > max(0, node.available(fr)) else f"{word}:fit"
        for word in requests
        for fr, amount in usage_of(word).items()
    ]
    return World(tree, *incoming_of(" ".join([queue, priority, queued, *words])))
