"""The lines of waiting gangs, against a sort of all of them."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from muster.controllers.scheduler.order import GangClasses, GangOrder, OrderCriteria, make_rank

START = datetime(2026, 1, 5, tzinfo=UTC)

criteria = st.builds(
    OrderCriteria,
    broken=st.booleans(),
    priority=st.integers(0, 2),
    tenant=st.sampled_from("abc"),
    created=st.integers(0, 3).map(lambda seconds: START + timedelta(seconds=seconds)),
)
shares = st.fixed_dictionaries({tenant: st.sampled_from([0.0, 0.25, 0.5]) for tenant in "abc"})


@given(st.lists(criteria, min_size=1), st.sets(st.integers(0, 30)), shares)
def test_the_order_is_that_of_a_sort(gangs, gone, shares):
    order = GangOrder()
    for number, one in enumerate(gangs):
        order.add(str(number), one)
    for number in gone & set(range(len(gangs))):
        order.remove(str(number), gangs[number])
    there = [number for number in range(len(gangs)) if number not in gone]
    ranks = sorted(make_rank(str(number), gangs[number], shares[gangs[number].tenant]) for number in there)
    assert list(order.iterate(shares.__getitem__)) == [rank[-1] for rank in ranks]
    assert order.has_several_tenants == (len({gangs[number].tenant for number in there}) > 1)
    for number, one in enumerate(gangs):
        own = make_rank(str(number), one, shares[one.tenant])
        before = sorted(order.iterate_before(own, shares.__getitem__))
        assert before == sorted(rank[-1] for rank in ranks if rank < own)


@given(st.lists(st.tuples(st.sampled_from("xyz"), criteria)), st.sets(st.integers(0, 30)), shares)
def test_the_first_of_each_class_is_found_as_gangs_come_and_go(gangs, gone, shares):
    classes = GangClasses()
    for number, (alike, one) in enumerate(gangs):
        classes.add(str(number), alike, one)
    for number in gone & set(range(len(gangs))):
        classes.remove(str(number), *gangs[number])
    ranks = sorted(
        (make_rank(str(number), one, shares[one.tenant]), alike)
        for number, (alike, one) in enumerate(gangs)
        if number not in gone
    )
    members: dict[str, list[str]] = {}
    for rank, alike in ranks:
        members.setdefault(alike, []).append(rank[-1])
    assert classes.list_firsts(shares.__getitem__) == [keys[0] for keys in members.values()]
    for alike in "xyz":
        assert list(classes.iterate(alike, shares.__getitem__)) == members.get(alike, [])


def test_only_lines_that_come_first_are_asked_for():
    """A head at the end of its own line, before a long line of a tenant that uses more."""
    order, asked = GangOrder(), []
    for number in range(1000):
        order.add(f"more-{number:03}", OrderCriteria(False, 0, "more", START))
    order.add("head", OrderCriteria(False, 0, "less", START))

    def get_share(tenant):
        asked.append(tenant)
        return 0.5 if tenant == "more" else 0.0

    assert not list(order.iterate_before(make_rank("head", OrderCriteria(False, 0, "less", START), 0.0), get_share))
    assert sorted(asked) == ["less", "more"]
