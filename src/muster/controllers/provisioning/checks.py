"""Write the condition Active of each check by ProvisioningRequest: its configuration must exist."""

from typing import Final

from muster.api.kueue import (
    ADMISSION_CHECK,
    PROVISIONING_REQUEST_CONFIG,
    AdmissionCheck,
    ProvisioningRequestConfig,
)
from muster.api.kueue.names import PROVISIONING_REQUEST_CONTROLLER
from muster.multicluster.links.activity import CHECK_ACTIVE, find_reference_problem
from muster.multicluster.links.writing import write_active
from muster.queueing.pending.activity import Activity
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.informer import Informer

CHECKS_BY_CONFIG: Final = "provisioning-config"
BAD_PARAMETERS_REF: Final = "BadParametersRef"


class ProvisioningCheckController(Reconciler):
    """The reconciler of AdmissionChecks by ProvisioningRequest. It ignores the checks of other controllers."""

    name = "provisioning_admissioncheck"

    def __init__(self, manager: Manager) -> None:
        super().__init__(manager)
        self._checks, self._configs = follow_checks(manager)
        self._controller.watch(self._checks)
        self._controller.watch(self._configs, self._list_users, when=lambda old, new: old is None or new is None)

    def _list_users(self, config: ProvisioningRequestConfig) -> list[str]:
        return [check.metadata.name for check in self._checks.by(CHECKS_BY_CONFIG, config.metadata.name)]

    async def _reconcile(self, key: str) -> Result:
        check = self._checks.get(key)
        if check is None or not is_ours(check):
            return None
        activity = decide_activity(check, config_of(check, self._configs))
        await write_active(self._client, ADMISSION_CHECK, check, activity, self._clock.now())
        return None


def follow_checks(manager: Manager) -> tuple[Informer[AdmissionCheck], Informer[ProvisioningRequestConfig]]:
    """Return the informers of checks and of their configurations."""
    checks = manager.informer(ADMISSION_CHECK, indexes={CHECKS_BY_CONFIG: _index_by_config})
    return checks, manager.informer(PROVISIONING_REQUEST_CONFIG, optional=True)


def is_ours(check: AdmissionCheck) -> bool:
    """Return whether this controller handles a check: the check uses ProvisioningRequests."""
    return check.spec.controller_name == PROVISIONING_REQUEST_CONTROLLER


def config_of(check: AdmissionCheck, configs: Informer[ProvisioningRequestConfig]) -> ProvisioningRequestConfig | None:
    """Return the configuration that a check names; None if it does not exist."""
    parameters = check.spec.parameters
    if parameters is None or find_reference_problem(parameters, PROVISIONING_REQUEST_CONFIG):
        return None
    return configs.get(parameters.name)


def decide_activity(check: AdmissionCheck, config: ProvisioningRequestConfig | None) -> Activity:
    """Return the condition Active of a check, with Kueue's messages."""
    if config is not None:
        return CHECK_ACTIVE
    kind, parameters = PROVISIONING_REQUEST_CONFIG, check.spec.parameters
    problem = find_reference_problem(parameters, kind)
    if parameters is not None and not problem:
        problem = f'{kind.kind}.{kind.group} "{parameters.name}" not found'
    return Activity(False, BAD_PARAMETERS_REF, problem)


def _index_by_config(check: AdmissionCheck) -> tuple[str, ...]:
    parameters = check.spec.parameters
    ours = (
        is_ours(check)
        and parameters is not None
        and not find_reference_problem(parameters, PROVISIONING_REQUEST_CONFIG)
    )
    return (parameters.name,) if ours and parameters is not None else ()
