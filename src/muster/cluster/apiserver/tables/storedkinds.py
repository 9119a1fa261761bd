"""The printers of stored-only kinds, and of other kinds whose columns are plain data.

`storedkinds.json` contains the columns of each kind. A printer reads objects as plain JSON. A cell shows the value at a
path in one of a few ways, or the result of a function of this module.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from functools import cache
from typing import Any, TypeAlias

import msgspec

from muster.api.meta import LabelSelector
from muster.cluster.apiserver.custom.jsonpath import compile_path, find_first
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.storedkinds import AnyColumn, StoredColumn, read_stored_kinds
from muster.cluster.apiserver.tables.printer import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    UNSET,
    Column,
    Printer,
    format_age,
    format_duration,
    format_labels,
    format_selector,
)

_Value: TypeAlias = str | int | bool | None
_Cell: TypeAlias = Callable[[Document, datetime], _Value]

_SHOWN = 3  # addresses or ports in one cell
_SHOWN_METRICS = 2  # targets of an autoscaler in one cell
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def printer_of(resource: str) -> Printer | None:
    """Return the printer of a resource (`deployments.apps`); None if `storedkinds.json` has no columns for it."""
    stored = read_stored_kinds().get(resource)
    return _make_printer(stored.columns) if stored is not None and stored.columns else None


@cache
def _make_printer(columns: tuple[AnyColumn, ...]) -> Printer:
    made = [_SHARED[each] if isinstance(each, str) else (_make_column(each), _compile_cell(each)) for each in columns]

    def make_cells(document: Document, now: datetime) -> list[_Value]:
        return [cell(document, now) for _, cell in made]

    return Printer(tuple(column for column, _ in made), make_cells, reads=dict)


def _make_column(data: StoredColumn) -> Column:
    return Column(
        name=data.name, type=data.type, format=data.format, description=data.description, priority=data.priority
    )


def _compile_cell(data: StoredColumn) -> _Cell:
    if function := _FUNCTIONS.get(data.cell):
        return lambda document, _now: function(document)
    find, whole, condition = (compile_path(path) for path in (data.path, data.of, data.only_with))

    def make_cell(document: Document, now: datetime) -> _Value:
        if data.only_with and not find_first(condition, document):
            return ""
        if data.cell == "joined":
            return _join(find(document), data.most) or data.otherwise
        if data.cell == "count":
            return sum(1 for _ in find(document))
        value = find_first(find, document)
        if data.cell == "parts":
            return f"{value or data.otherwise}/{find_first(whole, document) or data.otherwise}"
        if show := _SHOWN_AS.get(data.cell):
            return show(value)
        if value is None or value == "":
            return data.otherwise
        return _VALUES[data.cell](value, now)

    return make_cell


def _join(values: Iterable[Any], most: int | None = _SHOWN) -> str:
    """Return the values joined by commas, without "" among them.

    most: how many values to show, and then how many more there are; None shows all.
    """
    texts = [str(value) for value in values if value != ""]
    more = 0 if most is None else len(texts) - most
    return f"{','.join(texts[:most])} + {more} more..." if more > 0 else ",".join(texts)


def _show_modes(modes: Any) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in (modes or ()))


def _show_selector(selector: Any) -> str:
    return format_selector(None if selector is None else msgspec.convert(selector, LabelSelector))


# The ways of showing the value at a path: `_VALUES` needs a value, `_SHOWN_AS` also takes a missing one.
_VALUES: dict[str, Callable[[Any, datetime], _Value]] = {
    "value": lambda value, _: value,
    "text": lambda value, _: str(value),
    "since": lambda value, now: format_age(datetime.fromisoformat(value), now),
}
_SHOWN_AS: dict[str, Callable[[Any], _Value]] = {
    "labels": lambda labels: format_labels(labels or {}),
    "modes": _show_modes,
    "selector": _show_selector,
}


# The cells of single kinds.


def _show_owner(revision: Document) -> str:
    owners = revision["metadata"].get("ownerReferences", ())
    owner = next((owner for owner in owners if owner.get("controller")), None)
    return NONE if owner is None else f"{_make_resource_name(owner['kind'], owner['apiVersion'])}/{owner['name']}"


def _make_resource_name(kind: str, api_version: str) -> str:
    group = api_version.rpartition("/")[0]
    return kind.lower() + (f".{group}" if group else "")


def _show_targets(autoscaler: Document) -> str:
    """Return the current and the target value of the first two metrics, such as `cpu: 20%/80%`.

    Further metrics are counted. The text is `<none>` without metrics.
    """
    metrics = autoscaler.get("spec", {}).get("metrics") or ()
    measured = autoscaler.get("status", {}).get("currentMetrics") or ()
    if not metrics:
        return NONE
    cells = [_show_target(metric, measured[i] if i < len(measured) else {}) for i, metric in enumerate(metrics)]
    more = len(cells) - _SHOWN_METRICS
    return f"{', '.join(cells[:_SHOWN_METRICS])} + {more} more..." if more > 0 else ", ".join(cells)


def _show_target(metric: Document, measured: Document) -> str:
    type_ = metric.get("type", "")
    field = type_[:1].lower() + type_[1:]
    if field not in ("containerResource", "external", "object", "pods", "resource"):
        return f"<unknown type> ({type_})"
    source = metric.get(field)
    if source is None:
        return UNKNOWN
    prefix = f"{source.get('name', '')}: " if field in ("resource", "containerResource") else ""
    target, current = source.get("target", {}), measured.get(field, {}).get("current", {})
    if "averageUtilization" in target:
        return f"{prefix}{_show_percent(current.get('averageUtilization'))}/{target['averageUtilization']}%"
    if "averageValue" in target:
        return f"{prefix}{current.get('averageValue', UNKNOWN)}/{target['averageValue']} (avg)"
    return f"{prefix}{current.get('value', UNKNOWN)}/{target.get('value')}"


def _show_cpu_target(autoscaler: Document) -> str:
    target = autoscaler.get("spec", {}).get("targetCPUUtilizationPercentage")
    current = autoscaler.get("status", {}).get("currentCPUUtilizationPercentage")
    return NONE if target is None else f"cpu: {_show_percent(current)}/{target}%"


def _show_percent(number: int | None) -> str:
    return UNKNOWN if number is None else f"{number}%"


def _show_places(endpoints: Document) -> str:
    return _join(_find_places(endpoints)) or NONE


def _find_places(endpoints: Document) -> Iterator[str]:
    for subset in endpoints.get("subsets", ()):
        for port in subset.get("ports", ()):
            yield from (f"{address.get('ip', '')}:{port.get('port', 0)}" for address in subset.get("addresses", ()))


def _show_ingress_addresses(ingress: Document) -> str:
    places = ingress.get("status", {}).get("loadBalancer", {}).get("ingress", ())
    return _join((place.get("ip") or place.get("hostname", "") for place in places), most=None)


def _show_ingress_ports(ingress: Document) -> str:
    return "80, 443" if ingress.get("spec", {}).get("tls") else "80"


def _show_phase(document: Document) -> str:
    phase: str = document.get("status", {}).get("phase", "")
    return "Terminating" if "deletionTimestamp" in document["metadata"] else phase


def _show_slice_ports(endpoint_slice: Document) -> str:
    return _join(port.get("port", "*") for port in endpoint_slice.get("ports") or ()) or UNSET


def _show_parameters(ingress_class: Document) -> str:
    parameters = ingress_class.get("spec", {}).get("parameters")
    if parameters is None:
        return NONE
    group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") else ""
    return f"{parameters.get('kind', '')}{group}/{parameters.get('name', '')}"


def _show_parent(address: Document) -> str:
    parent = address.get("spec", {}).get("parentRef")
    if parent is None:
        return NONE
    resource = ".".join(filter(None, (parent.get("resource"), parent.get("group"))))
    return "/".join(filter(None, (resource, parent.get("namespace"), parent.get("name"))))


def _show_class_name(storage_class: Document) -> str:
    meta = storage_class["metadata"]
    return f"{meta.get('name', '')}{' (default)' if meta.get('annotations', {}).get(_DEFAULT_CLASS) == 'true' else ''}"


def _show_claim(volume: Document) -> str:
    claim = volume.get("spec", {}).get("claimRef")
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


def _show_duration(request: Document) -> str:
    seconds = request.get("spec", {}).get("expirationSeconds")
    return NONE if seconds is None else format_duration(timedelta(seconds=seconds))


def _show_decision(request: Document) -> str:
    status = request.get("status", {})
    types = [condition.get("type") for condition in status.get("conditions", ())]
    words = [word for word in ("Denied", "Approved", "Failed") if word in types] or ["Pending"]
    return ",".join([*words, "Issued"] if status.get("certificate") else words)


def _show_server(api_service: Document) -> str:
    service = api_service.get("spec", {}).get("service")
    return f"{service.get('namespace', '')}/{service.get('name', '')}" if service else "Local"


def _show_availability(api_service: Document) -> str:
    conditions = api_service.get("status", {}).get("conditions", ())
    condition: Document = next((each for each in conditions if each.get("type") == "Available"), {})
    status: str = condition.get("status", "Unknown")
    return status if not condition or status == "True" else f"{status} ({condition.get('reason', '')})"


def _show_claim_state(claim: Document) -> str:
    status = claim.get("status", {})
    states = {
        "deleted": "deletionTimestamp" in claim["metadata"],
        "allocated": "allocation" in status,
        "reserved": bool(status.get("reservedFor")),
    }
    return ",".join(word for word, holds in states.items() if holds) or "pending"


_FUNCTIONS: dict[str, Callable[[Document], str]] = {
    "owner": _show_owner,
    "targets": _show_targets,
    "cpu_target": _show_cpu_target,
    "places": _show_places,
    "slice_ports": _show_slice_ports,
    "parameters": _show_parameters,
    "parent": _show_parent,
    "class_name": _show_class_name,
    "claim": _show_claim,
    "duration": _show_duration,
    "decision": _show_decision,
    "server": _show_server,
    "availability": _show_availability,
    "claim_state": _show_claim_state,
    "ingress_ports": _show_ingress_ports,
    "ingress_addresses": _show_ingress_addresses,
    "phase": _show_phase,
}
_SHARED: dict[str, tuple[Column, _Cell]] = {
    "Name": (NAME, _compile_cell(StoredColumn("Name", path=".metadata.name"))),
    "Age": (
        AGE,
        _compile_cell(StoredColumn("Age", cell="since", path=".metadata.creationTimestamp", otherwise=UNKNOWN)),
    ),
}
