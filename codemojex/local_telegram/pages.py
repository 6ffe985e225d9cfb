"""Serves the page and its stream of events, and keeps strangers out.

Requests must name the host that the server listens on, and a browser's request must come from the page itself:
another site that a visitor has open can neither read the chats nor act in them.
"""

import asyncio
import contextlib
import json
from importlib import resources
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from codemojex.local_telegram.errors import ControlError
from codemojex.local_telegram.state.membership import person_of
from codemojex.local_telegram.state.world import World

TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
PING_S = 15.0
LOCAL_NAMES = {"localhost", "127.0.0.1", "::1"}
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:"
HEADERS = {
    "Content-Security-Policy": POLICY + "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class Pages:
    """The page's files and event stream."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._files = resources.files("codemojex.local_telegram") / "page"

    def routes(self) -> list[web.RouteDef]:
        """The routes of the page."""
        return [
            web.get("/", self.file),
            web.get("/page/{name}", self.file),
            web.get("/control/events", self.events),
        ]

    async def file(self, request: web.Request) -> web.StreamResponse:
        """One file of the page."""
        name = request.match_info.get("name", "index.html")
        known = {file.name: file for file in self._files.iterdir()}
        kind = TYPES.get(name.rpartition(".")[2])
        if name not in known or kind is None:
            return web.json_response({"error": f"there is no {name}"}, status=404)
        text = known[name].read_text("utf-8")
        return web.Response(text=text, content_type=kind, charset="utf-8", headers=HEADERS)

    async def events(self, request: web.Request) -> web.StreamResponse:
        """Server-sent events: `data: {"kind": …}` per change; `reset` means reload the state."""
        user_id: int | None = None
        try:
            if "user_id" in request.query:
                user_id = person_of(self._world, int(request.query["user_id"])).user_id
        except (ValueError, ControlError):
            return web.json_response({"error": "user_id is not the id of a person"}, status=404)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        await response.prepare(request)
        # A page that is closed or reloaded breaks the connection; that is the normal end of a stream.
        with contextlib.suppress(ConnectionError), self._world.events.watch(user_id) as queue:
            await response.write(b": hello\n\n")
            while True:
                try:
                    async with asyncio.timeout(PING_S):
                        event = await queue.get()
                except TimeoutError:
                    await response.write(b": ping\n\n")
                    continue
                if event is None:
                    break
                await response.write(f"data: {json.dumps(event, ensure_ascii=False)}\n\n".encode())
        return response


def guard(local_only: bool) -> Middleware:
    """The middleware that checks who asks, and closes a connection on which nothing more can be read."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        response = _refusal(request, local_only) or await handler(request)
        if request.content.exception() is not None:  # its body is not what its headers say
            response.force_close()
            request.content.feed_eof()
        return response

    return check


def _refusal(request: web.Request, local_only: bool) -> web.StreamResponse | None:
    try:
        host = urlsplit(f"//{request.host}").hostname or ""
    except ValueError:
        return web.json_response({"error": "Host is not the name of a host"}, status=400)
    if local_only and host not in LOCAL_NAMES and not host.startswith("127."):
        return web.json_response({"error": "this server answers on loopback names only"}, status=403)
    origin = request.headers.get("Origin")
    try:
        stranger = origin is not None and urlsplit(origin).netloc != request.host
    except ValueError:
        return web.json_response({"error": "Origin is not an address"}, status=400)
    if stranger:
        return web.json_response({"error": "requests from other sites are refused"}, status=403)
    return None
