"""Makes the namespace that a script works in."""

import sys

from kubernetes import client, config

config.load_kube_config()
client.CoreV1Api().create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=sys.argv[1])))
