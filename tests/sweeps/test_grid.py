"""Grids: every combination once, options without effect left out, files and command lines alike."""

import json

import pytest

from narl.errors import InputError
from narl.sweeps.grid import HALVES, expand, read_grid_file
from narl.sweeps.planned_run import runs_from_json, runs_to_json

TRAIN, TABULAR = HALVES["train"], HALVES["tabular"]


def labels(runs):
    return [run.label for run in runs]


def test_every_combination_is_a_run_and_mbpo_is_not_crossed_with_radii():
    grid = {
        "env": ("Hopper-v5", "HalfCheetah-v5"),
        "algo": ("narl", "mbpo"),
        "radius": (0.1, 0.5, None),
        "seeds": ((0, 1),),
    }
    runs = expand(TRAIN, [grid])
    assert labels(runs) == [
        f"env={env} {rest}"
        for env in grid["env"]
        for rest in ("algo=narl radius=0.1", "algo=narl radius=0.5", "algo=narl radius=none")
        + ("algo=mbpo",)
    ]
    assert {run.config.seeds for run in runs} == {(0, 1)}
    assert [run.id for run in runs] == [run.config.run_id for run in runs]
    assert "radius" not in runs[3].options


def test_an_option_without_effect_beside_another_is_left_out():
    grid = {"env": ("Hopper-v5",), "noise": ("model", "reward"), "radius": (0.1, 0.5)}
    assert labels(expand(TRAIN, [grid])) == [
        *("noise=model radius=0.1", "noise=model radius=0.5", "noise=reward"),
    ]


def test_an_option_without_effect_anywhere_is_an_error():
    grid = {"env": ("Hopper-v5",), "algo": ("sac", "mbpo"), "radius": (0.1,)}
    with pytest.raises(InputError, match="radius: it has no effect with algorithm sac"):
        expand(TRAIN, [grid])


def test_default_and_the_same_value_given_are_one_run():
    grids = [{"env": ("Hopper-v5",)}, {"env": ("Hopper-v5",), "radius": (0.1, 0.1)}]
    assert len(expand(TRAIN, grids)) == 1


def test_seeds_are_split_into_runs():
    runs = expand(TRAIN, [{"env": ("Hopper-v5",), "seeds": ((0, 1, 2, 3, 4),)}], seeds_per_run=2)
    assert [run.config.seeds for run in runs] == [(0, 1), (2, 3), (4,)]
    assert labels(runs) == ["seeds=0,1", "seeds=2,3", "seeds=4"]
    with pytest.raises(InputError, match="seeds_per_run: there are no seeds to split"):
        expand(TRAIN, [{"env": ("Hopper-v5",)}], seeds_per_run=2)


def test_tabular_agents_have_their_own_options():
    grid = {"agent": ("narl-ucrl", "psrl"), "env": ("riverswim",), "c": (0.1, 1.0)}
    runs = expand(TABULAR, [grid])
    assert labels(runs) == ["agent=narl-ucrl c=0.1", "agent=narl-ucrl c=1", "agent=psrl"]


@pytest.mark.parametrize(
    ("half", "grid", "message"),
    [
        (TRAIN, {}, "env: missing; give at least one, such as Hopper-v5"),
        (TABULAR, {"env": ("riverswim",)}, "agent: missing; give at least one, such as psrl"),
        (TRAIN, {"env": ("Hopper-v5",), "algo": ("nrl",)}, "algo: unknown value 'nrl'"),
        (TRAIN, {"env": ("Hopper-v5",), "radius": (-1.0,)}, "radius: -1.0 is too small"),
        (TRAIN, {"env": ("Hopper-v5",), "steps": tuple(range(10**6))}, "at most 100000"),
    ],
)
def test_wrong_grids_are_refused_in_one_line(half, grid, message):
    with pytest.raises(InputError) as error:
        expand(half, [grid])
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_file_has_options_of_all_grids_and_of_each(tmp_path):
    path = tmp_path / "grid.toml"
    path.write_text(
        """
        env = ["Hopper-v5", "Walker2d-v5"]
        seeds = "0:3"
        hidden = [[64, 64], [256, 256]]
        [[grid]]
        algo = "narl"
        radius = [0.1, 1, "none"]
        learn-after = 5000
        [[grid]]
        algo = "mbpo"
        hidden = [64, 64]
        """
    )
    half, grids = read_grid_file(path)
    assert half is TRAIN
    assert grids[0] == {
        "env": ("Hopper-v5", "Walker2d-v5"),
        "seeds": ((0, 1, 2),),
        "hidden": ((64, 64), (256, 256)),
        "algo": ("narl",),
        "radius": (0.1, 1.0, None),
        "learn_after": (5000,),
    }
    assert grids[1]["hidden"] == ((64, 64),)
    assert len(expand(half, grids)) == 2 * 2 * 3 + 2
    path.write_text('half = "tabular"\nagent = "psrl"\nenv = "riverswim"\nseeds = [0, 1]')
    half, grids = read_grid_file(path)
    assert half is TABULAR
    assert expand(half, grids)[0].config.seeds == (0, 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("env = ", "it is not TOML"),
        ("half = 'deep'", "half: unknown value 'deep'"),
        ("envs = 'Hopper-v5'", "option: unknown value 'envs'"),
        ("env = []", "env has no values"),
        ("grid = 3", "grid is wrong; a grid begins with [[grid]]"),
    ],
)
def test_wrong_files_are_refused_in_one_line(tmp_path, text, message):
    path = tmp_path / "grid.toml"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        read_grid_file(path)
    assert message in str(error.value)
    assert str(path) in str(error.value)


def test_runs_survive_json():
    train = {"env": ("Hopper-v5",), "algo": ("narl", "sac"), "hidden": ((8, 8),), "seeds": ((1,),)}
    tabular = {"agent": ("narl-ucrl", "greedy"), "env": ("riverswim",), "episodes": (5,)}
    runs = [*expand(TRAIN, [train]), *expand(TABULAR, [tabular])]
    again = runs_from_json(json.loads(json.dumps(runs_to_json(runs))))
    assert again == runs
    assert [run.config.run_id for run in again] == [run.id for run in runs]
