"""The Helm chart installs what `muster manifests` prints: by `helm` where one is on PATH, and by the few constructs of
its templates everywhere.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.gotemplates import Chart, FailError

from muster.api.config import load
from muster.install.documents import make_documents
from muster.install.options import Options, make_default_configuration

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "muster"
VALUES = yaml.load((CHART / "values.yaml").read_text(), yaml.CSafeLoader)
CONFIGURATION = VALUES["managerConfig"]["controllerManagerConfigYaml"]

Render = Callable[[Mapping[str, Any], str], list[Any]]


def by_constructs(values: Mapping[str, Any], namespace: str) -> list[Any]:
    return Chart(CHART, values, namespace).render()


def by_helm(values: Mapping[str, Any], namespace: str) -> list[Any]:
    command = ["helm", "template", "muster", str(CHART), "-n", namespace, "-f", "-"]
    done = subprocess.run(command, input=json.dumps(values), capture_output=True, text=True, check=False)
    if done.returncode:
        raise FailError(done.stderr)
    return [document for document in yaml.load_all(done.stdout, yaml.CSafeLoader) if document]


def chart(render: Render, values: Mapping[str, Any], namespace: str = "kueue-system") -> dict[Any, Any]:
    """What is rendered, by kind, namespace and name."""
    found = render(values, namespace)
    keyed = {key(document): comparable(document) for document in found}
    assert len(keyed) == len(found)
    return keyed


def key(document: Any) -> tuple[str, str, str]:
    return document["kind"], document["metadata"].get("namespace", ""), document["metadata"]["name"]


def comparable(document: Any) -> Any:
    """The Configuration as what it says, and not its digest: spaces count in that. The chart keeps definitions."""
    if document["kind"] == "ConfigMap":
        return document | {"data": {name: yaml.safe_load(text) for name, text in document["data"].items()}}
    if document["kind"] == "Deployment":
        said = document["spec"]["template"]["metadata"]["annotations"]
        assert re.fullmatch("[0-9a-f]{16}", said.pop("muster.dev/configuration"))
    for hook in document.get("webhooks", ()):
        # The Configuration may say again what stands there anyhow.
        expressions = hook["namespaceSelector"]["matchExpressions"]
        hook["namespaceSelector"]["matchExpressions"] = [
            one for number, one in enumerate(expressions) if one not in expressions[:number]
        ]
    if document["kind"] == "CustomResourceDefinition":
        annotations = document["metadata"].get("annotations", {})
        annotations.pop("helm.sh/resource-policy", None)
        if not annotations:
            document["metadata"].pop("annotations", None)
    return document


def manifests(text: str, namespace: str = "kueue-system", **more: Any) -> dict[Any, Any]:
    """What `muster manifests` prints, but for the namespace: helm makes it."""
    said = (
        text + f"\nnamespace: {namespace}\n" + ("internalCertManagement: {enable: false}\n" * ("cert_manager" in more))
    )
    found = json.loads(json.dumps(make_documents(Options(said, load(said), **more))))
    return {key(each): comparable(each) for each in found if each["kind"] != "Namespace"}


RENDERERS = [
    pytest.param(by_constructs, id="constructs"),
    pytest.param(by_helm, id="helm", marks=pytest.mark.skipif(not shutil.which("helm"), reason="no helm on PATH")),
]


@pytest.mark.parametrize("render", RENDERERS)
def test_at_its_default_values_it_is_what_muster_manifests_prints(render: Render) -> None:
    assert yaml.safe_load(CONFIGURATION) | {"namespace": "kueue-system"} == yaml.safe_load(make_default_configuration())
    assert chart(render, {}) == manifests(CONFIGURATION)


SELECTOR = """
managedJobsNamespaceSelector:
  matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system, kueue-system]}]
  matchLabels: {team: blue}
