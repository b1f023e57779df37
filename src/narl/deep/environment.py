"""One Gymnasium environment on the host, as the trainer sees it.

Vectors in and out (see `narl.deep.spaces`), every fault named in one line, and a state that can be
captured in mid-episode and restored in another process: as it is (see `narl.deep.env_state`), or
where an environment hides it by repeating the episode (see `narl.deep.episode_replay`).
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from gymnasium.wrappers import TimeLimit
from jaxtyping import Float32

from narl.deep.env_state import capture_env, capture_generators, digest_model, restore_env
from narl.deep.episode_replay import Episode, captured_actions, cut_seed, episode_seed
from narl.deep.faults import EnvironmentFault, Named, first_line
from narl.deep.make_environment import MakeEnv, make_env
from narl.deep.rendering import prepare_rendering
from narl.deep.spaces import Scaling, check_spaces, env_name, make_spaces
from narl.deep.spaces import flatten_obs as _flatten_obs
from narl.deep.spaces import unflatten_action as _unflatten_action
from narl.errors import InputError

_LARGEST = float(np.finfo(np.float32).max)


class Step(NamedTuple):
    """What one action led to."""

    obs: Float32[np.ndarray, " D"]
    reward: float
    terminated: bool
    truncated: bool


class HostEnv:
    """One environment for one seed; made by `open_env`."""

    def __init__(
        self, env: gymnasium.Env, seed: int, scaling: Scaling, *, role: str = "training"
    ) -> None:
        self.env = env
        self.name = env_name(env)
        self.seed = seed
        self.role, self.label = role, f"{self.name} (seed {seed}, {role})"
        """Which it is among those of a training, for the lines of its faults."""
        self.spaces = make_spaces(env, scaling)
        self.time_limit = _time_limit(env)
        self.num_steps = 0
        self._seeds: dict[str, Any] = {"last": None, "since": 0, "each": False}
        """The last seed that was given, episodes since then, whether each is seeded."""
        self._episode: Episode | None = None
        self._model_digest = digest_model(env)
        assert isinstance(env.action_space, Box)
        self._action_space = env.action_space
        self._obs_shape = env.observation_space.shape
        for space in (env.unwrapped.observation_space, env.unwrapped.action_space):
            space.seed(seed)  # some environments sample them

    def reset(self, seed: int | None = None) -> Float32[np.ndarray, " D"]:
        """Begins an episode; the first one with the environment's seed, unless another is given.

        Where the state cannot be captured after the first one, every later episode has a seed of
        its own, so that it can be repeated.
        """
        seeds, first = self._seeds, self._seeds["last"] is None
        if first and seed is None:
            seed = self.seed
        if seed is None:
            seeds["since"] += 1
            if seeds["each"]:
                seed = episode_seed(seeds["last"], seeds["since"])
        else:
            seeds |= {"last": int(seed), "since": 0}
        obs = self._begin(seed)
        if first:
            seeds["each"] = not self.capturable
        return obs

    def cut(self, step: int) -> Float32[np.ndarray, " D"]:
        """Leaves the episode; the next one depends on the environment's seed and the step only."""
        return self.reset(seed=cut_seed(self.seed, step))

    def _begin(self, seed: int | None) -> Float32[np.ndarray, " D"]:
        # Evaluations are never continued: nothing of them has to be repeated.
        recorded = self.role == "training"
        episode = Episode(seed, capture_generators(self.env)) if recorded else None
        with self._named("reset"):
            result = self.env.reset(seed=seed)
            if not (isinstance(result, tuple) and len(result) == 2):
                self._fault("reset", "reset() did not return (observation, info)")
            obs = self._vector(result[0], "reset")
        if episode is not None:
            episode.begin(obs)
        self._episode = episode
        return obs

    def step(self, action: Float32[np.ndarray, " A"]) -> Step:
        """Takes an action in [−1, 1]^A."""
        self.num_steps += 1
        return self._take(action, f"step {self.num_steps}")

    def _take(self, action: Float32[np.ndarray, " A"], when: str) -> Step:
        if not np.isfinite(action).all():
            index = int(np.flatnonzero(~np.isfinite(action))[0])
            self._fault(when, f"the policy's action[{index}] is {action[index]}")
        native = _unflatten_action(self.spaces, self._action_space, action)
        with self._named(when):
            result = self.env.step(native)
            if not (isinstance(result, tuple) and len(result) == 5):
                self._fault(
                    when,
                    "step() did not return (observation, reward, terminated, truncated, info)",
                )
            obs, reward, terminated, truncated, _ = result
            step = Step(
                self._vector(obs, when),
                self._number(reward, when),
                self._flag(terminated, "terminated", when),
                self._flag(truncated, "truncated", when),
            )
        if self._episode is not None:
            self._episode.add(action, step.obs, step.reward)
        return step

    def render(self) -> np.ndarray:
        """A picture [height, width, 3] of uint8; needs render_mode="rgb_array"."""
        with self._named("render"):
            frame = self.env.render()
        if not (isinstance(frame, np.ndarray) and frame.ndim == 3 and frame.dtype == np.uint8):
            self._fault("render", f"render() gave {type(frame).__name__}, not a picture")
        return frame

    def close(self) -> None:
        """Closes the environment."""
        self.env.close()

    @property
    def capture_problem(self) -> str | None:
        """Why the state cannot be captured in mid-episode, in one line; None if it can."""
        with self._named("capture"):
            problem = capture_env(self.env, self._model_digest)["json"]["problem"]
        return None if problem is None else f"{self.name}: {problem}"

    @property
    def capturable(self) -> bool:
        """Whether the state itself is captured; otherwise `restore` repeats the episode."""
        return self.capture_problem is None

    def capture(self) -> dict[str, Any]:
        """The state as {"json": …, "arrays": {name: array}}; both can be stored without pickle."""
        with self._named("capture"):
            state = capture_env(self.env, self._model_digest)
        if state["json"]["problem"] is not None:
            # None: it was captured itself when this episode was restored, and has closed up since.
            episode = None if self._episode is None else self._episode.capture()
            state["json"]["episode"] = None if episode is None else episode["json"]
            state["arrays"] = {} if episode is None else episode["arrays"]
        state["json"] |= {
            "name": self.name,
            "num_steps": self.num_steps,
            "seeds": dict(self._seeds),
        }
        return state

    def restore(self, state: Mapping[str, Any]) -> bool:
        """Takes over a captured state; the environment must have been made in the same way.

        False: the episode was repeated and did not lead to what was seen then, as where the
        environment is not a function of seed and actions; `cut` must follow.
        """
        captured = state["json"]
        if captured["name"] != self.name:
            raise InputError(f"env: the captured state is of {captured['name']}, not {self.name}")
        continues = True
        if captured["problem"] is None:
            with self._named("restore"):
                restore_env(self.env, state)
            self._episode = None  # how it began is not known any more
        else:
            continues = captured["episode"] is not None and self._repeat(state)
        self.num_steps = captured["num_steps"]
        self._seeds = dict(captured["seeds"])
        return continues

    def _repeat(self, state: Mapping[str, Any]) -> bool:
        """Does again what was done in the captured episode; whether the same was seen."""
        captured, arrays = state["json"]["episode"], state["arrays"]
        with self._named("restore"):
            restore_env(self.env, {"json": captured["generators"], "arrays": arrays})
        try:
            self._begin(captured["seed"])
            for i, action in enumerate(captured_actions(arrays, self.spaces.action_dim)):
                step = self._take(action, f"repeated step {i + 1}")
                if step.terminated or step.truncated:
                    return False
        except EnvironmentFault:  # it went well the first time; a new episode may
            return False
        assert self._episode is not None
        return self._episode.seen == captured["seen"]

    def _vector(self, obs: Any, when: str) -> Float32[np.ndarray, " D"]:
        """The observation for the networks, if it has the right shape and is finite."""
        raw = np.asarray(obs)
        if raw.dtype.kind not in "biuf":
            kind = f"{type(obs).__name__} of {raw.dtype}"
            self._fault(when, f"observation is a {kind}, not an array of numbers")
        if raw.shape != self._obs_shape:
            self._fault(when, f"observation has shape {raw.shape}, expected {self._obs_shape}")
        with np.errstate(over="ignore", invalid="ignore"):
            vector = _flatten_obs(self.spaces, raw)
        if not np.isfinite(vector).all():
            index = int(np.flatnonzero(~np.isfinite(vector))[0])
            self._fault(when, f"observation[{index}] is {_amount(np.ravel(raw)[index])}")
        return vector

    def _number(self, reward: Any, when: str) -> float:
        """The reward as a float, if it is one finite number."""
        if isinstance(reward, np.ndarray) and reward.size == 1:
            reward = reward.item()
        try:  # Python would read a number from a text
            value = None if isinstance(reward, str | bytes) else float(reward)
        except (TypeError, ValueError):
            value = None
        if value is None:
            self._fault(when, f"reward is {first_line(repr(reward))}, not a number")
        if not abs(value) <= _LARGEST:
            self._fault(when, f"reward is {_amount(value)}")
        return value

    def _flag(self, value: Any, name: str, when: str) -> bool:
        """Whether it is so, if that is a boolean, or 0 or 1."""
        if value is True or value is False:
            return value
        try:
            array = np.asarray(value)
        except ValueError:  # parts that differ in shape
            array = np.asarray(None)
        if array.dtype.kind not in "biuf" or array.size != 1 or array.item() not in (0, 1):
            self._fault(when, f"{name} is {first_line(repr(value))}, not a boolean")
        return bool(array.item())

    def _named(self, when: str) -> Named:
        return Named(self.label, when)

    def _fault(self, when: str, cause: str) -> NoReturn:
        raise EnvironmentFault(f"{self.label}: {when}: {cause}")


