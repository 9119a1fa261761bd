"""Which selections of devices are followed."""

from muster.gang.nodes.devicerequests import Selection
from muster.gang.nodes.deviceselections import MOST_OF_NAMESPACE, MOST_SELECTIONS, FollowedChange, Selections


def named(number: int) -> Selection:
    return Selection(f"c{number}")


def full() -> Selections:
    selections = Selections()
    for number in range(MOST_SELECTIONS):
        selections.set_claim(key(number), (named(number),))
    return selections


def key(number: int) -> str:
    """The key of a claim: one namespace after the other has its share."""
    return f"ns-{number // MOST_OF_NAMESPACE}/k{number}"


def test_a_selection_stays_until_another_one_needs_its_room():
    selections = full()
    assert selections.set_claim(key(3), ()) == FollowedChange()
    assert named(3).resource in selections
    assert selections.set_claim(key(3), (named(3),)) == FollowedChange()
    selections.set_claim(key(3), ())
    assert selections.set_claim("new", (named(-1),)) == FollowedChange(True, (named(3).resource,))
    assert named(3).resource not in selections


def test_a_selection_that_found_no_room_gets_the_room_of_one_that_is_given_up():
    selections = full()
    assert selections.set_claim("new", (named(-1),)) == FollowedChange()
    assert named(-1).resource not in selections
    assert selections.set_claim(key(3), ()) == FollowedChange(True, (named(3).resource,))
    assert selections[named(-1).resource] == named(-1)


def test_a_claim_that_goes_before_it_found_room_takes_none():
    selections = full()
    selections.set_claim("new", (named(-1),))
    selections.set_claim("new", ())
    assert selections.set_claim(key(3), ()) == FollowedChange()
    assert named(-1).resource not in selections


def test_a_selection_stays_while_another_claim_wants_it():
    selections = full()
    selections.set_claim("other", (named(3),))
    selections.set_claim(key(3), ())
    assert selections.set_claim("new", (named(-1),)) == FollowedChange()
    assert named(3).resource in selections


def test_one_namespace_leaves_room_for_the_others():
    selections = Selections()
    for number in range(MOST_SELECTIONS):
        selections.set_claim(f"greedy/k{number}", (named(number),))
    assert len(list(selections)) == MOST_OF_NAMESPACE
    for number in range(MOST_SELECTIONS):  # a claim that wants what it wanted lets no other claim in
        assert selections.set_claim(f"greedy/k{number}", (named(number),)) == FollowedChange()
    assert selections.set_claim("modest/k", (named(-1),)) == FollowedChange(grew=True)
    assert selections.set_claim("greedy/k0", ()) == FollowedChange(grew=True)
    assert named(MOST_OF_NAMESPACE).resource in selections, "its oldest claim that was left out has the share of k0"
    assert len(list(selections)) == MOST_OF_NAMESPACE + 2
