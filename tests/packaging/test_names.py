"""Names that would hide a module of the standard library, and names that another distribution owns."""

from __future__ import annotations

import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest


def test_no_module_bears_a_standard_library_name_when_any_folder_of_ours_may_be_on_the_path(
    packages: dict[str, Path], repository: Path
) -> None:
    folders = [*packages.values(), repository / "dags"]
    files = [path for folder in folders for path in folder.rglob("*.py") if path.stem != "__init__"]
    names = {path: path.stem for path in [*files, *(repository / "plugins").glob("*.py")]}
    names |= {folder: folder.name for folder in folders}
    assert names, "nothing was looked at"
    assert {path: name for path, name in names.items() if name in sys.stdlib_module_names} == {}


def test_no_other_distribution_owns_a_package_of_ours_when_all_extras_are_installed(packages: dict[str, Path]) -> None:
    owners = packages_distributions()
    foreign = {name: set(owners.get(name, ())) - {"phalanx"} for name in packages}
    assert {name: others for name, others in foreign.items() if others} == {}


def test_the_check_above_sees_a_foreign_owner_when_there_is_one() -> None:
    assert "pytest" in packages_distributions()["pytest"]


@pytest.mark.parametrize("distribution", ["pyspark", "pyspark-client"])
def test_no_installed_file_differs_from_its_record_when_two_distributions_write_the_same_files(
    distribution: str,
) -> None:
    import base64
    import hashlib
    from importlib.metadata import files

    recorded = [file for file in files(distribution) or () if file.hash is not None]
    assert recorded, f"{distribution} has no RECORD"
    changed = []
    for file in recorded:
        assert file.hash is not None
        found = hashlib.new(file.hash.mode, Path(str(file.locate())).read_bytes()).digest()
        if base64.urlsafe_b64encode(found).rstrip(b"=").decode() != file.hash.value:
            changed.append(str(file))
    assert changed == []
