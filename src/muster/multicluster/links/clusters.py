"""The workers of a manager: one connection for each MultiKueueCluster, and the status of each.

The `Fleet` provides the state of workers. `ClusterController` updates the fleet from the MultiKueueClusters and their
kubeconfigs.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muster.api.conditions import find
from muster.api.config import Configuration
from muster.api.config.types import ClusterProfile as ClusterProfiles
from muster.api.core import SECRET
from muster.api.groups.clusterinventory import CLUSTER_PROFILE, ClusterProfile
from muster.api.kinds import Kind
from muster.api.kueue import MULTI_KUEUE_CLUSTER, WORKLOAD, MultiKueueCluster, Workload
from muster.api.kueue.checks import PATH_LOCATION, KubeConfig
from muster.api.kueue.names import (
    ACTIVE,
    BAD_CLUSTER_PROFILE,
    BAD_KUBE_CONFIG,
    BAD_REST_CONFIG,
    INSECURE_KUBE_CONFIG,
    MULTI_KUEUE_CLUSTER_PROFILE_FEATURE_DISABLED,
)
from muster.api.managed.dispatch import home_of
from muster.api.meta import Object
from muster.multicluster.links import kubeconfigs, profiles
from muster.multicluster.links.activity import make_unusable
from muster.multicluster.links.connection import RemoteCluster
from muster.multicluster.links.identity import Register
from muster.multicluster.links.reach import Surroundings
from muster.multicluster.links.writing import write_active
from muster.queueing.pending.activity import Activity
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.events.recorder import Recorder
from muster.runtime.informer import Informer
from muster.runtime.objects import key_of, make_reference

if TYPE_CHECKING:
    from muster.runtime.kube.kubeconfig import ConnectionConfig

# The interval at which kubeconfig files are checked for a change.
POLL_SECONDS = 5.0
# Several workers, so that reading one kubeconfig does not block the other clusters.
WORKERS = 4

_BY_CLUSTER = "multikueue-cluster"


class Fleet:
    """The connections to all worker clusters, by name. A `ClusterController` adds and removes clusters."""

    def __init__(
        self,
        around: Surroundings,
        register: Register,
        workloads: Informer[Workload],
        on_activity: Callable[[str], None],
    ) -> None:
        """Make a fleet without clusters.

        workloads: the manager's workloads.
        on_activity: called with the name of a cluster whose activity changed.
        """
        self._around = around
        self._register = register
        self._on_activity = on_activity
        self._workloads = workloads
        self._clusters: dict[str, RemoteCluster] = {}
        self._served: dict[str, frozenset[Kind[Any]]] = {}  # the kinds of jobs that each connected cluster serves
        self._tried: set[str] = set()  # the clusters to which a connection was attempted
        self._on_change: list[Callable[[str], None]] = []
        self._on_standing: list[Callable[[str], None]] = []
        self._on_queues: list[Callable[[], None]] = []
        workloads.add_index(_BY_CLUSTER, _list_clusters_of)

    def get(self, name: str) -> RemoteCluster | None:
        """Return the cluster with this name; None if there is no such MultiKueueCluster.

        A cluster whose kubeconfig cannot be used is returned as well, as a lost cluster.
        """
        return self._clusters.get(name)

    @property
    def has_clusters(self) -> bool:
        """Whether there is any cluster."""
        return bool(self._clusters)

    def list_names(self) -> list[str]:
        """Return the names of all clusters, sorted."""
        return sorted(self._clusters)

    def on_change(self, handler: Callable[[str], None]) -> None:
        """Register a handler that is called with the key of a workload when its state in a cluster changes.

        The state changes with the workload's clone, with a job that names the workload, and with the connection to a
        cluster that has or should have its objects.
        """
        self._on_change.append(handler)

    def on_standing(self, handler: Callable[[str], None]) -> None:
        """Register a handler, called with a cluster's name when it is connected or lost, or serves other kinds."""
        self._on_standing.append(handler)

    def on_queues(self, handler: Callable[[], None]) -> None:
        """Register a handler that is called when watched queues of worker clusters change, or are first read."""
        self._on_queues.append(handler)

    def get_or_add(self, name: str) -> RemoteCluster:
        """Return the cluster with this name, creating it if it does not exist."""
        cluster = self._clusters.get(name)
        if cluster is None:
            stands = partial(self._notify_standing, name)
            cluster = self._clusters[name] = RemoteCluster(
                name,
                self._around,
                self._register,
                changed=self._notify_change,
                stands=stands,
                queued=self._notify_queues,
            )
        return cluster

    async def remove(self, name: str) -> None:
        """Disconnect a cluster and drop its state."""
        cluster = self._clusters.pop(name, None)
        if cluster is not None:
            await cluster.close()
            self._served.pop(name, None)
            self._tried.discard(name)
            self._notify_workloads(name, cluster.keys())

    async def close(self) -> None:
        """Disconnect all clusters."""
        clusters, self._clusters = list(self._clusters.values()), {}
        await asyncio.gather(*(cluster.close() for cluster in clusters))

    def _notify_change(self, key: str) -> None:
        for handler in self._on_change:
            handler(key)

    def _notify_queues(self) -> None:
        for handler in self._on_queues:
            handler()

    def _notify_standing(self, name: str) -> None:
        cluster = self._clusters.get(name)
        if cluster is None:  # the MultiKueueCluster was deleted
            return
        before = self._served.pop(name, None)
        if cluster.lost_since is None:
            self._served[name] = cluster.served
        is_first = name not in self._tried and cluster.activity is not None
        if is_first:
            self._tried.add(name)
        if is_first or self._served.get(name) != before:
            self._notify_workloads(name, cluster.keys())
        self._on_activity(name)

    def _notify_workloads(self, name: str, keys: set[str]) -> None:
        """Call the handlers for each workload that has or should have objects in a cluster, as its connection changed.

        keys: the workloads with objects there.
        """
        for key in keys.union(map(key_of, self._workloads.by(_BY_CLUSTER, name))):
            self._notify_change(key)
        for handler in self._on_standing:
            handler(name)


