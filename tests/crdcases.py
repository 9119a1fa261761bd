"""Objects of the kinds that are installed on clusters, and changes of them that are right or wrong by their rules."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any, Final, NamedTuple

import yaml

Json = dict[str, Any]

_TEMPLATE = """{
  metadata: {labels: {a: b}, generateName: gone},
  spec: {
    containers: [{
      name: c,
      image: i,
      ports: [{containerPort: 80}],
      env: [{name: E, valueFrom: {secretKeyRef: {key: k}}}],
      resources: {requests: {cpu: 1, memory: 1Gi}},
    }],
    volumes: [{name: v, configMap: {}}],
  },
}"""
_CONDITIONS = """[
  {type: QuotaReserved, status: "True", reason: R, message: "", lastTransitionTime: "2026-01-02T03:04:05Z"},
  {type: Admitted, status: "True", reason: R, message: "", lastTransitionTime: "2026-01-02T03:04:05Z"},
]"""
# Full of what rules look at, each as its version spells it.
_WRITTEN = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: AdmissionCheck
metadata: {name: x}
spec: {controllerName: example.com/c, parameters: {apiGroup: example.com, kind: Parameters, name: p}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: x}
spec:
  cohortName: c
  namespaceSelector: {matchLabels: {a: b}, matchExpressions: [{key: a, operator: In, values: [b]}]}
  flavorFungibility: {whenCanBorrow: TryNextFlavor, preference: BorrowingOverPreemption}
  preemption: {reclaimWithinCohort: Any, borrowWithinCohort: {policy: LowerPriority, maxPriorityThreshold: 3}}
  admissionChecksStrategy: {admissionChecks: [{name: k, onFlavors: [f]}]}
  admissionScope: {admissionMode: UsageBasedAdmissionFairSharing}
  fairSharing: {weight: 500m}
  resourceGroups:
  - coveredResources: [cpu, memory]
    flavors:
    - name: f
      resources: [{name: cpu, nominalQuota: 3, borrowingLimit: 1}, {name: memory, nominalQuota: 1Gi, lendingLimit: 1}]
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: x}
spec:
  cohort: c
  admissionChecks: [k]
  flavorFungibility: {whenCanBorrow: TryNextFlavor, preference: BorrowingOverPreemption}
  preemption: {reclaimWithinCohort: Any, borrowWithinCohort: {policy: LowerPriority}}
  resourceGroups:
  - {coveredResources: [cpu], flavors: [{name: f, resources: [{name: cpu, nominalQuota: 3, borrowingLimit: 1}]}]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Cohort
metadata: {name: x}
spec:
  parentName: p
  fairSharing: {weight: 2}
  resourceGroups:
  - {coveredResources: [cpu], flavors: [{name: f, resources: [{name: cpu, nominalQuota: 3, borrowingLimit: 1}]}]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: x, namespace: default}
spec: {clusterQueue: cq, stopPolicy: Hold, fairSharing: {weight: 1}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: MultiKueueCluster
metadata: {name: x}
spec: {clusterSource: {kubeConfig: {location: s, locationType: Path}}}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: MultiKueueCluster
metadata: {name: x}
spec: {kubeConfig: {location: s}, clusterProfileRef: {name: p}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: MultiKueueConfig
metadata: {name: x}
spec: {clusters: [a, b]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ProvisioningRequestConfig
metadata: {name: x}
spec:
  provisioningClassName: c
  managedResources: [cpu, memory]
  parameters: {a: b}
  podSetUpdates: {nodeSelector: [{key: k, valueFromProvisioningClassDetail: d}]}
  podSetMergePolicy: IdenticalPodTemplates
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: x}
spec:
  nodeLabels: {a: b}
  nodeTaints: [{key: t, value: v, effect: NoSchedule}]
  tolerations: [{key: t, operator: Equal, value: v, effect: NoExecute, tolerationSeconds: 3}, {operator: Exists}]
  topologyName: t
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Topology
metadata: {name: x}
spec: {levels: [{nodeLabel: example.com/block}, {nodeLabel: example.com/rack}, {nodeLabel: kubernetes.io/hostname}]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: x}
value: 3
description: some
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {name: x, namespace: default}
spec:
  queueName: q
  priority: 3
  priorityClassRef: {group: kueue.x-k8s.io, kind: WorkloadPriorityClass, name: high}
  maximumExecutionTimeSeconds: 60
  podSets:
  - name: a
    count: 4
    minCount: 2
    topologyRequest: {required: rack}
    template: TEMPLATE
  - {name: b, template: TEMPLATE}
status:
  conditions: CONDITIONS
  clusterName: w
  admission:
    clusterQueue: cq
    podSetAssignments:
    - name: a
      count: 4
      flavors: {cpu: f}
      resourceUsage: {cpu: 4}
      topologyAssignment:
        levels: [rack, host]
        slices:
        - domainCount: 2
          podCounts: {individual: [1, 3]}
          valuesPerLevel: [{universal: r}, {individual: {prefix: h, roots: ["1", "2"]}}]
    - {name: b, count: 1}
  admissionChecks:
  - name: k
    state: Ready
    message: ""
    lastTransitionTime: "2026-01-02T03:04:05Z"
    podSetUpdates: [{name: a, tolerations: [{key: t, operator: Exists, effect: NoExecute, tolerationSeconds: 3}]}]
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: Workload
metadata: {name: x, namespace: default}
spec:
  queueName: q
  priority: 3
  priorityClassName: high
  priorityClassSource: scheduling.k8s.io/priorityclass
  maximumExecutionTimeSeconds: 60
  podSets: [{name: a, count: 4, minCount: 2, template: TEMPLATE}]
status:
  conditions: CONDITIONS
  admission: {clusterQueue: cq, podSetAssignments: [{name: a, count: 4}]}
---
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: x, namespace: default}
spec:
  network: {enableDNSHostnames: true}
  successPolicy: {operator: All, targetReplicatedJobs: [a]}
  failurePolicy: {maxRestarts: 3, rules: [{name: r, action: RestartJobSet, targetReplicatedJobs: [a]}]}
  startupPolicy: {startupPolicyOrder: AnyOrder}
  volumeClaimPolicies:
  - templates: [{metadata: {name: v}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]
  replicatedJobs:
  - {name: a, template: {spec: {template: TEMPLATE}}}
  - {name: b, dependsOn: [{name: a, status: Ready}], template: {spec: {template: TEMPLATE}}}
---
apiVersion: scheduling.incubator.k8s.io/v1alpha1
kind: PodGroup
metadata: {name: x, namespace: default}
spec: {minMember: 3, queue: q, priorityClassName: high, further: {a: 1}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: x, namespace: default}
spec:
  minMember: 3
  minTaskMember: {a: 1}
  minResources: {cpu: 1}
  networkTopology: {highestTierAllowed: 1}
  subGroupPolicy: [{name: s, labelSelector: {matchLabels: {a: b}}}]
---
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: x, namespace: default}
spec: {minMember: 3, minResources: {cpu: 1}, scheduleTimeoutSeconds: 9}
"""


