#include "nn/kernels/x86/amx.h"
#include "nn/kernels/x86/vec_avx512.h"

#undef ISA
#define ISA amx
#define AMX_DOT AMX_DOT_BF16
#define BEGIN amx_begin
#define END amx_end
#include "nn/kernels/x86/bf16_tmpl.h"
