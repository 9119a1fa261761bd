"""Whether the indexes that have succeeded are enough by the Job's successPolicy."""

from muster.api.batch import SuccessPolicy, SuccessPolicyRule
from muster.api.values.indexes import Indexes


def match(policy: SuccessPolicy | None, completions: int, succeeded: Indexes) -> str:
    """What the condition will say of the first rule that is satisfied; empty if none is."""
    if policy is None or not succeeded:
        return ""
    for number, rule in enumerate(policy.rules):
        if _is_satisfied(rule, completions, succeeded):
            return f"Matched rules at index {number}"
    return ""


def _is_satisfied(rule: SuccessPolicyRule, completions: int, succeeded: Indexes) -> bool:
    """All the named indexes succeeded, or at least the count of them (of any, if none are named)."""
    if rule.succeeded_indexes is None:
        return rule.succeeded_count is not None and len(succeeded) >= rule.succeeded_count
    named = Indexes.parse(rule.succeeded_indexes, completions)
    if not named:
        return False
    reached = named.overlap(succeeded)
    return reached == len(named) or (rule.succeeded_count is not None and reached >= rule.succeeded_count)
