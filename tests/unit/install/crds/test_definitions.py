"""The definitions beside upstream's: the same schemas, names, columns and versions; and what is said of them here."""

from typing import Any

import msgspec
import pytest
from tests.documents import documents, needs_the_peers

from muster.api.server.admissionregistration import ServiceReference, WebhookClientConfig
from muster.api.server.apiextensions import CUSTOM_RESOURCE_DEFINITION
from muster.cluster.apiserver.custom.definition import validate_create
from muster.cluster.apiserver.custom.v1beta1 import to_v1
from muster.install.crds import make_definitions, served_definitions

WEBHOOK = WebhookClientConfig(service=ServiceReference(namespace="n", name="s", path="/convert"), ca_bundle=b"pem")

OURS = {each["metadata"]["name"]: each["spec"] for each in make_definitions(WEBHOOK)}
UPSTREAM = {
    crd["metadata"]["name"]: (to_v1(crd) if crd["apiVersion"].endswith("v1beta1") else crd)["spec"]
    for folder in ("jobset", "kueue", "podgroup")
    for _, crd in documents(f"crds/{folder}/*.yaml")
}
# KEP-34's own kind, which nobody else ships.
OF_THE_KEP = "podgroups.incubator.scheduling.k8s.io"
KUBE_BATCH = ("podgroups.scheduling.incubator.k8s.io", "podgroups.scheduling.sigs.dev")
# What Muster has beyond upstream.
BEYOND = {
    "jobsets.jobset.x-k8s.io": (".spec.groupSchedulingConfig", ".status.groupScheduling"),
    **dict.fromkeys(KUBE_BATCH, (".spec.minMembers", ".status.phase", ".status.conditions")),
}
# Prose, rules (see test_behaviour), and a hint to generators that nothing goes by.
NOT_COMPARED = ("description", "properties", "items", "additionalProperties", "x-kubernetes-validations", "anyOf")
KEPT = "x-kubernetes-preserve-unknown-fields"


def versions(spec: Any) -> dict[str, Any]:
    return {version["name"]: version for version in spec["versions"]}


def flat(schema: Any, path: str = "") -> dict[str, dict[str, Any]]:
    """All that is said of each value, by its path."""
    said = {word: value for word, value in schema.items() if word not in NOT_COMPARED}
    found = {path: {word: sorted(value) if word in ("enum", "required") else value for word, value in said.items()}}
    for name, member in schema.get("properties", {}).items():
        found |= flat(member, f"{path}.{name}")
    for inner, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(schema.get(inner), dict):
            found |= flat(schema[inner], path + mark)
    return found


def ruled(schema: Any, path: str = "") -> dict[str, int]:
    """How many rules each value has."""
    rules = schema.get("x-kubernetes-validations", ())
    found = {path: len(rules)} if rules else {}
    for name, member in schema.get("properties", {}).items():
        found |= ruled(member, f"{path}.{name}")
    for inner, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(schema.get(inner), dict):
            found |= ruled(schema[inner], path + mark)
    return found


def test_they_are_in_order_and_the_same_each_time() -> None:
    names = [each["metadata"]["name"] for each in make_definitions()]
    assert names == sorted(names)
    assert len(set(names)) == len(names)
    assert msgspec.json.encode(make_definitions()) == msgspec.json.encode(make_definitions())


@pytest.mark.parametrize("document", make_definitions(WEBHOOK), ids=lambda each: each["metadata"]["name"])
def test_the_server_takes_them(document: dict[str, Any]) -> None:
    assert not validate_create(CUSTOM_RESOURCE_DEFINITION.typed(document))


def test_old_versions_are_served_where_they_are_converted() -> None:
    served = {name: [each["name"] for each in spec["versions"] if each["served"]] for name, spec in OURS.items()}
    assert served["workloads.kueue.x-k8s.io"] == ["v1beta2", "v1beta1"]
    assert OURS["workloads.kueue.x-k8s.io"]["conversion"] == {
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": {
                "service": {"namespace": "n", "name": "s", "path": "/convert"},
                "caBundle": "cGVt",
            },
            "conversionReviewVersions": ["v1"],
        },
    }
    assert OURS["jobsets.jobset.x-k8s.io"]["conversion"] == {"strategy": "None"}
    for document in make_definitions():
        # Else what has another name in the other version would be lost in silence.
        assert document["spec"]["conversion"] == {"strategy": "None"}
        assert [each["storage"] for each in document["spec"]["versions"] if each["served"]] == [True]


def test_a_server_that_converts_by_itself_lists_all_versions_without_a_webhook() -> None:
    listed = {each["metadata"]["name"]: each["spec"] for each in served_definitions()}
    assert set(listed) == set(OURS)
    for name, spec in listed.items():
        assert spec == OURS[name] | {"conversion": {"strategy": "None"}}


@needs_the_peers
def test_there_is_one_for_every_kind() -> None:
    assert set(OURS) == {*UPSTREAM, OF_THE_KEP}


CRDS = [pytest.param(name, marks=needs_the_peers, id=name) for name in OURS if name != OF_THE_KEP]


@pytest.mark.parametrize("name", CRDS)
def test_names_and_versions_are_upstreams(name: str) -> None:
    ours, theirs = OURS[name], UPSTREAM[name]
    assert (ours["group"], ours["scope"]) == (theirs["group"], theirs["scope"])
    kind = theirs["names"]["kind"]
    assert ours["names"] == {"singular": kind.lower(), "listKind": f"{kind}List"} | theirs["names"]
    assert set(versions(ours)) == set(versions(theirs))
    for version, said in versions(theirs).items():
        mine = versions(ours)[version]
        for word in ("served", "storage", "deprecated", "deprecationWarning", "selectableFields"):
            assert mine.get(word) == said.get(word), word
        assert mine["subresources"] == (said.get("subresources") or {})
        assert [shape(each) for each in mine.get("additionalPrinterColumns", ())] == [
            shape(each) for each in said.get("additionalPrinterColumns", ())
        ]


def shape(column: dict[str, Any]) -> dict[str, Any]:
    """A column without its prose."""
    return {key: value for key, value in column.items() if key != "description"} | {
        "jsonPath": column["jsonPath"].replace("'", '"')
    }


@pytest.mark.parametrize("name", CRDS)
def test_schemas_are_upstreams(name: str) -> None:
    for version, said in versions(UPSTREAM[name]).items():
        theirs = said["schema"]["openAPIV3Schema"]
        schema = versions(OURS[name])[version]["schema"]["openAPIV3Schema"]
        ours = {path: words for path, words in flat(schema).items() if not path.startswith(BEYOND.get(name, ("-",)))}
        if name in KUBE_BATCH:  # as its definitions ask for, in the words of v1
            assert UPSTREAM[name]["preserveUnknownFields"]
            ours = {
                path: {word: value for word, value in words.items() if word != KEPT} for path, words in ours.items()
            }
        assert ours == flat(theirs)
        assert ruled(schema) == ruled(theirs)
