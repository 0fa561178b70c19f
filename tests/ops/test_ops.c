/* Every operator family against small node tests of the ONNX project (cases.txt, written by
 * make_cases.py), in three ways: inputs fed at run time on the scalar level and on the best
 * level, and all inputs but the first built into the model, so that weights are packed and
 * constants folded. Then the attempts of a hostile model: each case must be refused with a
 * message or give the defined result. */

#include "nn/network/network.h"
#include "nn/ops/internal.h"
#include "nn/rare_ops/rare_ops.h"
#include "tests/support/onnx_make.h"
#include "tests/support/shared.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_TENSORS 16

struct tensors {
    int n;
    bool present[MAX_TENSORS];
    struct steno_tensor t[MAX_TENSORS];
};

struct op_case {
    const char *name, *domain, *op, *opset, *attrs, *in,
        *out; /* out: "!text" means refused with this text */
};

/* ---- reading ---- */

static steno_dtype dtype_of(const char *s, size_t n)
{
    for (int t = 1; t <= STENO_BF16; t++)
        if (strlen(steno_dtype_name((steno_dtype)t)) == n &&
            !strncmp(steno_dtype_name((steno_dtype)t), s, n))
            return (steno_dtype)t;
    fail_msg("type '%.*s'", (int)n, s);
    return STENO_DT_NONE;
}

static void put(struct steno_tensor *t, size_t i, const char *number)
{
    char *to = (char *)t->data + i * steno_dtype_size(t->dtype);
    if (steno_ops_is_float(t->dtype)) {
        double d = strtod(number, NULL);
        steno_ops_store_f64(to, t->dtype, &d, 1);
    } else {
        uint64_t v =
            *number == '-' ? (uint64_t)strtoll(number, NULL, 10) : strtoull(number, NULL, 10);
        memcpy(to, &v, steno_dtype_size(t->dtype));
    }
}

/* "f32[2,3]:1 2 3 4 5 6" */
static void read_tensor(const char *s, struct steno_tensor *t)
{
    const char *open = strchr(s, '['), *p = open + 1;
    size_t n = 1;
    assert_non_null(open);
    t->dtype = dtype_of(s, (size_t)(open - s));
    t->shape.rank = 0;
    while (*p != ']') {
        char *end;
        int64_t d = strtoll(p, &end, 10);
        t->shape.dim[t->shape.rank++] = d;
        n *= (size_t)d;
        p = *end == ',' ? end + 1 : end;
    }
    t->data = steno_aligned_alloc(n * steno_dtype_size(t->dtype));
    assert_non_null(t->data);
    p += 2;
    for (size_t i = 0; i < n; i++) {
        p += strspn(p, " ");
        put(t, i, p);
        p += strcspn(p, " ;");
    }
}

/* Separated by ';'; "-" is an absent tensor. */
static void read_tensors(const char *s, struct tensors *v)
{
    memset(v, 0, sizeof *v);
    while (*s) {
        assert_in_range(v->n, 0, MAX_TENSORS - 1);
        v->present[v->n] = *s != '-';
        if (v->present[v->n])
            read_tensor(s, &v->t[v->n]);
        v->n++;
        s += strcspn(s, ";");
        s += *s == ';';
    }
}

static void free_tensors(struct tensors *v)
{
    for (int i = 0; i < v->n; i++)
        steno_aligned_free(v->t[i].data);
}

/* ---- the model ---- */

