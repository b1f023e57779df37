"""Finished runs that are extended to more steps: `narl train --extend RUN --steps N`.

A run that keeps its data has the checkpoint of its last step in its folder. The extended run is
that of the same configuration with more steps: `begin_extended_run` writes the checkpoint as that
of an unfinished training of the new configuration, which `run_training` then continues. The result
is that of a training of so many steps from the beginning, bit for bit.
"""

from __future__ import annotations

import dataclasses

from narl import __version__, storage
from narl.deep.buffer_capacity import with_longer_buffer
from narl.deep.checked_config import check_config, config_from_record
from narl.deep.config import CHECKPOINT_EVERY, Config
from narl.deep.run_artifacts import not_written_by_narl
from narl.deep.training_session import LOG
from narl.errors import InputError
from narl.options import as_argument
from narl.storage.checkpoints import has_checkpoints, load_checkpoint, newest_step, save_checkpoint
from narl.storage.folder import refuse_links, remove_folder
from narl.storage.folder_lock import lock_folder
from narl.storage.metrics_log import METRICS_LOG, MetricsLog
from narl.storage.unfinished import CHECKPOINTS, PART_SUFFIX, record_config
from narl.validation import check_count


def keeps_data(run: storage.Run) -> bool:
    """Return whether a finished run keeps the data from which it can be extended."""
    return has_checkpoints(run.path / CHECKPOINTS)


def extension_problem(config: Config) -> str:
    """Return why a run of this configuration cannot be extended bit for bit; empty if it can.

    A longer training would not evaluate in the middle of an epoch. And as long as the buffer of
    real transitions is shorter than a batch, or than the transitions that may be held out, its
    length has a part in the rounding of sums over them.
    """
    if extra := config.steps % config.epoch_length:
        whole = config.steps - extra
        good = f"{whole} or {whole + config.epoch_length}" if whole else str(config.epoch_length)
        return f"{config.steps} steps end in the middle of an epoch (such as {good} would not)"
    enough = min(max(config.holdout_most, config.model_batch), config.buffer)
    if config.uses_model and config.steps < enough:
        smaller = [
            as_argument(name, config.steps)
            for name in ("holdout_most", "model_batch")
            if getattr(config, name) > config.steps
        ]
        return (
            f"with a model the results of fewer than {enough} steps (the larger one of "
            "holdout_most and model_batch) depend on the number of steps in their last bits; with "
            f"{' '.join(smaller)} they would not"
        )
    return ""


def extended_config(run: storage.Run, steps: int) -> Config:
    """Return the configuration of a run with more steps, once it is known that it can go on."""
    with not_written_by_narl(f"run {run.id}:", "extend another"):
        config = config_from_record(run.config)
        check_config(config)
        done = int(run.metrics["steps"])
    steps = check_count("steps", steps)
    if run.environment.get("narl") != __version__:
        made_by = run.environment.get("narl")
        raise InputError(f"extend: narl {made_by} made {run.id} and this is {__version__}")
    if done < config.steps:
        raise InputError(
            f"extend: {run.id} ended at step {done} of {config.steps}, as until_solved or "
            "stop_when_no_better says; more steps would change nothing"
        )
    if steps <= done:
        raise InputError(f"steps: {steps} given; {run.id} has {done} already, so give more")
    if problem := extension_problem(config):
        inexact = (
            f", or go on in Python without the guarantee of equal bits: "
            f'`narl.load("{run.path}").learn({steps - done})`'
        )
        raise InputError(
            f"extend: {run.id} cannot be extended, as {problem}; train all {steps} steps from the "
            f"beginning{inexact if keeps_data(run) else ''}"
        )
    if not keeps_data(run):
        raise InputError(
            f"extend: {run.id} does not keep its data; train it again with --keep-data --fresh, or "
            f"train all {steps} steps from the beginning"
        )
    longer = dataclasses.replace(config, steps=steps)
    check_config(longer)
    return longer


def begin_extended_run(run: storage.Run, config: Config, *, keep_data: bool = False) -> None:
    """Write the data of a finished run as the checkpoint of an unfinished, longer one beside it.

    A checkpoint of the longer training that is there already, and is not of an earlier step, stays.
    """
    part = run.path.parent / f"{config.run_id}{PART_SUFFIX}"
    with lock_folder(part):
        refuse_links(part)
        if newest_step(part / CHECKPOINTS) >= run.metrics["steps"]:
            return
        try:
            data = load_checkpoint(
                run.path / CHECKPOINTS, "train it again with --keep-data --fresh", run.id
            )
            with not_written_by_narl(f"checkpoint: {data.path}", "train it again"):
                arrays = with_longer_buffer(data.arrays, config)
                lines = data.arrays[LOG].tobytes()
            record_config(part, config.record(), CHECKPOINT_EVERY, keep_data)
            MetricsLog(part / METRICS_LOG).restore(lines)
            save_checkpoint(part / CHECKPOINTS, data.step, arrays, data.notes, run=config.run_id)
        except BaseException:
            if not has_checkpoints(part / CHECKPOINTS):
                remove_folder(part)
            raise
