"""Alerts and charts ask for metrics that there are."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.system.plane import World, virtual

from muster.api.config import Configuration
from muster.install.alerts import ALERTS, alert_groups
from muster.install.grafana import PANELS, dashboard_document, make_dashboard
from muster.install.options import Options
from muster.runtime.transport import Request

ROOT = Path(__file__).parents[3]
EXPRESSIONS = [one["expr"] for one in ALERTS] + [query for panel in PANELS for query, _ in panel.queries]
_METRIC = re.compile(r"\b((?:kueue|muster|controller_runtime|workqueue)_[a-z_]+)")


def test_every_metric_that_is_asked_for_is_served():
    served: list[tuple[str, str]] = []

    @virtual
    async def told(world: World) -> None:
        answer = await world.client.raw(Request("GET", "/metrics"))
        served.extend(re.findall(r"^# TYPE (\S+) (\S+)", answer.body.decode(), re.MULTILINE))

    told()
    kinds = dict(served)
    asked = {name for expression in EXPRESSIONS for name in _METRIC.findall(expression)}
    assert len(asked) > 8
    for name in asked:
        plain = name.removesuffix("_bucket")
        assert plain in kinds, name
        assert (kinds[plain] == "histogram") == name.endswith("_bucket"), name
        assert (kinds[plain] == "counter") == name.endswith("_total"), name


def test_every_alert_says_what_is_the_matter_and_what_to_do():
    for one in ALERTS:
        assert one["alert"].startswith("Muster")
        assert one["annotations"]["summary"].endswith(".")
        assert len(one["annotations"]["description"]) > 30
        assert one["labels"]["severity"] in ("critical", "warning", "info")
    assert len({one["alert"] for one in ALERTS}) == len(ALERTS)


def test_the_files_for_other_installations_are_as_the_command_prints_them():
    folder = ROOT / "deploy" / "monitoring"
    assert json.loads((folder / "muster.json").read_text()) == make_dashboard()
    text = (folder / "alerts.yaml").read_text()
    for one in ALERTS:
        assert one["alert"] in text


def test_the_sidecar_of_grafana_finds_the_dashboard():
    document = dashboard_document(Options("", Configuration(), "muster:latest", 1))
    assert document["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(document["data"]["muster.json"])["uid"] == "muster"


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool of Prometheus")
def test_prometheus_reads_the_alerts(tmp_path):
    file = tmp_path / "alerts.yaml"
    file.write_text(json.dumps(alert_groups()))
    done = subprocess.run(["promtool", "check", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    queries = [query.replace("$__rate_interval", "5m") for query in EXPRESSIONS]
    rules = [{"record": f"query_{number}", "expr": query} for number, query in enumerate(queries)]
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    done = subprocess.run(["promtool", "check", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
