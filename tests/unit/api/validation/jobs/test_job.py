"""Rules of Jobs; those of elastic Indexed Jobs as data: `tests/unit/jobs/cases/admission.yaml`."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.api.batch import JOB
from muster.api.validation.jobs.job import validate_create, validate_template_spec, validate_update

POD = "spec.template.spec"
NEVER = 'only "Never" is supported when podFailurePolicy is specified'
FOR_MANY = "must be less than or equal to 10000 when completions are above 100000 and used with backoff limit per index"
LONGEST = "a" * 63
EXIT = {"operator": "In", "values": [1]}


def shortened(got: Any, expected: Any) -> Any:
    """The sentences, cut where an expected one ends with a star."""
    pairs = zip(got, expected, strict=False)
    cut = [sentence[: len(e) - 1] + "*" if e.endswith("*") else sentence for sentence, e in pairs]
    return cut + got[len(expected) :]


@pytest.fixture
def create(indexed: Any, edit: Any, defaulted: Any, sentences: Any) -> Any:
    return lambda edits: sentences(validate_create(defaulted(JOB, edit(indexed, edits))))


def failure_rule(**rule: Any) -> Any:
    return {"spec.podFailurePolicy": {"rules": [rule]}}


def success(*rules: Any) -> Any:
    return {"spec.successPolicy": {"rules": list(rules)}}


NON_INDEXED = {"spec.completionMode": "NonIndexed"}


@pytest.mark.parametrize(
    "edits",
    [
        {},
        NON_INDEXED | {"spec.completions": None},
        {"spec.parallelism": 0},
        {"spec.completions": 0, "spec.parallelism": 0},
        {"spec.backoffLimitPerIndex": 0, "spec.maxFailedIndexes": 0},
        failure_rule(action="FailJob", onExitCodes=EXIT | {"containerName": "main"}),
        failure_rule(action="Ignore", onPodConditions=[{"type": "DisruptionTarget"}]),
        failure_rule(action="Count", onExitCodes={"operator": "NotIn", "values": [0, 5]}),
        success({"succeededIndexes": "0,2", "succeededCount": 1}, {"succeededCount": 3}),
        {"spec.managedBy": "example.com/controller"},
        {"spec.suspend": True, "spec.ttlSecondsAfterFinished": 0, "spec.activeDeadlineSeconds": 0},
        {f"{POD}.restartPolicy": "OnFailure"},
        {"metadata.name": "a.b", "spec.completionMode": "NonIndexed"},
        {"metadata.name": "a" * 61},
        {"spec.manualSelector": True, "spec.selector": {"matchLabels": {"a": "b"}},
         "spec.template.metadata": {"labels": {"a": "b"}}},
    ],
)  # fmt: skip
def test_good_jobs(create: Any, edits: Any) -> None:
    assert create(edits) == []


@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        ({"metadata.name": "A"},
         ['metadata.name: Invalid value: "A": a *', 'metadata.name: Invalid value: "A": will *']),
        ({f"spec.{field}": -1 for field in ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit",
                                            "ttlSecondsAfterFinished")},
         [f"spec.{field}: Invalid value: -1: must be greater than or equal to 0"
          for field in ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit",
                        "ttlSecondsAfterFinished")]),
        ({"spec.completions": None}, ["spec.completions: Required value: when completion mode is Indexed"]),
        ({"spec.parallelism": 100001},
         [("spec.parallelism: Invalid value: 100001: "
          "must be less than or equal to 100000 when completion mode is Indexed")]),
        ({"spec.completionMode": "Ordered"},
         ['spec.completionMode: Unsupported value: "Ordered": supported values: "NonIndexed", "Indexed"']),
        ({"spec.maxFailedIndexes": 4},
         ["spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified",
          "spec.maxFailedIndexes: Invalid value: 4: must be less than or equal to completions"]),
        ({"spec.completions": 100001, "spec.backoffLimitPerIndex": 1, "spec.parallelism": 10001},
         ["spec.maxFailedIndexes: Required value: must be specified when completions is above 100000",
          f"spec.parallelism: Invalid value: 10001: {FOR_MANY}"]),
        ({"spec.completions": 200000, "spec.backoffLimitPerIndex": 1, "spec.maxFailedIndexes": 100001},
         ["spec.maxFailedIndexes: Invalid value: 100001: must be less than or equal to 100000",
          f"spec.maxFailedIndexes: Invalid value: 100001: {FOR_MANY}"]),
        (NON_INDEXED | {"spec.backoffLimitPerIndex": 1, "spec.maxFailedIndexes": 1},
         ["spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode",
          "spec.maxFailedIndexes: Invalid value: 1: requires indexed completion mode"]),
        ({"spec.managedBy": "me"},
         ['spec.managedBy: Invalid value: "me": must be a domain-prefixed path (such as "acme.io/foo")']),
        ({"spec.managedBy": ""}, ["spec.managedBy: Required value"]),
        ({"spec.managedBy": "A/b c" + "d" * 63},
         ['spec.managedBy: Invalid value: "A": *', 'spec.managedBy: Invalid value: "b c*',
          "spec.managedBy: Too long: may not be more than 63 bytes"]),
        ({"spec.podReplacementPolicy": "Now"},
         ['spec.podReplacementPolicy: Unsupported value: "Now": supported values: "Failed", "TerminatingOrFailed"']),
        ({f"{POD}.restartPolicy": None},
         [f'{POD}.restartPolicy: Required value: valid values: "OnFailure", "Never"']),
        ({f"{POD}.restartPolicy": "Always"},
         [f'{POD}.restartPolicy: Required value: valid values: "OnFailure", "Never"']),
        ({f"{POD}.restartPolicy": "x"},
         [f'{POD}.restartPolicy: Unsupported value: "x": supported values: "Always", "OnFailure", "Never"',
          f'{POD}.restartPolicy: Unsupported value: "x": supported values: "OnFailure", "Never"']),
        ({f"{POD}.containers": []}, [f"{POD}.containers: Required value"]),
        ({f"{POD}.ephemeralContainers": [{"name": "e", "image": "a"}]},
         [f"{POD}.ephemeralContainers: Forbidden: ephemeral containers not allowed in pod template"]),
        ({"spec.template.metadata": {"labels": {"a": "b" * 64}}},
         ["metadata.labels: Invalid value: *", "spec.template.labels: Invalid value: *"]),
        ({"metadata.name": LONGEST},
         [f'metadata.name: Invalid value: "{LONGEST}": will not able to create pod with invalid DNS label: {LONGEST}-2'
          ]),
        ({"metadata.name": "a.b"},
         ['metadata.name: Invalid value: "a.b": will not able to create pod with invalid DNS label: a.b-2']),
        # the failure policy
        (failure_rule(action="FailJob", onExitCodes=EXIT) | {f"{POD}.restartPolicy": "OnFailure"},
         [f'{POD}.restartPolicy: Invalid value: "OnFailure": {NEVER}']),
        (failure_rule(action="FailJob", onExitCodes=EXIT) | {"spec.podReplacementPolicy": "TerminatingOrFailed"},
         ['spec.podReplacementPolicy: Unsupported value: "TerminatingOrFailed": supported values: "Failed"']),
        (failure_rule(onExitCodes={"containerName": "x"}),
         [("spec.podFailurePolicy.rules[0].action: Required value: "
          'valid values: ["Count" "FailIndex" "FailJob" "Ignore"]'),
          'spec.podFailurePolicy.rules[0].onExitCodes.operator: Required value: valid values: ["In" "NotIn"]',
          ('spec.podFailurePolicy.rules[0].onExitCodes.containerName: Invalid value: "x": '
          "must be one of the container or initContainer names in the pod template"),
          "spec.podFailurePolicy.rules[0].onExitCodes.values: Invalid value: []: at least one value is required"]),
        (failure_rule(action="Retry", onExitCodes={"operator": "In", "values": [2, 0, 2]}),
         [('spec.podFailurePolicy.rules[0].action: Unsupported value: "Retry": '
          'supported values: "Count", "FailIndex", "FailJob", "Ignore"'),
          "spec.podFailurePolicy.rules[0].onExitCodes.values[1]: Invalid value: 0: must not be 0 for the In operator",
          "spec.podFailurePolicy.rules[0].onExitCodes.values[2]: Duplicate value: 2",
          "spec.podFailurePolicy.rules[0].onExitCodes.values: Invalid value: [2,0,2]: must be ordered"]),
        (failure_rule(action="FailIndex", onExitCodes={"operator": "In", "values": list(range(1, 257))}),
         [('spec.podFailurePolicy.rules[0].action: Invalid value: "FailIndex": '
          "requires the backoffLimitPerIndex to be set"),
          "spec.podFailurePolicy.rules[0].onExitCodes.values: Too many: 256: must have at most 255 items"]),
        (failure_rule(action="Ignore"),
         [("spec.podFailurePolicy.rules[0]: Invalid value: "
          "specifying one of OnExitCodes and OnPodConditions is required")]),
        (failure_rule(action="Ignore", onExitCodes=EXIT, onPodConditions=[{"type": "-", "status": "Maybe"}]),
         ['spec.podFailurePolicy.rules[0].onPodConditions[0].type: Invalid value: "-": *',
          ('spec.podFailurePolicy.rules[0].onPodConditions[0].status: Unsupported value: "Maybe": '
          'supported values: "False", "True", "Unknown"'),
          ("spec.podFailurePolicy.rules[0]: Invalid value: "
          "specifying both OnExitCodes and OnPodConditions is not supported")]),
        ({"spec.podFailurePolicy": {"rules": [{"action": "Count", "onExitCodes": EXIT}] * 21}},
         ["spec.podFailurePolicy.rules: Too many: 21: must have at most 20 items"]),
        (failure_rule(action="Ignore", onPodConditions=[{"type": "A"}] * 21),
         ["spec.podFailurePolicy.rules[0].onPodConditions: Too many: 21: must have at most 20 items"]),
        # the success policy
        (NON_INDEXED | success({"succeededCount": 1}),
         ['spec.successPolicy: Invalid value: {"rules":[{"succeededCount":1}]}: requires indexed completion mode']),
        (success(),
         [("spec.successPolicy.rules: Required value: "
          "at least one rules must be specified when the successPolicy is specified")]),
        (success({}),
         [("spec.successPolicy.rules[0]: Required value: "
          "at least one of succeededCount or succeededIndexes must be specified")]),
        (success(*[{"succeededCount": 1}] * 21),
         ["spec.successPolicy.rules: Too many: 21: must have at most 20 items"]),
        (success({"succeededIndexes": "0,3"}),
         [('spec.successPolicy.rules[0].succeededIndexes: Invalid value: "0,3": '
          'error parsing succeededIndexes: too large index: "3"')]),
        (success({"succeededIndexes": "0,1", "succeededCount": 4}),
         [("spec.successPolicy.rules[0].succeededCount: Invalid value: 4: "
          "must be less than or equal to 3 (the number of specified completions)"),
          ("spec.successPolicy.rules[0].succeededCount: Invalid value: 4: "
          "must be less than or equal to 2 (the number of indexes in the specified succeededIndexes field)")]),
        (success({"succeededIndexes": "0," * 33000 + "1"}),
         ["spec.successPolicy.rules[0].succeededIndexes: Too long: may not be more than 65536 bytes",
          "spec.successPolicy.rules[0].succeededIndexes: Invalid value: *"]),
        # pitfall 9, no completions to compare the policy with: only that is said
        (success({"succeededCount": 1}) | {"spec.completions": None},
         ["spec.completions: Required value: when completion mode is Indexed"]),
        # selectors
        ({"spec.template.metadata": {"labels": {"job-name": "other"}}},
         ["spec.template.metadata.labels[job-name]: Invalid value: *"]),
        ({"spec.selector": {"matchLabels": {"a": "b"}}},
         ["spec.selector: Invalid value: *", "spec.template.metadata.labels: Invalid value: *"]),
        ({"spec.manualSelector": True}, ["spec.selector: Required value"]),
        ({"spec.manualSelector": True, "spec.selector": {"matchLabels": {"a": "b"}}},
         ["spec.template.metadata.labels: Invalid value: {}: `selector` does not match template `labels`"]),
    ],
)  # fmt: skip
def test_bad_jobs(create: Any, edits: Any, expected: Any) -> None:
    assert shortened(create(edits), expected) == expected


SUSPENDED = {"spec.suspend": True}
STOPPED = SUSPENDED | {
    "status": {"startTime": "2026-01-01T00:00:00Z", "conditions": [{"type": "Suspended", "status": "True"}]}
}
TEMPLATE = "spec.template: Invalid value: *"


ELASTIC = yaml.load((Path(__file__).parents[3] / "jobs" / "cases" / "admission.yaml").read_text(), yaml.CSafeLoader)


@pytest.mark.parametrize("case", ELASTIC, ids=lambda case: case["name"])
def test_elastic_indexed_jobs(indexed: Any, edit: Any, defaulted: Any, sentences: Any, case: Any) -> None:
    def spec(fields: Any) -> Any:
        return {f"spec.{name}": value for name, value in fields.items()}

    old = edit(indexed, {"metadata.name": case.get("job", "j"), "status": case.get("status", {})})
    old = edit(old, spec(case.get("spec", {})))
    pair = defaulted(JOB, edit(old, spec(case["change"]))), defaulted(JOB, old)
    refused = case.get("refused", [])
    assert sentences(validate_update(*pair)) == refused
    assert sentences(validate_update(*pair, elastic="upstream")) == case.get("upstream", refused)


C = f"{POD}.containers.0"
AFFINITY = f"{POD}.affinity"
NODES: dict[str, Any] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}
PODS = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "z"}]}
DIRECTIVES = {
    f"{POD}.nodeSelector": {"a": "b"},
    f"{POD}.tolerations": [{"operator": "Exists"}],
    f"{POD}.schedulingGates": [{"name": "a"}],
}
LABELS = {
    "spec.template.metadata": {"labels": {"app": "x"}, "annotations": {"c": "d"}},
}
CPU = {f"{C}.resources": {"requests": {"cpu": "2"}}}


@pytest.mark.parametrize(
    ("before", "change", "expected"),
    [
        # nothing changes while the Job runs
        ({}, DIRECTIVES, [TEMPLATE]),
        ({}, CPU, [TEMPLATE]),
        ({}, {f"{C}.image": "b"}, [TEMPLATE]),
        # pitfall 4, suspended before it started: where pods run, what they ask for; in the request that resumes it too
        (SUSPENDED, DIRECTIVES, []),
        (SUSPENDED, LABELS, []),
        (SUSPENDED, DIRECTIVES | CPU | {"spec.suspend": False}, []),
        (SUSPENDED, CPU, []),
        (SUSPENDED, {f"{C}.image": "b"}, [TEMPLATE]),
        (SUSPENDED, CPU | {f"{C}.name": "other"}, [TEMPLATE]),
        (SUSPENDED, {f"{POD}.containers.1": {"name": "b", "image": "a"}}, [TEMPLATE]),
        # pitfall 4, suspended after it ran: the same, once no pod is left
        (STOPPED, DIRECTIVES, []),
        (STOPPED, CPU, []),
        (STOPPED | {"status.active": 1}, DIRECTIVES, [TEMPLATE]),
        (SUSPENDED | {"status": {"startTime": "2026-01-01T00:00:00Z"}}, DIRECTIVES, [TEMPLATE]),
        # pitfall 5, of affinity only that to nodes
        (SUSPENDED, {AFFINITY: {"nodeAffinity": NODES}}, []),
        (SUSPENDED | {AFFINITY: {"nodeAffinity": NODES}}, {AFFINITY: None}, []),
        (SUSPENDED | {AFFINITY: {"nodeAffinity": NODES}}, {AFFINITY: {}}, []),
        (SUSPENDED, {AFFINITY: {"podAffinity": PODS}}, [TEMPLATE]),
        (SUSPENDED | {AFFINITY: {"podAffinity": PODS}}, {AFFINITY: None}, [TEMPLATE]),
        (SUSPENDED | {AFFINITY: {"podAffinity": PODS}}, {AFFINITY: {"podAffinity": PODS, "nodeAffinity": NODES}}, []),
        # whatever its state
        ({}, {"spec.podFailurePolicy": {"rules": []}, "spec.podReplacementPolicy": "Failed"},
         ["spec.podFailurePolicy: Invalid value: {}: field is immutable"]),
        ({}, {"spec.backoffLimitPerIndex": 1, "spec.backoffLimit": 6},
         ["spec.backoffLimitPerIndex: Invalid value: 1: field is immutable"]),
        ({}, {"spec.managedBy": "a.b/c"}, ['spec.managedBy: Invalid value: "a.b/c": field is immutable']),
        ({}, success({"succeededCount": 1}),
         ['spec.successPolicy: Invalid value: {"rules":[{"succeededCount":1}]}: field is immutable']),
        ({}, {"spec.backoffLimit": 1, "spec.activeDeadlineSeconds": 5, "spec.ttlSecondsAfterFinished": 5,
              "spec.suspend": True, "metadata.labels": {"a": "b"}}, []),
        ({}, {"spec.parallelism": -1},
         ["spec.parallelism: Invalid value: -1: must be greater than or equal to 0"]),
    ],
)  # fmt: skip
def test_updates(
    indexed: Any, edit: Any, defaulted: Any, sentences: Any, before: Any, change: Any, expected: Any
) -> None:
    old = edit(indexed, before)
    new = edit(old, change)
    got = sentences(validate_update(defaulted(JOB, new), defaulted(JOB, old)))
    assert shortened(got, expected) == expected


def test_the_selector_never_changes(indexed: Any, edit: Any, defaulted: Any, sentences: Any) -> None:
    old = edit(indexed, {"spec.manualSelector": True, "spec.selector": {"matchLabels": {"a": "b"}},
                         "spec.template.metadata": {"labels": {"a": "b", "c": "d"}}})  # fmt: skip
    new = edit(old, {"spec.selector": {"matchLabels": {"c": "d"}}})
    got = sentences(validate_update(defaulted(JOB, new), defaulted(JOB, old)))
    assert got == ['spec.selector: Invalid value: {"matchLabels":{"c":"d"}}: field is immutable']


def test_the_spec_in_a_template(indexed: Any, edit: Any, defaulted: Any, sentences: Any) -> None:
    job = defaulted(JOB, edit(indexed, {"spec.manualSelector": True, "spec.selector": {"matchLabels": {"a": "b"}}}))
    got = sentences(validate_template_spec("spec.jobTemplate.spec", job.spec))
    assert got == [
        'spec.jobTemplate.spec.selector: Invalid value: {"matchLabels":{"a":"b"}}: `selector` will be auto-generated',
        'spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: "nil", "false"',
    ]
