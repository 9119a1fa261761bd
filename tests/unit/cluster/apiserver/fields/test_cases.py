"""Server-side apply, as the table in cases.yaml tells it."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.api.status import ApiError
from muster.cluster.apiserver.fields import FieldSchema, Writer, apply, update_managers
from muster.cluster.apiserver.fields.managers import APPLY
from muster.cluster.apiserver.fields.sets import list_paths

TABLE = yaml.load((Path(__file__).parent / "cases.yaml").read_text(), yaml.CSafeLoader)
SCHEMA = FieldSchema.of(TABLE["schema"])
VERSION = "example.com/v1"


def document(spec: Any) -> dict[str, Any]:
    return {"apiVersion": VERSION, "kind": "X", "metadata": {"name": "x"}} | ({} if spec == "none" else {"spec": spec})


def managed(obj: Any) -> dict[str, list[str]]:
    found = {}
    for entry in obj["metadata"].get("managedFields", []):
        mark = "" if entry["operation"] == APPLY else "*"
        place = f"/{entry['subresource']}" if "subresource" in entry else ""
        found[entry["manager"] + place + mark] = sorted(list_paths(entry["fieldsV1"]))
    return found


def taken(live: Any, step: dict[str, Any], now: str) -> Any:
    """The object after a step."""
    if "stored" in step:
        return document(step["stored"])
    writer = Writer(step.get("apply") or step["update"], VERSION, step.get("subresource", ""))
    if "apply" in step:
        return apply(live, document(step["spec"]), writer, now, SCHEMA, force=step.get("force", False))
    new = document(step["spec"])
    update_managers(live, new, writer, now, SCHEMA, None)
    return new


@pytest.mark.parametrize("case", TABLE["cases"], ids=lambda case: case["name"])
def test_case(case):
    live = None
    for second, step in enumerate(case["steps"]):
        now = f"2026-01-01T00:00:{second:02}Z"
        if "conflicts" in step or "refused" in step:
            with pytest.raises(ApiError) as refusal:
                taken(live, step, now)
            assert refusal.value.code == (409 if "conflicts" in step else 400)
            assert (step.get("conflicts") or step["refused"]) in str(refusal.value)
        else:
            live = taken(live, step, now)
            assert live.get("spec", "none") == step.get("is", step.get("spec", step.get("stored")))
            assert live["metadata"]["name"] == "x"
        if "managed" in step:
            assert managed(live or {"metadata": {}}) == {name: sorted(p.split()) for name, p in step["managed"].items()}
