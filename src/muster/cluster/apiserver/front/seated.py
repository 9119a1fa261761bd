"""Make the requests that a page sends within this process wait for seats, like requests from outside."""

from muster.api.status import ApiError
from muster.cluster.apiserver.answers import make_refusal
from muster.cluster.apiserver.front.flow import Flow
from muster.cluster.apiserver.front.loans import Loans
from muster.cluster.apiserver.identity.users import User
from muster.cluster.apiserver.inprocess import InProcessTransport
from muster.cluster.apiserver.pipeline import ApiServer
from muster.runtime.transport import Request, Response


class SeatedTransport(InProcessTransport):
    """The transport by which the dashboard's pages send requests for a viewer, inside the server's process.

    Like a request over HTTPS, each request waits until it is one of the few requests that run at a time (it has a
    seat). A stream takes no seat; the pages limit the number of their streams.
    """

    is_own = False

    def __init__(self, server: ApiServer, user: User, flow: Flow) -> None:
        super().__init__(server, user)
        self._flow = flow
        self._name = user.name

    async def request(self, request: Request) -> Response:
        """Wait for a seat and return the response, whatever its status; a 429 response if no seat is free in time.

        Raises `TransportError` if the response takes too long.
        """
        with Loans() as taken:
            try:
                await self._flow.take_seats(self._name, request, len(request.body), taken, taken)
            except ApiError as error:
                return make_refusal(error)
            return await super().request(request)
