"""The tests of the embedded server's API, run against kube-apiserver.

Where kube-apiserver answers otherwise, the test is expected to fail, with the difference as its reason.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from itertools import count

import pytest
from tests.cluster.realapi import RealApi
from tests.cluster.retold import retold, sort_out
from tests.kubeplane import KubePlane, kube_plane, needs_kubernetes
from tests.system.apiserver import (
    test_apply,
    test_create,
    test_delete,
    test_field_validation,
    test_read,
    test_subresources,
    test_update,
    test_watch,
)
from tests.system.apiserver.harness import ELSEWHERE, Api

from muster.runtime.clock import RealClock
from muster.runtime.ids import Random
from muster.runtime.kube.https import HttpsTransport
from muster.runtime.kube.kubeconfig_files import load
from muster.runtime.transport import Request

pytestmark = [needs_kubernetes, pytest.mark.timeout(120)]

_MODULES = (
    test_apply,
    test_create,
    test_delete,
    test_field_validation,
    test_read,
    test_subresources,
    test_update,
    test_watch,
)

# What cannot be said to a server that others use, too, or that has another clock: by a part of the test's name.
_NOT_ASKED = {
    "it has a time of its own": (
        "applying_again_writes_nothing",
        "pods_end_gracefully",
        "grace_is_only_shortened",
        "finalizers_hold",
        "emptied_first",
        "binding_gives_a_pod",
        "a_page_outlives",
        "a_token_expires",
        "how_long_it_lasts",
        "ends_when_it_should",
    ),
    "it sees other namespaces": (
        "begins_with_namespaces",
        "span_namespaces",
        "show_the_stored_object",
        "pods_by_selectors[/api/v1/pods-",
        "metadata.namespace=default",
        "some_namespaces_stay",
        "fields_of_other_kinds",
        "only_through_finalize",
        "a_node_watches_its_own",
    ),
    "accounts of pods are switched off": ("pods_run_as_somebody", "spec.serviceAccountName=default"),
    "this client names itself": ("test_create__test_the_server_sets_what_is", "test_update__test_the_server_keeps"),
    "that is not of Kubernetes": ("scaling_a_job", "scale_refusals", "logs_come_from_the_node"),
    "nodes there are none": ("log_refusals[query7", "log_refusals[query9"),
    "its definitions are not installed at once": ("test_apply__test_custom_resources", "new_custom_resources"),
    "its answer is by chance": ("conflicts_name_the_owners", "that_are_made_at_once_one_is_the_default"),
    "the limit is of the front": ("nests deeper",),
}

# Each of them is in docs/differences.md, but for words that say the same.
_DIFFERENCES = {
    "what the schema does not know is 500 in an apply patch": ("services_keep_ports", ".bogus: field", "&value.value"),
    "no body is 415 in an apply patch": ("test_refusals[b''-{}-400-]",),
    "a field manager that is none is told otherwise": ("'data': {}}-{'fieldManager': 'a",),
    "an apply patch with an identity makes the object": ("a_new_object_with_an_identity",),
    "an empty list of managed fields resets them": ("managed_fields_are_reset_by_hand",),
    "an apply patch says its name": ("the_url_names_what_is_applied",),
    "a condition without a time has one that is null": ("apply_to_status",),
    "empty maps are left out": ("test_read__test_metadata_alone",),
    "application/yaml and protobuf are answers, application/* is none": (
        "accept[application/*-200", "accept[application/vnd.kubernetes.protobuf-406", "accept[application/yaml-406",
        "accept[;;;",
    ),
    "a pod without a node has no log: 204": ("without_a_node_has_an_empty_log",),
    "a binding names its pod": (
        "is_not_bound", "of_two_schedulers", "binds_and_evicts",
        *(f"binding_refusals[spec{n}" for n in (0, 2, 3, 5, 6, 7, 8)),
    ),
    "a version that is no number is 500": ("test_update__test_versions", "test_watch__test_refusals[query3"),
    "YAML is of version 1.1: on is true": ("a_body_may_be_yaml",),
    "what is there twice in YAML is 400": ("members_that_are_there_twice[Strict-422",),
    "classes of the system go with all others": ("classes_of_the_system",),
    "a full page of a selection has a token, even if nothing more is selected": ("pages_of_a_selection",),
    "a continue token of the future is 504": ("forged_tokens[eyJ2IjogIm1ldGEuazhzLmlvL3YxIiwgInJ2IjogMTAwMDAwMDAwMC",),
    "a watch of a table tells a change before a deletion": ("test_watch__test_tables",),
    "an eviction that is refused for its options has marked its pod": ("eviction_refusals[eviction3",),
    "pods are not selected by podIPs": ("podIPs=127",),
    "other words": (
        "test_bad_options[query0", "delete_refusals[options7", "delete_refusals[{", 'spec.foo" not supp',
        "patch_refusals[application/json-patch0", "log_refusals[query1-",
        "patch_refusals[application/json-patch+json-patch12",
        "patch_refusals[application/merge-patch+json-patch5",
    ),
}  # fmt: skip


globals().update(retold(*_MODULES))


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubePlane]:
    """A server alone; pods need no accounts there, as no controller makes any."""
    with kube_plane(tmp_path_factory.mktemp("plane"), flags=["--disable-admission-plugins=ServiceAccount"]) as started:
        yield started


_numbers = count()


@pytest.fixture(autouse=True)
def _told_to_kube_apiserver(plane: KubePlane, request: pytest.FixtureRequest) -> Iterator[None]:
    sort_out(request, _NOT_ASKED, _DIFFERENCES)

    async def body(test: Callable[[Api], Awaitable[None]]) -> None:
        transport = HttpsTransport(load({}, path=plane.kubeconfig), RealClock(), Random())
        namespace = f"own-{next(_numbers)}-x"
        try:
            made = b'{"metadata": {"name": "%s"}}' % namespace.encode()
            assert (await transport.request(Request("POST", "/api/v1/namespaces", body=made))).status == 201
            api = RealApi(transport, namespace)
            try:
                async with asyncio.timeout(30):
                    await test(api)
            finally:
                await api.clean()
        finally:
            await transport.close()

    token = ELSEWHERE.set(lambda test: asyncio.run(body(test)))
    yield
    ELSEWHERE.reset(token)
