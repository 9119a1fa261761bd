"""What is installed: whole, in order, the same each time, and with no more rights than the engine asks for."""

from typing import Any

import click
import msgspec
import pytest
import yaml

from muster.api.config import load
from muster.cli.commands.kubernetes import controllers
from muster.cli.terminal.output import dump
from muster.controllers.engine import Part, assemble
from muster.install.deployment import make_command
from muster.install.documents import make_documents
from muster.install.options import PART_OF, Options, make_default_configuration
from muster.install.rights import cluster_rules, local_rules
from muster.operator.replica import PARTS
from muster.runtime.client import Client
from muster.runtime.clock import VirtualClock, run_virtual
from muster.runtime.control.manager import STOP_LIMIT_SECONDS, Manager
from muster.runtime.events.recorder import EventSink
from muster.runtime.ids import Ids, Random

Json = dict[str, Any]


def options(more: str = "", **others: Any) -> Options:
    """With the plain Configuration, and more lines of it."""
    text = make_default_configuration() + more
    return Options(text, load(text), **others)


def of_kind(kind: str, found: list[Json]) -> list[Json]:
    return [document for document in found if document["kind"] == kind]


NOT_SHOWN = "featureGates: {VisibilityOnDemand: false}\n"
ALL = make_documents(options())
# Without the definitions, which have tests of their own.
OURS = [each for each in ALL if each["kind"] != "CustomResourceDefinition"]


