"""The confidence radius of one layer, as a formula in named constants, and the sets of those constants."""

import math

import numpy as np

PAPER: dict[str, float] = {
    # "above": the radius as printed, equation (def:beta). The three 2-powers are 2^(-2l+4) = 16 * 4^-l inside the
    # root (with either variance proxy), the bias 2^(-l+1) = 2 * 2^-l, and the initial radius 2^(-l+1) of line 2.
    "beta_scale": 1.0,
    "sqrt_coef": 16.0,
    "emp_coef": 8.0,
    "log_coef": 6.0,
    "floor_coef": 16.0,
    "cross_coef": 0.0,
    "range_coef": 6.0,
    "bias_coef": 2.0,
    "initial_coef": 2.0,
    "switch": 64.0,
    "log_shift": 1.0,
    "fallback_count": 8.0,
    "fallback_weight": 0.0,
    "fallback_log": 6.0,
    "fallback_floor": 16.0,
    "fallback_cross": 0.0,
}

PAPER_FIXED: dict[str, float] = {
    # "replace 6R^2 by 9.62R^2 and 2^{-2l+4} by 2^{-2l+7}: the paper's Lemma on the variance estimate drops a factor 4".
    **PAPER,
    "log_coef": 9.62,
    "floor_coef": 128.0,
    "fallback_log": 9.62,
    "fallback_floor": 128.0,
}

TIGHT: dict[str, float] = {
    # "beta = a*2^{-l} sqrt(V log) + b*2^{-l} R log + 2^{-l}, a = sqrt2+sqrt3, b = 1.721 (use 3.15, 1.73),
    # V = 2*(4 emp + 4*2*(b 2^{-l} R log + 2^{-l})^2 + (14/3) R^2 log) when 2^l >= 12.6 sqrt(log),
    # else R^2 * sum w_i^2"; one logarithm, log(4 k^2 L / delta), throughout.
    "beta_scale": 1.0,
    "sqrt_coef": 3.15,
    "emp_coef": 8.0,
    "log_coef": 28.0 / 3.0,
    "floor_coef": 0.0,
    "cross_coef": 16.0,
    "range_coef": 1.73,
    "bias_coef": 1.0,
    "initial_coef": 2.0,
    "switch": 12.6,
    "log_shift": 0.0,
    "fallback_count": 0.0,
    "fallback_weight": 1.0,
    "fallback_log": 0.0,
    "fallback_floor": 0.0,
    "fallback_cross": 0.0,
}

PRACTICAL: dict[str, float] = {
    # "emp in every layer, beta = c*(3.15*2^{-l} sqrt((2 emp + R^2 log/8) log) + 1.73*2^{-l} R log) + 2^{-l}"; c = 0.1
    # here; the preset has a measured c. The weight is that of a layer before the switch, of which there is none.
    **TIGHT,
    "beta_scale": 0.1,
    "emp_coef": 2.0,
    "log_coef": 1.0 / 8.0,
    "cross_coef": 0.0,
    "switch": 0.0,
}

# The second form of radius, `sharp_radius`; |theta*| may be a millionth above 1, for rounding.
SHARP: dict[str, float] = dict.fromkeys(PAPER, 0.0) | {
    "beta_scale": 1.0,
    "bias_coef": 1.0 + 1e-6,
    "initial_coef": 2.0,
    "is_sharp": 1.0,
}

# The quoted descriptions are those of the constant sets of SAVE (B6 of the baseline specifications).
PRESETS: dict[str, dict[str, float]] = {
    "paper": PAPER,
    "paper_fixed": PAPER_FIXED,
    "tight": TIGHT,
    "practical": PRACTICAL,
    "sharp": SHARP,
}

EPISODIC_PAPER: dict[str, float] = {
    # The radius as printed, equation (def:beta:mdp). Its 8 counts twice, once inside the variance estimate and once in
    # front of it, hence 64 emp but 8 |Psi|; 2^(-2l+5) = 32 * 4^-l; lambda B^2 = 1. It holds from the first episode on,
    # so there is no initial radius.
    "beta_scale": 1.0,
    "sqrt_coef": 16.0,
    "emp_coef": 64.0,
    "log_coef": 8.0,
    "floor_coef": 32.0,
    "cross_coef": 0.0,
    "range_coef": 6.0,
    "bias_coef": 1.0,
    "initial_coef": 0.0,
    "switch": 64.0,
    "log_shift": 0.0,
    "fallback_count": 8.0,
    "fallback_weight": 0.0,
    "fallback_log": 8.0,
    "fallback_floor": 32.0,
    "fallback_cross": 0.0,
}

