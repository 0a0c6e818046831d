"""What is on the screen as files: a picture, its text, and the status as JSON."""

from __future__ import annotations

import re
import time
from pathlib import Path

from contracts.status import RunStatus
from eagle3_tui.commands.status import status_json


def write_view(
    folder: Path, run: str, screen: str, at: float, picture: str, text: str, status: RunStatus | None
) -> list[Path]:
    """Write the files; none is overwritten.

    Args:
        folder: Where to.
        run: Name of the run, for the files' names.
        screen: Name of the screen, for the files' names.
        at: Unix seconds, for the files' names.
        picture: The screen as SVG.
        text: The screen as text.
        status: Written as ``eagle3 status --json`` prints it; None: not known yet, no such file.

    Returns:
        The files.

    Raises:
        OSError: A file cannot be written.
    """
    contents = {".svg": _without_fonts(picture).encode(), ".txt": text.encode("utf-8", "replace")}
    if status is not None:
        contents[".json"] = status_json(status) + b"\n"
    stem = (
        f"eagle3-{re.sub(r'[^A-Za-z0-9._-]+', '_', run)}-{screen}-{time.strftime('%Y%m%d-%H%M%S', time.localtime(at))}"
    )
    number = 0
    while any((folder / f"{stem}{ending}").exists() for ending in contents):
        number += 1
        stem = f"{stem.partition('+')[0]}+{number}"
    paths = []
    for ending, content in contents.items():
        path = folder / f"{stem}{ending}"
        with path.open("xb") as out:
            out.write(content)
        paths.append(path)
    return paths


def _without_fonts(picture: str) -> str:
    """Fonts from another host would be fetched by whoever looks at the picture: a local one will do."""
    return re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)
