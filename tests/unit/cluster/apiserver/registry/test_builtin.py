"""The table of what is served fits together."""

from typing import Any

import msgspec
import pytest

from muster.cluster.apiserver.objects.headers import header_of
from muster.cluster.apiserver.objects.views import show_event, take_event
from muster.cluster.apiserver.registry.builtin import BINDINGS, BUILTIN, EVENTS, EVENTS_V1
from muster.cluster.apiserver.registry.resources import VERBS

# Subresources that are no views.
ACTIONS = ("attach", "binding", "eviction", "exec", "log", "pendingworkloads", "portforward", "token")

SERVED = [resource for resource in BUILTIN if resource is not BINDINGS]


@pytest.mark.parametrize("resource", SERVED, ids=lambda resource: resource.name)
def test_resources(resource):
    assert BUILTIN.find(resource.kind.group, resource.kind.version, resource.kind.plural) is resource
    assert set(resource.verbs) <= set(VERBS)
    assert resource.view.kind is resource.kind
    for subresource in resource.subresources:
        assert resource.subresource(subresource.name) is subresource
        assert set(subresource.verbs) <= set(VERBS)
        assert (subresource.view is None) == (subresource.name in ACTIONS)
    known = set(header_fields(resource))
    assert set(resource.fields.fields.values()) <= known


def header_fields(resource):
    """The fields that a header of this resource can have: those of an object with everything in it."""
    filled: dict[str, Any] = {
        "pods": {"spec": {"nodeName": "n", "restartPolicy": "r", "schedulerName": "s", "serviceAccountName": "a"},
                 "status": {"phase": "p", "podIP": "i", "nominatedNodeName": "n"}},
        "events": {"involvedObject": dict.fromkeys(
                       ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"), "x"),
                   "reason": "r", "type": "t", "reportingComponent": "c"},
        "namespaces": {"status": {"phase": "p"}},
        "secrets": {"type": "t"},
        "services": {"spec": {"clusterIP": "c", "type": "t"}},
        "certificatesigningrequests.certificates.k8s.io": {"spec": {"signerName": "s"}},
        "resourceslices.resource.k8s.io": {"spec": {"nodeName": "n", "driver": "d"}},
        "workloads.kueue.x-k8s.io": {"status": {"admission": {"clusterQueue": "q"}}},
    }  # fmt: skip
    return header_of(resource.key, msgspec.json.encode({"metadata": {}} | filled.get(resource.key, {}))).fields


def test_two_spellings_share_a_storage():
    assert EVENTS.key == EVENTS_V1.key == "events"
    assert EVENTS_V1.name == "events.events.k8s.io"


def test_views_of_events_undo_each_other():
    core = {
        "apiVersion": "v1", "kind": "Event", "metadata": {}, "involvedObject": {}, "message": "m", "source": {},
        "firstTimestamp": "f", "lastTimestamp": "l", "count": 1, "reportingComponent": "c", "reason": "r",
    }  # fmt: skip
    shown = show_event(core)
    assert shown["apiVersion"] == "events.k8s.io/v1"
    assert {"regarding", "note", "deprecatedSource", "reportingController", "deprecatedCount"} <= set(shown)
    assert take_event({}, shown) == core
