"""The software bill of materials of a wheel, in CycloneDX 1.6, where PEP 770 puts it.

The wheel contains no software of others. The bill names the package, its licence, and the packages that
an installation adds, with the versions that pyproject.toml admits. It has no time and no random serial
number, so that two builds are equal.
"""

from __future__ import annotations

import json
import re
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import Any, Final

#: The folder inside of `*.dist-info`, and the name of the file.
PLACE: Final = "sboms/tosa-convert.cdx.json"


def bill_of_materials(metadata: Message) -> dict[str, Any]:
    """Return the bill of a package with this core metadata.

    Args:
        metadata: the fields of METADATA. Requirements of extras are left out: an installation has them
            only where a user asks for them.
    """
    name, version = metadata["Name"], metadata["Version"]
    package = f"pkg:pypi/{name.lower().replace('_', '-')}@{version}"
    required = [text for text in metadata.get_all("Requires-Dist", []) if "extra ==" not in text]
    components = [_component(text) for text in sorted(required)]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": package,
                "name": name,
                "version": version,
                "description": metadata["Summary"],
                "licenses": [{"license": {"id": metadata["License-Expression"]}}],
                "purl": package,
            }
        },
        "components": components,
        "dependencies": [
            {"ref": package, "dependsOn": [component["bom-ref"] for component in components]}
        ],
    }


def _component(requirement: str) -> dict[str, Any]:
    """Return the entry of a requirement such as `numpy>=1.24`."""
    match = re.fullmatch(r"([A-Za-z0-9._-]+)\s*(.*)", requirement)
    assert match is not None, requirement
    name, versions = match.groups()
    reference = f"pkg:pypi/{name.lower().replace('_', '-')}"
    admitted = {"name": "tosa-convert:versions", "value": versions or "*"}
    return {
        "type": "library",
        "bom-ref": reference,
        "name": name,
        "scope": "required",
        "purl": reference,
        "properties": [admitted],
    }


def write_bill(dist_info: Path) -> Path:
    """Write the bill of a `*.dist-info` folder into it, and return the file."""
    metadata = Parser().parsestr((dist_info / "METADATA").read_text(encoding="utf-8"))
    target = dist_info / PLACE
    target.parent.mkdir(exist_ok=True)
    text = json.dumps(bill_of_materials(metadata), indent=2) + "\n"
    target.write_text(text, encoding="utf-8", newline="\n")
    return target
