"""List the kinds of other projects that queue, as data: the paths of the fields that `Integration` needs.

A kind with the usual fields for pods, suspension and end is one entry here. Sources: Kueue's integrations
(pkg/controller/jobs), and the CRDs that the projects publish.
"""

from typing import Final

from muster.api.config.frameworks import FRAMEWORKS
from muster.api.kinds import Kind
from muster.controllers.integrations.external import rules, statusreaders
from muster.controllers.integrations.external.documents import ExternalJob
from muster.controllers.integrations.external.podsets import ray_groups, ray_job, replica_specs
from muster.controllers.integrations.external.shape import Shape


def kind_of(name: str, plural: str) -> Kind[ExternalJob]:
    """Return the kind with Kueue's name for it, such as `ray.io/rayjob`.

    plural: the plural name in API paths.
    """
    group, version, kind = FRAMEWORKS[name]
    return Kind(group, version, kind, plural, ExternalJob)


def _describe_kubeflow_kind(
    name: str, field: str, *roles: str, controller: str = "kubeflow.org/training-operator"
) -> Shape:
    """Return the description of a kind of Kubeflow, which has a `runPolicy` and a map of roles."""
    return Shape(
        kind=kind_of(name, f"{name.partition('/')[2]}s"),
        name=name,
        controller=controller,
        places=replica_specs(field, *roles),
        end=statusreaders.end_by_condition("Succeeded"),
        is_active=statusreaders.has_active_replicas,
        is_ready=statusreaders.by_condition("Running"),
        suspend=("spec", "runPolicy", "suspend"),
        managed_by=("spec", "runPolicy", "managedBy"),
        priority_class=("spec", "runPolicy", "schedulingPolicy", "priorityClass"),
    )


MPI_JOB: Final = _describe_kubeflow_kind(
    "kubeflow.org/mpijob", "mpiReplicaSpecs", "Launcher", "Worker", controller="kubeflow.org/mpi-operator"
)
PYTORCH_JOB: Final = _describe_kubeflow_kind("kubeflow.org/pytorchjob", "pytorchReplicaSpecs", "Master", "Worker")
TF_JOB: Final = _describe_kubeflow_kind(
    "kubeflow.org/tfjob", "tfReplicaSpecs", "Chief", "Master", "PS", "Worker", "Evaluator"
)
XGBOOST_JOB: Final = _describe_kubeflow_kind("kubeflow.org/xgboostjob", "xgbReplicaSpecs", "Master", "Worker")
PADDLE_JOB: Final = _describe_kubeflow_kind("kubeflow.org/paddlejob", "paddleReplicaSpecs", "Master", "Worker")
JAX_JOB: Final = _describe_kubeflow_kind("kubeflow.org/jaxjob", "jaxReplicaSpecs", "Worker")

RAY_CLUSTER: Final = Shape(
    kind=kind_of("ray.io/raycluster", "rayclusters"),
    name="ray.io/raycluster",
    controller="ray.io/kuberay-operator",
    places=ray_groups("spec"),
    end=statusreaders.find_no_end,
    is_active=statusreaders.ray_cluster_is_active,
    is_ready=statusreaders.ray_cluster_is_ready,
    rules=rules.ray_cluster,
)
RAY_SERVICE: Final = Shape(
    kind=kind_of("ray.io/rayservice", "rayservices"),
    name="ray.io/rayservice",
    controller="ray.io/kuberay-operator",
    places=ray_groups("spec", "rayClusterConfig"),
    end=statusreaders.find_no_end,
    is_active=statusreaders.by_condition("Ready"),
    is_ready=statusreaders.by_condition("Ready"),
    suspend=("spec", "rayClusterConfig", "suspend"),
    rules=rules.ray_service,
)
RAY_JOB: Final = Shape(
    kind=kind_of("ray.io/rayjob", "rayjobs"),
    name="ray.io/rayjob",
    controller="ray.io/kuberay-operator",
    places=ray_job,
    end=statusreaders.ray_job_end,
    is_active=statusreaders.ray_job_is_active,
    is_ready=statusreaders.ray_job_is_ready,
    rules=rules.ray_job,
    runs_by_itself=lambda job: not job.spec.get("clusterSelector"),
)

# A kind comes before the kinds of its parts.
SHAPES: Final = (
    RAY_JOB, RAY_SERVICE, RAY_CLUSTER, MPI_JOB, PYTORCH_JOB, TF_JOB, XGBOOST_JOB, PADDLE_JOB, JAX_JOB,
)  # fmt: skip
