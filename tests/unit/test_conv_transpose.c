/* ConvTranspose in f32, a product and a scattered sum, against the loops in f64. */

#include "tests/support/pass_check.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void same_in_both(const char *dims, const char *weights, bool bias, const char *attributes)
{
    struct mk_graph *m = pc_start(13, dims);
    char text[512];
    uint8_t *file;
    size_t size;
    steno_network *n;
    steno_session *s;
    const struct steno_tensor *a, *b;
    snprintf(
        text, sizeof text,
        "w : %s; b : 4; Cast x x64 to=11; Cast w w64 to=11; Cast b b64 to=11;"
        "ConvTranspose x,w%s y %s; ConvTranspose x64,w64%s y64 %s; Cast y64 z to=1; -> y; -> z",
        weights, bias ? ",b" : "", attributes, bias ? ",b64" : "", attributes);
    pc.context = text;
    pc_graph(m, text);
    file = mk_bytes(m, &size);
    mk_free(m);
    n = pc_open(file, size, 0, NULL, NULL);
    s = pc_run(n);
    a = steno_session_get(s, 0);
    b = steno_session_get(s, 1);
    assert_true(steno_shape_equal(&a->shape, &b->shape));
    assert_true(steno_numel(a) > 0);
    for (size_t i = 0; i < steno_numel(a); i++) {
        const float got = ((const float *)a->data)[i], want = ((const float *)b->data)[i];
        if (!(fabsf(got - want) <= 1e-5f))
            fail_msg("%s: element %zu is %g, not %g", text, i, (double)got, (double)want);
    }
    steno_session_close(s);
    steno_network_close(n);
    free(file);
    pc.context = NULL;
}

static void images(void **state)
{
    (void)state;
    same_in_both("2,3,5,7", "3,4,2,2", true, "strides=[2,2]");
    same_in_both("1,3,5,7", "3,4,3,3", false, "strides=[1,1] pads=[1,1,1,1]");
    same_in_both("1,3,5,7", "3,4,4,3", true, "strides=[2,3] pads=[1,0,2,1]");
    same_in_both("1,3,5,7", "3,4,3,2", true, "strides=[3,1] dilations=[2,3]");
    same_in_both("2,4,5,6", "4,2,3,3", true, "group=2 strides=[2,2] output_padding=[1,1]");
    same_in_both("1,4,3,3", "4,1,2,2", true, "group=4 strides=[3,3] output_padding=[1,0]");
    same_in_both("1,2,4,4", "2,4,5,5", true, "pads=[3,3,3,3]"); /* most taps fall outside */
}

static void signals(void **state)
{
    (void)state;
    same_in_both("2,3,9", "3,4,4", true, "strides=[2] pads=[1,1]");
    same_in_both("1,3,1", "3,4,7", false, "strides=[5]");
    same_in_both("1,2,300", "2,4,16", true, "strides=[8] pads=[4,4]"); /* several blocks */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images),
        cmocka_unit_test(signals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
