"""Control calls to one SGLang server: what it is, how loaded it is. Synchronous; call them in a thread.

A server that is not there raises `ServerUnreachable`. A server that answers oddly (an HTML page, an empty body, a key
of another type, an endpoint that its version does not have) costs the value that was asked for, never the run: the
call returns None and `ServerControl.problems` or `ServerControl.missing` says what came back.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import msgspec
import requests
from urllib3.exceptions import ReadTimeoutError

from contracts.sglang import Load, Loads, ModelInfo, ServerInfo, error_text
from daemon.servers.metrics import read_metrics

_NOT_THERE: Final = frozenset({404, 405, 501})
_NESTED_INFO: Final = ("internal_states", "server_args", "scheduler_info")
"""Keys under which other versions keep what 0.5.23 has at the top of /server_info; later ones win, the top wins all."""
_NESTED_CONFIG: Final = ("text_config", "language_config", "llm_config", "thinker_config")
"""Keys of a multimodal config.json that hold the language model's own config."""
HEALTH_TIMEOUT_S: Final = 30.0
"""The real server runs a forward pass for /health: a second at least, and it gives up after 20."""
_PROXIES: Final = ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")

_Info = TypeVar("_Info", bound=msgspec.Struct)


class ServerUnreachable(Exception):
    """No answer from a server.

    Attributes:
        url: The server.
        why: What happened, in a few words.
        timed_out: It took the connection and then said nothing in time: busy or hanging, not gone.
    """

    def __init__(self, url: str, why: str, *, timed_out: bool = False) -> None:
        super().__init__(f"{url}: {why}")
        self.url = url
        self.why = why
        self.timed_out = timed_out


def proxy_note(urls: Sequence[str], environ: Mapping[str, str] = os.environ) -> str | None:
    """Return a sentence naming the proxy variables that would have applied to these servers; None: none would.

    Servers are always called directly: a proxy applied to 127.0.0.1 makes every probe fail. Said, so that a person
    whose servers are only reachable through a proxy knows. The values may hold passwords and are not repeated.
    """
    names = [name for name in _PROXIES if environ.get(name)]
    exempt = [entry.strip() for entry in (environ.get("no_proxy") or environ.get("NO_PROXY") or "").split(",")]
    concerned = [url for url in urls if not _is_exempt(urlsplit(url).hostname or "", exempt)]
    if not names or not concerned:
        return None
    return (
        f"{', '.join(names)} in the environment is not used for SGLang servers: {', '.join(concerned)} called directly"
    )


class Health(msgspec.Struct, frozen=True):
    """An answer of ``/health``: 503 at once until a server's own warm-up is over, or after 20 s of a forward pass that
    gets nowhere (it hangs, or is in a long prefill); 404 of another kind of server."""

    status: int
    took_s: float


