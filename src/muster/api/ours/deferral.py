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
    """The end of a job for which another job waits: success, failure, or any end."""

    OK = "ok"
    FAIL = "fail"
    ANY = "any"


class Dependency(Struct, frozen=True):
    """A job that must end before another job starts, and the end that it must have."""

    name: str
    outcome: Outcome = Outcome.OK

    def __str__(self) -> str:
        """Return the dependency as users write it: `prep:ok`."""
        return f"{self.name}:{self.outcome}"

    @property
    def wish(self) -> str:
        """The end for which the waiting job waits, as a phrase for messages: `prep to complete`."""
        return f"{self.name} to {_VERBS[self.outcome]}"


_VERBS = {Outcome.OK: "complete", Outcome.FAIL: "fail", Outcome.ANY: "end"}


class Deferral(Struct, frozen=True):
    """The conditions that must all be met before a job starts: a time, and the ends of other jobs."""

    begin_at: datetime | None = None
    after: tuple[Dependency, ...] = ()

    def __bool__(self) -> bool:
        """Return whether the job has any such condition."""
        return self.begin_at is not None or bool(self.after)


def parse_dependencies(text: str) -> tuple[Dependency, ...]:
    """Parse dependencies, such as `prep,eval:any`, and return each once. Raises `ValueError`."""
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
    """Return each dependency once. Raises `ValueError` if a job has two outcomes, or if there are too many jobs."""
    outcomes: dict[str, Outcome] = {}
    for one in dependencies:
        if outcomes.setdefault(one.name, one.outcome) is not one.outcome:
            raise ValueError(f"{one.name} cannot end both ways: {one.name}:{outcomes[one.name]} and {one}")
    if len(outcomes) > MOST_DEPENDENCIES:
        raise ValueError(f"{len(outcomes)} jobs to wait for are more than {MOST_DEPENDENCIES}")
    return tuple(Dependency(name, outcome) for name, outcome in outcomes.items())


def parse_moment(text: str) -> datetime:
    """Parse an RFC 3339 time with its time zone. Raises `ValueError`."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ValueError(f"{text!r} is no time such as 2026-01-31T18:00:00Z")
    return moment


def parse_deferral(annotations: Mapping[str, str]) -> Deferral:
    """Parse the start conditions in a job's annotations. Raises `ValueError`."""
    begin, after = annotations.get(BEGIN_ANNOTATION), annotations.get(AFTER_ANNOTATION)
    return Deferral(
        parse_moment(begin) if begin is not None else None, parse_dependencies(after) if after is not None else ()
    )


def parse_met(annotations: Mapping[str, str]) -> frozenset[str]:
    """Return the names of the dependencies that the deferral controller has recorded as met."""
    return frozenset(filter(None, annotations.get(MET_ANNOTATION, "").split(",")))


def make_annotations(deferral: Deferral) -> dict[str, str]:
    """Return the annotations for a new job with these start conditions, and the gate; {} if there are none."""
    if not deferral:
        return {}
    begin = deferral.begin_at
    return (
        ({BEGIN_ANNOTATION: begin.isoformat().replace("+00:00", "Z")} if begin is not None else {})
        | ({AFTER_ANNOTATION: ",".join(map(str, deferral.after))} if deferral.after else {})
        | {ADMISSION_GATED_BY: GATE}
    )


def is_deferred(annotations: Mapping[str, str]) -> bool:
    """Return whether the job still has the deferral controller's admission gate."""
    return ADMISSION_GATED_BY in annotations and GATE in _list_gates(annotations)


def remove_gate(annotations: Mapping[str, str]) -> dict[str, str | None]:
    """Return the merge patch of a job's annotations that removes the deferral controller's gate, and no other gate."""
    return {ADMISSION_GATED_BY: ",".join(gate for gate in _list_gates(annotations) if gate != GATE) or None}


def _list_gates(annotations: Mapping[str, str]) -> list[str]:
    return [gate.strip() for gate in annotations.get(ADMISSION_GATED_BY, "").split(",") if gate.strip()]
