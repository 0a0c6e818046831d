"""GPUs through NVML: one `GpuSample` a call. Whatever the driver does is a state with a reason, never an exception."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Final

import pynvml

from contracts.records import GpuSample
from daemon.telemetry import nvml
from daemon.telemetry.reading import Asked, Card, read_card, read_slice
from daemon.telemetry.visible import select

FIRST_RETRY_S: Final = 1.0
LAST_RETRY_S: Final = 60.0


class GpuCollector:
    """Samples the GPUs that ``CUDA_VISIBLE_DEVICES`` of this process shows. For one thread at a time.

    Indices are NVML's (PCI order), whatever order CUDA uses; `daemon.telemetry.visible.select` says how the two meet.
    After errors that spoil its handles NVML is initialised again, after 1, 2, 4, ... 60 s, so that a lost GPU or a
    reloaded driver comes back by itself.
    """

    def __init__(self, library: nvml.Nvml | None = None, environ: Mapping[str, str] = os.environ) -> None:
        """Call nothing yet.

        Args:
            library: `pynvml`, or something that behaves like it.
            environ: Where ``CUDA_VISIBLE_DEVICES`` and ``CUDA_DEVICE_ORDER`` are read, once.
        """
        self._nvml: nvml.Nvml = pynvml if library is None else library
        self._visible = environ.get("CUDA_VISIBLE_DEVICES")
        self._pci_order = environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
        self._cards: list[Card] = []
        self._failure: tuple[str, str] | None = None
        """State and reason while NVML can't be used at all."""
        self._initialise_at = -math.inf
        self._retry_s = FIRST_RETRY_S
        self._initialised = False

    def sample(self, at: float) -> GpuSample:
        """Return the readings at ``at`` (steady Unix seconds)."""
        if self._visible is not None and not self._visible.strip():
            return GpuSample(at=at, state="none", gpus=[], reason="CUDA_VISIBLE_DEVICES is empty: no GPU is visible")
        if at >= self._initialise_at:
            self._initialise(at)
        if self._failure is not None:
            state, reason = self._failure
            return GpuSample(at=at, state=state, gpus=[], reason=reason)
        chosen = select(self._visible, [card.uuid for card in self._cards])
        if not chosen:
            reason = f"CUDA_VISIBLE_DEVICES={self._visible} names none of the {len(self._cards)} GPUs here"
            self._settle(at, stale=any(card.error for card in self._cards))
            return GpuSample(at=at, state="none", gpus=[], reason=reason)
        asked = Asked()
        gpus = [
            read_card(self._nvml, self._cards[entry], asked)
            if isinstance(entry, int)
            else read_slice(self._nvml, self._cards, entry, asked)
            for entry in chosen
        ]
        self._settle(at, stale=any(nvml.code(error) in nvml.STALE for error in asked.errors))
        return GpuSample(at=at, state="ok", gpus=gpus, reason=self._order_note())

    def _settle(self, at: float, *, stale: bool) -> None:
        """Plan the next initialisation, or none when all is well."""
        if not stale:
            self._initialise_at = math.inf
            self._retry_s = FIRST_RETRY_S
        elif self._initialise_at == math.inf:
            self._plan_retry(at)

    def _plan_retry(self, at: float) -> None:
        self._initialise_at = at + self._retry_s
        self._retry_s = min(LAST_RETRY_S, self._retry_s * 2)

    def _initialise(self, at: float) -> None:
        self._initialise_at = math.inf
        try:
            if self._initialised:
                self._initialised = False
                self._nvml.nvmlShutdown()
            self._nvml.nvmlInit()
            self._initialised = True
            count = self._nvml.nvmlDeviceGetCount()
        except nvml.Error as error:
            self._failure = ("none" if nvml.code(error) in nvml.ABSENT else "error", nvml.explain(error))
            self._plan_retry(at)
            return
        if count == 0:
            self._failure = ("none", "the NVIDIA driver is there and shows no GPU")
            self._plan_retry(at)
            return
        self._failure = None
        known = {card.index: card for card in self._cards}
        self._cards = [self._found(known.get(index) or Card(index)) for index in range(count)]

    def _found(self, before: Card) -> Card:
        """Get a GPU's handle; one that is lost keeps the identity it had before."""
        card = Card(before.index, uuid=before.uuid, name=before.name)
        try:
            card.handle = self._nvml.nvmlDeviceGetHandleByIndex(card.index)
            card.uuid = self._nvml.nvmlDeviceGetUUID(card.handle)
            card.name = self._nvml.nvmlDeviceGetName(card.handle)
        except nvml.Error as error:
            card.error = error
        return card

    def _order_note(self) -> str | None:
        by_index = self._visible is not None and any(entry.strip().isdigit() for entry in self._visible.split(","))
        if not by_index or self._pci_order or len({card.name for card in self._cards}) < 2:
            return None
        return (
            "CUDA_VISIBLE_DEVICES holds indices, read here in PCI order; the cards differ and CUDA puts the fastest "
            "first, so others may be in use: set CUDA_DEVICE_ORDER=PCI_BUS_ID or name UUIDs"
        )
