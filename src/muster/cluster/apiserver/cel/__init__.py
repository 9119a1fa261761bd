"""CEL, the expression language of the Kubernetes API.

- `compile_rules`: the validation rules of a custom resource's schema.
- `compile_condition`: conditions over requests.

`front` has expressions parsed and checked by the CEL library; `evaluate` makes closures of them, which run on JSON
values as they are, within a cost limit; `library` are the functions that they may call.
"""

from muster.cluster.apiserver.cel.conditions import Condition, compile_condition
from muster.cluster.apiserver.cel.evaluate import Budget
from muster.cluster.apiserver.cel.front import CompileError
from muster.cluster.apiserver.cel.rules import RuleError, Validator, compile_rules
from muster.cluster.apiserver.cel.values import CelError, CostLimitError

__all__ = [
    "Budget",
    "CelError",
    "CompileError",
    "Condition",
    "CostLimitError",
    "RuleError",
    "Validator",
    "compile_condition",
    "compile_rules",
]
