import json
import subprocess
import sys
from typing import Any

import pytest

from muster.api import (
    core,
)
from muster.api.batch import JOB, JobSpec, JobStatus
from muster.api.core import (
    CONFIG_MAP,
    EVENT,
    NAMESPACE,
    NODE,
    POD,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    Container,
    ContainerPort,
    PodSpec,
    PodStatus,
    ServicePort,
    ServiceSpec,
)
from muster.api.groups import (
    apps,
    autoscaling,
    autoscaling_v2,
    coordination,
    events,
    policy,
    resource,
    scheduling,
)
from muster.api.kinds import Kind
from muster.api.kueue import WORKLOAD
from muster.api.meta import ObjectMeta
from muster.api.podgroups import kep, sigs
from muster.api.schema import (
    component_name,
    kind_components,
    list_components,
    make_inlined_schema,
    make_structural_schema,
    read_documentation,
    schema_of,
)
from muster.cluster.apiserver.registry import autoscalers, storedkinds

STORED_KINDS: list[Kind[Any]] = [served.kind for served in (*storedkinds.STORED_KINDS, *storedkinds.ALPHA)]
KINDS: list[Kind[Any]] = [
    POD, NODE, NAMESPACE, EVENT, CONFIG_MAP, SECRET, SERVICE, SERVICE_ACCOUNT, JOB, coordination.LEASE,
    scheduling.PRIORITY_CLASS, events.EVENTS_V1_EVENT, *STORED_KINDS, resource.RESOURCE_CLAIM,
    resource.RESOURCE_CLAIM_TEMPLATE, resource.RESOURCE_SLICE, resource.DEVICE_CLASS,
]  # fmt: skip
OTHERS: list[Any] = [autoscaling.Scale, policy.Eviction]


@pytest.mark.parametrize(
    ("type_", "name"),
    [
        (POD.type, "io.k8s.api.core.v1.Pod"),
        (Container, "io.k8s.api.core.v1.Container"),
        (JOB.type, "io.k8s.api.batch.v1.Job"),
        (ObjectMeta, "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"),
        (EVENT.type, "io.k8s.api.core.v1.Event"),
        (events.Event, "io.k8s.api.events.v1.Event"),
        (autoscaling.Scale, "io.k8s.api.autoscaling.v1.Scale"),
    ],
)
def test_component_name(type_: Any, name: Any) -> None:
    assert component_name(type_) == name


def test_every_reference_leads_somewhere_and_everything_is_described() -> None:
    found = kind_components(KINDS) | list_components(OTHERS)
    text = json.dumps(found)
    for name, schema in found.items():
        assert schema["description"], name
        for field, member in schema["properties"].items():
            assert member.get("description"), f"{name}.{field}"
    references = {part.split('"')[0] for part in text.split('"#/components/schemas/')[1:]}
    assert references <= found.keys()


def test_documentation_names_only_fields_that_are_there() -> None:
    found = list_components([kind.type for kind in KINDS] + OTHERS)
    seen: set[Any] = set()
    waiting = [kind.type for kind in KINDS] + OTHERS
    while waiting:
        type_ = waiting.pop()
        if type_ in seen:
            continue
        seen.add(type_)
        _, docs = read_documentation(type_)
        assert docs.keys() <= set(type_.__struct_fields__), type_
    assert found


def test_the_description_of_a_field_may_have_several_lines() -> None:
    _, docs = read_documentation(kep.PodGroupPolicy)
    assert docs["on_below_min"] == (
        "None does nothing. Restart deletes all pods of the group, so that their controllers create them again. Fail "
        "deletes all unfinished pods and fails the group."
    )
    assert docs["max_restarts"] == "the number of restarts after which the group fails; no limit if absent."


def test_kinds_say_what_they_are() -> None:
    found = kind_components([JOB])["io.k8s.api.batch.v1.Job"]
    assert found["x-kubernetes-group-version-kind"] == [{"group": "batch", "kind": "Job", "version": "v1"}]
    assert list(found["properties"]) == ["apiVersion", "kind", "metadata", "spec", "status"]
    # asking again gives a fresh answer, not one that was added to
    assert kind_components([JOB])["io.k8s.api.batch.v1.Job"] == found


