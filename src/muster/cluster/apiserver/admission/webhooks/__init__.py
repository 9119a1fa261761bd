"""Call admission webhooks: HTTPS servers that change or refuse an object before the API server stores it.

`matching` decides which webhooks match a request. `review` makes the AdmissionReview and reads the response. Both are
pure. `calls` sends a review over TLS to a URL or a service (`services`). `dispatch` combines these parts.
"""

from muster.cluster.apiserver.admission.webhooks.calls import HttpCalls
from muster.cluster.apiserver.admission.webhooks.dispatch import WebhookDispatcher

__all__ = ["HttpCalls", "WebhookDispatcher"]
