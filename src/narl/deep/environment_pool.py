"""The environments of all replicas: stepped in this process, or spread over worker processes.

Every replica has one environment for its training and one for its evaluations. `Environments` holds
them in this process. `WorkerEnvironments` has the same methods and passes them on to processes,
each of which holds the environments of some replicas: the outcomes are the same bits.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

import gymnasium
import numpy as np
from jaxtyping import Float, Float32

from narl.compilation import num_cores
from narl.deep.env_process import EnvProcess
from narl.deep.env_state import EnvState
from narl.deep.environment import EnvRecipe, HostEnv
from narl.deep.evaluation import Episodes, Evaluation, evaluate, first_observations
from narl.errors import InputError

SPARE_CORES = 4
"""Cores from which on threads or processes share the environments: with fewer, learning needs
them."""
_KNOWN_PACKAGES = ("gymnasium", "narl")
"""Packages whose environments every process knows by their ids."""


class Outcome(NamedTuple):
    """One step of a replica's environment, and the observation to act on next."""

    next_obs: Float32[np.ndarray, " D"]
    """The observation after the action."""
    reward: float
    terminated: bool
    is_new: bool
    """Whether the episode ended, so that a new one has begun."""
    obs: Float32[np.ndarray, " D"]
    """The observation to act on: the first of the new episode, if there is one; else next_obs."""


class ReplicaEnvironments(Protocol):
    """Environments of all replicas, as a training uses them; a replica is named by its number."""

    example: HostEnv
    """An environment of the same kind, for its spaces, name and time limit."""

    def reset(self) -> Float32[np.ndarray, "N D"]:
        """Begin the first episode of every replica."""

    def step(self, actions: Mapping[int, Float32[np.ndarray, " A"]]) -> dict[int, Outcome]:
        """Take one action with each of these replicas; begin anew where an episode ends."""

    def evaluate(self, episodes: Mapping[int, Episodes]) -> dict[int, Evaluation]:
        """Play episodes in the environments for evaluations."""

    def first_observations(
        self, seeds: Mapping[int, int], num_episodes: int
    ) -> dict[int, Float[np.ndarray, "B D"]]:
        """Return the observations with which `evaluate` would begin its episodes."""

    def capture(self) -> list[EnvState]:
        """Return what `restore` needs of every replica."""

    def restore(self, replica: int, state: EnvState) -> bool:
        """Continue a captured episode; see `HostEnv.restore`."""

    def abandon_episode(self, replica: int, step: int) -> Float32[np.ndarray, " D"]:
        """Begin an episode that depends on the replica's seed and the step only."""

    def close(self) -> None:
        """Close every environment."""


class Environments:
    """The environments of all replicas, in this process."""

    def __init__(
        self, recipe: EnvRecipe, seeds: Sequence[int], num_threads: int | None = None
    ) -> None:
        self._num_threads = num_threads or (1 if num_cores() < SPARE_CORES else num_cores())
        with contextlib.ExitStack() as opened:

            def open_all(role: str) -> list[HostEnv]:
                envs = [recipe.open(seed, role=role) for seed in seeds]
                for env in envs:
                    opened.callback(env.close)
                return envs

            self.training, self.evaluation = open_all("training"), open_all("evaluation")
            self.example = self.training[0]
            self.close = opened.pop_all().close

    def reset(self) -> Float32[np.ndarray, "N D"]:
        return np.stack([env.reset() for env in self.training])

    def step(self, actions: Mapping[int, Float32[np.ndarray, " A"]]) -> dict[int, Outcome]:
        return {i: self._step(self.training[i], action) for i, action in actions.items()}

    @staticmethod
    def _step(env: HostEnv, action: Float32[np.ndarray, " A"]) -> Outcome:
        step = env.step(action)
        is_new = step.terminated or step.truncated
        obs = env.reset() if is_new else step.obs
        return Outcome(step.obs, step.reward, step.terminated, is_new, obs)

    def evaluate(self, episodes: Mapping[int, Episodes]) -> dict[int, Evaluation]:
        def play(i: int) -> Evaluation:
            actor, *others = episodes[i]
            return evaluate(actor, self.evaluation[i], *others)

        # MuJoCo lets other threads run while it steps.
        num_threads = min(len(episodes), self._num_threads)
        if num_threads < 2:
            return {i: play(i) for i in episodes}
        with ThreadPoolExecutor(num_threads) as threads:
            return dict(zip(episodes, threads.map(play, episodes), strict=True))

    def first_observations(
        self, seeds: Mapping[int, int], num_episodes: int
    ) -> dict[int, Float[np.ndarray, "B D"]]:
        return {
            i: first_observations(self.evaluation[i], num_episodes, seed)
            for i, seed in seeds.items()
        }

    def capture(self) -> list[EnvState]:
        return [env.capture() for env in self.training]

    def restore(self, replica: int, state: EnvState) -> bool:
        return self.training[replica].restore(state)

    def abandon_episode(self, replica: int, step: int) -> Float32[np.ndarray, " D"]:
        return self.training[replica].abandon_episode(step)


