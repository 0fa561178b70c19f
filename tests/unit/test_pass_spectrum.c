/* A Fourier transform that a file expresses as a convolution, and near misses. */

#include "tests/support/pass_check.h"
#include "tests/support/test.h"

#include <math.h>
#include <string.h>

enum { N = 64, BINS = N / 2 + 1 };

static float basis[2 * BINS * N];

/* The basis under an asymmetric window. sign: of the sines, as in a forward transform or not. */
static void make_basis(float sign)
{
    for (int k = 0; k < 2 * BINS; k++)
        for (int i = 0; i < N; i++) {
            double a = 2 * 3.14159265358979323846 * (k % BINS * i % N) / N, v = 0.2 + sin(0.04 * i);
            basis[k * N + i] = (float)(v * (k < BINS ? cos(a) : (double)sign * sin(a)));
        }
}

static void check(const char *dims, const char *text, bool hits, int left)
{
    struct mk_graph *m = pc_start(13, dims);
    mk_f32(m, "w", "66,1,64", basis, sizeof basis / sizeof *basis);
    pc_graph(m, "two = 2; three = 3; n0 = [0]; n1 = [1]; n32 = [32]; n33 = [33]; n34 = [34];"
                "big = [9223372036854775807]; bias : 66");
    pc_graph(m, text);
    pc_graph(m, "-> y");
    pc_check(m, "spectrum", hits, left, 2e-5f);
}

#define HALVES "Slice c,n0,n33,n1,n1 re; Slice c,n33,big,n1,n1 im;"
#define SQUARES "Pow re,two a; Pow im,two b; Add a,b p;"

static void transform_is_found(void **state)
{
    (void)state;
    make_basis(-1);
    check("2,1,200", "Conv x,w c strides=[16];" HALVES SQUARES "Sqrt p y", true, 1);
    check("1,1,64", "Conv x,w c strides=[16];" HALVES SQUARES "Tanh p y", true, 2);
    make_basis(1);
    check("n,1,100", "Conv x,w c;" HALVES "Mul re,re a; Mul im,im b; Add b,a p; Sqrt p y", true, 1);
}

static void near_misses_of_a_transform_stay(void **state)
{
    (void)state;
    make_basis(-1);
    check("1,1,100", "Conv x,w,bias c strides=[16];" HALVES SQUARES "Sqrt p y", false, 7);
    check("1,1,100", "Conv x,w c strides=[16] pads=[3,3];" HALVES SQUARES "Sqrt p y", false, 7);
    check("1,1,200", "Conv x,w c strides=[16] dilations=[2];" HALVES SQUARES "Sqrt p y", false, 7);
    check("1,1,100", "Conv x,w c;" HALVES "Pow re,two a; Pow im,three b; Add a,b p; Sqrt p y",
          false, 7);
    check("1,1,100", "Conv x,w c;" HALVES SQUARES "Sqrt p y; -> re", false, 7);
    check("1,1,100",
          "Conv x,w c; Slice c,n0,n32,n1,n1 re; Slice c,n34,big,n1,n1 im;" SQUARES "Sqrt p y",
          false, 7);
    basis[BINS * N + N + 5] *= 1.001f;
    check("1,1,100", "Conv x,w c;" HALVES SQUARES "Sqrt p y", false, 7);
    make_basis(-1);
    basis[70] += 1e-4f;
    check("1,1,100", "Conv x,w c;" HALVES SQUARES "Sqrt p y", false, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transform_is_found),
        cmocka_unit_test(near_misses_of_a_transform_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
