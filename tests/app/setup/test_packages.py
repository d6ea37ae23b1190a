"""Packages with files that are missing or emptied."""

from __future__ import annotations

import shutil

import pytest

from tests.fixtures.setup_project import Project, make_wheel

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("damage", ["no RECORD and no files", "no files"])
def test_run_app_reinstalls_a_package_that_a_killed_setup_left_incomplete(project: Project, damage: str):
    """pip alone regards a package with metadata as installed."""
    assert project.run()[0] == 0
    (module,) = (project.folder / ".venv").glob("lib/python*/site-packages/thing.py")
    module.unlink()
    if damage == "no files":
        project.stamp_file.unlink()
    else:
        (module.parent / "thing-1.0.dist-info" / "RECORD").unlink()
    code, output = project.run()
    assert code == 0, output
    assert output.splitlines()[-1].startswith("APP 1.0")


@pytest.mark.parametrize(
    "damage",
    [
        lambda site: shutil.rmtree(site / "thing-1.0.dist-info"),
        lambda site: (site / "thing-1.0.dist-info" / "RECORD").write_text(""),
        lambda site: (site / "thing-1.0.dist-info" / "RECORD").write_text("thing.py,,\n" + "#" * 9),
        lambda site: (site / "thing-1.0.dist-info" / "METADATA").unlink(),
        lambda site: (site / "thing.py").unlink(),
        lambda site: (site / "thing.py").write_bytes(b""),
        lambda site: shutil.rmtree(site / "parts" / "inner"),
        lambda site: shutil.rmtree(site / "parts-1.0.dist-info"),
    ],
)
def test_run_app_reinstalls_a_package_that_was_damaged_after_the_setup(project: Project, damage):
    make_wheel(project.wheels, "1.0", package="parts", modules=("parts/__init__.py", "parts/inner/__init__.py"))
    make_wheel(project.wheels, "1.0", extra="Requires-Dist: parts\n")
    code, output = project.run()
    assert code == 0, output
    assert len(project.run()[1].splitlines()) == 1  # nothing is installed again
    site = project.site_packages
    damage(site)
    code, output = project.run()
    assert code == 0, output
    assert "Installing" in output
    for name in ("thing.py", "parts/inner/__init__.py", "thing-1.0.dist-info/METADATA", "parts-1.0.dist-info/RECORD"):
        assert (site / name).exists(), name
    assert len(project.run()[1].splitlines()) == 1


def test_run_app_repairs_an_emptied_file_deep_in_a_package_when_it_installs(project: Project):
    """Only a setup compares all files; a start compares those of the first two levels."""
    make_wheel(project.wheels, "1.0", modules=("parts/inner/__init__.py",), content=b"X = 1\n")
    assert project.run()[0] == 0
    file = project.site_packages / "parts" / "inner" / "__init__.py"
    file.write_bytes(b"")
    project.stamp_file.unlink()
    code, output = project.run()
    assert code == 0, output
    assert file.read_bytes() == b"X = 1\n"
