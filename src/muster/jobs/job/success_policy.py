"""Decide whether the succeeded indexes satisfy the Job's successPolicy."""

from muster.api.batch import SuccessPolicy, SuccessPolicyRule
from muster.api.values.indexes import Indexes


def match(policy: SuccessPolicy | None, completions: int, succeeded: Indexes) -> str:
    """Return the condition message for the first rule that is satisfied; "" if no rule is."""
    if policy is None or not succeeded:
        return ""
    for number, rule in enumerate(policy.rules):
        if _is_satisfied(rule, completions, succeeded):
            return f"Matched rules at index {number}"
    return ""


def _is_satisfied(rule: SuccessPolicyRule, completions: int, succeeded: Indexes) -> bool:
    """Return whether all indexes that the rule names succeeded, or at least `succeededCount` of them.

    A rule that names no indexes counts all that succeeded.
    """
    if rule.succeeded_indexes is None:
        return rule.succeeded_count is not None and len(succeeded) >= rule.succeeded_count
    named = Indexes.parse(rule.succeeded_indexes, completions)
    if not named:
        return False
    reached = named.overlap(succeeded)
    return reached == len(named) or (rule.succeeded_count is not None and reached >= rule.succeeded_count)
