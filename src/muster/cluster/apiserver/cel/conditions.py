"""Expressions over requests: the `matchConditions` of webhooks and policies, and what else policies say."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from muster.cluster.apiserver.cel.evaluate import CALL_LIMIT, Budget, compile_expression
from muster.cluster.apiserver.cel.front import CompileError, check
from muster.cluster.apiserver.cel.shapes import ANYTHING
from muster.cluster.apiserver.cel.values import CelError, CostLimitError

# The values of the variables, by name -> the value of the expression.
Condition: TypeAlias = Callable[[Mapping[str, Any]], Any]


def compile_condition(expression: str, variables: Sequence[str], limit: int = CALL_LIMIT) -> Condition:
    """The expression as a function of its variables; those that are not given are null. limit: what a run may cost.

    Raises `CompileError`. The function raises `CelError`, and `CostLimitError` if it takes too long. It is remembered:
    every request asks for it again.
    """
    return _compiled(expression, tuple(variables), limit)


@lru_cache(maxsize=1024)
def _compiled(expression: str, variables: tuple[str, ...], limit: int) -> Condition:
    checked, _ = check(expression, dict.fromkeys(variables, "dyn"))
    program = compile_expression(checked, dict.fromkeys(variables, ANYTHING))

    def condition(values: Mapping[str, Any]) -> Any:
        return program(*(values.get(name) for name in variables), budget=Budget(limit))

    return condition


def problem_of(expression: str, variables: Sequence[str]) -> str:
    """Why an expression cannot be one over these variables; "" if it can."""
    try:
        compile_condition(expression, variables)
    except CompileError as error:
        return str(error)
    return ""


class ConditionError(Exception):
    """It cannot be said whether conditions hold."""


def all_hold(conditions: Iterable[str], variables: Sequence[str], values: Mapping[str, Any]) -> bool:
    """Whether all conditions hold; one that does not settles it. Raises `ConditionError`."""
    problem = ""
    for expression in conditions:
        try:
            value = compile_condition(expression, variables)(values)
        except (CelError, CompileError, CostLimitError) as error:
            problem = problem or f"expression '{expression}' resulted in error: {error}"
            continue
        if value is False:
            return False
        if value is not True:
            problem = problem or f"expression '{expression}' does not evaluate to a bool"
    if problem:
        raise ConditionError(problem)
    return True