@pytest.mark.parametrize(
    ("type_", "field", "expected"),
    [
        (Container, "name", {"type": "string"}),
        (Container, "stdin", {"type": "boolean"}),
        (Container, "command", {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"}),
        (Container, "terminationMessagePolicy", {"type": "string", "enum": ["FallbackToLogsOnError", "File"]}),
        (Container, "resources",
         {"allOf": [{"$ref": "#/components/schemas/io.k8s.api.core.v1.ResourceRequirements"}], "default": {}}),
        (JobSpec, "parallelism", {"type": "integer", "format": "int32"}),
        (JobSpec, "activeDeadlineSeconds", {"type": "integer", "format": "int64"}),
        (JobStatus, "startTime", {"type": "string", "format": "date-time"}),
        (PodSpec, "nodeSelector",
         {"type": "object", "additionalProperties": {"type": "string"}, "x-kubernetes-map-type": "atomic"}),
        (PodSpec, "overhead",
         {"type": "object", "additionalProperties": {"oneOf": [{"type": "string"}, {"type": "number"}]}}),
    ],
)  # fmt: skip
def test_fields(type_: Any, field: Any, expected: Any) -> None:
    schema = dict(schema_of(type_)["properties"][field])
    assert schema.pop("description")
    assert schema == expected


@pytest.mark.parametrize(
    ("type_", "field", "list_type", "keys", "merge_key", "strategy"),
    [
        (PodSpec, "containers", "map", ["name"], "name", "merge"),
        (PodSpec, "volumes", "map", ["name"], "name", "merge,retainKeys"),
        (PodSpec, "tolerations", "atomic", None, None, None),
        (PodSpec, "imagePullSecrets", "map", ["name"], "name", "merge"),
        (PodSpec, "hostAliases", "map", ["ip"], "ip", "merge"),
        (PodSpec, "topologySpreadConstraints", "map", ["topologyKey", "whenUnsatisfiable"], "topologyKey", "merge"),
        (Container, "env", "map", ["name"], "name", "merge"),
        (Container, "ports", "map", ["containerPort", "protocol"], "containerPort", "merge"),
        (Container, "volumeMounts", "map", ["mountPath"], "mountPath", "merge"),
        (PodStatus, "conditions", "map", ["type"], "type", "merge"),
        (PodStatus, "hostIPs", "atomic", None, "ip", "merge"),
        (JobStatus, "conditions", "atomic", None, "type", "merge"),
        ("io.k8s.api.apps.v1.DeploymentStatus", "conditions", "map", ["type"], "type", "merge"),
        ("io.k8s.api.apps.v1.StatefulSetSpec", "volumeClaimTemplates", "atomic", None, None, None),
        ("io.k8s.api.discovery.v1.Endpoint", "addresses", "set", None, None, None),
        ("io.k8s.api.networking.v1.IngressSpec", "rules", "atomic", None, None, None),
        (resource.ResourceClaimStatus, "devices", "map", ["driver", "device", "pool", "shareID"], None, None),
        ("io.k8s.api.storage.v1.CSINodeSpec", "drivers", "map", ["name"], "name", "merge"),
        (ServiceSpec, "ports", "map", ["port", "protocol"], "port", "merge"),
        (ObjectMeta, "ownerReferences", "map", ["uid"], "uid", "merge"),
        (ObjectMeta, "finalizers", "set", None, None, "merge"),
    ],
)
def test_list_rules(type_: Any, field: Any, list_type: Any, keys: Any, merge_key: Any, strategy: Any) -> None:
    schema = schema_of(type_)["properties"][field]
    assert schema["x-kubernetes-list-type"] == list_type
    assert schema.get("x-kubernetes-list-map-keys") == keys
    assert schema.get("x-kubernetes-patch-merge-key") == merge_key
    assert schema.get("x-kubernetes-patch-strategy") == strategy


def test_defaults_of_keys_are_said_to_clients_and_to_the_server() -> None:
    for type_, kind in ((ContainerPort, POD), (ServicePort, SERVICE)):
        assert schema_of(type_)["properties"]["protocol"]["default"] == "TCP"
        assert '"default":"TCP"' in json.dumps(make_inlined_schema(kind), separators=(",", ":"))
    # The types that CRDs have a copy of keep to what is written: there, pods get their defaults when they are made.
    assert '"default":"TCP"' not in json.dumps(make_structural_schema(WORKLOAD), separators=(",", ":"))


def test_objects_that_are_replaced_whole() -> None:
    volume = make_inlined_schema(core.PERSISTENT_VOLUME)["properties"]["spec"]["properties"]
    assert volume["claimRef"]["x-kubernetes-map-type"] == "granular"  # other ObjectReferences are not
    assert make_inlined_schema(core.ENDPOINTS)["properties"]["subsets"]["items"]["properties"]["ports"]["items"][
        "x-kubernetes-map-type"
    ] == "atomic"  # fmt: skip
    scaled = {
        kind.version: make_inlined_schema(kind)["properties"]["spec"]["properties"]["scaleTargetRef"]
        for kind in (autoscalers.V1, autoscaling_v2.HORIZONTAL_POD_AUTOSCALER)
    }
    assert scaled["v1"].get("x-kubernetes-map-type") == "atomic"
    assert "x-kubernetes-map-type" not in scaled["v2"]
    strategy = schema_of("io.k8s.api.apps.v1.DeploymentSpec")["properties"]["strategy"]
    assert strategy["x-kubernetes-patch-strategy"] == "retainKeys"


def test_kinds_within_objects_say_what_they_are() -> None:
    claims = make_inlined_schema(apps.STATEFUL_SET)["properties"]["spec"]["properties"]["volumeClaimTemplates"]
    assert {"apiVersion", "kind", "metadata", "spec"} <= claims["items"]["properties"].keys()


def test_required_is_for_people() -> None:
    assert schema_of(Container)["required"] == ["name"]
    assert schema_of(PodSpec)["required"] == ["containers"]
    assert '"required":' not in json.dumps(make_inlined_schema(POD))
    assert '"enum":' not in json.dumps(make_inlined_schema(POD))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.resource)
def test_inlined_has_no_references(kind: Any) -> None:
    schema = make_inlined_schema(kind)
    text = json.dumps(schema)
    assert "$ref" not in text
    assert "description" not in schema
    assert schema["properties"]["apiVersion"] == {"type": "string"}
    assert schema["properties"]["metadata"]["properties"]["name"] == {"type": "string"}


def test_bases_speak_for_their_fields() -> None:
    _, docs = read_documentation(sigs.POD_GROUP.type)
    assert docs["metadata"]
    assert docs["spec"]


def test_api_is_cheap_to_import() -> None:
    code = "import sys, muster.api.core, muster.api.batch; print('aiohttp' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"
