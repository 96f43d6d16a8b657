"""Put man pages into the wheel; pyproject.toml has everything else.

The pages are made from the help of the verbs when the wheel is built: no copy of them is kept.
"""

from __future__ import annotations

import sys
from pathlib import Path

from setuptools import setup

from distutils.command.install_data import install_data  # isort: skip  # that of setuptools

FOLDER = "share/man/man1"


class InstallManPages(install_data):
    """Write the pages where data files go."""

    def run(self) -> None:
        """Make the pages, and install them."""
        sys.path.insert(0, str(Path(__file__).parent))  # the build has an environment of its own
        from manual.man_pages import main

        folder = Path(self.get_finalized_command("build").build_temp, "man")
        main(str(folder))
        self.data_files = [(FOLDER, sorted(map(str, folder.glob("*.1"))))]
        super().run()


setup(cmdclass={"install_data": InstallManPages}, data_files=[(FOLDER, [])])
