"""Makes the files of `deploy/monitoring`, for Prometheus and Grafana without their operators."""

import json

from muster.cli.terminal.output import dump
from muster.install.alerts import alert_groups
from muster.install.grafana import make_dashboard


def monitoring_files() -> dict[str, str]:
    """Return the files by name: rules for Prometheus, and a dashboard to import into Grafana."""
    head = "# Made by `python -m deploy.make`.\n"
    return {
        "alerts.yaml": f"{head}{dump(alert_groups(), 'yaml')}\n",
        "muster.json": f"{json.dumps(make_dashboard(), indent=2)}\n",
    }
