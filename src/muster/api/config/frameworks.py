"""The kinds of jobs that a configuration may name: Kueue's kinds, and others as `Kind.version.group`."""

from typing import Final, NamedTuple


class GroupVersionKind(NamedTuple):
    """A kind in one version of its API."""

    group: str
    version: str
    kind: str


# The kind of each name in `integrations.frameworks`.
FRAMEWORKS: Final = {
    "batch/job": GroupVersionKind("batch", "v1", "Job"),
    "deployment": GroupVersionKind("apps", "v1", "Deployment"),
    "jobset.x-k8s.io/jobset": GroupVersionKind("jobset.x-k8s.io", "v1alpha2", "JobSet"),
    "kubeflow.org/jaxjob": GroupVersionKind("kubeflow.org", "v1", "JAXJob"),
    "kubeflow.org/mpijob": GroupVersionKind("kubeflow.org", "v2beta1", "MPIJob"),
    "kubeflow.org/paddlejob": GroupVersionKind("kubeflow.org", "v1", "PaddleJob"),
    "kubeflow.org/pytorchjob": GroupVersionKind("kubeflow.org", "v1", "PyTorchJob"),
    "kubeflow.org/tfjob": GroupVersionKind("kubeflow.org", "v1", "TFJob"),
    "kubeflow.org/xgboostjob": GroupVersionKind("kubeflow.org", "v1", "XGBoostJob"),
    "leaderworkerset.x-k8s.io/leaderworkerset": GroupVersionKind("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet"),
    "pod": GroupVersionKind("", "v1", "Pod"),
    "ray.io/raycluster": GroupVersionKind("ray.io", "v1", "RayCluster"),
    "ray.io/rayjob": GroupVersionKind("ray.io", "v1", "RayJob"),
    "ray.io/rayservice": GroupVersionKind("ray.io", "v1", "RayService"),
    "sparkoperator.k8s.io/sparkapplication": GroupVersionKind("sparkoperator.k8s.io", "v1beta2", "SparkApplication"),
    "statefulset": GroupVersionKind("apps", "v1", "StatefulSet"),
    "trainer.kubeflow.org/trainjob": GroupVersionKind("trainer.kubeflow.org", "v1alpha1", "TrainJob"),
    "workload.codeflare.dev/appwrapper": GroupVersionKind("workload.codeflare.dev", "v1beta2", "AppWrapper"),
}

# The frameworks that are on by default, because every cluster serves their kinds.
BUILT_IN: Final = ("batch/job", "jobset.x-k8s.io/jobset", "pod")

# The frameworks for which Muster has no controller.
UNHANDLED: Final = frozenset({"sparkoperator.k8s.io/sparkapplication"})

# The frameworks that MultiKueue cannot dispatch.
NOT_DISPATCHED: Final = frozenset({"deployment", "sparkoperator.k8s.io/sparkapplication"})


def parse(name: str) -> GroupVersionKind | None:
    """Parse a name of the form `Kind.version.group`, whose group may contain dots. None for a name of another form."""
    kind, dot, rest = name.partition(".")
    version, another, group = rest.partition(".")
    return GroupVersionKind(group, version, kind) if dot and another else None
