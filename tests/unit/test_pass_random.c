/* Any graph gives the same results with any set of passes as without passes. Small random graphs
 * of operators and of exporters' patterns, each with several random sets of passes.
 *
 * Seeds are fixed, so every run is the same. STENO_PASS_SEEDS=FROM:COUNT selects other seeds or
 * more (100000 take some minutes). A failure prints its seed, graph and passes. */

#include "nn/passes/passes.h"
#include "tests/support/pass_check.h"
#include "tests/support/test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_VALUES = 80, TEXT = 16384, SETS = 4 };

struct value {
    int id; /* its name is v<id> */
    int rank;
    int64_t dim[4]; /* of the test's inputs */
};

struct maker {
    uint64_t state;
    char text[TEXT];
    size_t len;
    struct value value[MAX_VALUES];
    int n, next, norms;
    int opset;
};

static uint32_t draw(struct maker *m, uint32_t below)
{
    m->state ^= m->state >> 12; /* xorshift64*, Vigna 2016 */
    m->state ^= m->state << 25;
    m->state ^= m->state >> 27;
    return (uint32_t)((m->state * 2685821657736338717u) >> 33) % below;
}

static void say(struct maker *m, const char *fmt, ...)
{
    va_list ap;
    int n;
    va_start(ap, fmt);
    n = vsnprintf(m->text + m->len, TEXT - m->len, fmt, ap);
    va_end(ap);
    m->len += (size_t)n;
    assert_true(m->len < TEXT);
}

static const struct value *any(struct maker *m)
{
    /* half of the time one of the last values, so that chains grow long */
    int back = draw(m, 2) ? (int)draw(m, 3) : (int)draw(m, (uint32_t)m->n);
    return &m->value[back < m->n ? m->n - 1 - back : 0];
}

static int64_t count(const struct value *v)
{
    int64_t n = 1;
    for (int i = 0; i < v->rank; i++)
        n *= v->dim[i];
    return n;
}

/* Register the next value, which the last statement writes. */
static void add(struct maker *m, const struct value *like)
{
    struct value v = *like;
    v.id = m->next++;
    if (m->n < MAX_VALUES && count(&v) <= 4096)
        m->value[m->n++] = v;
}

/* ---- one step each; false when it does not fit the drawn value ---- */

static bool unary(struct maker *m)
{
    static const char *const ops[] = {"Tanh", "Sigmoid",  "Relu",     "Neg",      "Abs",
                                      "Erf",  "Softplus", "Identity", "Softsign", "HardSigmoid"};
    struct value x = *any(m);
    say(m, "%s v%d v%d;\n", ops[draw(m, sizeof ops / sizeof *ops)], x.id, m->next);
    add(m, &x);
    return true;
}

static bool unchanged(struct maker *m)
{
    struct value x = *any(m);
    int y = m->next, last = x.rank - 1;
    switch (draw(m, 9)) {
    case 0:
        say(m, "Dropout v%d v%d;\n", x.id, y);
        break;
    case 1:
        say(m, "Cast v%d v%d to=1;\n", x.id, y);
        break;
    case 2:
        say(m, "Mul v%d,one v%d;\n", x.id, y);
        break;
    case 3:
        say(m, "Add zero,v%d v%d;\n", x.id, y);
        break;
    case 4:
        say(m, "Concat v%d v%d axis=%d;\n", x.id, y, last);
        break;
    case 5:
        say(m, "Shape v%d s%d; Reshape v%d,s%d v%d;\n", x.id, y, x.id, y, y);
        break;
    case 6:
        say(m, "f%d = [0]; e%d = [9999]; a%d = [%d]; Slice v%d,f%d,e%d,a%d v%d;\n", y, y, y, last,
            x.id, y, y, y, y);
        break;
    case 7:
        say(m, "Pow v%d,one v%d;\n", x.id, y);
        break;
    default:
        say(m, "Div v%d,one v%d;\n", x.id, y);
        break;
    }
    add(m, &x);
    return true;
}

