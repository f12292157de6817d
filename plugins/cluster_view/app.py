"""The web app under `/phalanx`."""

from __future__ import annotations

from fastapi import FastAPI

from cluster_view.reports import router


def create_app() -> FastAPI:
    """The app, without the interactive API pages: they would be readable by anybody."""
    app = FastAPI(title="Phalanx", docs_url=None, redoc_url=None, openapi_url=None)
    app.include_router(router)
    return app
