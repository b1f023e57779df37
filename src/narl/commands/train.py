"""`narl train`: one algorithm on one environment, with many seeds at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional

from narl.commands.arguments import RunsFolder, Switch, as_typed, either, parse, parse_seeds, value
from narl.errors import InputError

if TYPE_CHECKING:
    from narl.deep.training_run import Course

EXAMPLE = "narl train InvertedPendulum-v5 --algo narl --members 3 --radius 0.1 --seeds 0:5"
MOST_STEPS = 1_000_000_000
HINTS = {
    "--total-timesteps": "the steps are given with --steps",
    "--timesteps": "the steps are given with --steps",
    "--video": "train first; `narl eval RUN --video F.mp4` then makes one",
}


@dataclasses.dataclass(frozen=True)
class Train:
    """Train a policy on a Gymnasium environment with Box observations and actions.

    - ENV is like Hopper-v5, or my_package:MyEnv-v0 for one that a package registers.
    - What is left out is the environment's preset (InvertedPendulum, Hopper, HalfCheetah,
      Walker2d, Ant, Humanoid) or a default.
    - An option that names algorithms in brackets is theirs alone.
    - A checkpoint follows every epoch. Ctrl-C leaves one too; the same command, or narl resume,
      continues. The finished run is kept, and found again when asked twice.
    """

    env: Annotated[Positional[str], value("ENV")]
    """Gymnasium's id"""
    algo: Annotated[str, value("narl|mbpo|sac", "(default: narl)")] = "narl"
    """narl is optimistic over the models, mbpo draws one, sac has none"""
    members: Annotated[int | None, value("M", "(default: 3 for narl, 7 for mbpo)")] = None
    """M: models in the ensemble [narl, mbpo]"""
    radius: Annotated[str | None, value("E|none", "(default: 0.1)")] = None
    """ε_M: models farther from their mean are not believed; none believes all [narl]"""
    steps: Annotated[int | None, value("N", "(default: preset, or 10000)")] = None
    """environment steps of each seed, the random ones too"""
    seeds: Annotated[str, value("SEEDS", "(default: 0)")] = "0"
    """seeds, such as 3, 0:5 (without the 5), 0:20:2 or 0,4,7"""
    until_solved: Switch = False
    """stop when every seed has solved the task (see --solved-return)"""

    epoch_length: Annotated[int | None, value("N", "(default: preset, or 1000)")] = None
    """steps between two evaluations"""
    initial_steps: Annotated[int | None, value("N", "(default: preset, or 1000)")] = None
    """steps with random actions before the policy acts"""
    learn_after: Annotated[int | None, value("N", "(default: the initial steps)")] = None
    """steps after which updates begin"""
    updates_per_step: Annotated[int | None, value("G", "(default: preset, or 10)")] = None
    """SAC updates per environment step (UTD)"""
    batch: Annotated[int | None, value("N", "(default: 256)")] = None
    """transitions of an update"""
    real_share: Annotated[float | None, value("X", "(default: 0.05)")] = None
    """share of a batch that comes from the environment and not from the models [narl, mbpo]"""
    buffer: Annotated[int | None, value("N", "(default: 1000000)")] = None
    """real transitions kept at most"""
    target_entropy: Annotated[float | None, value("X", "(default: preset, or -actions)")] = None
    """entropy that the temperature aims at"""
    hidden: Annotated[str | None, value("N,N", "(default: 256,256)")] = None
    """widths of actor and critics"""
    discount: Annotated[float | None, value("X", "(default: 0.99)")] = None
    """γ"""
    polyak: Annotated[float | None, value("X", "(default: 0.005)")] = None
    """share of the critics that flows into their targets at every update"""
    learning_rate: Annotated[float | None, value("X", "(default: 0.0003)")] = None
    """Adam's, of actor, critics and temperature"""
    initial_temperature: Annotated[float | None, value("X", "(default: 1)")] = None
    """α at the beginning"""

    elites: Annotated[int | None, value("N", "(default: 5, or all)")] = None
    """models that are drawn from, the best on held-out data [mbpo]"""
    model_every: Annotated[int | None, value("N", "(default: preset, or 250)")] = None
    """steps between two trainings of the models [narl, mbpo]"""
    model_width: Annotated[int | None, value("N", "(default: preset, or 200)")] = None
    """width of a model's layers [narl, mbpo]"""
    model_depth: Annotated[int | None, value("N", "(default: 4)")] = None
    """hidden layers of a model [narl, mbpo]"""
    scale_targets: Annotated[bool | None, either("scale-targets")] = None
    """standardise what the models predict; presets do not [narl, mbpo]"""
    model_learning_rate: Annotated[float | None, value("X", "(default: 0.001)")] = None
    """Adam's, of the models [narl, mbpo]"""
    model_batch: Annotated[int | None, value("N", "(default: 256)")] = None
    """transitions of a model's update [narl, mbpo]"""
    holdout_share: Annotated[float | None, value("X", "(default: 0.2)")] = None
    """share of the data that judges the models [narl, mbpo]"""
    holdout_most: Annotated[int | None, value("N", "(default: 5000)")] = None
    """… and at most so many transitions [narl, mbpo]"""
    patience: Annotated[int | None, value("N", "(default: 5)")] = None
    """passes over the data without a better model after which training ends [narl, mbpo]"""
    most_model_epochs: Annotated[int | None, value("N", "(default: 1000)")] = None
    """passes over the data at most [narl, mbpo]"""

    rollout_batch: Annotated[int | None, value("N", "(default: 100000)")] = None
    """imagined trajectories after each training of the models [narl, mbpo]"""
    rollout_schedule: Annotated[
        str | None, value("E0,E1,K0,K1", "(default: preset, or 20,150,1,1)")
    ] = None
    """their length: K0 until epoch E0, K1 from E1 on, epochs after the random steps [narl, mbpo]"""
    retain_epochs: Annotated[int | None, value("N", "(default: preset, or 1)")] = None
    """epochs' worth of imagined transitions that are kept [narl, mbpo]"""

    joint: Annotated[bool | None, either("joint")] = None
    """one maximum of r + γV instead of one for r and one for V [narl]"""
    fallback: Annotated[str | None, value("closest|random", "(default: closest)")] = None
    """which model where the radius excludes them all [narl]"""
    draw: Annotated[str | None, value("sample|mean", "(default: sample)")] = None
    """what a model predicts: a draw from its Gaussian, or the mean [narl, mbpo]"""
    value_samples: Annotated[int | None, value("N", "(default: 1)")] = None
    """actions behind the soft value of an imagined state [narl]"""

    termination: Annotated[str | None, value("auto|known|learned|never", "(default: auto)")] = None
    """when imagined episodes end; auto: as known for the preset, or else learned [narl, mbpo]"""
    obs_scaling: Annotated[str | None, value("bounds|none")] = None
    """bounds: observations with finite bounds are mapped to [-1, 1]; presets have none"""
    eval_episodes: Annotated[int | None, value("N", "(default: 1 in presets, or 5)")] = None
    """deterministic episodes after each epoch"""
    eval_horizon: Annotated[int | None, value("N", "(default: 1000)")] = None
    """their steps at most, where the environment has no time limit"""
    solved_return: Annotated[float | None, value("X")] = None
    """mean evaluation return from which on the task counts as solved"""

    checkpoint_every: Annotated[int, value("N", "(default: 1)")] = 1
    """epochs between two checkpoints"""
    tensorboard: Annotated[str | None, value("DIR")] = None
    """folder for TensorBoard (needs narl[tensorboard])"""
    wandb: Annotated[str | None, value("PROJECT")] = None
    """project of Weights & Biases (needs narl[wandb])"""
    runs: RunsFolder = None
    """folder of the runs"""
    fresh: Switch = False
    """train again, even if the run is there, finished or not"""
    json: Switch = False
    """one JSON object on stdout, everything else on stderr"""


