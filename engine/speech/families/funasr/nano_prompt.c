#include "speech/families/funasr/nano_prompt.h"

#include <stdio.h>
#include <string.h>

/* Names as the model was trained with them: the first three are those of Fun-ASR-Nano, all those of
 * Fun-ASR-MLT-Nano. */
static const struct steno_llm_language languages[] = {
    {"zh", "中文"},       {"en", "英文"},         {"ja", "日文"},       {"yue", "粤语"},
    {"ko", "韩文"},       {"vi", "越南语"},       {"id", "印尼语"},     {"th", "泰语"},
    {"ms", "马来语"},     {"tl", "菲律宾语"},     {"ar", "阿拉伯语"},   {"hi", "印地语"},
    {"bg", "保加利亚语"}, {"hr", "克罗地亚语"},   {"cs", "捷克语"},     {"da", "丹麦语"},
    {"nl", "荷兰语"},     {"et", "爱沙尼亚语"},   {"fi", "芬兰语"},     {"el", "希腊语"},
    {"hu", "匈牙利语"},   {"ga", "爱尔兰语"},     {"lv", "拉脱维亚语"}, {"lt", "立陶宛语"},
    {"mt", "马耳他语"},   {"pl", "波兰语"},       {"pt", "葡萄牙语"},   {"ro", "罗马尼亚语"},
    {"sk", "斯洛伐克语"}, {"sl", "斯洛文尼亚语"}, {"sv", "瑞典语"}};
#define N_LANGUAGES (sizeof languages / sizeof *languages)
#define N_OF_NANO 3

#define WITH_CONTEXT                                                                               \
    "请结合上下文信息，更加准确地完成语音转写任务。"                        \
    "如果没有相关信息，我们会留空。\n\n\n"                                          \
    "**上下文信息：**\n\n\n"
#define HOT_WORDS "热词列表：["
#define TRANSCRIBE "语音转写"
#define INTO "成"
#define AS_SPOKEN "，不进行文本规整"

void steno_nano_languages(bool all, char *out, size_t size)
{
    steno_llm_list_languages(languages, all ? N_LANGUAGES : N_OF_NANO, out, size);
}

steno_status steno_nano_find_marks(int32_t mark[STENO_NANO_MARKS],
                                   const struct steno_llm_vocabulary *v, const char *path,
                                   steno_err *err)
{
    static const char *const marks[STENO_NANO_MARKS] = {"<|im_start|>", "<|im_end|>",
                                                        "<|endoftext|>"};
    return steno_llm_vocabulary_find(v, marks, STENO_NANO_MARKS, path, mark, err);
}

static void add_text(struct steno_llm_draft *d, struct steno_buf *text, const char *more)
{
    if (!d->st && steno_buf_puts(text, more))
        d->st = steno_fail(d->err, STENO_ERR_LIMIT, "prompt: more than %zu bytes",
                           STENO_LLM_CONTEXT_BYTES);
}

/* The user's turn up to the wish. Returns what closes the context. */
static const char *put_context(struct steno_llm_draft *d, const struct steno_family_stream *o,
                               size_t most)
{
    const char *end = "";
    struct steno_buf text;
    size_t words;
    steno_buf_init(&text, STENO_LLM_CONTEXT_BYTES);
    if (o->hints.prompt && *o->hints.prompt) {
        add_text(d, &text, o->hints.prompt);
        add_text(d, &text, "\n");
    }
    words = text.len + strlen(HOT_WORDS);
    add_text(d, &text, HOT_WORDS);
    steno_llm_add_words(d, &text, words, o->hints.hotwords, ", ");
    steno_llm_add_words(d, &text, words, o->vocabulary, ", ");
    if (text.len > words)
        end = "]\n";
    else if (!d->st)
        steno_buf_cut(&text, words - strlen(HOT_WORDS));
    steno_llm_put_line(d, text.len ? "user\n" WITH_CONTEXT : "user\n");
    if (text.len)
        steno_llm_put_text(d, text.data, text.len, most);
    steno_buf_free(&text);
    return end;
}

/* "]\n语音转写成英文，不进行文本规整：" */
static const char *put_wish(struct steno_llm_draft *d, const char *before, const char *code,
                            bool digits)
{
    char line[160];
    const struct steno_llm_language *l = steno_llm_find_language(languages, N_LANGUAGES, code);
    snprintf(line, sizeof line, "%s%s%s%s%s：", before, TRANSCRIBE, l ? INTO : "", l ? l->name : "",
             digits ? "" : AS_SPOKEN);
    steno_llm_put_line(d, line);
    return l ? l->code : NULL;
}

steno_status steno_nano_prompt_make(struct steno_llm_prompt *p,
                                    const struct steno_llm_vocabulary *v,
                                    const int32_t mark[STENO_NANO_MARKS],
                                    const struct steno_family_stream *o, bool digits, size_t most,
                                    steno_err *err)
{
    struct steno_llm_draft d;
    const char *end;
    *p = (struct steno_llm_prompt){0};
    if (o->hints.language && strchr(o->hints.language, ','))
        return steno_fail(err, STENO_ERR_INVAL,
                          "language: Fun-ASR-Nano takes one language, or none of its own");
    steno_llm_draft_open(&d, v, err);
    steno_llm_put_mark(&d, mark[STENO_NANO_BEGIN]);
    steno_llm_put_line(&d, "system\nYou are a helpful assistant.");
    steno_llm_put_mark(&d, mark[STENO_NANO_END]);
    steno_llm_put_line(&d, "\n");
    steno_llm_put_mark(&d, mark[STENO_NANO_BEGIN]);
    end = put_context(&d, o, most);
    p->language = put_wish(&d, end, o->hints.language, digits);
    steno_llm_put_rows(&d);
    steno_llm_put_mark(&d, mark[STENO_NANO_END]);
    steno_llm_put_line(&d, "\n");
    steno_llm_put_mark(&d, mark[STENO_NANO_BEGIN]);
    steno_llm_put_line(&d, "assistant\n");
    return steno_llm_draft_take(&d, p);
}

steno_status steno_nano_prompt_longest(const struct steno_llm_vocabulary *v,
                                       const int32_t mark[STENO_NANO_MARKS], size_t *n,
                                       steno_err *err)
{
    steno_status st = STENO_OK;
    *n = 0;
    for (size_t i = 0; i < N_LANGUAGES && !st; i++) {
        const struct steno_family_stream o = {
            .hints = {.language = languages[i].code, .hotwords = "x"}};
        struct steno_llm_prompt p;
        st = steno_nano_prompt_make(&p, v, mark, &o, false, 0, err);
        *n = p.n > *n ? p.n : *n;
        steno_llm_prompt_close(&p);
    }
    return st;
}
