"""Trees of arrays become named arrays of a checkpoint, and trees again."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from narl.deep.snapshot import flatten_tree, unflatten_tree
from narl.errors import InputError
from narl.storage import load_checkpoint, save_checkpoint


class Layer(NamedTuple):
    w: jax.Array
    b: jax.Array | None


def make_tree() -> dict:
    # NaN with two payloads and both signs, -0.0, infinities, a subnormal
    bits = np.array([0x7FC00001, 0xFFC12345, 1 << 31, 0x7F800000, 0xFF800000, 1], np.uint32)
    return {
        "actor": (Layer(jnp.asarray(bits.view(np.float32)), None), Layer(jnp.ones((2, 3)), 0.5)),
        "buffer": {"done": jnp.array([True, False]), "at": jnp.int32(5)},
        "host": np.array([np.nan, -0.0]),
    }


def test_tree_comes_back_bit_for_bit_from_a_checkpoint(tmp_path):
    tree = make_tree()
    arrays = flatten_tree(tree)
    names = ["actor.0.w", "actor.1.w", "actor.1.b", "buffer.at", "buffer.done", "host"]
    assert list(arrays) == names
    save_checkpoint(tmp_path, 1, arrays, {})
    restored = unflatten_tree(tree, load_checkpoint(tmp_path).arrays)
    assert jax.tree_util.tree_structure(restored) == jax.tree_util.tree_structure(tree)
    for name, array in flatten_tree(restored).items():
        assert array.dtype == arrays[name].dtype
        assert array.tobytes() == arrays[name].tobytes(), name


def test_restored_leaves_share_no_memory_with_the_arrays():
    arrays = {"x": np.ones(1024, np.float32)}
    tree = unflatten_tree({"x": jnp.zeros(1024)}, arrays)
    arrays["x"][:] = 2
    assert float(tree["x"].sum()) == 1024


def test_flattened_array_does_not_change_when_the_leaf_is_donated():
    leaf = jnp.arange(100_000.0)
    arrays = flatten_tree({"leaf": leaf})
    jax.block_until_ready(jax.jit(lambda x: x + 1, donate_argnums=0)(leaf))
    np.testing.assert_array_equal(arrays["leaf"], np.arange(100_000, dtype=np.float32))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"actor.1.w": np.zeros((3, 2), np.float32)}, r"actor\.1\.w .*\(3, 2\).*\(2, 3\)"),
        ({"host": np.zeros(2, np.int64)}, "host .*int64.*float64"),
        ({"actor.2.w": np.zeros(1)}, r"actor\.2\.w is not expected"),
        ({"buffer.at": None}, r"buffer\.at is missing"),
    ],
)
def test_arrays_that_do_not_fit_the_tree_are_named(change, message):
    arrays = {**flatten_tree(make_tree()), **change}
    arrays = {name: array for name, array in arrays.items() if array is not None}
    with pytest.raises(InputError, match=f"checkpoint: {message}"):
        unflatten_tree(make_tree(), arrays)


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"w": jnp.zeros(2, jnp.bfloat16)}, "array w: dtype bfloat16"),
        ({"q": jnp.zeros(2, jnp.float8_e4m3fn)}, "array q: dtype float8_e4m3fn"),
        ({"name": "text"}, "array name: dtype <U4"),
        ({"a b": jnp.zeros(1)}, "array name 'a b' given"),
    ],
)
def test_trees_that_cannot_be_stored_are_refused(tree, message):
    with pytest.raises(InputError, match=message):
        flatten_tree(tree)