class WorkerEnvironments:
    """The environments of all replicas, spread over processes.

    Every process answers in the order in which it is asked, so that all of them work at once while
    this one waits for the first.
    """

    def __init__(
        self,
        recipe: EnvRecipe,
        seeds: Sequence[int],
        num_workers: int,
        timeout: float | None = None,
    ) -> None:
        self._place: dict[int, tuple[EnvProcess, int]] = {}
        """The process of every replica, and the replica's number in it."""
        with contextlib.ExitStack() as opened:
            self.example = recipe._replace(timeout=timeout).open(seeds[0])
            opened.callback(self.example.close)
            for share in np.array_split(np.arange(len(seeds)), min(num_workers, len(seeds))):
                own = [int(seeds[i]) for i in share]
                worker = EnvProcess(recipe, own, self.example, timeout)
                opened.callback(worker.close)
                self._place |= {int(i): (worker, k) for k, i in enumerate(share)}
            for worker in dict.fromkeys(worker for worker, _ in self._place.values()):
                worker.answer()  # its environments are made, or an error says why not
            self.close = opened.pop_all().close

    def reset(self) -> Float32[np.ndarray, "N D"]:
        return np.stack(list(self._ask("reset", dict.fromkeys(self._place)).values()))

    def step(self, actions: Mapping[int, Float32[np.ndarray, " A"]]) -> dict[int, Outcome]:
        concerned = list(self._split(actions))
        for worker, own in concerned:
            worker.ask_step(own)
        rows = [row for worker, _ in concerned for row in worker.answer_step()]
        outcomes = (
            Outcome(next_obs, float(reward), bool(terminated), bool(is_new), obs)
            for reward, terminated, is_new, next_obs, obs in rows
        )
        return dict(zip(actions, outcomes, strict=True))

    def evaluate(self, episodes: Mapping[int, Episodes]) -> dict[int, Evaluation]:
        def plain(job: Episodes) -> list[Any]:
            return [[list(layer) for layer in job.actor], *job[1:]]

        played = self._ask("evaluate", {i: plain(job) for i, job in episodes.items()})
        return {i: Evaluation(*parts) for i, parts in played.items()}

    def first_observations(
        self, seeds: Mapping[int, int], num_episodes: int
    ) -> dict[int, Float[np.ndarray, "B D"]]:
        return self._ask("first_observations", seeds, num_episodes)

    def capture(self) -> list[EnvState]:
        return list(self._ask("capture", dict.fromkeys(self._place)).values())

    def restore(self, replica: int, state: EnvState) -> bool:
        return self._ask("restore", {replica: dict(state)})[replica]

    def abandon_episode(self, replica: int, step: int) -> Float32[np.ndarray, " D"]:
        return self._ask("abandon_episode", {replica: step})[replica]

    def _ask(self, method: str, values: Mapping[int, Any], *others: Any) -> dict[int, Any]:
        """Ask every process that is concerned; return the answers by replica."""
        concerned = list(self._split(values))
        for worker, own in concerned:
            worker.ask(method, [list(item) for item in own.items()], *others)
        answers = [answer for worker, _ in concerned for answer in worker.answer()]
        return dict(zip(values, answers, strict=True))

    def _split(self, values: Mapping[int, Any]) -> Iterator[tuple[EnvProcess, dict[int, Any]]]:
        """Yield every process that is concerned, with the values by its own numbers.

        The replicas of a process come one after the other, and so do those of ``values``.
        """
        own: dict[EnvProcess, dict[int, Any]] = {}
        for i, value in values.items():
            worker, number = self._place[i]
            own.setdefault(worker, {})[number] = value
        yield from own.items()


def open_environments(
    recipe: EnvRecipe,
    seeds: Sequence[int],
    *,
    num_workers: int | None = None,
    timeout: float | None = None,
    spare: bool = False,
) -> ReplicaEnvironments:
    """Return the environments of all replicas.

    ``num_workers`` is the number of processes, 0 for none. None: one per replica, as far as there
    are cores, where the host has cores to ``spare`` because an accelerator learns. A ``timeout`` in
    seconds needs processes. An environment that another process cannot make stays in this one.
    """
    if num_workers is None:
        cores = num_cores()
        is_worth_it = spare and len(seeds) > 1 and cores >= SPARE_CORES
        num_workers = cores - 2 if is_worth_it else int(timeout is not None)
    movable = can_move(recipe)
    if timeout is not None and (num_workers == 0 or not movable):
        raise InputError(
            "env_timeout: it needs an environment that another process can make from its id, such "
            "as my_module:MyEnv-v0, and env_workers other than 0"
        )
    if num_workers == 0 or not movable:
        return Environments(recipe, seeds)
    return WorkerEnvironments(recipe, seeds, num_workers, timeout)


def can_move(recipe: EnvRecipe) -> bool:
    """Return whether another process can make the environment from its id alone."""
    if not isinstance(recipe.source, str):
        return False
    module, _, name = recipe.source.rpartition(":")
    spec = gymnasium.registry.get(name)
    entry = "" if spec is None else spec.entry_point
    return bool(module) or (isinstance(entry, str) and entry.startswith(_KNOWN_PACKAGES))
