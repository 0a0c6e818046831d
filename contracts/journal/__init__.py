"""Append-only JSONL journals: appending, tailing, repairing."""
