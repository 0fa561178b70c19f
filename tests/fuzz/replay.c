/* Main program of a fuzz target without libFuzzer. It runs LLVMFuzzerTestOneInput on every named
 * file, or every file of a named folder, then on truncations and single-byte changes of it. So a
 * plain `make check` already exercises the error paths. --plain: the files alone.
 *     fuzz_wav [--tap|--plain] FILE|DIR... */
#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CUTS 512    /* truncations per input; spread evenly over a longer input */
#define CHANGES 512 /* single-byte changes per input */

/* Each input is in a block of exactly its size, so that a sanitizer sees any read past the end. */
static void one(const uint8_t *data, size_t size)
{
    uint8_t *exact = malloc(size ? size : 1);
    if (!exact)
        exit(70);
    if (size)
        memcpy(exact, data, size);
    (void)LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

static void variations(uint8_t *data, size_t size)
{
    size_t step = size <= CUTS ? 1 : size / CUTS;
    uint32_t seed = 2463534242u;
    for (size_t cut = 0; cut < size; cut += step)
        one(data, cut);
    for (int i = 0; i < CHANGES && size; i++) {
        size_t at;
        uint8_t old;
        seed ^= seed << 13, seed ^= seed >> 17, seed ^= seed << 5; /* xorshift32, Marsaglia 2003 */
        at = seed % size;
        old = data[at];
        data[at] = (uint8_t)(i & 1 ? old ^ (1u << (seed >> 29)) : (seed >> 8));
        one(data, size);
        data[at] = old;
    }
}

static int file(const char *path, bool plain)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data = NULL;
    size_t size = 0, cap = 0;
    if (!f) {
        perror(path);
        return 1;
    }
    do {
        if (size == cap) {
            uint8_t *more = realloc(data, cap = cap ? cap * 2 : 65536);
            if (!more)
                exit(70);
            data = more;
        }
        size += fread(data + size, 1, cap - size, f);
    } while (!feof(f) && !ferror(f));
    fclose(f);
    one(data, size);
    if (!plain)
        variations(data, size);
    free(data);
    return 0;
}

static int folder(const char *path, bool plain, int *files)
{
    DIR *d = opendir(path);
    struct dirent *e;
    int bad = 0;
    if (!d) {
        perror(path);
        return 1;
    }
    while ((e = readdir(d))) {
        char name[4096];
        if (e->d_name[0] == '.' || !strncmp(e->d_name, "README", 6))
            continue;
        if (snprintf(name, sizeof name, "%s/%s", path, e->d_name) >= (int)sizeof name)
            continue;
        bad += file(name, plain);
        ++*files;
    }
    closedir(d);
    return bad;
}

int main(int argc, char **argv)
{
    bool tap = argc > 1 && !strcmp(argv[1], "--tap");
    bool plain = argc > 1 && !strcmp(argv[1], "--plain");
    int bad = 0, files = 0;
    for (int i = 1 + (tap || plain); i < argc; i++) {
        struct stat st;
        if (stat(argv[i], &st)) {
            perror(argv[i]);
            bad++;
        } else if (S_ISDIR(st.st_mode)) {
            bad += folder(argv[i], plain, &files);
        } else {
            bad += file(argv[i], plain);
            files++;
        }
    }
    if (tap)
        printf("1..1\n%s 1 - %d inputs and their variations\n", bad || !files ? "not ok" : "ok",
               files);
    return bad || !files ? 1 : 0;
}
