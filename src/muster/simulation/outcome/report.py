"""Define the report on a simulation, and write it to files."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from muster.api.ours.decisions import Decision
from muster.simulation.outcome.assertions import AssertionResult
from muster.simulation.outcome.fragmentation import FreeRooms
from muster.simulation.outcome.nodelog import NodeLog
from muster.simulation.outcome.record import JobOutcome, NodeChange, QuotaChange, Waiting
from muster.simulation.outcome.summary import Summary
from muster.simulation.outcome.timeline import Timeline, TimelineRow, list_rows

DECISIONS = "decisions.jsonl"


class Report(Struct, frozen=True):
    """The outcome of a scenario.

    stopped: whether the user stopped the simulation before its end.
    waiting: the jobs that do not run at the end, with the reasons.
    changes: the changes of used quota.
    timeline: the course of quotas, nodes and jobs over time, in regular bins.
    nodes: the stays of jobs on nodes; empty for a large cluster.
    rooms: the samples of free room on nodes.
    remarks: further remarks for users, such as about jobs that are left out.
    node_changes: the changes of nodes, with their times.
    decisions: the newest decisions.
    decided: the number of all decisions.
    """

    scenario: str
    summary: Summary
    jobs: Sequence[JobOutcome]
    changes: Sequence[QuotaChange]
    waiting: Sequence[Waiting]
    verdicts: Sequence[AssertionResult]
    stopped: bool
    timeline: Timeline
    nodes: NodeLog
    rooms: FreeRooms
    remarks: Sequence[str] = ()
    node_changes: Sequence[NodeChange] = ()
    decisions: Sequence[Decision] = ()
    decided: int = 0

    @property
    def holds(self) -> bool:
        """Whether all assertions hold."""
        return all(verdict.holds for verdict in self.verdicts)


def write_report(report: Report, folder: Path) -> None:
    """Write `summary.json`, `jobs.csv`, `timeline.csv` and `decisions.jsonl` into a folder, created if missing.

    If nodes changed, a `nodes.csv` is written, too.
    """
    folder.mkdir(parents=True, exist_ok=True)
    summary = msgspec.json.format(msgspec.json.encode(report.summary), indent=2)
    (folder / "summary.json").write_bytes(summary + b"\n")
    _write_rows(folder / "jobs.csv", JobOutcome, report.jobs)
    _write_rows(folder / "timeline.csv", TimelineRow, list_rows(report.timeline))
    if report.node_changes:
        _write_rows(folder / "nodes.csv", NodeChange, report.node_changes)
    write_decisions(report.decisions, folder / DECISIONS)


def write_decisions(decisions: Iterable[Decision], file: Path) -> None:
    """Write decisions into a file, one JSON object per line, in the given order. An existing file is replaced."""
    encoder = msgspec.json.Encoder()
    with file.open("wb") as stream:
        stream.writelines(encoder.encode(decision) + b"\n" for decision in decisions)


def _write_rows(file: Path, type: type[Struct], rows: Iterable[Struct]) -> None:
    with file.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(type.__struct_fields__)
        writer.writerows(msgspec.structs.astuple(row) for row in rows)
