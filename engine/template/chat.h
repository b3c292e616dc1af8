/* engine/template/chat.h (private to engine/) - renders conversations by chat templates, as text and as tokens.
 *
 * A template is Jinja, from the model's file, from a file of the user's or built in (chat_builtin.c), run by a bounded
 * interpreter (jinja.h). Control tokens are recognised in the template's own text only: such markers inside a message
 * stay plain text, whatever the template does with them.
 *
 * A template that prints the current date gets today's, or that of the environment variable WEIR_TODAY=YYYY-MM-DD
 * (tests, reproducible runs). */
#ifndef WEIR_TEMPLATE_CHAT_H
#define WEIR_TEMPLATE_CHAT_H

#include "engine/base/base.h"
#include "engine/engine.h"
#include "engine/token/token.h"

struct gguf;
struct chat_template;

/* Compile a template's text. ERR_MODEL with its line where it is no Jinja or uses what is not supported. Which roles
 * have to give it their content as a list of parts is found out by trying. */
int chat_compile(struct chat_template **out, const char *text, size_t len, struct err *);
/* --chat-template NAME: one that is built in, or one of the model's own by name (tokenizer.chat_template.NAME; g may be NULL), or the
 * path of a file. NULL: the model's only or default one; *out is NULL where it has none. ERR_USAGE for what is none of
 * them. */
int chat_find(struct chat_template **out, const struct gguf *g, const char *name, struct err *);
void chat_free(struct chat_template *);
/* The name of the built-in template with this text, else "jinja-" and a hash of the text. */
const char *chat_name(const struct chat_template *);
/* With this flag (REPLY_THOUGHT, REPLY_NO_THOUGHT or 0): does the head of an answer open reasoning? */
int chat_thinks_first(const struct chat_template *, unsigned flag);
/* Does the flag change what the template writes? */
int chat_flag_matters(const struct chat_template *, unsigned flag);
/* 1: answers have channels, as gpt-oss's.  REPLY_NO_THOUGHT then begins the reply with that of the answer. */
int chat_channels(const struct chat_template *);
/* 0: it writes something for a question, but not the question. */
int chat_shows_question(const struct chat_template *);
/* 0: it refuses or leaves out a system message in front of a question. */
int chat_takes_system(const struct chat_template *);
/* 1: it refuses or leaves out one of two questions without an answer between them. */
int chat_wants_turns(const struct chat_template *);
const char *chat_builtin_name(size_t i);         /* NULL past the end */
const char *chat_builtin_text(const char *name); /* or NULL */

/* Render the conversation as text. special: the byte ranges that come from the template itself, in which control tokens
 * are recognised; ascending, and no two touch. bos, eos: the texts of these tokens, "" when the vocabulary has none.
 * flags: REPLY_... place: [n] where the text of each message stands, of several parts the longest; may be NULL.
 * ERR_USAGE when the template refuses the conversation, ERR_MODEL when it fails. */
struct chat_text {
	struct str text;
	struct span *special;
	size_t n_special, cap_special;
};
void chat_text_free(struct chat_text *);
int chat_write(const struct chat_template *, const char *bos, const char *eos, const struct chat_msg *, size_t n,
               unsigned flags, struct chat_text *out, struct text_place *place, struct err *);

/* chat_write() with the texts that the vocabulary has for these tokens, or for a base model (NULL) the messages alone.
 * RENDER_OPEN: the last message goes on, the text ends in it (render_text.c). */
int chat_compose(const struct chat_template *, const struct vocab *, const struct chat_msg *, size_t n, unsigned flags,
                 struct chat_text *out, struct text_place *place, struct err *);
/* engine_render_text(). */
int chat_render_text(const struct chat_template *, const struct vocab *, const struct chat_msg *, size_t n,
                     unsigned flags, const char *bos, const char *eos, struct str *out, struct err *);

/* ---- tokens (render.c) ---- */

/* engine_render() by this template, or for a base model (NULL). A message with sampled ids keeps exactly these ids
 * where the template leaves its text as it is. */
int chat_render(const struct chat_template *, const struct vocab *, const struct chat_msg *, size_t n, unsigned flags,
                const struct rendered *before, struct rendered *out, struct err *);
int rendered_stable(const struct rendered *, const struct vocab *, size_t msg, size_t byte, struct tokens *out,
                    struct err *);
int rendered_count(const struct rendered *, const struct vocab *, size_t msg, size_t from, size_t to, size_t *n,
                   struct err *);
void rendered_add(struct rendered *, const struct vocab *, const char *text, size_t n, const int32_t *id, size_t n_id);

#endif
