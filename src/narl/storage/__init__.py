"""Runs, checkpoints and metrics on disk; everything is written completely or not at all.

`__all__` names what is for users; the other names serve narl's own packages.
"""

# ruff: noqa: F401

from narl.storage.arrays import compressed_npz, read_npz
from narl.storage.checkpoints import (
    Checkpoint,
    Checkpoints,
    has_checkpoints,
    load_checkpoint,
    save_checkpoint,
)
from narl.storage.files import (
    check_name,
    check_writable,
    json_bytes,
    open_file,
    parse_json,
    partial_file,
    read_file,
    read_json,
    to_json_values,
    with_checksum,
    without_checksum,
    write_file,
)
from narl.storage.folder import MANIFEST, TRAINING_FILE, clear_folder, refuse_links, remove_folder
from narl.storage.folder_lock import lock_folder, lock_holder
from narl.storage.metrics_log import METRICS_LOG, MetricsLog, rows_from_bytes, rows_to_bytes
from narl.storage.provenance import version_of
from narl.storage.runs import (
    Run,
    check_root,
    default_root,
    find_run_of_config,
    list_run_ids,
    list_runs,
    load_run,
    load_run_at,
    move_run,
    move_run_to_id,
    remove_run,
    run_id,
    save_run,
    save_run_at,
)
from narl.storage.unfinished import (
    CHECKPOINTS,
    FINISHED_FOLDER,
    PART_SUFFIX,
    UnfinishedRun,
    begun_groups,
    find_run,
    find_run_folder,
    list_unfinished_runs,
    open_unfinished_run,
    record_config,
    remove_unfinished_run,
)

__all__ = [
    "Run",
    "UnfinishedRun",
    "default_root",
    "find_run",
    "list_runs",
    "list_unfinished_runs",
    "load_run",
    "remove_run",
]
