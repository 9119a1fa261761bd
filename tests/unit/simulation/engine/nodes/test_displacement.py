"""What the pods of a gang say about who displaces whom."""

import pytest
from tests.unit.gang.conftest import make_pod

from muster.simulation.engine.nodes.displacement import Precedence, find_end_of_protection


def pod(priority, cooldown=None, policy=None):
    one = make_pod(priority=priority, preemptionPolicy=policy)
    if cooldown is not None:
        one.metadata.annotations["volcano.sh/cooldown-time"] = cooldown
    return one


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param([pod(5), pod(9)], Precedence(5, 9, 10.0), id="the weakest pod displaces, the strongest resists"),
        pytest.param([pod(5), pod(9, policy="Never")], Precedence(None, 9, 10.0), id="one pod displaces nobody"),
        pytest.param([pod(5, "1m"), pod(5)], Precedence(5, 5, 60.0), id="one pod is protected for longer"),
        pytest.param([pod(5, "1s")], Precedence(5, 5, 10.0), id="every pod is protected"),
    ],
)
def test_the_precedence_of_a_gang_is_that_of_its_pods(pods, expected):
    assert Precedence.of(pods, 10.0) == expected


def test_a_gang_that_nothing_displaces_is_no_candidate():
    assert Precedence(5, None).candidate("a", ("x",), 0.0) is None
    candidate = Precedence(5, 7, 30.0).candidate("a", ("x",), 100.0)
    assert candidate is not None
    assert (candidate.key, candidate.resistance, candidate.protected) == ("a", 7, 130.0)


def test_only_what_is_weaker_and_still_protected_is_waited_for():
    precedences = [(str(one), Precedence(0, one, 10.0 * one)) for one in (1, 2, 3)]
    candidates = [one for key, of in precedences if (one := of.candidate(key, (), 0.0)) is not None]
    assert find_end_of_protection(candidates, 3, now=15.0) == 20.0
    assert find_end_of_protection(candidates, 3, now=20.0) is None
    assert find_end_of_protection(candidates, 1, now=0.0) is None