EPISODIC_PAPER_FIXED: dict[str, float] = {
    # "`paper_fixed` uses 8 emp (and, as in B6, additive constants 2*(4*2*(6*2^{-l}l0+2^{-l})^2 + (14/3) l0) instead of
    # 8 l0 + 2^{-2l+5})", with either variance proxy.
    **EPISODIC_PAPER,
    "emp_coef": 8.0,
    "log_coef": 28.0 / 3.0,
    "floor_coef": 0.0,
    "cross_coef": 16.0,
    "fallback_log": 28.0 / 3.0,
    "fallback_floor": 0.0,
    "fallback_cross": 16.0,
}

# The same names for UCRL-AVE (M4 of the baseline specifications): "`tight` and `practical` sets exactly as in B6 with
# R = 1".
EPISODIC_PRESETS: dict[str, dict[str, float]] = {
    "paper": EPISODIC_PAPER,
    "paper_fixed": EPISODIC_PAPER_FIXED,
    "tight": TIGHT,
    "practical": PRACTICAL,
    "sharp": SHARP,
}


def initial_radius(layer: int, constants: dict[str, float]) -> float:
    """Radius of a layer without data: initial_coef * 2^-l (line 2 of Algorithm 1)."""
    return constants["initial_coef"] * 2.0**-layer


def confidence_radius(
    layer: int,
    round_number: int,
    emp: float,
    count: int,
    weight_sum: float,
    *,
    noise_bound: float,
    delta: float,
    num_layers: int,
    constants: dict[str, float],
    loss: float,
) -> float:
    """Radius of layer l after its update in round k, equation (def:beta) with every number named.

        q        = 4^-l,  log0 = log(4 k^2 L / delta),  log1 = log(4 (k + log_shift)^2 L / delta)
        additive = range_coef 2^-l R log0 + bias_coef 2^-l
        V        = emp_coef emp + log_coef R^2 log1 + floor_coef q + cross_coef additive^2
                                                                        if 2^l >= switch sqrt(log1)
                 = fallback_count R^2 n + fallback_weight R^2 W + fallback_log R^2 log1 + fallback_floor q
                   + fallback_cross additive^2                          otherwise
        beta     = beta_scale (sqrt_coef 2^-l sqrt(V log0) + range_coef 2^-l R log0) + bias_coef 2^-l

    Args:
        layer: l, counted from 1.
        round_number: k, counted from 1.
        emp: sum over Psi_l of w^2 (r - <theta_l, a>)^2.
        count: n = |Psi_l|.
        weight_sum: W, the sum of w^2 over Psi_l.
        noise_bound: R.
        delta: failure probability.
        num_layers: L.
        constants: one of PRESETS, or a dict with the same keys; one with `is_sharp` has the other form.
        loss: emp + 4^-l |theta_l|^2, used by the other form alone.
    """
    c = constants
    if c.get("is_sharp"):
        return sharp_radius(layer, loss, delta=delta, scale=noise_bound, bound=noise_bound, bias=1.0, constants=c)
    scale = 2.0**-layer
    q = 4.0**-layer
    log0 = math.log(4.0 * round_number**2 * num_layers / delta)
    log1 = math.log(4.0 * (round_number + c["log_shift"]) ** 2 * num_layers / delta)
    additive = c["range_coef"] * scale * noise_bound * log0 + c["bias_coef"] * scale
    if 2.0**layer >= c["switch"] * math.sqrt(log1):
        variance = (
            c["emp_coef"] * emp
            + c["log_coef"] * noise_bound**2 * log1
            + c["floor_coef"] * q
            + c["cross_coef"] * additive**2
        )
    else:
        variance = (
            c["fallback_count"] * noise_bound**2 * count
            + c["fallback_weight"] * noise_bound**2 * weight_sum
            + c["fallback_log"] * noise_bound**2 * log1
            + c["fallback_floor"] * q
            + c["fallback_cross"] * additive**2
        )
    stochastic = c["sqrt_coef"] * scale * math.sqrt(variance * log0) + c["range_coef"] * scale * noise_bound * log0
    return c["beta_scale"] * stochastic + c["bias_coef"] * scale


