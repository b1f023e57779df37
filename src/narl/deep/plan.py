"""What is trained: a course, or several of one shape that share a program."""

from __future__ import annotations

import dataclasses
from typing import Any

from narl import storage
from narl.deep.config import Settings
from narl.deep.counters import LaneSpec
from narl.errors import InputError


@dataclasses.dataclass(frozen=True)
class Course:
    """What is trained, and nothing else."""

    settings: Settings
    seeds: tuple[int, ...] = (0,)
    until_solved: bool = False
    """Stop when every seed has solved the task."""

    def config(self) -> dict[str, Any]:
        """What the run folder records and its name is a hash of."""
        return {
            "experiment": "train",
            "algo": self.settings.algo,
            "env": self.settings.env,
            "seeds": list(self.seeds),
            "until_solved": self.until_solved,
            "settings": dataclasses.asdict(self.settings),
        }

    @property
    def id(self) -> str:
        return storage.run_id(self.config())

    def specs(self) -> list[LaneSpec]:
        settings = self.settings
        return [LaneSpec(seed, settings.algo, settings.radius) for seed in self.seeds]

    @property
    def parts(self) -> tuple[Course, ...]:
        return (self,)

    @property
    def shape(self) -> Any:
        """Courses of one shape can be trained together."""
        same = dataclasses.replace(
            self.settings, algo="mbpo", members=self.settings.num_members, radius=None
        )
        return (self.settings.uses_model, same, self.until_solved)


@dataclasses.dataclass(frozen=True)
class Group:
    """Courses whose lanes share one program: they differ in algorithm, radius and seeds only."""

    parts: tuple[Course, ...]

    def __post_init__(self) -> None:
        if len({part.shape for part in self.parts}) != 1:
            raise InputError(
                "courses: they cannot be trained together; they may differ in algorithm (narl, "
                "mbpo), radius and seeds only"
            )

    @property
    def settings(self) -> Settings:
        first = self.parts[0].settings
        return dataclasses.replace(first, members=first.num_members)

    @property
    def until_solved(self) -> bool:
        return self.parts[0].until_solved

    def config(self) -> dict[str, Any]:
        """What the folder of the unfinished training records."""
        return {
            "experiment": "train",
            "algo": "group",
            "env": self.settings.env,
            "seeds": [seed for part in self.parts for seed in part.seeds],
            "until_solved": self.until_solved,
            "settings": dataclasses.asdict(self.settings),
            "courses": [part.config() for part in self.parts],
        }

    @property
    def id(self) -> str:
        return storage.run_id(self.config())

    def specs(self) -> list[LaneSpec]:
        return [spec for part in self.parts for spec in part.specs()]


def course_from(config: dict[str, Any]) -> Course:
    """The course that a configuration describes."""
    if "courses" in config:
        raise InputError(
            f"run: it is {len(config['courses'])} trainings together; the command that began "
            "them continues them"
        )
    try:
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in config["settings"].items()
        }
        settings = Settings(**values)
        return Course(settings, tuple(config["seeds"]), config["until_solved"])
    except (KeyError, TypeError) as error:
        raise InputError(f"run: its configuration is not one of this version ({error})") from None
