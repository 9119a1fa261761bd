"""How quotas and amounts are drawn."""

import re

import pytest

from muster.dashboard.meters import describe_amount, draw_amount, draw_share
from muster.insight.nodes import NodeAmount
from muster.insight.quota.shares import QuotaShare

CASES = {
    "nothing is used": (QuotaShare("cpu", "", 8000, 0), []),
    "some is used": (QuotaShare("cpu", "", 8000, 2000), [("used", "0%", "25%")]),
    "some is lent": (
        QuotaShare("cpu", "", 8000, 2000, lent=4000),
        [("used", "0%", "25%"), ("lent", "50%", "50%")],
    ),
    "some is borrowed": (
        QuotaShare("cpu", "", 6000, 8000, borrowed=2000),
        [("used", "0%", "75%"), ("borrowed", "75%", "25%")],
    ),
    "all is borrowed": (QuotaShare("cpu", "", 0, 2000, borrowed=2000), [("borrowed", "0%", "100%")]),
    "there is less than is used": (QuotaShare("cpu", "", 0, 2000), [("used", "0%", "100%")]),
    "one flavor is borrowed while another is free": (
        QuotaShare("cpu", "", 6000, 4000, borrowed=2000),
        [("used", "0%", "25%"), ("borrowed", "75%", "25%")],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_share_is_drawn_in_its_parts(name: str) -> None:
    share, wanted = CASES[name]
    found = re.findall(r'<rect class="(\w+)" x="([\d.]+%)" width="([\d.]+%)"', draw_share(share))
    assert found == wanted


def test_an_amount_says_what_is_requested() -> None:
    assert describe_amount(NodeAmount("cpu", 3500, 8000)) == "3500m/8"
    assert describe_amount(NodeAmount("memory", None, 1 << 30)) == "-/1Gi"
    assert 'aria-label="cpu: 2 of 8 requested"' in draw_amount(NodeAmount("cpu", 2000, 8000))
    assert 'class="used"' not in draw_amount(NodeAmount("cpu", None, 8000))
