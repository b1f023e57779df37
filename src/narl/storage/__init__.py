"""Runs, checkpoints and metrics on disk: everything is written whole or not at all."""

from narl.storage.runs import (
    MANIFEST,
    Run,
    check_root,
    default_root,
    find_run,
    list_run_ids,
    list_runs,
    load_run,
    load_run_at,
    move_run,
    remove_run,
    run_id,
    save_run,
    save_run_at,
)

__all__ = [
    "MANIFEST",
    "Run",
    "check_root",
    "default_root",
    "find_run",
    "list_run_ids",
    "list_runs",
    "load_run",
    "load_run_at",
    "move_run",
    "remove_run",
    "run_id",
    "save_run",
    "save_run_at",
]
