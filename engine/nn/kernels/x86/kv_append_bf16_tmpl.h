/* Append keys and values of attention to a bf16 KV page, in the layout of packing all of them at
 * once (kernels.h: kv_append_bf16). Included after vec_avx512.h with
 *   KV_PAGE_DEPTH(size)   pairs that a panel has for keys of that many numbers */

/* Store a key. Its pairs are a panel's row apart. to: its column. */
static void append_key(uint32_t *to, size_t size, const float *k)
{
    enum { WIDE = 2 * VL };
    const __m512i row =
        _mm512_mullo_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
                           _mm512_set1_epi32(WIDE));
    const size_t depth = KV_PAGE_DEPTH(size);
    for (size_t c = 0; c < size; c += WIDE, to += VL * WIDE) {
        const size_t some = size - c, lanes = depth - c / 2;
        const vm low = v_tail(some < VL ? some : VL), high = v_tail(some < VL     ? 0
                                                                    : some < WIDE ? some - VL
                                                                                  : VL);
        const __m512i pairs =
            (__m512i)_mm512_cvtne2ps_pbh(v_load_m(k + c + VL, high), v_load_m(k + c, low));
        _mm512_mask_i32scatter_epi32(to, v_tail(lanes < VL ? lanes : VL), row, pairs, 4);
    }
}

/* Store a value. The numbers of two consecutive values are interleaved; `odd`: this is the second
 * one. */
static void append_value(char *to, size_t v_size, bool odd, const float *v)
{
    enum { WIDE = 2 * VL };
    const __mmask32 half = odd ? 0xaaaaaaaa : 0x55555555;
    const size_t panel = STENO_KV_PAGE_KEYS / 2 * WIDE * 4;
    for (size_t c = 0; c < v_size; c += VL) {
        const vm m = v_tail(v_size - c < VL ? v_size - c : VL);
        const __m512i x = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(v_load_m(v + c, m)));
        _mm512_mask_storeu_epi16(to + c / WIDE * panel + c % WIDE * 4, half,
                                 odd ? _mm512_slli_epi32(x, 16) : x);
    }
}

static void kv_append_bf16(void *page, size_t size, size_t v_size, size_t at, size_t n,
                           const float *k, size_t ldk, const float *v, size_t ldv)
{
    enum { WIDE = 2 * VL };
    const size_t panel = KV_PAGE_DEPTH(size) * WIDE; /* pairs */
    uint32_t *keys = page;
    char *values = (char *)(keys + STENO_KV_PAGE_KEYS / WIDE * panel);
    for (size_t i = 0; i < n; i++) {
        const size_t to = at + i;
        append_key(keys + to / WIDE * panel + to % WIDE, size, k + i * ldk);
        append_value(values + to / 2 * WIDE * 4, v_size, to & 1, v + i * ldv);
    }
}
