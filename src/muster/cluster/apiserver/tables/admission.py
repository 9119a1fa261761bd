"""The columns and cells of quotas, webhook configurations and admission policies."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from muster.api.core.quota import ResourceQuota
from muster.api.server.admissionregistration import ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding
from muster.api.values.quantity import format_canonical
from muster.cluster.apiserver.tables.printer import AGE, NAME, UNSET, Cells, Column, Printer, format_age


def _render_quota(quota: ResourceQuota, now: datetime) -> Cells:
    limits = [name for name in sorted(quota.status.hard) if name.startswith("limits.")]
    others = [name for name in sorted(quota.status.hard) if not name.startswith("limits.")]
    created = format_age(quota.metadata.creation_timestamp, now)
    return [quota.metadata.name, _format_usage(quota, others), _format_usage(quota, limits), created]


def _format_usage(quota: ResourceQuota, names: Iterable[str]) -> str:
    used, hard = quota.status.used, quota.status.hard
    return ", ".join(f"{name}: {format_canonical(used.get(name, 0))}/{format_canonical(hard[name])}" for name in names)


def _render_webhooks(configuration: Any, now: datetime) -> Cells:
    meta = configuration.metadata
    return [meta.name, len(configuration.webhooks), format_age(meta.creation_timestamp, now)]


def _render_policy(policy: ValidatingAdmissionPolicy, now: datetime) -> Cells:
    kind = policy.spec.param_kind
    shown = f"{kind.api_version}/{kind.kind}" if kind is not None else UNSET
    meta = policy.metadata
    return [meta.name, len(policy.spec.validations), shown, format_age(meta.creation_timestamp, now)]


def _render_binding(binding: ValidatingAdmissionPolicyBinding, now: datetime) -> Cells:
    reference, meta = binding.spec.param_ref, binding.metadata
    shown = UNSET
    if reference is not None:
        named = f"{reference.namespace or '*'}/{reference.name}"
        shown = named if reference.name else "<selector>"
    return [meta.name, binding.spec.policy_name, shown, format_age(meta.creation_timestamp, now)]


_WEBHOOKS = Printer(
    (NAME, Column(name="Webhooks", type="integer", description="Number of webhooks."), AGE), _render_webhooks
)

# The printers by `Kind.resource`.
ADMISSION = {
    "resourcequotas": Printer(
        (
            NAME,
            Column(name="Request", description="What is used of what, and may be."),
            Column(name="Limit", description="The sums of limits, and how large they may be."),
            AGE,
        ),
        _render_quota,
    ),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": _WEBHOOKS,
    "validatingwebhookconfigurations.admissionregistration.k8s.io": _WEBHOOKS,
    "validatingadmissionpolicies.admissionregistration.k8s.io": Printer(
        (
            NAME,
            Column(name="Validations", type="integer", description="Number of rules."),
            Column(name="ParamKind", description="Where parameters come from."),
            AGE,
        ),
        _render_policy,
    ),
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": Printer(
        (
            NAME,
            Column(name="PolicyName", description="The policy."),
            Column(name="ParamRef", description="Its parameters."),
            AGE,
        ),
        _render_binding,
    ),
}