class ClusterController(Reconciler):
    """A controller that updates the fleet and writes the status of each cluster. A `Manager` runs it."""

    name = "multikueuecluster"

    def __init__(
        self,
        manager: Manager,
        recorder: Recorder,
        configuration: Configuration,
        around: Surroundings,
        *,
        directory: Path = kubeconfigs.DIRECTORY,
    ) -> None:
        """Make the controller.

        around: the settings that all workers share.
        directory: where kubeconfig files must be, unless the feature gate MultiKueueKubeConfigPathValidation is off.
        """
        super().__init__(manager, workers=WORKERS)
        features = configuration.features
        self._manager = manager
        self._recorder = recorder
        self._namespace = configuration.namespace
        within = directory if features.is_enabled("MultiKueueKubeConfigPathValidation") else None
        self._files = kubeconfigs.Files(partial(kubeconfigs.read, directory=within))
        cluster_profiles = configuration.multi_kueue.cluster_profile or ClusterProfiles()
        self._providers = cluster_profiles.access_providers or cluster_profiles.credentials_providers
        self._profiles: Informer[ClusterProfile] | None = None
        self._secrets: Informer[Object] | None = None
        self._clusters = manager.informer(MULTI_KUEUE_CLUSTER, optional=True)
        workloads = manager.informer(WORKLOAD)
        self.fleet = Fleet(around, Register(self._client), workloads, self._controller.queue.add)
        self._controller.watch(self._clusters)
        if features.is_enabled("MultiKueueClusterProfile"):
            self._profiles = manager.informer(CLUSTER_PROFILE, namespace=self._namespace, optional=True)
            self._controller.watch(self._profiles, self._find_clusters_using_profile)

    async def run(self) -> None:
        """Reconcile until `stop`, then disconnect all clusters."""
        try:
            await super().run()
        finally:
            await self._files.close()
            await self.fleet.close()

    async def _reconcile(self, key: str) -> Result:
        cluster = self._clusters.get(key)
        if cluster is None or cluster.metadata.deletion_timestamp is not None:
            await self.fleet.remove(key)
            return None
        remote = self.fleet.get_or_add(key)
        connection = await self._find_connection(cluster)
        if isinstance(connection, Activity):
            remote.give_up(connection)
        else:
            remote.use(connection)
        if remote.activity is not None:
            await self._write_status(cluster, remote.activity)
        source = cluster.spec.cluster_source.kube_config
        return POLL_SECONDS if source is not None and source.location_type == PATH_LOCATION else None

    async def _find_connection(self, cluster: MultiKueueCluster) -> "ConnectionConfig | Activity":
        """Return the connection settings of a cluster, or the activity that says why there are none."""
        source = cluster.spec.cluster_source.kube_config
        if source is None:
            return self._find_profile_connection(_get_profile(cluster))
        try:
            data, where = await self._read_kubeconfig(source)
        except kubeconfigs.UnreachableKubeconfigError as error:
            return make_unusable(BAD_KUBE_CONFIG, str(error))
        try:
            return kubeconfigs.read_trusted(data, where)
        except kubeconfigs.UntrustedKubeconfigError as error:
            return make_unusable(INSECURE_KUBE_CONFIG, str(error))

    def _find_profile_connection(self, name: str) -> "ConnectionConfig | Activity":
        """Return the connection settings in a ClusterProfile, or the activity that says why there are none."""
        if self._profiles is None:
            problem = "MultiKueueClusterProfile feature gate is disabled"
            return make_unusable(MULTI_KUEUE_CLUSTER_PROFILE_FEATURE_DISABLED, problem)
        profile = self._profiles.get(f"{self._namespace}/{name}")
        if profile is None:
            return make_unusable(BAD_CLUSTER_PROFILE, f'{CLUSTER_PROFILE.resource} "{name}" not found')
        try:
            return profiles.find_connection(profile, self._providers)
        except profiles.ProfileError as error:
            return make_unusable(BAD_CLUSTER_PROFILE, str(error))
        except kubeconfigs.UntrustedKubeconfigError as error:
            return make_unusable(BAD_REST_CONFIG, str(error))

    async def _read_kubeconfig(self, source: KubeConfig) -> tuple[bytes, str]:
        """Return the text of a kubeconfig and the name of its source.

        The first read of a Secret also starts the watch of Secrets. Raises `UnreachableKubeconfigError`.
        """
        if source.location_type == PATH_LOCATION:
            return await self._files.content(source.location), source.location
        self._follow_secrets()
        secret = await self._client.find(SECRET, source.location, self._namespace)
        if secret is None:
            raise kubeconfigs.UnreachableKubeconfigError(f'Secret "{source.location}" not found')
        if kubeconfigs.SECRET_KEY not in secret.data:
            problem = f'key "{kubeconfigs.SECRET_KEY}" not found in secret "{source.location}"'
            raise kubeconfigs.UnreachableKubeconfigError(problem)
        return secret.data[kubeconfigs.SECRET_KEY], f"Secret {self._namespace}/{source.location}"

    def _follow_secrets(self) -> None:
        """Start to watch the metadata of Secrets when the first cluster needs them.

        The contents of a Secret are read when they are needed.
        """
        if self._secrets is None:
            self._secrets = self._manager.informer(SECRET.seen_as(Object), namespace=self._namespace)
            self._controller.watch(self._secrets, self._find_clusters_using_secret)

    def _find_clusters_using_secret(self, secret: Object) -> list[str]:
        """Return the clusters whose kubeconfig is in a Secret."""
        return [
            cluster.metadata.name for cluster in self._clusters.all() if _get_secret(cluster) == secret.metadata.name
        ]

    def _find_clusters_using_profile(self, profile: ClusterProfile) -> list[str]:
        name = profile.metadata.name
        return [cluster.metadata.name for cluster in self._clusters.all() if _get_profile(cluster) == name]

    async def _write_status(self, cluster: MultiKueueCluster, activity: Activity) -> None:
        old = find(cluster.status.conditions, ACTIVE)
        await write_active(self._client, MULTI_KUEUE_CLUSTER, cluster, activity, self._clock.now())
        if old is None or (old.status == "True", old.reason) != (activity.active, activity.reason):
            about = make_reference(MULTI_KUEUE_CLUSTER, cluster)
            self._recorder.event(about, "Normal" if activity.active else "Warning", activity.reason, activity.message)


def _get_secret(cluster: MultiKueueCluster) -> str:
    source = cluster.spec.cluster_source.kube_config
    return source.location if source is not None and source.location_type != PATH_LOCATION else ""


def _get_profile(cluster: MultiKueueCluster) -> str:
    named = cluster.spec.cluster_source.cluster_profile_ref
    return named.name if named is not None else ""


def _list_clusters_of(workload: Workload) -> tuple[str, ...]:
    """Return the clusters where a workload runs, is nominated, or may have left objects."""
    status = workload.status
    names = (home_of(workload.metadata), *status.nominated_cluster_names, status.cluster_name)
    return tuple(dict.fromkeys(name for name in names if name))
