"""The rules of a Configuration, with upstream's order, paths and messages (kueue, pkg/config/validation.go).

One thing is not checked here: that the expressions of device selectors compile.
"""

from typing import Final

from muster.api.config import frameworks, rules_dashboard, rules_metrics, rules_resources, tls
from muster.api.config.file import ConfigurationFile
from muster.api.config.types import (
    EARLIEST_START,
    INCREMENTAL,
    AccessProvider,
    AdmissionFairSharing,
    Configuration,
    FairSharing,
    MultiKueue,
    WaitForPodsReady,
)
from muster.api.validation import addresses, names
from muster.api.validation.fields import (
    NOT_NEGATIVE,
    Errors,
    duplicate,
    forbidden,
    invalid,
    required,
    unsupported,
    validate_not_negative,
)
from muster.api.validation.metadata import validate_label_selector
from muster.api.values import durations
from muster.api.values.selectors import SelectorError, label_matcher

_FINAL_SHARE: Final = "LessThanOrEqualToFinalShare"
_INITIAL_SHARE: Final = "LessThanInitialShare"
_STRATEGIES: Final = ((_FINAL_SHARE,), (_INITIAL_SHARE,), (_FINAL_SHARE, _INITIAL_SHARE))
_INTERACTIVE_MODES: Final = ("Never", "IfAvailable", "Always")
_MAX_PORT: Final = 65535
# client-go waits at most this many periods before it tries to renew.
_JITTER: Final = 1.2


def validate_configuration(written: ConfigurationFile, configuration: Configuration) -> Errors:
    """Yield all errors in the settings, and in their spellings in the file.

    For example, `timeout` and `timeoutSeconds` exclude each other.
    """
    for gate, problem in configuration.features.problems():
        yield invalid("featureGates", {gate: configuration.feature_gates.get(gate, True)}, problem)
    yield from _validate_spellings(written)
    if configuration.wait_for_pods_ready is not None:
        yield from _wait_for_pods_ready(configuration.wait_for_pods_ready)
    yield from _validate_integrations(configuration)
    yield from _validate_multi_kueue(configuration)
    if configuration.fair_sharing is not None:
        yield from _validate_fair_sharing(configuration.fair_sharing)
    if configuration.admission_fair_sharing is not None:
        yield from _validate_admission_fair_sharing(configuration.admission_fair_sharing)
    yield from _validate_certificates(configuration)
    yield from rules_resources.validate_resources(configuration)
    yield from _validate_namespaces(configuration)
    workloads = configuration.object_retention_policies.workloads
    path = "objectRetentionPolicies.workloads"
    yield from _validate_not_negative(f"{path}.afterFinished", workloads.after_finished)
    yield from _validate_not_negative(f"{path}.afterDeactivatedByKueue", workloads.after_deactivated_by_kueue)
    yield from _validate_tls(configuration)
    yield from _validate_visibility(configuration)
    yield from _validate_webhook(configuration)
    yield from _validate_leader_election(configuration)
    yield from rules_metrics.validate_custom_labels(configuration.metrics.custom_labels)
    scheduling, path = configuration.muster.scheduling, "muster.scheduling"
    yield from validate_not_negative(f"{path}.overtakings", scheduling.overtakings)
    yield from _validate_not_negative(f"{path}.minimumRunTime", scheduling.minimum_run_time)
    yield from _validate_not_negative(f"{path}.recoveryTimeout", scheduling.recovery_timeout)
    history, place = configuration.muster.history, "muster.history"
    yield from _validate_not_negative(f"{place}.maxAge", history.max_age)
    yield from validate_not_negative(f"{place}.maxRecords", history.max_records)
    yield from validate_not_negative(f"{place}.maxDecisionBytes", history.max_decision_bytes)
    yield from rules_dashboard.validate_dashboard("muster.dashboard", configuration.muster.dashboard)
    nodes = configuration.muster.nodes
    if nodes.monitor_grace_period <= 0:
        period = durations.format(nodes.monitor_grace_period)
        yield invalid("muster.nodes.monitorGracePeriod", period, "must be greater than 0")
    yield from validate_not_negative("muster.nodes.defaultTolerationSeconds", nodes.default_toleration_seconds)
    provisioning = scheduling.provisioning_class_name
    if provisioning and (sentences := names.dns_subdomain(provisioning)):
        yield invalid(f"{path}.provisioningClassName", provisioning, ",".join(sentences))
    starts = configuration.muster.group_scheduling
    for field, address in (("bindAddress", starts.bind_address), ("address", starts.address)):
        if address and not _is_address(address):
            yield invalid(f"muster.groupScheduling.{field}", address, "must be host:port")
    if sentences := names.dns_label(configuration.muster.job_set_namespace):
        yield invalid("muster.jobSetNamespace", configuration.muster.job_set_namespace, ",".join(sentences))


