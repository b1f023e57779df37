"""Make the folder of a policy from a finished run of `narl train`: one actor, and a card about it.

The folder holds the actor of one seed, the configuration and the learning curve, but no critics,
models or data: `narl eval FOLDER`, `narl play FOLDER` and `narl.load(FOLDER)` work, learning on
does not. The seed is the first of the training unless another is given, so that nobody chooses the
one that looks best; its policy is the last one, or with ``--best`` that of its best evaluation.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from narl import storage
from narl.commands.eval import evaluate_seed
from narl.commands.load_policy import load_policy
from narl.deep.best_policy import read_best_actors
from narl.deep.policy import policy_from
from narl.deep.saved_agent import only_policy, read_saved_agent, write_saved_agent
from narl.display import counted, figure, seeds_as_text
from narl.errors import InputError
from narl.report.training_summary import TrainingSummary, summarise_training

NUM_EPISODES = 10
FIGURES = {
    "mean": "mean",
    "standard deviation": "std",
    "lowest": "min",
    "highest": "max",
    "mean length": "length",
}
"""Columns of the card's table of returns, and their names in `narl eval --json`."""
LIMITS = (
    "Anything but this environment: the policy has never seen other dynamics, rewards or\n"
    "observations. It was trained and measured in simulation only."
)
CARD = """\
# {algo} on {env}

{about}

```bash
narl eval {folder}
narl play {folder}
```

`narl play` needs a screen; without one, `narl eval` with `--video episode.gif` records an episode.
Recording needs the extra `video`, which also has pygame for Gymnasium's drawings: from the clone,
`pip install -c constraints.txt ".[video]"`. In Python,
`narl.load("{folder}")` is the agent, and its `predict(observation)[0]` the action.

## Returns

This policy in `narl eval`, {episodes} deterministic episodes:

{measured}

Every seed of the training at its {which} evaluation ({eval_episodes}); bold is this policy:

{final}

## Training

{facts}

The command that trains all seeds again:

```bash
{command}
```

It gives similar policies, not the same bits: these depend on the versions, on the device and, on a
GPU, on how many seeds are trained in one program. `config.json` has every option.

## Not good for

{limits}

## Licence

MIT, the licence of the project.
"""


def table(rows: list[list[str]]) -> str:
    """Return rows as a table in Markdown; the first one is the head."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]])


def make_card(
    folder: Path,
    training: TrainingSummary,
    seed: int,
    evaluation: dict[str, Any],
    about: str | None,
    limits: str,
    best: bool = False,
) -> str:
    """Return the text of the card."""
    config, machine, seconds = training.config, training.environment, training.seconds or {}
    num_steps = training.rows[-1]["step"]
    rule = "the first of the training" if seed == config.seeds[0] else "chosen by hand"
    returns = [row["eval_return"] for row in training.rows]
    columns = list(zip(*returns, strict=True))
    shown = list(map(max, columns)) if best else returns[-1]
    final = dict(zip(map(str, config.seeds), map(figure, shown), strict=True))
    final[str(seed)] = f"**{final[str(seed)]}**"
    facts = {
        "environment": f"`{config.env}`",
        "algorithm": f"`{config.algo}`",
        "seed": f"{seed}, {rule}",
        "environment steps": str(num_steps),
        "policy": _policy_fact(training, seed) if best else "the last one",
        "duration": f"{seconds['total']:.0f} s for {training.num_replicas} seeds in one program, "
        f"{len(config.seeds)} of them of this training ({seeds_as_text(config.seeds)})",
        "device": str(machine["device"]),
        "versions": ", ".join(f"{x} {machine[x]}" for x in ("narl", "jax", "gymnasium", "mujoco")),
        "run": f"`{training.id}`",
    }
    return CARD.format(
        algo=config.algo.upper(),
        env=config.env,
        about=about or f"The policy after {num_steps} environment steps.",
        folder=folder.as_posix(),
        episodes=NUM_EPISODES,
        measured=table([list(FIGURES), [figure(evaluation[x]) for x in FIGURES.values()]]),
        which="best" if best else "last",
        eval_episodes=counted(config.eval_episodes, "episode"),
        final=table([["seed", *final], ["return", *final.values()]]),
        facts=table([["", ""], *([name, fact] for name, fact in facts.items())]),
        command=training.command,
        limits=limits,
    )


def _policy_fact(training: TrainingSummary, seed: int) -> str:
    """Return which of the policies of a seed was the best at an evaluation."""
    place = training.config.seeds.index(seed)
    best = max(training.rows, key=lambda row: row["eval_return"][place])
    return f"that of the best evaluation, at step {best['step']}"


def make_policy(
    run: Path,
    folder: Path,
    seed: int | None = None,
    about: str | None = None,
    limits: str = LIMITS,
    best: bool = False,
) -> Path:
    """Write the policy of one seed of a run, and its card, into a new folder; return the folder."""
    if folder.exists():
        raise InputError(f"FOLDER: {folder} exists already; choose another name, or remove it")
    stored = storage.load_run_at(run)
    training = summarise_training(stored)
    saved = read_saved_agent(run)
    seed = saved.config.seeds[0] if seed is None else seed
    if best:
        actors = policy_from(read_best_actors(run), saved.policy.seeds, saved.policy.interface)
        saved = saved._replace(policy=actors)
    agent = load_policy(run.parent, str(run), best=best).agent
    evaluation = evaluate_seed(agent, NUM_EPISODES, seed)
    card = make_card(folder, training, seed, evaluation, about, limits, best)
    policy = only_policy(saved, seed)
    # What was recorded of the training's machine stays, but for the name of its kernel.
    system = str(stored.environment["platform"]).partition("-")[0]
    write_saved_agent(folder, policy, stored.environment | {"platform": system})
    storage.write_file(folder / "README.md", card.encode())
    return folder


def main(arguments: list[str]) -> int:
    """Read the command line, make the folder and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of a finished run")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="folder to make")
    parser.add_argument("--seed", type=int, help="seed of the policy (default: the first)")
    parser.add_argument("--best", action="store_true", help="its best policy, not its last")
    parser.add_argument("--about", help="what the policy does, for the card")
    parser.add_argument("--limits", default=LIMITS, help="what it is not good for, for the card")
    try:
        print(make_policy(**vars(parser.parse_args(arguments))))
    except InputError as error:
        print(f"make_policy: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
