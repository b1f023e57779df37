"""Reference planners: loops over states and actions in float64 NumPy, and random instances.

Written from the equations alone; nothing here calls `narl`.
"""

import numpy as np


def clipped(v, h, horizon, clip):
    return np.clip(v, 0, horizon - h) if clip == "horizon" else v


def induct(backup, shape, p0, clip):
    """Q^h = backup(h, V^{h+1}) from h = H−1 down to 0; V^h = max_a Q^h, clipped if asked."""
    num_states, num_actions, horizon = shape
    q = np.zeros((horizon, num_states, num_actions))
    v = np.zeros(num_states)
    for h in range(horizon - 1, -1, -1):
        v_next, v = v, np.zeros(num_states)
        for s in range(num_states):
            for a in range(num_actions):
                q[h, s, a] = backup(h, s, a, v_next)
            v[s] = clipped(max(q[h, s]), h, horizon, clip)
    return q, sum(p0[s] * v[s] for s in range(num_states))


def value_iteration(p, r, p0, horizon, clip="none"):
    def backup(h, s, a, v):
        return r[s, a] + sum(p[s, a, t] * v[t] for t in range(len(v)))

    return induct(backup, (*r.shape, horizon), p0, clip)


def naevi(p, r, xi_r, xi_p, p0, horizon, clip="horizon", clip_reward=True):
    """Eq. 2; ``xi_p`` is [M,S,A,S], or [H,M,S,A,S] for fresh noise per stage, or None."""

    def backup(h, s, a, v):
        reward = r[s, a] + max(xi_r[m, s, a] for m in range(len(xi_r)))
        if clip_reward:
            reward = min(max(reward, 0.0), 1.0)
        future = np.dot(p[s, a], v)
        if xi_p is not None:
            xi = xi_p if xi_p.ndim == 4 else xi_p[h]
            future += max(np.dot(xi[m, s, a], v) for m in range(len(xi)))
        return reward + future

    return induct(backup, (*r.shape, horizon), p0, clip)


def navi(p, r_tilde, q_prev, p0, horizon):
    """Eq. 4 with the cap H−h."""

    def backup(h, s, a, v):
        return min(q_prev[h, s, a], horizon - h, r_tilde[s, a] + np.dot(p[s, a], v))

    return induct(backup, (*r_tilde.shape, horizon), p0, "horizon")


def raised_row(row, width, v):
    """Jaksch et al., Fig. 2, on a copy of one row."""
    order = np.argsort(v, kind="stable")
    row = np.array(row, dtype=float)
    row[order[-1]] = min(1.0, row[order[-1]] + width / 2)
    for worst in order:
        if row.sum() <= 1:
            break
        row[worst] = max(0.0, 1.0 - (row.sum() - row[worst]))
    return row


def extended_value_iteration(p, r, r_width, p_width, p0, horizon, clip="none"):
    def backup(h, s, a, v):
        return r[s, a] + r_width[s, a] + np.dot(raised_row(p[s, a], p_width[s, a], v), v)

    return induct(backup, (*r.shape, horizon), p0, clip)


def compounding_value_iteration(p, r, r_width, p_width, p0, horizon):
    """The paper's baseline code: the row is not copied, so what a backup adds to P̂ stays there.

    The best state is raised by half the slack, in place. Only when that would exceed 1 a new row
    with all mass on the best state is made. Then the worst states are reduced while the row, be it
    the new one or P̂'s own, sums to more than 1.
    """
    p = np.array(p, dtype=float)
    num_states = len(p0)

    def backup(h, s, a, v):
        order = np.argsort(v, kind="stable")
        best = order[-1]
        row = p[s, a]
        if row[best] + p_width[s, a] / 2 > 1:
            row = np.zeros(num_states)
            row[best] = 1
        else:
            row[best] += p_width[s, a] / 2
        loop = 0
        while row.sum() > 1 and loop < num_states:
            worst = order[loop]
            row[worst] = max(0.0, 1 - row.sum() + row[worst])
            loop += 1
        return r[s, a] + r_width[s, a] + np.dot(row, v)

    return induct(backup, (*r.shape, horizon), p0, "none")


def ucbvi(p, r, bonus, unseen, p0, horizon):
    """Q = min(H−h, r + b(h, mean, variance) + E[V]); ``bonus`` gives [S,A] entries by index."""

    def backup(h, s, a, v):
        if unseen[s, a]:
            return horizon - h
        mean = np.dot(p[s, a], v)
        variance = np.dot(p[s, a], (v - mean) ** 2)
        return min(horizon - h, r[s, a] + bonus(h, s, a, variance) + mean)

    return induct(backup, (*r.shape, horizon), p0, "horizon")


def rlsvi(stats, w, p0, horizon, clip="none"):
    """Bayesian regression towards 0 with one pseudo-observation, plus the noise w [H,S,A]."""
    visits, reward_sum, transitions = stats

    def backup(h, s, a, v):
        target = reward_sum[s, a] + sum(transitions[s, a, t] * v[t] for t in range(len(v)))
        return target / (visits[s, a] + 1) + w[h, s, a]

    return induct(backup, (*visits.shape, horizon), p0, clip)


# --- random instances -------------------------------------------------------------------------


def random_kernel(rng, num_states, num_actions, num_slots=None):
    """Rows of a Dirichlet; with ``num_slots`` each has at most that many positive entries."""
    if num_slots is None:
        return rng.dirichlet(np.ones(num_states), (num_states, num_actions))
    p = np.zeros((num_states, num_actions, num_states))
    for s in range(num_states):
        for a in range(num_actions):
            size = rng.integers(1, num_slots + 1)
            reachable = rng.choice(num_states, size=size, replace=False)
            p[s, a, reachable] = rng.dirichlet(np.ones(size))
    return p


def random_rewards(rng, num_states, num_actions):
    return rng.uniform(-0.3, 1.3, (num_states, num_actions))


def slots_of(p):
    """Successor slots of a sparse kernel, row by row, padded with S; and their probabilities."""
    num_states, num_actions, _ = p.shape
    num_slots = int((p > 0).sum(-1).max())
    successors = np.full((num_states, num_actions, num_slots), num_states, np.int32)
    prob = np.zeros(successors.shape)
    for s in range(num_states):
        for a in range(num_actions):
            reachable = np.flatnonzero(p[s, a])
            successors[s, a, : len(reachable)] = reachable
            prob[s, a, : len(reachable)] = p[s, a, reachable]
    return successors, prob


def random_counts(rng, p, most=20, unseen=0.3):
    """visits, Σr and transition counts as they might come from the kernel p."""
    num_states, num_actions, _ = p.shape
    visits = rng.integers(1, most + 1, (num_states, num_actions))
    visits[rng.random(visits.shape) < unseen] = 0
    transitions = np.zeros(p.shape)
    for s in range(num_states):
        for a in range(num_actions):
            transitions[s, a] = rng.multinomial(visits[s, a], p[s, a])
    reward_sum = visits * random_rewards(rng, num_states, num_actions)
    return visits.astype(float), reward_sum, transitions


def estimates(visits, reward_sum, transitions):
    """r̂ and P̂ with the N=0 rules: r̂ = 0, P̂ uniform."""
    num_states = visits.shape[0]
    r_hat = np.zeros(visits.shape)
    p_hat = np.full(transitions.shape, 1 / num_states)
    for s, a in zip(*np.nonzero(visits), strict=True):
        r_hat[s, a] = reward_sum[s, a] / visits[s, a]
        p_hat[s, a] = transitions[s, a] / visits[s, a]
    return r_hat, p_hat
