"""Read the cluster state from which a simulation starts, as printed by `muster snapshot`."""

import re
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any, TypeVar

import msgspec
import yaml
from msgspec import Struct

from muster.api.batch import JOB, Job
from muster.api.core import POD, Pod
from muster.api.jobset import JOB_SET, JobSet
from muster.api.kinds import Kind
from muster.api.kueue import WORKLOAD, Workload
from muster.api.values.manifests import Manifest
from muster.insight.snapshot import API_VERSION, KIND

T = TypeVar("T")

_JOBS = frozenset((WORKLOAD.kind, JOB.kind, JOB_SET.kind, POD.kind))
# The metadata fields that a server sets, and does not accept from a user.
_GIVEN = frozenset(("uid", "creationTimestamp", "deletionTimestamp", "ownerReferences"))
ObjectName = tuple[str, str, str]
"""The kind, the namespace and the name of an object."""


class StateError(ValueError):
    """A snapshot that cannot be parsed."""


class _Meta(Struct):
    name: Annotated[str, msgspec.Meta(min_length=1)]
    namespace: str = ""


class _Item(Struct, rename="camel"):
    kind: str
    metadata: _Meta
    api_version: str


class _Spec(Struct):
    at: Annotated[datetime, msgspec.Meta(tz=True)]
    items: list[dict[str, Any]]
    missing: dict[str, str] = {}


class _Document(Struct, rename="camel"):
    api_version: str
    kind: str
    spec: _Spec


_ITEMS = b"\n  items:\n"
_ITEM = b"  - "
_DECISIONS = re.compile(rb"^  decisions:", re.MULTILINE)  # follows the items; no simulation reads it


class _Loader(yaml.CSafeLoader):
    """A YAML loader that reads `12:30` as text, as kubectl does, rather than as a base-60 number."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - a class attribute of the base
        first: [("tag:yaml.org,2002:str", re.compile(r"[-+]?\d[\d_]*(:[0-5]?\d)+(\.[\d_]*)?$", re.ASCII)), *resolvers]
        for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
    }


class ClusterState(Struct, frozen=True):
    """The state of a cluster at one time, from a snapshot file.

    objects: the objects of all kinds that have no field of their own here, without the metadata that a server sets.
    missing: the kinds that the user of `muster snapshot` could not list, with the reasons.
    originals: the file's version of each object that a variant of the scenario changed.
    """

    file: str
    at: datetime
    objects: tuple[Manifest, ...]
    workloads: tuple[Workload, ...]
    jobs: tuple[Job, ...]
    job_sets: tuple[JobSet, ...]
    pods: tuple[Pod, ...]
    missing: Mapping[str, str]
    originals: Mapping[ObjectName, dict[str, Any]] = {}


def parse_state(text: bytes) -> Any:
    """Parse the document of a snapshot, as YAML or JSON. One line per object is parsed a hundred times faster.

    Raises `StateError` if an object is not JSON, and `DecodeError` or `YAMLError` if the text is neither format.
    """
    if text.lstrip()[:1] == b"{":
        return msgspec.json.decode(text)
    head, found, body = text.partition(_ITEMS)
    lines = _DECISIONS.split(body, maxsplit=1)[0].splitlines()
    if not found or not all(line.startswith(_ITEM + b"{") and line.endswith(b"}") for line in lines):
        return yaml.load(text, _Loader)  # noqa: S506 - a safe loader
    document = yaml.load(head, _Loader)  # noqa: S506 - a safe loader
    if isinstance(document, dict) and isinstance(document.get("spec"), dict):
        document["spec"]["items"] = [_parse_item(number, line[len(_ITEM) :]) for number, line in enumerate(lines)]
    return document


def _parse_item(number: int, text: bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise StateError(f"spec.items[{number}]: {error}") from None


def read_state(document: Any, file: str) -> ClusterState:
    """Return the state that a document contains.

    Raises `StateError` if the document is not a snapshot.
    """
    try:
        parsed = msgspec.convert(document, _Document)
        if (parsed.api_version, parsed.kind) != (API_VERSION, KIND):
            raise StateError(f"is a {parsed.kind} of {parsed.api_version} instead of a {KIND} of {API_VERSION}")
        items = parsed.spec.items
        for number, item in enumerate(items):
            _require_head(number, item)
        return ClusterState(
            file,
            parsed.spec.at,
            tuple(Manifest(file, _strip_given(one)) for one in items if one.get("kind") not in _JOBS),
            _select(items, WORKLOAD),
            _select(items, JOB),
            _select(items, JOB_SET),
            _select(items, POD),
            parsed.spec.missing,
        )
    except msgspec.ValidationError as error:
        raise StateError(f"is no snapshot: {error}") from None


def _strip_given(item: dict[str, Any]) -> dict[str, Any]:
    """Return an object without the metadata fields that a server sets, such as its UID and creation time."""
    meta = item["metadata"]
    return item | {"metadata": {key: meta[key] for key in meta if key not in _GIVEN}}


def _require_head(number: int, item: dict[str, Any]) -> None:
    try:
        msgspec.convert(item, _Item)
    except msgspec.ValidationError as error:
        raise StateError(f"spec.items[{number}]: {error}") from None


def _select(items: Iterable[dict[str, Any]], kind: Kind[T]) -> tuple[T, ...]:
    """Return the objects of a kind. Raises `StateError` if one is invalid."""
    return tuple(_convert(number, one, kind.type) for number, one in enumerate(items) if one.get("kind") == kind.kind)


def _convert(number: int, item: dict[str, Any], type: type[T]) -> T:
    try:
        return msgspec.convert(item, type)
    except msgspec.ValidationError as error:
        kind, namespace, name = name_object(item)
        raise StateError(f"spec.items[{number}]: {kind} {namespace}/{name}: {error}") from None


def omit_redefined(state: ClusterState, redefined: Collection[ObjectName]) -> list[Manifest]:
    """Return the objects of a state without those that a scenario redefines.

    redefined: the names of the scenario's objects.
    """
    return [one for one in state.objects if name_object(one.document) not in redefined]


def name_object(document: Mapping[str, Any]) -> ObjectName:
    """Return the kind, namespace and name of an object in a snapshot, which together identify it."""
    meta = document.get("metadata") or {}
    return str(document.get("kind")), meta.get("namespace") or "default", str(meta.get("name"))
