"""Decide when a probe counts as passed or failed. Pure; `checks.py` executes probes.

A result changes only after several equal outcomes in a row. Until a startup probe has passed, no other probe runs.
"""

from msgspec import Struct

from muster.api.core import Container, Probe

_PERIOD_SECONDS, _TIMEOUT_SECONDS, _FAILURES = 10, 1, 3
STARTUP, LIVENESS, READINESS = "Startup", "Liveness", "Readiness"


class ProbeResult(Struct, frozen=True):
    """A probe's state: its last outcome, how many times in a row that occurred, and the result so far."""

    last: bool | None = None
    in_a_row: int = 0
    result: bool | None = None  # None: no result yet

    def after(self, probe: Probe, *, passed: bool) -> "ProbeResult":
        """Return the state after one more execution of the probe. passed: the outcome of that execution."""
        in_a_row = self.in_a_row + 1 if passed == self.last else 1
        needed = max(probe.success_threshold, 1) if passed else probe.failure_threshold or _FAILURES
        return ProbeResult(passed, in_a_row, passed if in_a_row >= needed else self.result)


def list_probes(container: Container) -> dict[str, Probe]:
    """Return the probes of a container by kind: `Startup`, `Liveness`, `Readiness`."""
    named = {
        STARTUP: container.startup_probe,
        LIVENESS: container.liveness_probe,
        READINESS: container.readiness_probe,
    }
    return {kind: probe for kind, probe in named.items() if probe is not None}


def period_seconds(probe: Probe) -> float:
    """Return the seconds from one execution of a probe to the next."""
    return float(probe.period_seconds or _PERIOD_SECONDS)


def timeout_seconds(probe: Probe) -> float:
    """Return the seconds after which an execution of a probe counts as failed."""
    return float(probe.timeout_seconds or _TIMEOUT_SECONDS)


def explain_condemnation(kind: str, container: str) -> str:
    """Return the message for a container that is restarted because of a failed probe."""
    return f"Container {container} failed {kind.lower()} probe, will be restarted"
