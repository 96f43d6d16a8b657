"""Put man pages, what `explain` and `--help` print, a bill of materials and a README into the wheel.

Pages and texts are made from the help of the verbs when the wheel is built, and the links of the README
are absolute: no copy of them is kept.
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


class BuildWithTexts(build_py):
    """Put what `explain` and `--help` print into the package; a checkout does without."""

    def run(self) -> None:
        """Copy docs/errors.md beside the modules, and write the help."""
        from manual.help_texts import write_help

        super().run()
        if not self.editable_mode:
            package = Path(self.build_lib, "tosa_convert")
            self.copy_file(str(ROOT / "docs" / "errors.md"), str(package / "errors.md"))
            write_help(package / "cli" / "help")


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
        "build_py": BuildWithTexts,
        "install_data": InstallManPages,
        "bdist_wheel": WheelWithBill,
    },
    data_files=[(FOLDER, [])],
)