static bool with_number(struct maker *m)
{
    static const char *const ops[] = {"Add", "Sub", "Mul", "Div", "Max", "Min"};
    static const char *const numbers[] = {"half", "two", "small", "one"};
    struct value x = *any(m);
    uint32_t op = draw(m, 6);
    const char *c = numbers[draw(m, 4)];
    if (op != 3 && draw(m, 3) == 0)
        say(m, "%s %s,v%d v%d;\n", ops[op], c, x.id, m->next);
    else
        say(m, "%s v%d,%s v%d;\n", ops[op], x.id, c, m->next);
    add(m, &x);
    return true;
}

static bool with_row(struct maker *m)
{
    static const char *const ops[] = {"Add", "Mul", "Sub"};
    struct value x = *any(m);
    if (x.rank < 1 || x.dim[x.rank - 1] > 64)
        return false;
    say(m, "w%d : %d; %s v%d,w%d v%d;\n", m->next, (int)x.dim[x.rank - 1], ops[draw(m, 3)], x.id,
        m->next, m->next);
    add(m, &x);
    return true;
}

static bool together(struct maker *m)
{
    static const char *const ops[] = {"Add", "Sub", "Mul", "Max"};
    struct value x = *any(m), y = *any(m);
    if (x.rank != y.rank || memcmp(x.dim, y.dim, sizeof x.dim[0] * (size_t)x.rank))
        return false;
    say(m, "%s v%d,v%d m%d; Tanh m%d v%d;\n", ops[draw(m, 4)], x.id, y.id, m->next, m->next,
        m->next);
    add(m, &x);
    return true;
}

static bool product(struct maker *m)
{
    static const char *const acts[] = {"Relu", "Tanh", "Sigmoid"};
    struct value x = *any(m), y;
    int id = m->next, cols = 2 + (int)draw(m, 9);
    if (x.rank < 2 || x.dim[x.rank - 1] > 32)
        return false;
    say(m, "w%d : %d,%d; MatMul v%d,w%d p%d;\n", id, (int)x.dim[x.rank - 1], cols, x.id, id, id);
    if (draw(m, 2))
        say(m, "b%d : %d; Add p%d,b%d v%d;\n", id, cols, id, id, id);
    else
        say(m, "%s p%d v%d;\n", acts[draw(m, 3)], id, id);
    y = x;
    y.dim[x.rank - 1] = cols;
    add(m, &y);
    return true;
}

static bool gemm(struct maker *m)
{
    struct value x = *any(m), y;
    int id = m->next, cols = 2 + (int)draw(m, 7), transposed = (int)draw(m, 2);
    if (x.rank != 2 || x.dim[1] > 32)
        return false;
    say(m, "w%d : %d,%d; b%d : %d; Gemm v%d,w%d,b%d v%d transB=%d alpha=0.5 beta=%s;\n", id,
        transposed ? cols : (int)x.dim[1], transposed ? (int)x.dim[1] : cols, id, cols, x.id, id,
        id, id, transposed, draw(m, 2) ? "1.0" : "0.25");
    y = x;
    y.dim[1] = cols;
    add(m, &y);
    return true;
}

static bool against_itself(struct maker *m)
{
    struct value x = *any(m), y;
    int id = m->next;
    if (x.rank != 3)
        return false;
    say(m, "Transpose v%d t%d perm=[0,2,1]; MatMul v%d,t%d q%d; Mul q%d,small r%d; Tanh r%d v%d;\n",
        x.id, id, x.id, id, id, id, id, id, id);
    y = x;
    y.dim[2] = x.dim[1];
    add(m, &y);
    return true;
}

static bool transpose(struct maker *m)
{
    static const int perms[3][3] = {{0, 2, 1}, {2, 0, 1}, {1, 0, 2}};
    struct value x = *any(m), y;
    const int *p = perms[draw(m, 3)];
    if (x.rank != 3)
        return false;
    say(m, "Transpose v%d v%d perm=[%d,%d,%d];\n", x.id, m->next, p[0], p[1], p[2]);
    y = x;
    for (int i = 0; i < 3; i++)
        y.dim[i] = x.dim[p[i]];
    add(m, &y);
    return true;
}

