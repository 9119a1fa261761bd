"""Hold conversations between clients and pods over WebSockets: exec, attach and port-forward.

- `negotiation` agrees on the protocol, and `takeover` takes the connection over from HTTP.
- `wire` carries bytes in both directions, and `websocket` carries messages.
- `channels` and `spdy` encode and decode the messages, and are pure. kubectl forwards ports in frames of SPDY inside a
  WebSocket (kubernetes KEP-4006).
- `command` and `forward` hold the conversations. The pod's node provides the pod's end (see `pods.access`).
"""
