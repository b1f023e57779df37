"""Every shape annotation of `narl` is checked while the tests run (jaxtyping with beartype)."""

import jaxtyping

# Kept for the whole session; must be in place before anything imports narl.
jaxtyping.install_import_hook("narl", "typecheck.check_shapes")
