"""What files of settings mean, and what is said about those that mean nothing."""

import json
from functools import reduce
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from muster.api.config import DEFAULT, EMBEDDED, MAX_BYTES, Configuration, ConfigurationError, load
from muster.api.meta import LabelSelector, LabelSelectorRequirement
from muster.api.values import durations

HERE = Path(__file__).parent
TIMES = ("timeout", "_interval", "_period", "_deadline", "_duration", "after_finished")


def cases(name: str) -> Any:
    return yaml.load((HERE / name).read_text(), yaml.CSafeLoader)


def file(said: dict[str, Any], version: str = "v1beta2") -> str:
    return json.dumps({"apiVersion": f"config.kueue.x-k8s.io/{version}", "kind": "Configuration"} | said)


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        load(text)
    return str(caught.value).splitlines()


@pytest.mark.parametrize("case", cases("rules.yaml"), ids=lambda case: case["name"])
def test_rules(case):
    text = file(case["given"], case.get("version", "v1beta2"))
    expected = case.get("errors", [])
    found = problems(text) if expected else []
    assert len(found) == len(expected), found
    for line, beginning in zip(found, expected, strict=True):
        assert line.startswith(beginning)
    if not expected:
        load(text)


@pytest.mark.parametrize(
    ("case", "version"),
    [(case, version) for case in cases("meanings.yaml") for version in case["versions"]],
    ids=lambda part: part["name"] if isinstance(part, dict) else part,
)
def test_meanings(case, version):
    configuration = load(file(case["given"], version))
    for path, expected in case["expect"].items():
        found: Any = reduce(getattr, path.split("."), configuration)
        if path.endswith(TIMES) and found is not None:
            found = found / durations.SECOND
        assert (list(found) if isinstance(found, tuple) else found) == expected, path


def test_no_file_is_an_empty_file():
    assert Configuration.default() == DEFAULT == load(file({}))


def test_what_is_managed_leaves_out_the_own_namespace():
    requirement = LabelSelectorRequirement(
        key="kubernetes.io/metadata.name", operator="NotIn", values=("kube-system", "batch")
    )
    selector = load(file({"namespace": "batch"})).managed_jobs_namespace_selector
    assert selector == LabelSelector(match_expressions=(requirement,))


