/* Vector functions of the GNU C library (libmvec, 2.35 and later), within 4 ulp. Their names have
 * the instruction set and the width: _ZGVdN8v_sinf takes eight floats with AVX2, _ZGVeN16v_sinf
 * sixteen with AVX-512 (x86-64 vector function ABI). Included after vec_<isa>.h. */
#ifndef STENO_NN_KERNELS_X86_LIBMVEC_TMPL_H
#define STENO_NN_KERNELS_X86_LIBMVEC_TMPL_H

#include <features.h>

#ifdef __GLIBC_PREREQ
#if __GLIBC_PREREQ(2, 35)
#define V_LIBM(DO)                                                                                 \
    DO(sin)                                                                                        \
    DO(cos) DO(tan) DO(asin) DO(acos) DO(atan) DO(sinh) DO(cosh) DO(asinh) DO(acosh) DO(atanh)
#if VL == 16
#define V_LIBM_NAME(name) _ZGVeN16v_##name##f
#else
#define V_LIBM_NAME(name) _ZGVdN8v_##name##f
#endif
#define DECLARE(name)                                                                              \
    vf V_LIBM_NAME(name)(vf x);                                                                    \
    static inline vf v_##name(vf x)                                                                \
    {                                                                                              \
        return V_LIBM_NAME(name)(x);                                                               \
    }
V_LIBM(DECLARE)
#undef DECLARE
#endif
#endif

#endif