/* Merge the first two axes, or add a leading axis. */
static bool view(struct maker *m)
{
    struct value x = *any(m), y = x;
    int id = m->next;
    if (x.rank == 3 && draw(m, 2)) {
        say(m, "s%d = [-1,%d]; Reshape v%d,s%d v%d;\n", id, (int)x.dim[2], x.id, id, id);
        y.rank = 2;
        y.dim[0] = x.dim[0] * x.dim[1];
        y.dim[1] = x.dim[2];
    } else if (x.rank <= 3 && draw(m, 2)) {
        int axis = (int)draw(m, (uint32_t)x.rank + 1);
        if (m->opset < 13)
            say(m, "Unsqueeze v%d v%d axes=[%d];\n", x.id, id, axis);
        else
            say(m, "s%d = [%d]; Unsqueeze v%d,s%d v%d;\n", id, axis, x.id, id, id);
        y.rank++;
        for (int i = x.rank; i > axis; i--)
            y.dim[i] = x.dim[i - 1];
        y.dim[axis] = 1;
    } else if (x.rank == 4 && x.dim[0] == 1) {
        if (m->opset < 13)
            say(m, "Squeeze v%d v%d axes=[0];\n", x.id, id);
        else
            say(m, "s%d = [0]; Squeeze v%d,s%d v%d;\n", id, x.id, id, id);
        y.rank = 3;
        memmove(y.dim, y.dim + 1, 3 * sizeof y.dim[0]);
    } else {
        return false;
    }
    add(m, &y);
    return true;
}

/* The target of a Reshape by arithmetic on the shape, as PyTorch writes it. */
static bool view_by_shape(struct maker *m)
{
    struct value x = *any(m), y = x;
    int id = m->next;
    if (x.rank != 3 || x.dim[2] % 2)
        return false;
    say(m,
        "i%d = [0]; j%d = [1]; k%d = [-1]; Shape v%d s%d; Gather s%d,i%d g%d; Gather s%d,j%d h%d;"
        "two%d = [2]; Concat g%d,h%d,two%d,k%d c%d axis=0; Reshape v%d,c%d v%d;\n",
        id, id, id, x.id, id, id, id, id, id, id, id, id, id, id, id, id, id, x.id, id, id);
    y.rank = 4;
    y.dim[2] = 2;
    y.dim[3] = x.dim[2] / 2;
    add(m, &y);
    return true;
}

static bool halves(struct maker *m)
{
    struct value x = *any(m), y = x;
    int last = x.rank - 1, id = m->next;
    if (x.rank < 1 || x.dim[last] % 2)
        return false;
    if (m->opset < 13)
        say(m, "Split v%d l%d,r%d axis=%d;\n", x.id, id, id, last);
    else
        say(m, "p%d = [%d,%d]; Split v%d,p%d l%d,r%d axis=%d;\n", id, (int)x.dim[last] / 2,
            (int)x.dim[last] / 2, x.id, id, id, id, last);
    switch (draw(m, 3)) {
    case 0:
        say(m, "Sigmoid r%d g%d; Mul l%d,g%d v%d;\n", id, id, id, id, id);
        break;
    case 1:
        say(m, "Sigmoid l%d g%d; Mul l%d,g%d h%d; Mul h%d,r%d v%d;\n", id, id, id, id, id, id, id,
            id);
        break;
    default:
        say(m, "Concat r%d,l%d,r%d v%d axis=%d;\n", id, id, id, id, last);
        y.dim[last] *= 3;
    }
    y.dim[last] /= 2;
    add(m, &y);
    return true;
}

static bool activation(struct maker *m)
{
    struct value x = *any(m);
    int id = m->next;
    if (draw(m, 2))
        say(m,
            "Div v%d,root e%d; Erf e%d f%d; Add f%d,one g%d; Mul v%d,g%d h%d; Mul h%d,half v%d;\n",
            x.id, id, id, id, id, id, x.id, id, id, id, id);
    else
        say(m, "Sigmoid v%d e%d; Mul v%d,e%d v%d;\n", x.id, id, x.id, id, id);
    add(m, &x);
    return true;
}

/* At most one per graph: it would amplify the rounding errors of rows with almost equal
 * elements. */
