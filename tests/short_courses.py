"""Old names of `short_trainings` and of fixtures in conftest.py, until no test imports them."""

from short_trainings import (
    checkpoints_of,
    flip_bit,
    metrics_rows,
    short_arguments,
    short_config,
    short_options,
)

course, options, short = short_config, short_arguments, short_options
journal, spoil, checkpoints = metrics_rows, flip_bit, checkpoints_of
__all__ = [
    *("assert_same_outcome", "cache", "call", "checkpoints", "course", "journal", "options"),
    *("programs", "short", "spoil"),
]
