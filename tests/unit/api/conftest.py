"""Good objects, a way to edit them by path, and what the API says about the result."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest

from muster.api.batch import JOB
from muster.api.defaults import DEFAULTS, generate_selector
from muster.api.kinds import Kind
from muster.api.status import FieldError

Json = dict[str, Any]
Edits = Mapping[str, Any]
Edit = Callable[[Json, Edits], Json]

UID = "4c1b5b4e-6a1f-4f0c-9b4e-0d8f6f1c2a33"


def edited(obj: Json, edits: Edits) -> Json:
    """A copy with the value at each dotted path replaced; None removes it. Numbers are places in lists."""
    result = copy.deepcopy(obj)
    for path, value in edits.items():
        *parents, last = (int(part) if part.isdigit() else part for part in path.split("|" if "|" in path else "."))
        target: Any = result
        for part in parents:
            target = target[part] if isinstance(part, int) else target.setdefault(part, {})
        if value is None:
            del target[last]
        elif isinstance(target, list) and last == len(target):
            target.append(value)
        else:
            target[last] = value
    return result


@pytest.fixture
def edit() -> Edit:
    return edited


@pytest.fixture
def defaulted() -> Callable[[Kind[Any], Json], Any]:
    """The typed object that the server would validate."""

    def typed(kind: Kind[Any], obj: Json) -> Any:
        obj = copy.deepcopy(obj)
        if kind.resource in DEFAULTS:
            DEFAULTS[kind.resource](obj)
        if kind is JOB:
            generate_selector(obj, obj["metadata"].get("uid", ""))
        return msgspec.convert(obj, kind.type)

    return typed


@pytest.fixture
def sentences() -> Callable[[list[FieldError]], list[str]]:
    return lambda errors: [str(error) for error in errors]


@pytest.fixture
def pod() -> Json:
    return {
        "metadata": {"name": "web", "namespace": "default", "uid": UID},
        "spec": {"containers": [{"name": "main", "image": "busybox", "command": ["true"]}]},
    }


@pytest.fixture
def job() -> Json:
    return {
        "metadata": {"name": "train", "namespace": "default", "uid": UID},
        "spec": {
            "template": {
                "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]},
            }
        },
    }


@pytest.fixture
def indexed(job: Json) -> Json:
    return edited(job, {"spec.completionMode": "Indexed", "spec.completions": 3, "spec.parallelism": 3})