class FirstEntries(gymnasium.ObservationWrapper):
    """Keeps the first entries of a vector of observations (MBPO's truncated Humanoid)."""

    def __init__(self, env: gymnasium.Env, num_entries: int) -> None:
        super().__init__(env)
        space = env.observation_space
        if not (isinstance(space, Box) and len(space.shape) == 1):
            raise InputError(
                f"obs_keep: {env_name(env)} has {space} observations, not vectors; leave it out"
            )
        if not 1 <= num_entries <= space.shape[0]:
            raise InputError(
                f"obs_keep: {num_entries} is out of range; {env_name(env)} has "
                f"{space.shape[0]} entries"
            )
        self.num_entries = num_entries
        self.observation_space = Box(
            space.low[:num_entries], space.high[:num_entries], dtype=space.dtype.type
        )

    def observation(self, observation: np.ndarray) -> np.ndarray:
        """The first entries of one observation."""
        return observation[: self.num_entries]


def open_env(
    env: str | MakeEnv,
    seed: int,
    env_kwargs: Mapping[str, Any] | None = None,
    render_mode: str | None = None,
    *,
    scaling: Scaling = "bounds",
    obs_keep: int | None = None,
    role: str = "training",
) -> HostEnv:
    """Makes an environment from Gymnasium's id, or from a function that returns a new one.

    ``role`` says whose it is ("training", "evaluation"); lines about its faults name it.
    """
    kwargs = dict(env_kwargs or {})
    if render_mode is not None:
        prepare_rendering()
        kwargs["render_mode"] = render_mode
    made = make_env(env, kwargs)
    try:
        if obs_keep is not None:
            made = FirstEntries(made, obs_keep)
        check_spaces(made)
        return HostEnv(made, seed, scaling, role=role)
    except Exception:
        made.close()
        raise


def _time_limit(env: gymnasium.Env) -> int | None:
    """Steps after which an episode is truncated; None: the environment itself decides."""
    layer = env
    while isinstance(layer, gymnasium.Wrapper):
        if isinstance(layer, TimeLimit):
            return layer._max_episode_steps
        layer = layer.env
    return None if env.spec is None else env.spec.max_episode_steps


def _amount(value: Any) -> str:
    """A number that is not usable, and why if that is not plain to see."""
    return str(value) if not np.isfinite(value) else f"{value}, which float32 cannot hold"
