"""Make docs/options.md, the tables of every option, from the configurations' own fields.

usage: python docs/make_options.py --write | --check
"""

import sys
from pathlib import Path

from narl.deep.config import Config, used_by
from narl.options import OptionField, markdown_table, option_fields
from narl.tabular.checked_options import all_option_fields
from narl.tabular.checked_options import used_by as agents_of
from narl.tabular.config import Config as TabularConfig

PAGE = Path(__file__).with_name("options.md")
HEAD = ("what", "in Stable-Baselines3", "here")
NAMES = (
    ("length of the training", "`total_timesteps`", "`steps`, `agent.learn(1000)`"),
    (
        "random steps at the beginning",
        "`learning_starts`",
        "`initial_steps`; the updates begin after `learn_after`",
    ),
    (
        "updates per step",
        "`train_freq`, `gradient_steps`",
        "`updates_per_step`; without a preset 10, there 1",
    ),
    ("batch size", "`batch_size`", "`batch`; of the models `model_batch`"),
    ("replay buffer", "`buffer_size`", "`buffer`"),
    ("discount factor", "`gamma`", "`discount`"),
    ("target networks", "`tau`", "`polyak`"),
    (
        "entropy coefficient",
        "`ent_coef`",
        "the temperature, which is always tuned: `initial_temperature`, `target_entropy`",
    ),
    (
        "network architecture",
        "`policy_kwargs`, `net_arch`",
        "`hidden`, layers of ReLU units; of the models `model_width` and `model_depth`",
    ),
    (
        "observation normalization",
        "`VecNormalize`",
        "`obs_scaling`, by the bounds of the space; running statistics are not kept "
        "([what to do](own-environment.md#when-it-does-not-learn))",
    ),
    (
        "vectorized environments",
        "`VecEnv`, `n_envs`",
        "none, every seed has one environment; `seeds` trains several agents side by side",
    ),
    (
        "evaluations in the training",
        "`EvalCallback`, `eval_freq`, `n_eval_episodes`",
        "after every epoch: `epoch_length`, `eval_episodes`",
    ),
    ("best model", "`best_model_save_path`", "`narl eval RUN --best`, `narl.KeepBest()`"),
    (
        "early stopping",
        "`StopTrainingOnNoModelImprovement`",
        "`stop_when_no_better`, `narl.StopWhenNoBetter(n)`",
    ),
    (
        "stop at a return",
        "`StopTrainingOnRewardThreshold`",
        "`--stop-at-return`, `narl.StopAtReturn(x)`",
    ),
    (
        "checkpoints",
        "`CheckpointCallback`, `save_freq`",
        "after every epoch, or `--checkpoint-steps`; agents with `narl.SaveEvery(n, FOLDER)`",
    ),
    ("evaluation of a policy", "`evaluate_policy`", "`agent.evaluate(10)`, `narl eval RUN`"),
    ("random seed", "`seed`", "`seeds`; in Python also `seed`"),
    ("TensorBoard", "`tensorboard_log`", "`--tensorboard`, `narl.tensorboard_logger(DIR)`"),
)
"""What is meant, its name in Stable-Baselines3, and its name here."""


def page() -> str:
    """Return the whole page."""
    parts = [
        "# Options",
        "Every option (hyperparameter) with its default and its limits. "
        "[Names in Stable-Baselines3](#names-in-stable-baselines3) says what options are called "
        "there. `make docs` makes this page from the fields of the configurations; the command "
        "line, its checks and its help are made from the same fields.",
        "## `narl train` and the agents of `narl.deep`",
        "In Python an option has underscores (`NARL(env, model_every=125)`), on the command line "
        "dashes (`--model-every 125`).",
    ]
    groups: dict[str, list[OptionField]] = {}
    for field in option_fields(Config):
        groups.setdefault(field.option.group or "what is trained", []).append(field)
    for group, fields in groups.items():
        parts += [f"### {group[0].upper()}{group[1:]}", markdown_table(fields, used_by)]
    parts += [
        "## `narl tabular`",
        "[Your own MDP or agent](own-mdp.md#options-of-every-agent) lists the options agent by "
        "agent, with each agent's defaults.",
        "### What is run",
        markdown_table(option_fields(TabularConfig)),
        "### Options of the agents",
        markdown_table(all_option_fields(), agents_of),
        "## Names in Stable-Baselines3",
        "`learning_rate` and `target_entropy` have the same name there.",
        "\n".join(f"| {' | '.join(row)} |" for row in (HEAD, ("---",) * len(HEAD), *NAMES)),
    ]
    return "\n\n".join(parts) + "\n"


def main(arguments: list[str]) -> int:
    """Write the page, or return 1 if the page is out of date."""
    if arguments == ["--write"]:
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    if arguments != ["--check"]:
        print(__doc__)
        return 2
    if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page():
        print("docs/options.md is out of date; run `make docs`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
