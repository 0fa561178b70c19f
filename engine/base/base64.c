#include "base/base64.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Values plus 1; 0: no digit. */
static const unsigned char value[256] = {
    ['A'] = 1,  ['B'] = 2,  ['C'] = 3,  ['D'] = 4,  ['E'] = 5,  ['F'] = 6,  ['G'] = 7,  ['H'] = 8,
    ['I'] = 9,  ['J'] = 10, ['K'] = 11, ['L'] = 12, ['M'] = 13, ['N'] = 14, ['O'] = 15, ['P'] = 16,
    ['Q'] = 17, ['R'] = 18, ['S'] = 19, ['T'] = 20, ['U'] = 21, ['V'] = 22, ['W'] = 23, ['X'] = 24,
    ['Y'] = 25, ['Z'] = 26, ['a'] = 27, ['b'] = 28, ['c'] = 29, ['d'] = 30, ['e'] = 31, ['f'] = 32,
    ['g'] = 33, ['h'] = 34, ['i'] = 35, ['j'] = 36, ['k'] = 37, ['l'] = 38, ['m'] = 39, ['n'] = 40,
    ['o'] = 41, ['p'] = 42, ['q'] = 43, ['r'] = 44, ['s'] = 45, ['t'] = 46, ['u'] = 47, ['v'] = 48,
    ['w'] = 49, ['x'] = 50, ['y'] = 51, ['z'] = 52, ['0'] = 53, ['1'] = 54, ['2'] = 55, ['3'] = 56,
    ['4'] = 57, ['5'] = 58, ['6'] = 59, ['7'] = 60, ['8'] = 61, ['9'] = 62, ['+'] = 63, ['/'] = 64};

/* Characters before the padding. */
static size_t unpadded(const char *s, size_t n)
{
    if (!n || n % 4 || s[n - 1] != '=')
        return n;
    return s[n - 2] == '=' ? n - 2 : n - 1;
}

size_t steno_base64_decode(const char *s, size_t n, void *out, size_t *len)
{
    const size_t end = unpadded(s, n);
    unsigned char *p = out;
    uint32_t bits = 0;
    *len = 0;
    for (size_t i = 0; i < end; i++) {
        const unsigned v = value[(unsigned char)s[i]];
        if (!v)
            return i;
        bits = bits << 6 | (v - 1);
        if (i % 4)
            p[(*len)++] = (unsigned char)(bits >> (6 - i % 4 * 2));
    }
    return end % 4 == 1 ? n - 1 : n;
}

steno_status steno_base64_put(struct steno_buf *b, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    steno_status st = STENO_OK;
    for (size_t i = 0; i < n && !st; i += 3) {
        const uint32_t bits = (uint32_t)p[i] << 16 | (i + 1 < n ? (uint32_t)p[i + 1] << 8 : 0) |
                              (i + 2 < n ? p[i + 2] : 0u);
        const char four[] = {digits[bits >> 18], digits[bits >> 12 & 63],
                             i + 1 < n ? digits[bits >> 6 & 63] : '=',
                             i + 2 < n ? digits[bits & 63] : '='};
        st = steno_buf_add(b, four, sizeof four);
    }
    return st;
}
