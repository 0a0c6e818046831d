"""Every layout, and for safetensors both ways in which samples lie in it."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["safetensors", "safetensors-own-files", "specforge", "speculators", "modelopt"])
def layout(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a layout; the samples of the first lie in a shared file, of all others in one each."""
    name: str = request.param
    if name == "safetensors-own-files":
        monkeypatch.setattr("daemon.store.safetensors_.OWN_FILE_BYTES", 0)
        return "safetensors"
    return name
