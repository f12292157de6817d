"""Whether the parts are well: what the API server says of them, and whether it can serve tasks itself."""

from __future__ import annotations

import threading
from collections.abc import Collection
from contextlib import suppress
from datetime import datetime

from embedded_stack.airflow_api import AirflowApi, ApiRefused, ApiUnreachable, Health
from embedded_stack.part import Part

API_SERVER, POSTGRES = "api-server", "postgres"
WARM_UP_LIMIT_S = 150.0


class Checkup:
    """Looks at the parts through the API server at `address`; used by one thread."""

    def __init__(self, address: str) -> None:
        """Look through the API server at `address`."""
        self._api = AirflowApi(address, "", "")
        self._warm_since: datetime | None = None
        self._warming: threading.Thread | None = None

    def refresh(self, parts: Collection[Part]) -> bool:
        """Set the health of every running part; True if all parts are healthy."""
        health: Health | None = None
        with suppress(ApiUnreachable, ApiRefused):
            health = self._api.health()
        for part in parts:
            if part.is_running:
                part.health = self._judge(part, health)
        return all(part.health == "healthy" for part in parts)

    def _judge(self, part: Part, health: Health | None) -> str:
        not_yet = part.health if part.health == "starting" else "unhealthy"
        if part.name == POSTGRES:
            return "healthy" if health is None or health.database_is_healthy else "unhealthy"
        if part.name == API_SERVER:
            return "healthy" if self._is_warm(part, is_answering=health is not None) else not_yet
        if health is None:
            return part.health if part.health == "starting" else "unknown"
        return "healthy" if health.is_well(part.name, part.since) else not_yet

    def _is_warm(self, server: Part, *, is_answering: bool) -> bool:
        """Whether the API server serves tasks.

        At its first request the execution API builds the routes of all its versions, for six CPU-seconds in which the
        server answers nobody (Airflow 3.3.2). That request is made here, so that it is not the first task that waits.
        """
        if self._warm_since == server.since:
            return is_answering
        if is_answering and (self._warming is None or not self._warming.is_alive()):
            self._warming = threading.Thread(target=self._warm_up, args=(server.since,), name="warm-up", daemon=True)
            self._warming.start()
        return False

    def _warm_up(self, since: datetime) -> None:
        with suppress(ApiUnreachable, ApiRefused):
            self._api.warm_up(WARM_UP_LIMIT_S)
            self._warm_since = since
