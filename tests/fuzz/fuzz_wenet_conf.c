/* train.yaml and global_cmvn of WeNet: any bytes become a configuration or statistics, or are
 * refused; what is accepted keeps its bounds. */
/* covers: engine/tools/convert/wenet_conf.c engine/tools/convert/wenet_cmvn.c */
/* covers: engine/tools/convert/conf.c */
#include <math.h>
#include <stdlib.h>

#include "tools/convert/wenet_conf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_conf(const uint8_t *data, size_t n)
{
    struct steno_wenet_arch a;
    struct steno_wenet_conf c;
    steno_yaml *y = NULL;
    if (steno_yaml_parse(&y, data, n, "fuzz", NULL))
        return;
    if (!steno_wenet_conf_read(y, &a, &c, NULL) &&
        (a.d % a.heads || a.d % a.dec_heads || a.blocks < 1 || a.blocks > STENO_WENET_MAX_BLOCKS ||
         a.in != 80 || a.kernel < 1 || !a.activation || !a.input_layer ||
         steno_wenet_subsampling(&a) < 1 || steno_wenet_conv_cache(&a) < 0 ||
         (c.static_chunk && !c.chunks && !a.conv)))
        abort();
    steno_yaml_close(y);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const size_t bands[] = {2, 80};
    float mean[80], istd[80];
    check_conf(data, n);
    for (size_t i = 0; i < 2; i++)
        for (size_t k = 0;
             !steno_wenet_cmvn_parse(data, n, "fuzz", bands[i], mean, istd, NULL) && k < bands[i];
             k++)
            if (!(istd[k] > 0) || !isfinite(istd[k]) || !isfinite(mean[k]))
                abort();
    return 0;
}
