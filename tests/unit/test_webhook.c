/* Webhooks: the signature, and the delays between tries. */
/* link: server/http/webhook.c */
/* link: server/http/fetch.c */
/* link: engine/curl/libcurl.c server/watch/trace.c server/watch/traceparent.c */
/* link: server/core/config.c */
/* link: server/port/address.c server/port/proxy.c */
/* link: server/core/limits.c server/port/retry_spreader.c server/base/stats.c */
/* link: server/base/metrics.c server/base/log.c */
#include <string.h>

#include "server/http/webhook.h"
#include "tests/support/test.h"

static void a_body_is_signed_with_its_time(void **state)
{
    char out[STENO_SIGNATURE];
    (void)state;
    /* python3 -c 'import hmac; print(hmac.new(b"key", b"1700000000.{\"a\":1}",
     * "sha256").hexdigest())' */
    assert_int_equal(steno_webhook_sign(out, "key", 3, 1700000000, "{\"a\":1}", 7), STENO_OK);
    assert_string_equal(
        out, "t=1700000000,v1=a438e398bfafc57e4396bb7fc2304422f0f768e965d073ca313cb52e22e6ad03");
    assert_int_equal(steno_webhook_sign(out, "key", 3, 1, "", 0), STENO_OK);
    assert_string_equal(out,
                        "t=1,v1=53123bc365c2fe4bee48bc5cc6cd6c19699147d43513154ed34277c7c063e80f");
}

static void delays_double_up_to_an_hour(void **state)
{
    static const int64_t want[] = {5000,   10000,  20000,   40000,   80000,   160000,
                                   320000, 640000, 1280000, 2560000, 3600000, 3600000};
    (void)state;
    for (int i = 0; i < 12; i++)
        assert_int_equal(steno_webhook_retry_delay(5000, i + 1), want[i]);
    assert_int_equal(steno_webhook_retry_delay(5000, 1000000), 3600000);
    assert_int_equal(steno_webhook_retry_delay(3600000, 2), 3600000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_is_signed_with_its_time),
        cmocka_unit_test(delays_double_up_to_an_hour),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
