"""Every gate and every field of the Configuration is read by the engine, or named at the start as one that is not."""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from msgspec import inspect

from muster.api import config
from muster.api.config import DEFAULT, EMBEDDED, load
from muster.api.config.features import _DEFAULTS, _LOCKED_ON, ALWAYS_OFF, ALWAYS_ON
from muster.api.config.file import ConfigurationFile
from muster.api.config.unread import UNREAD

_SOURCE = Path(config.__file__).parents[2]

# What only says what a file may hold, or what is wrong with it, does not use it.
_FORM = re.compile(r"api/config/(decode|unread|features|rules\w*)\.py")

# What says what a document is.
_HEADER = {"apiVersion", "kind"}


@cache
def _sources() -> str:
    files = sorted(_SOURCE.rglob("*.py"))
    return "\n".join(file.read_text() for file in files if not _FORM.search(file.as_posix()))


def _file(said: dict[str, Any], version: str = "v1beta2") -> str:
    return json.dumps({"apiVersion": f"config.kueue.x-k8s.io/{version}", "kind": "Configuration"} | said)


def _is_read(gate: str) -> bool:
    # Rules ask for two gates before they look at what these allow.
    rules = "".join(file.read_text() for file in Path(config.__file__).parent.glob("*.py"))
    return bool(re.search(rf'(enabled\(|gate = )"{gate}"', _sources() + rules))


@pytest.mark.parametrize("gate", sorted(_DEFAULTS))
def test_each_gate_is_read_or_said_to_have_no_effect(gate: str) -> None:
    kinds = [_is_read(gate), gate in _LOCKED_ON, gate in ALWAYS_ON, gate in ALWAYS_OFF]
    assert sum(kinds) == 1, kinds


def _fields(type_: inspect.Type, path: str = "") -> Iterator[tuple[str, str]]:
    """Of everything that a file may hold, the path and the name of the attribute."""
    match type_:
        case inspect.Metadata(type=inner):
            yield from _fields(inner, path)
        case inspect.UnionType(types=types):
            for one in types:
                yield from _fields(one, path)
        case inspect.VarTupleType(item_type=inner) | inspect.DictType(value_type=inner):
            yield from _fields(inner, path)
        case inspect.StructType(cls=cls, fields=fields) if cls.__module__.startswith("muster.api.config"):
            for field in fields:
                inside = f"{path}.{field.encode_name}".lstrip(".")
                yield inside, field.name
                yield from _fields(field.type, inside)


def test_each_field_is_read_or_said_to_have_no_effect() -> None:
    unread = [one.path for one in UNREAD]
    missing = {
        path
        for path, name in dict.fromkeys(_fields(inspect.type_info(ConfigurationFile)))
        if path not in _HEADER
        and not any(path == one or path.startswith(f"{one}.") for one in unread)
        and not re.search(rf"\.{name}\b", _sources())
    }
    # Rules let it have one value only.
    assert missing == {"leaderElection.resourceLock"}


@pytest.mark.parametrize(
    ("said", "version", "expected"),
    [
        pytest.param({}, "v1beta2", [], id="nothing"),
        pytest.param(
            {"featureGates": {"PartialAdmission": False, "TopologyAwareScheduling": True}}, "v1beta2", [], id="read"
        ),
        pytest.param({"featureGates": {"WorkloadIdentifierAnnotations": True}}, "v1beta2", [], id="as it is"),
        pytest.param(
            {"featureGates": {"WorkloadIdentifierAnnotations": False, "TASBalancedPlacement": True}},
            "v1beta2",
            [
                "featureGates.TASBalancedPlacement: true has no effect: this engine does not have the feature",
                "featureGates.WorkloadIdentifierAnnotations: false has no effect: this engine always has the feature",
            ],
            id="gates",
        ),
        pytest.param(
            {"metrics": {"customLabels": [{"name": "team"}]}},
            "v1beta2",
            ["metrics.customLabels has no effect: the feature gate CustomMetricLabels is off"],
            id="labels without their gate",
        ),
        pytest.param(
            {"controller": {"groupKindConcurrency": {"Job.batch": 5}}, "pprofBindAddress": ":8083"},
            "v1beta2",
            [
                "pprofBindAddress has no effect: the engine is no Go program",
                "controller.groupKindConcurrency has no effect: the engine chooses the number of its workers itself",
            ],
            id="fields",
        ),
        pytest.param(
            {"resources": {"deviceClassMappings": [{"name": "gpus", "deviceClassNames": ["gpu"]}]}},
            "v1beta2",
            [],
            id="device classes",
        ),
        pytest.param(
            {
                "resources": {
                    "deviceClassMappings": [
                        {"name": "gpus", "deviceClassNames": ["gpu"]},
                        {
                            "name": "memory",
                            "deviceClassNames": ["mig"],
                            "sources": [
                                {
                                    "counter": {
                                        "name": "memory",
                                        "driver": "gpu.example.com",
                                        "deviceSelector": {"cel": {"expression": "true"}},
                                    }
                                }
                            ],
                        },
                    ]
                }
            },
            "v1beta2",
            [],
            id="parts of devices",
        ),
        pytest.param(
            {"queueVisibility": {"updateIntervalSeconds": 5}, "integrations": {"podOptions": {"podSelector": {}}}},
            "v1beta1",
            [
                "integrations.podOptions has no effect: managedJobsNamespaceSelector took its place",
                "queueVisibility has no effect: the visibility API took its place",
            ],
            id="fields of the first version",
        ),
    ],
)
def test_what_has_no_effect_is_named(said: dict[str, Any], version: str, expected: list[str]) -> None:
    assert list(load(_file(said, version)).warnings) == expected


def test_a_whole_stage_names_its_gates_without_effect() -> None:
    lines = load(_file({"featureGates": {"AllAlpha": True, "MultiKueueOrchestratedPreemption": False}})).warnings
    assert "featureGates.ShortWorkloadNames: true has no effect: this engine does not have the feature" in lines
    assert not any("PriorityBoost" in line for line in lines)


def test_defaults_warn_of_nothing() -> None:
    assert DEFAULT.warnings == EMBEDDED.warnings == ()
