/* Which precision a model's networks are opened in. */
#ifndef STENO_FAMILIES_COMMON_PRECISION_H
#define STENO_FAMILIES_COMMON_PRECISION_H

#include "base/precision.h"

/* STENO_AUTO_WEIGHTS becomes int8, else bf16, where the model allows it and the CPU (level `cpu`,
 * NULL = all it has) multiplies such numbers; else fp32. Other precisions are as asked.
 * STENO_ERR_INVAL: no such CPU level. */
STENO_MUST steno_status steno_choose_precision(enum steno_precision asked, const char *cpu,
                                               bool allows_int8, bool allows_bf16,
                                               enum steno_precision *out, steno_err *err);

#endif
