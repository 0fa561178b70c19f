/* Hexadecimal digits. */
#ifndef STENO_BASE_HEX_H
#define STENO_BASE_HEX_H

/* The value of a digit in either case, or -1. */
static inline int steno_hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

#endif
