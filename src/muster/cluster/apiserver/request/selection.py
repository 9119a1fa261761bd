"""Which of the stored objects a request means: its label and field selectors, against headers."""

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

_NAME, _NAMESPACE = "metadata.name", "metadata.namespace"
_ANY = FieldMatcher()


class FieldLabels(Struct, frozen=True):
    """The fields by which objects of a kind can be selected, besides name and namespace.

    fields: what a client may write, and the field of the header that it means.
    refusal: the sentence about any other, with `{label}` in it.
    read: finds the fields in a body, if headers do not have them.
    """

    fields: Mapping[str, str]
    refusal: str = "field label not supported: {label}"
    read: Callable[[bytes], Mapping[str, str]] | None = None


NO_FIELDS = FieldLabels({}, '"{label}" is not a known field selector: only "metadata.name", "metadata.namespace"')


class Selection(Struct, frozen=True):
    """What a list or watch asks for. `name` and `namespace` are taken out of the field selector: they are keys."""

    labels: LabelMatcher = EVERYTHING
    fields: FieldMatcher = _ANY
    read: Callable[[bytes], Mapping[str, str]] | None = None  # what headers do not have

    def __bool__(self) -> bool:
        """Whether it leaves anything out."""
        return bool(self.labels) or bool(self.fields)

    @property
    def name(self) -> str | None:
        """The one name that can match, if there is only one."""
        return self.fields.exact(_NAME)

    def matches(self, entry: Entry) -> bool:
        """Whether the object is meant."""
        if self.labels.requirements and not self.labels.matches(entry.header.labels):
            return False
        return all((self._field(entry, r.key) == r.value) is r.equal for r in self.fields.requirements)

    def _field(self, entry: Entry, name: str) -> str:
        if name == _NAME:
            return entry.key.name
        if name == _NAMESPACE:
            return entry.key.namespace
        return (entry.header.fields if self.read is None else self.read(entry.body)).get(name, "")

    def of(self, entries: Iterable[Entry]) -> list[Entry]:
        """The objects that are meant."""
        return [entry for entry in entries if self.matches(entry)]

    def change(self, change: Change) -> str | None:
        """What the change is to who sees only what is meant: ADDED, MODIFIED, DELETED, or nothing."""
        before = change.previous is not None and self.matches(change.previous)
        after = change.type != "DELETED" and self.matches(change.entry)
        if after:
            return "MODIFIED" if before else "ADDED"
        return "DELETED" if before else None


EVERY = Selection()


def selection(label_selector: str, field_selector: str, labels: FieldLabels) -> Selection:
    """The selectors of a request. Raises `ApiError` (400) for what cannot be read or is not known."""
    if not label_selector and not field_selector:
        return EVERY
    try:
        chosen = parse_label_selector(label_selector)
        fields = parse_field_selector(field_selector)
    except SelectorError as error:
        raise bad_request(str(error)) from None
    if not fields:
        return Selection(chosen)
    requirements = [FieldRequirement(_known(r.key, labels), r.value, r.equal) for r in fields.requirements]
    return Selection(chosen, FieldMatcher(tuple(requirements)), labels.read)


def _known(label: str, labels: FieldLabels) -> str:
    if label in (_NAME, _NAMESPACE):
        return label
    field = labels.fields.get(label)
    if field is None:
        raise bad_request(labels.refusal.format(label=label[:200]))
    return field
