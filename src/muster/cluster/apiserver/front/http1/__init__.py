"""HTTP/1.1 (RFC 9112), as a server needs it.

The parser llhttp (by httptools) parses the bytes of a connection. A `connection` turns llhttp's events into requests,
and answers them one after the other. An `exchange` is one request and its response, on which the application runs.
"""
