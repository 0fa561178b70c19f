/* A logarithm for vectors of any width, with the same bits for all. Define before the inclusion: V
 * and VI (vectors of float and int32_t), SET1 (a number in all lanes), LOG (the name). */
/* Natural logarithm of normal positive numbers, within 2 ulp (test_vec tests the whole range).
 * Range reduction to [sqrt(1/2), sqrt(2)) and polynomial of Cephes' logf (S. L. Moshier,
 * netlib). */
static inline V LOG(V x)
{
    const VI bits = (VI)x;
    VI e = (bits >> 23) - 126, low;
    V m = (V)((bits & 0x007FFFFF) | 0x3F000000), z, y, ef; /* [0.5, 1) */
    low = (VI)(m < SET1(0.707106781f));
    e += low; /* a true comparison is -1 */
    m = m - SET1(1) + (V)((VI)m & low);
    ef = __builtin_convertvector(e, V);
    z = m * m;
    y = SET1(7.0376836292e-2f) * m - SET1(1.1514610310e-1f);
    y = y * m + SET1(1.1676998740e-1f);
    y = y * m - SET1(1.2420140846e-1f);
    y = y * m + SET1(1.4249322787e-1f);
    y = y * m - SET1(1.6668057665e-1f);
    y = y * m + SET1(2.0000714765e-1f);
    y = y * m - SET1(2.4999993993e-1f);
    y = y * m + SET1(3.3333331174e-1f);
    y = y * m * z - SET1(2.12194440e-4f) * ef - SET1(0.5f) * z;
    return m + y + SET1(0.693359375f) * ef;
}

#undef V
#undef VI
#undef SET1
#undef LOG
