"""Writers that undo each other: how one sees that another sets back what it has set, and how long it then waits. Pure.

Nothing is known of kinds: a patch is compared with the object as it is, and the object says who manages which field.
Who only reacts to what another does (a check that is reset, a status that follows) is not slowed down unless the same
field goes to and fro several times within a minute.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct, field

# An object is looked at when it has been written so often, and then again after so many writes.
FIRST_LOOK = 8
NEXT_LOOK = 64
# Who has set a field so often, each time against the same word of another, knows that it is undone.
NOTICED = 4
LONGEST_SECONDS = 300.0
# What is further apart is no quarrel, and after so long without a write all is forgotten.
FAR_APART_SECONDS = 60.0

# A name, or of an item of a list the field that it is known by and its value there.
Path: TypeAlias = tuple[str | tuple[str, str], ...]

_IDENTITIES = ("type", "name", "uid")
# Of metadata: what a write says of which object it means.
_PRECONDITIONS = frozenset({("metadata", "resourceVersion"), ("metadata", "uid")})


class Undone(Struct, frozen=True):
    """A field that is about to be set to `ours`, where another has set it to `theirs`; None: it is not there."""

    path: Path
    ours: Any
    theirs: Any
    rival: str

    @property
    def name(self) -> str:
        """`spec.suspend`, `status.conditions[type=Ready].status`."""
        steps = (step if isinstance(step, str) else f"[{step[0]}={step[1]}]" for step in self.path)
        return ".".join(steps).replace(".[", "[")


class Quarrel(Struct, frozen=True):
    """A field that we have set so many times against another's word, the last time at `at` (seconds)."""

    about: Undone
    times: int
    at: float

    @property
    def is_noticed(self) -> bool:
        """Whether it is more than chance."""
        return self.times >= NOTICED

    @property
    def free_at(self) -> float:
        """When the field may be set again: later each time."""
        # Ten times twice as long is longer than the longest; a quarrel of days would be a number too large.
        return self.at + (min(2.0 ** min(self.times - NOTICED, 10), LONGEST_SECONDS) if self.is_noticed else 0.0)

    def is_over(self, now: float) -> bool:
        """Whether it was so long ago that the next time is the first one again."""
        return now - self.free_at > FAR_APART_SECONDS


class Dealings(Struct, frozen=True):
    """What is remembered of our writes to one object."""

    writes: int = 0
    look_at: int = FIRST_LOOK
    last: float = 0.0
    uid: str = ""
    quarrels: Mapping[Path, Quarrel] = field(default_factory=dict)

    @property
    def is_suspicious(self) -> bool:
        """Whether this write is worth a look at the object."""
        return self.writes >= self.look_at

    def held_by(self, patch: Any, now: float) -> Quarrel | None:
        """The quarrel that a patch would go on with before its time."""
        held = (quarrel for quarrel in self.quarrels.values() if now < quarrel.free_at)
        return next((one for one in held if _at(patch, one.about.path) == one.about.ours), None)


def counted(dealings: Dealings, now: float) -> Dealings:
    """One more write. What was long ago is forgotten."""
    if now - dealings.last > LONGEST_SECONDS + FAR_APART_SECONDS:
        return Dealings(1, last=now)
    return Dealings(dealings.writes + 1, dealings.look_at, now, dealings.uid, dealings.quarrels)


def judged(dealings: Dealings, uid: str, patch: Any, found: Sequence[Undone], now: float) -> Dealings:
    """After a look, and a write that went through over what was found. What we set over our own word is ours."""
    known = dealings.quarrels if uid == dealings.uid else {}
    before = {path: old for path, old in known.items() if not old.is_over(now)}
    quarrels = {path: old for path, old in before.items() if _at(patch, path) is path}
    for about in found:
        old = before.get(about.path)
        times = old.times + 1 if old is not None and old.about.ours == about.ours else 1
        quarrels[about.path] = Quarrel(about, times, now)
    look_at = dealings.writes + (1 if quarrels else NEXT_LOOK)
    return msgspec.structs.replace(dealings, uid=uid, quarrels=quarrels, look_at=look_at)


def undone(patch: Mapping[str, Any], current: Mapping[str, Any], us: str) -> list[Undone]:
    """What a merge patch sets that is set otherwise, by another, in the object as it is."""
    managers = [entry for entry in current.get("metadata", {}).get("managedFields") or () if isinstance(entry, dict)]
    found = []
    for path, ours, theirs in _differences(patch, current, ()):
        if path not in _PRECONDITIONS and (rival := _rival(managers, path, us)):
            found.append(Undone(path, ours, theirs, rival))
    return found


def _differences(wanted: Any, there: Any, path: Path) -> Iterator[tuple[Path, Any, Any]]:
    if isinstance(wanted, dict):
        known = there if isinstance(there, dict) else {}
        for name, value in wanted.items():
            yield from _differences(value, known.get(name), (*path, name))
    elif isinstance(wanted, list) and (key := _identity(wanted)):
        items = {_known_by(item, key): item for item in there} if isinstance(there, list) else {}
        for item in wanted:
            yield from _differences(item, items.get(item[key]), (*path, (key, item[key])))
    elif wanted != there and not (wanted == [] and there is None):
        yield path, wanted, there


def _identity(items: list[Any]) -> str:
    """The field by which the items of a list are told apart; "" if there is none."""
    return next((key for key in _IDENTITIES if items and all(_known_by(item, key) for item in items)), "")


def _known_by(item: Any, key: str) -> str:
    value = item.get(key) if isinstance(item, dict) else None
    return value if isinstance(value, str) else ""


def _at(document: Any, path: Path) -> Any:
    """What a patch says of a field; the path itself, which is no value, if it says nothing."""
    for step in path:
        if isinstance(step, str):
            if not isinstance(document, dict) or step not in document:
                return path
            document = document[step]
        else:
            items = document if isinstance(document, list) else []
            found = [item for item in items if _known_by(item, step[0]) == step[1]]
            if not found:
                return path
            document = found[0]
    return document


def _rival(managers: Sequence[Mapping[str, Any]], path: Path, us: str) -> str:
    """Who set a field last; "" if that was us. Who took a field away left no trace: the latest writer did."""
    holders = [entry for entry in managers if _holds(entry.get("fieldsV1"), path)]
    if any(entry.get("manager") == us for entry in holders):
        return ""
    others = holders or [entry for entry in managers if entry.get("manager") != us]
    latest = max(others, key=lambda entry: str(entry.get("time", "")), default=None)
    return str(latest.get("manager", "")) if latest is not None else ""


def _holds(fields: Any, path: Path) -> bool:
    """Whether a field set has a path, or one above it as a whole."""
    for depth, step in enumerate(path):
        if not isinstance(fields, dict):
            return False
        if depth and not fields:
            return True
        fields = fields.get(f"f:{step}") if isinstance(step, str) else _item(fields, step)
    return fields is not None


def _item(fields: Mapping[str, Any], step: tuple[str, str]) -> Any:
    for key, below in fields.items():
        if key.startswith("k:") and msgspec.json.decode(key[2:]).get(step[0]) == step[1]:
            return below
    return None
