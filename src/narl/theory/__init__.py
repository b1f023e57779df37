"""The constants of the paper's theorems: radii, noise scales, ensemble sizes and tail bounds.

Where the paper is wrong, `corrected=False` gives what is printed and `corrected=True` what holds;
`docs/errata.md` has each error with its proof and its test. S, A, H, K and T = K·H are states,
actions, horizon, episodes and steps; L… are lines of the paper's LaTeX source.

The radii and scales take counts of any shape and trace under `jax.jit`; a count of 0 is taken as 1
(L780). Everything else is float64 on the host.
"""

from typing import TYPE_CHECKING

from narl.lazy_names import import_on_first_use

if TYPE_CHECKING:
    from narl.theory.ensemble_sizes import anticoncentration as anticoncentration
    from narl.theory.ensemble_sizes import dynamics_anticoncentration as dynamics_anticoncentration
    from narl.theory.ensemble_sizes import failure_probability as failure_probability
    from narl.theory.ensemble_sizes import gaussian_tail as gaussian_tail
    from narl.theory.ensemble_sizes import gaussian_tail_lower_bound as gaussian_tail_lower_bound
    from narl.theory.ensemble_sizes import members_p as members_p
    from narl.theory.ensemble_sizes import members_r as members_r
    from narl.theory.estimation_radii import dynamics_radius as dynamics_radius
    from narl.theory.estimation_radii import estimation_radius as estimation_radius
    from narl.theory.estimation_radii import fake_pairs as fake_pairs
    from narl.theory.estimation_radii import fake_reward_shrinkage as fake_reward_shrinkage
    from narl.theory.estimation_radii import value_radius as value_radius
    from narl.theory.noise_scales import beta_p as beta_p
    from narl.theory.noise_scales import beta_r as beta_r
    from narl.theory.noise_scales import delta_of as delta_of
    from narl.theory.noise_scales import sigma_bonus as sigma_bonus
    from narl.theory.noise_scales import sigma_p as sigma_p
    from narl.theory.noise_scales import sigma_r as sigma_r
    from narl.theory.noise_scales import sigma_r_ucbvi as sigma_r_ucbvi
    from narl.theory.noise_scales import ucbvi_bonus as ucbvi_bonus

import_on_first_use(__name__)
