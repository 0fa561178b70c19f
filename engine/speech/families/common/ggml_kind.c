#include "speech/families/common/ggml_kind.h"

#include <string.h>

#include "base/little_endian.h"
#include "formats/gguf.h"

/* Numbers behind the magic, each i32. Whisper: vocab, audio ctx, state, head, layer, text ctx,
 * state, head, layer, mels, ftype. Parakeet: vocab, ctx, state, head, layer, mels, ftype, n_fft,
 * subsampling, its channels, kernel. Silero goes on with the length of its name. */
enum { N_HEADER = 11, STATE = 2, TEXT_STATE = 6, TEXT_HEAD = 7 };

static uint32_t number_at(const unsigned char *p, int i)
{
    return steno_le32(p + 4 + 4 * i);
}

/* Where Whisper has heads and width of its decoder, which is that of its encoder, Parakeet has the
 * size of the FFT and the number of a type. */
static enum steno_ggml_kind kind_of_ggml(const unsigned char *p, size_t n)
{
    uint32_t fft, type;
    if (n >= 14 && number_at(p, 0) < 64 && memcmp(p + 8, "silero", 6) == 0)
        return STENO_GGML_SILERO;
    if (n < 4 + 4 * N_HEADER)
        return STENO_GGML_WHISPER;
    fft = number_at(p, TEXT_HEAD);
    type = number_at(p, TEXT_STATE);
    return fft >= 256 && type != number_at(p, STATE) && (type < 32 || type >= 1000)
               ? STENO_GGML_PARAKEET
               : STENO_GGML_WHISPER;
}

static enum steno_ggml_kind kind_of_gguf(const void *bytes, size_t n)
{
    static const struct {
        const char *architecture;
        enum steno_ggml_kind kind;
    } known[] = {
        {"whisper", STENO_GGML_WHISPER},        {"parakeet", STENO_GGML_PARAKEET},
        {"nemotron", STENO_GGML_PARAKEET},      {"gigaam", STENO_GGML_PARAKEET},
        {"canary", STENO_GGML_PARAKEET},        {"moonshine", STENO_GGML_MOONSHINE},
        {"sensevoice", STENO_GGML_SENSE_VOICE}, {"SenseVoiceSmall", STENO_GGML_SENSE_VOICE}};
    enum steno_ggml_kind kind = STENO_GGML_OTHER;
    const char *text;
    steno_gguf *g;
    if (steno_gguf_parse(&g, bytes, n, "", NULL))
        return kind;
    text = steno_gguf_text(g, "general.architecture");
    for (size_t i = 0; text && i < sizeof known / sizeof *known; i++)
        if (strcmp(text, known[i].architecture) == 0)
            kind = known[i].kind;
    steno_gguf_close(g);
    return kind;
}

enum steno_ggml_kind steno_ggml_kind_of(const void *bytes, size_t n)
{
    if (steno_gguf_probe(bytes, n))
        return kind_of_gguf(bytes, n);
    return n >= 8 && memcmp(bytes, "lmgg", 4) == 0 ? kind_of_ggml(bytes, n) : STENO_GGML_NONE;
}

enum steno_ggml_kind steno_ggml_kind_of_file(const char *path)
{
    enum steno_ggml_kind kind;
    struct steno_map map;
    if (steno_map_open(&map, path, NULL))
        return STENO_GGML_NONE;
    kind = steno_ggml_kind_of(map.p, map.n);
    steno_map_close(&map);
    return kind;
}
