"""Describe the damage to a store for `muster up --salvage`. Pure."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from muster.cluster.backups import Salvaged

SHOWN = 20  # the maximum number of names in a message; a file next to the damaged ones has all


def describe_damage(salvaged: "Salvaged") -> list[str]:
    """Return lines that describe the damage to a store, one fact on each line: what is intact, lost or doubtful."""
    findings = salvaged.findings
    lines = [f"the store was damaged: {salvaged.damage}", f"{_count_objects(len(findings.living))} whole"]
    if findings.is_complete:
        lines.append("nothing is lost")
    elif findings.missing is None:
        lines.append("the number of lost objects is unknown; any object may be older than it was")
    else:
        lines.append(f"{_count_objects(findings.missing)} lost; what was changed last may be older than it was")
    if findings.doubtful:
        names = [f"{key.resource} {key.namespace}/{key.name}".replace(" /", " ") for key in findings.doubtful]
        more = f", and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        lines.append(f"lost, or older than they were: {', '.join(names[:SHOWN])}{more}")
    lines.append(f"the damaged files are in {salvaged.aside}")
    return lines


def _count_objects(count: int) -> str:
    return "1 object is" if count == 1 else f"{count} objects are"
