import pytest

from muster.api.published import Field, component_of_kind, fields_of, schema_of


@pytest.mark.parametrize(
    ("group", "version", "kind", "component"),
    [
        ("", "v1", "Pod", "io.k8s.api.core.v1.Pod"),
        ("apps", "v1", "Deployment", "io.k8s.api.apps.v1.Deployment"),
        ("rbac.authorization.k8s.io", "v1", "Role", "io.k8s.api.rbac.v1.Role"),
        (
            "apiregistration.k8s.io",
            "v1",
            "APIService",
            "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService",
        ),
        ("apps", "v1", "DeploymentSpec", ""),  # no kind
        ("apps", "v2", "Deployment", ""),
        ("apps.example.com", "v1", "Deployment", ""),
        ("scheduling.x-k8s.io", "v1alpha2", "PodGroup", ""),  # one of others, and not Kubernetes' own
        ("../published/io", "v1", "Pod", ""),
    ],
)
def test_kinds_of_kubernetes_have_components(group: str, version: str, kind: str, component: str) -> None:
    assert component_of_kind(group, version, kind) == component


def test_fields_have_the_numbers_and_the_zeroes_of_go() -> None:
    assert fields_of("io.k8s.api.apps.v1.DeploymentSpec") == [
        Field(1, "replicas", is_optional=True, is_always_written=False),
        Field(2, "selector", is_optional=True, is_always_written=True),
        Field(3, "template", is_optional=False, is_always_written=True),
        Field(4, "strategy", is_optional=False, is_always_written=False),
        Field(5, "minReadySeconds", is_optional=False, is_always_written=False),
        Field(6, "revisionHistoryLimit", is_optional=True, is_always_written=False),
        Field(7, "paused", is_optional=False, is_always_written=False),
        Field(9, "progressDeadlineSeconds", is_optional=True, is_always_written=False),
    ]
    assert fields_of("io.k8s.api.apps.v1.Nothing") == []


def test_schemas_say_what_openapi_v2_does_not() -> None:
    strategy = schema_of("io.k8s.api.apps.v1.DeploymentStrategy")
    assert strategy is not None
    assert strategy["properties"]["type"]["enum"] == ["Recreate", "RollingUpdate"]
    spec = schema_of("io.k8s.api.apps.v1.DeploymentSpec")
    assert spec is not None
    assert spec["properties"]["strategy"]["default"] == {}
    assert "default" not in spec["properties"]["selector"]
    port = schema_of("io.k8s.api.core.v1.ContainerPort")
    assert port is not None
    assert port["properties"]["protocol"]["default"] == "TCP"


def test_each_answer_is_the_callers_own() -> None:
    first = schema_of("io.k8s.api.core.v1.Pod")
    assert first is not None
    first["properties"].clear()
    second = schema_of("io.k8s.api.core.v1.Pod")
    assert second is not None
    assert second["properties"]
