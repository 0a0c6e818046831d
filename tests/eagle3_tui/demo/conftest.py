"""The command in this process, as for the commands."""

from tests.eagle3_tui.commands.conftest import eagle3  # noqa: F401
