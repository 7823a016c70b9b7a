"""The HTTP face of the shop: a Prometheus API, logs, release records and a change API."""

import hashlib
import json
import math
import re
import time
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl

from fastapi import FastAPI, Request
from starlette.responses import JSONResponse

from examples.incident.shop.logs import log_lines
from examples.incident.shop.model import SERVICES, VERSIONS, Release, Shop
from examples.incident.shop.promql import BadQuery, Labels, parse, run

POINTS_MAX = 11_000
LINES_MAX = 100
BODY_BYTES_MAX = 8192
NUMBER_MAX = 1e11


class ShopError(Exception):
    """A refused request: status, stable word, sentence."""

    def __init__(self, status: int, error: str, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.body = {"error": error, "detail": detail}


def make_app(shop: Shop) -> FastAPI:  # noqa: C901, PLR0915 - the routes of one small server, side by side
    """Return the application of one shop."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    changes: dict[str, tuple[str, dict[str, Any]]] = {}
    tokens: dict[str, int] = {}

    @app.exception_handler(ShopError)
    async def refused(_request: Request, error: ShopError) -> JSONResponse:
        return JSONResponse(error.body, status_code=error.status)

    @app.get("/")
    async def root() -> dict[str, object]:
        return {"shop": "incident", "services": sorted(SERVICES)}

    @app.get("/-/ready")
    async def ready() -> dict[str, bool]:
        return {"ready": True}

    @app.api_route("/api/v1/query", methods=["GET", "POST"])
    async def query(request: Request) -> JSONResponse:
        given = await _form(request)
        at = _number(given, "time", time.time())
        try:
            found = run(parse(given.get("query", "")), shop, at)
        except BadQuery as error:
            return _prometheus_error(str(error))
        result = [
            {"metric": dict(labels), "value": [at, _shown(value)]}
            for labels, value in found.items()
        ]
        return _prometheus("vector", result)

    @app.api_route("/api/v1/query_range", methods=["GET", "POST"])
    async def query_range(request: Request) -> JSONResponse:
        given = await _form(request)
        try:
            start, end = _number(given, "start"), _number(given, "end")
            step = _duration(given.get("step", ""))
            if step <= 0 or end < start:
                raise BadQuery("zero or negative step, or end before start")
            if (end - start) / step > POINTS_MAX:
                raise BadQuery("exceeded maximum resolution of 11,000 points per timeseries")
            parsed = parse(given.get("query", ""))
            series: dict[Labels, list[list[object]]] = {}
            for index in range(int((end - start) // step) + 1):
                at = start + index * step
                for labels, value in run(parsed, shop, at).items():
                    series.setdefault(labels, []).append([at, _shown(value)])
        except BadQuery as error:
            return _prometheus_error(str(error))
        result = [{"metric": dict(labels), "values": points} for labels, points in series.items()]
        return _prometheus("matrix", result)

    @app.get("/logs")
    async def logs(request: Request) -> dict[str, object]:
        given = request.query_params
        service = _service(given.get("service", ""))
        since, until = _time(given.get("since")), _time(given.get("until"))
        limit = int(_number(dict(given), "limit", 20.0))
        if not 1 <= limit <= LINES_MAX:
            raise ShopError(400, "bad_limit", f"limit must be 1 to {LINES_MAX}")
        wanted = given.get("contains", "")
        matched = [
            {"at": _rfc3339(at), "line": line}
            for at, line in log_lines(shop, service, since, until)
            if wanted in line
        ]
        return {
            "lines": matched[:limit],
            "total_matched": len(matched),
            "truncated": len(matched) > limit,
        }

    @app.get("/releases")
    async def releases(request: Request) -> dict[str, object]:
        service = request.query_params.get("service")
        chosen = [
            _record(release)
            for release in reversed(shop.releases())
            if service in {None, release.service}
        ]
        return {"releases": chosen}

    @app.get("/changes")
    async def list_changes(request: Request) -> JSONResponse:
        key = request.query_params.get("idempotency_key")
        if key is None:
            return JSONResponse({"changes": [record for _, record in changes.values()]})
        if key not in changes:
            raise ShopError(404, "unknown_change", "no change has this idempotency key")
        return JSONResponse(changes[key][1])

    @app.get("/changes/{change_id}")
    async def get_change(change_id: str) -> JSONResponse:
        for _, record in changes.values():
            if record["id"] == change_id:
                return JSONResponse(record)
        raise ShopError(404, "unknown_change", "no change has this id")

    @app.post("/changes")
    async def apply_change(request: Request) -> JSONResponse:
        key = request.headers.get("idempotency-key", "")
        if not key:
            raise ShopError(400, "missing_idempotency_key", "send an Idempotency-Key header")
        body = await _object(request)
        digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        if key in changes:
            if changes[key][0] != digest:
                raise ShopError(422, "idempotency_key_reused", "another body came with this key")
            return JSONResponse(changes[key][1])
        service = _service(str(body.get("service", "")))
        _fence(tokens, service, request.headers.get("fencing-token"))
        record = _rollback(shop, service, body, key)
        changes[key] = (digest, record)
        return JSONResponse(record, status_code=201)

    return app


def _rollback(shop: Shop, service: str, body: dict[str, Any], key: str) -> dict[str, Any]:
    now = int(time.time())
    target, current = str(body.get("to_version", "")), shop.version(service, now)
    known = {VERSIONS[service]} | {
        version
        for release in shop.releases()
        if release.service == service
        for version in (release.version, release.previous_version)
    }
    if body.get("kind") != "rollback" or target not in known or target == current:
        raise ShopError(422, "bad_change", "kind must be rollback and to_version an earlier one")
    number = len(shop.applied) + 1
    shop.applied.append(
        Release(
            id=f"rel-{419 + number:04d}",
            service=service,
            kind="rollback",
            version=target,
            previous_version=current,
            at=now,
            author="change-api",
            summary=f"Rollback from {current}",
        )
    )
    return {
        "id": f"chg-{number:04d}",
        "state": "applied",
        "service": service,
        "from_version": current,
        "to_version": target,
        "applied_at": _rfc3339(now),
        "idempotency_key": key,
    }


def _fence(tokens: dict[str, int], service: str, header: str | None) -> None:
    if header is None:
        return
    if not re.fullmatch(r"\d{1,18}", header):
        raise ShopError(400, "bad_fencing_token", "Fencing-Token must be a whole number")
    if int(header) < tokens.get(service, 0):
        raise ShopError(409, "stale_fencing_token", "a newer holder has written already")
    tokens[service] = int(header)


async def _form(request: Request) -> dict[str, str]:
    if request.method == "GET":
        return dict(request.query_params)
    raw = (await request.body())[:BODY_BYTES_MAX].decode("utf-8", errors="replace")
    return dict(parse_qsl(raw))


async def _object(request: Request) -> dict[str, Any]:
    raw = await request.body()
    try:
        body = json.loads(raw[: BODY_BYTES_MAX + 1])
    except (ValueError, RecursionError):
        raise ShopError(400, "bad_json", "the body must be one JSON object") from None
    if not isinstance(body, dict):
        raise ShopError(400, "bad_json", "the body must be one JSON object")
    return body


def _prometheus(kind: str, result: list[dict[str, Any]]) -> JSONResponse:
    return JSONResponse({"status": "success", "data": {"resultType": kind, "result": result}})


def _prometheus_error(detail: str) -> JSONResponse:
    body = {"status": "error", "errorType": "bad_data", "error": detail}
    return JSONResponse(body, status_code=400)


def _shown(value: float) -> str:
    return "NaN" if math.isnan(value) else repr(value)


def _number(given: dict[str, str], name: str, default: float | None = None) -> float:
    text = given.get(name)
    if text is None and default is not None:
        return default
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or abs(value) > NUMBER_MAX:
        raise ShopError(400, "bad_data", f"{name} must be a number")
    return value


def _duration(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text)
    if match is None:
        raise BadQuery("step must be seconds or a duration such as 15s")
    return float(match.group(1)) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}[match.group(2)]


def _service(name: str) -> str:
    if name not in SERVICES:
        raise ShopError(404, "unknown_service", f"known services: {', '.join(sorted(SERVICES))}")
    return name


def _time(text: str | None) -> float:
    try:
        return datetime.fromisoformat(text or "").timestamp()
    except ValueError:
        raise ShopError(400, "bad_time", "since and until must be RFC 3339") from None


def _rfc3339(at: float) -> str:
    return datetime.fromtimestamp(int(at), UTC).isoformat().replace("+00:00", "Z")


def _record(release: Release) -> dict[str, Any]:
    record = asdict(release)
    record["released_at"] = _rfc3339(record.pop("at"))
    return record
