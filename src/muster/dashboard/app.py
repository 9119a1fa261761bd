"""Serve the dashboard as one ASGI application: authenticate each request, find its page, and respond.

The pages themselves are in `muster.dashboard.pages`. Before the viewer is authenticated, only static files and the
sign-in page are served.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping
from functools import partial
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, quote, unquote

import msgspec

from muster.api.status import ApiError
from muster.cluster.apiserver.answers import Stream
from muster.cluster.apiserver.front.asgi import AUDIT_ID, EXTENSION, Caller, Receive, Scope, Send, get_text
from muster.cluster.apiserver.front.inbound import InboundRequest
from muster.cluster.apiserver.front.incoming import Body
from muster.cluster.apiserver.front.sending import respond
from muster.dashboard import guard
from muster.dashboard.boards import Boards
from muster.dashboard.compression import compress
from muster.dashboard.pages import ROUTES
from muster.dashboard.refusals import explain_error
from muster.dashboard.rendering import Renderer
from muster.dashboard.root import ROOT
from muster.dashboard.statics import PREFIX, answer_static
from muster.dashboard.streams import OpenStreams
from muster.dashboard.viewing.fronts import Front
from muster.dashboard.viewing.hosts import Host, Proof, Viewer
from muster.dashboard.viewing.sessions import SESSION_LIFETIME, Link, Session, Sessions, is_form_key
from muster.dashboard.visits import Deed, Download, Page, PageError, Route, Router, Visit, make_address
from muster.runtime.clock import Clock
from muster.runtime.ids import Random
from muster.runtime.tasks import cancel
from muster.runtime.transport import Response, TransportError

LINKS = f"{ROOT}/links"
"""Where a user of the API asks for a link that opens the dashboard once."""

_FORM_BYTES = 256 * 1024
# Behind a proxy, a page reopens its streams after this number of seconds, so that the proxy authenticates the viewer
# again.
_PROXIED_PAGE_SECONDS, _PROXIED_OUTPUT_SECONDS = 60.0, 600.0
_HTML = "text/html; charset=utf-8"
_EVENTS = "text/event-stream"
_CALM = ("GET", "HEAD")
_UNAUTHORIZED = 401

log = logging.getLogger(__name__)


class Dashboard:
    """The pages of the dashboard as an ASGI application, for viewers who have signed in.

    hosts: the host names under which viewers reach the server, in addition to loopback names; None for any name.
    name: the name of the session cookie, which must be unique among the servers of the machine.
    address: the URL under which viewers on this machine open the pages.
    read_only: whether the pages offer no changes.
    front: the proxy in front, if it signs viewers in; else None.
    sign_out_path: the path under which that proxy signs viewers out; "" to show no button for it.
    """

    def __init__(
        self,
        host: Host,
        sessions: Sessions,
        clock: Clock,
        random: Random,
        *,
        hosts: Collection[str] | None = (),
        name: str = "muster",
        address: str = "",
        read_only: bool = False,
        front: Front | None = None,
        sign_out_path: str = "",
    ) -> None:
        self._host = host
        self._sessions = sessions
        self._clock = clock
        self._boards = Boards(clock, random)
        self._renderer = Renderer()
        self._router = Router(ROUTES)
        self._hosts = frozenset(map(str.lower, hosts)) if hosts is not None else None
        self._front = front
        self._sign_out_path = sign_out_path
        self._address = address
        self._cookie = f"{name}-session"
        self._read_only = read_only
        self._streams = OpenStreams(sessions)
        self._preparations: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Stop all watches and tasks that keep viewers' pages up to date."""
        await cancel([*self._preparations])
        await self._boards.close()

    def make_link(self, proof: Proof, user: str = "") -> str:
        """Return a path that works once: it signs in the browser that opens it, as the user of this proof.

        user: the viewer's name.

        The overview is prepared immediately, because the browser takes some time to open the link.
        """
        preparation = asyncio.create_task(self._prepare_overview(proof))
        self._preparations.add(preparation)
        preparation.add_done_callback(self._preparations.discard)
        return f"{ROOT}/enter?link={self._sessions.make_link(user, proof)}"

    async def _prepare_overview(self, proof: Proof) -> None:
        """Compile the templates of the overview, and read its data, with the rights of the viewer who will open it.

        Does nothing for a viewer who recently opened a page or got a link, so that many links cost no more than one.
        """
        try:
            viewer = await self._host.recognize(proof)
            if self._boards.has(viewer):
                return
            route, visit = self._visit(viewer, "/", {})
            assert isinstance(route, Page), "the overview is a page"
            await visit.copy.check_rights()
            values = self._add_common_values(route, visit, await self._view_page(route, visit))
        except (ApiError, PageError, TransportError) as error:
            log.info("the overview cannot be prepared: %s", error)
            return
        self._renderer.prepare("base.html")
        self._renderer.render_main(route.template, values)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request of an ASGI server. An error becomes a page that explains it."""
        caller: Caller = scope["extensions"][EXTENSION]
        headers = dict(reversed(scope["headers"]))  # the first header of a name wins
        headers.pop(AUDIT_ID, None)
        body = Body(scope["method"], headers, receive)
        try:
            answer = await self._answer(InboundRequest(scope, headers, caller, body), caller)
        except (PageError, ApiError, TransportError) as error:
            answer = self._explain(error)
        except Exception:
            log.exception("a page of the dashboard failed: %s", scope["path"])
            answer = self._explain(PageError("This page failed", "The server's log says why.", 500))
        answer = msgspec.structs.replace(answer, headers={**guard.HEADERS, **answer.headers})
        if isinstance(answer, Response):
            answer = await compress(answer, get_text(headers, b"accept-encoding"))
        await respond(answer, scope, headers, body, caller, send, _skip_rest)

    async def _answer(self, request: InboundRequest, caller: Caller) -> Response | Stream:
        host = request.header("host")
        if self._hosts is not None and not guard.is_known_host(host, self._hosts):
            raise PageError("This server has another name", f"It is not known as {host!r}.", 421)
        path = request.path
        if path in ("/", ROOT, f"{ROOT}/index.html"):
            return _redirect(f"{ROOT}/")
        if not path.startswith(f"{ROOT}/"):
            raise PageError("Nothing is served here", f"The pages are at {ROOT}/.")
        if request.method == "POST" and path == LINKS:
            return await self._hand_out_link(request, caller)
        if (below := path.removeprefix(ROOT)).startswith(PREFIX):
            if (file := answer_static(below)) is not None:
                return file
            raise PageError("There is no such file", "Reload the page that asked for it.")
        if below == "/enter":
            return await self._enter(request)
        if (visitor := await self._find_visitor(request)) is None:
            return self._ask_to_sign_in(request)
        session, viewer = visitor
        caller.slot.owner = viewer.name
        try:
            return await self._answer_viewer(request, below, session, viewer)
        except (PageError, ApiError, TransportError) as error:
            return self._explain(error, {**self._make_frame(viewer, session), "back": self._find_back(below)})

    async def _answer_viewer(
        self, request: InboundRequest, path: str, session: Session, viewer: Viewer
    ) -> Response | Stream:
        """Respond to a request of a signed-in viewer: a page, a change, a stream or a sign-out.

        path: the path below `ROOT`.

        Raises `PageError`, `ApiError`, `TransportError`.
        """
        if path == "/leave" and request.method == "POST":
            await self._read_form(request, session)
            self._sessions.close(session)
            to = self._sign_out_path if session.is_proxied else ""
            return _redirect(to or f"{ROOT}/", self._write_cookie("", request))
        if path == "/live":
            return self._follow(viewer, session, request.query.get("at", ""))
        route, visit = self._visit(viewer, path, request.query)
        await visit.copy.check_rights()
        if request.method == "POST":
            return await self._act(route, visit, await self._read_form(request, session), session)
        if request.method not in _CALM:
            raise PageError("A page takes no such request", f"{request.method} is not served here.", 405)
        if isinstance(route, Deed) and self._read_only:
            raise PageError("Nothing can be changed here", "This dashboard was started with --read-only.", 403)
        if isinstance(route, Download):
            answer = await route.answer(visit)
            if not isinstance(answer, Stream):
                return answer
            lasts = _PROXIED_OUTPUT_SECONDS if session.is_proxied and answer.is_endless else None
            return self._streams.count(viewer, session, answer, lasts)
        return await self._show(route, visit, session)

    # Sign-in and sign-out.

    async def _hand_out_link(self, request: InboundRequest, caller: Caller) -> Response:
        """Return a sign-in link that works once to a user of the API. Raises `ApiError` (401, 403)."""
        until = caller.slot.certified_until if caller.user is not None else None
        proof = Proof(caller.user, request.header("authorization"), caller.slot.peer, until=until)
        viewer = await self._host.recognize(proof)
        return Response(201, msgspec.json.encode({"url": self._address + self.make_link(proof, viewer.name)}))

    async def _enter(self, request: InboundRequest) -> Response:
        """Sign in a viewer who has a link, or who submits a token in the form; respond with a cookie and a redirect.

        A wrong token gets the form again (401). Raises `PageError` if the link is unknown, used or expired, if the
        form was sent from another site, or if the method is wrong, and `ApiError` if the cluster refuses for another
        reason. Raises `TransportError`, too.
        """
        if request.method == "POST" and self._host.takes_tokens:
            if not guard.is_from_here(
                request.header("host"), request.header("origin"), request.header("sec-fetch-site")
            ):
                raise PageError("This form comes from elsewhere", "Open the page, and send the form from there.", 403)
            token = dict(parse_qsl((await request.read(_FORM_BYTES)).decode("utf-8", "replace"))).get("token", "")
            proof = Proof(authorization=f"Bearer {token.strip()}")
            try:
                link: Link | None = Link((await self._host.recognize(proof)).name, proof, self._clock.now())
            except ApiError as error:
                if error.code != 401:
                    raise
                return self._render_response(
                    "signin.html", {"takes_tokens": True, "to": "", "refused": True, "unchanged": False}, 401
                )
        elif request.method == "GET":
            link = self._sessions.use_link(request.query.get("link", ""))
        else:
            raise PageError("A page takes no such request", f"{request.method} is not served here.", 405)
        if link is None:
            raise PageError(
                "This link has been used, or is older than a minute", "Ask for another: muster dashboard", 403
            )
        cookie = self._sessions.open(link.user, link.proof)
        return _redirect(_require_own_path(request.query.get("to", "")), self._write_cookie(cookie, request))

    async def _find_visitor(self, request: InboundRequest) -> tuple[Session, Viewer] | None:
        """Return the session and the viewer whom the proxy in front or the cookie names; None before a sign-in.

        A session whose credentials are refused is closed. Raises `ApiError` if the proxy names no viewer (400, 401,
        403) or the cluster fails, and `TransportError` if it does not respond.
        """
        proof = self._front.find_proof(request) if self._front is not None else None
        if proof is not None:
            viewer = await self._host.recognize(proof)
            return self._sessions.follow(viewer.name, proof), viewer
        session = self._sessions.find(self._read_cookie(request))
        if session is None:
            return None
        try:
            return session, await self._host.recognize(session.proof)
        except ApiError as error:
            if error.code not in (401, 403):
                raise
            self._sessions.close(session)
            return None

    def _ask_to_sign_in(self, request: InboundRequest) -> Response:
        if request.method == "GET" and request.header("sec-fetch-site") == "cross-site":
            # A browser does not send the cookie when the user follows a link from another site, but does when the page
            # reloads itself.
            return self._render_response("again.html", {})
        to = request.path if request.method == "GET" else ""
        values = {"takes_tokens": self._host.takes_tokens, "to": to, "refused": False, "unchanged": not to}
        return self._render_response("signin.html", values, 401)

    def _read_cookie(self, request: InboundRequest) -> str:
        try:
            cookies = SimpleCookie(request.header("cookie"))
        except CookieError:
            return ""
        return cookies[self._cookie].value if self._cookie in cookies else ""

    def _write_cookie(self, value: str, request: InboundRequest) -> dict[str, str]:
        lasts = int(SESSION_LIFETIME.total_seconds()) if value else 0
        is_secure = request.is_secure or request.header("x-forwarded-proto") == "https"
        parts = (f"{self._cookie}={value}", f"Path={ROOT}", f"Max-Age={lasts}", "HttpOnly", "SameSite=Strict")
        return {"set-cookie": "; ".join((*parts, "Secure") if is_secure else parts)}

    # Pages.

    def _visit(self, viewer: Viewer, path: str, query: Mapping[str, str]) -> tuple[Route, Visit]:
        """Return the route for a path, and the visit to pass to its view.

        Raises `PageError` (404) for an unknown path.
        """
        found = self._router.find(path)
        if found is None:
            raise PageError("There is no such page", "The menu above leads to those that there are.")
        route, names = found
        board = self._boards.find(viewer)
        return route, Visit(viewer, board.copy, path, query, self._clock.now(), names, self._read_only)

    def _find_back(self, path: str) -> str:
        """Return the address of the page that has the button of a deed; "" if the path is not a deed's."""
        found = self._router.find(path)
        if found is None or not isinstance(found[0], Deed):
            return ""
        return make_address(*map(unquote, path.strip("/").split("/")[:-1]))

    async def _show(self, route: Page | Deed, visit: Visit, session: Session) -> Response:
        return self._show_values(route, visit, session, await self._view_page(route, visit))

    async def _view_page(self, route: Page | Deed, visit: Visit) -> Mapping[str, Any]:
        """Return the template values of a page. Raises `ApiError`, `PageError`, `TransportError`."""
        visit.copy.begin_round()
        return await route.view(visit)

    def _show_values(
        self, route: Page | Deed, visit: Visit, session: Session, values: Mapping[str, Any], status: int = 200
    ) -> Response:
        frame = self._make_frame(visit.viewer, session) | {
            "said": self._sessions.take_message(session),
            "trouble": visit.copy.trouble,
            "live_at": _make_address(visit) if isinstance(route, Page) and route.live else "",
        }
        return self._render_response(route.template, self._add_common_values(route, visit, values) | frame, status)

    def _make_frame(self, viewer: Viewer, session: Session) -> dict[str, Any]:
        """Return the values for each page's menu: the viewer, the form key, and whether to show a sign-out button."""
        can_leave = not session.is_proxied or bool(self._sign_out_path)
        return {"viewer": viewer, "form_key": session.form_key, "can_leave": can_leave}

    def _add_common_values(self, route: Page | Deed, visit: Visit, values: Mapping[str, Any]) -> dict[str, Any]:
        return {**values, "section": route.section, "visit": visit, "now": visit.now, "read_only": self._read_only}

    def _follow(self, viewer: Viewer, session: Session, at: str) -> Stream:
        """Return a stream of the changes of an open page.

        at: the address of the page.

        Raises `PageError` if the page does not exist, or has no stream of changes.
        """
        path, _, query = at.removeprefix(ROOT).partition("?")
        route, visit = self._visit(viewer, path, dict(parse_qsl(query, max_num_fields=100)))
        if not isinstance(route, Page) or not route.live:
            raise PageError("This page does not change", "Reload it to see it anew.")
        self._renderer.prepare(route.template)  # also for a job that does not exist yet
        screen = self._boards.find(viewer).screen(at, partial(self._render_again, session, route, visit))
        headers = {"cache-control": "no-store"}
        stream = Stream(screen.follow(), _EVENTS, headers=headers, is_endless=True)
        return self._streams.count(viewer, session, stream, _PROXIED_PAGE_SECONDS if session.is_proxied else None)

    async def _render_again(self, session: Session, route: Page, visit: Visit) -> str:
        """Return the HTML of the main part of a page, with what its viewer is now allowed to see.

        Raises `PageError` (401) if the session is closed, and the errors of the view.
        """
        if not self._sessions.is_open(session):
            raise PageError("You have signed out", "Open the dashboard again: muster dashboard", 401)
        await self._host.recognize(session.proof)
        await visit.copy.check_rights()
        now = msgspec.structs.replace(visit, now=self._clock.now())
        return self._renderer.render_main(route.template, self._add_common_values(route, now, await route.view(now)))

    # Deeds: changes that a viewer confirms.

    async def _act(self, route: Route, visit: Visit, form: Mapping[str, str], session: Session) -> Response:
        if not isinstance(route, Deed):
            raise PageError("A page takes no such request", "Only forms are sent with POST.", 405)
        if self._read_only:
            raise PageError("Nothing can be changed here", "This dashboard was started with --read-only.", 403)
        try:
            said = await route.act(visit, form)
        except PageError as error:
            return await self._ask_again(route, visit, session, form, error)
        except ApiError as error:
            if error.code == _UNAUTHORIZED:
                raise
            title = _DEED_TITLES.get(error.code, "The server refuses this")
            refusal = PageError(title, explain_error(error), error.code)
            return await self._ask_again(route, visit, session, form, refusal)
        self._sessions.say_later(session, said)
        return _redirect(route.after(visit, form))

    async def _ask_again(
        self, route: Deed, visit: Visit, session: Session, form: Mapping[str, str], refusal: PageError
    ) -> Response:
        """Return the page of a refused deed again, with the reason and the values that the viewer entered.

        Raises `refusal` if the page can no longer be shown.
        """
        try:
            values = dict(await self._view_page(route, visit))
        except (ApiError, PageError, TransportError):
            raise refusal from None
        values["fields"] = [one | {"value": form.get(one["name"], one["value"])} for one in values["fields"]]
        return self._show_values(route, visit, session, values | {"refusal": refusal}, refusal.status)

    async def _read_form(self, request: InboundRequest, session: Session) -> Mapping[str, str]:
        """Return the values of a submitted form.

        Raises `PageError` (403) if the form was not sent by a page of this viewer.
        """
        sent = await request.read(_FORM_BYTES)
        form = dict(parse_qsl(sent.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=100))
        from_here = guard.is_from_here(
            request.header("host"), request.header("origin"), request.header("sec-fetch-site")
        )
        if not from_here or not is_form_key(session, form.pop("form_key", "")):
            raise PageError("This form comes from elsewhere", "Open the page, and send the form from there.", 403)
        return form

    # Responses.

    def _render_response(self, template: str, values: Mapping[str, Any], status: int = 200) -> Response:
        base = {"viewer": None, "section": "", "form_key": "", "said": "", "trouble": "", "live_at": ""}
        about = {"can_leave": False, "read_only": self._read_only, "now": self._clock.now()}
        page = self._renderer.render(template, {**base, **about, **values})
        return Response(status, page.encode(), _HTML)

    def _explain(
        self, error: PageError | ApiError | TransportError, frame: Mapping[str, Any] | None = None
    ) -> Response:
        """Return a page that explains an error, with the error's status code.

        frame: the values for the menu; None for a viewer who has not signed in.
        """
        match error:
            case PageError():
                status, title, about = error.status, error.title, error.text
            case ApiError():
                status, title, about = error.code, _TITLES.get(error.code, "This cannot be shown"), explain_error(error)
            case _:
                status, title, about = 503, "The API server does not answer", explain_error(error)
        return self._render_response("error.html", {"back": "", **(frame or {}), "title": title, "text": about}, status)


_TITLES = {403: "You may not see this", 404: "This is not there", 409: "Somebody else changed it first"}
_DEED_TITLES = {**_TITLES, 403: "You may not do this"}


def _redirect(to: str, headers: Mapping[str, str] | None = None) -> Response:
    return Response(303, b"", "text/plain", {"location": to, **(headers or {})})


def _require_own_path(to: str) -> str:
    """Return `to` if it is a path of this dashboard, else the path of the overview."""
    is_own = to.startswith(f"{ROOT}/") and "//" not in to and "\\" not in to and to.isprintable()
    return quote(unquote(to), safe="/") if is_own else f"{ROOT}/"


def _make_address(visit: Visit) -> str:
    parts = [unquote(part) for part in visit.path.strip("/").split("/")]
    return make_address(*parts, **visit.query)


async def _skip_rest() -> None:
    """Do nothing, so that the next piece of a stream is sent immediately."""
