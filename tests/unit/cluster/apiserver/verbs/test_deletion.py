"""What a request for deletion makes of a document. The rules over requests are in tests/system/apiserver."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.meta import DeleteOptions
from muster.cluster.apiserver.registry.resources import Rules
from muster.cluster.apiserver.verbs.deletion import KeptObject, Removed, delete, is_over

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GRACEFUL = Rules(graceful=True)

documents = st.builds(
    lambda node, phase, finalizers, grace: {
        "kind": "Pod",
        "metadata": {"name": "p", "uid": "u", "generation": 1} | ({"finalizers": finalizers} if finalizers else {}),
        "spec": {"terminationGracePeriodSeconds": grace} | ({"nodeName": node} if node else {}),
        "status": {"phase": phase},
    },
    st.sampled_from(["", "n"]),
    st.sampled_from(["Pending", "Running", "Succeeded"]),
    st.lists(st.sampled_from(["a.b/c", "d.e/f", "orphan"]), max_size=2, unique=True),
    st.integers(0, 100),
)
requests = st.builds(
    DeleteOptions,
    grace_period_seconds=st.none() | st.integers(-5, 200),
    propagation_policy=st.sampled_from([None, "Background", "Foreground", "Orphan"]),
)


def copy(document):
    return msgspec.json.decode(msgspec.json.encode(document))


@given(documents, st.lists(requests, min_size=1, max_size=5), st.sampled_from([GRACEFUL, Rules()]))
def test_deletion_only_goes_forward(document, options, rules):
    now = NOW
    for each in options:
        before = copy(document)
        outcome = delete(document, each, rules, now)
        if isinstance(outcome, Removed):
            held = document["metadata"].get("finalizers")
            assert not held
            return
        assert isinstance(outcome, KeptObject)
        assert outcome.changed is (document != before)
        meta, old = document["metadata"], before["metadata"]
        assert meta["deletionTimestamp"]
        assert meta["generation"] == 2
        if old.get("deletionTimestamp"):
            assert meta["deletionGracePeriodSeconds"] <= old["deletionGracePeriodSeconds"]
            assert meta["deletionTimestamp"] <= old["deletionTimestamp"]
        assert not is_over(document)
        now += timedelta(seconds=1)


@pytest.mark.parametrize(
    ("meta", "over"),
    [
        ({}, False),
        ({"deletionTimestamp": "x"}, True),
        ({"deletionTimestamp": "x", "deletionGracePeriodSeconds": 0}, True),
        ({"deletionTimestamp": "x", "deletionGracePeriodSeconds": 5}, False),
        ({"deletionTimestamp": "x", "finalizers": ["a"]}, False),
        ({"finalizers": []}, False),
    ],
)
def test_when_it_is_over(meta, over):
    assert is_over({"kind": "Pod", "metadata": meta}) is over
    held = {"kind": "Namespace", "metadata": meta, "spec": {"finalizers": ["kubernetes"]}}
    assert not is_over(held)


def test_very_long_grace():
    document: dict[str, Any] = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"nodeName": "n"}, "status": {}}
    delete(document, DeleteOptions(grace_period_seconds=2**62), GRACEFUL, NOW)
    assert document["metadata"]["deletionTimestamp"].startswith("2125")
