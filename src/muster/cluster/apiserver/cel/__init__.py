"""CEL, the expression language of the Kubernetes API.

- `rules.compile_rules`: the validation rules of a custom resource's schema.
- `compile_condition`, `all_hold`: conditions over requests.
- `device_matches`: selectors of devices.

An expression passes through three steps:

1. `front` lets the CEL library parse and check the text.
2. `evaluate` compiles the checked expression to closures, which call the functions of `library`.
3. The closures run on unconverted JSON values, within a cost limit.

This package does not export `rules`, and imports `front` and `evaluate` with the first expression: a cluster starts
sooner without them, and most clusters have no expression.
"""

from muster.cluster.apiserver.cel.conditions import Condition, ConditionError, all_hold, compile_condition, find_problem
from muster.cluster.apiserver.cel.devices import DEVICE_VARIABLES, device_matches
from muster.cluster.apiserver.cel.errors import CompileError
from muster.cluster.apiserver.cel.values import CelError, CostLimitError, make_sentence

__all__ = [
    "DEVICE_VARIABLES",
    "CelError",
    "CompileError",
    "Condition",
    "ConditionError",
    "CostLimitError",
    "all_hold",
    "compile_condition",
    "device_matches",
    "find_problem",
    "make_sentence",
]
