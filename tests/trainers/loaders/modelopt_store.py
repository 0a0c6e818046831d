"""ModelOpt 0.47.0 reads a folder of dumps; runs inside .venv-trainers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from modelopt.torch.speculative.eagle.utils import EagleOfflineDataCollator, OfflineSupervisedDataset
from seen import sample


def load(folder: str) -> list[dict[str, Any]]:
    """Return every sample below a folder, by file name, each alone and through the collator in one batch."""
    files = sorted(Path(folder).glob("**/*.pt"))
    dataset = OfflineSupervisedDataset(files, answer_only_loss=True)
    items = [dataset[number] for number in range(len(dataset))]
    longest = max(len(item["input_ids"]) for item in items)
    batch = EagleOfflineDataCollator(longest)(items)
    states = batch["base_model_outputs"]
    found = []
    for number, path in enumerate(files):
        length = int(batch["attention_mask"][number].sum())
        one = sample(
            ids=batch["input_ids"][number, :length],
            mask=batch["loss_mask"][number, :length],
            aux=states["aux_hidden_states"][number, :length],
            last=states["base_model_hidden_states"][number, :length],
            source=str(path.relative_to(folder)),
        )
        found.append(
            {
                **one,
                # Of the sample itself: a batch takes the wider type of its samples.
                "ids_dtype": str(items[number]["input_ids"].dtype).removeprefix("torch."),
                "labels": batch["labels"][number, :length].tolist(),
                "prenorm": states["base_hidden_prenorm"],
            }
        )
    return found


ACTIONS = {"load": load}