OF_THE_RUN = frozenset(
    {"env", "algo", "seeds", "until_solved", "checkpoint_every", "tensorboard", "wandb"}
    | {"runs", "fresh", "json"}
)
"""The fields of `Train` that are no settings of the algorithm."""


def main(arguments: Sequence[str]) -> int:
    """Runs the command."""
    config = parse(Train, "narl train", arguments, EXAMPLE, HINTS)
    if config.checkpoint_every < 1:
        raise InputError(
            f"--checkpoint-every: {config.checkpoint_every} is too small; "
            "the nearest valid value is 1"
        )
    from narl.commands.training import Wishes, follow

    try:
        course = make_course(config)
        wishes = Wishes(
            runs=config.runs,
            checkpoint_every=config.checkpoint_every,
            fresh=config.fresh,
            tensorboard=config.tensorboard,
            wandb=config.wandb,
            json=config.json,
        )
        return follow(course, wishes)
    except InputError as error:
        raise InputError(as_typed(Train, str(error))) from error


def make_course(config: Train) -> Course:
    """What is to be trained; whatever is wrong is said before anything is written."""
    seeds = parse_seeds(config.seeds)
    given = settings_given(config)
    from narl.deep.config import ALGORITHMS, make_settings
    from narl.deep.owners import refuse_what_is_not_used
    from narl.deep.training_run import Course
    from narl.errors import unknown

    if config.algo not in ALGORITHMS:
        raise unknown("algo", config.algo, ALGORITHMS)
    refuse_what_is_not_used(config.algo, given)
    return Course(make_settings(config.env, config.algo, **given), seeds, config.until_solved)


def settings_given(config: Train) -> dict[str, Any]:
    """The settings that were typed, as the library takes them."""
    given = {
        field.name: getattr(config, field.name)
        for field in dataclasses.fields(config)
        if field.name not in OF_THE_RUN and getattr(config, field.name) is not None
    }
    if config.radius is not None:
        given["radius"] = _radius(config.radius)
    for name, example in (("hidden", "256,256"), ("rollout_schedule", "20,150,1,15")):
        if name in given:
            given[name] = _whole_numbers(name, given[name], example)
    if config.steps is not None and config.steps > MOST_STEPS:
        raise InputError(
            f"steps: {config.steps} is too large; the nearest valid value is {MOST_STEPS}"
        )
    return given


def _radius(text: str) -> float | None:
    if text.lower() == "none":
        return None
    try:
        return float(text)
    except ValueError:
        raise InputError(f"radius: {text!r} is wrong; it must be a number, or none") from None


def _whole_numbers(name: str, text: str, example: str) -> tuple[int, ...]:
    pieces = [piece.strip() for piece in text.split(",")]
    if not all(piece.isascii() and piece.isdigit() and len(piece) <= 10 for piece in pieces):
        raise InputError(
            f"{name}: {text!r} is wrong; it must be whole numbers with commas, such as {example}"
        )
    return tuple(int(piece) for piece in pieces)
