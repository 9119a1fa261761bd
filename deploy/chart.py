"""The templates of the Helm chart, made from the documents of every combination of its switches. Pure.

Each document is built once for every combination of the switches that change it, and the trees are merged: what all
have stands as it is, what some have stands in an `if`. So the chart follows what `muster manifests` prints, whatever
that comes to be. Words that the release or the Configuration say stand in the documents as marks, which become template
expressions.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations, product
from typing import Any, Final

from msgspec.json import decode, encode

from muster.api.config import load
from muster.cli.terminal.output import dump
from muster.install.dashboard import DASHBOARD, IMPERSONATING
from muster.install.deployment import SETTINGS_FILE
from muster.install.documents import make_documents
from muster.install.options import Json, Options, make_default_configuration

HEADER: Final = "{{- /* Made by `python -m deploy.make` from what `muster manifests` prints. */ -}}\n"

Combination = frozenset[str]
Nodes = Mapping[Combination, Any]
MISSING: Final = object()

# Template expressions that stand for a mark wherever it is, in a word or as one.
NAMESPACE, SERVICE, SECRET, LEASE, LEASES = "mark-namespace", "mark-service", "mark-secret", "mark-lease", "mark-leases"
IMAGE, REPLICAS, DIGEST = "mark-image", 61000, "mark-digest"
USERS, GROUPS, EXTRAS, PROOF = "mark-users", "mark-groups", "mark-extras", "mark-proof"
# The keys of further information on a viewer, as resources of a rule.
EXTRA_RESOURCES: Final = 'fromYamlArray (keys $extended | sortAlpha | toYaml | replace "- " "- userextras/")'
HEALTH, METRICS, WEBHOOKS, VISIBILITY = 61001, 61002, 61003, 61004
MARKS: Final[dict[str | int, str]] = {
    NAMESPACE: "{{ $namespace }}",
    SERVICE: "{{ $service }}",
    SECRET: "{{ $secret }}",
    LEASES: "{{ $leases }}",
    LEASE: "{{ $lease }}",
    IMAGE: "{{ $manager.image.repository }}:{{ $manager.image.tag }}",
    PROOF: "{{ $proof }}",
    DIGEST: "{{ $text | sha256sum | trunc 16 | quote }}",
    REPLICAS: "{{ $replicas }}",
    HEALTH: "{{ $healthPort }}",
    METRICS: "{{ $metricsPort }}",
    WEBHOOKS: "{{ $webhookPort }}",
    VISIBILITY: "{{ $visibilityPort }}",
}
# Parts of the pod that a value replaces as a whole, or adds. By where they stand: the value, and what is put there.
POD: Final = ("spec", "template", "spec")
VALUES: Final[Mapping[tuple[str | int, ...], str]] = {
    ("spec", "template", "metadata", "annotations", "mark-annotations"): "$manager.podAnnotations",
    (*POD, "priorityClassName"): "$manager.priorityClassName",
    (*POD, "nodeSelector"): "$controller.nodeSelector",
    (*POD, "tolerations"): "$controller.tolerations",
    (*POD, "imagePullSecrets"): "$controller.imagePullSecrets",
    (*POD, "containers", 0, "imagePullPolicy"): "$manager.image.pullPolicy",
    (*POD, "containers", 0, "resources"): "$manager.resources",
}
# The same of the dashboard's pod.
PAGES: Final[Mapping[tuple[str | int, ...], str]] = {
    **{path: value for path, value in VALUES.items() if path[-1] not in ("resources", "priorityClassName")},
    (*POD, "containers", 0, "resources"): ".Values.dashboard.resources",
}
# The first of each is what a plain installation has. By the name of the variable that says it in a template.
SWITCHES: Final[Mapping[str, bool]] = {
    "webhooks": True,
    "certManager": False,
    "monitoring": False,
    "visibility": True,
    "metrics": True,
    "allJobs": False,
    "selected": False,
    "elected": True,
    "provisioning": False,
    "profiles": False,
    "dashboard": False,
    "identified": False,
    "grouped": False,
    "extended": False,
}
# What matters only together: the parts of the dashboard behind a proxy that names the viewers.
TOGETHER: Final = ("dashboard", "identified", "grouped", "extended")
PLAIN: Final = frozenset(name for name, on in SWITCHES.items() if on)

# What every template begins with: the Configuration, and what follows from it.
PREAMBLE: Final = """\
{{- include "muster.check" . -}}
{{- $controller := .Values.controllerManager -}}
{{- $manager := $controller.manager -}}
{{- $replicas := int $controller.replicas -}}
{{- $namespace := .Release.Namespace -}}
{{- $text := include "muster.configuration" . -}}
{{- $config := fromYaml $text -}}
{{- $service := dig "internalCertManagement" "webhookServiceName" "kueue-webhook-service" $config -}}
{{- $secret := dig "internalCertManagement" "webhookSecretName" "kueue-webhook-server-cert" $config -}}
{{- $lease := dig "leaderElection" "resourceName" "c1f6bfd2.kueue.x-k8s.io" $config -}}
{{- $leases := dig "leaderElection" "resourceNamespace" "" $config | default $namespace -}}
{{- $elected := dig "leaderElection" "leaderElect" true $config -}}
{{- $bound := dig "metrics" "bindAddress" ":8443" $config -}}
{{- $metrics := ne $bound "0" -}}
{{- $metricsPort := last (splitList ":" $bound) -}}
{{- $healthPort := last (splitList ":" (dig "health" "healthProbeBindAddress" ":8081" $config)) -}}
{{- $webhookPort := dig "webhook" "port" 9443 $config -}}
{{- $visibilityPort := dig "visibilityServer" "bindPort" 8082 $config -}}
{{- $visibility := dig "featureGates" "VisibilityOnDemand" true $config -}}
{{- $webhooks := .Values.enableWebhooks -}}
{{- $certManager := .Values.enableCertManager -}}
{{- $monitoring := .Values.enablePrometheus -}}
{{- $allJobs := dig "manageJobsWithoutQueueName" false $config -}}
{{- $selector := dig "managedJobsNamespaceSelector" dict $config -}}
{{- $expressions := dig "matchExpressions" list $selector -}}
{{- $labels := dig "matchLabels" dict $selector -}}
{{- $selected := or $expressions $labels -}}
{{- $provisioning := dig "muster" "scheduling" "provisioningClassName" "" $config -}}
{{- $profiles := hasKey (dig "multiKueue" dict $config) "clusterProfile" -}}
{{- $dashboard := .Values.enableDashboard -}}
{{- $identity := dig "muster" "dashboard" "identityHeaders" dict $config | default dict -}}
{{- $identified := ne (len $identity) 0 -}}
{{- $users := dig "allowedUsers" list $identity -}}
{{- $grouped := dig "allowedGroups" list $identity -}}
{{- $extended := dig "extraHeaders" dict $identity -}}
{{- $proof := dig "secretName" "muster-dashboard-proxy" $identity -}}
"""

_FAMILIES: Final = ("kueue", "jobset", "podgroups")


def chart_files() -> dict[str, str]:
    """Return the templates by their paths in the chart."""
    engine = [_template(*found) for found in _merged(())]
    found = {"engine.yaml": HEADER + PREAMBLE + "".join(engine)}
    for family in _FAMILIES:
        templates = [_template(*each) for each in _merged((family,)) if each[0][0] == "CustomResourceDefinition"]
        condition = f"{{{{- if .Values.definitions.{family} }}}}\n"
        found[f"definitions-{family}.yaml"] = HEADER + PREAMBLE + condition + "".join(templates) + "{{- end }}\n"
    return found


def installed(on: Combination, kinds: tuple[str, ...]) -> list[Json]:
    """Return what is installed with these switches on, with marks for what the release says."""
    found = make_documents(_options(on, kinds))
    return [_marked(each) for each in found if each["kind"] != "Namespace"]


@cache
def _by_key(on: Combination, kinds: tuple[str, ...]) -> dict[tuple[str, str, str], Json]:
    return {(each["kind"], _place(each), each["metadata"]["name"]): each for each in installed(on, kinds)}


def _place(document: Json) -> str:
    return str(document["metadata"].get("namespace", ""))


def _options(on: Combination, kinds: tuple[str, ...]) -> Options:
    served = f"webhookServiceName: {SERVICE}, webhookSecretName: {SECRET}"
    lease = f"resourceName: {LEASE}, resourceNamespace: {LEASES}"
    lines = [
        f"internalCertManagement: {{enable: {_word('certManager' not in on)}, {served}}}",
        f"leaderElection: {{leaderElect: {_word('elected' in on)}, {lease}}}",
        f'metrics: {{bindAddress: "{f":{METRICS}" if "metrics" in on else 0}"}}',
        f'health: {{healthProbeBindAddress: ":{HEALTH}"}}',
        f"webhook: {{port: {WEBHOOKS}}}",
        f"visibilityServer: {{bindPort: {VISIBILITY}}}",
        f"featureGates: {{VisibilityOnDemand: {_word('visibility' in on)}}}",
        f"manageJobsWithoutQueueName: {_word('allJobs' in on)}",
    ]
    if "selected" in on:
        own = "{key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system, mark-namespace]}"
        lines.append(
            f"managedJobsNamespaceSelector: {{matchExpressions: [{own}, {{key: mark-expressions, operator: Exists}}],"
            " matchLabels: {mark-labels: x}}"
        )
    settings = ["scheduling: {provisioningClassName: mark}"] if "provisioning" in on else []
    settings += [f"dashboard: {{identityHeaders: {_name_viewers(on)}}}"] if "identified" in on else []
    if settings:
        lines.append(f"muster: {{{', '.join(settings)}}}")
    if "profiles" in on:
        lines.append("multiKueue: {clusterProfile: {}}")
    text = make_default_configuration(NAMESPACE) + "\n".join(lines) + "\n"
    return Options(
        text,
        load(text),
        IMAGE,
        REPLICAS,
        webhooks="webhooks" in on,
        kinds=kinds,
        cert_manager="certManager" in on,
        monitoring="monitoring" in on,
        dashboard="dashboard" in on,
    )


def _name_viewers(on: Combination) -> str:
    """Return headers of a proxy with marks. The users are a value that may be empty."""
    parts = ["userHeader: X-User", "secretHeader: X-Secret", f"allowedUsers: [{USERS}]", f"secretName: {PROOF}"]
    parts += [f"groupsHeader: X-Groups, allowedGroups: [{GROUPS}]"] if "grouped" in on else []
    parts += [f"extraHeaders: {{{EXTRAS}: X-Extra}}"] if "extended" in on else []
    return f"{{{', '.join(parts)}}}"


def _word(value: bool) -> str:
    return str(value).lower()


def _marked(document: Json) -> Json:
    """Return a document with marks for what values replace."""
    if document["kind"] == "ConfigMap" and SETTINGS_FILE in document["data"]:
        return document | {"data": dict.fromkeys(document["data"], "mark-text")}
    if document["kind"] == "CustomResourceDefinition":
        meta = document["metadata"]
        kept = (meta.get("annotations") or {}) | {"helm.sh/resource-policy": "keep"}
        return document | {"metadata": meta | {"annotations": kept}}
    if document["metadata"]["name"] == IMPERSONATING and document["kind"] == "ClusterRole":
        return document | {"rules": [_mark_rule(rule) for rule in document["rules"]]}
    if document["kind"] != "Deployment":
        return document
    found: Json = decode(encode(document))
    template = found["spec"]["template"]
    template["metadata"]["annotations"]["muster.dev/configuration"] = DIGEST
    for path, value in (PAGES if found["metadata"]["name"] == DASHBOARD else VALUES).items():
        part: Any = found
        for step in path[:-1]:
            part = part[step]
        part[path[-1]] = f"mark-value {value}"
    return found


def _mark_rule(rule: Json) -> Json:
    """Return a rule of impersonation whose names are those that the Configuration has."""
    lists = {USERS: "$users", GROUPS: "$grouped", f"userextras/{EXTRAS}": EXTRA_RESOURCES}
    return {
        name: f"mark-value {lists[value[0]]}" if isinstance(value, list) and value[0] in lists else value
        for name, value in rule.items()
    }


# Merging.


@cache
def _contexts() -> list[Combination]:
    """Return the combinations in which it is looked at whether a switch changes anything."""
    whole = PLAIN | set(TOGETHER)
    return [PLAIN, *(PLAIN ^ {name} for name in SWITCHES), whole, *(whole ^ {name} for name in TOGETHER)]


def _merged(kinds: tuple[str, ...]) -> Iterator[tuple[tuple[str, str, str], Nodes, list[str]]]:
    """Yield each document: its key, what it is in every combination of the switches that change it, and these."""
    order: dict[tuple[str, str, str], None] = {}
    for context in _contexts():
        order |= dict.fromkeys(_by_key(context, kinds))
    for key in order:
        switches = [name for name in SWITCHES if _changes(name, key, kinds)]
        fixed = PLAIN - set(switches)
        combined = [
            fixed | {name for name, on in zip(switches, chosen, strict=True) if on}
            for chosen in product((True, False), repeat=len(switches))
        ]
        yield key, {frozenset(on): _by_key(frozenset(on), kinds).get(key, MISSING) for on in combined}, switches


def _changes(name: str, key: tuple[str, str, str], kinds: tuple[str, ...]) -> bool:
    return any(
        _by_key(context, kinds).get(key, MISSING) != _by_key(context ^ {name}, kinds).get(key, MISSING)
        for context in _contexts()
    )


def _template(key: tuple[str, str, str], nodes: Nodes, switches: Sequence[str]) -> str:  # noqa: ARG001
    return "".join(
        f"{line}\n" for line in _within(nodes, switches, 0, lambda some: ["---", *_fields(some, switches, 0)])
    )


def _within(nodes: Nodes, switches: Sequence[str], indent: int, lines: Callable[[Nodes], list[str]]) -> list[str]:
    """Return the lines of a node, in a condition if some combinations have none."""
    there = {on: node for on, node in nodes.items() if node is not MISSING}
    if not there:
        return []
    if len(there) == len(nodes):
        return lines(there)
    pad = " " * indent
    return [f"{pad}{{{{- if {_condition(set(there), set(nodes), switches)} }}}}", *lines(there), f"{pad}{{{{- end }}}}"]


def _condition(wanted: set[Combination], of: set[Combination], switches: Sequence[str]) -> str:
    """Return the shortest condition that holds in just these combinations."""
    literals: dict[str, Callable[[Combination], bool]] = {}
    for name in switches:
        literals[f"${name}"] = lambda on, name=name: name in on  # type: ignore[misc]
        literals[f"(not ${name})"] = lambda on, name=name: name not in on  # type: ignore[misc]
    holding = {word: {on for on in of if holds(on)} for word, holds in literals.items()}
    for word, found in holding.items():
        if found == wanted:
            return word.strip("()")
    for one, other in combinations(holding, 2):
        if holding[one] & holding[other] == wanted:
            return f"and {one} {other}"
        if holding[one] | holding[other] == wanted:
            return f"or {one} {other}"
    for first, (one, other) in product(holding, combinations(holding, 2)):
        if holding[first] & (holding[one] | holding[other]) == wanted:
            return f"and {first} (or {one} {other})"
        if holding[first] & holding[one] & holding[other] == wanted:
            return f"and {first} {one} {other}"
    raise ValueError(f"no short condition holds for {wanted}")


def _fields(nodes: Nodes, switches: Sequence[str], indent: int) -> list[str]:
    """Return the lines of mappings."""
    lines: list[str] = []
    for name in _ordered([list(node) for node in nodes.values()]):
        below = {on: node.get(name, MISSING) for on, node in nodes.items()}
        lines += _within(below, switches, indent, lambda some, name=name: _field(name, some, switches, indent))  # type: ignore[misc]
    return lines


def _field(name: str, nodes: Nodes, switches: Sequence[str], indent: int) -> list[str]:
    pad, values = " " * indent, list(nodes.values())
    first = values[0]
    if isinstance(first, str) and first.startswith("mark-value "):
        return _value(name, first.removeprefix("mark-value "), indent)
    if name == "matchLabels" and first == {"mark-labels": "x"}:
        return [f"{pad}{{{{- with $labels }}}}", f"{pad}matchLabels:", _yaml(indent + 2), f"{pad}{{{{- end }}}}"]
    if first == "mark-text":
        return [f"{pad}{name}: |", f"{{{{ $text | trim | indent {indent + 2} }}}}"]
    if all(value == first for value in values[1:]) and "mark-" not in str(first):
        return _plain({name: first}, indent)
    if all(isinstance(value, dict) for value in values):
        return [f"{pad}{name}:", *_fields(nodes, switches, indent + 2)]
    if all(isinstance(value, list) for value in values):
        return [f"{pad}{name}:", *_items(nodes, switches, indent)]
    return _alternatives(name, nodes, switches, indent)


def _alternatives(name: str, nodes: Nodes, switches: Sequence[str], indent: int) -> list[str]:
    """Return the lines of a value that is one of two."""
    pad, both = " " * indent, sorted({repr(node) for node in nodes.values()})
    if len(both) == 1:
        return _plain({name: next(iter(nodes.values()))}, indent)
    if len(both) != 2:
        raise ValueError(f"{name} is one of {both}")
    first = next(iter(nodes.values()))
    like = {on for on, node in nodes.items() if node == first}
    other = next(node for node in nodes.values() if node != first)
    return [
        f"{pad}{{{{- if {_condition(like, set(nodes), switches)} }}}}", *_plain({name: first}, indent),
        f"{pad}{{{{- else }}}}", *_plain({name: other}, indent), f"{pad}{{{{- end }}}}",
    ]  # fmt: skip


def _items(nodes: Nodes, switches: Sequence[str], indent: int) -> list[str]:
    """Return the lines of lists: items with one name are one item, and so are those that are equal."""
    lists = {on: {_identity(item): item for item in node} for on, node in nodes.items()}
    lines: list[str] = []
    for identity in _ordered([list(items) for items in lists.values()]):
        below = {on: items.get(identity, MISSING) for on, items in lists.items()}
        lines += _within(below, switches, indent, lambda some: _item(some, switches, indent))
    return lines


def _item(nodes: Nodes, switches: Sequence[str], indent: int) -> list[str]:
    pad, first = " " * indent, next(iter(nodes.values()))
    if isinstance(first, dict) and first.get("key") == "mark-expressions":
        return [f"{pad}{{{{- with $expressions }}}}", _yaml(indent), f"{pad}{{{{- end }}}}"]
    if not isinstance(first, dict):
        return _plain([first], indent)
    # A dash, and then fields; a condition may be the first of them.
    return [f"{pad}-", *_fields(nodes, switches, indent + 2)]


def _identity(item: Any) -> str:
    return str(item["name"]) if isinstance(item, dict) and "name" in item else encode(item).decode()


def _ordered(several: Sequence[Sequence[str]]) -> list[str]:
    """Return all words in an order that keeps that of each list."""
    found: list[str] = []
    for words in sorted(several, key=len, reverse=True):
        at = 0
        for word in words:
            if word in found:
                at = found.index(word) + 1
            else:
                found.insert(at, word)
                at += 1
    return found


def _value(name: str, expression: str, indent: int) -> list[str]:
    pad = " " * indent
    if name == "mark-annotations":
        return [f"{pad}{{{{- with {expression} }}}}", _yaml(indent), f"{pad}{{{{- end }}}}"]
    if name in ("priorityClassName", "imagePullPolicy"):
        return [f"{pad}{{{{- with {expression} }}}}", f"{pad}{name}: {{{{ . }}}}", f"{pad}{{{{- end }}}}"]
    return [f"{pad}{{{{- with {expression} }}}}", f"{pad}{name}:", _yaml(indent + 2), f"{pad}{{{{- end }}}}"]


def _yaml(indent: int) -> str:
    return f"{{{{ toYaml . | indent {indent} }}}}"


def _plain(value: Any, indent: int) -> list[str]:
    # What is meant for Prometheus and Grafana, a template of Helm would read.
    text = dump(value, "yaml").replace("{{", '{{ "{{" }}')
    for mark, expression in sorted(MARKS.items(), key=lambda each: -len(str(each[0]))):
        text = text.replace(str(mark), expression)
    return [f"{' ' * indent}{line}" if line else "" for line in text.splitlines()]
