"""Decide which names a definition gets and whether the server serves it.

The server calls `settle_names` when it writes a definition. The function does no I/O. The algorithm is that of
upstream's naming controller (k8s.io/apiextensions-apiserver/pkg/controller/status) and establishing controller:

- A definition keeps the names that it has. A free name goes to the first definition that wants it.
- A definition is established as soon as all its names are accepted, and it stays established.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct, field

from muster.api.server.apiextensions import ESTABLISHED, NAMES_ACCEPTED
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.objects.conditions import holds, set_condition


class Taken(Struct):
    """The names that the other definitions of a group use.

    resources: plural, singular and short names.
    kinds: names of kinds and of their lists.
    """

    resources: set[str] = field(default_factory=set)
    kinds: set[str] = field(default_factory=set)

    @classmethod
    def by(cls, others: Iterable[Mapping[str, Any]]) -> "Taken":
        """Return the names in the `acceptedNames` of other definitions."""
        taken = cls()
        for names in others:
            taken.resources |= {names.get("plural", ""), names.get("singular", ""), *(names.get("shortNames") or ())}
            taken.kinds |= {names.get("kind", ""), names.get("listKind", "")}
        taken.resources.discard("")
        taken.kinds.discard("")
        return taken


def settle_names(definition: Document, others: Iterable[Mapping[str, Any]], now: str) -> None:
    """Set the accepted names and the conditions `NamesAccepted` and `Established` in the status, in place.

    others: the `acceptedNames` of the other definitions of the group.
    """
    status = definition.setdefault("status", {})
    wanted: dict[str, Any] = definition["spec"]["names"]
    accepted, reason, message = _accept_names(wanted, status.get("acceptedNames") or {}, Taken.by(others))
    status["acceptedNames"] = accepted
    if reason:
        set_condition(status, NAMES_ACCEPTED, "False", now, reason=reason, message=message)
    else:
        set_condition(status, NAMES_ACCEPTED, "True", now, reason="NoConflicts", message="no conflicts found")
    if holds(status, ESTABLISHED):
        return
    if reason:
        set_condition(status, ESTABLISHED, "False", now, reason="NotAccepted", message="not all names are accepted")
    else:
        sentence = "the initial names have been accepted"
        set_condition(status, ESTABLISHED, "True", now, reason="InitialNamesAccepted", message=sentence)


def _accept_names(requested: dict[str, Any], previous: dict[str, Any], taken: Taken) -> tuple[dict[str, Any], str, str]:
    """Return the accepted names, and the reason and message of a conflict; both are "" if there is none.

    requested: the names in the spec.
    previous: the names that the definition already has.
    taken: the names of other definitions.
    """
    accepted: dict[str, Any] = {"plural": "", "kind": ""} | previous
    reason = message = ""
    for name, pool, word in (
        ("plural", taken.resources, "PluralConflict"),
        ("singular", taken.resources, "SingularConflict"),
        ("shortNames", taken.resources, "ShortNamesConflict"),
        ("kind", taken.kinds, "KindConflict"),
        ("listKind", taken.kinds, "ListKindConflict"),
    ):
        value = requested.get(name)
        values, before = (
            (value or [], previous.get(name) or []) if name == "shortNames" else ([value], [previous.get(name)])
        )
        refused = [text for text in values if text and text in pool and text not in before]
        if refused:
            reason, message = word, ", ".join(f'"{text}" is already in use' for text in refused)
            continue
        accepted.pop(name, None)
        if value:
            accepted[name] = value
    accepted.pop("categories", None)
    if requested.get("categories"):
        accepted["categories"] = requested["categories"]
    return accepted, reason, message
