"""Tasks with sparse rewards or costly actions, on which exploration matters.

`narl.gymnasium_registration` registers them with Gymnasium, such as `narl/SparsePendulum-v0`;
docs/tasks.md defines each of them. This package needs neither JAX nor another package of narl.
"""
