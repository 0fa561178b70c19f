/* How the constant weights of products are kept, chosen when a network is opened. */
#ifndef STENO_OPS_PRECISION_H
#define STENO_OPS_PRECISION_H

enum steno_precision {
    STENO_FP32,
    STENO_BF16_WEIGHTS, /* 16 bits, widened in the kernel; sums in f32 */
    STENO_INT8_WEIGHTS, /* i8 with a scale per output channel; activations rounded to u8 as they
                           come, with a range per row (products) or per image (convolutions) */
    STENO_FP16_WEIGHTS  /* as bf16, with the other 16-bit format */
};

#endif
