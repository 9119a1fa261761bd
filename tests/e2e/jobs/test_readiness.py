"""KEP-349 on real processes: a gang whose one pod never gets ready yields, and the next one runs."""

import json
import time
from pathlib import Path
from typing import Any

import yaml

PATIENCE = 40.0

SETTINGS = {
    "apiVersion": "config.kueue.x-k8s.io/v1beta2",
    "kind": "Configuration",
    "waitForPodsReady": {
        "timeout": "10s",  # a busy machine takes some seconds to look
        "blockAdmission": True,
        "requeuingStrategy": {"backoffBaseSeconds": 600, "timestamp": "Eviction"},
    },
}


def gang(name: str, ready: Path) -> dict[str, Any]:
    """Two workers; worker i is ready once the file `ready`-i exists."""
    script = f"while [ ! -e {ready}-end ]; do sleep 0.1; done"
    probe = {"exec": {"command": ["sh", "-c", f"test -e {ready}-$JOB_COMPLETION_INDEX"]}, "periodSeconds": 1}
    container = {"name": "worker", "image": "none", "command": ["sh", "-c", script], "readinessProbe": probe}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "completionMode": "Indexed",
            "completions": 2,
            "parallelism": 2,
            "template": {
                "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
            },
        },
    }


def row(muster: Any, name: str) -> Any:
    rows = json.loads(muster("ps", "-o", "json").stdout)
    return next(one for one in rows if one["name"] == name)


def until(muster: Any, name: str, state: str) -> Any:
    end = time.monotonic() + PATIENCE
    while (found := row(muster, name))["state"] != state:
        assert time.monotonic() < end, found
        time.sleep(0.1)
    return found


def test_a_gang_that_does_not_get_ready_gives_everything_back(muster, tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(SETTINGS))
    muster("up", "--detach", "--port", "0", "--config", str(config))

    half, whole = tmp_path / "half", tmp_path / "whole"
    (tmp_path / "half-0").touch()  # worker 1 never gets ready
    for index in range(2):
        (tmp_path / f"whole-{index}").touch()
    muster("apply", "-f", "-", input=json.dumps(gang("half", half)))
    until(muster, "half", "Running")
    muster("apply", "-f", "-", input=json.dumps(gang("whole", whole)))
    assert row(muster, "whole")["state"] != "Running", "nothing is admitted while an admitted gang is not ready"

    until(muster, "whole", "Running")
    waiting = until(muster, "half", "Queued")
    assert waiting["ready"] == 0, "all of it gave way, the ready worker too"
    assert "PodsReady" in muster("why", "half").stdout

    (tmp_path / "whole-end").touch()
    until(muster, "whole", "Completed")
    assert muster("wait", "whole").returncode == 0
