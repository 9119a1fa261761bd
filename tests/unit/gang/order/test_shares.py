"""How much of the cluster each tenant's pods hold."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from muster.gang.order.shares import Shares

TOTALS = {"cpu": 10, "memory": 100, "none of it": 0}

amounts = st.dictionaries(st.sampled_from(["cpu", "gpu", "memory", "none of it"]), st.integers(1, 5))
steps = st.lists(
    st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.tuples(st.sampled_from("xy"), amounts))), max_size=20
)


@given(steps)
def test_a_share_is_the_largest_part_of_any_resource_that_the_pods_of_a_tenant_hold(steps):
    """Pods come, hold something else, are told of twice, and go (None)."""
    shares, pods = Shares(), {}
    for uid, held in steps:
        pods[uid] = held
        if held is None:
            shares.release(uid)
        else:
            shares.hold(uid, held[0], tuple(held[1].items()))
        for tenant in "xy":
            sums = Counter[str]()
            for whose, amounts in filter(None, pods.values()):
                sums.update(amounts if whose == tenant else {})
            assert shares.share(tenant, TOTALS) == max(sums["cpu"] / 10, sums["memory"] / 100)
    assert shares.share("nobody", TOTALS) == 0
