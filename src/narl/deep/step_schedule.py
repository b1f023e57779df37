"""The steps of a training at which its models are fitted and its policies are evaluated."""

from narl.deep.config import Config
from narl.progress import StepSchedule


def step_schedule(config: Config) -> StepSchedule:
    """Return the schedule of a configuration, for the estimate of the time left."""
    return StepSchedule(
        learn_after=config.learn_after,
        epoch_length=config.epoch_length,
        first_fit=config.initial_steps,
        model_every=config.model_every if config.uses_model else 0,
    )
