"""HTTP/1.1 (RFC 9112), as a server needs it.

The parser llhttp (by httptools) reads the bytes of a connection. A `connection` turns llhttp's events into requests,
and answers them one at a time. An `exchange` is one request and its answer, on which the application runs.
"""
