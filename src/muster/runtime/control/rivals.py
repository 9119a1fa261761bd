"""Decide whether another writer keeps undoing this process's writes, and how long the next write then waits. Pure.

The module does not depend on kinds or on formats of requests. It compares an object before a write with the object
after the write; the object itself records which manager set which field. The empty path means the existence of the
object. A controller that only reacts to another one (a check that is reset, a status that follows) is not slowed down,
unless the same field changes back and forth several times within a minute.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct, field

# An object is read before a write after so many writes, and then again after so many more.
FIRST_LOOK = 8
NEXT_LOOK = 64
# A writer that has set a field so often, each time against the same value of another, is being undone.
NOTICED = 4
LONGEST_SECONDS = 300.0
# Changes further apart are no quarrel. After this long without a write, the record starts again.
FAR_APART_SECONDS = 60.0

# Steps: a field's name, or for a list item its identifying field and that field's value. Empty: the whole object.
Path: TypeAlias = tuple[str | tuple[str, str], ...]
Document: TypeAlias = Mapping[str, Any]

_IDENTITIES = ("type", "name", "uid")
# A deletion leaves no trace of its author.
ANOTHER = "another program"
_NOTHING: tuple[Any, ...] = (None, [], {})
# The metadata fields that the server sets in each write.
_SERVERS = frozenset(
    ("metadata", name)
    for name in ("creationTimestamp", "deletionTimestamp", "generation", "managedFields", "resourceVersion", "uid")
)


class FieldChange(Struct, frozen=True):
    """A field that a write of this process changes.

    theirs, ours: the value before and after the write; None means an absent field.
    rival: the writer that set the old value; "" if this process did.

    If this process creates or deletes an object, the path is empty, `theirs` lists the UIDs of the object's owners, and
    `ours` is True or None.
    """

    path: Path
    ours: Any
    theirs: Any
    rival: str

    @property
    def name(self) -> str:
        """The path as text: `spec.suspend`, `status.conditions[type=Ready].status`."""
        steps = (step if isinstance(step, str) else f"[{step[0]}={step[1]}]" for step in self.path)
        return ".".join(steps).replace(".[", "[")

    def repeats(self, other: "FieldChange") -> bool:
        """Return whether this change sets the same value as another change of the same field.

        An object with other owners counts as another object, although it has the same name.
        """
        return self.ours == other.ours and (bool(self.path) or self.theirs == other.theirs)


class Quarrel(Struct, frozen=True):
    """A field that this process and another writer keep setting to different values.

    about: the last change of the field by this process.
    times: how many times this process has set it.
    at: the time of the last write by this process, in seconds.
    """

    about: FieldChange
    times: int
    at: float

    @property
    def is_noticed(self) -> bool:
        """Whether the field was set so often that this is no coincidence."""
        return self.times >= NOTICED

    @property
    def free_at(self) -> float:
        """The time, in seconds, from which this process may set the field again.

        The wait grows with each repetition.
        """
        # 2**10 s already exceeds the limit; without the bound, a quarrel of days would overflow.
        return self.at + (min(2.0 ** min(self.times - NOTICED, 10), LONGEST_SECONDS) if self.is_noticed else 0.0)

    def is_over(self, now: float) -> bool:
        """Return whether the quarrel is so old that the next change starts a new one."""
        return now - self.free_at > FAR_APART_SECONDS


class WriteRecord(Struct, frozen=True):
    """The record of this process's writes to one object, or to successive objects of the same name.

    writes: how many writes there were.
    check_from: after this many writes, the object is read before each further write.
    last: the time of the last write.
    uid: the UID of the current object.
    quarrels: the disputed fields, by path.
    """

    writes: int = 0
    check_from: int = FIRST_LOOK
    last: float = 0.0
    uid: str = ""
    quarrels: Mapping[Path, Quarrel] = field(default_factory=dict)

    def are_suspicious(self, *, of_fields: bool) -> bool:
        """Return whether there were so many writes that the object must be read before this one.

        of_fields: whether the write changes fields. Creations and deletions are rare, so fewer of them suffice.
        """
        return self.writes >= (self.check_from if of_fields else FIRST_LOOK)

    def waits(self, now: float) -> bool:
        """Return whether this process may not yet set some disputed field again."""
        return any(now < quarrel.free_at for quarrel in self.quarrels.values())

    def held_by(self, changes: Sequence[FieldChange], now: float) -> Quarrel | None:
        """Return a quarrel that a write with these changes would continue too early; None if there is none."""
        for change in changes:
            old = self.quarrels.get(change.path)
            if old is not None and now < old.free_at and change.repeats(old.about):
                return old
        return None


def count_write(record: WriteRecord, now: float) -> WriteRecord:
    """Return the record with one more write counted. If the last write was long ago, return a new record."""
    if now - record.last > LONGEST_SECONDS + FAR_APART_SECONDS:
        return WriteRecord(1, last=now)
    return WriteRecord(record.writes + 1, record.check_from, now, record.uid, record.quarrels)


def meet_object(record: WriteRecord, uid: str) -> WriteRecord:
    """Return the record for the object with this UID.

    If it differs from the previous object, the quarrels about fields of that object are dropped.
    """
    if uid == record.uid:
        return record
    quarrels = {path: quarrel for path, quarrel in record.quarrels.items() if not path}
    return msgspec.structs.replace(record, uid=uid, quarrels=quarrels)


def judge_write(record: WriteRecord, changes: Sequence[FieldChange], now: float) -> WriteRecord:
    """Return the record after a successful write with these changes.

    A field that this process itself had set before is no longer disputed, and neither are its nested fields.
    """
    ours = [change.path for change in changes if not change.rival]
    quarrels = {
        path: old
        for path, old in record.quarrels.items()
        if not old.is_over(now) and not any(path[: len(own)] == own for own in ours)
    }
    for change in changes:
        if change.rival:
            old = quarrels.get(change.path)
            times = old.times + 1 if old is not None and change.repeats(old.about) else 1
            quarrels[change.path] = Quarrel(change, times, now)
    check_from = record.writes + (1 if quarrels else NEXT_LOOK)
    return msgspec.structs.replace(record, quarrels=quarrels, check_from=check_from)


def find_changes(before: Document | None, after: Document | None, us: str) -> list[FieldChange]:
    """Return each field that a write of this process changed, by comparing the object before and after the write.

    Metadata that the server maintains, such as the generation, are left out. A creation or deletion is one change, with
    an empty path.

    before: the object before the write; None if the write created it.
    after: None if the write deleted the object.
    us: the field manager of this process, whose own earlier values have no rival.
    """
    if before is None or after is None:
        return [*_list_creation(after), *_list_deletion(before)]
    managers = _list_managers(before)
    return [
        FieldChange(path, ours, theirs, _find_rival(managers, path, us))
        for path, ours, theirs in _yield_differences(after, before, ())
        if path not in _SERVERS
    ]


def _list_creation(after: Document | None) -> Iterator[FieldChange]:
    if after is not None and _is_object(after):
        yield FieldChange((), True, _list_owners(after), ANOTHER)


def _list_deletion(before: Document | None) -> Iterator[FieldChange]:
    """Yield the deletion of an object, unless it is already being deleted."""
    if before is not None and _is_object(before) and not before["metadata"].get("deletionTimestamp"):
        first = min(
            _list_managers(before), key=lambda entry: (bool(entry.get("subresource")), _get_time(entry)), default={}
        )
        yield FieldChange((), None, _list_owners(before), str(first.get("manager", ANOTHER)))


def _list_owners(document: Document) -> list[str]:
    return [owner["uid"] for owner in document["metadata"].get("ownerReferences") or ()]


def _is_object(document: Document) -> bool:
    """Return whether the document is an object. A document without a UID is a list or a review."""
    return bool((document.get("metadata") or {}).get("uid"))


def _list_managers(document: Document) -> list[Document]:
    return [entry for entry in document["metadata"].get("managedFields") or () if isinstance(entry, dict)]


def _get_time(manager: Document) -> str:
    return str(manager.get("time", ""))


def _yield_differences(after: Any, before: Any, path: Path) -> Iterator[tuple[Path, Any, Any]]:
    if isinstance(after, dict):
        known = before if isinstance(before, dict) else {}
        for name in {**after, **known}:
            yield from _yield_differences(after.get(name), known.get(name), (*path, name))
    elif isinstance(after, list) and (key := _find_identity_field(_list_items(after) + _list_items(before))):
        new, old = ({item[key]: item for item in _list_items(some)} for some in (after, before))
        for name in {**new, **old}:
            yield from _yield_differences(new.get(name), old.get(name), (*path, (key, name)))
    elif after != before and not (after in _NOTHING and before in _NOTHING):
        yield path, after, before


def _list_items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _find_identity_field(items: list[Any]) -> str:
    """Return the field that identifies the items of a list; "" if there is none."""
    return next((key for key in _IDENTITIES if items and all(_get_text(item, key) for item in items)), "")


def _get_text(item: Any, key: str) -> str:
    value = item.get(key) if isinstance(item, dict) else None
    return value if isinstance(value, str) else ""


def _find_rival(managers: Sequence[Document], path: Path, us: str) -> str:
    """Return the field manager that set a field last.

    Return "" if this process did. Removing a field leaves no trace, so the latest writer counts as its remover.
    """
    holders = [entry for entry in managers if _holds(entry.get("fieldsV1"), path)]
    if any(entry.get("manager") == us for entry in holders):
        return ""
    others = holders or [entry for entry in managers if entry.get("manager") != us]
    latest = max(others, key=_get_time, default=None)
    return str(latest.get("manager", "")) if latest is not None else ""


def _holds(fields: Any, path: Path) -> bool:
    """Return whether a field set contains a path, or all of a shorter path that leads to it."""
    for depth, step in enumerate(path):
        if not isinstance(fields, dict):
            return False
        if depth and not fields:
            return True
        fields = fields.get(f"f:{step}") if isinstance(step, str) else _find_item(fields, step)
    return fields is not None


def _find_item(fields: Mapping[str, Any], step: tuple[str, str]) -> Any:
    for key, below in fields.items():
        if key.startswith("k:") and msgspec.json.decode(key[2:]).get(step[0]) == step[1]:
            return below
    return None
