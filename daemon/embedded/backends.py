"""What an embedded server is made of, by its options; torch is imported only where something needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.embedded.canned import CannedBackend
from daemon.embedded.config import ModelConfig
from daemon.embedded.jobs import Backend
from daemon.embedded.options import Options
from daemon.embedded.prefix_cache import PrefixCache

if TYPE_CHECKING:
    from daemon.embedded.dumping import Dumper


class DumpFolderError(Exception):
    """The dump folder cannot be written to."""


def make_dumper(options: Options, config: ModelConfig, port: int) -> Dumper | None:
    """What dumps hidden states, or None without a dump folder.

    Raises:
        DumpFolderError: the folder cannot be written to.
    """
    if options.dump_dir is None:
        return None
    from daemon.embedded.dump_form import about_of
    from daemon.embedded.dumping import Dumper

    try:
        return Dumper(
            options.dump_dir, about_of(options, config, port), config,
            seed=options.seed, faults=options.dump_faults, token_rows=options.dump_token_rows,
        )  # fmt: skip
    except OSError as error:
        raise DumpFolderError(f"cannot dump into {options.dump_dir}: {error.strerror}") from error


def make_backend(options: Options, config: ModelConfig, dumper: Dumper | None) -> Backend:
    """What generates: the tiny model, or seeded answers."""
    prefixes = PrefixCache() if options.radix_cache else None
    if options.no_model:
        dumps = None
        if dumper is not None:
            from daemon.embedded.dumping import CannedDumps

            dumps = CannedDumps(dumper, config, options.seed)
        return CannedBackend(
            config,
            max_running=options.max_running_requests,
            seed=options.seed,
            length_median=options.length_median,
            length_sigma=options.length_sigma,
            fixed_length=options.fixed_length,
            prefixes=prefixes,
            dumps=dumps,
        )
    from daemon.embedded.engine import Engine  # torch costs seconds: only when there is a model

    return Engine(
        config,
        max_running=options.max_running_requests,
        seed=options.seed,
        eos_bias=options.eos_bias,
        max_total_tokens=options.max_total_tokens,
        chunked_prefill_size=options.chunked_prefill_size,
        retract_every=options.retract_every,
        prefixes=prefixes,
        dumper=dumper,
    )
