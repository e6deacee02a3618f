"""The service as an application of Starlette: routes, limits, the token, errors and their answers."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streamcal.errors import StateError, StoreError
from streamcal.live.shadow import Version
from streamcal.maps.writing import FORMATS
from streamcal.serving import arrow, documentation
from streamcal.serving.challenging import Challenging
from streamcal.serving.items import Items, items_of
from streamcal.serving.metrics import CONTENT_TYPE, Meters
from streamcal.serving.openapi import schema
from streamcal.serving.reading import RefusedError, parsed
from streamcal.serving.service import RETRY_AFTER, Answer, Service
from streamcal.serving.settings import LONGEST_TEXT

logger = logging.getLogger(__name__)

#: What probes ask, without a token.
OPEN = {"/healthz", "/readyz"}
#: Items of a batch after which other requests have their turn.
TURN = 100
JSON = "application/json"
#: Refused items of a batch that are logged one by one.
LOGGED_ITEMS = 10
#: Key of a request's scope under which `Guard` finds why the request was refused.
REFUSED = "streamcal.refused"

Endpoint = Callable[[Request], Coroutine[Any, Any, Response]]


def application(service: Service) -> Starlette:
    """Make the application of a service, which it starts and stops."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await service.start()
        yield
        await service.stop()

    meters = Meters(service)
    described = schema(service)
    written, documented = json.dumps(described).encode(), documentation.page(described)
    routes = [
        Route("/v1/issue", single(service, issue=True), methods=["POST"]),
        Route("/v1/outcome", single(service, issue=False), methods=["POST"]),
        Route("/v1/issue/batch", batch(service, meters, issue=True), methods=["POST"]),
        Route("/v1/outcome/batch", batch(service, meters, issue=False), methods=["POST"]),
        Route("/v1/map", map_page(service)),
        Route("/v1/backup", backup(service), methods=["POST"]),
        Route("/v1/challengers", page(lambda: answer(service.challenging.shown()))),
        Route("/v1/promote", changing(service, Challenging.promote), methods=["POST"]),
        Route("/v1/rollback", changing(service, Challenging.rollback), methods=["POST"]),
        Route("/v1/segments/{field:path}", segments_page(service)),
        Route("/metrics", page(lambda: Response(meters.page(), media_type=CONTENT_TYPE))),
        Route("/healthz", page(lambda: answer({"status": "alive"}))),
        Route("/readyz", page(lambda: readiness(service))),
        *([Route("/", report_page(service))] if service.page is not None else []),
        Route("/openapi.json", page(lambda: Response(written, media_type=JSON))),
        Route("/docs", page(lambda: html(documented, documentation.POLICY))),
    ]
    handlers: dict[Any, Any] = {
        RefusedError: noted_refusal,
        StateError: lambda _, error: unavailable(error),
        HTTPException: lambda _, error: unknown(error),
        Exception: lambda _, error: answer({"error": "internal error", "where": "", "allowed": ""}, 500),
    }
    guard = Middleware(Guard, service=service, meters=meters, known={route.path for route in routes})
    app = Starlette(routes=routes, middleware=[guard], exception_handlers=handlers, lifespan=lifespan)
    app.router.redirect_slashes = False  # many clients do not send a body again: 404 says what is wrong
    return app


# -- requests ----------------------------------------------------------------------------------------------------


def single(service: Service, issue: bool) -> Endpoint:
    """Make the endpoint for one impression, or one outcome."""
    take: Callable[[Any], Any] = service.issue if issue else service.resolve

    async def endpoint(request: Request) -> Response:
        require_json(request)
        item = parsed(await body_of(request, service))
        service.require_disk(issue)
        content = with_id(take, item)
        await service.acknowledged(issue)
        return answer(msgspec.to_builtins(content))

    return endpoint


def batch(service: Service, meters: Any, issue: bool) -> Endpoint:
    """Make the endpoint for a list, in JSON or Arrow.

    Its answers are in the order of the items, null for those refused; `errors` names what is wrong with each.
    """
    settings = service.settings

    async def endpoint(request: Request) -> Response:
        kind = require_json(request, arrow.MEDIA_TYPE)
        body = await body_of(request, service)
        if kind == arrow.MEDIA_TYPE:
            items = arrow.read(body, issue, settings.max_batch, settings.max_keys, service.require_names)
        else:
            limits = settings.max_batch, settings.max_keys
            items = items_of(body, issue, *limits, service.require_names, columns=service.in_columns)
        service.require_disk(issue)
        meters.batch(len(items))
        answers: list[Answer] = []
        for begin in range(0, len(items), TURN):
            answers += service.take_many(items, begin, min(begin + TURN, len(items)), issue=issue)
            if begin + TURN < len(items):
                await asyncio.sleep(0)
        errors = refused_items(answers, items, meters, "issue" if issue else "outcome")
        results = [None if isinstance(answer, RefusedError) else answer for answer in answers] if errors else answers
        await service.acknowledged(issue)
        if arrow.MEDIA_TYPE in request.headers.get("accept", ""):
            return Response(arrow.written(items, results, errors, issue), media_type=arrow.MEDIA_TYPE)
        content = msgspec.json.encode({"results": results, "errors": errors})
        return Response(content, media_type=JSON)

    return endpoint