STRICT = [
    ("waitForPodsReady: {requeuingStrategy: {foo: 1}}", "waitForPodsReady.requeuingStrategy.foo: unknown field"),
    ("waitForPodsReady: {clock: JobStart}", "waitForPodsReady.clock: unknown field"),
    ("spec: {}", "spec: unknown field"),
    ("metadata: {name: x}", "metadata: unknown field"),
    ("NAMESPACE: x", "NAMESPACE: unknown field"),
    ("wait_for_pods_ready: {}", "wait_for_pods_ready: unknown field"),
    ("metrics: {customLabels: [{name: a}, {nam: b, name: b}]}", "metrics.customLabels[1].nam: unknown field"),
    ('"a\\e[31mb": 1', '"a\\u001b[31mb": unknown field'),
    (f"{'x' * 200}: 1", f"{'x' * 100}...: unknown field"),
    ("namespace: a\nnamespace: b", "namespace: given more than once"),
    ("webhook: {port: 1, port: 2}", "webhook.port: given more than once"),
    ("waitForPodsReady: {enable: true}", "waitForPodsReady.enable: unknown field in v1beta2 (it is one of v1beta1)"),
    (
        "fairSharing: {enable: false, preemptionStrategies: [LessThanInitialShare]}",
        "fairSharing.enable: unknown field in v1beta2 (it is one of v1beta1)",
    ),
    ("queueVisibility: {}", "queueVisibility: unknown field in v1beta2 (it is one of v1beta1)"),
    (
        "integrations: {podOptions: {}}",
        "integrations.podOptions: unknown field in v1beta2 (it is one of v1beta1)",
    ),
    ("webhook: {<<: {port: 1}}", "webhook.<<: unknown field"),
    ("webhook: 1", "webhook: must be a mapping, not 1"),
    ("webhook: [1]", "webhook: must be a mapping, not a list"),
    ("webhook: {port: '1'}", 'webhook.port: must be a whole number, not "1"'),
    ("webhook: {port: 1.5}", "webhook.port: must be a whole number, not 1.5"),
    ("webhook: {port: true}", "webhook.port: must be a whole number, not true"),
    ("webhook: {port: 9223372036854775808}", "webhook.port: 9223372036854775808 is too large a number"),
    ("clientConnection: {burst: 2147483648}", "clientConnection.burst: 2147483648 is too large a number"),
    ("clientConnection: {qps: fast}", 'clientConnection.qps: must be a number, not "fast"'),
    ("namespace: 5", "namespace: must be a string, not 5"),
    ("namespace: {}", "namespace: must be a string, not a mapping"),
    ("namespace: 'a:b'", 'namespace: Invalid value: "a:b": a lowercase RFC 1123 label must consist of'),
    ("manageJobsWithoutQueueName: 'yes'", 'manageJobsWithoutQueueName: must be true or false, not "yes"'),
    ("manageJobsWithoutQueueName: 1", "manageJobsWithoutQueueName: must be true or false, not 1"),
    ("integrations: {frameworks: batch/job}", 'integrations.frameworks: must be a list, not "batch/job"'),
    ("integrations: {frameworks: [batch/job, null]}", "integrations.frameworks[1]: must be a string, not null"),
    ("featureGates: {PartialAdmission: maybe}", 'featureGates[PartialAdmission]: must be true or false, not "maybe"'),
    ("multiKueue: {gcInterval: 60}", "multiKueue.gcInterval: must be a duration such as 5m or 1h30m, not 60"),
    ("multiKueue: {gcInterval: 1d}", 'multiKueue.gcInterval: must be a duration such as 5m or 1h30m, not "1d"'),
    (
        "resources: {transformations: [{input: a, outputs: {b: [1]}}]}",
        "resources.transformations[0].outputs[b]: must be a quantity such as 500m or 2Gi, not a list",
    ),
    ("muster: {elasticIndexedJobs: [KEP]}", "muster.elasticIndexedJobs: Unsupported value"),
    ("muster: {elasticIndexedJobs: 1}", "muster.elasticIndexedJobs: Unsupported value: 1"),
    ("muster: {scheduling: {scoringStrategy: Fast}}", 'muster.scheduling.scoringStrategy: Unsupported value: "Fast"'),
]


@pytest.mark.parametrize(("said", "line"), STRICT)
def test_everything_that_is_said_must_have_a_meaning(said, line):
    head = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
    [found] = problems(head + said)
    assert found.startswith(line)


@pytest.mark.parametrize(
    "said",
    [
        {"visibilityServer": {}},
        {"multiKueue": {"clusterProfile": {}}},
        {"multiKueue": {"incrementalDispatcherConfig": {}}},
        {"resources": {"quotaCheckStrategy": "BlockUndeclared"}},
        {"metrics": {"customLabels": [{"name": "a", "sourceKind": "Cohort"}]}},
        {"metrics": {"customLabels": [{"name": "a", "trackedValues": []}]}},
        {"resources": {"deviceClassMappings": [{"name": "a", "deviceClassNames": ["a"], "sources": []}]}},
    ],
)
def test_fields_of_the_new_version_are_unknown_in_the_old(said):
    [line] = problems(file(said, "v1beta1"))
    assert line.endswith(": unknown field in v1beta1 (it is one of v1beta2)")


VERSIONS = 'supported values: "config.kueue.x-k8s.io/v1beta2", "config.kueue.x-k8s.io/v1beta1"'


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", ["must be a mapping that begins with apiVersion: config.kueue.x-k8s.io/v1beta2"]),
        ("# nothing", ["must be a mapping that begins with apiVersion: config.kueue.x-k8s.io/v1beta2"]),
        ("- a", ["must be a mapping that begins with apiVersion: config.kueue.x-k8s.io/v1beta2"]),
        (
            "a: b",
            [
                "apiVersion: Required value: such as config.kueue.x-k8s.io/v1beta2",
                "kind: Required value: it is Configuration",
            ],
        ),
        (
            "apiVersion: config.kueue.x-k8s.io/v1alpha1\nkind: Configuration",
            [f'apiVersion: Unsupported value: "config.kueue.x-k8s.io/v1alpha1": {VERSIONS}'],
        ),
        ("apiVersion: [1]\nkind: Configuration", [f"apiVersion: Unsupported value: [1]: {VERSIONS}"]),
        (
            "apiVersion: config.kueue.x-k8s.io/v1beta1\nkind: ClusterQueue",
            ['kind: Unsupported value: "ClusterQueue": supported values: "Configuration"'],
        ),
        (file({}) + "\n---\n" + file({}), ["yaml: more than one document"]),
        ("a: [", ["yaml: while parsing"]),
        (
            "a: !!python/name:os.system x",
            ["yaml: a: the tag tag:yaml.org,2002:python/name:os.system has no meaning here, at line 1, column 4"],
        ),
        ("[" * 5000, ["yaml: it nests deeper than 200 levels"]),
        (" " * (MAX_BYTES + 1), [f"more than {MAX_BYTES} bytes"]),
        ("a: \ud800", ["yaml: "]),
    ],
    ids=range(13),
)
def test_what_is_no_configuration(text, lines):
    found = problems(text)
    assert len(found) == len(lines)
    for line, beginning in zip(found, lines, strict=True):
        assert line.startswith(beginning)


