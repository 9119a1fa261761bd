"""Build worlds with waiting workloads from short lines on top of those of `worlds`.

    queues:   as in `worlds`, and: strict stop=Hold try-borrow stop-preempt prefer=preemption for=LABEL:VALUE
    waiting:  name: "QUEUE p=1 at=3 lq=team user=ada | cpu=2 x=3 least=1 on=spot | gpu=1"

Flavors of a ClusterQueue that have the same resources form a resource group, in the order in which they are written.
`for` is the namespace selector (`nobody`: there is none).

`at` is the moment since which a workload waits, in seconds. Each `|` begins a podset of `x` pods. `on` is a node
selector that only the flavor of that name meets. `namespace=` puts a workload elsewhere than in `ns`. NAME+ is the
growth of NAME.
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from msgspec.structs import replace
from tests.unit.queueing import worlds
from tests.unit.queueing.worlds import START

from muster.api.values.selectors import EVERYTHING, LabelMatcher, parse_label_selector
from muster.queueing.model import FlavorSpec, Fungibility, PodSet, QueueSpec, ResourceGroup, WorkloadInfo
from muster.queueing.pending.queues import Queues
from muster.queueing.quota.tree import Tree

_NAMES = ("default", "spot", "solid", "model-a", "model-b")
FLAVORS = {name: FlavorSpec(name, {name.partition("-")[0] if "-" in name else "flavor": name}) for name in _NAMES}

_FLAGS = ("strict", "try-borrow", "stop-preempt")
_VALUES = {"stop": "None", "prefer": "", "for": ""}


def queue(name: str, text: str) -> QueueSpec:
    words = text.split()
    flags = {flag for flag in _FLAGS if flag in words}
    values = dict(_VALUES)
    rest = []
    for word in words:
        key, _, value = word.partition("=")
        if key in values:
            values[key] = value
        elif word not in flags:
            rest.append(word)
    spec = worlds.queue_spec(name, " ".join(rest))
    over: Any = "PreemptionOverBorrowing" if values["prefer"] == "preemption" else "BorrowingOverPreemption"
    stop: Any = values["stop"]
    return replace(
        spec,
        groups=tuple(_groups(spec)),
        strict="strict" in flags,
        stop=stop,
        fungibility=Fungibility("try-borrow" in flags, "stop-preempt" not in flags, over),
        namespaces=_namespaces(values["for"]),
    )


def workload(name: str, text: str) -> WorkloadInfo:
    head, *podsets = text.split("|")
    queue, *words = head.split()
    about = dict(word.split("=") for word in words)
    namespace = about.get("namespace", "ns")
    return WorkloadInfo(
        key=f"{namespace}/{name}",
        uid=name,
        queue=queue,
        local_queue=f"{namespace}/{about.get('lq', queue)}",
        priority=int(about.get("p", "0")),
        created=START,
        queued=START + timedelta(seconds=int(about.get("at", "0"))),
        podsets=tuple(_podset(f"set{number}" if number else "main", text) for number, text in enumerate(podsets)),
        blocks={"yes": True, "no": False}.get(about.get("blocks", "")),
        owner=about.get("user", ""),
        growth_of=f"{namespace}/{name[:-1]}" if name.endswith("+") else "",
    )


def tree(case: Mapping[str, Any]) -> Tree:
    new_tree = worlds.tree_of({"cohorts": case.get("cohorts", {})})
    for name, text in case["queues"].items():
        new_tree.set_queue(queue(name, text))
    for name, text in case.get("admitted", {}).items():
        new_tree.hold(replace(worlds.workload(name, text), ready=True))
    return new_tree


def queues(specs: Iterable[QueueSpec], waiting: Mapping[str, str]) -> Queues:
    new_queues = Queues()
    for spec in specs:
        new_queues.set_queue(spec)
    for name, text in waiting.items():
        new_queues.add(workload(name, text))
    return new_queues


def _podset(name: str, text: str) -> PodSet:
    words = dict(word.split("=") for word in text.split())
    count, least, flavor = int(words.pop("x", "1")), words.pop("least", None), words.pop("on", None)
    return PodSet(
        name=name,
        count=count,
        requests={resource: int(amount) for resource, amount in words.items()},
        least=None if least is None else int(least),
        selector={} if flavor is None else {"flavor": flavor},
    )


def _groups(spec: QueueSpec) -> Iterable[ResourceGroup]:
    resources: dict[str, list[str]] = {}
    for fr in spec.quotas:
        resources.setdefault(fr.flavor, []).append(fr.resource)
    groups: dict[tuple[str, ...], list[str]] = {}
    for flavor, names in resources.items():
        groups.setdefault(tuple(names), []).append(flavor)
    return (ResourceGroup(names, tuple(flavors)) for names, flavors in groups.items())


def _namespaces(selector: str) -> LabelMatcher | None:
    if selector == "nobody":
        return None
    return parse_label_selector(selector.replace(":", "=")) if selector else EVERYTHING
