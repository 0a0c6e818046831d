"""How SGLang is to be launched for a run: environment, flags, and what they turn off and why."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

import daemon.sglang_plugin
from contracts.run_config import RunConfig
from daemon.sglang_plugin.eagle3_sglang.dump_format import OVER_WEIGHT
from daemon.sglang_plugin.eagle3_sglang.layer_ids import LayerIdError, server_ids
from daemon.store.layouts import norm_of

PLUGIN: Final = "eagle3"
"""Name of the plugin's entry point, for ``SGLANG_PLUGINS``."""
_TURNED_OFF: Final = (
    (
        "radix cache",
        "--disable-radix-cache: a prefix taken from the cache is not computed, so it has no hidden states",
    ),
    (
        "mixed chunk",
        "--enable-mixed-chunk is left out: it hides decode steps in prefill passes, and the plugin refuses it",
    ),
    (
        "speculative decoding",
        "with --enable-return-aux-hidden-states, EAGLE3 only names the convention of the layer ids: no draft model is "
        "loaded. A real draft model would mix the rows of rejected tokens in",
    ),
    ("pipeline parallel", "pp-size stays 1: the last stage alone sees no earlier layer; use tensor parallel"),
)


class ServerArgsError(Exception):
    """A launch command cannot be made; the message says what is missing."""


class TurnedOff(msgspec.Struct):
    """Something of SGLang that such a server goes without."""

    what: str
    why: str


class ServerArgs(msgspec.Struct, kw_only=True):
    """A launch command."""

    env: dict[str, str]
    """To be added to the environment; ``PYTHONPATH`` is put before what is there."""
    command: list[str]
    turned_off: list[TurnedOff]
    notes: list[str]

    @property
    def flags(self) -> list[str]:
        """What concerns hidden states: the part of the command after model, host and port."""
        return self.command[self.command.index("--enable-return-aux-hidden-states") :]

    def shell(self) -> str:
        """Return it for a POSIX shell, one line for each flag."""
        lines = [f"{name}={_quoted(name, value)}" for name, value in self.env.items()]
        words: list[str] = [shlex.join(self.command[:3])]
        for word in self.command[3:]:
            if word.startswith("--"):
                words.append(word)
            else:
                words[-1] += f" {shlex.quote(word)}"
        return " \\\n  ".join([*lines, *words])


def plugin_folder() -> Path:
    """Return the folder to put on SGLang's ``PYTHONPATH``: the plugin's module and its ``*.dist-info``."""
    return Path(next(iter(daemon.sglang_plugin.__path__))).resolve()


def server_args(
    config: RunConfig, model: str | None = None, *, port: int | None = None, architecture: str | None = None
) -> ServerArgs:
    """Return the launch command for a run.

    Args:
        config: The run's.
        model: Folder or name; None: that of ``[extract] model``.
        port: None: that of the first server.
        architecture: As in ``architectures`` of config.json; needed where the model is no local folder.

    Raises:
        ServerArgsError: The model, its architecture or the layers' ids are not known, or the dump folder is relative.
    """
    if not config.extract.layers:
        raise ServerArgsError(
            "[extract] layers is empty: name the 0-based output ids whose hidden states are wanted; EAGLE-3's usual "
            "three of a model with n layers are [1, n/2 - 1, n - 4]"
        )
    if not Path(config.extract.dump_dir).is_absolute():
        raise ServerArgsError(
            f"[extract] dump_dir must be an absolute path, not {config.extract.dump_dir!r}: server and daemon run in "
            f"different folders"
        )
    model = model or config.extract.model
    if model is None:
        raise ServerArgsError("which model? Give --model, or set [extract] model in run.toml")
    found, layers = _model_facts(Path(model))
    if architecture is not None and found is not None and architecture != found:
        raise ServerArgsError(f"{model}/config.json says {found}, not {architecture}")
    architecture = architecture or found
    if architecture is None:
        raise ServerArgsError(
            f"{model} is no local folder with a config.json, so its architecture is not known, and what layer ids "
            f"mean depends on it: give --architecture, as in `architectures` of the model's config.json"
        )
    try:
        ids = server_ids(architecture, config.extract.layers, layers)
    except LayerIdError as error:
        raise ServerArgsError(f"[extract] layers: {error}") from error
    url = urlsplit(config.servers[0].url)
    norm = norm_of(config.extract.layout)
    return ServerArgs(
        env={
            "PYTHONPATH": str(plugin_folder()),
            "SGLANG_PLUGINS": PLUGIN,
            "EAGLE3_DUMP_DIR": str(Path(config.extract.dump_dir)),
            "EAGLE3_NORM": norm,
        },
        command=[
            *("python", "-m", "sglang.launch_server", "--model-path", model),
            *("--host", str(url.hostname), "--port", str(port or url.port or 80)),
            *("--enable-return-aux-hidden-states", "--speculative-algorithm", "EAGLE3"),
            *("--return-aux-hidden-state-layer-ids", *map(str, ids), "--disable-radix-cache"),
        ],
        turned_off=[TurnedOff(what, why) for what, why in _TURNED_OFF],
        notes=_notes(config, architecture, ids, norm, layers),
    )


def _notes(config: RunConfig, architecture: str, ids: tuple[int, ...], norm: str, layers: int | None) -> list[str]:
    notes = [
        f"layers: the outputs {config.extract.layers} are the ids {list(ids)} for {architecture}; the plugin compares "
        f"that with what the loaded model captures",
        f"last hidden state: {'divided by the weight of the final norm' if norm == OVER_WEIGHT else 'after the norm'}, "
        f"as the layout {config.extract.layout} stores it",
        "add what the model needs besides: --tp-size, --dtype, --mem-fraction-static, --context-length",
        f"{config.extract.dump_dir} must be the same folder for the server and the daemon, in memory, of one user",
    ]
    if layers is None:
        notes.append("the number of layers is not known here: SGLang refuses ids beyond it when it starts")
    if len(config.servers) > 1:
        notes.append("one command for each server, with its own --port")
    if any(server.api_key or server.api_key_env for server in config.servers):
        notes.append("the run has an API key for its servers: add --api-key")
    return notes


def _model_facts(folder: Path) -> tuple[str | None, int | None]:
    """Return architecture and number of layers as a local model folder states them, None each where it does not.

    Raises:
        ServerArgsError: Its config.json cannot be read.
    """
    path = folder / "config.json"
    try:
        raw: Any = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None, None
    except OSError as error:
        raise ServerArgsError(f"{path}: {error.strerror or error}") from error
    except ValueError as error:
        raise ServerArgsError(f"{path}: is not valid JSON: {error}") from error
    if not isinstance(raw, dict):
        raise ServerArgsError(f"{path}: holds no object")
    text = raw.get("text_config")
    layers = (text if isinstance(text, dict) else raw).get("num_hidden_layers")
    names = raw.get("architectures")
    name = names[0] if isinstance(names, list) and names else None
    return name if isinstance(name, str) else None, layers if isinstance(layers, int) else None


def _quoted(name: str, value: str) -> str:
    return shlex.quote(value) + '"${PYTHONPATH:+:$PYTHONPATH}"' if name == "PYTHONPATH" else shlex.quote(value)
