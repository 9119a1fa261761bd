"""HTTP/1.1 (RFC 9112), as a server needs it.

llhttp, by httptools, reads the bytes of a connection. A `connection` turns what llhttp finds into requests, one at a
time, and writes their answers. An `exchange` is one request and its answer, on which the application runs.
"""
