"""The kustomize files of `deploy` render, by kubectl's kustomize, to what `muster manifests` prints."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from deploy.kustomization import COMPONENTS, options

from muster.install.documents import make_documents
from muster.install.options import Options

pytestmark = pytest.mark.kubectl

FOLDER = Path(__file__).parents[2] / "deploy" / "kustomize"
ADVICE = "run `python -m deploy.make` after a change of what is installed"


def rendered(folder: Path) -> dict[Any, Any]:
    text = subprocess.run(["kubectl", "kustomize", str(folder)], check=True, capture_output=True, text=True).stdout
    return keyed(yaml.load_all(text, yaml.CSafeLoader))


def keyed(several: Any) -> dict[Any, Any]:
    return {(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]): each for each in several}


def printed(chosen: Options) -> dict[Any, Any]:
    return keyed(json.loads(json.dumps(make_documents(chosen))))


def test_the_base_is_what_muster_manifests_prints() -> None:
    assert rendered(FOLDER / "base") == printed(options()), ADVICE


@pytest.mark.parametrize("name", COMPONENTS)
def test_an_overlay_is_what_muster_manifests_prints_with_its_option(name: str) -> None:
    assert rendered(FOLDER / "overlays" / name) == printed(COMPONENTS[name]), ADVICE


def test_components_go_together(tmp_path: Path) -> None:
    together = ["cert-manager", "monitoring", "one-replica"]
    shutil.copytree(FOLDER / "base", tmp_path / "base")
    for name in together:
        shutil.copytree(FOLDER / "components" / name, tmp_path / name)
    images = [{"name": "muster", "newName": "r.example.com/muster", "newTag": "2"}]
    asked = {"resources": ["base"], "components": together, "images": images}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(asked))
    found = rendered(tmp_path)
    pods = found["Deployment", "kueue-system", "muster-controller-manager"]["spec"]
    assert pods["replicas"] == 1
    assert pods["template"]["spec"]["containers"][0]["image"] == "r.example.com/muster:2"
    assert ("ServiceMonitor", "kueue-system", "muster-controller-manager") in found
    assert ("Certificate", "kueue-system", "muster-serving-cert") in found
