"""Gives the requests that a page makes within this process the seats that they would take from outside."""

from muster.api.status import ApiError
from muster.cluster.apiserver.answers import make_refusal
from muster.cluster.apiserver.front.flow import Flow
from muster.cluster.apiserver.front.loans import Loans
from muster.cluster.apiserver.identity.users import User
from muster.cluster.apiserver.inprocess import InProcessTransport
from muster.cluster.apiserver.pipeline import ApiServer
from muster.runtime.transport import Request, Response


class SeatedTransport(InProcessTransport):
    """The transport of requests for a viewer of pages. Each request waits for a seat of that user, and then runs.

    A stream takes no seat. The pages limit how many streams they have.
    """

    def __init__(self, server: ApiServer, user: User, flow: Flow) -> None:
        super().__init__(server, user)
        self._flow = flow
        self._name = user.name

    async def request(self, request: Request) -> Response:
        """Return the answer, whatever its status. Raises `TransportError` if it takes too long."""
        with Loans() as taken:
            try:
                await self._flow.take_seats(self._name, request, len(request.body), taken, taken)
            except ApiError as error:
                return make_refusal(error)
            return await super().request(request)
