"""The kinds of jobs that a configuration may name: those that come with Kueue, and `Kind.version.group`."""

from typing import Final, NamedTuple


class GroupVersionKind(NamedTuple):
    """A kind in one version of its API."""

    group: str
    version: str
    kind: str


# Name in `integrations.frameworks`: its kind.
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

# Those that are on where nothing is said: their kinds are served wherever the engine is.
BUILT_IN: Final = ("batch/job", "jobset.x-k8s.io/jobset", "pod")

# Those that no controller of this engine acts on.
UNHANDLED: Final = frozenset({"sparkoperator.k8s.io/sparkapplication"})

# Those that have no way to other clusters of their own.
NOT_DISPATCHED: Final = frozenset({"deployment", "sparkoperator.k8s.io/sparkapplication"})


def parse(name: str) -> GroupVersionKind | None:
    """Parse `Kind.version.group`, where the group has dots of its own; None if the name is not of that form."""
    kind, dot, rest = name.partition(".")
    version, another, group = rest.partition(".")
    return GroupVersionKind(group, version, kind) if dot and another else None
