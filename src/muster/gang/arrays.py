"""numpy, imported when the first array is created, and the array types of this package.

Most commands read modules that compute with arrays, but never create an array. They start without the import of numpy,
and work in an installation without the server's packages.

Usage: `from muster.gang import arrays as np`.
"""

import builtins
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any


def is_numpy_installed() -> builtins.bool:  # numpy has a `bool` of its own
    """Return whether numpy is installed, so that arrays can be made."""
    return find_spec("numpy") is not None


if TYPE_CHECKING:
    from numpy import *  # noqa: F403
    from numpy import bool_, float64, int64
    from numpy.typing import NDArray

    Ints = NDArray[int64]
    Mask = NDArray[bool_]
    Floats = NDArray[float64]
else:
    Ints = Mask = Floats = Any

    def __getattr__(name: str) -> Any:
        """Import numpy, and copy all its names into this module, so that later accesses cost no function call."""
        if name.startswith("__"):
            raise AttributeError(name)
        numpy = import_module("numpy")
        names = globals()
        for each, value in vars(numpy).items():
            if not each.startswith("_"):
                names.setdefault(each, value)
        return getattr(numpy, name)
