"""The rows of `Table` responses: the server makes the columns and cells of `kubectl get`, as upstream prints them.

Pure. A kind's `Printer` is data: its columns, and a function that takes a decoded object and the time, and returns the
cells. A kind without a printer gets name and creation time. The input is encoded objects, and a row contains its
object's bytes unchanged.
"""

from muster.cluster.apiserver.tables.printers import printer_of
from muster.cluster.apiserver.tables.render import encode_columns, encode_row, make_partial, require_include

__all__ = ["encode_columns", "encode_row", "make_partial", "printer_of", "require_include"]