"""
PORTS = """
metrics: {bindAddress: ":9001"}
health: {healthProbeBindAddress: "0.0.0.0:9002"}
webhook: {port: 9003}
visibilityServer: {bindPort: 9004}
leaderElection: {leaderElect: true, resourceName: mine, resourceNamespace: leases}
"""
NAMES = "\ninternalCertManagement: {enable: true, webhookServiceName: asks, webhookSecretName: pair}\n"
PROXY = "\nmuster: {{dashboard: {{identityHeaders: {{userHeader: X-User, secretHeader: X-Secret{more}}}}}}}\n"
NONE = {"kueue": False, "jobset": False, "podgroups": False}
# Values; more of the Configuration; the options that are the same.
CASES: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    "without webhooks": ({"enableWebhooks": False}, "", {"webhooks": False}),
    "cert-manager": ({"enableCertManager": True}, "", {"cert_manager": True}),
    "cert-manager for the visibility API alone": (
        {"enableCertManager": True, "enableWebhooks": False}, "", {"cert_manager": True, "webhooks": False},
    ),
    "monitoring": ({"enablePrometheus": True}, "", {"monitoring": True}),
    "the dashboard": ({"enableDashboard": True}, "", {"dashboard": True}),
    "the dashboard behind a proxy that hands over tokens": (
        {"enableDashboard": True}, "\nmuster: {dashboard: {tokenHeader: X-Token}}\n", {"dashboard": True},
    ),
    "the dashboard behind a proxy that names viewers": (
        {"enableDashboard": True}, PROXY.format(more=""), {"dashboard": True},
    ),
    "the dashboard behind a proxy that names viewers and groups": (
        {"enableDashboard": True},
        PROXY.format(more=", groupsHeader: X-Groups, allowedGroups: [lab, vision], allowedUsers: [alice, bob]"),
        {"dashboard": True},
    ),
    "the dashboard behind a proxy that tells more of viewers": (
        {"enableDashboard": True},
        PROXY.format(more=", extraHeaders: {example.com/team: X-Team, desk: X-Desk}, secretName: proof"),
        {"dashboard": True},
    ),
    "a proxy of no dashboard": ({}, PROXY.format(more=""), {}),
    "no metrics": ({"enablePrometheus": True}, '\nmetrics: {bindAddress: "0"}\n', {"monitoring": True}),
    "some kinds": ({"definitions": {"jobset": False, "podgroups": False}}, "", {"kinds": ("kueue",)}),
    "all jobs of some namespaces": ({}, "\nmanageJobsWithoutQueueName: true" + SELECTOR, {}),
    "jobs of some namespaces": ({}, SELECTOR, {}),
    "ports and the Lease": ({}, PORTS, {}),
    "names of the webhooks": ({}, NAMES, {}),
    "one replica that nobody elects": (
        {"controllerManager": {"replicas": 1}}, "\nleaderElection: {leaderElect: false}\n", {"replicas": 1},
    ),
    "no visibility API": ({}, "\nfeatureGates: {VisibilityOnDemand: false}\n", {}),
    "nothing served": (
        {"enableWebhooks": False}, "\nfeatureGates: {VisibilityOnDemand: false}\n", {"webhooks": False},
    ),
    "machines and clusters from outside": (
        {}, "\nmuster: {scheduling: {provisioningClassName: best}}\nmultiKueue: {clusterProfile: {}}\n", {},
    ),
    "another image": (
        {"controllerManager": {"manager": {"image": {"repository": "r.example.com/muster", "tag": "2"}}}}, "",
        {"image": "r.example.com/muster:2"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("render", RENDERERS)
@pytest.mark.parametrize("case", CASES)
def test_its_values_are_options_of_muster_manifests(render: Render, case: str) -> None:
    values, more, options = CASES[case]
    text = CONFIGURATION + more
    values = {"managerConfig": {"controllerManagerConfigYaml": text}} | values
    if more:  # definitions do not depend on it
        values, options = values | {"definitions": NONE}, options | {"kinds": ()}
    assert chart(render, values) == manifests(text, **options)


@pytest.mark.parametrize("render", RENDERERS)
def test_it_is_installed_in_the_namespace_of_the_release(render: Render) -> None:
    assert chart(render, {}, "batch") == manifests(CONFIGURATION, "batch")


@pytest.mark.parametrize("render", RENDERERS)
def test_its_pods_are_as_operators_say(render: Render) -> None:
    manager = {
        "image": {"pullPolicy": "Always"}, "priorityClassName": "high", "podAnnotations": {"a": "b"},
        "resources": {"limits": {"memory": "4Gi"}},
    }  # fmt: skip
    tolerations = [{"key": "dedicated", "operator": "Exists"}]
    controller = {
        "manager": manager, "nodeSelector": {"pool": "system"}, "tolerations": tolerations,
        "imagePullSecrets": [{"name": "pull"}],
    }  # fmt: skip
    found = chart(render, {"controllerManager": controller, "definitions": NONE})
    pods = found["Deployment", "kueue-system", "muster-controller-manager"]["spec"]["template"]
    assert pods["metadata"]["annotations"] == {"a": "b"}
    spec, (container,) = pods["spec"], pods["spec"]["containers"]
    assert (spec["priorityClassName"], spec["nodeSelector"]) == ("high", {"pool": "system"})
    assert (spec["tolerations"], spec["imagePullSecrets"]) == (tolerations, [{"name": "pull"}])
    assert container["imagePullPolicy"] == "Always"
    assert container["resources"]["limits"] == {"memory": "4Gi"}


@pytest.mark.parametrize("render", RENDERERS)
@pytest.mark.parametrize(
    ("values", "more", "namespace", "why"),
    [
        ({}, "", "kube-system", "needs a namespace of its own"),
        ({}, "\nnamespace: other\n", "kueue-system", "another namespace than that of the release"),
        ({}, "\nleaderElection: {leaderElect: false}\n", "kueue-system", "more than one replica"),
        (
            {"enableCertManager": True}, "\ninternalCertManagement: {enable: true}\n", "kueue-system",
            "two programs make the certificates",
        ),
        ({}, '\nhealth: {healthProbeBindAddress: "0"}\n', "kueue-system", "the probes of the chart need it"),
    ],
)  # fmt: skip
def test_what_muster_manifests_refuses_it_refuses(
    render: Render, values: dict[str, Any], more: str, namespace: str, why: str
) -> None:
    said = values | {"definitions": NONE, "managerConfig": {"controllerManagerConfigYaml": CONFIGURATION + more}}
    with pytest.raises(FailError, match=why):
        render(said, namespace)
