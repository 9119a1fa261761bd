"""The templates of jobs whose pods are others than those of their work."""

import msgspec
import pytest
from msgspec.structs import replace

from muster.api.core import PodSpec, PodTemplateSpec
from muster.api.kueue import PodSet, Workload, WorkloadSpec
from muster.api.pods import pod_requests
from muster.gang.order.ends import EndTime
from muster.queueing import convert
from muster.simulation.engine import templates
from muster.simulation.engine.site import JobTemplate
from muster.simulation.engine.templates import Templates, find_end, make_template
from muster.simulation.scenario.arrivals import Submission
from muster.simulation.scenario.logs.jobs import Role

SPEC = {
    "overhead": {"cpu": "1"},
    "nodeSelector": {"zone": "a"},
    "initContainers": [{"name": "i", "resources": {"requests": {"cpu": "9"}}}],
    "containers": [{"name": "c", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}, {"name": "d"}],
}


def make(spec=SPEC):
    podset = PodSet(name="main", template=PodTemplateSpec(spec=msgspec.convert(spec, PodSpec)), count=3)
    return JobTemplate(Workload(spec=WorkloadSpec(pod_sets=(podset,))), "", None)


def pods_of(template):
    return template.workload.spec.pod_sets


def test_pods_request_just_what_their_role_says():
    first, second = pods_of(make_template(make(), [Role(4, (("cpu", 500), ("memory", 1 << 20))), Role(1, ())]))
    assert (first.name, first.count, second.name, second.count) == ("main", 4, "main-1", 1)
    assert pod_requests(first.template.spec) == {"cpu": 500, "memory": 1 << 20}
    assert pod_requests(second.template.spec) == {}


def test_pods_without_requests_of_their_own_keep_those_of_the_template():
    [podset] = pods_of(make_template(make(), [Role(4)]))
    assert podset.template.spec == pods_of(make())[0].template.spec


def required(podset):
    affinity = podset.template.spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
    return [[(one.key, one.values) for one in term.match_expressions] for term in affinity.node_selector_terms]


def test_one_label_is_selected_and_one_of_several_is_required():
    labels = (("model", ("A", "B")), ("rack", ("r1",)))
    [podset] = pods_of(make_template(make(), [Role(1, None, labels)]))
    assert podset.template.spec.node_selector == {"zone": "a", "rack": "r1"}
    assert required(podset) == [[("model", ("A", "B"))]]


def test_each_alternative_of_the_template_is_narrowed():
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": ["x"]}]} for key in ("k", "l")]
    node = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    [podset] = pods_of(
        make_template(make(SPEC | {"affinity": {"nodeAffinity": node}}), [Role(1, None, (("m", ("A", "B")),))])
    )
    assert required(podset) == [[("k", ("x",)), ("m", ("A", "B"))], [("l", ("x",)), ("m", ("A", "B"))]]


@pytest.mark.parametrize("kept", [1, 2, 100])
def test_jobs_that_are_alike_share_a_template_as_long_as_it_is_kept(monkeypatch, kept):
    monkeypatch.setattr(templates, "_MOST_KEPT", kept)
    known = Templates([make()], lambda template: convert.convert_workload(template.workload, "q"))

    def find(cpus):
        return known.find(Submission(0.0, 0, "j", 1.0, None, roles=(Role(1, (("cpu", cpus),)),)))

    assert find(1000) is find(1000)
    assert find(1000).base.podsets[0].requests["cpu"] == 1000
    assert find(2000).base.podsets[0].requests["cpu"] == 2000
    assert find(1000).key == find(1000).key != find(2000).key
    assert len(known._of_roles) <= kept


@pytest.mark.parametrize(("limit", "end"), [(None, 60.0), (3600.0, 3600.0), (1e12, None), (1e200, None)])
def test_a_limit_of_centuries_is_none(limit, end):
    template = replace(make(), end=EndTime(60.0, is_enforced=True))
    found = find_end(Submission(0.0, 0, "j", 10.0, limit), template)
    assert (found and found.at) == end
