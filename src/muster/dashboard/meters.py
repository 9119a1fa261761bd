"""Draw the used part of a quota or node as a bar, always next to the number. Pure."""

from muster.charts.markup import Markup
from muster.charts.meter import Part, draw_meter
from muster.insight.nodes import NodeAmount
from muster.insight.quota.shares import QuotaShare
from muster.insight.text import format_quantity


def draw_share(share: QuotaShare) -> Markup:
    """Return a bar with the used and lent parts of a quota and, beyond a mark, the borrowed part."""
    own = share.used - share.borrowed
    total = max(share.nominal, share.nominal + share.borrowed, share.used)
    parts = (
        Part(0, own, "used"),
        Part(max(own, share.nominal - share.lent), share.lent, "lent"),
        Part(max(own, share.nominal), share.borrowed, "borrowed"),
    )
    return draw_meter(parts, total, share.words, share.nominal if share.borrowed else None)


def draw_amount(amount: NodeAmount) -> Markup:
    """Return a bar with the part of a node's resource that pods request."""
    has = format_quantity(amount.resource, amount.has)
    known = f"{format_quantity(amount.resource, amount.used)} of {has} requested" if amount.used is not None else has
    return draw_meter((Part(0, amount.used or 0, "used"),), amount.has, f"{amount.resource}: {known}")


def describe_amount(amount: NodeAmount) -> str:
    """Return the amount of a node's resource that pods request, such as `3/8`; `-/8` if it is unknown."""
    used = "-" if amount.used is None else format_quantity(amount.resource, amount.used)
    return f"{used}/{format_quantity(amount.resource, amount.has)}"
