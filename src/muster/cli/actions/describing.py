"""What there is to know of PodGroups of a name, and how it is shown: by `podgroups describe`, and by `why`."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from muster.cli.terminal.output import say
from muster.insight.podgroups import detailed
from muster.insight.reader.podgroups import events_of, pod_groups
from muster.insight.text import table
from muster.runtime.client import Client


async def described(client: Client, namespace: str, name: str, now: datetime) -> tuple[list[dict[str, Any]], list[str]]:
    """Those of a name, one of each kind that has it; and the names of all that are there."""
    found = await pod_groups(client, namespace, say)
    mine = [view for view in found if view.name == name]
    return [detailed(view, await events_of(client, view), now) for view in mine], [view.name for view in found]


def described_lines(documents: Sequence[dict[str, Any]]) -> str:
    """All of it, for people."""
    return "\n\n".join("\n".join(_lines(document)) for document in documents)


def _lines(group: dict[str, Any]) -> list[str]:
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
        lines += ["", *table(["POD", "PHASE", "NODE", "REASON"], rows).split("\n")]
    if group["events"]:
        rows = [[one["age"], one["reason"], one["message"]] for one in group["events"]]
        lines += ["", *table(["SEEN", "EVENT", "MESSAGE"], rows).split("\n")]
    return lines
