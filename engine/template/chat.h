/* engine/template/chat.h (private to engine/) - renders conversations by chat templates, as text and as tokens.
 *
 * A template is Jinja text: from the model's file, from a file named by the user, or built in (chat_builtin.c). A
 * bounded interpreter runs it (jinja.h). Control tokens are recognised in the template's own text only. The same text
 * inside a message stays plain text, whatever the template does with the message.
 *
 * The current date in a template is today, or the day in the environment variable WEIR_TODAY (YYYY-MM-DD), for
 * tests. */
#ifndef WEIR_TEMPLATE_CHAT_H
#define WEIR_TEMPLATE_CHAT_H

#include "engine/base/base.h"
#include "engine/engine.h"
#include "engine/token/token.h"

struct gguf;
struct chat_template;

/* Compile a template's text. On a syntax error or an unsupported statement return -1 with ERR_MODEL and the line.
 * Trial renderings find out which roles need their content as a list of parts. */
int chat_compile(struct chat_template **out, const char *text, size_t len, struct err *);
/* Find and compile the template `name` (--chat-template): a built-in name, the name of one in the model's file
 * (tokenizer.chat_template.NAME; g may be NULL), or the path of a file; anything else is an ERR_USAGE. name = NULL:
 * the model's default template; *out = NULL if the model has none. */
int chat_find(struct chat_template **out, const struct gguf *g, const char *name, struct err *);
void chat_free(struct chat_template *);
/* Return the name of the built-in template with this text, or "jinja-" and a hash of the text. */
const char *chat_name(const struct chat_template *);
/* 1 if the reply head ends with an opening reasoning mark; flag: REPLY_THOUGHT, REPLY_NO_THOUGHT or 0. */
int chat_thinks_first(const struct chat_template *, unsigned flag);
/* 1 if the flag changes the rendered text of a question. */
int chat_flag_matters(const struct chat_template *, unsigned flag);
/* 1 if answers have channels (gpt-oss). Then REPLY_NO_THOUGHT adds the mark of the final channel to the reply
 * head. */
int chat_channels(const struct chat_template *);
/* 0 if the rendered text does not depend on the question. */
int chat_shows_question(const struct chat_template *);
/* 0 if the template refuses or omits a system message before a question. */
int chat_takes_system(const struct chat_template *);
/* 1 if the template refuses two questions without an answer between them, or omits one of the two. */
int chat_wants_turns(const struct chat_template *);
const char *chat_builtin_name(size_t i);         /* name of built-in template i; NULL past the end */
const char *chat_builtin_text(const char *name); /* text of a built-in template; NULL = no such name */

/* A rendered conversation. */
struct chat_text {
	struct str text;
	struct span *special; /* bytes written by the template itself: ascending, no two adjacent */
	size_t n_special, cap_special;
};
void chat_text_free(struct chat_text *);
/* Render the conversation m[n] as text. bos, eos: texts of these tokens, "" = the vocabulary has none. flags:
 * REPLY_... place[n] (may be NULL): range of each message's text in the rendered text, the longest range if the
 * template splits the message, at = SIZE_MAX if it omits it. Return -1 with ERR_USAGE if the template refuses the
 * conversation, with ERR_MODEL if the template fails. */
int chat_write(const struct chat_template *, const char *bos, const char *eos, const struct chat_msg *, size_t n,
               unsigned flags, struct chat_text *out, struct text_place *place, struct err *);

/* chat_write() with the vocabulary's texts of BOS and EOS. Template NULL: a base model, the text is the messages
 * alone. Flag RENDER_OPEN: the last message is unfinished, and the text ends inside it (render_text.c). */
int chat_compose(const struct chat_template *, const struct vocab *, const struct chat_msg *, size_t n, unsigned flags,
                 struct chat_text *out, struct text_place *place, struct err *);
/* Implements engine_render_text() (engine.h). */
int chat_render_text(const struct chat_template *, const struct vocab *, const struct chat_msg *, size_t n,
                     unsigned flags, const char *bos, const char *eos, struct str *out, struct err *);

/* ---- tokens (render.c) ---- */

/* Implements engine_render() (engine.h); template NULL: a base model. An answer with sampled ids keeps exactly these
 * ids if the template does not change its text. */
int chat_render(const struct chat_template *, const struct vocab *, const struct chat_msg *, size_t n, unsigned flags,
                const struct rendered *before, struct rendered *out, struct err *);
/* Implement engine_render_stable(), engine_render_count() and engine_render_add(). */
int rendered_stable(const struct rendered *, const struct vocab *, size_t msg, size_t byte, struct tokens *out,
                    struct err *);
int rendered_count(const struct rendered *, const struct vocab *, size_t msg, size_t from, size_t to, size_t *n,
                   struct err *);
void rendered_add(struct rendered *, const struct vocab *, const char *text, size_t n, const int32_t *id, size_t n_id);

#endif
