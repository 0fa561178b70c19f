/* Letters of ASCII, whatever the locale; all other bytes are none, and stay as they are. */
#ifndef STENO_BASE_ASCII_H
#define STENO_BASE_ASCII_H

#include <stdbool.h>

static inline bool steno_is_small(char c)
{
    return c >= 'a' && c <= 'z';
}

static inline bool steno_is_capital(char c)
{
    return c >= 'A' && c <= 'Z';
}

static inline char steno_to_small(char c)
{
    return steno_is_capital(c) ? (char)(c + ('a' - 'A')) : c;
}

static inline char steno_to_capital(char c)
{
    return steno_is_small(c) ? (char)(c - ('a' - 'A')) : c;
}

#endif
