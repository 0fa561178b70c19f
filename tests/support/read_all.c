#include "tests/support/read_all.h"

#include <poll.h>
#include <sys/types.h>
#include <unistd.h>

void read_all(int fd, char *out, size_t size)
{
    size_t n = 0;
    struct pollfd p = {fd, POLLIN, 0};
    while (n + 1 < size && poll(&p, 1, 60000) == 1) {
        ssize_t k = read(fd, out + n, size - 1 - n);
        if (k <= 0)
            break;
        n += (size_t)k;
    }
    out[n] = '\0';
}
