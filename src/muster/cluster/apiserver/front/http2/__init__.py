"""HTTP/2 (RFC 9113), as a server needs it.

Pure modules:

- `frames`, `reader`, `headers` and `huffman` read and write bytes.
- `requests` turns a header list into the head of a request.
- `session` is the state of one connection. Its parts are the `exchanges`, the `outgoing` frames, the `room` for bodies,
  and the `bounds` of all three.

`connection` is the shell: it connects a transport with the session, and makes a `stream` for each request, on which the
application runs.
"""
