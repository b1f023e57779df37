"""Which algorithms a setting means something to."""

from collections.abc import Iterable

from narl.errors import InputError

_NARL = frozenset({"radius", "joint", "fallback", "value_samples"})
_MBPO = frozenset({"elites"})
_MODELS = frozenset(
    {"members", "real_share", "model_every", "model_width", "model_depth", "model_learning_rate"}
    | {"model_batch", "holdout_share", "holdout_most", "patience", "most_model_epochs"}
    | {"rollout_batch", "rollout_schedule", "retain_epochs", "draw", "termination"}
    | {"scale_targets"}
)


def owners_of(setting: str) -> tuple[str, ...]:
    """The algorithms that use a setting."""
    if setting in _NARL:
        return ("narl",)
    if setting in _MBPO:
        return ("mbpo",)
    return ("narl", "mbpo") if setting in _MODELS else ("narl", "mbpo", "sac")


def refuse_what_is_not_used(algo: str, given: Iterable[str]) -> None:
    """A setting that would change nothing is a mistake."""
    for name in given:
        owners = owners_of(name)
        if algo not in owners:
            raise InputError(
                f"{name}: {algo} has no such setting, only {' and '.join(owners)}; leave it out"
            )
