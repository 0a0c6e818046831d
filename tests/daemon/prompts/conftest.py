from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from contracts.run_dir import DatasetDir

FIXTURES = Path(__file__).parents[2] / "fixtures"
SHAPES = FIXTURES / "shapes"
CASES = FIXTURES / "cases"
SHARED_DATA = Path(__file__).parents[4] / "shared" / "data"


@pytest.fixture
def dataset(tmp_path: Path) -> DatasetDir:
    return DatasetDir(tmp_path / "prepared" / "set")


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write_file(content: str | bytes, name: str = "source.jsonl") -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
        return path

    return write_file
