"""Call admission webhooks: HTTPS servers that are asked before an object is stored.

`matching` decides which webhooks match a request. `review` builds the question and reads the answer. Both are pure.
`calls` sends a question over TLS to a URL or a service (`services`). `dispatch` puts these parts together.
"""

from muster.cluster.apiserver.admission.webhooks.calls import HttpCalls
from muster.cluster.apiserver.admission.webhooks.dispatch import WebhookDispatcher

__all__ = ["HttpCalls", "WebhookDispatcher"]
