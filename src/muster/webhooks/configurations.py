"""Choose the writes that the server sends to the webhooks, and the effect while no webhook responds. Pure.

Two questions decide the failure policy of a rule: what would go wrong if the write were stored without the webhook, and
who would be stopped if it were not.

- An object that enters a queue is refused (`Fail`), because it would run without quota. So is every change of Kueue's
  own kinds: only people write these, and a wrong one affects many.
- Everything else is stored (`Ignore`): changes of jobs and pods, so that running and deleting never depends on the
  engine; jobs without a queue, which at worst miss the LocalQueue `default`; JobSets, which at worst miss their
  defaults and rules; pods of elastic jobs, some of which at worst start before their quota.

The server sends nothing in `kube-system` or the engine's own namespace, and no write of the engine itself, because the
engine must be able to start, and to repair, while no webhook responds.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal

from muster.api.batch import JOB
from muster.api.config import Configuration
from muster.api.core import POD
from muster.api.jobset import JOB_SET
from muster.api.kinds import Kind
from muster.api.kueue import KUEUE_KINDS, WORKLOAD
from muster.api.kueue.names import POD_SET_LABEL, QUEUE_NAME_LABEL
from muster.api.managed.pods import WORDS
from muster.api.managed.protection import HELD_KINDS
from muster.api.validation.kueue import VALIDATIONS, Validation
from muster.controllers.integrations.serving.kinds import kinds_of, select_serving
from muster.controllers.integrations.table import INTEGRATIONS, kinds_without_effect, list_enabled
from muster.webhooks.endpoints import (
    MUTATING,
    MUTATING_CONFIGURATION,
    VALIDATING,
    VALIDATING_CONFIGURATION,
    Endpoint,
    ServiceEndpoint,
)

SYSTEM_NAMESPACE: Final = "kube-system"
NAME_LABEL: Final = "kubernetes.io/metadata.name"
# Decisions are functions: a response that takes longer than this never comes.
SECONDS: Final = 10
# The timeout of writes with the policy `Ignore`. Pods are created by the thousand.
BRIEF_SECONDS: Final = 3

Json = dict[str, Any]
Policy = Literal["Fail", "Ignore"]


def webhook_configurations(
    configuration: Configuration,
    *,
    service_account: str = "",
    endpoint: Endpoint | None = None,
) -> list[Json]:
    """Return the mutating and the validating webhook configuration to install.

    They lack the authorities' bundles, which the engine's leader writes.

    service_account: the engine's account in its namespace; "" if unknown.
    endpoint: where the server reaches the webhooks; None for the Service in the Configuration.
    """
    settings = configuration.internal_cert_management
    where = endpoint or ServiceEndpoint(configuration.namespace, settings.webhook_service_name)
    hooks = _Hooks(configuration, where, service_account)
    ours = [one.kind for one in list_enabled(INTEGRATIONS, configuration)]
    serve = kinds_of(select_serving(configuration))
    return [
        _make_configuration("MutatingWebhookConfiguration", MUTATING_CONFIGURATION, hooks.mutating(ours, serve)),
        _make_configuration("ValidatingWebhookConfiguration", VALIDATING_CONFIGURATION, hooks.validating(ours, serve)),
    ]


def _make_configuration(kind: str, name: str, webhooks: Iterator[Json]) -> Json:
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}}
    return head | {"webhooks": list(webhooks)}


# Conditions, in CEL.


def _make_word_condition(object_: str, part: str, words: Sequence[str]) -> str:
    listed = ", ".join(f"'{word}'" for word in words)
    return f"has({object_}.metadata.{part}) && [{listed}].exists(w, w in {object_}.metadata.{part})"


def _make_queued_expression(object_: str) -> str:
    return f"({_make_word_condition(object_, 'labels', [QUEUE_NAME_LABEL])})"


_ASKS = _make_queued_expression("object")
_ASKS_OR_ASKED = f"{_ASKS} || (oldObject != null && {_make_queued_expression('oldObject')})"
# A job with a controlling owner belongs to that controller, unless a CronJob created it.
_OWNED = (
    "has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(o,"
    " has(o.controller) && o.controller && o.kind != 'CronJob')"
)
_STANDS_ALONE = f"!{_ASKS} && !({_OWNED})"


def _make_pod_condition(object_: str) -> str:
    return " || ".join(f"({_make_word_condition(object_, part, WORDS)})" for part in ("labels", "annotations"))


_POD_SAYS = _make_pod_condition("object")
_POD_SAYS_OR_SAID = f"{_POD_SAYS} || (oldObject != null && ({_make_pod_condition('oldObject')}))"
_POD_OF_STARTED_JOB = (
    f"{_make_word_condition('object', 'labels', [POD_SET_LABEL])} && has(object.metadata.ownerReferences)"
)


# Matches objects that name a queue but never wait. Their authors get a warning.
_IDLE: Final = "vunqueued.muster.dev"
_NO_RULES = Validation()  # except those of the schema


class _Hooks:
    """A maker of the entries of webhook configurations, with the fields that all entries share."""

    def __init__(self, configuration: Configuration, endpoint: Endpoint, service_account: str) -> None:
        self._configuration = configuration
        self._without_queue = configuration.manage_jobs_without_queue_name
        self._endpoint = endpoint
        self._has_pods = "pod" in configuration.integrations.frameworks
        outside = [{"key": NAME_LABEL, "operator": "NotIn", "values": [SYSTEM_NAMESPACE, configuration.namespace]}]
        self._elsewhere: Json = {"matchExpressions": outside}
        managed = configuration.managed_jobs_namespace_selector
        self._managed: Json = self._elsewhere
        if managed is not None:
            configured = [
                {"key": one.key, "operator": one.operator, "values": list(one.values)}
                if one.values
                else {"key": one.key, "operator": one.operator}
                for one in managed.match_expressions
            ]
            self._managed = {"matchExpressions": [*outside, *(one for one in configured if one not in outside)]}
            if managed.match_labels:
                self._managed["matchLabels"] = dict(managed.match_labels)
        user = f"system:serviceaccount:{configuration.namespace}:{service_account}"
        self._others = [_make_condition("not-the-engine", f"request.userInfo.username != '{user}'")]
        self._others = self._others if service_account else []

    def mutating(self, ours: Sequence[Kind[Any]], serve: Sequence[Kind[Any]]) -> Iterator[Json]:
        for kind in HELD_KINDS:
            yield self._make_hook(f"m{kind.kind.lower()}.kb.io", MUTATING, kind, "Fail", ["CREATE"])
        for kind in (*ours, *serve):
            yield from self._make_job_webhooks(kind)
        queue = JOB_SET in ours  # JobSets have defaults, whether they queue or not
        operations = ["UPDATE"] if queue and self._without_queue else ["CREATE", "UPDATE"]
        name, condition = "mjobset.defaults.muster.dev", f"!{_ASKS}" if queue else ""
        yield self._make_job_hook(name, MUTATING, JOB_SET, "Ignore", operations, condition)
        if self._has_pods:
            yield self._make_job_hook(
                "mpod.kb.io", MUTATING, POD, "Fail", ["CREATE"], "" if self._without_queue else _POD_SAYS
            )
        if JOB in ours or JOB_SET in ours:
            name, condition = "mpodofjob.muster.dev", _POD_OF_STARTED_JOB
            yield self._make_job_hook(name, MUTATING, POD, "Ignore", ["CREATE"], condition, seconds=BRIEF_SECONDS)

    def _make_job_webhooks(self, kind: Kind[Any]) -> Iterator[Json]:
        name = f"m{kind.kind.lower()}"
        yield self._make_job_hook(
            f"{name}.kb.io", MUTATING, kind, "Fail", ["CREATE"], "" if self._without_queue else _ASKS
        )
        if not self._without_queue and kind != JOB_SET:
            new = f"{name}.default-queue.muster.dev"
            yield self._make_job_hook(new, MUTATING, kind, "Ignore", ["CREATE"], _STANDS_ALONE, seconds=BRIEF_SECONDS)
        yield self._make_job_hook(f"{name}.changes.muster.dev", MUTATING, kind, "Ignore", ["UPDATE"], _ASKS_OR_ASKED)

    def validating(self, ours: Sequence[Kind[Any]], serve: Sequence[Kind[Any]]) -> Iterator[Json]:
        for kind in (each for each in KUEUE_KINDS if VALIDATIONS[each.resource] != _NO_RULES):
            name = f"v{kind.kind.lower()}.kb.io"
            yield self._make_hook(name, VALIDATING, kind, "Fail", ["CREATE", "UPDATE"], status=kind == WORKLOAD)
        for kind in (*ours, *serve):
            if kind != JOB_SET:
                yield from self._make_rule_webhooks(kind, "" if self._without_queue else _ASKS_OR_ASKED)
        yield from self._make_jobset_webhooks(queue=JOB_SET in ours)
        if self._has_pods:
            yield from self._make_rule_webhooks(POD, _POD_SAYS_OR_SAID)
        if idle := kinds_without_effect(self._configuration):
            first, *_ = (self._make_job_hook(_IDLE, VALIDATING, kind, "Ignore", ["CREATE"], _ASKS) for kind in idle)
            yield first | {"rules": [_make_rule(kind, ["CREATE"]) for kind in idle], "timeoutSeconds": BRIEF_SECONDS}

    def _make_rule_webhooks(self, kind: Kind[Any], condition: str) -> Iterator[Json]:
        name = f"v{kind.kind.lower()}"
        yield self._make_job_hook(f"{name}.kb.io", VALIDATING, kind, "Fail", ["CREATE"], condition)
        yield self._make_job_hook(f"{name}.changes.muster.dev", VALIDATING, kind, "Ignore", ["UPDATE"], condition)

    def _make_jobset_webhooks(self, *, queue: bool) -> Iterator[Json]:
        """Yield the webhooks that check the JobSet API's own rules. queue: whether the engine queues JobSets."""
        if queue:
            held = "" if self._without_queue else _ASKS
            yield self._make_job_hook("vjobset.kb.io", VALIDATING, JOB_SET, "Fail", ["CREATE"], held)
        if not (queue and self._without_queue):
            rest = f"!{_ASKS}" if queue else ""
            yield self._make_job_hook("vjobset.rules.muster.dev", VALIDATING, JOB_SET, "Ignore", ["CREATE"], rest)
        yield self._make_job_hook("vjobset.changes.muster.dev", VALIDATING, JOB_SET, "Ignore", ["UPDATE"], "")

    def _make_job_hook(
        self,
        name: str,
        path: str,
        kind: Kind[Any],
        policy: Policy,
        operations: Sequence[str],
        condition: str,
        *,
        seconds: int = SECONDS,
    ) -> Json:
        hook = self._make_hook(name, path, kind, policy, operations, condition, seconds=seconds)
        # JobSets have rules of their own, whether they queue or not.
        return hook if kind == JOB_SET else hook | {"namespaceSelector": self._managed}

    def _make_hook(
        self,
        name: str,
        path: str,
        kind: Kind[Any],
        policy: Policy,
        operations: Sequence[str],
        condition: str = "",
        *,
        status: bool = False,
        seconds: int = SECONDS,
    ) -> Json:
        """Return the entry of a webhook in a configuration.

        policy: what the server does while no webhook responds.
        condition: a CEL expression for requests that the webhook needs; "" for all.
        status: whether the webhook is called for the status, too.
        """
        conditions = [*self._others, *([_make_condition("concerned", condition)] if condition else [])]
        return {
            "name": name,
            "clientConfig": self._endpoint.client(path),
            "rules": [_make_rule(kind, operations, status=status)],
            "failurePolicy": policy,
            "matchPolicy": "Equivalent",
            "namespaceSelector": self._elsewhere,
            **({"matchConditions": conditions} if conditions else {}),
            "sideEffects": "None",
            "timeoutSeconds": seconds,
            "admissionReviewVersions": ["v1"],
            **({"reinvocationPolicy": "Never"} if path == MUTATING else {}),
        }


def _make_rule(kind: Kind[Any], operations: Sequence[str], *, status: bool = False) -> Json:
    return {
        "apiGroups": [kind.group],
        "apiVersions": [kind.version],
        "operations": list(operations),
        "resources": [kind.plural, f"{kind.plural}/status"] if status else [kind.plural],
        "scope": "Namespaced" if kind.namespaced else "Cluster",
    }


def _make_condition(name: str, expression: str) -> Json:
    return {"name": name, "expression": expression}
