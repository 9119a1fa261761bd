"""Decide which pod of a podset gets which of the assigned domains.

If all pods have a rank, the first pods get the first domain. If some pod has no rank, or is already in another domain
than its rank determines, the pods without a domain get the domains with free places (upstream topology_ungater.go).
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct

Domains = Sequence[tuple[tuple[str, ...], int]]


class Member(Struct, frozen=True):
    """A pod of a workload that has not ended.

    waits: whether the pod has no domain yet.
    selector: the pod's node selector.
    rank: the pod's rank; None if it has none.
    """

    uid: str
    waits: bool
    selector: Mapping[str, str]
    rank: int | None = None


def domains_of_waiting(levels: Sequence[str], domains: Domains, members: Sequence[Member]) -> dict[str, dict[str, str]]:
    """Return, by UID, the node selector to add to each waiting pod.

    Pods beyond the number in the assignment get no selector, and continue to wait.
    """
    by_rank = [values for values, count in domains for _ in range(count)]
    waiting = [member for member in members if member.waits]
    if _can_follow_ranks(levels, by_rank, members):
        assigned = [(member, by_rank[member.rank or 0]) for member in waiting]
    else:
        occupied = Counter(_find_domain(levels, member) for member in members if not member.waits)
        free = [values for values, count in domains for _ in range(count - occupied[values])]
        assigned = list(zip(waiting, free, strict=False))
    return {member.uid: dict(zip(levels, values, strict=True)) for member, values in assigned}


def rank_of(
    labels: Mapping[str, str], index_label: str | None, group_label: str | None, group_count: int | None, count: int
) -> int | None:
    """Return the rank of a pod among `count` pods, by the label with its index; None if the labels do not define it.

    If the pods form groups, the label with the group's index counts as well.

    index_label: the label with the pod's index; None if the pods have none.
    group_label: the label with the group's index; None or "" for no groups.
    group_count: the number of groups.
    """
    index = _parse_number(labels, index_label)
    if index is None or not group_label:
        return index
    group = _parse_number(labels, group_label)
    if group is None or not group_count or index >= count // group_count:
        return None
    return group * (count // group_count) + index


def _can_follow_ranks(levels: Sequence[str], by_rank: Sequence[tuple[str, ...]], members: Sequence[Member]) -> bool:
    return all(
        member.rank is not None
        and member.rank < len(by_rank)
        and (member.waits or _find_domain(levels, member) == by_rank[member.rank])
        for member in members
    )


def _find_domain(levels: Sequence[str], member: Member) -> tuple[str, ...]:
    return tuple(member.selector.get(level, "") for level in levels)


def _parse_number(labels: Mapping[str, str], label: str | None) -> int | None:
    text = labels.get(label, "") if label else ""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
