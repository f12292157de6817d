"""Quality reports of a DAG's runs, for those who may see that DAG."""

from __future__ import annotations

import os
from pathlib import Path

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import requires_access_dag
from fastapi import APIRouter, Depends, HTTPException, status
from fastapi.responses import FileResponse

router = APIRouter()

# A report shows values from the data, so it may neither run scripts nor load or send anything.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'self'; sandbox",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
MEDIA_TYPES = {".html": "text/html; charset=utf-8", ".json": "application/json", ".txt": "text/plain; charset=utf-8"}


def reports_root() -> Path:
    """Where the quality gate leaves its reports; nothing outside is served."""
    return Path(os.environ.get("PHALANX_HOME", ".phalanx")).resolve() / "reports"


def find_report(root: Path, dag_id: str, path: str) -> Path | None:
    """The file that `path` names in the DAG's folder, or None if there is none, or it lies outside that folder."""
    folder = (root / dag_id).resolve()
    try:
        found = (folder / path).resolve()
    except (OSError, ValueError):  # a null byte, a name too long, a loop of links
        return None
    if folder.parent != root.resolve() or not found.is_relative_to(folder) or found.suffix not in MEDIA_TYPES:
        return None
    return found if found.is_file() else None


@router.get(
    "/reports/{dag_id}/{path:path}",
    dependencies=[Depends(requires_access_dag(method="GET", access_entity=DagAccessEntity.TASK_LOGS))],
)
def read_report(dag_id: str, path: str) -> FileResponse:
    """One report file; whoever may read the DAG's task logs may read it."""
    report = find_report(reports_root(), dag_id, path)
    if report is None:
        raise HTTPException(
            status.HTTP_404_NOT_FOUND,
            f"There is no report {path!r} of DAG {dag_id!r}. It is written when its validate task ends, "
            f"and goes when the state folder is purged.",
        )
    return FileResponse(report, media_type=MEDIA_TYPES[report.suffix], headers=HEADERS)
