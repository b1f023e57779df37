"""The check of shapes while the tests run: it finds wrong shapes and wraps nothing else."""

import dataclasses

import jax.numpy as jnp
import jaxtyping
import pytest
from jaxtyping import Array, Float

import typecheck

Row = Float[Array, "n"]


def decorate(decorated):
    return jaxtyping.jaxtyped(typechecker=typecheck.check_shapes)(decorated)


def add(a: Row, b: "Float[Array, 'n']") -> Row:
    return a + b


def last_names(a: list[Row] | None, b: "tuple[Row, Row]") -> str:
    return "x"


@dataclasses.dataclass
class Pair:
    a: Row
    b: "Row"


@pytest.mark.parametrize("thing", [add, Pair])
def test_wrong_shape_is_found(thing):
    checked = decorate(thing)
    checked(jnp.ones(2), jnp.ones(2))
    with pytest.raises(jaxtyping.TypeCheckError):
        checked(jnp.ones(2), jnp.ones(3))


def test_shape_inside_another_hint_is_found():
    checked = decorate(last_names)
    assert checked(None, (jnp.ones(2), jnp.ones(2))) == "x"
    with pytest.raises(jaxtyping.TypeCheckError):
        checked([jnp.ones(1)], (jnp.ones((2, 2)), jnp.ones(2)))


def test_name_that_is_not_defined_yet_does_not_hide_a_shape():
    def later(a: Row, b: "NotDefinedYet") -> Row:
        return a

    with pytest.raises(jaxtyping.TypeCheckError):
        decorate(later)(jnp.ones((2, 2)), None)


def test_function_without_shapes_is_left_as_it_is():
    def scale(a: list[int], b: "str") -> float:
        return 1.0

    assert decorate(scale) is scale
