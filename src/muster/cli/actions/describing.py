"""Describe the PodGroups of a name for `podgroups describe` and `why`."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from muster.cli.terminal.output import say
from muster.insight.jobs.podgroups import make_details
from muster.insight.reader.jobs.podgroups import events_of, pod_groups
from muster.insight.text import format_table
from muster.runtime.client import Client


async def describe_groups(
    client: Client, namespace: str, name: str, now: datetime
) -> tuple[list[dict[str, Any]], list[str]]:
    """Read the PodGroups of a namespace; print remarks about unreadable kinds.

    Return the details of the PodGroups with this name, at most one of each kind, and the names of all PodGroups. Raises
    `ApiError`.
    """
    groups = await pod_groups(client, namespace, say)
    mine = [view for view in groups if view.name == name]
    return [make_details(view, await events_of(client, view), now) for view in mine], [view.name for view in groups]


def render_details(documents: Sequence[dict[str, Any]]) -> str:
    """Return the details of PodGroups as text."""
    return "\n\n".join("\n".join(_render_group(document)) for document in documents)


def _render_group(group: dict[str, Any]) -> list[str]:
    counts = ", ".join(f"{group[word]} {word}" for word in ("bound", "running", "succeeded", "failed"))
    about = {
        "kind": group["kind"],
        "state": group["state"] + (f": {group['reason']}" if group["reason"] else ""),
        "minimum": "-" if group["minimum"] is None else str(group["minimum"]),
        "pods": f"{group['pods']} ({counts})",
        **group["asks"],
    }
    lines = [group["name"], *(f"  {word + ':':<17}{text}" for word, text in about.items() if text)]
    if group["members"]:
        rows = [[one["name"], one["phase"], one["node"] or "-", one["reason"]] for one in group["members"]]
        lines += ["", *format_table(["POD", "PHASE", "NODE", "REASON"], rows).split("\n")]
    if group["events"]:
        rows = [[one["age"], one["reason"], one["message"]] for one in group["events"]]
        lines += ["", *format_table(["SEEN", "EVENT", "MESSAGE"], rows).split("\n")]
    return lines