def _is_address(text: str) -> bool:
    """Return whether the text is host:port, as one word."""
    host, _, port = text.rpartition(":")
    is_port = port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= _MAX_PORT
    return bool(host) and is_port and not any(letter.isspace() for letter in text)


def _validate_spellings(written: ConfigurationFile) -> Errors:
    wait = written.wait_for_pods_ready
    if wait is not None and wait.timeout is not None and wait.timeout_seconds is not None:
        sentence = (
            "may not be given together with timeout: the one counts from the job's start, the other from admission"
        )
        yield forbidden("waitForPodsReady.timeoutSeconds", sentence)


def _validate_not_negative(path: str, duration: int | None) -> Errors:
    """Check that the duration is 0 or more."""
    if duration is not None and duration < 0:
        yield invalid(path, durations.format(duration), NOT_NEGATIVE)


def _wait_for_pods_ready(wait: WaitForPodsReady) -> Errors:
    path = "waitForPodsReady"
    timeout = f"{path}.timeout" if wait.clock == "Admitted" else f"{path}.timeoutSeconds"
    if wait.timeout == 0:
        yield required(timeout, "must be specified")
    yield from _validate_not_negative(timeout, wait.timeout)
    if wait.recovery_timeout != wait.timeout:  # if they are equal, another rule reports the error
        yield from _validate_not_negative(f"{path}.recoveryTimeout", wait.recovery_timeout)
    strategy = wait.requeuing_strategy
    yield from validate_not_negative(f"{path}.requeuingStrategy.backoffLimitCount", strategy.backoff_limit_count)
    yield from validate_not_negative(f"{path}.requeuingStrategy.backoffBaseSeconds", strategy.backoff_base_seconds)
    yield from validate_not_negative(f"{path}.requeuingStrategy.backoffMaxSeconds", strategy.backoff_max_seconds)


def _validate_integrations(configuration: Configuration) -> Errors:
    managed = set()
    for i, name in enumerate(configuration.integrations.frameworks):
        path = f"integrations.frameworks[{i}]"
        known = frameworks.FRAMEWORKS.get(name)
        if known is None:
            yield unsupported(path, name, sorted(frameworks.FRAMEWORKS))
        elif known in managed:
            yield duplicate(path, name)
        managed.add(known)
    for i, name in enumerate(configuration.integrations.external_frameworks):
        path = f"integrations.externalFrameworks[{i}]"
        kind = frameworks.parse(name)
        if kind is None:
            yield invalid(path, name, "must be format, 'Kind.version.group.com'")
        elif kind in managed:
            yield duplicate(path, name)
        managed.add(kind)


