/* Reads a socket to its end. */
#ifndef STENO_TEST_READ_ALL_H
#define STENO_TEST_READ_ALL_H

#include <stddef.h>

/* Read until the other end closes or is silent for a minute. The text is cut at size - 1 bytes. */
void read_all(int fd, char *out, size_t size);

#endif
