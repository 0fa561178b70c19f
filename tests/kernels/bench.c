#include "tests/kernels/kcheck.h"
int run_benchmarks(const char *only)
{
    (void)only;
    return 0;
}
