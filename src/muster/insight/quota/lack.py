"""Update the amounts of missing quota in a queue's sentence. Pure.

A queue's sentence has the amounts at the time when the queue considered the workload. The queue does not consider the
workload again while only other workloads get quota, so the amounts become outdated.
"""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from muster.insight.text import format_quantity

if TYPE_CHECKING:
    from muster.insight.forecasts.forecast import Need

_LACK = re.compile(r"(insufficient unused quota for (\S+) in flavor ([^ ,;]+)), [^ ,;]+ more needed")


def has_lack(reason: str) -> bool:
    """Return whether a reason names an amount of missing quota."""
    return _LACK.search(reason) is not None


def update_lack(reason: str, needs: Iterable["Need"]) -> str:
    """Return the sentence on why a workload waits, with the amounts of quota that are missing now.

    reason: the sentence with older amounts.
    needs: the needs of the workload's only podset, with the missing amounts.
    """
    by_flavor = {(need.resource, need.flavor): need for need in needs}

    def renew(match: re.Match[str]) -> str:
        need = by_flavor.get((match[2], match[3]))
        if need is None:
            return match[0]
        if not need.missing:
            return f"{match[1]} when it was last considered"
        return f"{match[1]}, {format_quantity(need.resource, need.missing)} more needed"

    return _LACK.sub(renew, reason)
