"""Put man pages, what `explain` prints, a bill of materials and a README that fits into the wheel.

The pages are made from the help of the verbs when the wheel is built, and the links of the README are
absolute: no copy of them is kept.
pyproject.toml has everything else.
"""

from __future__ import annotations

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

from distutils.command.install_data import install_data  # isort: skip  # that of setuptools

FOLDER = "share/man/man1"
ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT))  # the build has an environment of its own

from release.readme_for_index import read_readme  # noqa: E402


class InstallManPages(install_data):
    """Write the pages where data files go."""

    def run(self) -> None:
        """Make the pages, and install them."""
        from manual.man_pages import main

        folder = Path(self.get_finalized_command("build").build_temp, "man")
        main(str(folder))
        self.data_files = [(FOLDER, sorted(map(str, folder.glob("*.1"))))]
        super().run()


class BuildWithErrors(build_py):
    """Put docs/errors.md, which `explain` prints, into the package; a checkout has it in docs."""

    def run(self) -> None:
        """Copy the page beside the modules."""
        super().run()
        if not self.editable_mode:
            page = str(ROOT / "docs" / "errors.md")
            self.copy_file(page, str(Path(self.build_lib, "tosa_convert", "errors.md")))


class WheelWithBill(bdist_wheel):
    """Add the bill of materials to the metadata."""

    def egg2dist(self, egginfo_path: str, distinfo_path: str) -> None:
        """Make the metadata as usual, then write the bill into it."""
        from release.bill_of_materials import write_bill

        super().egg2dist(egginfo_path, distinfo_path)
        write_bill(Path(distinfo_path))


setup(
    long_description=read_readme(ROOT),
    long_description_content_type="text/markdown",
    cmdclass={
        "build_py": BuildWithErrors,
        "install_data": InstallManPages,
        "bdist_wheel": WheelWithBill,
    },
    data_files=[(FOLDER, [])],
)
