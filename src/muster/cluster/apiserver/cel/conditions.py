"""Conditions over a set of named variables: `matchConditions` of webhooks, and the expressions of policies.

The functions compile an expression and evaluate it on values that the caller gives. The callers decide what a false
condition or an error means.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from muster.cluster.apiserver.cel.errors import CompileError
from muster.cluster.apiserver.cel.values import CALL_LIMIT, CelError, CostLimitError

# Takes the values of the variables by name, and returns the value of the expression.
Condition: TypeAlias = Callable[[Mapping[str, Any]], Any]


def compile_condition(expression: str, variables: Sequence[str], limit: int = CALL_LIMIT) -> Condition:
    """Compile an expression to a function of its variables, and cache the function for later requests.

    Raises `CompileError` if the text is not a valid expression. The returned function takes null for a variable without
    a value. It raises `CelError` if the expression has no value, and `CostLimitError` if a run costs more than `limit`.
    """
    return _compile_condition(expression, tuple(variables), limit)


@lru_cache(maxsize=1024)
def _compile_condition(expression: str, variables: tuple[str, ...], limit: int) -> Condition:
    from muster.cluster.apiserver.cel.evaluate import CostBudget, compile_expression
    from muster.cluster.apiserver.cel.front import check
    from muster.cluster.apiserver.cel.shapes import ANYTHING

    checked, _ = check(expression, dict.fromkeys(variables, "dyn"))
    program = compile_expression(checked, dict.fromkeys(variables, ANYTHING))

    def evaluate(values: Mapping[str, Any]) -> Any:
        return program(*(values.get(name) for name in variables), budget=CostBudget(limit))

    return evaluate


def find_problem(expression: str, variables: Sequence[str]) -> str:
    """Return why an expression does not compile over these variables, or "" if it compiles."""
    try:
        compile_condition(expression, variables)
    except CompileError as error:
        return str(error)
    return ""


class ConditionError(Exception):
    """Conditions that could not be evaluated, while no other condition was false."""


def all_hold(conditions: Iterable[str], variables: Sequence[str], values: Mapping[str, Any]) -> bool:
    """Return whether all conditions hold. A false condition outweighs the errors of the others.

    Raises `ConditionError` if a condition failed or is not a bool, and none is false.
    """
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
