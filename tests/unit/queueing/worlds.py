"""Build trees of quota and workloads from short lines, for cases that are data.

    queues:    name: "in=COHORT cpu=4 gpu=2,b1,l0 within=lower reclaim=any borrow=0 weight=1/2 by-usage"
    cohorts:   name: "in=PARENT cpu=10"
    admitted:  name: "QUEUE cpu=2 spot/memory=1 p=-1 since=3 queued=-5 lq=team user=ada evicted"
    incoming:  "QUEUE cpu=2 memory=1:fit p=1"

A resource without a flavor is of flavor `default`. `,b1` and `,l0` are borrowing and lending limits. `borrow=` is
borrowWithinCohort for candidates of priorities up to the number (`borrow=lower`: any lower). `since` is when quota was
reserved, and `queued` orders the queue, in seconds. The requests of an incoming workload are contested unless they end
in `:fit`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any, cast

from muster.queueing.model import (
    Assignment,
    CohortSpec,
    FlavorChoice,
    FlavorResource,
    Mode,
    PodSetAssignment,
    Preemption,
    PreemptionPolicy,
    QueueSpec,
    Quota,
    Usage,
    WorkloadInfo,
)
from muster.queueing.quota.tree import Node, Tree

START = datetime(2026, 1, 1, tzinfo=UTC)

_POLICIES = {"lower": "LowerPriority", "newer": "LowerOrNewerEqualPriority", "any": "Any", "never": "Never"}
_FIT = ":fit"
_ABOUT = ("p=", "queued=", "lq=")  # of an incoming workload; all else is what it asks for


@dataclass(frozen=True)
class World:
    """A tree with its admitted workloads, and one workload that waits."""

    tree: Tree
    incoming: WorkloadInfo
    assignment: Assignment


def world(case: Mapping[str, Any], worlds: Mapping[str, Any] | None = None) -> World:
    """Build the world of a case, on top of the shared world that it names."""
    shared: Mapping[str, Any] = (worlds or {})[case["world"]] if "world" in case else {}
    tree = tree_of({key: {**shared.get(key, {}), **case.get(key, {})} for key in ("queues", "cohorts", "admitted")})
    incoming, assignment = incoming_of(case["incoming"])
    return World(tree, incoming, assignment)


def tree_of(case: Mapping[str, Any]) -> Tree:
    tree = Tree()
    for name, text in case.get("cohorts", {}).items():
        words = _words(text or "")
        tree.set_cohort(CohortSpec(name, words.pop("in", ""), weight=_weight(words), quotas=_quotas(words)))
    for name, text in case.get("queues", {}).items():
        tree.set_queue(queue_spec(name, text))
    for name, text in case.get("admitted", {}).items():
        tree.hold(workload(name, text))
    return tree


def queue_spec(name: str, text: str) -> QueueSpec:
    words = _words(text)
    borrow = words.pop("borrow", None)
    preemption = Preemption(
        within_queue=_policy(words.pop("within", "never")),
        within_cohort=_policy(words.pop("reclaim", "never")),
        while_borrowing=borrow is not None,
        threshold=None if borrow in {None, "lower"} else int(borrow or 0),
    )
    return QueueSpec(
        name,
        words.pop("in", ""),
        preemption=preemption,
        by_usage=words.pop("by-usage", None) is not None,
        weight=_weight(words),
        quotas=_quotas(words),
    )


def workload(name: str, text: str, *, admitted: bool = True) -> WorkloadInfo:
    queue, _, rest = text.partition(" ")
    words = _words(rest)
    priority, evicted = int(words.pop("p", "0")), words.pop("evicted", None) is not None
    since, queued = (timedelta(seconds=int(words.pop(word, "0"))) for word in ("since", "queued"))
    local_queue = words.pop("lq", queue)
    owner = words.pop("user", "")
    usage = {_resource(name): int(amount) for name, amount in words.items()}
    return WorkloadInfo(
        key=f"ns/{name}",
        uid=name,
        queue=queue,
        local_queue=f"ns/{local_queue}",
        priority=priority,
        created=START,
        queued=START + queued,
        podsets=(),
        usage=usage if admitted else None,
        reserved=START + since if admitted else None,
        evicted=evicted,
        owner=owner,
    )


def incoming_of(text: str) -> tuple[WorkloadInfo, Assignment]:
    """Return a waiting workload, and the assignment that it would get: one podset for each resource."""
    queue, _, rest = text.partition(" ")
    requests = [(_resource(name), amount) for name, amount in _words(rest).items() if f"{name}=" not in _ABOUT]
    usage = {fr: int(amount.removesuffix(_FIT)) for fr, amount in requests}
    podsets = tuple(
        PodSetAssignment(
            name=f"set-{fr.flavor}-{fr.resource}",
            count=1,
            flavors={fr.resource: FlavorChoice(fr.flavor, Mode.FIT if amount.endswith(_FIT) else Mode.PREEMPT)},
            requests={fr.resource: usage[fr]},
        )
        for fr, amount in requests
    )
    others = [word for word in rest.split() if word.startswith(_ABOUT)]
    return workload("incoming", " ".join([queue, *others]), admitted=False), Assignment(podsets, usage)


def usage_of(text: str) -> Usage:
    return {_resource(name): int(amount) for name, amount in _words(text).items()}


def nodes(tree: Tree) -> Iterator[Node]:
    yield from tree.queues.values()
    yield from tree.cohorts.values()


def state(tree: Tree) -> dict[str, Any]:
    """Return everything that holds usage; an amount of 0 counts as absent."""
    return {
        f"{'queue' if node.is_queue else 'cohort'} {node.name}": (
            {fr: amount for fr, amount in node.usage.items() if amount},
            dict(node.workloads),
            dict(node.held.usage_below(float("inf"))),
        )
        for node in nodes(tree)
    }


def _words(text: str) -> dict[str, str]:
    return {name: value for name, _, value in (word.partition("=") for word in str(text).split())}


def _policy(word: str) -> PreemptionPolicy:
    return cast("PreemptionPolicy", _POLICIES[word])


def _weight(words: dict[str, str]) -> Fraction:
    return Fraction(words.pop("weight", "1"))


def _resource(name: str) -> FlavorResource:
    flavor, slash, resource = name.partition("/")
    return FlavorResource(flavor, resource) if slash else FlavorResource("default", name)


def _quotas(words: Mapping[str, str]) -> dict[FlavorResource, Quota]:
    quotas = {}
    for name, text in words.items():
        nominal, *limits = text.split(",")
        limit = {each[0]: int(each[1:]) for each in limits}
        quotas[_resource(name)] = Quota(int(nominal), limit.get("b"), limit.get("l"))
    return quotas
