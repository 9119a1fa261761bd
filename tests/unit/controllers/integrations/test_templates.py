"""What is injected into a template, and that it can be taken away again."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from muster.api.core import PodTemplateSpec, Toleration
from muster.api.patch import json as jsonpatch
from muster.api.patch import merge
from muster.controllers.integrations.templates import make_injecting_patch, make_operations, make_restoring_patch
from muster.queueing.jobframework.observedjob import PodSetInfo

WORDS = st.dictionaries(st.sampled_from("abcd"), st.sampled_from("xyz"), max_size=4)
BORNE = st.lists(st.sampled_from("kl").map(lambda key: Toleration(key=key, operator="Exists")), unique=True)


def template(labels: Any, annotations: Any, node_selector: Any, tolerations: Any) -> PodTemplateSpec:
    document = {
        "metadata": {"labels": labels, "annotations": annotations},
        "spec": {"nodeSelector": node_selector, "tolerations": msgspec.to_builtins(tolerations)},
    }
    return msgspec.convert(document, PodTemplateSpec)


def info(labels: Any, annotations: Any, node_selector: Any, tolerations: Any) -> PodSetInfo:
    return PodSetInfo("main", 1, labels, annotations, node_selector, tuple(tolerations))


TEMPLATES = st.builds(template, WORDS, WORDS, WORDS, BORNE)
INFOS = st.builds(info, WORDS, WORDS, WORDS, BORNE)


def patched(now: PodTemplateSpec, patch: dict[str, Any]) -> PodTemplateSpec:
    """As an API server would."""
    return msgspec.convert(merge.apply(msgspec.to_builtins(now), msgspec.to_builtins(patch)), PodTemplateSpec)


@given(TEMPLATES, INFOS)
def test_what_was_injected_is_there_and_is_taken_away_again(before: PodTemplateSpec, info: PodSetInfo) -> None:
    now = patched(before, make_injecting_patch(before, info))
    assert now.metadata.labels == {**before.metadata.labels, **info.labels}
    assert now.metadata.annotations == {**before.metadata.annotations, **info.annotations}
    assert now.spec.node_selector == {**before.spec.node_selector, **info.node_selector}
    assert set(now.spec.tolerations) == {*before.spec.tolerations, *info.tolerations}
    assert patched(now, make_restoring_patch(now, before)) == before


@given(TEMPLATES, INFOS)
def test_the_same_is_done_to_a_template_within_a_list(before: PodTemplateSpec, info: PodSetInfo) -> None:
    def edited(now: PodTemplateSpec, patch: dict[str, Any]) -> PodTemplateSpec:
        edits = list(make_operations("/jobs/0", now, patch))
        document = {"jobs": [{"spec": {}} | msgspec.to_builtins(now)]}
        changed = jsonpatch.apply(document, msgspec.json.decode(msgspec.json.encode(edits)))
        return msgspec.convert(changed["jobs"][0], PodTemplateSpec)

    now = edited(before, make_injecting_patch(before, info))
    assert now == patched(before, make_injecting_patch(before, info))
    assert edited(now, make_restoring_patch(now, before)) == before


def test_a_selector_that_becomes_empty_is_taken_away_from_a_template_within_a_list() -> None:
    now, before = template({}, {}, {"a": "x"}, []), template({}, {}, {}, [])
    edits = list(make_operations("/jobs/0", now, make_restoring_patch(now, before)))
    assert edits == [{"op": "remove", "path": "/jobs/0/spec/nodeSelector"}]


@given(TEMPLATES, INFOS)
def test_labels_that_are_to_be_kept_are(before: PodTemplateSpec, info: PodSetInfo) -> None:
    now = patched(before, make_injecting_patch(before, info))
    kept = patched(now, make_restoring_patch(now, before, keep=("a",)))
    assert kept.metadata.labels.get("a") == now.metadata.labels.get("a")
