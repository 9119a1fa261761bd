"""What the definitions accept, refuse, prune and fill in, beside upstream's, by our own server's rules."""

from collections.abc import Sequence
from functools import cache
from random import Random

import pytest
from tests.crdcases import CASES, SAMPLES, Case, Json, edited, mutated
from tests.documents import documents, needs_the_peers

from muster.api.server.admissionregistration import ServiceReference, WebhookClientConfig
from muster.api.server.apiextensions import CUSTOM_RESOURCE_DEFINITION
from muster.cluster.apiserver.custom.conversion import rename
from muster.cluster.apiserver.custom.resources import resources_of
from muster.cluster.apiserver.custom.v1beta1 import to_v1
from muster.cluster.apiserver.custom.versions import Stored
from muster.cluster.apiserver.registry.resources import View
from muster.install.crds import make_definitions

WEBHOOK = WebhookClientConfig(service=ServiceReference(namespace="n", name="s"))
OBJECTS = 150  # of each sample


class Server:
    """Definitions, and what becomes of objects by them."""

    def __init__(self, crds: Sequence[Json]) -> None:
        self._views: dict[str, View] = {}
        for crd in crds:
            established = {"conditions": [{"type": "Established", "status": "True"}]}
            definition = CUSTOM_RESOURCE_DEFINITION.typed(crd | {"status": established})
            for resource in resources_of(definition, rename, 0, Stored()):
                self._views[f"{resource.kind.kind} {resource.kind.api_version}"] = resource.view

    def read(self, sample: str, document: Json) -> tuple[Json, list[str]]:
        """The object as it would be stored, and the fields that nobody knows."""
        checked = self._views[sample].checker(document)
        return checked.value, sorted(checked.unknown)

    def errors(self, sample: str, new: Json, old: Json | None = None) -> list[tuple[str, str]]:
        """What is wrong with an object, or with a change of it: where, and of which sort."""
        view = self._views[sample]
        value = self.read(sample, new)[0]
        found = view.validate_create(value) if old is None else view.validate_update(value, self.read(sample, old)[0])
        said = [error for error in found if not error.detail.startswith("some validation rules were not checked")]
        return sorted((error.path.removeprefix("<nil>"), error.type) for error in said)


@cache
def ours() -> Server:
    return Server(make_definitions(WEBHOOK))


@cache
def upstreams() -> Server:
    found = [crd for folder in ("jobset", "kueue", "podgroup") for _, crd in documents(f"crds/{folder}/*.yaml")]
    return Server([to_v1(crd) if crd["apiVersion"].endswith("v1beta1") else crd for crd in found])


TABLE = [
    pytest.param(sample, case, id=f"{sample}-{number}")
    for sample, cases in CASES.items()
    for number, case in enumerate(cases)
]


def documents_of(sample: str, case: Case) -> tuple[Json, Json | None]:
    new = edited(SAMPLES[sample], case.new)
    return new, None if case.old is None else edited(SAMPLES[sample], case.old)


@pytest.mark.parametrize(("sample", "case"), TABLE)
def test_what_is_refused(sample: str, case: Case) -> None:
    assert [path for path, _ in ours().errors(sample, *documents_of(sample, case))] == sorted(case.refused)


@needs_the_peers
@pytest.mark.parametrize(("sample", "case"), TABLE)
def test_upstream_refuses_the_same(sample: str, case: Case) -> None:
    assert [path for path, _ in upstreams().errors(sample, *documents_of(sample, case))] == sorted(case.refused)


@needs_the_peers
@pytest.mark.parametrize("sample", SAMPLES)
def test_what_becomes_of_any_object_is_the_same(sample: str) -> None:
    random = Random(sample)
    refused, stored = 0, SAMPLES[sample]
    for _ in range(OBJECTS):
        new = mutated(random, SAMPLES[sample])
        assert ours().read(sample, new) == upstreams().read(sample, new), new
        found = ours().errors(sample, new)
        assert found == upstreams().errors(sample, new), new
        assert ours().errors(sample, new, stored) == upstreams().errors(sample, new, stored), (new, stored)
        refused += bool(found)
        stored = stored if found else new
    assert 0 < refused < OBJECTS, "both are in the stream"


MANIFESTS = [
    pytest.param(document, id=name)
    for name, document in documents("manifests/*/*.yaml")
    if f"{document.get('kind')} {document.get('apiVersion')}" in SAMPLES
]


@pytest.mark.parametrize("document", MANIFESTS)
def test_what_the_peers_documents_say_is_accepted(document: Json) -> None:
    sample = f"{document['kind']} {document['apiVersion']}"
    namespace = {"namespace": "default"} if "namespace" in SAMPLES[sample]["metadata"] else {}
    named = document | {"metadata": {"name": "x"} | namespace | document["metadata"]}
    # Rules of a failure policy get their names from a webhook.
    assert [path for path, _ in ours().errors(sample, named) if not path.startswith("spec.failurePolicy.rules")] == []
    assert ours().read(sample, named)[1] == []
