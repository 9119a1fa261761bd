"""HTTP/2 (RFC 9113), as a server needs it.

`frames`, `headers` and `huffman` read and write bytes; `requests` says what a header list asks for; `session` is the
state of one connection; all of it is pure. `connection` is the shell around that: a transport below, and a `stream` for
each request, on which the application runs.
"""
