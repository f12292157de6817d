"""The one file that Airflow loads from this folder: it hands Airflow the pages of `cluster_view`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from functools import cache
from typing import Any

from airflow.plugins_manager import AirflowPlugin

Message = MutableMapping[str, Any]


@cache
def _pages() -> Callable[..., Awaitable[None]]:
    from cluster_view.app import create_app

    return create_app()


async def pages(
    scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
) -> None:
    """The pages as an ASGI app, made at the first request.

    Every Airflow process loads the plugins, but only the API server serves pages: the others need not import FastAPI.
    """
    await _pages()(scope, receive, send)


class PhalanxPlugin(AirflowPlugin):
    """Phalanx in Airflow's UI."""

    name = "phalanx"
    fastapi_apps: list[Any] = [{"app": pages, "url_prefix": "/phalanx", "name": "Phalanx"}]  # noqa: RUF012 - the base class says so
