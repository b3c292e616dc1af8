/* engine/chat.h (private to engine/) - renders conversations to tokens, for known families of chat templates.
 *
 * Templates are not interpreted.  A model's template is reduced to its skeleton (spelling variants and branches for tools
 * removed) and looked up in a table of families; the family's formats then render the conversation.  An unknown template is an
 * error that advises --chat-template FAMILY; no family is guessed.  Control tokens are recognised in the template's own text
 * only, so such markers inside a message stay plain text.
 *
 * A template that prints the current date gets today's, or that of the environment variable WEIR_TODAY=YYYY-MM-DD (tests,
 * reproducible runs). */
#ifndef WEIR_CHAT_H
#define WEIR_CHAT_H

#include "engine/base.h"
#include "engine/engine.h"

struct vocab;
struct span;
struct chat_family;

/* Find the family of a template's text (tokenizer.chat_template).  *out is never freed: a row of the table, or a copy of one with
 * literals taken from this template (a default system message).  ERR_MODEL when the template is unknown. */
int chat_detect(const struct chat_family **out, const char *text, size_t len, struct err *);
/* Find a family by name (--chat-template NAME).  Without the model's own template its default system message is not written.
 * ERR_USAGE with some of the names when the name is unknown. */
int chat_by_name(const struct chat_family **out, const char *name, struct err *);
const char *chat_name(const struct chat_family *);
/* *first: an answer begins with reasoning; *off: REPLY_NO_THOUGHT suppresses it. */
void chat_thinks(const struct chat_family *, int *first, int *off);
const struct chat_family *chat_families(size_t i);   /* i-th family, NULL past the end */

/* Render the conversation as text.  special: the byte ranges that come from the template itself, in which control tokens are
 * recognised.  bos, eos: the texts of these tokens, "" when the vocabulary has none.  ERR_USAGE when the template does not
 * allow the order of roles. */
struct chat_text {
	struct str text;
	struct span *special; size_t n_special, cap_special;
};
void chat_text_free(struct chat_text *);
int chat_write(const struct chat_family *, const char *bos, const char *eos,
               const struct chat_msg *, size_t n, unsigned reply, struct chat_text *out, struct err *);

/* ---- tokens (render.c) ---- */

/* engine_render() for this family, or for a base model (NULL).  A message with sampled ids keeps exactly these ids where the template leaves
 * its text as it is. */
int chat_render(const struct chat_family *, const struct vocab *, const struct chat_msg *, size_t n, unsigned flags,
                const struct rendered *before, struct rendered *out, struct err *);
int rendered_stable(const struct rendered *, const struct vocab *, size_t msg, size_t byte, struct tokens *out, struct err *);
int rendered_count(const struct rendered *, const struct vocab *, size_t msg, size_t from, size_t to, size_t *n, struct err *);
void rendered_add(struct rendered *, const struct vocab *, const char *text, size_t n, const int32_t *id, size_t n_id);

#endif
