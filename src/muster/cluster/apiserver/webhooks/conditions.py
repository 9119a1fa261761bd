"""The matchConditions of webhooks: CEL over the request, looked at before anybody is asked."""

from functools import lru_cache

from muster.api.admissionregistration import ValidatingWebhook
from muster.api.status import ApiError, forbidden
from muster.cluster.apiserver.admission import Attempt
from muster.cluster.apiserver.cel import CelError, CompileError, Condition, CostLimitError, compile_condition
from muster.cluster.apiserver.decode import Document

VARIABLES = ("object", "oldObject", "request")


class ConditionError(Exception):
    """A condition cannot be evaluated."""

    def refusal(self, attempt: Attempt) -> ApiError:
        """The answer, where that means that the request fails."""
        name = attempt.resource.name
        return forbidden(f'{name} "{attempt.name}" is forbidden: {self}', resource=name, name=attempt.name)


def holds(webhook: ValidatingWebhook, request: Document) -> bool:
    """Whether all conditions hold; one that does not settles it. Raises `ConditionError`."""
    if not webhook.match_conditions:
        return True
    given = {"object": request["object"], "oldObject": request["oldObject"], "request": request}
    problem = ""
    for condition in webhook.match_conditions:
        try:
            value = _compiled(condition.expression)(given)
        except (CelError, CompileError, CostLimitError) as error:
            problem = problem or f"expression '{condition.expression}' resulted in error: {error}"
            continue
        if value is False:
            return False
        if value is not True:
            problem = problem or f"expression '{condition.expression}' does not evaluate to a bool"
    if problem:
        raise ConditionError(problem)
    return True


def problem_of(expression: str) -> str:
    """Why an expression cannot be a condition; "" if it can."""
    try:
        _compiled(expression)
    except CompileError as error:
        return str(error)
    return ""


@lru_cache(maxsize=1024)
def _compiled(expression: str) -> Condition:
    return compile_condition(expression, VARIABLES)
