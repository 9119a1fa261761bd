"""Makes the namespace that a script works in."""

import sys
from typing import Any

import kubernetes

kubernetes_: Any = kubernetes  # the client has no types
kubernetes_.config.load_kube_config()
kubernetes_.client.CoreV1Api().create_namespace({"metadata": {"name": sys.argv[1]}})
