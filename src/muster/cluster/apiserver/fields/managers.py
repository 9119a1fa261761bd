"""Managers, and the entries of `metadata.managedFields` that say what each of them has set.

An entry is one manager's fields through one operation (Apply or Update) and one subresource, and of updates also in
one API version. Entries are kept as they are on the wire, and never changed in place.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from msgspec import Struct

from muster.api.status import INVALID, REQUIRED, TOO_LONG, FieldError
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.fields.sets import FieldSet, canonical, union

Entry: TypeAlias = dict[str, Any]

APPLY = "Apply"
UPDATE = "Update"
FIELDS_V1 = "FieldsV1"
MAX_UPDATERS = 10  # entries of updates that one object has; the oldest ones beyond are merged
ANCIENT_CHANGES = "ancient-changes"  # who manages those
MAX_MANAGER_LENGTH = 128


class Identity(NamedTuple):
    """What makes an entry the one of its manager."""

    manager: str
    operation: str
    api_version: str  # of updates; an applier stays the same one in a new version
    subresource: str


class Writer(Struct, frozen=True):
    """Who writes.

    manager: the field manager.
    api_version: the version of the API that the fields are named in (of the object itself, also for `scale`).
    subresource: the subresource that is written through, if it is one.
    """

    manager: str
    api_version: str
    subresource: str = ""

    def identity(self, operation: str) -> Identity:
        """The entry that holds what this writer sets."""
        return Identity(self.manager, operation, self.api_version if operation == UPDATE else "", self.subresource)

    def entry(self, operation: str, now: str, fields: FieldSet) -> Entry:
        """That entry. `now`: RFC 3339, whole seconds, UTC."""
        entry: Entry = {"manager": self.manager} if self.manager else {}
        entry |= {"operation": operation, "apiVersion": self.api_version, "time": now}
        entry |= {"fieldsType": FIELDS_V1, "fieldsV1": fields}
        return entry | {"subresource": self.subresource} if self.subresource else entry


def identity_of(entry: Entry) -> Identity:
    """Whose entry it is."""
    operation = entry["operation"]
    version = entry.get("apiVersion", "") if operation == UPDATE else ""
    return Identity(entry.get("manager", ""), operation, version, entry.get("subresource", ""))


def entries_of(document: Document | None) -> list[Entry]:
    """The entries of a stored object."""
    found: list[Entry] = ((document or {}).get("metadata") or {}).get("managedFields") or []
    return found


def set_entries(document: Document, entries: Sequence[Entry]) -> None:
    """Give an object these entries, in place; none are left out."""
    metadata = document.setdefault("metadata", {})
    if entries:
        metadata["managedFields"] = entries
    else:
        metadata.pop("managedFields", None)


def without_entries(document: Document) -> Document:
    """The object without its entries."""
    metadata = document.get("metadata")
    if not metadata or "managedFields" not in metadata:
        return document
    return document | {"metadata": {name: value for name, value in metadata.items() if name != "managedFields"}}


def same_entry(entry: Entry, other: Entry) -> bool:
    """Whether two entries differ at most in their time."""
    return entry is other or entry | {"time": ""} == other | {"time": ""}


def in_order(entries: Iterable[Entry]) -> list[Entry]:
    """The entries as they are stored: appliers first, then by time."""
    return sorted(entries, key=_rank)


def _rank(entry: Entry) -> tuple[str, ...]:
    return (
        entry["operation"],
        entry.get("time") or "",
        entry.get("manager", ""),
        entry.get("apiVersion", ""),
        entry.get("subresource", ""),
    )


def read_entries(given: Any) -> list[Entry] | None:
    """The entries that a client sent, in their one right form; None if something is wrong with them."""
    try:
        entries = [_read_entry(entry) for entry in given]
    except (ValueError, TypeError, RecursionError):
        return None
    return in_order({identity_of(entry): entry for entry in entries}.values())


def _read_entry(given: Any) -> Entry:
    """One entry. Raises `ValueError` or `TypeError`."""
    if not isinstance(given, dict):
        raise TypeError("an entry is an object")
    texts = {name: given.get(name) or "" for name in ("manager", "operation", "apiVersion", "time", "subresource")}
    if not all(isinstance(text, str) for text in texts.values()):
        raise TypeError("a member of an entry is no text")
    if texts["operation"] not in (APPLY, UPDATE) or given.get("fieldsType") != FIELDS_V1:
        raise ValueError("an entry is of no known kind")
    fields = canonical(given.get("fieldsV1") or {})
    names = ("manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource")
    values = texts | {"fieldsType": FIELDS_V1, "fieldsV1": fields}
    return {name: values[name] for name in names if values[name] or name == "fieldsV1"}


def capped(entries: list[Entry]) -> list[Entry]:
    """The entries, with the oldest updates of each version merged as long as there are more than `MAX_UPDATERS`."""
    if len(entries) <= MAX_UPDATERS:
        return entries
    updates = sorted((entry for entry in entries if entry["operation"] == UPDATE), key=_age)
    surplus = len(updates) - MAX_UPDATERS
    if surplus <= 0:
        return entries
    kept = {identity_of(entry): entry for entry in entries}
    oldest: dict[str, Entry] = {}  # the first of each version, until there is a second
    for entry in updates:
        if surplus <= 0:
            break
        version = entry.get("apiVersion", "")
        if version not in oldest or entry.get("manager") == ANCIENT_CHANGES:
            oldest.setdefault(version, entry)
            continue
        _merge_into_ancient(kept, oldest[version], entry)
        surplus -= 1
    return list(kept.values())


def _merge_into_ancient(kept: dict[Identity, Entry], first: Entry, entry: Entry) -> None:
    version = entry.get("apiVersion", "")
    bucket = Writer(ANCIENT_CHANGES, version)
    identity = bucket.identity(UPDATE)
    before = kept[identity] if identity in kept else kept.pop(identity_of(first))
    kept.pop(identity_of(entry), None)
    kept[identity] = bucket.entry(UPDATE, entry.get("time", ""), union(before["fieldsV1"], entry["fieldsV1"]))


def _age(entry: Entry) -> tuple[str, Identity]:
    return entry.get("time") or "", identity_of(entry)


def default_manager(user_agent: str) -> str:
    """The field manager of a request that names none: the head of its user agent."""
    head = "".join(character for character in user_agent.partition("/")[0] if character.isprintable())
    return head.encode()[:MAX_MANAGER_LENGTH].decode(errors="ignore")


def manager_errors(manager: str, *, required: bool = False) -> list[FieldError]:
    """What is wrong with the `fieldManager` of a request; `required` for an apply."""
    if required and not manager:
        return [FieldError("fieldManager", REQUIRED, "", "is required for apply patch")]
    errors = []
    if len(manager.encode()) > MAX_MANAGER_LENGTH:
        detail = f"may not be more than {MAX_MANAGER_LENGTH} bytes"
        errors.append(FieldError("fieldManager", TOO_LONG, manager, detail))
    if not manager.isprintable():
        shown = manager[:MAX_MANAGER_LENGTH]
        errors.append(FieldError("fieldManager", INVALID, shown, "should only contain printable characters"))
    return errors
