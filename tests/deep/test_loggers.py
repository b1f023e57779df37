"""Loggers for TensorBoard and Weights & Biases, with substitutes for their packages."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

import narl
from narl.deep.loggers import Logger, scalars
from narl.errors import InputError

ROW = {
    "epoch": 3,
    "step": 750,
    "eval_return": [10.0, 20.0],
    "critic_loss": [0.5, None],
    "holdout_error": [[1.0, 3.0], [2.0, None]],
    "eval_returns": [[9.0, 11.0], [20.0, 20.0]],
    "solved_step": [None, 500],
    "note": "not a number",
    "seconds": {"env": 1.5, "sac": 9.0},
}
SCALARS = {
    "epoch": 3.0,
    "eval_return/seed4": 10.0,
    "eval_return/seed7": 20.0,
    "critic_loss/seed4": 0.5,
    "holdout_error/seed4/member0": 1.0,
    "holdout_error/seed4/member1": 3.0,
    "holdout_error/seed7/member0": 2.0,
    "eval_returns/seed4/episode0": 9.0,
    "eval_returns/seed4/episode1": 11.0,
    "eval_returns/seed7/episode0": 20.0,
    "eval_returns/seed7/episode1": 20.0,
    "solved_step/seed7": 500.0,
    "seconds/env": 1.5,
    "seconds/sac": 9.0,
}


def test_scalars_have_one_name_per_seed_member_and_episode():
    assert scalars(ROW, (4, 7)) == SCALARS
    assert scalars({"step": 1, "eval_return": [3.0]}) == {"eval_return/seed0": 3.0}
    assert scalars({"step": 1, "holdout_error": [[None, None]]}) == {}


class Writer:
    """A substitute for tensorboardX's writer."""

    made: list["Writer"] = []  # noqa: RUF012

    def __init__(self, folder):
        self.folder, self.scalars, self.events = folder, [], []
        Writer.made.append(self)

    def add_scalar(self, name, number, step):
        self.scalars.append((name, number, step))

    def flush(self):
        self.events.append("flush")

    def close(self):
        self.events.append("close")


@pytest.fixture
def tensorboard(monkeypatch) -> list[Writer]:
    module = ModuleType("tensorboardX")
    module.SummaryWriter = Writer
    monkeypatch.setitem(sys.modules, "tensorboardX", module)
    monkeypatch.setattr(Writer, "made", [])
    return Writer.made


def test_tensorboard_logger_writes_all_scalars(tensorboard, tmp_path):
    with narl.tensorboard_logger(tmp_path / "logs", seeds=(4, 7)) as logger:
        assert logger(ROW) is None  # False would stop the training
    (writer,) = tensorboard
    assert writer.folder == str(tmp_path / "logs")
    assert writer.scalars == [(name, x, 750) for name, x in SCALARS.items()]
    assert writer.events == ["flush", "close"]


def test_wandb_logger_writes_all_scalars(monkeypatch):
    calls, logged = [], []

    def init(**kwargs):
        calls.append(kwargs)
        return SimpleNamespace(
            log=lambda numbers, step: logged.append((numbers, step)),
            finish=lambda: logged.append("finished"),
        )

    module = ModuleType("wandb")
    module.init = init
    monkeypatch.setitem(sys.modules, "wandb", module)
    logger = narl.wandb_logger("cartpoles", seeds=(4, 7), config={"algo": "sac"}, run="train-x-1")
    logger(ROW)
    logger.close()
    (kwargs,) = calls
    assert kwargs == {
        "project": "cartpoles",
        "config": {"algo": "sac"},
        "id": "train-x-1",
        "name": "train-x-1",
        "resume": "allow",
    }
    assert logged == [(SCALARS, 750), "finished"]


@pytest.mark.parametrize(
    ("make", "package", "extra"),
    [
        (narl.tensorboard_logger, "tensorboardX", "tensorboard"),
        (narl.wandb_logger, "wandb", "wandb"),
    ],
)
def test_missing_package_is_named_with_extra(monkeypatch, make, package, extra):
    monkeypatch.setitem(sys.modules, package, None)
    command = rf'pip install -c constraints\.txt "\.\[{extra}\]" in the folder of the clone'
    line = f"^{extra}: {package} is not installed; {command}$"
    with pytest.raises(InputError, match=line):
        make("logs")


def test_logger_is_closed_after_error():
    closed = []
    with pytest.raises(ZeroDivisionError), Logger(print, lambda: closed.append(True)):
        raise ZeroDivisionError
    assert closed == [True]
