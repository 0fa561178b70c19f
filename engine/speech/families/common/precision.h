/* Which precision a model's networks are opened in. */
#ifndef STENO_FAMILIES_COMMON_PRECISION_H
#define STENO_FAMILIES_COMMON_PRECISION_H

#include "base/precision.h"

/* Resolve STENO_AUTO_WEIGHTS to the fastest precision that the model allows: int8 from AVX2 and
 * from AArch64's dot products on, else bf16 on CPUs that multiply such numbers, else fp32. A model
 * allows a precision if its words differ little from those of f32 (docs/models.md,
 * docs/whisper.md). If it allows neither, and for every other precision, *out is `asked`. cpu:
 * dispatch level; NULL: all that the CPU has. STENO_ERR_INVAL: no such level. */
STENO_MUST steno_status steno_choose_precision(enum steno_precision asked, const char *cpu,
                                               bool allows_int8, bool allows_bf16,
                                               enum steno_precision *out, steno_err *err);

/* Of a directory with networks in f32 and in 8 bits, whether to take the latter: if int8 is asked
 * for, or if nothing is and their products are faster on the CPU. cpu, errors: as above. */
STENO_MUST steno_status steno_prefers_int8_files(enum steno_precision asked, const char *cpu,
                                                 bool *out, steno_err *err);

#endif
