"""The subcommands of `eagle3`: one module each, imported only when it is the one that was asked for.

A module has ``add_arguments(parser)`` and ``run(arguments) -> int``, the exit code. What goes wrong is raised and told
in one place (`eagle3_tui.failure`).
"""

from __future__ import annotations

from typing import Final

COMMANDS: Final[dict[str, str]] = {
    "demo": "the whole job on an embedded server, with data that is shipped",
    "init": "write a run.toml, with every other key and its default as a comment",
    "check": "look for trouble before a start: config, files, servers, disk, GPUs",
    "start": "start the daemon of a run in the background",
    "tui": "watch a run in the terminal",
    "status": "print how a run is doing, also without a daemon",
    "pause": "send nothing new; what is in flight finishes",
    "resume": "go on after a pause, or take back a drain",
    "drain": "send nothing new, let what is in flight finish, then end the daemon",
    "stop": "end the daemon now; what is in flight is sent again at the next start",
    "set": "change concurrency or targets while it runs",
    "retry": "put failed or quarantined samples back into the queue",
    "events": "print the last events, or follow them",
    "verify": "compare what is stored with index, prompts and responses; repair it",
    "show": "what a run knows of one sample, and what its hidden states are like",
    "export": "write what is stored in the layout of another trainer",
    "server-args": "print how to launch SGLang for a run, so that it dumps hidden states",
    "plugin-path": "print the folder that makes SGLang find the plugin",
    "embedded": "the embedded server alone: SGLang's API over a tiny model",
    "schema": "JSON Schema of every record, message and wire type",
    "completion": "completion script for a shell",
}
"""Names in the order of the help, each with its one line."""

MODULES: Final[dict[str, str]] = {
    **dict.fromkeys(("pause", "resume", "drain", "stop"), "control"),
    "server-args": "server_args",
    "plugin-path": "plugin_path",
}
"""Commands whose module has another name."""
