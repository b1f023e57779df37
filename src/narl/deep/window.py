"""Episodes of a policy in a window on the screen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from narl.deep.evaluation import evaluation_seed, play_episode
from narl.deep.networks import Network
from narl.deep.rendering_backend import is_headless
from narl.errors import InputError

if TYPE_CHECKING:
    from narl.deep.agent import Agent


class WatchedEpisode(NamedTuple):
    """The outcome of an episode that was shown."""

    total: float
    """The sum of the rewards."""
    length: int


def watch(agent: Agent, num_episodes: int, seed: int | None = None) -> Iterator[WatchedEpisode]:
    """Show deterministic episodes in a window; the iterator gives the outcome of each.

    Without a screen, or for a seed that was not trained, the call itself is refused. The first
    episode is the first one that `Agent.evaluate` plays.
    """
    if is_headless():
        raise InputError(
            "screen: there is none (no DISPLAY); record a video instead, such as "
            "`narl eval RUN --video F.mp4` or agent.record('F.mp4')"
        )
    chosen = agent.seeds[0] if seed is None else seed
    return _episodes(agent, num_episodes, chosen, agent.policy.actor(chosen))


def _episodes(
    agent: Agent, num_episodes: int, chosen: int, actor: Network
) -> Iterator[WatchedEpisode]:
    """Show the episodes of one seed's policy and yield the outcome of each."""
    with closing(agent._open_env(chosen, "human")) as env:
        for episode in range(num_episodes):
            steps = play_episode(actor, env, evaluation_seed(chosen, episode), agent._horizon(env))
            rewards = [step.reward for step in steps]
            yield WatchedEpisode(sum(rewards), len(rewards))
