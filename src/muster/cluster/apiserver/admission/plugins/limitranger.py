"""Apply LimitRanges: set the default resources of containers, and limit what an object may request.

The rules and messages follow k8s.io/kubernetes (plugin/pkg/admission/limitranger).
"""

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any

import msgspec

from muster.api.core import POD, Pod
from muster.api.core.quota import LIMIT_RANGE, LimitRangeItem
from muster.api.pods import pod_requests
from muster.api.values.quantity import Quantity, format_amount, format_canonical, parse
from muster.cluster.apiserver.admission.chain import WriteAttempt
from muster.cluster.apiserver.admission.plugins.quotausage import CLAIMS, pod_limits
from muster.cluster.apiserver.decode import Document
from muster.cluster.store import Store

ANNOTATION = "kubernetes.io/limit-ranger"

Amounts = Mapping[str, Quantity]
_CONTAINERS = (("containers", "container"), ("initContainers", "init container"))


def set_default_resources(attempt: WriteAttempt, store: Store) -> None:
    """Set the limits and requests that the containers of a new pod leave out, from the LimitRanges, in place."""
    if attempt.resource.key != POD.resource or attempt.operation != "CREATE" or attempt.subresource:
        return
    for item in _list_limits(attempt.namespace, store, "Container"):
        _complete(attempt.document, item)


def require_limits_kept(attempt: WriteAttempt, store: Store) -> None:
    """Raise `ApiError` (403) if a pod or volume claim requests more or less than a LimitRange allows."""
    rule = _RULES.get(attempt.resource.key)
    if rule is None or attempt.subresource or attempt.operation not in rule[0]:
        return
    _, complaints = rule
    for item in _list_limits(attempt.namespace, store, *_TYPES[attempt.resource.key]):
        problems = list(complaints(item, attempt.document))
        if problems:
            raise attempt.make_refusal(problems[0] if len(problems) == 1 else f"[{', '.join(dict.fromkeys(problems))}]")


def _list_limits(namespace: str, store: Store, *types: str) -> Iterator[LimitRangeItem]:
    for entry in store.list(LIMIT_RANGE.resource, namespace).entries:
        for item in LIMIT_RANGE.decode(entry.body).spec.limits:
            if item.type in types:
                yield item


def _complete(pod: Document, item: LimitRangeItem) -> None:
    notes = []
    for field, what in _CONTAINERS:
        for container in pod["spec"].get(field, ()):
            resources = container.setdefault("resources", {})
            for given, word, amounts in (
                ("requests", "request", item.default_request),
                ("limits", "limit", item.default),
            ):
                missing = {name: amounts[name] for name in amounts if name not in resources.get(given, {})}
                if missing:
                    resources.setdefault(given, {}).update(missing)
                    notes.append(f"{', '.join(sorted(missing))} {word} for {what} {container.get('name', '')}")
    if notes:
        annotations = pod["metadata"].setdefault("annotations", {})
        annotations[ANNOTATION] = f"LimitRanger plugin set: {'; '.join(notes)}"


def _list_pod_complaints(item: LimitRangeItem, document: Document) -> Iterator[str]:
    if item.type == "Container":
        for field, _ in _CONTAINERS:
            for container in document["spec"].get(field, ()):
                resources = container.get("resources", {})
                yield from _list_complaints(item, resources.get("requests", {}), resources.get("limits", {}))
    else:
        spec = msgspec.convert(document, Pod).spec
        yield from _list_complaints(item, _render_amounts(pod_requests(spec)), _render_amounts(pod_limits(spec)))


def _render_amounts(amounts: Mapping[str, int]) -> Amounts:
    return {name: format_amount(name, number) for name, number in amounts.items()}


def _list_claim_complaints(item: LimitRangeItem, document: Document) -> Iterator[str]:
    requests = document.get("spec", {}).get("resources", {}).get("requests", {})
    for name, bound in sorted(item.min.items()):
        yield from _explain_below_least(item.type, name, bound, requests.get(name), None)
    for name, bound in sorted(item.max.items()):
        rule, most = f"maximum {name} usage per {item.type} is {format_canonical(bound)}", parse(bound)
        if name not in requests:
            yield f"{rule}.  No request is specified"
        elif parse(requests[name]) > most:
            yield f"{rule}, but request is {format_canonical(requests[name])}"


def _list_complaints(item: LimitRangeItem, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, bound in sorted(item.min.items()):
        yield from _explain_below_least(item.type, name, bound, requests.get(name), limits.get(name))
    for name, bound in sorted(item.max.items()):
        yield from _explain_above_most(item.type, name, bound, requests.get(name), limits.get(name))
    for name, bound in sorted(item.max_limit_request_ratio.items()):
        yield from _explain_ratio(item.type, name, bound, requests.get(name), limits.get(name))


def _explain_below_least(
    type_: str, name: str, bound: Quantity, request: Quantity | None, limit: Quantity | None
) -> Iterator[str]:
    rule = f"minimum {name} usage per {type_} is {format_canonical(bound)}"
    if request is None:
        yield f"{rule}.  No request is specified"
    elif parse(request) < parse(bound):
        yield f"{rule}, but request is {format_canonical(request)}"
    elif limit is not None and parse(limit) < parse(bound):
        yield f"{rule}, but limit is {format_canonical(limit)}"


def _explain_above_most(
    type_: str, name: str, bound: Quantity, request: Quantity | None, limit: Quantity | None
) -> Iterator[str]:
    rule = f"maximum {name} usage per {type_} is {format_canonical(bound)}"
    if limit is None:
        yield f"{rule}.  No limit is specified"
    elif parse(limit) > parse(bound):
        yield f"{rule}, but limit is {format_canonical(limit)}"
    elif request is not None and parse(request) > parse(bound):
        yield f"{rule}, but request is {format_canonical(request)}"


def _explain_ratio(
    type_: str, name: str, bound: Quantity, request: Quantity | None, limit: Quantity | None
) -> Iterator[str]:
    rule = f"{name} max limit to request ratio per {type_} is {format_canonical(bound)}, but"
    asked, most = _parse_number(request), _parse_number(limit)
    if not asked:
        yield f"{rule} no request is specified or request is 0"
    elif not most:
        yield f"{rule} no limit is specified or limit is 0"
    elif most / asked > parse(bound):
        yield f"{rule} provided ratio is {float(most / asked):f}"


def _parse_number(quantity: Quantity | None) -> Fraction:
    return Fraction(0) if quantity is None else parse(quantity)


# By resource: the operations that are checked, and the function that yields the complaints.
_RULES: Mapping[str, tuple[tuple[str, ...], Callable[[LimitRangeItem, Any], Iterator[str]]]] = {
    POD.resource: (("CREATE",), _list_pod_complaints),
    CLAIMS: (("CREATE", "UPDATE"), _list_claim_complaints),
}
_TYPES = {POD.resource: ("Container", "Pod"), CLAIMS: ("PersistentVolumeClaim",)}