def _samples() -> Iterator[tuple[str, Json]]:
    """Every sample, and those that v1beta1 spells alike a second time."""
    text = _WRITTEN.replace("TEMPLATE", _TEMPLATE).replace("CONDITIONS", _CONDITIONS)
    written = {_name(each): each for each in yaml.load_all(text, yaml.CSafeLoader)}
    yield from written.items()
    for each in written.values():
        alike = each | {"apiVersion": each["apiVersion"].replace("v1beta2", "v1beta1")}
        if _name(alike) not in written:
            yield _name(alike), alike


def _name(sample: Json) -> str:
    return f"{sample['kind']} {sample['apiVersion']}"


# By kind and apiVersion.
SAMPLES: Mapping[str, Json] = dict(_samples())

ABSENT: Final = object()
# Values by their paths (`spec.levels.0.nodeLabel`).
Edits = Mapping[str, Any]


class Case(NamedTuple):
    """A sample is made, or changed from how it was.

    new: what is otherwise in it.
    old: what was otherwise in it before; None: it is made.
    refused: the places where something is wrong.
    """

    new: Edits
    old: Edits | None = None
    refused: tuple[str, ...] = ()


_FLAVORS = (
    Case({}),
    Case({"spec.topologyName": ABSENT, "spec.nodeLabels": ABSENT}),
    Case({"spec.nodeLabels": ABSENT}, None, ("spec",)),
    Case({"spec.nodeLabels": {}}, None, ("spec",)),
    Case({"spec.topologyName": "other"}, {}, ("spec",)),
    Case({"spec.topologyName": ABSENT}, {}, ("spec",)),
    Case({}, {"spec.topologyName": ABSENT}),
    Case({"spec.nodeTaints.0.effect": "Never"}, None, ("spec.nodeTaints",)),
    Case({"spec.tolerations.0.key": ABSENT}, None, ("spec.tolerations",)),
    Case({"spec.tolerations.1.operator": ABSENT}, None, ("spec.tolerations",)),
    Case({"spec.tolerations.0.effect": ABSENT}, None, ("spec.tolerations",)),
    Case({"spec.tolerations.0.effect": "NoSchedule"}, None, ("spec.tolerations",)),
    Case({"spec.tolerations.0.operator": "Lt"}, None, ("spec.tolerations",)),
    Case({"spec.tolerations.0.operator": "Exists"}, None, ("spec.tolerations",)),
    Case({"spec.tolerations.1.effect": "Never"}, None, ("spec.tolerations",)),
)
_CLUSTER_QUEUES = (
    Case({}),
    Case({"spec": {}}),
    Case({"spec.flavorFungibility.whenCanBorrow": ABSENT}, None, ("spec.flavorFungibility",)),
    Case({"spec.flavorFungibility.whenCanPreempt": "MayStopSearch"}, None, ("spec.flavorFungibility",)),
    Case({"spec.flavorFungibility": {}}),
    Case({"spec.preemption.reclaimWithinCohort": ABSENT}, None, ("spec.preemption",)),
    Case({"spec.preemption": {"borrowWithinCohort": {}}}),
    Case({"spec.resourceGroups.0.coveredResources": ["a", "b", "c"]}, None, ("spec.resourceGroups[0]",)),
)
_HELD = {"status.conditions.1.status": "False"}  # quota, but not admitted
_TOPOLOGY, _TOPOLOGY_PATH = (f"status.admission.podSetAssignments{first}.topologyAssignment" for first in (".0", "[0]"))
_SLICE, _SLICE_PATH = f"{_TOPOLOGY}.slices.0", f"{_TOPOLOGY_PATH}.slices[0]"
_WORKLOADS = (
    Case({}),
    Case({}, {}),
    Case({"spec.podSets.0.minCount": 5}, None, ("spec.podSets[0]",)),
    Case({"spec.podSets.0.minCount": 0}, None, ("spec.podSets[0].minCount",)),
    Case({"spec.priority": ABSENT}, None, ("spec",)),
    Case({"spec.queueName": "other"}, {}, ("",)),
    Case({"spec.queueName": ABSENT}, {}, ("",)),
    Case({"spec.queueName": "other", "status.conditions": []}, {}),
    Case({"spec.queueName": "other"}, {"status.conditions": []}),
    Case({"spec.maximumExecutionTimeSeconds": 61}, {}, ("",)),
    Case({"spec.maximumExecutionTimeSeconds": ABSENT}, {}, ("",)),
    Case({"spec.maximumExecutionTimeSeconds": 61} | _HELD, {}),
    Case({"status.admission.podSetAssignments": []}, None, ("",)),
    Case({"status.admission": ABSENT}),
    Case({"status.admission.podSetAssignments": [], "status.conditions": []}),
)