def _validate_multi_kueue(configuration: Configuration) -> Errors:
    path, multi = "multiKueue", configuration.multi_kueue
    yield from _validate_not_negative(f"{path}.gcInterval", multi.gc_interval)
    yield from _validate_not_negative(f"{path}.workerLostTimeout", multi.worker_lost_timeout)
    if sentences := names.label_value(multi.origin):
        yield invalid(f"{path}.origin", multi.origin, ",".join(sentences))
    yield from _validate_dispatched_frameworks(configuration)
    yield from _validate_cluster_profile(f"{path}.clusterProfile", multi)
    if multi.dispatcher_name.startswith("muster.dev/") and multi.dispatcher_name != EARLIEST_START:
        yield unsupported(f"{path}.dispatcherName", multi.dispatcher_name, [EARLIEST_START])
    dispatcher = multi.incremental_dispatcher_config
    if dispatcher is not None:
        inside = f"{path}.incrementalDispatcherConfig"
        if multi.dispatcher_name != INCREMENTAL:
            sentence = (
                "incrementalDispatcherConfig is only valid when dispatcherName is set to the incremental dispatcher"
            )
            yield invalid(inside, {"stepSize": dispatcher.step_size}, sentence)
        if dispatcher.step_size < 1:
            yield invalid(f"{inside}.stepSize", dispatcher.step_size, "must be greater than or equal to 1")


def _validate_dispatched_frameworks(configuration: Configuration) -> Errors:
    enabled = set(configuration.integrations.frameworks) - frameworks.NOT_DISPATCHED
    built_in = {kind for name, kind in frameworks.FRAMEWORKS.items() if name in enabled}
    seen = set()
    for i, framework in enumerate(configuration.multi_kueue.external_frameworks):
        path = f"multiKueue.externalFrameworks[{i}].name"
        kind = frameworks.parse(framework.name)
        if kind is None:
            yield invalid(path, framework.name, "must be in 'kind.version.group' format")
            continue
        if kind in seen:
            yield duplicate(path, framework.name)
        if kind in built_in:
            yield invalid(path, framework.name, "conflicts with a built-in MultiKueue adapter")
        seen.add(kind)


def _validate_cluster_profile(path: str, multi: MultiKueue) -> Errors:
    profile = multi.cluster_profile
    if profile is None:
        return
    if profile.access_providers and profile.credentials_providers:
        yield forbidden(f"{path}.credentialsProviders", "must not be specified when accessProviders is specified")
    if profile.access_providers:
        yield from _validate_providers(f"{path}.accessProviders", profile.access_providers)
    else:
        yield from _validate_providers(f"{path}.credentialsProviders", profile.credentials_providers)


def _validate_providers(path: str, providers: tuple[AccessProvider, ...]) -> Errors:
    for i, provider in enumerate(providers):
        inside, credentials = f"{path}[{i}].execConfig", provider.exec_config
        for place, value in (
            (f"{path}[{i}].name", provider.name),
            (f"{inside}.command", credentials.command),
            (f"{inside}.apiVersion", credentials.api_version),
            *((f"{inside}.env[{j}].name", variable.name) for j, variable in enumerate(credentials.env)),
            (f"{inside}.interactiveMode", credentials.interactive_mode),
        ):
            if not value:
                yield required(place, "must be specified")
        if credentials.interactive_mode not in ("", *_INTERACTIVE_MODES):
            yield unsupported(f"{inside}.interactiveMode", credentials.interactive_mode, _INTERACTIVE_MODES)


def _validate_fair_sharing(sharing: FairSharing) -> Errors:
    path = "fairSharing.preemptionStrategies"
    if not sharing.preemption_strategies:
        yield required(path, "must be specified")
    elif sharing.preemption_strategies not in _STRATEGIES:
        yield unsupported(path, sharing.preemption_strategies, (",".join(strategies) for strategies in _STRATEGIES))