def test_one_look_finds_everything():
    said = {
        "foo": 1,
        "webhook": {"port": "x", "bar": 2},
        "waitForPodsReady": {"timeout": "soon", "recoveryTimeout": "-1s"},
        "visibilityServer": {"bindPort": 0},
    }
    assert [line.partition(":")[0] for line in problems(file(said))] == [
        "foo",
        "webhook.port",
        "webhook.bar",
        "waitForPodsReady.timeout",
        "waitForPodsReady.recoveryTimeout",
        "visibilityServer.bindPort",
    ]


HOSTILE = [
    {"integrations": {"frameworks": ["a"] * 100_000}},
    {"featureGates": {f"g{i}": True for i in range(50_000)}},
    {"metrics": {"customLabels": [{"name": f"n{i}", "sourceKind": f"k{i}"} for i in range(20_000)]}},
    {"resources": {"deviceClassMappings": [{"name": "r", "deviceClassNames": [f"c{i}" for i in range(100_000)]}]}},
    {f"f{i}": 1 for i in range(50_000)},
]


@pytest.mark.parametrize("said", HOSTILE, ids=range(5))
def test_a_hostile_file_is_refused_in_few_words(said):
    text = file(said)
    assert len(text) <= MAX_BYTES
    found = problems(text)
    assert len(found) <= 101
    assert len(found) < 101 or found[-1] == "and more"


LONG = "a" * 253


@pytest.mark.parametrize(
    ("said", "lines"),
    [
        ([{"name": f"r{i}", "deviceClassNames": [f"c{i}"]} for i in range(16)], []),
        (
            [{"name": f"r{i}", "deviceClassNames": [f"c{i}"]} for i in range(17)],
            ["resources.deviceClassMappings: Too many: 17: must have at most 16 items"],
        ),
        ([{"name": "r", "deviceClassNames": [f"c{i}" for i in range(8)]}], []),
        (
            [{"name": "r", "deviceClassNames": [f"c{i}" for i in range(9)]}],
            ["resources.deviceClassMappings[0].deviceClassNames: Too many: 9: must have at most 8 items"],
        ),
        ([{"name": f"{'d' * 60}.{'e' * 60}/{'a' * 63}", "deviceClassNames": ["c"]}], []),
        (
            [{"name": f"{LONG}/{'a' * 63}", "deviceClassNames": ["c"]}],
            [f'resources.deviceClassMappings[0].name: Invalid value: "{LONG}/{"a" * 63}": must not exceed 253'],
        ),
    ],
    ids=range(6),
)
def test_limits_of_device_classes(said, lines):
    text = file({"resources": {"deviceClassMappings": said}})
    found = problems(text) if lines else (load(text), [])[1]
    assert [line[: len(beginning)] for line, beginning in zip(found, lines, strict=True)] == lines


def capacity(name: str, driver: str = "d") -> dict[str, Any]:
    source = {"capacity": {"name": name, "driver": driver, "deviceSelector": {"cel": {"expression": "true"}}}}
    return {
        "featureGates": {"KueueDRAIntegrationConsumableCapacity": True},
        "resources": {"deviceClassMappings": [{"name": "r", "deviceClassNames": ["c"], "sources": [source]}]},
    }