# By sample.
CASES: Mapping[str, Sequence[Case]] = {
    "AdmissionCheck kueue.x-k8s.io/v1beta2": (
        Case({}),
        Case({"spec.controllerName": "other"}, {}, ("spec.controllerName",)),
        Case({"spec.controllerName": ""}, None, ("spec.controllerName",)),
    ),
    "AdmissionCheck kueue.x-k8s.io/v1beta1": (
        Case({"spec.controllerName": "other"}, {}, ("spec.controllerName",)),
        Case({"spec.controllerName": "", "spec.retryDelayMinutes": 1}),
    ),
    "ClusterQueue kueue.x-k8s.io/v1beta2": (
        *_CLUSTER_QUEUES,
        Case({"spec.cohortName": ABSENT}, None, ("spec",)),
        Case({"spec.cohortName": ABSENT, "spec.resourceGroups": ABSENT}),
    ),
    "ClusterQueue kueue.x-k8s.io/v1beta1": (
        *_CLUSTER_QUEUES,
        Case({"spec.cohort": ABSENT}, None, ("spec",)),
        Case({"spec.flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"}}),
        Case({"spec.cohort": ABSENT, "spec.cohortName": "gone"}, None, ("spec",)),
    ),
    "Cohort kueue.x-k8s.io/v1beta2": (
        Case({}),
        Case({"spec": {}}),
        Case({"spec.resourceGroups.0.coveredResources": ["a", "b"]}, None, ("spec.resourceGroups[0]",)),
    ),
    "LocalQueue kueue.x-k8s.io/v1beta2": (
        Case({}),
        Case({"spec.clusterQueue": "other"}, {}, ("spec.clusterQueue",)),
        Case({"spec.clusterQueue": ABSENT}, {}),
        Case({}, {"spec.clusterQueue": ABSENT}),
    ),
    "MultiKueueCluster kueue.x-k8s.io/v1beta2": (
        Case({}),
        Case({"spec.clusterSource": {"clusterProfileRef": {"name": "p"}}}),
        Case({"spec.clusterSource": {}}, None, ("spec.clusterSource",)),
        Case({"spec.clusterSource.clusterProfileRef": {"name": "p"}}, None, ("spec.clusterSource",)),
    ),
    "MultiKueueCluster kueue.x-k8s.io/v1beta1": (Case({}), Case({"spec": {}}, None, ("spec.kubeConfig",))),
    "MultiKueueConfig kueue.x-k8s.io/v1beta2": (
        Case({}),
        Case({"spec.clusters": []}, None, ("spec.clusters",)),
        Case({"spec.clusters": ["a", "b", "a"]}, None, ("spec.clusters",)),
    ),
    "ProvisioningRequestConfig kueue.x-k8s.io/v1beta2": (
        Case({}),
        Case({"spec.retryStrategy": {}}),
        Case({"spec.provisioningClassName": ABSENT}, None, ("spec.provisioningClassName",)),
    ),
    "ResourceFlavor kueue.x-k8s.io/v1beta2": _FLAVORS,
    "ResourceFlavor kueue.x-k8s.io/v1beta1": _FLAVORS,
    "Topology kueue.x-k8s.io/v1beta2": (
        Case({}),
        Case({"spec.levels.1.nodeLabel": "example.com/other"}, {}),
        Case({"spec.levels.2": ABSENT}, {}, ("spec.levels",)),
        Case({}, {"spec.levels.2": ABSENT}, ("spec.levels",)),
        Case({"spec.levels.1.nodeLabel": "example.com/block"}, None, ("spec.levels",)),
        Case({"spec.levels.2.nodeLabel": "l", "spec.levels.0.nodeLabel": "kubernetes.io/hostname"}, None,
             ("spec.levels",)),
        Case({"spec.levels.2.nodeLabel": "l"}),
    ),
    "Topology kueue.x-k8s.io/v1beta1": (
        Case({"spec.levels.1.nodeLabel": "example.com/other"}, {}, ("spec.levels",)),
        Case({}, {}),
    ),
    "Workload kueue.x-k8s.io/v1beta2": (
        *_WORKLOADS,
        Case({"spec.priorityClassRef.kind": "PriorityClass"}, None, ("spec.priorityClassRef",)),
        Case({"spec.priorityClassRef.group": "scheduling.k8s.io"}, None, ("spec.priorityClassRef",)),
        Case({"spec.priorityClassRef": ABSENT}, {}, ("",)),
        Case({}, {"spec.priorityClassRef": ABSENT}, ("",)),
        Case({"spec.priorityClassRef.name": "low"}, {}),
        Case({"spec.priorityClassRef": {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "high"}}, {},
             ("", "")),
        Case({"spec.priorityClassRef": {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "low"}},
             {"spec.priorityClassRef": {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "high"}}, ("",)),
        Case({"status.clusterName": "other"}, {}, ("status",)),
        Case({"status.clusterName": ABSENT}, {}),
        Case({"status.nominatedClusterNames": ["w"]}, None, ("status",)),
        Case({"status.nominatedClusterNames": []}),
        Case({"status.admissionChecks.0.podSetUpdates.0.tolerations.0.effect": ABSENT}, None,
             ("status.admissionChecks[0].podSetUpdates[0].tolerations",)),
        Case({f"{_TOPOLOGY}.levels": ["host"]}, None, (_TOPOLOGY_PATH,)),
        Case({f"{_SLICE}.domainCount": 3}, None, (_SLICE_PATH, _SLICE_PATH)),
        Case({f"{_SLICE}.podCounts": {}}, None, (f"{_SLICE_PATH}.podCounts",)),
        Case({f"{_SLICE}.podCounts.universal": 2}, None, (f"{_SLICE_PATH}.podCounts",)),
        Case({f"{_SLICE}.podCounts": {"universal": 2}}),
        Case({f"{_SLICE}.valuesPerLevel.0": {}}, None, (f"{_SLICE_PATH}.valuesPerLevel[0]",)),
        Case({f"{_SLICE}.valuesPerLevel.1.individual.roots": ["1"]}, None, (_SLICE_PATH,)),
    ),
    "Workload kueue.x-k8s.io/v1beta1": (
        *_WORKLOADS,
        Case({"spec.priorityClassName": "low"}, {}, ("",)),
        Case({"spec.priorityClassName": ABSENT}, {}),
        Case({"spec.priorityClassSource": "kueue.x-k8s.io/workloadpriorityclass"}, {}, ("",)),
        Case({"spec.priorityClassSource": "kueue.x-k8s.io/workloadpriorityclass", "spec.priorityClassName": "low"},
             {"spec.priorityClassSource": "kueue.x-k8s.io/workloadpriorityclass"}),
    ),
    "WorkloadPriorityClass kueue.x-k8s.io/v1beta2": (
        Case({}),
        Case({"value": ABSENT}, None, ("value",)),
        Case({"description": "x" * 2049}, None, ("description",)),
    ),
    "WorkloadPriorityClass kueue.x-k8s.io/v1beta1": (Case({"description": "x" * 2049}),),
    "JobSet jobset.x-k8s.io/v1alpha2": (
        Case({}),
        Case({}, {}),
        Case({"spec.startupPolicy.startupPolicyOrder": "InOrder"}, None, ("spec",)),
        Case({"spec.startupPolicy": {"startupPolicyOrder": "InOrder"}, "spec.replicatedJobs.1.dependsOn": ABSENT}),
        Case({"spec.startupPolicy": ABSENT}, {}),
        Case({"spec.network.subdomain": "s"}, {}, ("spec.network",)),
        Case({"spec.successPolicy.operator": "Any"}, {}, ("spec.successPolicy",)),
        Case({"spec.failurePolicy.maxRestarts": 4}, {}, ("spec.failurePolicy",)),
        Case({"spec.failurePolicy.rules.0.name": ABSENT}, None, ("spec.failurePolicy.rules[0].name",)),
        Case({"spec.replicatedJobs.1.dependsOn.0.status": "Complete"}, {}, ("spec.replicatedJobs[1].dependsOn",)),
        Case({"spec.volumeClaimPolicies": []}, {}, ("spec.volumeClaimPolicies",)),
        Case({"spec.volumeClaimPolicies.0.templates.0.metadata.namespace": "n"}, None,
             ("spec.volumeClaimPolicies[0]",)),
        Case({"spec.volumeClaimPolicies.0.templates.0.metadata.namespace": ""}),
        Case({"spec.volumeClaimPolicies.0.templates.0.metadata": ABSENT}, None, ("spec.volumeClaimPolicies[0]",)),
    ),
    "PodGroup scheduling.incubator.k8s.io/v1alpha1": (
        Case({}),
        Case({"spec.minMember": "3"}, None, ("spec.minMember",)),
    ),
    "PodGroup scheduling.volcano.sh/v1beta1": (Case({}), Case({"spec.minMember": -1}, None, ("spec.minMember",))),
    "PodGroup scheduling.x-k8s.io/v1alpha1": (Case({}), Case({"spec.minMember": 0}, None, ("spec.minMember",))),
}  # fmt: skip


