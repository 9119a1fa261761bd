"""Write the condition Active of MultiKueue's AdmissionChecks: True with a MultiKueueConfig and an active cluster."""

from muster.api.conditions import is_true
from muster.api.kueue import (
    ADMISSION_CHECK,
    MULTI_KUEUE_CLUSTER,
    MULTI_KUEUE_CONFIG,
    AdmissionCheck,
    MultiKueueCluster,
    MultiKueueConfig,
)
from muster.api.kueue.names import ACTIVE, MULTI_KUEUE_CONTROLLER
from muster.multicluster.links.activity import find_check_activity, find_reference_problem, has_changed_usability
from muster.multicluster.links.writing import write_active
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler

_BY_CONFIG, _BY_CLUSTER = "multikueue-config", "multikueue-cluster"


class CheckController(Reconciler):
    """The controller of MultiKueue's AdmissionChecks. A `Manager` runs it; it ignores checks of other controllers."""

    name = "multikueue_admissioncheck"

    def __init__(self, manager: Manager) -> None:
        super().__init__(manager)
        self._checks = manager.informer(ADMISSION_CHECK, indexes={_BY_CONFIG: _find_config_name})
        self._configs = manager.informer(MULTI_KUEUE_CONFIG, indexes={_BY_CLUSTER: _list_cluster_names}, optional=True)
        self._clusters = manager.informer(MULTI_KUEUE_CLUSTER, optional=True)
        self._controller.watch(self._checks)
        self._controller.watch(self._configs, self._find_checks_using)
        self._controller.watch(self._clusters, self._find_checks_using_cluster, when=has_changed_usability)

    def _find_checks_using(self, config: MultiKueueConfig) -> list[str]:
        return [check.metadata.name for check in self._checks.by(_BY_CONFIG, config.metadata.name)]

    def _find_checks_using_cluster(self, cluster: MultiKueueCluster) -> list[str]:
        configs = self._configs.by(_BY_CLUSTER, cluster.metadata.name)
        return [name for config in configs for name in self._find_checks_using(config)]

    async def _reconcile(self, key: str) -> Result:
        check = self._checks.get(key)
        if check is None or check.spec.controller_name != MULTI_KUEUE_CONTROLLER:
            return None
        parameters = check.spec.parameters
        config = self._configs.get(parameters.name) if parameters is not None else None
        configs = {config.metadata.name: config} if config is not None else {}
        names = config.spec.clusters if config is not None else ()
        clusters = {
            name: is_true(cluster.status.conditions, ACTIVE) for name in names if (cluster := self._clusters.get(name))
        }
        activity = find_check_activity(parameters, configs, clusters)
        await write_active(self._client, ADMISSION_CHECK, check, activity, self._clock.now())
        return None


def _find_config_name(check: AdmissionCheck) -> tuple[str, ...]:
    """Return the name of the MultiKueueConfig of a check; () for a check of another controller."""
    parameters = check.spec.parameters
    ours = check.spec.controller_name == MULTI_KUEUE_CONTROLLER
    return (parameters.name,) if ours and parameters is not None and not find_reference_problem(parameters) else ()


def _list_cluster_names(config: MultiKueueConfig) -> tuple[str, ...]:
    return config.spec.clusters