def refused_items(answers: Sequence[Answer], items: Items, meters: Meters, kind: str) -> list[dict[str, Any]]:
    """Count and log the items that are refused, and return what is answered to each."""
    errors: list[dict[str, Any]] = []
    for place, error in [(place, answer) for place, answer in enumerate(answers) if isinstance(answer, RefusedError)]:
        errors.append({"index": place, "status": error.status, **error.content(f"[{place}]")})
        meters.refused_item(kind, error.status)
        if len(errors) <= LOGGED_ITEMS:
            reason = {"index": place, "id": id_of(items[place]), "status": error.status, "reason": str(error)}
            logger.warning("item refused", extra={"event": "item refused", "kind": kind, **reason})
    if len(errors) > LOGGED_ITEMS:
        more = {"event": "items refused", "kind": kind, "refused": len(errors), "items": len(answers)}
        logger.warning("%d of %d items refused", len(errors), len(answers), extra=more)
    return errors


def changing(service: Service, change: Callable[[Challenging, Any], Version]) -> Endpoint:
    """Make the endpoint that puts another calibrator into use; the change is in the journal when it is answered."""

    async def endpoint(request: Request) -> Response:
        require_json(request)
        item = parsed(await body_of(request, service))
        service.require_disk(issue=False)
        version = change(service.challenging, item)
        event = {"event": "version", "number": version.number, "calibrator": version.name}
        logger.info("version %d is in use: %s", version.number, version.name, extra=event)
        await service.acknowledged(issue=False)
        return answer(version._asdict())

    return endpoint


def backup(service: Service) -> Endpoint:
    """Make the endpoint that writes a backup."""

    async def endpoint(_: Request) -> Response:
        return answer(await service.backup())

    return endpoint


