"""Conditions over requests: the `matchConditions` of webhooks and policies."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from muster.cluster.apiserver.cel.evaluate import Budget, compile_expression
from muster.cluster.apiserver.cel.front import check
from muster.cluster.apiserver.cel.shapes import ANYTHING

# The values of the variables, by name -> the value of the expression.
Condition: TypeAlias = Callable[[Mapping[str, Any]], Any]


def compile_condition(expression: str, variables: Sequence[str]) -> Condition:
    """The expression as a function of its variables; those that are not given are null.

    Raises `CompileError`. The function raises `CelError`, and `CostLimitError` if it takes too long.
    """
    checked, _ = check(expression, dict.fromkeys(variables, "dyn"))
    program = compile_expression(checked, dict.fromkeys(variables, ANYTHING))
    names = tuple(variables)

    def condition(values: Mapping[str, Any]) -> Any:
        return program(*(values.get(name) for name in names), budget=Budget())

    return condition