def _validate_admission_fair_sharing(sharing: AdmissionFairSharing) -> Errors:
    path = "admissionFairSharing"
    yield from _validate_not_negative(f"{path}.usageHalfLifeTime", sharing.usage_half_life_time)
    if sharing.usage_sampling_interval <= 0:
        interval = durations.format(sharing.usage_sampling_interval)
        yield invalid(f"{path}.usageSamplingInterval", interval, "must be greater than 0")
    for resource, weight in sorted(sharing.resource_weights.items()):
        if weight < 0:
            yield invalid(f"{path}.resourceWeights[{resource}]", weight, NOT_NEGATIVE)


def _validate_certificates(configuration: Configuration) -> Errors:
    path, certificates = "internalCertManagement", configuration.internal_cert_management
    if not certificates.enable:
        return
    service, secret = certificates.webhook_service_name, certificates.webhook_secret_name
    if sentences := names.dns_1035_label(service):
        yield invalid(f"{path}.webhookServiceName", service, ",".join(sentences))
    if sentences := names.dns_subdomain(secret):
        yield invalid(f"{path}.webhookSecretName", secret, ",".join(sentences))


def _validate_namespaces(configuration: Configuration) -> Errors:
    """Check that the jobs of system namespaces are never managed, because the engine could not recover without them."""
    if configuration.namespace and (sentences := names.dns_label(configuration.namespace)):
        yield invalid("namespace", configuration.namespace, ",".join(sentences))
        return  # the default selector is made from the invalid namespace
    path, selector = "managedJobsNamespaceSelector", configuration.managed_jobs_namespace_selector
    if selector is None:
        return
    yield from validate_label_selector(path, selector)
    try:
        matcher = label_matcher(selector)
    except SelectorError:
        return  # another rule reports the error
    for namespace in dict.fromkeys(("kube-system", configuration.namespace)):
        if namespace and matcher.matches({"kubernetes.io/metadata.name": namespace}):
            yield invalid(path, selector, f'should not match the "{namespace}" namespace')


def _validate_tls(configuration: Configuration) -> Errors:
    options = configuration.tls
    if options is None:
        return
    problems = list(tls.find_problems(options))
    for problem in problems:
        yield invalid("tls", options, problem)
    if not problems and options.min_version == tls.NEWEST and options.cipher_suites:
        sentence = "may not be specified when `minVersion` is 'VersionTLS13'"
        yield invalid("tls.cipherSuites", options.cipher_suites, sentence)


def _validate_visibility(configuration: Configuration) -> Errors:
    path, server = "visibilityServer", configuration.visibility_server
    if server.bind_address is not None and addresses.parse(server.bind_address) is None:
        yield invalid(f"{path}.bindAddress", server.bind_address, "must be a valid IP address")
    if not 1 <= server.bind_port <= _MAX_PORT:
        yield invalid(f"{path}.bindPort", server.bind_port, f"must be a valid port number (1-{_MAX_PORT})")


def _validate_webhook(configuration: Configuration) -> Errors:
    """Check the port of the webhooks. Upstream checks it only when the webhook server starts."""
    port = configuration.webhook.port
    if not 0 <= port <= _MAX_PORT:
        yield invalid("webhook.port", port, f"must be a valid port number (1-{_MAX_PORT})")


def _validate_leader_election(configuration: Configuration) -> Errors:
    """Check client-go's rules of leader election, whose violation ends upstream's start."""
    path, election = "leaderElection", configuration.leader_election
    if not election.leader_elect:
        return
    if election.resource_lock != "leases":
        yield unsupported(f"{path}.resourceLock", election.resource_lock, ("leases",))
    if election.retry_period <= 0:
        yield invalid(f"{path}.retryPeriod", durations.format(election.retry_period), "must be greater than 0")
    if election.renew_deadline <= _JITTER * election.retry_period:
        renew = durations.format(election.renew_deadline)
        yield invalid(f"{path}.renewDeadline", renew, f"must be greater than {_JITTER} times retryPeriod")
    if election.lease_duration <= election.renew_deadline:
        lease = durations.format(election.lease_duration)
        yield invalid(f"{path}.leaseDuration", lease, "must be greater than renewDeadline")
