/* engine/template/chat.h (private to engine/) - turns conversations into text and tokens by chat templates.
 *
 * A template is Jinja text from the model's file, from a file of the user, or built in (chat_builtin.c). A bounded
 * interpreter runs it (jinja.h). Control tokens are recognised in the template's own text only. In a message the same
 * text stays plain text, whatever the template does with it.
 *
 * The date in a template is today. For tests, WEIR_TODAY (YYYY-MM-DD) in the environment replaces it. */
#ifndef WEIR_TEMPLATE_CHAT_H
#define WEIR_TEMPLATE_CHAT_H

#include "engine/base/base.h"
#include "engine/engine_chat.h"
#include "engine/token/token.h"

struct gguf;
struct chat_template;

/* Compile a template. On a syntax error or an unsupported statement return -1 with ERR_MODEL and the number of the
 * line. Then run the template a few times, to find out which roles need their content as a list of parts. */
int chat_compile(struct chat_template **out, const char *text, size_t len, struct err *);
/* Find and compile the template that is given by the option --chat-template. `name` can be a built-in name, a name in
 * the model's file (tokenizer.chat_template.NAME), or the path of a file. Other names are an ERR_USAGE. If `name` is
 * NULL, use the model's default template; if the model has none, set *out to NULL. `g` is the model's file, or NULL. */
int chat_find(struct chat_template **out, const struct gguf *g, const char *name, struct err *);
void chat_free(struct chat_template *);
/* Return the name of the built-in template with the same text. If there is none, return "jinja-" and a hash of the
 * text. */
const char *chat_name(const struct chat_template *);
/* 1 if the template writes an opening reasoning mark such as <think> just before an answer. `flag` is REPLY_THOUGHT,
 * REPLY_NO_THOUGHT or 0. */
int chat_thinks_first(const struct chat_template *, unsigned flag);
/* 1 if the flag changes the rendered text of a question. */
int chat_flag_matters(const struct chat_template *, unsigned flag);
/* 1 if answers have channels (in gpt-oss, the sections of an answer). With the flag REPLY_NO_THOUGHT, the text before
 * such an answer ends with the mark that opens the final channel. */
int chat_channels(const struct chat_template *);
/* 1 if the rendered text depends on the text of the question. Also 1 if the template refuses a single question. */
int chat_shows_question(const struct chat_template *);
/* 1 if the template renders system messages; 0 if it refuses or omits them. */
int chat_takes_system(const struct chat_template *);
/* 1 if questions and answers must alternate: the template refuses two questions in a row, or omits one of them. */
int chat_wants_turns(const struct chat_template *);
/* return the name of built-in template i, or NULL after the last one */
const char *chat_builtin_name(size_t i);
/* return the text of a built-in template, or NULL if no template has this name */
const char *chat_builtin_text(const char *name);

/* A rendered conversation. */
struct chat_text {
	struct str text;
	/* byte ranges of the text that the template itself wrote, in ascending order, with other text between them */
	struct span *special;
	size_t n_special, cap_special;
};
void chat_text_free(struct chat_text *);
/* Render the conversation m[n] as text. `bos` and `eos` are the texts of these tokens, or "" if the model has no such
 * token. `flags` is a combination of REPLY_... Set range[i] to the range of message i's text in the result. If the
 * template splits the text, this is the longest part; if it omits the text, range[i].at is SIZE_MAX. `range` may be
 * NULL. Return -1 with ERR_USAGE if the template refuses the conversation, and with ERR_MODEL if the template fails. */
int chat_write(const struct chat_template *, const char *bos, const char *eos, const struct chat_msg *, size_t n,
               unsigned flags, struct chat_text *out, struct text_range *range, struct err *);

/* Call chat_write() with the texts of the vocabulary's BOS and EOS. If there is no template (a base model), the text
 * consists of the messages alone. With the flag RENDER_OPEN the last message is unfinished, and the text ends inside it
 * (render_text.c). */
int chat_compose(const struct chat_template *, const struct vocab *, const struct chat_msg *, size_t n, unsigned flags,
                 struct chat_text *out, struct text_range *range, struct err *);
/* Do what engine_render_text() in engine.h describes. */
int chat_render_text(const struct chat_template *, const struct vocab *, const struct chat_msg *, size_t n,
                     unsigned flags, const char *bos, const char *eos, struct str *out, struct err *);

/* ---- tokens (render.c) ---- */

/* Do what engine_render() in engine.h describes. The template is NULL for a base model. An answer with sampled ids
 * keeps them if the template does not change the answer's text. */
int chat_render(const struct chat_template *, const struct vocab *, const struct chat_msg *, size_t n, unsigned flags,
                const struct rendered *before, struct rendered *out, struct err *);
/* Do what engine_render_stable(), engine_render_count() and engine_render_add() in engine.h describe. */
int rendered_stable(const struct rendered *, const struct vocab *, size_t msg, size_t byte, struct tokens *out,
                    struct err *);
int rendered_count(const struct rendered *, const struct vocab *, size_t msg, size_t from, size_t to, size_t *n,
                   struct err *);
void rendered_add(struct rendered *, const struct vocab *, const char *text, size_t n, const int32_t *id, size_t n_id);

#endif
