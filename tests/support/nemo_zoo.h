/* The small networks of NeMo's and WeNet's kinds in ../shared/zoo/tiny: how a set of recorded rows
 * was made, and what compares a result with a row (decode.json). Failures fail the test. */
#ifndef STENO_TESTS_SUPPORT_NEMO_ZOO_H
#define STENO_TESTS_SUPPORT_NEMO_ZOO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "speech/families/family.h"
#include "formats/json.h"
#include "speech/recognizer/stream.h"
#include "speech/text/tokens.h"

#define RATE 16000
#define MAX_TOKENS 1024
#define SILENCE 0.66 /* s of zeros behind the recordings of streaming models */

struct audio {
    float *pcm; /* 16 kHz */
    size_t n;
};

struct token {
    int32_t id;
    double start, end;
};

struct result {
    struct token t[MAX_TOKENS];
    size_t n;
    char text[8192];
};

/* How the rows of a set were made. */
struct set {
    const char *dir;  /* of ../shared/zoo/tiny */
    const char *part; /* folder of the networks in it, or "" */
    const char *name; /* in decode.json */
    /* of the folder above `part`: files, and their names beside its own; none: the encoder */
    const char *above[2][2];
    const char *group; /* object around the set there; NULL: "sets" */
    bool int8, sherpa;
    int beam; /* 0: 1 */
    const char *penalty;
    const char *hotwords, *hotwords_score;
    bool modified;  /* one hypothesis by the rules of the beam */
    double seconds; /* of each recording; 0: all */
    bool streaming;
    bool transducer;     /* of segments between endpoints */
    bool automatic;      /* precision; else f32 */
    double frame;        /* s of a frame of scores; 0: 0.08 */
    double step;         /* s that the recording program counts for one; 0: the same */
    bool calm;           /* networks in 8 bits: all rows count, as roundings do not go on */
    bool ids;            /* compare ids */
    size_t ties;         /* rows in which a near tie may change a token */
    bool wild;           /* networks in 8 bits: what is recorded says nothing of another CPU */
    bool writes_unknown; /* the recording program writes <unk> */
    const char *source, *target; /* Canary: languages */
};

/* tokens, edits: of networks in 8 bits only those of rows with ids, on which the recording program
 * and another release of ONNX Runtime agree, and of rows that tests/data/nemo/int8.json has from
 * ONNX Runtime on a CPU like ours: the nearer of both counts. In the others a rounding decides. */
struct count {
    size_t rows, equal, own, tokens, edits;
};

/* zoo_recording's; the caller frees pcm. */
struct audio nemo_audio(const char *name, double seconds, double silence);

/* Options of a set; *n of them. They stay until the next call. */
const struct steno_option *nemo_options(const struct set *s, size_t *n);
/* The model in a directory of nemo_link, and a stream of it, with the set's options. */
steno_model *nemo_open_model(const struct set *s, const char *dir);
steno_stream *nemo_open_stream(steno_model *m, const struct set *s);
/* Add the finals that are there. */
void nemo_take_finals(steno_stream *s, struct result *r);
/* piece: samples of one push; 0: all. */
void nemo_decode(steno_model *m, const struct set *set, const struct audio *a, size_t piece,
                 struct result *r);

/* The rows of the set, and the model's tokens; the caller closes both. False: ../shared is not
 * there. */
bool nemo_open_rows(const struct set *s, steno_json **j, steno_tokens **t,
                    const struct steno_json_node **rows);
/* Count the row, and print how the result differs. end: of the audio, in s. */
void nemo_compare(const struct set *s, const steno_tokens *t, struct result *r,
                  const struct steno_json_node *row, double end, struct count *c);
/* The text anew out of the tokens. */
void nemo_spell_text(const steno_tokens *t, struct result *r);

/* A directory with links to some files of the set's own: those in 8 bits, or those in f32, and what
 * is no network. With both kinds the engine would choose. One at a time; nemo_unlink removes it. */
const char *nemo_link(const struct set *s);
void nemo_unlink(const char *dir);

#endif
