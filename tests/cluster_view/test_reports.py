from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from cluster_view.app import create_app
from cluster_view.reports import find_report


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Reports of two DAGs, and a secret beside them."""
    for dag_id in ("nightly", "other"):
        folder = tmp_path / "reports" / dag_id / "run"
        folder.mkdir(parents=True)
        (folder / "index.html").write_text(f"<h1>{dag_id}</h1>")
        (folder / "index.py").write_text("no report")
    (tmp_path / "ledger.html").write_text("secret")
    (tmp_path / "reports" / "nightly" / "link.html").symlink_to(tmp_path / "ledger.html")
    return tmp_path / "reports"


def test_a_report_is_found_in_its_dag_s_folder(root: Path) -> None:
    assert find_report(root, "nightly", "run/index.html") == root / "nightly" / "run" / "index.html"


@pytest.mark.parametrize(
    ("dag_id", "path"),
    [
        ("nightly", "../other/run/index.html"),
        ("nightly", "../../ledger.html"),
        ("nightly", "link.html"),
        ("nightly", "run/index.py"),
        ("nightly", "run"),
        ("nightly", "run/none.html"),
        ("nightly", "/etc/passwd"),
        ("nightly", "run/index.html\0"),
        ("..", "ledger.html"),
        (".", "nightly/run/index.html"),
        ("", "nightly/run/index.html"),
        ("nightly/run", "index.html"),
    ],
)
def test_nothing_else_is_found(root: Path, dag_id: str, path: str) -> None:
    assert find_report(root, dag_id, path) is None


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Basic YTpi"}], ids=["anonymous", "no bearer token"])
def test_a_report_is_refused_to_whoever_is_not_logged_in(
    root: Path, monkeypatch: pytest.MonkeyPatch, headers: dict[str, str]
) -> None:
    monkeypatch.setenv("PHALANX_HOME", str(root.parent))
    answer = TestClient(create_app()).get("/reports/nightly/run/index.html", headers=headers)
    assert answer.status_code == 401
    assert "nightly" not in answer.text


@pytest.mark.parametrize("path", ["/docs", "/redoc", "/openapi.json"])
def test_the_app_shows_no_api_pages(path: str) -> None:
    assert TestClient(create_app()).get(path).status_code == 404
