"""Admission webhooks: programs outside that are asked before an object is stored.

`matching` says who is concerned by a request, `review` what is asked and what an answer says: both pure. `calls`
carries questions over TLS, to a URL or to a service (`services`). `dispatch` puts them together.
"""

from muster.cluster.apiserver.admission.webhooks.calls import HttpCalls
from muster.cluster.apiserver.admission.webhooks.dispatch import WebhookDispatcher

__all__ = ["HttpCalls", "WebhookDispatcher"]