static bool norm(struct maker *m)
{
    struct value x = *any(m);
    int id = m->next, last = x.rank - 1, n;
    if (x.rank < 2 || x.dim[last] < 2 || x.dim[last] > 64 || m->norms++)
        return false;
    n = (int)x.dim[last];
    say(m, "g%d : %d; h%d : %d;\n", id, n, id, n);
    if (draw(m, 2))
        say(m,
            "ReduceMean v%d m%d axes=[-1]; Sub v%d,m%d d%d; Pow d%d,two q%d;"
            "ReduceMean q%d r%d axes=[-1]; Add r%d,small u%d; Sqrt u%d z%d; Div d%d,z%d k%d;"
            "Mul k%d,g%d l%d; Add l%d,h%d v%d;\n",
            x.id, id, x.id, id, id, id, id, id, id, id, id, id, id, id, id, id, id, id, id, id, id,
            id);
    else
        say(m,
            "Mul v%d,v%d q%d; ReduceMean q%d r%d axes=[-1]; Add r%d,small u%d; Sqrt u%d z%d;"
            "Div v%d,z%d k%d; Mul k%d,g%d v%d;\n",
            x.id, x.id, id, id, id, id, id, id, id, x.id, id, id, id, id, id);
    add(m, &x);
    return true;
}

static bool soft(struct maker *m)
{
    struct value x = *any(m);
    int id = m->next;
    if (x.rank < 2)
        return false;
    if (draw(m, 2))
        say(m, "Softmax v%d v%d axis=%d;\n", x.id, id, x.rank - 1);
    else
        say(m, "Tanh v%d t%d; Softmax t%d s%d axis=%d; Log s%d l%d; Mul l%d,small v%d;\n", x.id, id,
            id, id, x.rank - 1, id, id, id, id); /* Tanh bounds the values, so Log never gets 0 */
    add(m, &x);
    return true;
}

static bool reduce(struct maker *m)
{
    static const char *const ops[] = {"ReduceMean", "ReduceMax", "ReduceMin"};
    struct value x = *any(m), y = x;
    int axis, id = m->next, again;
    if (x.rank < 2)
        return false;
    axis = (int)draw(m, (uint32_t)x.rank);
    again = (int)draw(m, 2);
    say(m, "%s v%d %c%d axes=[%d] keepdims=0;\n", ops[draw(m, 3)], x.id, again ? 'r' : 'v', id,
        axis);
    if (again && m->opset < 13)
        say(m, "Unsqueeze r%d v%d axes=[%d];\n", id, id, axis);
    else if (again)
        say(m, "a%d = [%d]; Unsqueeze r%d,a%d v%d;\n", id, axis, id, id, id);
    if (again) {
        y.dim[axis] = 1;
    } else {
        y.rank--;
        memmove(y.dim + axis, y.dim + axis + 1, (size_t)(3 - axis) * sizeof y.dim[0]);
    }
    add(m, &y);
    return true;
}

static bool convolution(struct maker *m)
{
    static const char *const acts[] = {"Relu", "Tanh", "Sigmoid", "LeakyRelu", "Elu"};
    struct value x = *any(m), y = x;
    int id = m->next, c, out, pad;
    if (x.rank != 3 || x.dim[1] > 16)
        return false;
    c = (int)x.dim[1];
    out = 1 + (int)draw(m, 4);
    pad = (int)draw(m, 3);
    if (x.dim[2] + 2 * pad < 3)
        return false;
    say(m, "w%d : %d,%d,3; b%d : %d;\n", id, out, c, id, out);
    if (draw(m, 2) && m->opset >= 11)
        say(m, "p%d = [0,0,%d,0,0,%d]; Pad v%d,p%d e%d; Conv e%d,w%d,b%d c%d;\n", id, pad, pad,
            x.id, id, id, id, id, id, id);
    else
        say(m, "Conv v%d,w%d,b%d c%d pads=[%d,%d];\n", x.id, id, id, id, pad, pad);
    y.dim[1] = out;
    y.dim[2] = x.dim[2] + 2 * pad - 2;
    switch (draw(m, 4)) {
    case 0:
        say(m,
            "w2%d : %d; w3%d : %d; w4%d : %d; a%d : %d; Abs a%d q%d;"
            "Add q%d,half r%d; BatchNormalization c%d,w2%d,w3%d,w4%d,r%d v%d;\n",
            id, out, id, out, id, out, id, out, id, id, id, id, id, id, id, id, id, id);
        break;
    case 1:
        say(m, "a%d : %d,1; Mul c%d,a%d d%d; k%d : 1,%d,1; Add d%d,k%d v%d;\n", id, out, id, id, id,
            id, out, id, id, id);
        break;
    default:
        say(m, "%s c%d v%d;\n", acts[draw(m, 5)], id, id);
    }
    add(m, &y);
    return true;
}

