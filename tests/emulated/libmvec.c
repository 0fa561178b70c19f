/* libmvec's functions of 16 floats (nn/kernels/x86/libmvec_tmpl.h), as code without AVX-512 calls
 * them: such code passes vectors of 512 bits in memory, the C library takes them in a register.
 * Each is two calls of the function of 8. */
#include <immintrin.h>

typedef float halves __attribute__((vector_size(64)));

#define DEFINE(name)                                                                               \
    __m256 _ZGVdN8v_##name##f(__m256 x);                                                           \
    halves _ZGVeN16v_##name##f(halves x);                                                          \
    halves _ZGVeN16v_##name##f(halves x)                                                           \
    {                                                                                              \
        union {                                                                                    \
            halves all;                                                                            \
            __m256 half[2];                                                                        \
        } u = {x};                                                                                 \
        u.half[0] = _ZGVdN8v_##name##f(u.half[0]);                                                 \
        u.half[1] = _ZGVdN8v_##name##f(u.half[1]);                                                 \
        return u.all;                                                                              \
    }
DEFINE(sin)
DEFINE(cos)
DEFINE(tan)
DEFINE(asin)
DEFINE(acos)
DEFINE(atan)
DEFINE(sinh)
DEFINE(cosh)
DEFINE(asinh)
DEFINE(acosh)
DEFINE(atanh)