def test_the_same_options_make_the_same_documents():
    assert make_documents(options()) == ALL
    keys = [(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in ALL]
    assert len(set(keys)) == len(keys)


def test_what_others_need_stands_before_them():
    kinds = list(dict.fromkeys(each["kind"] for each in ALL))
    assert kinds[:3] == ["Namespace", "CustomResourceDefinition", "ServiceAccount"]
    assert kinds[-5:-3] == ["Deployment", "PodDisruptionBudget"]
    assert kinds[-1] == "APIService"


def test_all_of_it_is_found_by_its_label():
    assert all(PART_OF.items() <= each["metadata"]["labels"].items() for each in ALL)


def test_all_that_is_in_a_namespace_is_in_the_engines():
    text = make_default_configuration("batch")
    found = make_documents(Options(text, load(text), image="example/muster:1", replicas=3))
    elsewhere = [each for each in found if each["metadata"].get("namespace", "batch") != "batch"]
    assert [(each["kind"], each["roleRef"]["name"]) for each in elsewhere] == [
        ("RoleBinding", "extension-apiserver-authentication-reader")
    ]
    subjects = [subject for each in found for subject in each.get("subjects", ())]
    assert {subject["namespace"] for subject in subjects} == {"batch"}
    (deployment,) = of_kind("Deployment", found)
    assert deployment["spec"]["replicas"] == 3
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "example/muster:1"
    (config,) = of_kind("ConfigMap", found)
    assert config["data"]["config.yaml"] == text


def test_the_lease_is_where_the_configuration_has_it():
    found = make_documents(
        options("leaderElection: {leaderElect: true, resourceNamespace: leases, resourceName: mine}\n")
    )
    roles = {each["metadata"]["name"]: each for each in of_kind("Role", found)}
    assert roles["muster-leader-election"]["metadata"]["namespace"] == "leases"
    assert roles["muster-leader-election"]["rules"][1]["resourceNames"] == ["mine"]
    assert roles["muster-worker-clusters"]["metadata"]["namespace"] == "kueue-system"


# The Deployment.


def container(found: list[Json]) -> Any:
    (deployment,) = of_kind("Deployment", found)
    (only,) = deployment["spec"]["template"]["spec"]["containers"]
    return only


@pytest.mark.parametrize("webhooks", [True, False])
def test_its_command_is_one_that_muster_has(webhooks: bool):
    program, name, *arguments = make_command(options(webhooks=webhooks))
    assert (program, name) == ("muster", "controllers")
    assert isinstance(controllers.command.make_context(name, list(arguments)), click.Context)


def test_a_pod_needs_no_more_than_the_restricted_standard_allows():
    (deployment,) = of_kind("Deployment", ALL)
    pod, only = deployment["spec"]["template"]["spec"], container(ALL)
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert only["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {each["name"] for each in only["volumeMounts"]} == {each["name"] for each in pod["volumes"]}
    assert all("configMap" in each or "emptyDir" in each for each in pod["volumes"])


def test_its_ports_are_those_of_the_configuration():
    more = 'health: {healthProbeBindAddress: ":9081", readinessEndpointName: up}\nmetrics: {bindAddress: ":9443"}\n'
    only = container(make_documents(options(more + NOT_SHOWN, webhooks=False)))
    assert only["ports"] == [{"name": "probes", "containerPort": 9081}, {"name": "metrics", "containerPort": 9443}]
    assert only["readinessProbe"]["httpGet"] == {"path": "/up", "port": "probes"}


def test_what_is_not_served_is_not_asked_for():
    more = 'health: {healthProbeBindAddress: "0"}\nmetrics: {bindAddress: "0"}\n'
    found = make_documents(options(more + NOT_SHOWN, webhooks=False))
    assert not {"readinessProbe", "livenessProbe"} & container(found).keys()
    assert container(found)["ports"] == []
    assert not of_kind("Service", found)
    assert "tokenreviews" not in str(of_kind("ClusterRole", found))


def test_other_settings_are_other_pods():
    def annotations(found: list[Json]) -> Any:
        return of_kind("Deployment", found)[0]["spec"]["template"]["metadata"]["annotations"]

    assert annotations(make_documents(options())) == annotations(ALL)
    assert annotations(make_documents(options("manageJobsWithoutQueueName: true\n"))) != annotations(ALL)


def test_without_an_election_one_replica_goes_before_the_next_comes():
    (elected,) = of_kind("Deployment", ALL)
    (alone,) = of_kind("Deployment", make_documents(options("leaderElection: {leaderElect: false}\n", replicas=1)))
    assert "strategy" not in elected["spec"]
    assert alone["spec"]["strategy"] == {"type": "Recreate"}


def test_a_replica_has_time_to_answer_to_finish_and_to_give_back_the_lease():
    (deployment,) = of_kind("Deployment", ALL)
    still_asked = container(ALL)["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert still_asked > 0
    grace = deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert grace > still_asked + STOP_LIMIT_SECONDS


# Webhooks.


def test_the_server_asks_the_service_that_is_installed():
    names = {each["metadata"]["name"] for each in of_kind("Service", ALL)}
    hooks = [hook for each in ALL for hook in each.get("webhooks", ())]
    asked = [hook["clientConfig"]["service"] for hook in hooks]
    conversions = [each["spec"]["conversion"] for each in of_kind("CustomResourceDefinition", ALL)]
    asked += [one["webhook"]["clientConfig"]["service"] for one in conversions if one["strategy"] == "Webhook"]
    assert hooks
    assert len(asked) > len(hooks)
    assert {service["name"] for service in asked} <= names
    assert {service["namespace"] for service in asked} == {"kueue-system"}
    assert {"name": "webhooks", "containerPort": 9443} in container(ALL)["ports"]


def test_without_webhooks_nobody_is_asked_and_nothing_is_served():
    found = make_documents(options(NOT_SHOWN, webhooks=False))
    others = [each for each in found if each["kind"] != "CustomResourceDefinition"]  # pods' fields tell of webhooks
    assert not [each for each in others if "webhook" in str(each).lower().replace("--without-webhooks", "")]
    assert {one["spec"]["conversion"]["strategy"] for one in of_kind("CustomResourceDefinition", found)} == {"None"}


@pytest.mark.parametrize(("enable", "verbs"), [("true", {"create", "patch"}), ("false", set())])
def test_the_secret_of_the_certificate_is_written_only_if_it_is_made_here(enable: str, verbs: set[str]):
    roles = local_rules(options(f"internalCertManagement: {{enable: {enable}}}\n"))
    (rules,) = [found for name, _, found in roles if name == "muster-certificates"]
    assert {verb for rule in rules for verb in rule["verbs"]} - {"get", "list", "watch"} == verbs


# The visibility API.


@pytest.mark.parametrize("webhooks", [True, False])
def test_who_asks_for_who_waits_is_led_to_the_leader(webhooks: bool):
    found = make_documents(options(webhooks=webhooks))
    asked = [each["spec"] for each in of_kind("APIService", found)]
    assert [each["metadata"]["name"] for each in of_kind("APIService", found)] == [
        "v1beta2.visibility.kueue.x-k8s.io",
        "v1beta1.visibility.kueue.x-k8s.io",
    ]
    assert asked[0]["versionPriority"] > asked[1]["versionPriority"]
    services = {each["metadata"]["name"]: each["spec"] for each in of_kind("Service", found)}
    (service,) = (services[name] for name in {spec["service"]["name"] for spec in asked})
    (deployment,) = of_kind("Deployment", found)
    pods = deployment["spec"]["template"]["metadata"]["labels"]
    assert service["selector"].items() - pods.items() == {("muster.dev/leader", "true")}
    assert {"name": "visibility", "containerPort": 8082} in container(found)["ports"]


def test_where_nobody_is_shown_who_waits_nothing_is_asked_for():
    found = make_documents(options(NOT_SHOWN))
    assert not of_kind("APIService", found)
    assert "visibility-server" not in str(found)
    assert "muster-visibility" not in cluster_rules(options(NOT_SHOWN))


# Rights.


def allowed(rules: list[Json]) -> set[tuple[str, str, str]]:
    """Group, resource and verb."""
    return {
        (group, resource, verb)
        for rule in rules
        if "resourceNames" not in rule
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


EVERYTHING = """\
multiKueue: {clusterProfile: {}, externalFrameworks: [{name: Sweep.v1.example.com}]}
featureGates: {MultiKueueManagerQuotaAutomation: true}
fairSharing: {preemptionStrategies: [LessThanInitialShare]}
admissionFairSharing: {usageHalfLifeTime: 1h}
muster: {scheduling: {provisioningClassName: best}, apis: [scheduling.k8s.io/v1alpha2]}
"""


@pytest.mark.parametrize("more", ["", EVERYTHING], ids=["plain", "everything"])
@pytest.mark.parametrize("part", PARTS)
def test_each_part_may_read_what_it_follows(part: Part, more: str):
    run_virtual(follows_what_it_may_read(part, options(more)))


async def follows_what_it_may_read(part: Part, chosen: Options) -> None:
    manager = Manager(Client(None), VirtualClock(), Random())  # type: ignore[arg-type]  # nothing is asked
    events = EventSink(manager.client, manager.clock, Ids(), manager.random)
    assemble(manager, events, chosen.settings, [part])
    rules = cluster_rules(chosen)
    may = allowed(rules["muster-engine"] + rules[f"muster-{part.value}"])
    local = {"": may} | {place: may | allowed(found) for _, place, found in local_rules(chosen)}
    followed = [(kind, where) for kind, where, _, fields in manager._informers if not fields]
    assert followed
    for kind, where in followed:
        for verb in ("list", "watch"):
            assert (kind.group, kind.plural, verb) in local[where], f"{part} cannot {verb} {kind.resource}"


def test_the_webhooks_read_the_jobs_that_queue():
    more = make_default_configuration().partition("integrations:")[0]
    named = more + "integrations: {frameworks: [batch/job], externalFrameworks: [JobSet.v1alpha2.jobset.x-k8s.io]}\n"
    for text, read in {
        make_default_configuration(): {"jobs", "jobsets"},
        more + "integrations: {frameworks: [batch/job]}\n": {"jobs"},
        named: {"jobs", "jobsets"},
    }.items():
        may = allowed(cluster_rules(Options(text, load(text)))["muster-webhooks"])
        assert {resource for group, resource, _ in may if group in ("batch", "jobset.x-k8s.io")} == read


def test_the_engine_reads_no_secret_outside_its_namespace_and_has_no_rule_for_all():
    rules = [rule for found in cluster_rules(options(EVERYTHING)).values() for rule in found]
    assert not any("secrets" in rule["resources"] for rule in rules)
    assert "*" not in str(rules)
    assert not any(group == "rbac.authorization.k8s.io" for rule in rules for group in rule["apiGroups"])


def test_what_is_written_may_be_looked_at_where_it_is_written():
    may = allowed([rule for found in cluster_rules(options(EVERYTHING)).values() for rule in found])
    written = {(group, resource) for group, resource, verb in may if verb == "patch"} - {("", "events")}
    assert written == {(group, resource) for group, resource in written if (group, resource, "get") in may}


def test_people_have_their_rights_by_kueues_names():
    roles = {each["metadata"]["name"]: each for each in of_kind("ClusterRole", ALL)}
    for name, label in {"kueue-batch-admin-role": "batch-admin", "kueue-batch-user-role": "batch-user"}.items():
        (selector,) = roles[name]["aggregationRule"]["clusterRoleSelectors"]
        assert selector["matchLabels"] == {f"rbac.kueue.x-k8s.io/{label}": "true"}

    def gathered(label: str) -> set[tuple[str, str, str]]:
        found = [each for each in roles.values() if each["metadata"]["labels"].get(label) == "true"]
        return allowed([rule for each in found for rule in each["rules"]])

    batch, quota = "rbac.kueue.x-k8s.io/batch", "kueue.x-k8s.io"
    assert (quota, "clusterqueues", "update") in gathered(f"{batch}-admin")
    assert (quota, "clusterqueues", "update") not in gathered(f"{batch}-user")
    assert ("batch", "jobs", "create") in gathered(f"{batch}-user")
    within = "rbac.authorization.k8s.io/aggregate-to"
    assert ("jobset.x-k8s.io", "jobsets", "create") in gathered(f"{within}-edit") == gathered(f"{within}-admin")
    assert {verb for _, _, verb in gathered(f"{within}-view")} == {"get", "list", "watch"}
    assert (quota, "workloads", "list") in gathered(f"{within}-view")


def test_it_is_yaml_that_reads_back_as_it_was_written():
    again = [yaml.load(dump(each, "yaml") + "\n", yaml.CSafeLoader) for each in OURS]
    assert msgspec.json.encode(again) == msgspec.json.encode(OURS)