static bool pick(struct maker *m)
{
    struct value x = *any(m), y = x;
    int id = m->next, axis;
    if (x.rank < 1)
        return false;
    axis = (int)draw(m, (uint32_t)x.rank);
    if (x.dim[axis] < 2)
        return false;
    if (draw(m, 2)) {
        say(m, "i%d = [1,0]; Gather v%d,i%d v%d axis=%d;\n", id, x.id, id, id, axis);
        y.dim[axis] = 2;
    } else {
        say(m, "f%d = [1]; e%d = [%d]; a%d = [%d]; Slice v%d,f%d,e%d,a%d v%d;\n", id, id,
            (int)x.dim[axis], id, axis, x.id, id, id, id, id);
        y.dim[axis]--;
    }
    add(m, &y);
    return true;
}

static bool joined(struct maker *m)
{
    struct value x = *any(m), y = x;
    int id = m->next, last = x.rank - 1;
    if (x.rank < 1 || x.dim[last] > 16)
        return false;
    say(m, "Neg v%d n%d; Concat v%d,n%d c%d axis=%d; Concat c%d,v%d v%d axis=%d;\n", x.id, id, x.id,
        id, id, last, id, x.id, id, last);
    y.dim[last] *= 3;
    add(m, &y);
    return true;
}

static bool masked(struct maker *m)
{
    struct value x = *any(m);
    int id = m->next;
    if (x.rank < 1)
        return false;
    /* both functions are continuous: a difference in the last place stays that small */
    say(m,
        "Greater v%d,small c%d; Not c%d n%d; Where n%d,small,v%d w%d;"
        "Greater w%d,two g%d; Where g%d,two,w%d v%d;\n",
        x.id, id, id, id, id, x.id, id, id, id, id, id, id);
    add(m, &x);
    return true;
}

/* Two heads over [b, t, c], as exporters write them; with or without an added mask, a skip
 * connection, and a norm before it. */
static bool attention(struct maker *m)
{
    struct value x = *any(m);
    int id = m->next, c, t;
    bool mask = draw(m, 2), skip = draw(m, 2), ahead = draw(m, 2) && m->opset >= 17;
    if (x.rank != 3 || x.dim[2] % 2 || x.dim[2] > 16 || x.dim[2] < 2 || x.dim[1] > 16)
        return false;
    c = (int)x.dim[2];
    t = (int)x.dim[1];
    say(m, "g%d : %d; h%d = [0,0,2,%d]; z%d = [0,0,%d];\n", id, c, id, c / 2, id, c);
    if (ahead)
        say(m, "LayerNormalization v%d,g%d x%d;\n", x.id, id, id);
    else
        say(m, "Tanh v%d x%d;\n", x.id, id);
    for (int i = 0; i < 3; i++)
        say(m,
            "w%d_%d : %d,%d; MatMul x%d,w%d_%d a%d_%d; Reshape a%d_%d,h%d s%d_%d;"
            "Transpose s%d_%d t%d_%d perm=[0,2,%s];\n",
            id, i, c, c, id, id, i, id, i, id, i, id, id, i, id, i, id, i, i == 1 ? "3,1" : "1,3");
    say(m,
        "MatMul t%d_0,t%d_1 p%d; Mul p%d,half q%d; k%d : %d,%d; %s q%d%s%d u%d;"
        "Softmax u%d f%d axis=3; MatMul f%d,t%d_2 j%d; Transpose j%d l%d perm=[0,2,1,3];"
        "Reshape l%d,z%d o%d; %s o%d%s%d v%d;\n",
        id, id, id, id, id, id, t, t, mask ? "Add" : "Max", id, mask ? ",k" : ",q", id, id, id, id,
        id, id, id, id, id, id, id, id, skip ? "Add" : "Max", id, skip ? ",v" : ",o",
        skip ? x.id : id, id);
    add(m, &x);
    return true;
}

