"""A kind that comes with the engine is known in all the places that have to know it."""

import msgspec
import pytest

from muster.api.config import DEFAULT, EMBEDDED
from muster.api.config.frameworks import BUILT_IN, FRAMEWORKS, UNHANDLED
from muster.api.config.types import Integrations
from muster.cluster.apiserver.registry.builtin import make_builtin_resources
from muster.cluster.apiserver.registry.resources import Registry
from muster.controllers.integrations.serving.kinds import SERVING
from muster.controllers.integrations.table import (
    INTEGRATIONS,
    frameworks_without_effect,
    kinds_without_effect,
    list_enabled,
)

ALWAYS_SERVED = [one for one in INTEGRATIONS if not one.optional]


@pytest.mark.parametrize("one", INTEGRATIONS, ids=lambda one: one.name)
def test_a_kind_is_named_as_kueue_names_it(one):
    assert FRAMEWORKS[one.name] == (one.kind.group, one.kind.version, one.kind.kind)


@pytest.mark.parametrize("one", ALWAYS_SERVED, ids=lambda one: one.name)
def test_a_built_in_kind_is_served_and_on(one):
    assert one.name in BUILT_IN
    assert one in list_enabled(INTEGRATIONS, EMBEDDED)
    served = Registry(make_builtin_resources(lambda new, old: False)).of_kind(one.kind.api_version, one.kind.kind)
    assert served is not None
    assert served.kind.type is one.kind.type


def test_nothing_is_on_that_has_no_integration():
    assert set(BUILT_IN) == {one.name for one in ALWAYS_SERVED} | {"pod"}  # pods have a controller of their own


def test_what_has_no_integration_is_said_to_have_none():
    handled = {one.name for one in INTEGRATIONS} | {one.name for one in SERVING} | {"pod"}
    assert set(FRAMEWORKS) - UNHANDLED == handled


def under(*names):
    return msgspec.structs.replace(DEFAULT, integrations=Integrations(frameworks=names))


# Those of Kueue's default Configuration.
OF_KUEUE = (
    "batch/job", "kubeflow.org/mpijob", "ray.io/rayjob", "ray.io/raycluster", "ray.io/rayservice",
    "jobset.x-k8s.io/jobset", "workload.codeflare.dev/appwrapper", "trainer.kubeflow.org/trainjob", "pod", "deployment",
    "statefulset", "leaderworkerset.x-k8s.io/leaderworkerset",
)  # fmt: skip


@pytest.mark.parametrize(
    ("names", "idle"),
    [
        (OF_KUEUE, {}),
        (("pod", "sparkoperator.k8s.io/sparkapplication"), {"sparkoperator.k8s.io/sparkapplication": "no integration"}),
        (("batch/job", "deployment"), {"deployment": "the framework pod is not named"}),
    ],
)
def test_frameworks_that_have_no_effect_are_told_with_the_reason(names, idle):
    found = frameworks_without_effect(under(*names))
    assert found.keys() == idle.keys()
    assert all(idle[name] in found[name] for name in idle)


def test_kinds_that_do_not_wait_are_those_that_nothing_follows():
    assert [kind.kind for kind in kinds_without_effect(under(*OF_KUEUE))] == [
        "PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob", "SparkApplication",
    ]  # fmt: skip


def test_one_that_is_named_as_from_outside_is_left_to_its_controller_there():
    elsewhere = Integrations(frameworks=("batch/job",), external_frameworks=("RayJob.v1.ray.io",))
    settings = msgspec.structs.replace(DEFAULT, integrations=elsewhere)
    assert [one.name for one in list_enabled(INTEGRATIONS, settings)] == ["batch/job"]
    assert "RayJob" not in [kind.kind for kind in kinds_without_effect(settings)]


def test_a_kind_stands_before_those_whose_jobs_it_makes():
    names = [one.name for one in INTEGRATIONS]
    for one in INTEGRATIONS:
        assert all(names.index(part.name) > names.index(one.name) for part in one.parts)
