"""Conversations with pods: exec, attach and port-forward, over WebSockets.

`negotiation` agrees on the protocol; `wire` carries bytes or messages both ways, `websocket` messages. `channels` and
`spdy` read and write what is said on it, pure; kubectl forwards ports in frames of SPDY inside a WebSocket (KEP-4006).
`command` and `forward` hold the conversations. What is at the pod's end comes from its node, see `pods.access`.
"""