/* 8-bit products of graph inputs only: an inner value could differ in its last bit and round to
 * another integer. Weights as in a QuantizeLinear graph or a DynamicQuantizeLinear graph. */
static bool rounded(struct maker *m)
{
    struct value y = {0, 3, {PC_N, 3, 5}};
    int id = m->next;
    say(m, "w%d : 8,5; n%d = 127; Mul w%d,n%d f%d; Cast f%d i%d to=3; s%d : 5; Abs s%d p%d;\n", id,
        id, id, id, id, id, id, id, id, id);
    if (draw(m, 2))
        say(m,
            "DynamicQuantizeLinear x q%d,qs%d,qz%d; MatMulInteger q%d,i%d,qz%d a%d;"
            "Cast a%d c%d to=1; Mul qs%d,p%d r%d; Mul c%d,r%d v%d;\n",
            id, id, id, id, id, id, id, id, id, id, id, id, id, id, id);
    else
        say(m,
            "xs%d = 0.0123; m%d = 101; Cast m%d z%d to=2; QuantizeLinear x,xs%d,z%d q%d;"
            "DequantizeLinear q%d,xs%d,z%d d%d; DequantizeLinear i%d,p%d e%d axis=1;"
            "MatMul d%d,e%d v%d;\n",
            id, id, id, id, id, id, id, id, id, id, id, id, id, id, id, id, id);
    add(m, &y);
    return true;
}

/* Zipformer's activations and its bypass around a layer. */
static bool zipformer(struct maker *m)
{
    struct value x = *any(m);
    int id = m->next;
    bool four = draw(m, 2);
    if (x.rank < 1)
        return false;
    if (draw(m, 2))
        say(m, "k%d : %d; Tanh v%d t%d; Sub v%d,t%d h%d; Mul h%d,k%d i%d; Add t%d,i%d v%d;\n", id,
            (int)x.dim[x.rank - 1], x.id, id, x.id, id, id, id, id, id, id, id, id);
    else
        say(m,
            "s%d = %s; o%d = %s; t%d = 0.08; k%d : %d; Add v%d,k%d x%d; Sub x%d,s%d z%d;"
            "Abs z%d a%d; Neg a%d n%d; Exp n%d e%d; Add one,e%d f%d; Log f%d l%d; Max zero,z%d p%d;"
            "Add p%d,l%d w%d; Mul x%d,t%d m%d; Sub w%d,m%d u%d; Sub u%d,o%d v%d;\n",
            id, four ? "4.0" : "1.0", id, four ? "0.035" : "0.313261687", id, id,
            (int)x.dim[x.rank - 1], x.id, id, id, id, id, id, id, id, id, id, id, id, id, id, id,
            id, id, id, id, id, id, id, id, id, id, id, id, id, id, id);
    add(m, &x);
    return true;
}

static bool einsum(struct maker *m)
{
    struct value x = *any(m), y = x;
    int id = m->next;
    if (x.rank != 3 || x.dim[1] > 16 || m->opset < 12)
        return false;
    say(m, "Einsum v%d,v%d v%d equation='bij,bkj->bik';\n", x.id, x.id, id);
    y.dim[2] = x.dim[1];
    add(m, &y);
    return true;
}