class ServerControl:
    """The control endpoints of one server. May be used from several threads at once."""

    def __init__(self, url: str, api_key: str | None = None, timeout_s: float = 5.0) -> None:
        """Touch nothing yet.

        Args:
            url: Root of the server, ``http://host:port``.
            api_key: Sent as a bearer token where given.
            timeout_s: For the connection, and again for each wait on the answer; seconds.
        """
        self.url = url.rstrip("/")
        self._timeout_s = timeout_s
        self._session = requests.Session()
        self._session.trust_env = False  # no proxies, no netrc: see proxy_note
        # A connection per call: SGLang closes idle ones after 5 s, and racing that close looks like a dead server.
        self._session.headers["Connection"] = "close"
        if api_key is not None:
            self._session.headers["Authorization"] = f"Bearer {api_key}".encode()
        self._problems: dict[str, str] = {}
        self._missing: set[str] = set()

    @property
    def problems(self) -> list[str]:
        """What is odd now: the last finding of each endpoint, gone once that endpoint answers well."""
        return list(self._problems.values())

    @property
    def missing(self) -> frozenset[str]:
        """Paths that this server answered with 404 when last asked, unless an older name of the same answered."""
        return frozenset(self._missing)

    def model_info(self) -> ModelInfo | None:
        """Return ``/model_info`` (older: ``/get_model_info``).

        Raises:
            ServerUnreachable: No answer.
        """
        path, found = self._first_object("/model_info", "/get_model_info")
        return None if found is None else self._lenient(ModelInfo, found, path)

    def server_info(self) -> ServerInfo | None:
        """Return ``/server_info`` (older: ``/get_server_info``), whichever level the version keeps its values at.

        Raises:
            ServerUnreachable: No answer.
        """
        path, found = self._first_object("/server_info", "/get_server_info")
        return None if found is None else self._lenient(ServerInfo, _flattened(found), path)

    def loads(self) -> Loads | None:
        """Return ``/v1/loads``: one entry for each DP rank.

        Raises:
            ServerUnreachable: No answer.
        """
        path = "/v1/loads"
        found = self._object(path)
        if found is None:
            return None
        ranks = found.get("loads")
        if not isinstance(ranks, list) or not all(isinstance(rank, dict) for rank in ranks):
            self._problem(path, "no list of objects under `loads`")
            return None
        version = found.get("version")
        return Loads(
            loads=[self._lenient(Load, rank, path) for rank in ranks],
            version=version if isinstance(version, str) else None,
        )

    def metrics(self) -> dict[str, float] | None:
        """Return the values of ``/metrics`` that `contracts.sglang.METRICS` names, over all ranks.

        Counts and rates are summed over DP ranks, shares (0 to 1) averaged. None without ``--enable-metrics``.

        Raises:
            ServerUnreachable: No answer.
        """
        path = "/metrics"
        body = self._get(path)
        if body is None:
            return None
        values = read_metrics(body.decode("utf-8", "replace"))
        if not values:
            self._problem(path, f"none of SGLang's values in it: {error_text(body, 80)}")
            return None
        return values

    def health(self) -> Health | None:
        """Return what ``/health`` answers; None: nothing that can be read. Not for a busy server: see `Health`.

        Raises:
            ServerUnreachable: No answer.
        """
        answer = self._send("/health", HEALTH_TIMEOUT_S)
        return None if answer is None else Health(answer.status_code, answer.elapsed.total_seconds())

    def vocab_size(self, model_path: str | None) -> int | None:
        """Return the vocabulary size from ``config.json`` under a model path of this machine; None: not known here.

        No endpoint tells it. ``model_path`` is what the server was started with and is often a name on a hub.
        """
        if not model_path:
            return None
        file = Path(model_path) / "config.json"
        try:
            config = msgspec.json.decode(file.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            self._problems[str(file)] = f"{file}: cannot be read: {error}"
            return None
        return _vocab_size(config)

    def _first_object(self, *names: str) -> tuple[str, dict[str, Any] | None]:
        """Ask an endpoint by its names, newest first; under one of them it is not missing."""
        for path in names:
            found = self._object(path)
            if found is not None:
                self._missing.difference_update(names)
                return path, found
        return names[-1], None

    def _object(self, path: str) -> dict[str, Any] | None:
        body = self._get(path)
        if body is None:
            return None
        if not body.strip():
            self._problem(path, "200 with an empty body")
            return None
        try:
            found = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            self._problem(path, f"200 but no JSON: {error_text(body, 80)}")
            return None
        if not isinstance(found, dict):
            self._problem(path, f"200 but no JSON object: {error_text(body, 80)}")
            return None
        return found

    def _get(self, path: str) -> bytes | None:
        """Return the body of a 200; record anything else."""
        answer = self._send(path, self._timeout_s)
        if answer is None:
            return None
        if answer.status_code in _NOT_THERE:
            self._problems.pop(path, None)
            self._missing.add(path)
            return None
        self._missing.discard(path)
        if answer.status_code != 200:
            hint = ": give the server's api_key in [[servers]]" if answer.status_code in (401, 403) else ""
            self._problem(path, f"HTTP {answer.status_code} ({error_text(answer.content, 120)}){hint}")
            return None
        self._problems.pop(path, None)
        return answer.content

    def _send(self, path: str, timeout_s: float) -> requests.Response | None:
        """Return the answer; record one that cannot be read."""
        try:
            return self._session.get(self.url + path, timeout=(self._timeout_s, timeout_s), allow_redirects=False)
        except requests.ReadTimeout as error:
            raise self._silent(timeout_s) from error
        except requests.ConnectionError as error:
            if any(isinstance(arg, ReadTimeoutError) for arg in error.args):  # in the middle of the body
                raise self._silent(timeout_s) from error
            raise ServerUnreachable(self.url, _reason(error)) from error
        except requests.RequestException as error:  # cut off in the body, a broken encoding, an unusable URL
            self._problem(path, f"unreadable answer: {error}")
            return None

    def _silent(self, timeout_s: float) -> ServerUnreachable:
        return ServerUnreachable(self.url, f"no answer within {timeout_s:g} s", timed_out=True)

    def _problem(self, path: str, what: str) -> None:
        self._problems[path] = f"{self.url}{path}: {what}"

    def _lenient(self, kind: type[_Info], raw: Mapping[str, Any], path: str) -> _Info:
        """Take each field that fits its declared type; one of another type costs that field and is recorded."""
        values: dict[str, Any] = {}
        for field in msgspec.structs.fields(kind):
            value = raw.get(field.encode_name)
            if value is None:
                continue
            try:
                values[field.name] = msgspec.convert(value, field.type)
            except msgspec.ValidationError as error:
                self._problem(path, f"`{field.encode_name}` has another type than known: {error}")
        return kind(**values)


def _flattened(info: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key in _NESTED_INFO:
        inner = info.get(key)
        if isinstance(inner, list) and inner:
            inner = inner[0]
        if isinstance(inner, dict):
            flat |= {name: value for name, value in inner.items() if value is not None}
    return flat | {name: value for name, value in info.items() if value is not None}


def _vocab_size(config: object) -> int | None:
    if not isinstance(config, dict):
        return None
    for key in _NESTED_CONFIG:
        inner = _vocab_size(config.get(key))
        if inner is not None:
            return inner
    size = config.get("vocab_size")
    return size if isinstance(size, int) and not isinstance(size, bool) and size > 0 else None


def _is_exempt(host: str, exempt: Sequence[str]) -> bool:
    """Tell whether no_proxy names a host: itself, a domain it is in, or ``*``."""
    return any(entry == "*" or f".{host}".endswith(f".{entry.lstrip('.')}") for entry in exempt if entry)


def _reason(error: BaseException) -> str:
    """Return the system's own words for a failed connection, from the bottom of the chain of exceptions."""
    last = error
    while (cause := last.__cause__ or last.__context__) is not None:
        last = cause
    return last.strerror or str(last) if isinstance(last, OSError) else str(last)
