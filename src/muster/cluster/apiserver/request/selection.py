"""Select stored objects: the label and field selectors of a request, matched against headers in the store.

A selection filters lists, and translates a change of an object into the event that a selective watch gets.
"""

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from muster.api.status import bad_request
from muster.api.values.selectors import (
    EVERYTHING,
    FieldMatcher,
    FieldRequirement,
    LabelMatcher,
    SelectorError,
    parse_field_selector,
    parse_label_selector,
)
from muster.cluster.store import Change, Entry
from muster.cluster.store.values import ChangeType

_NAME, _NAMESPACE = "metadata.name", "metadata.namespace"
_ANY = FieldMatcher()


class FieldLabels(Struct, frozen=True):
    """The fields by which objects of a kind can be selected, in addition to name and namespace.

    fields: the header field for each field of a selector.
    refusal: the message about any other field, with `{label}` in it.
    read: returns the fields of a body, for kinds whose headers do not contain them; None for other kinds.
    """

    fields: Mapping[str, str]
    refusal: str = "field label not supported: {label}"
    read: Callable[[bytes], Mapping[str, str]] | None = None


NO_FIELDS = FieldLabels({}, '"{label}" is not a known field selector: only "metadata.name", "metadata.namespace"')


class Selection(Struct, frozen=True):
    """The selectors of a list or watch. The fields for name and namespace are matched against keys.

    read: returns the fields of a body, for kinds whose headers do not contain them.
    """

    labels: LabelMatcher = EVERYTHING
    fields: FieldMatcher = _ANY
    read: Callable[[bytes], Mapping[str, str]] | None = None  # as in `FieldLabels`

    def __bool__(self) -> bool:
        """Return whether the selection may leave objects out."""
        return bool(self.labels) or bool(self.fields)

    @property
    def name(self) -> str | None:
        """The only name that can match; None if several names can."""
        return self.fields.exact(_NAME)

    def matches(self, entry: Entry) -> bool:
        """Return whether an object is selected."""
        if self.labels.requirements and not self.labels.matches(entry.header.labels):
            return False
        return all((self._read_field(entry, r.key) == r.value) is r.equal for r in self.fields.requirements)

    def _read_field(self, entry: Entry, name: str) -> str:
        if name == _NAME:
            return entry.key.name
        if name == _NAMESPACE:
            return entry.key.namespace
        return (entry.header.fields if self.read is None else self.read(entry.body)).get(name, "")

    def of(self, entries: Iterable[Entry]) -> list[Entry]:
        """Return the entries that the selectors match."""
        return [entry for entry in entries if self.matches(entry)]

    def change(self, change: Change) -> ChangeType | None:
        """Return the type of a change for a client that sees only selected objects; None if it sees no change.

        To that client an object that becomes selected is ADDED, and an object that is no longer selected is DELETED.
        """
        before = change.previous is not None and self.matches(change.previous)
        after = change.type != "DELETED" and self.matches(change.entry)
        if after:
            return "MODIFIED" if before else "ADDED"
        return "DELETED" if before else None


EVERY = Selection()


def parse_selection(label_selector: str, field_selector: str, labels: FieldLabels) -> Selection:
    """Return the selection of a request. Raises `ApiError` (400) for an invalid selector or an unknown field."""
    if not label_selector and not field_selector:
        return EVERY
    try:
        chosen = parse_label_selector(label_selector)
        fields = parse_field_selector(field_selector)
    except SelectorError as error:
        raise bad_request(str(error)) from None
    if not fields:
        return Selection(chosen)
    requirements = [FieldRequirement(_find_header_field(r.key, labels), r.value, r.equal) for r in fields.requirements]
    return Selection(chosen, FieldMatcher(tuple(requirements)), labels.read)


def _find_header_field(label: str, labels: FieldLabels) -> str:
    if label in (_NAME, _NAMESPACE):
        return label
    field = labels.fields.get(label)
    if field is None:
        raise bad_request(labels.refusal.format(label=label[:200]))
    return field