static void make(struct maker *m, uint64_t seed)
{
    static bool (*const steps[])(struct maker *) = {
        unary,  unchanged,      with_number, with_row,    together,  product,
        gemm,   against_itself, transpose,   view,        halves,    activation,
        norm,   soft,           reduce,      convolution, pick,      joined,
        masked, view_by_shape,  attention,   rounded,     zipformer, einsum};
    int want;
    memset(m, 0, sizeof *m);
    m->state = seed * 0x9e3779b97f4a7c15u + 1;
    m->opset = (int[]){11, 13, 17}[draw(m, 3)];
    m->value[m->n++] = (struct value){0, 3, {PC_N, 3, 8}};
    m->next = 1;
    say(m, "one = 1; zero = 0; two = 2; half = 0.5; small = 0.01; root = 1.41421356;\n"
           "Tanh x v0;\n");
    want = 3 + (int)draw(m, 16);
    for (int i = 0, tries = 0; i < want && tries < 200; tries++)
        i += steps[draw(m, sizeof steps / sizeof *steps)](m);
    for (int i = 0, n = 1 + (int)draw(m, 3); i < n; i++) {
        const struct value *v = i ? any(m) : &m->value[m->n - 1];
        say(m, "Identity v%d y%d; -> y%d;\n", v->id, i, i);
    }
    if (draw(m, 3) == 0) { /* a value from the middle is an output too */
        const struct value *v = any(m);
        say(m, "-> v%d;\n", v->id);
    }
}

/* A random list of passes to disable: each pass with the probability 1 / k, for one k of 2 to 7. */
static void some_passes(struct maker *m, char *list, size_t size)
{
    uint32_t of = 2 + draw(m, 6);
    size_t len = 0;
    list[0] = '\0';
    for (int i = 0; steno_passes[i].name; i++) {
        if (draw(m, of))
            continue;
        len +=
            (size_t)snprintf(list + len, size - len, "%s%s", len ? "," : "", steno_passes[i].name);
        assert_true(len < size);
    }
}

static int fired[96]; /* by row of the table: number of rewrites in all graphs, with all passes */

static void try_seed(uint64_t seed)
{
    static struct maker m;
    static char context[TEXT + 2048];
    char disabled[1500];
    struct mk_graph *graph;
    steno_network *plain;
    uint8_t *file;
    size_t size;
    make(&m, seed);
    graph = pc_start(m.opset, "b,3,8");
    pc.context = context;
    snprintf(context, sizeof context, "seed %" PRIu64 ", opset %d\n%s", seed, m.opset, m.text);
    pc_graph(graph, m.text);
    file = mk_bytes(graph, &size);
    mk_free(graph);
    plain = pc_open(file, size, 0, NULL, NULL);
    for (int i = 0; i < SETS; i++) {
        int level = i ? 1 + (int)draw(&m, 3) : 3;
        steno_network *n;
        some_passes(&m, disabled, sizeof disabled);
        if (!i)
            disabled[0] = '\0';
        snprintf(context, sizeof context, "seed %" PRIu64 ", opset %d, level %d, without %s\n%s",
                 seed, m.opset, level, disabled, m.text);
        n = pc_open(file, size, level, disabled, NULL);
        for (int k = 0; !i && steno_passes[k].name; k++)
            fired[k] += steno_network_passes(n)->changed[k];
        pc_same(plain, n, 1e-4f);
        steno_network_close(n);
    }
    steno_network_close(plain);
    free(file);
    pc.context = NULL;
}

static void any_passes_keep_the_results_of_a_graph(void **state)
{
    static const char *const meant[] = {
        "fold",   "identity",  "again",   "shape",  "reshape", "transpose", "reduce",
        "einsum", "cse",       "pad",     "affine", "swish",   "bypass",    "glu",
        "gelu",   "layernorm", "int8",    "qdq",    "concat",  "convact",   "attention",
        "linear", "matmul",    "rmsnorm", "swoosh", "absorb",  "layers",    "logsoftmax"};
    const char *range = getenv("STENO_PASS_SEEDS");
    uint64_t from = 1, n = 400;
    (void)state;
    if (range && sscanf(range, "%" SCNu64 ":%" SCNu64, &from, &n) != 2)
        fail_msg("STENO_PASS_SEEDS is FROM:COUNT, not '%s'", range);
    for (uint64_t seed = from; seed < from + n; seed++)
        try_seed(seed);
    for (size_t i = 0; !range && i < sizeof meant / sizeof *meant; i++) {
        int hits = 0;
        for (int k = 0; steno_passes[k].name; k++)
            hits += strcmp(steno_passes[k].name, meant[i]) ? 0 : fired[k];
        if (!hits)
            fail_msg("no graph of seeds 1 to 400 has anything for pass %s", meant[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_passes_keep_the_results_of_a_graph),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
