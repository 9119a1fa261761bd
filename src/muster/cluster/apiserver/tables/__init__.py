"""Rows of `Table` answers: the columns and cells of `kubectl get`, made by the server, as upstream prints them.

A kind's `Printer` is data: columns, and a function from a typed object and the time to its cells. Kinds without one
get name and creation time. Objects come in as bytes, and what of them goes into a row is taken from those bytes as it
is.
"""

from muster.cluster.apiserver.tables.printers import printer_of
from muster.cluster.apiserver.tables.render import columns, partial, require_include, row

__all__ = ["columns", "partial", "printer_of", "require_include", "row"]
