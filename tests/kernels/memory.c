#include "tests/kernels/kcheck.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CANARY = 64 }; /* floats before the array */
static const uint32_t canary_bits = 0x5a5a1234;

struct head { /* at the beginning of the mapping */
    size_t mapped;
};

static size_t page(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* [head ... canary | n floats][inaccessible page] */
float *guard_new(size_t n)
{
    size_t body = sizeof(struct head) + (CANARY + n) * sizeof(float);
    size_t mapped = (body + page() - 1) / page() * page() + page();
    char *base = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    float *p;
    if (base == MAP_FAILED || mprotect(base + mapped - page(), page(), PROT_NONE)) {
        perror("kcheck: mmap");
        exit(2);
    }
    ((struct head *)(void *)base)->mapped = mapped;
    p = (float *)(void *)(base + mapped - page()) - n;
    for (size_t i = 1; i <= CANARY; i++)
        memcpy(p - i, &canary_bits, sizeof canary_bits);
    return p;
}

void guard_free(float *p)
{
    char *base;
    struct head *h;
    for (size_t i = 1; i <= CANARY; i++)
        if (memcmp(p - i, &canary_bits, sizeof canary_bits)) {
            test_fail("wrote %zu floats in front of an array", i);
            break;
        }
    /* The head is at the beginning of the mapping that contains the canary. */
    base = (char *)((uintptr_t)(p - CANARY) / page() * page());
    h = (struct head *)(void *)base;
    if ((char *)(p - CANARY) - base < (ptrdiff_t)sizeof *h)
        h = (struct head *)(void *)(base - page());
    munmap(h, h->mapped);
}

/* splitmix64 (Steele, Lea, Flood 2014): the same numbers in every run. */
uint64_t random_bits(void)
{
    static uint64_t state;
    uint64_t z = (state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

size_t random_below(size_t n)
{
    return n ? (size_t)(random_bits() % n) : 0;
}

void fill_uniform(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(int64_t)(random_bits() >> 39) / 16777216.0f - 1.0f;
}

void fill_wild(float *x, size_t n)
{
    static const float special[] = {0.0f, -0.0f,  1.0f,    -1.0f,   INFINITY, -INFINITY,
                                    NAN,  1e-40f, -1e-44f, 3.4e38f, -3.4e38f, 88.8f};
    fill_uniform(x, n);
    for (size_t i = 0; i < n; i++) {
        uint64_t r = random_bits();
        if (r % 7 == 0)
            x[i] = special[(r >> 8) % (sizeof special / sizeof *special)];
        else
            x[i] = ldexpf(x[i], (int)((r >> 8) % 40) - 20);
    }
}

double ulp_error(float got, double want)
{
    int e;
    double ulp;
    if (isnan(got) || isnan(want))
        return isnan(got) && isnan(want) ? 0 : INFINITY;
    if (isinf(got) && fabs(want) > 3.4028235677973366e38) /* rounds to infinity */
        return (got > 0) == (want > 0) ? 0 : INFINITY;
    if (isinf(got) || isinf(want))
        return INFINITY;
    frexp(want, &e);
    ulp = ldexp(1.0, (e < -125 ? -125 : e) - 24);
    return fabs((double)got - want) / ulp;
}

bool close_to(float got, double want, double bound)
{
    if (isnan(got) || isnan(want))
        return isnan(got) && isnan(want);
    if (isinf(got) || isinf(want))
        return (double)got == want || ((double)got > 3.4e38 && want > 3.4e38) ||
               ((double)got < -3.4e38 && want < -3.4e38);
    return fabs((double)got - want) <= bound;
}

double largest_magnitude(const float *x, size_t step, size_t n)
{
    double top = 0;
    for (size_t i = 0; i < n; i++) {
        const double v = fabs((double)x[i * step]);
        top = v > top ? v : top; /* fmax is a call */
    }
    return top;
}