@pytest.mark.parametrize(
    ("name", "driver", "line"),
    [
        ("a" * 33, "d", "name: Too long: may not be more than 32 bytes"),
        ("a" * 64 + "/b", "d", "name: Too long: may not be more than 63 bytes"),
        ("a", "d" * 64, f'driver: Invalid value: "{"d" * 64}": must not exceed 63 characters'),
    ],
)
def test_limits_of_capacities(name, driver, line):
    path = "resources.deviceClassMappings[0].sources[0].capacity"
    assert f"{path}.{line}" in problems(file(capacity(name, driver)))
    load(file(capacity("a" * 32, "d" * 63)))


def labels(number: int, kind: str, values: int = 0) -> dict[str, Any]:
    tracked = [f"v{i}" for i in range(values)]
    return {
        "metrics": {
            "customLabels": [{"name": f"l{i}", "sourceKind": kind, "trackedValues": tracked} for i in range(number)]
        }
    }


@pytest.mark.parametrize(
    ("said", "lines"),
    [
        (labels(6, "Cohort"), []),
        (labels(7, "LocalQueue"), ["too many custom labels for source kind LocalQueue: found 7, expected <= 6"]),
        (
            labels(21, "ClusterQueue"),
            [
                "must have at most 20 items",
                "too many custom labels for source kind ClusterQueue: found 21, expected <= 6",
            ],
        ),
        (labels(1, "ClusterQueue", 16), []),
        (labels(1, "ClusterQueue", 17), ["must have at most 16 items"]),
        (labels(2, "Workload", 12), []),
        (labels(1, "Workload", 13), ["must not be greater than 12 when sourceKind is 'Workload'"]),
    ],
    ids=range(7),
)
def test_limits_of_labels(said, lines):
    found = problems(file(said)) if lines else (load(file(said)), [])[1]
    assert [line.endswith(end) for line, end in zip(found, lines, strict=True)] == [True] * len(lines)


def test_gates():
    on = load(file({"featureGates": {"AllAlpha": True, "PriorityBoost": False}})).features
    assert (on.is_enabled("ConcurrentAdmission"), on.is_enabled("PriorityBoost")) == (True, False)
    assert DEFAULT.features.is_enabled("PartialAdmission")
    assert not DEFAULT.features.is_enabled("ConcurrentAdmission")
    with pytest.raises(KeyError):
        DEFAULT.features.is_enabled("Unheard")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from([field.encode_name for field in msgspec.structs.fields(Configuration)])


@given(said=st.dictionaries(FIELDS, VALUES, max_size=4), version=st.sampled_from(["v1beta1", "v1beta2"]))
def test_whatever_it_says_it_is_settings_or_an_error_with_a_path(said, version):
    try:
        configuration = load(file(said, version))
    except ConfigurationError as error:
        for line in str(error).splitlines():
            assert any(line.startswith(name) for name in (*said, "yaml")), line
    else:
        assert isinstance(configuration, Configuration)


@pytest.mark.parametrize(
    ("given", "frameworks"),
    [
        ({}, EMBEDDED.integrations.frameworks),
        ({"integrations": {}}, EMBEDDED.integrations.frameworks),
        ({"integrations": {"externalFrameworks": ["Foo.v1.example.com"]}}, EMBEDDED.integrations.frameworks),
        ({"integrations": {"frameworks": []}}, EMBEDDED.integrations.frameworks),
        ({"integrations": {"frameworks": ["pod"]}}, ("pod",)),
    ],
    ids=["nothing", "an empty section", "others alone", "an empty list", "some"],
)
def test_in_an_embedded_cluster_a_file_takes_no_kind_out_of_the_queues_by_silence(
    given: dict[str, Any], frameworks: tuple[str, ...]
) -> None:
    assert load(file(given), embedded=True).integrations.frameworks == frameworks
    assert load(file({}), embedded=True) == EMBEDDED
    assert load(file({"muster": {"jobSetNamespace": "x"}}), embedded=True).muster.fair_sharing_on_demand
    off = {"muster": {"fairSharingOnDemand": False}}
    assert not load(file(off), embedded=True).muster.fair_sharing_on_demand
    gates = {"featureGates": {"MultiKueueManagerQuotaAutomation": False}}
    assert not load(file(gates), embedded=True).features.is_enabled("MultiKueueManagerQuotaAutomation")
