import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from tools import published
from tools.gofacts import PACKAGES

META = "io.k8s.apimachinery.pkg.apis.meta.v1"
SCALE = "io.k8s.api.autoscaling.v1.Scale"


def reference(name: str) -> str:
    return f"#/$defs/{name}"


DEFINITIONS: dict[str, Any] = {
    SCALE: {
        "type": ["object", "null"],
        "description": "Scale. It represents a scaling request for a resource. More is said elsewhere.",
        "properties": {
            "apiVersion": {"type": ["string", "null"], "description": "long"},
            "metadata": {"$ref": reference(f"{META}.ObjectMeta")},
            "spec": {"$ref": reference(f"{SCALE}Spec"), "description": "How large."},
        },
        "x-kubernetes-group-version-kind": [{"group": "autoscaling", "kind": "Scale", "version": "v1"}],
    },
    f"{SCALE}Spec": {
        "description": "What is wanted",
        "required": ["replicas"],
        "properties": {
            "replicas": {"type": ["integer", "null"], "format": "int32", "description": "How many"},
        },
    },
    f"{SCALE}List": {"properties": {}},
}


@pytest.fixture
def wheel(tmp_path: Path) -> str:
    path = tmp_path / "definitions.whl"
    with zipfile.ZipFile(path, "w") as package:
        name = f"kubernetes_validate/kubernetes-json-schema/v{published.RELEASE}-local/_definitions.json"
        package.writestr(name, json.dumps({"$defs": DEFINITIONS}))
    return str(path)


def test_a_file_holds_the_messages_of_a_package(wheel: str) -> None:
    made = json.loads(published.make(wheel)["io.k8s.api.autoscaling.v1.json"])
    assert "ScaleList" not in made
    schema = made["Scale"]["schema"]
    assert schema["description"] == "Scale. It represents a scaling request for a resource."
    assert schema["properties"]["apiVersion"]["description"] != "long"
    assert schema["properties"]["spec"] == {
        "allOf": [{"$ref": f"#/components/schemas/{SCALE}Spec"}],
        "default": {},
        "description": "How large.",
    }
    assert made["ScaleSpec"] == {
        "fields": "replicas",
        "schema": {
            "description": "What is wanted",
            "required": ["replicas"],
            "properties": {
                "replicas": {"type": "integer", "format": "int32", "description": "How many", "default": 0},
            },
        },
    }


def test_check_tells_files_that_would_change(
    wheel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(published, "FOLDER", tmp_path)
    assert published.main(wheel, "--check") == len(PACKAGES)
    assert published.main(wheel) == 0
    assert published.main(wheel, "--check") == 0
    (tmp_path / "io.k8s.api.batch.v1.json").write_text("{}")
    capsys.readouterr()
    assert published.main(wheel, "--check") == 1
    assert "io.k8s.api.batch.v1.json" in capsys.readouterr().err
