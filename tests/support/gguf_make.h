/* GGUF files made in memory, for tests that read them. Out of memory ends the test. */
#ifndef STENO_TESTS_GGUF_MAKE_H
#define STENO_TESTS_GGUF_MAKE_H

#include "base/buf.h"

struct gguf_make {
    struct steno_buf keys, infos, data;
    uint64_t n_keys, n_tensors;
};

void gguf_make_begin(struct gguf_make *g);
void gguf_make_text(struct gguf_make *g, const char *key, const char *value);
void gguf_make_u32(struct gguf_make *g, const char *key, uint32_t value);
void gguf_make_i32(struct gguf_make *g, const char *key, int32_t value);
void gguf_make_f32(struct gguf_make *g, const char *key, float value);
void gguf_make_flag(struct gguf_make *g, const char *key, bool value);
void gguf_make_texts(struct gguf_make *g, const char *key, size_t n, const char *const *value);
void gguf_make_ints(struct gguf_make *g, const char *key, size_t n, const int32_t *value);
/* dim: PyTorch's order; type: ggml's number. */
void gguf_make_tensor(struct gguf_make *g, const char *name, uint32_t type, int rank,
                      const int64_t *dim, const void *data, size_t bytes);
/* Append the file to out, and free g. */
void gguf_make_end(struct gguf_make *g, struct steno_buf *out);

#endif
