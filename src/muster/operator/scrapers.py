"""Decide who may read the metrics: the API server authenticates the token and authorizes a `get` of the path.

controller-runtime's filter does the same (authentication and authorization of metrics).
"""

from muster.api.server.authentication import TOKEN_REVIEW, TokenReview, TokenReviewSpec
from muster.api.server.authorization import (
    SUBJECT_ACCESS_REVIEW,
    NonResourceAttributes,
    SubjectAccessReview,
    SubjectAccessReviewSpec,
)
from muster.runtime.client import Client
from muster.runtime.clock import Clock

# The time for which a result about a token is cached: scrapers come every few seconds.
ANSWER_SECONDS = 60.0
# The maximum number of cached tokens; further ones can only be guesses.
MOST_ANSWERS = 256


class Scrapers:
    """The authorizer of requests for metrics. It caches the API server's responses about tokens for a minute."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._answers: dict[tuple[str, str], tuple[int, float]] = {}  # by token and path: status, and its expiry

    async def status(self, token: str, path: str) -> int:
        """Return 200 if the token's user may `get` the path, else 401 or 403. Raises `ApiError`, `TransportError`."""
        if not token:
            return 401
        cached = self._answers.get((token, path))
        if cached is not None and cached[1] > self._clock.monotonic():
            return cached[0]
        status = await self._review_token(token, path)
        if len(self._answers) >= MOST_ANSWERS:
            self._answers.clear()
        self._answers[token, path] = status, self._clock.monotonic() + ANSWER_SECONDS
        return status

    async def _review_token(self, token: str, path: str) -> int:
        review = await self._client.create(TOKEN_REVIEW, TokenReview(spec=TokenReviewSpec(token=token)))
        if not review.status.authenticated:
            return 401
        user = review.status.user
        review_spec = SubjectAccessReviewSpec(
            non_resource_attributes=NonResourceAttributes(path=path, verb="get"),
            user=user.username,
            groups=user.groups,
            extra=user.extra,
            uid=user.uid,
        )
        answer = await self._client.create(SUBJECT_ACCESS_REVIEW, SubjectAccessReview(spec=review_spec))
        return 200 if answer.status.allowed else 403
