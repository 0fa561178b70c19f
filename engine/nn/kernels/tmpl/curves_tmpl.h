/* Activations of ONNX that few networks have. Included after math_tmpl.h, whose rules hold here. */
#ifndef STENO_NN_KERNELS_TMPL_CURVES_TMPL_H
#define STENO_NN_KERNELS_TMPL_CURVES_TMPL_H

/* e^x - 1 for x <= 0, as 2^whole p + (2^whole - 1): the second sum is exact for the numbers that
 * matter. */
V_MANY_OF v_expm1_below_each(vf *x, int n)
{
    vf whole[V_MANY], p[V_MANY], power[V_MANY];
    V_EACH(i, n) x[i] = v_max(v_set1(-105.0f), x[i]);
    v_exp_parts_each(x, whole, p, n);
    V_EACH(i, n) power[i] = v_ldexp_1p(v_zero(), whole[i]);
    V_EACH(i, n) x[i] = v_fma(p[i], power[i], power[i] - v_set1(1.0f));
}

/* x > 0 ? x : a (e^(b x) - 1); b > 0. */
V_MANY_OF v_elu_each(vf *x, int n, float a, float b)
{
    vf e[V_MANY];
    V_EACH(i, n) e[i] = v_min(v_zero(), x[i] * v_set1(b));
    v_expm1_below_each(e, n);
    V_EACH(i, n) x[i] = v_select(v_lt(v_zero(), x[i]), x[i], v_set1(a) * e[i]);
}

/* log(1 + e^x) = max(x, 0) + log(1 + e^-|x|). */
V_MANY_OF v_softplus_each(vf *x, int n)
{
    vf e[V_MANY];
    V_EACH(i, n) e[i] = v_neg(v_abs(x[i]));
    V_EACH(i, n) x[i] = v_max(v_zero(), x[i]);
    v_exp_each(e, n);
    v_add_log1p_unit_each(e, x, n);
    V_EACH(i, n) x[i] = e[i];
}

/* x tanh(log(1 + e^x)) = x w / d, with e = e^-|x|:
 * w = e (e + 2), d = w + 2 below zero; both divided by e^2x above. */
V_MANY_OF v_mish_each(vf *x, int n)
{
    const vf two = v_set1(2.0f);
    vf e[V_MANY], w[V_MANY], d[V_MANY];
    V_EACH(i, n) e[i] = v_neg(v_abs(x[i]));
    v_exp_each(e, n);
    V_EACH(i, n)
    w[i] = v_select(v_lt(x[i], v_zero()), e[i] * (e[i] + two), v_fma(two, e[i], v_set1(1.0f)));
    V_EACH(i, n) d[i] = v_select(v_lt(x[i], v_zero()), two, two * e[i] * e[i]) + w[i];
    V_EACH(i, n) x[i] = x[i] * w[i] / d[i];
}

V_MANY_OF v_softsign_each(vf *x, int n)
{
    V_EACH(i, n) x[i] = x[i] / (v_set1(1.0f) + v_abs(x[i]));
}

static inline vf v_hard_sigmoid(vf x, float a, float b)
{
    return v_clamp(v_fma(x, v_set1(a), v_set1(b)), 0, 1);
}

static inline vf v_hard_swish(vf x)
{
    return x * v_hard_sigmoid(x, 1 / 6.0f, 0.5f);
}

static inline vf v_leaky_relu(vf x, float a)
{
    return v_select(v_lt(x, v_zero()), v_set1(a) * x, x);
}

#endif