def sharp_radius(
    layer: int,
    loss: float,
    *,
    delta: float,
    scale: float,
    bound: float,
    bias: float,
    constants: dict[str, float],
) -> float:
    """Radius of layer l by Lemmas A and B of docs/sharp.md, step by step as there.

    Args:
        layer: l, counted from 1.
        loss: the least regularised loss of the layer, which has learned.
        delta: failure probability, of all layers and rounds together.
        scale: a sub-Gaussian scale of the noise.
        bound: a bound on the noise.
        bias: lambda B^2, where the ridge is 4^-l lambda.
        constants: with `beta_scale`, and `bias_coef` that multiplies B.
    """
    q, rho, tau = 4.0**-layer, 2.0**-layer, constants["bias_coef"] ** 2 * bias
    of_layer = delta / (layer * (layer + 1))
    # Lemma A: |theta_l - theta*|^2 <= q tau + q loss + 2 scale^2 log(1 / share)
    share = of_layer if layer <= 2 else of_layer / 2.0
    squares = [q * tau + q * loss + 2.0 * scale**2 * math.log(1.0 / share)]
    # Lemma B: U_0 = sqrt(q tau + room), with the least room = q (4^m - 1) tau of the grid that is at least q loss
    m = 1
    while loss > (4.0**m - 1.0) * tau:
        m += 1
    room = q * (4.0**m - 1.0) * tau
    for j in range(4 if layer >= 3 else 0):
        b = 0.7 / 2.0**j
        lam = b / (rho * bound)
        p = (-math.log(1.0 - b) - b) / b**2
        kappa = p * lam * q
        share = of_layer / 2.0 / (m * (m + 1)) / ((j + 1) * (j + 2))
        G = math.sqrt(q * tau + room) + math.log(1.0 / share) / lam
        # M = G + kappa (1 + q) loss / (1 - 2 kappa M), a quadratic equation in M
        roots = np.roots([2.0 * kappa, -(1.0 + 2.0 * kappa * G), G + kappa * (1.0 + q) * loss])
        if 2.0 * kappa * G < 1.0 and np.all(np.isreal(roots)):
            squares.append(float(np.min(roots)) ** 2 - (room - q * loss))
    least = math.sqrt(q * tau)
    return least + constants["beta_scale"] * (math.sqrt(min(squares)) - least)


def episodic_radius(
    layer: int,
    episode: int,
    horizon: int,
    emp: float,
    count: int,
    weight_sum: float,
    *,
    delta: float,
    num_layers: int,
    constants: dict[str, float],
    loss: float,
) -> float:
    """Radius of layer l in episode k, equation (def:beta:mdp) with every number named and lambda = 1 / B^2.

    That is `confidence_radius` with R = 1 and

        log0 = log(4 k^2 H^2 L / delta),  log1 = log(4 (k + log_shift)^2 H^2 L / delta)

    for every layer and from the first episode on, data or not.

    Args:
        layer: l, counted from 1.
        episode: k, counted from 1.
        horizon: H.
        emp: sum over Psi_l of w^2 (V(s') - <theta_l, phi_V>)^2.
        count: n = |Psi_l|.
        weight_sum: W, the sum of w^2 over Psi_l.
        delta: failure probability.
        num_layers: L.
        constants: one of EPISODIC_PRESETS, or a dict with the same keys; one with `is_sharp` has the other form, in
            which a layer without data has the radius 2^-l.
        loss: emp + 4^-l lambda |theta_l|^2, used by the other form alone.
    """
    if constants.get("is_sharp"):
        if count == 0:
            return constants["bias_coef"] * 2.0**-layer
        return sharp_radius(layer, loss, delta=delta, scale=0.5, bound=1.0, bias=1.0, constants=constants)
    return confidence_radius(
        layer,
        episode * horizon,
        emp,
        count,
        weight_sum,
        noise_bound=1.0,
        delta=delta,
        num_layers=num_layers,
        constants={**constants, "log_shift": constants["log_shift"] * horizon},
        loss=loss,
    )
