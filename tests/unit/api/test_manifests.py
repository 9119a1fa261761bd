"""Sample manifests, the peers' too: what the core and batch groups and JobSet have in them decodes and is good."""

from typing import Any

import msgspec
import pytest
from tests.documents import documents

from muster.api.batch import JOB
from muster.api.core import CONFIG_MAP, NAMESPACE, POD, SERVICE, SERVICE_ACCOUNT
from muster.api.defaults import DEFAULTS, generate_selector
from muster.api.groups.scheduling import PRIORITY_CLASS
from muster.api.jobset import JOB_SET
from muster.api.kinds import without_nulls
from muster.api.validation import jobset
from muster.api.validation.core import configmap, namespace, service, serviceaccount
from muster.api.validation.groups import priorityclass
from muster.api.validation.jobs import job
from muster.api.validation.pods import pod

KINDS: dict[tuple[str, str], Any] = {
    ("v1", "Pod"): (POD, pod),
    ("v1", "Service"): (SERVICE, service),
    ("v1", "ConfigMap"): (CONFIG_MAP, configmap),
    ("v1", "Namespace"): (NAMESPACE, namespace),
    ("v1", "ServiceAccount"): (SERVICE_ACCOUNT, serviceaccount),
    ("batch/v1", "Job"): (JOB, job),
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): (JOB_SET, jobset),
    ("scheduling.k8s.io/v1", "PriorityClass"): (PRIORITY_CLASS, priorityclass),
}
UID = "4c1b5b4e-6a1f-4f0c-9b4e-0d8f6f1c2a33"


DOCUMENTS = documents("manifests/*/*.yaml")
OURS = [(name, doc) for name, doc in DOCUMENTS if (doc.get("apiVersion"), doc.get("kind")) in KINDS]


def as_served(kind: Any, document: dict[str, Any]) -> Any:
    obj = without_nulls(document)
    metadata = obj.setdefault("metadata", {})
    if kind.namespaced:
        metadata.setdefault("namespace", "default")
    if "generateName" in metadata:
        metadata["name"] = metadata["generateName"] + "abcde"
    if kind.resource in DEFAULTS:
        DEFAULTS[kind.resource](obj)
    if kind is JOB:
        generate_selector(obj, UID)
        metadata["uid"] = UID
    return obj


@pytest.mark.parametrize(("name", "document"), OURS, ids=[name for name, _ in OURS])
def test_the_samples_are_good(name: Any, document: Any, sentences: Any) -> None:
    kind, rules = KINDS[document["apiVersion"], document["kind"]]
    typed = msgspec.convert(as_served(kind, document), kind.type)
    assert sentences(rules.validate_create(typed)) == []


@pytest.mark.parametrize(("name", "document"), OURS, ids=[name for name, _ in OURS])
def test_nothing_that_the_samples_say_is_lost(name: Any, document: Any) -> None:
    kind, _ = KINDS[document["apiVersion"], document["kind"]]
    obj = as_served(kind, document)
    # What is said and is the default besides may be left out.
    written = as_served(kind, msgspec.json.decode(kind.encode(msgspec.convert(obj, kind.type))))
    assert set(missing(without_empties(document), written)) == set()


def without_empties(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: without_empties(v) for k, v in value.items() if v not in (None, "", 0, False, [], {})}
    return [without_empties(item) for item in value] if isinstance(value, list) else value


def missing(given: Any, written: Any, path: str = "") -> Any:
    """The paths of members that were given and are not written."""
    if isinstance(given, dict):
        for key, value in given.items():
            if not isinstance(written, dict) or key not in written:
                yield f"{path}.{key}"
            else:
                yield from missing(value, written[key], f"{path}.{key}")
    elif isinstance(given, list):
        for i, value in enumerate(given):
            yield from missing(value, written[i], f"{path}[{i}]")
