"""Field managers, and the entries of `metadata.managedFields` that record which fields each manager set.

An entry contains the fields that one manager set with one operation (Apply or Update) through one subresource. An entry
of updates is also for one API version. Entries keep their wire form, and no function changes an entry in place.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from msgspec import Struct

from muster.api.status import INVALID, REQUIRED, TOO_LONG, FieldError
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.fields.sets import FieldSet, make_canonical, unite_sets

Entry: TypeAlias = dict[str, Any]

APPLY = "Apply"
UPDATE = "Update"
FIELDS_V1 = "FieldsV1"
MAX_UPDATERS = 10  # the most entries of updates on one object; more cause the oldest ones to be merged
ANCIENT_CHANGES = "ancient-changes"  # the manager of the merged entries
MAX_MANAGER_LENGTH = 128  # bytes of a manager's name


class Identity(NamedTuple):
    """The key of an entry in `managedFields`. Two entries of one object never share it."""

    manager: str
    operation: str
    api_version: str  # "" for Apply: an applier keeps its entry when it uses another version
    subresource: str


class Writer(Struct, frozen=True):
    """The origin of a write.

    manager: the name of the field manager; "" if the request names none and has no user agent.
    api_version: the API version in which the fields are named. For `scale` it is the version of the object itself.
    subresource: the subresource that the request writes; "" for the object itself.
    """

    manager: str
    api_version: str
    subresource: str = ""

    def identity(self, operation: str) -> Identity:
        """Return the key of this writer's entry for an operation."""
        return Identity(self.manager, operation, self.api_version if operation == UPDATE else "", self.subresource)

    def entry(self, operation: str, now: str, fields: FieldSet) -> Entry:
        """Return an entry that records that this writer set the fields.

        now: RFC 3339, whole seconds, UTC.
        """
        entry: Entry = {"manager": self.manager} if self.manager else {}
        entry |= {"operation": operation, "apiVersion": self.api_version, "time": now}
        entry |= {"fieldsType": FIELDS_V1, "fieldsV1": fields}
        return entry | {"subresource": self.subresource} if self.subresource else entry


def identity_of(entry: Entry) -> Identity:
    """Return the key of an entry in `managedFields`."""
    operation = entry["operation"]
    version = entry.get("apiVersion", "") if operation == UPDATE else ""
    return Identity(entry.get("manager", ""), operation, version, entry.get("subresource", ""))


def entries_of(document: Document | None) -> list[Entry]:
    """Return the `managedFields` entries of an object; an empty list if there are none."""
    entries: list[Entry] = ((document or {}).get("metadata") or {}).get("managedFields") or []
    return entries


def set_entries(document: Document, entries: Sequence[Entry]) -> None:
    """Set the `managedFields` of an object, in place. Without entries, the object loses the field."""
    metadata = document.setdefault("metadata", {})
    if entries:
        metadata["managedFields"] = entries
    else:
        metadata.pop("managedFields", None)


def remove_entries(document: Document) -> Document:
    """Return the object without `metadata.managedFields`."""
    metadata = document.get("metadata")
    if not metadata or "managedFields" not in metadata:
        return document
    return document | {"metadata": {name: value for name, value in metadata.items() if name != "managedFields"}}


def is_same_entry(entry: Entry, other: Entry) -> bool:
    """Return whether two `managedFields` entries are equal apart from their time."""
    return entry is other or entry | {"time": ""} == other | {"time": ""}


def sort_entries(entries: Iterable[Entry]) -> list[Entry]:
    """Return `managedFields` entries in their stored order: appliers first, then by time."""
    return sorted(entries, key=_make_sort_key)


def _make_sort_key(entry: Entry) -> tuple[str, ...]:
    return (
        entry["operation"],
        entry.get("time") or "",
        entry.get("manager", ""),
        entry.get("apiVersion", ""),
        entry.get("subresource", ""),
    )


def read_entries(raw: Any) -> list[Entry] | None:
    """Return the `managedFields` entries from a client, in canonical form; None if they are malformed.

    If several entries have the same key, only the last one stays.
    """
    try:
        entries = [_read_entry(entry) for entry in raw]
    except (ValueError, TypeError, RecursionError):
        return None
    return sort_entries({identity_of(entry): entry for entry in entries}.values())


def _read_entry(raw: Any) -> Entry:
    """Return one entry from a client in canonical form.

    Raises `ValueError` for an unknown operation, type of fields or path element, and `TypeError` for a value of the
    wrong type.
    """
    if not isinstance(raw, dict):
        raise TypeError("an entry is an object")
    texts = {name: raw.get(name) or "" for name in ("manager", "operation", "apiVersion", "time", "subresource")}
    if not all(isinstance(text, str) for text in texts.values()):
        raise TypeError("a member of an entry is no text")
    if texts["operation"] not in (APPLY, UPDATE) or raw.get("fieldsType") != FIELDS_V1:
        raise ValueError("an entry is of no known kind")
    fields = make_canonical(raw.get("fieldsV1") or {})
    names = ("manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource")
    values = texts | {"fieldsType": FIELDS_V1, "fieldsV1": fields}
    return {name: values[name] for name in names if values[name] or name == "fieldsV1"}


def cap_updaters(entries: list[Entry]) -> list[Entry]:
    """Merge the oldest update entries until at most `MAX_UPDATERS` remain; return all entries.

    Entries of different API versions are never merged, so more may remain.
    """
    if len(entries) <= MAX_UPDATERS:
        return entries
    updates = sorted((entry for entry in entries if entry["operation"] == UPDATE), key=_make_age_key)
    surplus = len(updates) - MAX_UPDATERS
    if surplus <= 0:
        return entries
    by_identity = {identity_of(entry): entry for entry in entries}
    oldest: dict[str, Entry] = {}  # the oldest entry of each version, with which the next ones are merged
    for entry in updates:
        if surplus <= 0:
            break
        version = entry.get("apiVersion", "")
        oldest.setdefault(version, entry)
        if entry is oldest[version] or entry.get("manager") == ANCIENT_CHANGES:
            continue  # an entry that receives others is not merged itself
        _merge_into_ancient(by_identity, oldest[version], entry)
        surplus -= 1
    return list(by_identity.values())


def _merge_into_ancient(by_identity: dict[Identity, Entry], first: Entry, entry: Entry) -> None:
    """Merge an update entry into the entry of `ANCIENT_CHANGES` of its version, in place.

    first: the oldest entry of the version, which becomes that entry if there is none yet.
    """
    version = entry.get("apiVersion", "")
    bucket = Writer(ANCIENT_CHANGES, version)
    identity = bucket.identity(UPDATE)
    before = by_identity[identity] if identity in by_identity else by_identity.pop(identity_of(first))
    by_identity.pop(identity_of(entry), None)
    by_identity[identity] = bucket.entry(
        UPDATE, entry.get("time", ""), unite_sets(before["fieldsV1"], entry["fieldsV1"])
    )


def _make_age_key(entry: Entry) -> tuple[str, Identity]:
    return entry.get("time") or "", identity_of(entry)


def default_manager(user_agent: str) -> str:
    """Return the field manager of a request that names none: the printable part of its user agent before the first "/".

    The result has at most `MAX_MANAGER_LENGTH` bytes.
    """
    head = "".join(character for character in user_agent.partition("/")[0] if character.isprintable())
    return head.encode()[:MAX_MANAGER_LENGTH].decode(errors="ignore")


def manager_errors(manager: str, *, required: bool = False) -> list[FieldError]:
    """Return the errors in the name of a field manager; an empty list if it is valid.

    required: whether the request must name a manager, as an apply must.
    """
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