static void dims_text(const struct steno_shape *s, char *out, size_t size)
{
    size_t at = 0;
    *out = 0;
    for (int i = 0; i < s->rank; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%lld", i ? "," : "", (long long)s->dim[i]);
}

/* "axis=i:1;mode=s:reflect;pads=I:1,1;alpha=f:0.5" */
static void add_attributes(struct mk_graph *g, const char *s)
{
    char buf[512], *save = NULL;
    snprintf(buf, sizeof buf, "%s", s);
    for (char *a = strtok_r(buf, ";", &save); a; a = strtok_r(NULL, ";", &save)) {
        char *kind = strchr(a, '='), *v = kind + 3;
        int64_t ints[16];
        size_t n = 0;
        *kind++ = 0;
        switch (*kind) {
        case 'i':
            mk_attr_int(g, a, strtoll(v, NULL, 10));
            break;
        case 'f':
            mk_attr_float(g, a, strtof(v, NULL));
            break;
        case 's':
            mk_attr_str(g, a, v);
            break;
        default:
            for (char *p = v; *p && n < 16; p += *p == ',')
                ints[n++] = strtoll(p, &p, 10);
            mk_attr_ints(g, a, ints, n);
            break;
        }
    }
}

static void add_constant(struct mk_graph *g, const char *name, const char *dims,
                         const struct steno_tensor *t)
{
    Onnx__Tensor *m = mk_tensor(g, name, t->dtype, dims);
    m->raw_data.len = steno_numel(t) * steno_dtype_size(t->dtype);
    m->raw_data.data = t->data;
}

/* One node. The inputs from `first_const` on are initializers. */
static struct mk_graph *make_model(const struct op_case *c, const struct tensors *in, int n_out,
                                   int first_const, Onnx__Node **node)
{
    struct mk_graph *g = mk_new(atoi(c->opset));
    char names_in[256] = "", names_out[256] = "", dims[128], name[16], op[64];
    for (int i = 0; i < in->n; i++) {
        snprintf(name, sizeof name, "x%d", i);
        strcat(names_in, i ? "," : "");
        if (!in->present[i])
            continue;
        strcat(names_in, name);
        dims_text(&in->t[i].shape, dims, sizeof dims);
        if (i >= first_const)
            add_constant(g, name, dims, &in->t[i]);
        else
            mk_input(g, name, in->t[i].dtype, NULL);
    }
    for (int i = 0; i < n_out; i++) {
        snprintf(name, sizeof name, "y%d", i);
        strcat(names_out, i ? "," : "");
        strcat(names_out, name);
        mk_output(g, name, STENO_DT_NONE, NULL);
    }
    snprintf(op, sizeof op, "%s%s%s", c->domain, *c->domain ? ":" : "", c->op);
    if (*c->domain)
        mk_import(g, c->domain, 1);
    *node = mk_node(g, op, names_in, names_out);
    add_attributes(g, c->attrs);
    return g;
}

static char *write_model(const struct op_case *c, const struct tensors *in, int n_out,
                         int first_const)
{
    Onnx__Node *node;
    struct mk_graph *g = make_model(c, in, n_out, first_const, &node);
    char *path = mk_file(g);
    mk_free(g);
    return path;
}

/* ---- running ---- */

static double tolerance(steno_dtype t)
{
    return t == STENO_F16 ? 2e-3 : t == STENO_BF16 ? 1e-2 : t == STENO_F64 ? 1e-7 : 1e-5;
}

static void compare(const struct op_case *c, int i, const struct steno_tensor *got,
                    const struct steno_tensor *want)
{
    char a[64], b[64];
    double tol = tolerance(want->dtype);
    if (got->dtype != want->dtype || !steno_shape_equal(&got->shape, &want->shape))
        fail_msg("%s: output %d is %s%s, expected %s%s", c->name, i, steno_dtype_name(got->dtype),
                 steno_shape_str(&got->shape, a, sizeof a), steno_dtype_name(want->dtype),
                 steno_shape_str(&want->shape, b, sizeof b));
    for (size_t k = 0; k < steno_numel(want); k++) {
        double g = steno_ops_get_f64(got, k), w = steno_ops_get_f64(want, k);
        bool same = isnan(w) ? isnan(g) : g == w || fabs(g - w) <= tol * (fabs(w) + 0.1);
        if (!steno_ops_is_float(want->dtype))
            same = steno_ops_get_i64(got, k) == steno_ops_get_i64(want, k);
        if (!same)
            fail_msg("%s: output %d[%zu] is %.9g, expected %.9g", c->name, i, k, g, w);
    }
}

static steno_status feed_and_run(steno_network *net, const struct tensors *in, steno_session **out,
                                 steno_err *err)
{
    steno_status st = steno_session_open(out, net, NULL, err);
    for (int i = 0; i < in->n && !st; i++) {
        char name[16];
        int at;
        snprintf(name, sizeof name, "x%d", i);
        at = steno_network_find_input(net, name);
        if (at >= 0)
            st = steno_session_set(*out, at, &in->t[i], err);
    }
    return st ? st : steno_session_run(*out, err);
}

static void run_once(const struct op_case *c, int first_const, const char *cpu)
{
    struct steno_network_options opt = {.opt_level = 3, .cpu = cpu, .borrow_from = 1};
    bool refuse = c->out[0] == '!';
    steno_network *net = NULL;
    steno_session *s = NULL;
    struct tensors in, want = {0};
    steno_err err = {0};
    steno_status st;
    char *path;
    read_tensors(c->in, &in);
    if (!refuse)
        read_tensors(c->out, &want);
    path = write_model(c, &in, refuse ? 1 : want.n, first_const);
    st = steno_network_open(&net, path, &opt, &err);
    if (!st)
        st = feed_and_run(net, &in, &s, &err);
    if (refuse) {
        if (!st)
            fail_msg("%s: accepted", c->name);
        if (!strstr(err.msg, c->out + 1))
            fail_msg("%s: '%s' is not in '%s'", c->name, c->out + 1, err.msg);
    } else {
        if (st)
            fail_msg("%s: %s", c->name, err.msg);
        for (int i = 0; i < want.n; i++)
            compare(c, i, steno_session_get(s, i), &want.t[i]);
    }
    steno_session_close(s);
    steno_network_close(net);
    mk_unlink(path);
    free_tensors(&in);
    free_tensors(&want);
}

static void runs_like_the_standard(void **state)
{
    const struct op_case *c = *state;
    run_once(c, MAX_TENSORS, "scalar");
    run_once(c, MAX_TENSORS, NULL);
    run_once(c, 1, NULL);
}

/* ---- hostile ---- the node's message must name the fault; no case may end the process */
static const struct op_case hostile[] = {
    {"gather_index_past_the_end", "", "Gather", "13", "", "f32[2]:1 2;i64[1]:2", "!outside [-2,2)"},
    {"gather_index_far_below", "", "Gather", "13", "", "f32[2]:1 2;i64[1]:-9223372036854775808",
     "!outside"},
    {"gather_axis_out_of_range", "", "Gather", "13", "axis=i:1", "f32[2]:1 2;i64[1]:0", "!axis"},
    {"gather_of_a_scalar", "", "Gather", "13", "", "f32[]:1;i64[1]:0", "!axis"},
    {"gather_elements_past_the_end", "", "GatherElements", "13", "", "f32[2]:1 2;i64[1]:5",
     "!outside"},
    {"gather_nd_tuple_out_of_range", "", "GatherND", "13", "", "f32[2,2]:1 2 3 4;i64[1,2]:0 7",
     "!out of range"},
    {"gather_nd_tuple_too_long", "", "GatherND", "13", "", "f32[2]:1 2;i64[1,2]:0 0",
     "!last dimension"},
    {"scatter_nd_out_of_range", "", "ScatterND", "18", "", "f32[2]:1 2;i64[1,1]:9;f32[1]:3",
     "!out of range"},
    {"scatter_elements_out_of_range", "", "ScatterElements", "18", "",
     "f32[2]:1 2;i64[1]:-3;f32[1]:3", "!outside"},
    {"reshape_to_another_size", "", "Reshape", "13", "", "f32[4]:1 2 3 4;i64[1]:3", "!differs"},
    {"reshape_with_two_holes", "", "Reshape", "13", "", "f32[4]:1 2 3 4;i64[2]:-1 -1",
     "!more than one"},
    {"reshape_below_minus_one", "", "Reshape", "13", "", "f32[4]:1 2 3 4;i64[1]:-7", "!below -1"},
    {"reshape_size_overflows", "", "Reshape", "13", "",
     "f32[4]:1 2 3 4;i64[3]:4611686018427387904 4611686018427387904 16", "!overflows"},
    {"reshape_rank_too_high", "", "Reshape", "13", "", "f32[1]:1;i64[11]:1 1 1 1 1 1 1 1 1 1 1",
     "!most 10"},
    {"squeeze_of_a_long_axis", "", "Squeeze", "13", "", "f32[2]:1 2;i64[1]:0",
     "!not have length 1"},
    {"unsqueeze_repeats_an_axis", "", "Unsqueeze", "13", "", "f32[2]:1 2;i64[2]:0 0", "!repeated"},
    {"expand_that_does_not_broadcast", "", "Expand", "13", "", "f32[3]:1 2 3;i64[1]:2", "!"},
    {"expand_to_a_negative_dim", "", "Expand", "13", "", "f32[1]:1;i64[1]:-2", "!"},
    {"expand_beyond_memory", "", "Expand", "13", "",
     "f32[1]:1;i64[3]:2147483648 2147483648 2147483648", "!"},
    {"constant_of_negative_shape", "", "ConstantOfShape", "9", "", "i64[1]:-1", "!negative"},
    {"constant_of_a_shape_beyond_memory", "", "ConstantOfShape", "9", "",
     "i64[2]:4611686018427387904 8", "!"},
    {"range_without_a_step", "", "Range", "11", "", "i64[]:0;i64[]:5;i64[]:0", "!step is 0"},
    {"range_beyond_counting", "", "Range", "11", "", "f32[]:0;f32[]:inf;f32[]:1", "!no end"},
    {"transpose_repeats_an_axis", "", "Transpose", "13", "perm=I:0,0", "f32[1,2]:1 2",
     "!permutation"},
    {"transpose_axis_out_of_range", "", "Transpose", "13", "perm=I:0,7", "f32[1,2]:1 2",
     "!permutation"},
    {"concat_of_unequal_shapes", "", "Concat", "13", "axis=i:0", "f32[1,2]:1 2;f32[1,3]:1 2 3",
     "!"},
    {"split_that_does_not_add_up", "", "Split", "13", "", "f32[2]:1 2;i64[1]:3", "!add up"},
    {"split_with_a_negative_part", "", "Split", "13", "", "f32[2]:1 2;i64[1]:-2", "!add up"},
    {"slice_with_step_zero", "", "Slice", "13", "",
     "f32[2]:1 2;i64[1]:0;i64[1]:2;i64[1]:0;i64[1]:0", "!step is 0"},
    {"slice_with_the_smallest_step", "", "Slice", "13", "",
     "f32[2]:1 2;i64[1]:0;i64[1]:2;i64[1]:0;i64[1]:-9223372036854775808", "!too large"},
    {"slice_axis_out_of_range", "", "Slice", "13", "", "f32[2]:1 2;i64[1]:0;i64[1]:2;i64[1]:3",
     "!axis"},
    {"tile_negative", "", "Tile", "13", "", "f32[1]:1;i64[1]:-1", "!out of range"},
    {"tile_beyond_memory", "", "Tile", "13", "", "f32[2]:1 2;i64[1]:4611686018427387904", "!"},
    {"pad_to_a_negative_length", "", "Pad", "13", "", "f32[2]:1 2;i64[2]:-2 -2", "!negative"},
    {"pad_reflect_cut_before", "", "Pad", "13", "mode=s:reflect",
     "f32[2,4]:1 2 3 4 5 6 7 8;i64[4]:0 -1 1 5",
     "f32[3,8]:2 3 4 3 2 1 2 3 6 7 8 7 6 5 6 7 2 3 4 3 2 1 2 3"},
    {"pad_reflect_cut_behind", "", "Pad", "13", "mode=s:reflect", "f32[4]:1 2 3 4;i64[2]:2 -3",
     "f32[3]:3 2 1"},
    {"pad_edge_only_before", "", "Pad", "13", "mode=s:edge", "f32[2]:1 2;i64[2]:3 -2",
     "f32[3]:1 1 1"},
    {"pad_wrap_all_repeated", "", "Pad", "19", "mode=s:wrap", "f32[2]:1 2;i64[2]:5 -4",
     "f32[3]:2 1 2"},
    {"pad_reflect_of_nothing", "", "Pad", "13", "mode=s:reflect", "f32[0]:;i64[2]:1 1", "!empty"},
    {"pad_with_too_few_numbers", "", "Pad", "13", "", "f32[2]:1 2;i64[1]:1", "!two numbers"},
    {"reduce_axis_out_of_range", "", "ReduceSum", "13", "", "f32[2]:1 2;i64[1]:-3", "!axis"},
    {"argmax_of_an_empty_axis", "", "ArgMax", "13", "axis=i:1", "f32[2,0]:", "!empty"},
    {"softmax_axis_out_of_range", "", "Softmax", "13", "axis=i:2", "f32[2]:1 2", "!axis"},
    {"topk_more_than_there_is", "", "TopK", "11", "", "f32[2]:1 2;i64[1]:3", "!K is 3"},
    {"onehot_negative_depth", "", "OneHot", "11", "", "i64[1]:0;i64[]:-1;f32[2]:0 1", "!depth"},
    {"matmul_inner_dims_differ", "", "MatMul", "13", "", "f32[1,2]:1 2;f32[3,1]:1 2 3",
     "!inner dim"},
    {"matmul_of_a_scalar", "", "MatMul", "13", "", "f32[]:1;f32[1]:1", "!rank 0"},
    {"gemm_of_rank_three", "", "Gemm", "13", "", "f32[1,1,1]:1;f32[1,1]:1", "!rank 2"},
    {"add_of_two_types", "", "Add", "13", "", "f32[1]:1;i64[1]:1", "!f32"},
    {"add_that_does_not_broadcast", "", "Add", "13", "", "f32[2]:1 2;f32[3]:1 2 3", "!broadcast"},
    {"where_without_a_bool", "", "Where", "16", "", "f32[1]:1;f32[1]:1;f32[1]:1", "!bool"},
    {"conv_channels_differ", "", "Conv", "11", "", "f32[1,2,3]:1 2 3 4 5 6;f32[1,3,1]:1 2 3",
     "!channels"},
    {"conv_kernel_larger_than_input", "", "Conv", "11", "", "f32[1,1,2]:1 2;f32[1,1,3]:1 2 3", "!"},
    {"conv_stride_zero", "", "Conv", "11", "strides=I:0", "f32[1,1,2]:1 2;f32[1,1,1]:1", "!stride"},
    {"conv_group_zero", "", "Conv", "11", "group=i:0", "f32[1,1,2]:1 2;f32[1,1,1]:1", "!group"},
    {"maxpool_without_a_kernel", "", "MaxPool", "11", "", "f32[1,1,2]:1 2", "!kernel_shape"},
    {"lstm_weights_do_not_fit", "", "LSTM", "14", "hidden_size=i:2",
     "f32[1,1,1]:1;f32[1,4,1]:1 2 3 4;f32[1,4,1]:1 2 3 4", "!"},
    {"einsum_unreadable", "", "Einsum", "12", "equation=s:i->->", "f32[1]:1", "!equation"},
    {"einsum_dims_differ", "", "Einsum", "12", "equation=s:i,i->i", "f32[3]:1 2 3;f32[2]:1 2",
     "!differ"},
    {"dft_axis_is_the_last", "", "DFT", "17", "axis=i:1", "f32[2,1]:1 2", "!axis"},
    {"reverse_sequence_too_long", "", "ReverseSequence", "10", "", "f32[2,1]:1 2;i64[1]:3",
     "!out of range"},
    {"attention_heads_do_not_divide", "", "Attention", "23", "q_num_heads=i:2;kv_num_heads=i:1",
     "f32[1,1,3]:1 2 3;f32[1,1,3]:1 2 3;f32[1,1,3]:1 2 3", "!multiple"},
    {"rotary_position_out_of_range", "", "RotaryEmbedding", "23", "",
     "f32[1,1,1,2]:1 2;f32[1,1]:1;f32[1,1]:0;i64[1,1]:5", "!position 5"},
    {"group_query_step", "com.microsoft", "GroupQueryAttention", "1",
     "num_heads=i:1;kv_num_heads=i:1;do_rotary=i:1;scale=f:0.5;softcap=f:3",
     "f32[1,1,2]:1 0;f32[1,1,2]:0 0;f32[1,1,2]:4 8;f32[1,1,1,2]:0 0;f32[1,1,1,2]:2 4;"
     "i32[1]:1;i32[1]:2;f32[2,1]:1 1;f32[2,1]:0 0;i64[1,1]:1",
     "f32[1,1,2]:3 6;f32[1,1,2,2]:0 0 0 0;f32[1,1,2,2]:2 4 4 8"},
    {"group_query_lengths_do_not_fit", "com.microsoft", "GroupQueryAttention", "1",
     "num_heads=i:1;kv_num_heads=i:1",
     "f32[1,1,2]:1 0;f32[1,1,2]:0 0;f32[1,1,2]:4 8;f32[1,1,1,2]:0 0;f32[1,1,1,2]:2 4;"
     "i32[1]:5;i32[1]:2",
     "!seqlens_k"},
    {"group_query_position_out_of_range", "com.microsoft", "GroupQueryAttention", "1",
     "num_heads=i:1;kv_num_heads=i:1;do_rotary=i:1",
     "f32[1,1,2]:1 0;f32[1,1,2]:0 0;f32[1,1,2]:4 8;f32[1,1,1,2]:0 0;f32[1,1,1,2]:2 4;"
     "i32[1]:1;i32[1]:2;f32[1,1]:1;f32[1,1]:0",
     "!position is outside"},
    {"gather_blocks", "com.microsoft", "GatherBlockQuantized", "1", "block_size=i:16;bits=i:4",
     "u8[2,4]:137 137 137 137 0 0 0 0;i64[2]:0 -1;f32[2,1]:0.5 1;u8[2,1]:8 1",
     "f32[2,8]:0.5 0 0.5 0 0.5 0 0.5 0 -1 -1 -1 -1 -1 -1 -1 -1"},
    {"gather_blocks_row_out_of_range", "com.microsoft", "GatherBlockQuantized", "1",
     "block_size=i:16", "u8[1,8]:1 1 1 1 1 1 1 1;i64[1]:1;f32[1,1]:1", "!outside 1 rows"},
    {"quantize_by_unknown_axis", "", "QuantizeLinear", "13", "axis=i:5", "f32[1,2]:1 2;f32[2]:1 1",
     "!axis"},
    /* results that the standard leaves open and that must not trap */
    {"div_by_zero_of_integers_is_zero", "", "Div", "13", "", "i32[2]:7 -7;i32[2]:0 0",
     "i32[2]:0 0"},
    {"div_smallest_by_minus_one_wraps", "", "Div", "13", "", "i32[1]:-2147483648;i32[1]:-1",
     "i32[1]:-2147483648"},
    {"div_smallest_i64_by_minus_one_wraps", "", "Div", "13", "",
     "i64[1]:-9223372036854775808;i64[1]:-1", "i64[1]:-9223372036854775808"},
    {"mod_by_zero_of_integers_is_zero", "", "Mod", "13", "", "i64[1]:7;i64[1]:0", "i64[1]:0"},
    {"mod_smallest_by_minus_one_is_zero", "", "Mod", "13", "",
     "i64[1]:-9223372036854775808;i64[1]:-1", "i64[1]:0"},
    {"mod_unsigned_by_zero_is_zero", "", "Mod", "13", "", "u8[1]:7;u8[1]:0", "u8[1]:0"},
    {"shift_past_the_width_is_zero", "", "BitShift", "11", "direction=s:LEFT",
     "u8[1]:255;u8[1]:200", "u8[1]:0"},
    {"cast_of_infinity_saturates", "", "Cast", "13", "to=i:6", "f32[3]:inf -inf nan",
     "i32[3]:2147483647 -2147483648 0"},
    {"pow_of_zero_to_a_negative_integer", "", "Pow", "13", "", "i32[1]:0;i32[1]:-1", "i32[1]:0"},
    {"abs_of_the_smallest_integer_wraps", "", "Abs", "13", "", "i8[1]:-128", "i8[1]:-128"},
    {"softmax_of_nothing", "", "Softmax", "13", "", "f32[0,3]:", "f32[0,3]:"},
    {"matmul_of_no_inner_dim_is_zero", "", "MatMul", "13", "",
     "f32[2,0]:;f32[0,1]:", "f32[2,1]:0 0"},
    {"concat_with_an_empty_part", "", "Concat", "13", "axis=i:0", "f32[0]:;f32[2]:1 2",
     "f32[2]:1 2"},
    {"reduce_max_of_nothing_is_lowest", "", "ReduceMax", "18", "", "f32[0]:;i64[1]:0",
     "f32[1]:-inf"},
    {"slice_down_past_the_start", "", "Slice", "13", "",
     "f32[3]:1 2 3;i64[1]:-1;i64[1]:-9223372036854775808;i64[1]:0;i64[1]:-1", "f32[3]:3 2 1"},
    {"slice_end_beyond_counting", "", "Slice", "13", "",
     "f32[3]:1 2 3;i64[1]:1;i64[1]:9223372036854775807", "f32[2]:2 3"},
    {"gather_of_nothing_by_nothing", "", "Gather", "13", "", "f32[0]:;i64[0]:", "f32[0]:"},
    /* torch.stft writes a signal of rank 2, which onnxruntime takes too */
    {"stft_of_batch_and_samples", "", "STFT", "17", "",
     "f32[2,4]:1 2 3 4 5 7 2 0;i64[]:2;f32[2]:1 1",
     "f32[2,2,2,2]:3 0 -1 0 7 0 -1 0 12 0 -2 0 2 0 2 0"},
    {"stft_of_batch_samples_and_one", "", "STFT", "17", "",
     "f32[2,4,1]:1 2 3 4 5 7 2 0;i64[]:2;f32[2]:1 1",
     "f32[2,2,2,2]:3 0 -1 0 7 0 -1 0 12 0 -2 0 2 0 2 0"},
    {"stft_without_a_window", "", "STFT", "17", "onesided=i:0", "f32[1,3]:1 2 4;i64[]:1;-;i64[]:2",
     "f32[1,2,2,2]:3 0 -1 0 6 0 -2 0"},
    {"stft_of_samples_alone", "", "STFT", "17", "", "f32[4]:1 2 3 4;i64[]:2;f32[2]:1 1",
     "!shape [batch, samples]"},
    {"stft_of_three_parts", "", "STFT", "17", "", "f32[1,2,3]:1 2 3 4 5 6;i64[]:1;f32[2]:1 1",
     "!length 1 or 2"},
    {"stft_of_step_zero", "", "STFT", "17", "", "f32[1,3]:1 2 4;i64[]:0;f32[2]:1 1",
     "!at least 1, not 0"},
    {"stft_of_a_window_longer_than_the_frame", "", "STFT", "17", "",
     "f32[1,3]:1 2 4;i64[]:1;f32[2]:1 1;i64[]:1", "!the window's 2 values"},
    {"hard_sigmoid_of_nan_is_nan", "", "HardSigmoid", "6", "", "f32[3]:nan inf -inf",
     "f32[3]:nan 1 0"},
    {"thresholded_relu_of_nan_is_zero", "", "ThresholdedRelu", "10", "", "f32[3]:nan 2 -2",
     "f32[3]:0 2 0"},
    {"hard_swish_of_nan_is_nan", "", "HardSwish", "14", "", "f32[2]:nan inf", "f32[2]:nan inf"},
    /* ONNX Runtime's, and the shapes of ONNX: rounded up, a kernel longer than its axis gives one
     * window of what is there, none where it is longer by the stride */
    {"mean_of_a_kernel_longer_than_its_axis", "", "AveragePool", "19",
     "kernel_shape=I:10;strides=I:10;ceil_mode=i:1", "f32[1,1,5]:1 2 3 4 5", "f32[1,1,1]:3"},
    {"mean_of_a_longer_kernel_counts_padding", "", "AveragePool", "19",
     "kernel_shape=I:8;strides=I:3;pads=I:1,0;ceil_mode=i:1;count_include_pad=i:1",
     "f32[1,1,5]:1 2 3 4 5", "f32[1,1,1]:2.5"},
    {"mean_of_a_longer_kernel_in_two_axes", "", "AveragePool", "11",
     "kernel_shape=I:7,2;strides=I:3,2;ceil_mode=i:1", "f32[1,1,5,2]:1 2 3 4 5 6 7 8 9 10",
     "f32[1,1,1,1]:5.5"},
    {"mean_of_a_kernel_longer_by_the_stride", "", "AveragePool", "22",
     "kernel_shape=I:7;strides=I:2;ceil_mode=i:1", "f32[1,1,5]:1 2 3 4 5", "f32[1,1,0]:"},
    {"mean_of_a_kernel_longer_by_more", "", "AveragePool", "22",
     "kernel_shape=I:10;strides=I:1;ceil_mode=i:1", "f32[1,1,5]:1 2 3 4 5", "!does not fit"},
    {"mean_of_a_longer_kernel_without_ceil_mode", "", "AveragePool", "22",
     "kernel_shape=I:10;strides=I:10", "f32[1,1,5]:1 2 3 4 5", "!does not fit"},
    {"largest_of_a_kernel_longer_than_its_axis", "", "MaxPool", "12",
     "kernel_shape=I:7;strides=I:3;ceil_mode=i:1", "f32[1,1,5]:1 2 5 4 3", "f32[1,1,1]:5"},
    {"largest_of_dilated_taps_beyond_its_axis", "", "MaxPool", "12",
     "kernel_shape=I:4;strides=I:6;dilations=I:2;ceil_mode=i:1", "f32[1,1,4]:1 9 3 8",
     "f32[1,1,1]:3"},
    {"norm_of_a_kernel_longer_than_its_axis", "", "LpPool", "18",
     "kernel_shape=I:10;strides=I:10;ceil_mode=i:1", "f32[1,1,2]:3 4", "f32[1,1,1]:5"},
    {"channels_last_mean_of_a_longer_kernel", "ai.steno", "PoolNhwc", "1",
     "max=i:0;kernel_shape=I:7,2;strides=I:3,2;ceil_mode=i:1", "f32[1,5,2,1]:1 2 3 4 5 6 7 8 9 10",
     "f32[1,1,1,1]:5.5"},
    {"conv_has_no_ceil_mode", "", "Conv", "11", "strides=I:3;ceil_mode=i:1",
     "f32[1,1,2]:1 2;f32[1,1,3]:1 2 3", "!does not fit"},
    {"nonzero_of_zeros_is_empty", "", "NonZero", "13", "", "f32[2]:0 0", "i64[1,0]:"},
};

static void holds(void **state)
{
    const struct op_case *c = *state;
    run_once(c, MAX_TENSORS, NULL);
    if (strchr(c->in, ';'))
        run_once(c, 1, "scalar");
}

/* ---- twisted ---- every case with one wrong attribute or one wrong input. It is refused with
 * the name of the operator or the node, or it runs; our own checks never fail
 * (STENO_ERR_INTERNAL). */

/* Twist number k of an attribute. False after the last one. */
static bool twist_attribute(Onnx__Node *n, size_t at, int k)
{
    static const int64_t absurd[] = {INT64_MIN, INT64_MAX, -1, 0, 7, (int64_t)1 << 31};
    static const float odd[] = {NAN, INFINITY, -1e30f, 0};
    static char empty[] = "", nonsense[] = "nonsense";
    Onnx__Attribute *a = n->attribute[at];
    if (k == 0) {
        n->attribute[at] = n->attribute[--n->n_attribute];
        return true;
    }
    if (k == 1) {
        a->type = a->type == ONNX__ATTRIBUTE__KIND__INT ? ONNX__ATTRIBUTE__KIND__STRING
                                                        : ONNX__ATTRIBUTE__KIND__INT;
        return true;
    }
    k -= 2;
    if (k >= 6)
        return false;
    if (a->type == ONNX__ATTRIBUTE__KIND__FLOAT) {
        a->f = odd[k % 4];
    } else if (a->type == ONNX__ATTRIBUTE__KIND__STRING) {
        a->s.data = (uint8_t *)(k % 2 ? empty : nonsense);
        a->s.len = strlen(k % 2 ? empty : nonsense);
    } else if (a->type == ONNX__ATTRIBUTE__KIND__INTS && a->n_ints) {
        a->ints[k % (int)a->n_ints] = absurd[k];
        a->n_ints -= k == 4;
    } else {
        a->i = absurd[k];
    }
    return true;
}

/* Twist number k of an input that is fed. False after the last one. */
static bool twist_input(struct tensors *in, int at, int k)
{
    static const steno_dtype types[] = {STENO_I64, STENO_F32, STENO_BOOL, STENO_U8, STENO_F16};
    struct steno_tensor *t = &in->t[at];
    if (k < 5) {
        steno_aligned_free(t->data);
        t->dtype = types[k];
        t->data = steno_aligned_alloc(steno_numel(t) * 8 + 8);
        assert_non_null(t->data);
        memset(t->data, 0, steno_numel(t) * 8 + 8);
    } else if (k == 5) {
        t->shape.rank = 0;
    } else if (k == 6) {
        t->shape.dim[t->shape.rank++] = 1;
    } else if (k == 7) {
        t->shape.dim[0] = 0;
        t->shape.rank += !t->shape.rank;
    } else if (k == 8) {
        t->shape = (struct steno_shape){1, {(int64_t)steno_numel(t)}};
    } else if (k == 9) {
        in->present[at] = false;
    } else {
        return false;
    }
    return true;
}

static void open_twisted(const struct op_case *c, struct mk_graph *g, const struct tensors *in,
                         const char *what, int at, int k)
{
    struct steno_network_options opt = {.opt_level = -1, .max_bytes = (size_t)64 << 20};
    struct steno_session_options so = {.max_bytes = (size_t)64 << 20, .max_steps = 1000};
    steno_network *net = NULL;
    steno_session *s = NULL;
    steno_err err = {0};
    size_t size;
    uint8_t *bytes = mk_bytes(g, &size);
    steno_status st = steno_network_open_memory(&net, bytes, size, "twisted", &opt, &err);
    if (!st)
        st = steno_session_open(&s, net, &so, &err);
    for (int i = 0; i < in->n && !st; i++) {
        char name[16];
        int to;
        snprintf(name, sizeof name, "x%d", i);
        to = steno_network_find_input(net, name);
        if (to >= 0)
            st = steno_session_set(s, to, &in->t[i], &err);
    }
    if (!st)
        st = steno_session_run(s, &err);
    if (st && (st == STENO_ERR_INTERNAL || (!strstr(err.msg, c->op) && !strstr(err.msg, "node '") &&
                                            !strstr(err.msg, "input 'x"))))
        fail_msg("%s, %s %d, twist %d: status %d: %s", c->name, what, at, k, st, err.msg);
    steno_session_close(s);
    steno_network_close(net);
    free(bytes);
}

/* False: the attribute, the input or the twist does not exist. */
static bool try_twist(const struct op_case *c, bool attribute, int at, int k, int first_const)
{
    struct tensors in, want;
    Onnx__Node *node;
    struct mk_graph *g;
    bool done;
    read_tensors(c->in, &in);
    read_tensors(c->out, &want);
    done = attribute || (at < in.n && in.present[at] && twist_input(&in, at, k));
    g = make_model(c, &in, want.n, first_const, &node);
    if (attribute)
        done = (size_t)at < node->n_attribute && twist_attribute(node, (size_t)at, k);
    if (done)
        open_twisted(c, g, &in, attribute ? "attribute" : "input", at, k);
    mk_free(g);
    free_tensors(&in);
    free_tensors(&want);
    return done;
}

static void twisted(void **state)
{
    const struct op_case *all = *state;
    for (const struct op_case *c = all; c->name; c++)
        for (int attribute = 0; attribute < 2; attribute++)
            for (int at = 0; at < MAX_TENSORS; at++) {
                int k = 0;
                while (try_twist(c, attribute, at, k, MAX_TENSORS) &&
                       try_twist(c, attribute, at, k, 0))
                    k++;
            }
}

/* ---- the list of tests ---- */

static char *field(char **p)
{
    char *s = *p, *end = strchr(s, '|');
    if (end) {
        *end = 0;
        *p = end + 1;
    }
    return s;
}

int main(void)
{
    size_t n_hostile = sizeof hostile / sizeof hostile[0], n = 0, cap = 1024, bytes;
    char *text = steno_test_slurp("tests/ops/cases.txt", &bytes), *save = NULL, *copy;
    struct op_case *cases = calloc(cap + 1, sizeof *cases);
    struct CMUnitTest *tests = calloc(cap + n_hostile + 1, sizeof *tests);
    int failed;
    steno_rare_ops_add();
    if (!text || !cases || !tests || !(copy = calloc(1, bytes + 1))) {
        fprintf(stderr,
                "tests/ops/cases.txt cannot be read (run from the root of the repository)\n");
        return 1;
    }
    memcpy(copy, text, bytes);
    for (char *line = strtok_r(copy, "\n", &save); line && n < cap;
         line = strtok_r(NULL, "\n", &save)) {
        struct op_case *c = &cases[n];
        c->name = field(&line);
        c->domain = field(&line);
        c->op = field(&line);
        c->opset = field(&line);
        c->attrs = field(&line);
        c->in = field(&line);
        c->out = field(&line);
        tests[n++] = (struct CMUnitTest){c->name, runs_like_the_standard, NULL, NULL, c};
    }
    for (size_t i = 0; i < n_hostile; i++) {
        void *state;
        memcpy(&state, &(const struct op_case *){&hostile[i]}, sizeof state);
        tests[n++] = (struct CMUnitTest){hostile[i].name, holds, NULL, NULL, state};
    }
    tests[n++] = (struct CMUnitTest){"attributes_and_inputs_that_are_not_what_they_should_be",
                                     twisted, NULL, NULL, cases};
    failed = _cmocka_run_group_tests("ops", tests, n, NULL, NULL);
    free(copy);
    free(text);
    free(cases);
    free(tests);
    return failed;
}
