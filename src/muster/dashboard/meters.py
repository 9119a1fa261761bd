"""Draw how much of a quota or of a node is used. The number always stands beside the bar. Pure."""

from muster.charts.markup import Markup
from muster.charts.meter import Part, draw_meter
from muster.insight.nodes import NodeAmount
from muster.insight.quota.shares import QuotaShare
from muster.insight.text import format_quantity


def draw_share(share: QuotaShare) -> Markup:
    """Return a bar of a quota: its used, lent and, beyond a mark, borrowed part."""
    own = share.used - share.borrowed
    total = max(share.nominal, share.nominal + share.borrowed, share.used)
    parts = (
        Part(0, own, "used"),
        Part(max(own, share.nominal - share.lent), share.lent, "lent"),
        Part(max(own, share.nominal), share.borrowed, "borrowed"),
    )
    return draw_meter(parts, total, share.words, share.nominal if share.borrowed else None)


def draw_amount(amount: NodeAmount) -> Markup:
    """Return a bar of how much of a node's resource pods request."""
    has = format_quantity(amount.resource, amount.has)
    known = f"{format_quantity(amount.resource, amount.used)} of {has} requested" if amount.used is not None else has
    return draw_meter((Part(0, amount.used or 0, "used"),), amount.has, f"{amount.resource}: {known}")


def describe_amount(amount: NodeAmount) -> str:
    """Return how much of a node's resource pods request, such as `3/8`; `-/8` if that is not known."""
    used = "-" if amount.used is None else format_quantity(amount.resource, amount.used)
    return f"{used}/{format_quantity(amount.resource, amount.has)}"
