"""Reconcile the ProvisioningRequests of workloads, and the states of their checks; `decision` decides.

PodTemplates are created before their request, so that an autoscaler finds them, and the request becomes their owner
afterwards. After a crash between two writes, the next reconcile continues.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from muster.api.config import Configuration
from muster.api.core import POD_TEMPLATE, PodTemplate
from muster.api.groups.provisioning import PROVISIONING_REQUEST, ProvisioningRequest
from muster.api.kueue import (
    RESOURCE_FLAVOR,
    WORKLOAD,
    AdmissionCheck,
    ProvisioningRequestConfig,
    Workload,
)
from muster.api.kueue.fields import GROUP
from muster.api.kueue.names import MANAGED_LABEL
from muster.api.meta import Object, ObjectMeta, OwnerReference, controller_of
from muster.api.status import ApiError
from muster.controllers.provisioning.checks import CHECKS_BY_CONFIG, config_of, follow_checks, is_ours
from muster.controllers.provisioning.decision import Configs, RequestAttempt, decide, set_state
from muster.queueing.workload.checks import States
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.events.recorder import Recorder
from muster.runtime.objects import (
    NO_REVISION,
    Revision,
    key_of,
    make_reference,
    merge_patch,
    parse_revision,
    revision_of,
)
from muster.runtime.refusals import ignoring, is_refusal

# The seconds until a retry while a created request is not in the cache yet. Usually its event arrives first.
UNSEEN_SECONDS: Final = 1.0
# The seconds until a retry after the server did not serve the kind, or refused the request.
AGAIN_SECONDS: Final = 300.0

_LASTING: Final = (403, 404, 422)
_BY_CHECK, _BY_WORKLOAD = "provisioning-check", "provisioning-workload"


class ProvisioningController(Reconciler):
    """The reconciler of the ProvisioningRequests that Workloads need. Its keys are the keys of Workloads."""

    name = "provisioning_workload"

    def __init__(self, manager: Manager, recorder: Recorder, configuration: Configuration) -> None:
        super().__init__(manager)
        self._recorder = recorder
        self._cleanup = configuration.features.is_enabled("CleanupProvisioningRequestsOnEviction")
        self._unseen: dict[str, Revision] = {}  # the newest created request of a workload
        self._workloads = manager.informer(WORKLOAD, indexes={_BY_CHECK: _index_by_check})
        self._checks, self._configs = follow_checks(manager)
        self._flavors = manager.informer(RESOURCE_FLAVOR)
        self._requests = manager.informer(PROVISIONING_REQUEST, indexes={_BY_WORKLOAD: _index_by_owner}, optional=True)
        self._templates = manager.informer(
            POD_TEMPLATE.seen_as(Object), labels=f"{MANAGED_LABEL}=true", indexes={_BY_WORKLOAD: _index_by_owner}
        )
        self._controller.watch(self._workloads, when=self._concerns)
        self._controller.watch(self._requests, _list_keys_of_owners)
        self._controller.watch(self._checks, self._list_users, when=_is_another_check)
        self._controller.watch(self._configs, self._list_users_of_config, when=_is_another_config)

    # Events to keys.

    def _concerns(self, old: Workload | None, new: Workload | None) -> bool:
        """Return whether a changed workload has, or just had, a check of this controller, or still has a request."""
        if new is None:
            return False
        names = {check.name for one in (old, new) if one is not None for check in one.status.admission_checks}
        checks = (self._checks.get(name) for name in names)
        return any(one is not None and is_ours(one) for one in checks) or bool(
            names and self._requests.by(_BY_WORKLOAD, new.metadata.uid)
        )

    def _list_users(self, check: AdmissionCheck) -> Iterable[str]:
        return map(key_of, self._workloads.by(_BY_CHECK, check.metadata.name))

    def _list_users_of_config(self, config: ProvisioningRequestConfig) -> Iterable[str]:
        for check in self._checks.by(CHECKS_BY_CONFIG, config.metadata.name):
            yield from self._list_users(check)

    # One reconcile of one workload.

    async def _reconcile(self, key: str) -> Result:
        workload = self._workloads.get(key)
        if workload is None:
            self._unseen.pop(key, None)
            return None
        if parse_revision(self._requests.version) < self._unseen.get(key, NO_REVISION):
            return UNSEEN_SECONDS
        self._unseen.pop(key, None)
        requests = self._requests.by(_BY_WORKLOAD, workload.metadata.uid)
        now, configs = self._clock.now(), self._find_configs(workload)
        plan = decide(workload, configs, requests, self._flavors.get, now, cleanup=self._cleanup)
        with ignoring("NotFound"):
            workload = await self._write_states(workload, plan.checks)
            for request in plan.delete:
                await self._delete(request)
            for request in plan.kept:
                await self._hand_over(workload, request, self._templates.by(_BY_WORKLOAD, workload.metadata.uid))
            results = [await self._create(workload, attempt) for attempt in plan.create]
            return min((one for one in results if one is not None), default=None)
        return None

    def _find_configs(self, workload: Workload) -> Configs:
        """Return the configurations of the workload's checks, without the checks of other controllers.

        The configuration is None if it does not exist.
        """
        checks = (self._checks.get(state.name) for state in workload.status.admission_checks)
        configs = {one.metadata.name: config_of(one, self._configs) for one in checks if one and is_ours(one)}
        return {name: config.spec if config is not None else None for name, config in configs.items()}

    async def _write_states(self, workload: Workload, states: States) -> Workload:
        before = workload.status.admission_checks
        if states == before:
            return workload
        status = msgspec.structs.replace(workload.status, admission_checks=states)
        patch = {"status": merge_patch(status, workload.status)}
        workload = await self._client.patch_object(WORKLOAD, workload, patch, subresource="status")
        for old, new in zip(before, states, strict=True):
            if old.state != new.state:
                message = f"Admission check {new.name} updated state from {old.state} to {new.state}"
                message += f" with message: {new.message}" if new.message else ""
                self._recorder.event(make_reference(WORKLOAD, workload), "Normal", "AdmissionCheckUpdated", message)
        return workload

    async def _delete(self, request: ProvisioningRequest) -> None:
        """Delete a request after its templates, so that the next request does not use one of these templates."""
        meta = request.metadata
        with ignoring("NotFound", "Conflict"):
            await self._client.delete(
                PROVISIONING_REQUEST, meta.name, meta.namespace, propagation="Foreground", uid=meta.uid
            )

    async def _create(self, workload: Workload, attempt: RequestAttempt) -> Result:
        created: list[Object] = []
        for template in attempt.templates:
            try:
                created.append(_as_object(await self._create_template(workload, template)))
            except ApiError as error:
                return await self._report(workload, attempt, f'PodTemplate "{template.metadata.name}"', error)
        name = attempt.request.metadata.name
        try:
            request = await self._client.create(PROVISIONING_REQUEST, attempt.request)
        except ApiError as error:
            return await self._report(workload, attempt, f'ProvisioningRequest "{name}"', error)
        self._unseen[key_of(workload)] = revision_of(request)
        message = f'Created ProvisioningRequest: "{name}"'
        self._recorder.event(make_reference(WORKLOAD, workload), "Normal", "ProvisioningRequestCreated", message)
        await self._hand_over(workload, request, created)
        return None

    async def _create_template(self, workload: Workload, template: PodTemplate) -> PodTemplate:
        """Create a template, or replace one that an interrupted attempt has left, perhaps for another admission."""
        try:
            return await self._client.create(POD_TEMPLATE, template)
        except ApiError as error:
            if not is_refusal(error, "AlreadyExists"):
                raise
            meta = template.metadata
            existing = await self._client.get(POD_TEMPLATE, meta.name, meta.namespace)
            if not _is_controller(workload.metadata, existing):
                raise
            await self._client.delete_object(POD_TEMPLATE, existing)
            return await self._client.create(POD_TEMPLATE, template)

    async def _report(self, workload: Workload, attempt: RequestAttempt, object_name: str, error: ApiError) -> Result:
        """Record, once, why a request could not be created; return the seconds until a retry.

        Raises the error if a retry may soon succeed.
        """
        unserved = error.code == 404 and object_name.startswith("ProvisioningRequest") and not self._requests.version
        why = "the server does not serve ProvisioningRequests" if unserved else str(error)
        message, now = f"Error creating {object_name}: {why}", self._clock.now()
        states = workload.status.admission_checks
        after = tuple(set_state(one, one.state, message, now) if one.name == attempt.check else one for one in states)
        if after != states:
            self._recorder.event(make_reference(WORKLOAD, workload), "Warning", "FailedCreate", message)
            await self._write_states(workload, after)
        if error.code in _LASTING:
            return AGAIN_SECONDS
        raise error

    async def _hand_over(self, workload: Workload, request: ProvisioningRequest, templates: Iterable[Object]) -> None:
        """Make the request the owner of its templates. Before, the workload owns them."""
        named = {one.pod_template_ref.name for one in request.spec.pod_sets}
        owner = PROVISIONING_REQUEST.refer_to_controller(request.metadata)
        for template in templates:
            if template.metadata.name in named and _is_controller(workload.metadata, template):
                patch = {"metadata": {"ownerReferences": [msgspec.to_builtins(owner)]}}
                with ignoring("NotFound", "Conflict"):
                    await self._client.patch_object(POD_TEMPLATE.seen_as(Object), template, patch)


def _as_object(template: PodTemplate) -> Object:
    return Object(metadata=template.metadata)


def _is_controller(owner: ObjectMeta, obj: Any) -> bool:
    controller = controller_of(obj.metadata)
    return controller is not None and controller.uid == owner.uid


def _index_by_check(workload: Workload) -> list[str]:
    return [check.name for check in workload.status.admission_checks]


def _list_owners(obj: Any) -> Iterator[OwnerReference]:
    """Yield the reference to the Workload that owns a request or a template.

    Kueue's references have an older API version.
    """
    for owner in obj.metadata.owner_references:
        if owner.kind == WORKLOAD.kind and owner.api_version.startswith(f"{GROUP}/"):
            yield owner


def _index_by_owner(obj: Any) -> list[str]:
    return [owner.uid for owner in _list_owners(obj)]


def _list_keys_of_owners(obj: Any) -> list[str]:
    return [f"{obj.metadata.namespace}/{owner.name}" for owner in _list_owners(obj)]


# Relevant changes.


def _is_another_check(old: AdmissionCheck | None, new: AdmissionCheck | None) -> bool:
    ours = any(one is not None and is_ours(one) for one in (old, new))
    return ours and (old is None or new is None or old.spec != new.spec)


def _is_another_config(old: ProvisioningRequestConfig | None, new: ProvisioningRequestConfig | None) -> bool:
    return old is None or new is None or old.spec != new.spec
