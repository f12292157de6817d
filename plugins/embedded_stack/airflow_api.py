"""A small client of the API server: health, and what it takes to trigger a run and follow it."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

PARTS = {"scheduler": "scheduler", "triggerer": "triggerer", "dag_processor": "dag-processor"}


class ApiUnreachable(Exception):
    """The API server did not answer."""


class ApiRefused(Exception):
    """The API server answered with an error; the message holds it."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


@dataclass(frozen=True, slots=True)
class Health:
    """What the API server knows of the parts; heartbeats are by part name."""

    database_is_healthy: bool
    is_healthy: Mapping[str, bool]
    last_heartbeat: Mapping[str, datetime | None]

    def is_well(self, part: str, since: datetime) -> bool:
        """Whether the part has been heard of since then: an earlier one's heartbeat says nothing of it."""
        heard = self.last_heartbeat.get(part)
        return self.is_healthy.get(part, False) and heard is not None and heard >= since


class AirflowApi:
    """One user's session with the API server at `base_url`."""

    def __init__(self, base_url: str, user: str, password: str) -> None:
        self.base_url = base_url
        self._user, self._password = user, password
        self._token = ""
        # The stack listens on the loopback; a proxy of the environment would not find it.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def health(self, timeout_s: float = 3.0) -> Health:
        """Ask without logging in.

        Raises:
            ApiUnreachable: the server does not answer.
        """
        answer = self._send("GET", "/api/v2/monitor/health", None, {}, timeout_s)
        heard = {part: answer.get(key, {}).get(f"latest_{key}_heartbeat") for key, part in PARTS.items()}
        return Health(
            answer.get("metadatabase", {}).get("status") == "healthy",
            {part: answer.get(key, {}).get("status") == "healthy" for key, part in PARTS.items()},
            {part: datetime.fromisoformat(at).astimezone(UTC) if at else None for part, at in heard.items()},
        )

    def warm_up(self, timeout_s: float) -> None:
        """Have the server build what it builds at the first request of a task.

        Raises:
            ApiUnreachable: it did not do so in time.
        """
        self._send("GET", "/execution/health", None, {}, timeout_s)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Send one request as the user and return the decoded JSON.

        Raises:
            ApiUnreachable: the server does not answer.
            ApiRefused: it answers with an error.
        """
        for is_last in (False, True):
            if not self._token:
                credentials = {"username": self._user, "password": self._password}
                self._token = str(self._send("POST", "/auth/token", credentials, {}, 30.0)["access_token"])
            try:
                return self._send(method, path, body, {"Authorization": f"Bearer {self._token}"}, 60.0)
            except ApiRefused as refused:
                if refused.status != 401 or is_last:
                    raise
                self._token = ""
        raise AssertionError("unreachable")

    def _send(self, method: str, path: str, body: Any, headers: Mapping[str, str], timeout_s: float) -> Any:
        request = urllib.request.Request(  # noqa: S310 - the URL is the stack's own
            self.base_url + path,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "Accept": "application/json", **headers},
            method=method,
        )
        try:
            with self._opener.open(request, timeout=timeout_s) as answer:
                text = answer.read().decode()
        except urllib.error.HTTPError as error:
            raise ApiRefused(error.code, _detail(error.read().decode(errors="replace"))) from None
        except (OSError, http.client.HTTPException) as error:
            raise ApiUnreachable(f"{method} {self.base_url}{path}: {error}") from None
        return json.loads(text) if text else None


def _detail(text: str) -> str:
    try:
        detail = json.loads(text)["detail"]
    except (ValueError, KeyError, TypeError):
        return text[:2000]
    return detail if isinstance(detail, str) else json.dumps(detail)


def quoted(*parts: str) -> str:
    """A path of the API from parts that may hold any character."""
    return "/".join(urllib.parse.quote(part, safe="") for part in parts)
