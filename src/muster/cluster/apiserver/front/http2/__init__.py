"""HTTP/2 (RFC 9113), as a server needs it.

`frames`, `reader`, `headers` and `huffman` read and write bytes; `requests` says what a header list asks for; `session`
is the state of one connection, with its `exchanges`, what is `outgoing`, the `room` for bodies, and the `bounds` of all
that; all of it is pure. `connection` is the shell around that: a transport below, and a `stream` for
each request, on which the application runs.
"""