def edited(sample: Json, edits: Edits) -> Json:
    """The sample with other values at some paths."""
    result = copy.deepcopy(sample)
    for path, value in edits.items():
        *way, last = (int(step) if step.isdigit() else step for step in _steps(path))
        place: Any = result
        for step in way:
            place = place[step]
        if value is ABSENT:
            del place[last]
        else:
            place[last] = copy.deepcopy(value)
    return result


def _steps(path: str) -> list[str]:
    return path.split(".")


# What may stand where something else stood.
_STRANGE: Sequence[Any] = (
    None, True, 0, 1, -1, 2.5, 10**6, "", "0", "a", "A", "True", "Never", "NoExecute", "Exists", "TryNextFlavor",
    "500m", "kubernetes.io/hostname", "QuotaReserved", "x" * 400,
    [], {}, ["a"], ["a", "a"], [{}], {"a": "b"}, {"name": "a"},
)  # fmt: skip


def mutated(random: Random, sample: Json) -> Json:
    """The sample with one to three things in it otherwise; whose it is and what it is called stays."""
    result = copy.deepcopy(sample)
    for _ in range(random.randint(1, 3)):
        _mutate(random, result)
    return result


def _mutate(random: Random, document: Json) -> None:
    places = [place for name in document for place in _places(document, name) if name not in _IDENTITY]
    if not places:
        return
    container, key = random.choice(places)
    match random.randrange(4):
        case 0:
            del container[key]
        case 1:
            container[key] = copy.deepcopy(random.choice(_STRANGE))
        case 2 if isinstance(container, list):
            container.append(copy.deepcopy(container[key]))
        case 2:
            container["unknown"] = 1
        case _:
            container[key] = _near(random, container[key])


_IDENTITY = ("apiVersion", "kind", "metadata")


def _places(container: Any, key: Any) -> Iterator[tuple[Any, Any]]:
    yield container, key
    value = container[key]
    if isinstance(value, dict | list):
        for inner in value if isinstance(value, dict) else range(len(value)):
            yield from _places(value, inner)


def _near(random: Random, value: Any) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + random.choice((-4, -1, 1, 100))
    alike = [each for each in _STRANGE if type(each) is type(value)]
    return copy.deepcopy(random.choice(alike)) if alike else value