def require_json(request: Request, *others: str) -> str:
    """Return the content type of a body; `RefusedError` unless it is JSON, or one of the others."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != JSON and kind not in others:
        if kind == arrow.MEDIA_TYPE:
            text = "a stream of Arrow is a list; send it to the address of lists, such as /v1/issue/batch"
            raise RefusedError(415, text, "content-type")
        allowed = " or ".join([JSON, *others])
        raise RefusedError(415, f"the body is no JSON; give the header Content-Type: {allowed}", "content-type")
    return kind


async def body_of(request: Request, service: Service) -> bytes:
    """Read the body of a request; `RefusedError` if it is too long, too slow or cut off."""
    most = service.settings.max_body
    coding = request.headers.get("content-encoding", "").strip().lower()
    if coding not in ("", "identity"):
        raise RefusedError(
            415, "the body is compressed; send it as it is, without Content-Encoding", "content-encoding"
        )
    length, parts, size = request.headers.get("content-length", ""), [], 0
    too_long = RefusedError(413, f"the body is too long; give at most {most} bytes", "body", {"Connection": "close"})
    if length.isdecimal() and (len(length) > 18 or int(length) > most):
        raise too_long
    try:
        async with asyncio.timeout(service.settings.body_timeout):
            async for part in request.stream():
                size += len(part)
                if size > most:
                    raise too_long
                parts.append(part)
    except TimeoutError:
        text = f"the body did not come in {service.settings.body_timeout:g} s; send it at once"
        raise RefusedError(408, text, "body", {"Connection": "close"}) from None
    except ClientDisconnect:  # nobody reads the answer: it is counted
        raise RefusedError(400, "the connection ended before the body did; send all of it", "body") from None
    return b"".join(parts)


# -- answers -----------------------------------------------------------------------------------------------------


def answer(content: Any, status: int = 200, headers: Any = None) -> Response:
    """Make a JSON response."""
    return Response(json.dumps(content).encode(), status, headers, JSON)


def id_of(item: Any) -> Any:
    """Return the id of an item as a log shows it, None if there is no usable one."""
    id = item.get("id") if isinstance(item, dict) else None
    return id[:LONGEST_TEXT] if isinstance(id, str) else id if isinstance(id, int | float) else None


def with_id(take: Callable[[Any], Any], item: Any) -> Any:
    """Take an item, and name its id in the error if it is refused."""
    try:
        return take(item)
    except RefusedError as error:
        error.id = id_of(item)
        raise


async def noted_refusal(request: Request, error: RefusedError) -> Response:
    """Answer a refused request, and leave the reason for the log."""
    request.scope[REFUSED] = error
    return refusal(error)


def refusal(error: RefusedError) -> Response:
    """Answer a request that was refused."""
    return answer(error.content(), error.status, error.headers)


def unavailable(error: StateError) -> Response:
    """Answer a request that failed because the journal cannot be written, or levels cannot be read."""
    where = "levels" if isinstance(error, StoreError) else "journal"
    content = {"error": str(error), "where": where, "allowed": f"try again in {RETRY_AFTER} s"}
    return answer(content, 503, {"Retry-After": str(RETRY_AFTER)})


def unknown(error: HTTPException) -> Response:
    """Answer a request for an unknown address or method."""
    return answer(
        {"error": error.detail, "where": "address", "allowed": "see /openapi.json"}, error.status_code, error.headers
    )


def html(content: bytes, policy: str) -> Response:
    """Make the response for a page in a browser."""
    headers = {
        "Content-Security-Policy": policy,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "private, no-cache",
    }
    return Response(content, headers=headers, media_type="text/html")


def page(make: Callable[[], Response]) -> Endpoint:
    """Make the endpoint of a page."""

    async def endpoint(_: Request) -> Response:
        return make()

    return endpoint


def readiness(service: Service) -> Response:
    """Answer whether the service can handle requests: 503 while the disk cannot be written."""
    failure = service.acknowledging.failure
    if service.ready and failure is None:
        return answer({"status": "ready"})
    return unavailable(StateError(failure or "the service starts or stops"))


def map_page(service: Service) -> Endpoint:
    """Make the endpoint of the map."""

    async def endpoint(request: Request) -> Response:
        format = request.query_params.get("format")
        content = await service.map(format)
        if not content:
            raise RefusedError(404, "this calibrator has no map that can be written; use POST /v1/issue", "map")
        if format is None:
            return Response(content, media_type=JSON)
        exact = {"Streamcal-Exact": "true" if service.served_by_map else "false"}
        return Response(content, headers=exact, media_type=FORMATS[format])

    return endpoint


def report_page(service: Service) -> Endpoint:
    """Make the endpoint of the report."""

    async def endpoint(_: Request) -> Response:
        content = await service.report()
        assert service.page is not None
        return html(content, service.page.policy)

    return endpoint


def segments_page(service: Service) -> Endpoint:
    """Make the endpoint of the segments of a field."""

    async def endpoint(request: Request) -> Response:
        field = request.path_params["field"]
        levels = service.segments(field)
        if levels is None:
            fields = service.fields()
            known = "give keys with impressions, and wait for the horizon to pass"
            if fields and field not in fields:
                known = f"known fields are {', '.join(fields)}"
            raise RefusedError(404, f"no label of the field {field!r} is known; {known}", "field")
        return answer({"field": field, "levels": levels})

    return endpoint


# -- before and after a request ----------------------------------------------------------------------------------


class Guard:
    """Checks the token and the size of the headers, measures and logs every request."""

    def __init__(self, app: ASGIApp, service: Service, meters: Meters, known: set[str]) -> None:
        self._app, self._settings, self._meters = app, service.settings, meters
        self._known, self._tokens = {path for path in known if "{" not in path}, service.tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.perf_counter(), 500

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            wrong = scope[REFUSED] = self._refused(scope)
            await (self._app if wrong is None else refusal(wrong))(scope, receive, sending)
        finally:
            self._note(scope, status, time.perf_counter() - start)

    def _refused(self, scope: Scope) -> RefusedError | None:
        """Return the error of a request that is refused by its headers alone; None if there is none."""
        headers = scope["headers"]
        if sum(len(name) + len(value) for name, value in headers) + len(scope["raw_path"]) > self._settings.max_header:
            text = f"the headers are too long; give at most {self._settings.max_header} bytes"
            return RefusedError(431, text, "headers", {"Connection": "close"})
        if not self._tokens.asked or scope["path"] in OPEN:
            return None
        authorization = next((value for name, value in headers if name == b"authorization"), b"")
        if self._tokens.accept(authorization):
            return None
        text = "the token is missing or wrong; give the header Authorization: Bearer TOKEN"
        return RefusedError(401, text, "authorization", {"WWW-Authenticate": "Bearer"})

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        path = scope["path"]
        if path not in self._known:
            path = "/v1/segments/{field}" if path.startswith("/v1/segments/") else "other"
        self._meters.request(path, status, seconds)
        level = (
            logging.ERROR if status >= 500 and status != 503 else logging.WARNING if status >= 400 else logging.DEBUG
        )
        if logger.isEnabledFor(level):
            fields = {
                "method": scope["method"],
                "path": path,
                "status": status,
                "milliseconds": round(1e3 * seconds, 3),
            }
            error = scope.get(REFUSED)
            if error is not None:
                fields |= {"reason": str(error), "where": error.where}
                if error.id is not None:
                    fields["id"] = error.id
            logger.log(level, "request", extra={"event": "request", **fields})
