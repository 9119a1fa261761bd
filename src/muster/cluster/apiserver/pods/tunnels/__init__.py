"""Conversations with pods: exec, attach and port-forward, over WebSockets or SPDY.

`negotiation` is which protocol is spoken; `wire` is bytes or messages both ways; `channels` and `spdy` are what is said
on it, pure; `lines` joins the two; `command` and `forward` are the conversations. What is at the pod's end comes from
its node, see `pods.access`.
"""
