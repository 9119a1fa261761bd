"""The annotations of a job that starts later: at a moment, or once other jobs of its namespace have ended. Pure.

Such a job waits behind an admission gate (Kueue KEP-6915), and suspended. The deferral controller removes the gate once
the conditions are met. A user who removes the gate starts the job at once.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final

from msgspec import Struct

from muster.api.kueue.names import ADMISSION_GATED_BY

BEGIN_ANNOTATION: Final = "muster.dev/begin-at"
AFTER_ANNOTATION: Final = "muster.dev/after"
# The dependencies that were met, as the controller saw it: their jobs may be deleted before the last one is met.
MET_ANNOTATION: Final = "muster.dev/after-met"
GATE: Final = "muster.dev/deferral"

# A job waits for at most so many others.
MOST_DEPENDENCIES: Final = 100


class Outcome(StrEnum):
    """The ways in which a job has to end for one that waits for it."""

    OK = "ok"
    FAIL = "fail"
    ANY = "any"


class Dependency(Struct, frozen=True):
    """A job that has to end before, and how."""

    name: str
    outcome: Outcome = Outcome.OK

    def __str__(self) -> str:
        """Return the dependency as users write it."""
        return f"{self.name}:{self.outcome}"

    @property
    def wish(self) -> str:
        """What the waiting job waits for, as `prep to complete`."""
        return f"{self.name} to {_VERBS[self.outcome]}"


_VERBS = {Outcome.OK: "complete", Outcome.FAIL: "fail", Outcome.ANY: "end"}


class Deferral(Struct, frozen=True):
    """The conditions under which a job starts: all of them have to be met."""

    begin_at: datetime | None = None
    after: tuple[Dependency, ...] = ()

    def __bool__(self) -> bool:
        """Return whether there is a condition."""
        return self.begin_at is not None or bool(self.after)


def parse_dependencies(text: str) -> tuple[Dependency, ...]:
    """Return the dependencies of a text such as `prep,eval:any`, each once. Raises `ValueError`."""
    dependencies = []
    for part in text.split(","):
        name, colon, outcome = part.strip().partition(":")
        if not name:
            raise ValueError(f"{text!r} names no job: expected JOB[:ok|:fail|:any], several with commas")
        if colon and outcome not in tuple(Outcome):
            raise ValueError(f"{part.strip()!r}: a job is waited for as {name}:ok, {name}:fail or {name}:any")
        dependencies.append(Dependency(name, Outcome(outcome) if colon else Outcome.OK))
    return check_dependencies(dependencies)


def check_dependencies(dependencies: Iterable[Dependency]) -> tuple[Dependency, ...]:
    """Return the dependencies without repetitions. Raises `ValueError` for a job with two outcomes, or for too many."""
    outcomes: dict[str, Outcome] = {}
    for one in dependencies:
        if outcomes.setdefault(one.name, one.outcome) is not one.outcome:
            raise ValueError(f"{one.name} cannot end both ways: {one.name}:{outcomes[one.name]} and {one}")
    if len(outcomes) > MOST_DEPENDENCIES:
        raise ValueError(f"{len(outcomes)} jobs to wait for are more than {MOST_DEPENDENCIES}")
    return tuple(Dependency(name, outcome) for name, outcome in outcomes.items())


def parse_moment(text: str) -> datetime:
    """Return the moment of an RFC 3339 time. Raises `ValueError`."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ValueError(f"{text!r} is no time such as 2026-01-31T18:00:00Z")
    return moment


def parse_deferral(annotations: Mapping[str, str]) -> Deferral:
    """Return the conditions that the annotations of a job state. Raises `ValueError`."""
    begin, after = annotations.get(BEGIN_ANNOTATION), annotations.get(AFTER_ANNOTATION)
    return Deferral(
        parse_moment(begin) if begin is not None else None, parse_dependencies(after) if after is not None else ()
    )


def parse_met(annotations: Mapping[str, str]) -> frozenset[str]:
    """Return the names of the jobs that have ended as they had to."""
    return frozenset(filter(None, annotations.get(MET_ANNOTATION, "").split(",")))


def make_annotations(deferral: Deferral) -> dict[str, str]:
    """Return the annotations of a new job that states the conditions; none if there is no condition."""
    if not deferral:
        return {}
    begin = deferral.begin_at
    return (
        ({BEGIN_ANNOTATION: begin.isoformat().replace("+00:00", "Z")} if begin is not None else {})
        | ({AFTER_ANNOTATION: ",".join(map(str, deferral.after))} if deferral.after else {})
        | {ADMISSION_GATED_BY: GATE}
    )


def is_deferred(annotations: Mapping[str, str]) -> bool:
    """Return whether the gate is closed."""
    return ADMISSION_GATED_BY in annotations and GATE in _list_gates(annotations)


def remove_gate(annotations: Mapping[str, str]) -> dict[str, str | None]:
    """Return the merge patch of the annotations that opens our gate, and no other."""
    return {ADMISSION_GATED_BY: ",".join(gate for gate in _list_gates(annotations) if gate != GATE) or None}


def _list_gates(annotations: Mapping[str, str]) -> list[str]:
    return [gate.strip() for gate in annotations.get(ADMISSION_GATED_BY, "").split(",") if gate.strip()]
