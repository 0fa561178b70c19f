/* For the readers, one for each format. Each fills the view; weights.c checks it. */
#ifndef STENO_FAMILIES_WHISPER_WEIGHTS_INTERNAL_H
#define STENO_FAMILIES_WHISPER_WEIGHTS_INTERNAL_H

#include "base/arena.h"
#include "speech/families/whisper/weights.h"
#include "formats/gguf.h"
#include "formats/json.h"
#include "base/map.h"
#include "formats/safetensors.h"
#include "formats/torch.h"
#include "nn/graph/graph.h"

#define STENO_WHISPER_MAX_FILES 64 /* shards */
#define STENO_WHISPER_MAX_TENSORS 8192
#define STENO_WHISPER_MAX_LAYERS 128
#define STENO_WHISPER_MAX_HEADS 4096 /* of alignment */

struct steno_whisper_weights {
    steno_arena *mem;
    const char *format, *file;
    struct steno_map map;
    steno_safetensors *shard[STENO_WHISPER_MAX_FILES];
    size_t n_shards;
    steno_torch *torch;                  /* OpenAI's: borrows map, or the bytes that were given */
    steno_gguf *gguf;                    /* likewise */
    struct steno_graph *graph[2];        /* ONNX: encoder and decoder; the tensors are in them */
    char variant[256];                   /* place, size and time of files that those refer to */
    struct steno_whisper_tensor *tensor; /* sorted by name once all are there */
    size_t n, cap;
    int64_t audio_heads, text_heads; /* 0: not said, heads of 64 */
    struct steno_whisper_head *head;
    size_t n_heads;
    steno_bpe *bpe;
    struct steno_whisper_marks marks;
};

/* Add a tensor under t->name. STENO_ERR_LIMIT, STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_whisper_add(steno_whisper_weights *w,
                                          const struct steno_whisper_tensor *t, steno_err *err);
/* Bytes of the elements of a tensor; false: its rows are no whole blocks, or it is too large. */
bool steno_whisper_bytes(const struct steno_whisper_tensor *t, size_t *bytes);
/* [[layer, head], ...] of a JSON file; NULL or no list: nothing. */
STENO_MUST steno_status steno_whisper_read_heads(steno_whisper_weights *w,
                                                 const struct steno_json_node *list,
                                                 const char *file, steno_err *err);

/* Each fills w from bytes (which outlive it); `name` is the file, for messages. */
STENO_MUST steno_status steno_whisper_read_ctranslate2(steno_whisper_weights *w, const void *bytes,
                                                       size_t n, const char *name, steno_err *err);
STENO_MUST steno_status steno_whisper_read_ggml(steno_whisper_weights *w, const void *bytes,
                                                size_t n, const char *name, steno_err *err);
/* One file of safetensors. */
STENO_MUST steno_status steno_whisper_read_shard(steno_whisper_weights *w,
                                                 const steno_safetensors *s, const char *name,
                                                 steno_err *err);
/* OpenAI's checkpoint, w->torch. */
STENO_MUST steno_status steno_whisper_read_openai(steno_whisper_weights *w, const steno_torch *t,
                                                  const char *file, steno_err *err);
/* A GGUF file, w->gguf. STENO_ERR_UNSUPPORTED: of another architecture. */
STENO_MUST steno_status steno_whisper_read_gguf(steno_whisper_weights *w, const steno_gguf *g,
                                                const char *file, steno_err *err);
/* Is it a checkpoint of Whisper? */
bool steno_whisper_is_openai(const steno_torch *t);
/* Networks of an ONNX model: w->graph, as read from files of these names. */
STENO_MUST steno_status steno_whisper_read_onnx(steno_whisper_weights *w, const char *const file[2],
                                                steno_err *err);

/* Files of an ONNX model. `other` is the folder of config.json and the vocabulary. */
struct steno_whisper_onnx_files {
    char encoder[4096], decoder[4096], other[4096];
};
/* Find them for an encoder, a decoder or a folder. False: they are no Whisper model. */
bool steno_whisper_find_onnx(const char *path, struct steno_whisper_onnx_files *out);
/* sherpa's list of tokens beside them. False: there is none. */
bool steno_whisper_find_tokens(const struct steno_whisper_onnx_files *f, char out[4096]);
/* Open both networks and read them. */
STENO_MUST steno_status steno_whisper_open_onnx(steno_whisper_weights *w,
                                                const struct steno_whisper_onnx_files *files,
                                                steno_err *err);
/* The same from memory, as steno_whisper_weights_parse does it. */
STENO_MUST steno_status steno_whisper_parse_onnx(steno_whisper_weights **out,
                                                 const void *const p[2], const size_t n[2],
                                                 const char *name, steno_err *err);
/* sherpa-onnx's tokens.txt or openai-whisper's ranks: lines of a piece in base64 and its number. */
STENO_MUST steno_status steno_whisper_read_tokens(steno_whisper_weights *w, const char *path,
                                                  steno_err *err);
STENO_MUST steno_status steno_whisper_parse_tokens(steno_whisper_weights *w, const char *bytes,
                                                   size_t n, const char *name, steno_err *err);
/* A new view without tensors. NULL: err says why. */
steno_whisper_weights *steno_whisper_weights_new(const char *path, steno_err *err);
/* Hand w over to *out; if st says that reading failed, close it instead. Returns st. */
STENO_MUST steno_status steno_whisper_weights_hand(steno_whisper_weights **out,
                                                   steno_whisper_weights *w, steno_status st);

/* "dir/name"; false if that file cannot be read. */
bool steno_whisper_beside(const char *dir, const char *name, char out[4096]);
/* config.json in dir has Whisper's model_type, as transformers writes it. */
bool steno_whisper_says_whisper(const char *dir);
/* config.json in dir has the keys that CTranslate2 writes for Whisper. */
bool steno_whisper_says_ctranslate2(const char *dir);
/* config.json: heads. */
STENO_MUST steno_status steno_whisper_read_config(steno_whisper_weights *w,
                                                  const struct steno_json_node *root,
                                                  const char *file, steno_err *err);
/* One file of weights in memory, which outlives it; no other file is looked at, no vocabulary
 * needed. An index of safetensors is STENO_ERR_FORMAT. */
STENO_MUST steno_status steno_whisper_weights_parse(steno_whisper_weights **out, const void *bytes,
                                                    size_t n, const char *name, steno_err *err);
/* All tensors are there: sort and check them. */
STENO_MUST steno_status steno_whisper_check(steno_whisper_weights *w, steno_err *err);

#endif
