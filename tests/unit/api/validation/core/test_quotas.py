"""Rules of ResourceQuotas and LimitRanges."""

from typing import Any

import msgspec
import pytest

from muster.api.core.quota import LimitRange, ResourceQuota
from muster.api.validation.core import limitrange, resourcequota

META = {"name": "a", "namespace": "default"}
REQUEST = "spec.limits[0].defaultRequest[cpu]"


def quota(**spec: Any) -> ResourceQuota:
    return msgspec.convert({"metadata": META, "spec": spec}, ResourceQuota)


def selector(*expressions: Any) -> dict[str, Any]:
    names = ("scopeName", "operator", "values")
    return {"matchExpressions": [dict(zip(names, expression, strict=False)) for expression in expressions]}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"hard": {"cpu": "1", "count/jobs.batch": "2", "requests.a.b/gpu": 3, "requests.hugepages-2Mi": "4Mi"}}, []),
        ({"hard": {"cpus": "1"}}, [
            'spec.hard[cpus]: Invalid value: "cpus": must be a standard resource type or fully qualified',
            'spec.hard[cpus]: Invalid value: "cpus": must be a standard resource for quota']),
        ({"hard": {"pods": "1.5"}}, ['spec.hard[pods]: Invalid value: "1.5": must be an integer']),
        ({"hard": {"cpu": "-1"}}, ['spec.hard[cpu]: Invalid value: "-1": must be greater than or equal to 0']),
        ({"hard": {"pods": "1"}, "scopes": ["BestEffort"]}, []),
        ({"hard": {"cpu": "1"}, "scopes": ["BestEffort"]},
         ['spec.scopes: Invalid value: ["BestEffort"]: unsupported scope applied to resource']),
        ({"scopes": ["Best"]}, ['spec.scopes: Invalid value: ["Best"]: unsupported scope']),
        ({"scopes": ["BestEffort", "NotBestEffort"]},
         ['spec.scopes: Invalid value: ["BestEffort","NotBestEffort"]: conflicting scopes']),
        ({"scopeSelector": selector(("PriorityClass", "In", ["a"]))}, []),
        ({"scopeSelector": selector(("PriorityClass", "In"))},
         [("spec.scopeSelector.matchExpressions.values: Required value: must be at least one value when `operator` is "
          "'In' or 'NotIn' for scope selector")]),
        ({"scopeSelector": selector(("Terminating", "Is"))},
         [("spec.scopeSelector.matchExpressions.operator: Invalid value: \"Is\": must be 'Exist' when scope is any of "
          "ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "
          "ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"),
          'spec.scopeSelector.matchExpressions.operator: Invalid value: "Is": not a valid selector operator']),
        ({"scopeSelector": selector(("PriorityClass", "Exists", ["a"]))},
         [('spec.scopeSelector.matchExpressions.values: Invalid value: ["a"]: must be no value when `operator` is '
          "'Exist' or 'DoesNotExist' for scope selector")]),
    ],
)  # fmt: skip
def test_quotas(spec, expected):
    assert [str(error) for error in resourcequota.validate_create(quota(**spec))] == expected


def test_the_scopes_of_a_quota_stay():
    errors = resourcequota.validate_update(quota(scopes=["BestEffort"]), quota())
    assert [str(error) for error in errors] == ['spec.scopes: Invalid value: ["BestEffort"]: field is immutable']
    assert not resourcequota.validate_update(quota(hard={"pods": "1"}), quota())


def test_the_use_is_made_of_amounts():
    new = msgspec.structs.replace(quota(), status=msgspec.convert({"used": {"pods": "x"}}, type(quota().status)))
    assert [error.path for error in resourcequota.validate_status_update(new, quota())] == ["status.used[pods]"]


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([{"type": "Container", "min": {"cpu": "1"}, "max": {"cpu": "2"}, "default": {"cpu": "2"},
           "defaultRequest": {"cpu": "1"}, "maxLimitRequestRatio": {"cpu": "2"}},
          {"type": "Pod", "max": {"memory": "1Gi"}}, {"type": "a.b/Image", "max": {"storage": "1"}}], []),
        ([{"type": "Pod"}, {"type": "Pod"}], ['spec.limits[1].type: Duplicate value: "Pod"']),
        ([{"type": "Box"}],
         ['spec.limits[0].type: Invalid value: "Box": must be a standard limit type or fully qualified']),
        ([{"type": "Pod", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "1"}}],
         ["spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'",
          "spec.limits[0].defaultRequest: Forbidden: may not be specified when `type` is 'Pod'"]),
        ([{"type": "PersistentVolumeClaim"}],
         [("spec.limits[0].limits: Required value: either minimum or maximum storage value is required, "
          "but neither was provided")]),
        ([{"type": "Container", "max": {"storage": "1"}}],
         ['spec.limits[0].max[storage]: Invalid value: "storage": must be a standard resource for containers']),
        ([{"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}}],
         ['spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1']),
        ([{"type": "Container", "min": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}}],
         [f'{REQUEST}: Invalid value: "1": min value 2 is greater than default request value 1']),
        ([{"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "3"}, "max": {"cpu": "2"}}],
         ['spec.limits[0].defaultRequest[cpu]: Invalid value: "3": default request value 3 is greater than max value 2',
          ('spec.limits[0].defaultRequest[cpu]: Invalid value: "3": default request value 3 is greater than default '
          "limit value 1")]),
        ([{"type": "Container", "default": {"cpu": "3"}, "max": {"cpu": "2"}}],
         ['spec.limits[0].default[cpu]: Invalid value: "2": default value 3 is greater than max value 2']),
        ([{"type": "Container", "maxLimitRequestRatio": {"cpu": "500m"}}],
         ['spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "500m": ratio 500m is less than 1']),
        ([{"type": "Container", "min": {"cpu": "1"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "3"}}],
         ['spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "3": ratio 3 is greater than max/min = 2.000000']),
        ([{"type": "Container", "default": {"a.b/gpu": "2"}, "defaultRequest": {"a.b/gpu": "1"}}],
         [('spec.limits[0].default[a.b/gpu]: Invalid value: "2": default value 2 must equal to defaultRequest value 1 '
          "in a.b/gpu")]),
    ],
)  # fmt: skip
def test_limits(items, expected):
    limits = msgspec.convert({"metadata": META, "spec": {"limits": items}}, LimitRange)
    assert [str(error) for error in limitrange.validate_create(limits)] == expected
    assert [str(error) for error in limitrange.validate_update(limits, limits)] == expected
