/* engine/chat.h (private to engine/) - conversations to tokens, for known template families.
 *
 * There is no Jinja here: a model's template is recognised as one of a table of families by its skeleton (what is left
 * of its text without spelling variants and without branches for tools), and a family is rendered by plain data.  A
 * template that is not recognised is refused by name with the advice to pass --chat-template FAMILY; nothing is
 * guessed.  Rendering goes to tokens, never through text, so markers inside a message stay plain text.
 *
 * Some templates print the current date: it is today's, or that of the environment variable
 * WEIR_TODAY=YYYY-MM-DD where it is set (tests, reproducible runs). */
#ifndef WEIR_CHAT_H
#define WEIR_CHAT_H

#include "engine/base.h"
#include "engine/engine.h"

struct vocab;
struct span;
struct chat_family;

/* Recognise text[0..len) (tokenizer.chat_template).  *out lives until the program ends: a row of the table, or a copy
 * of one with what the template itself brings (a default system message).  ERR_MODEL if unknown. */
int chat_detect(const struct chat_family **out, const char *text, size_t len, struct err *);
/* By name (--chat-template NAME); ERR_USAGE with some of the names if unknown.  A default system message that only a
 * model's own template knows is then not written. */
int chat_by_name(const struct chat_family **out, const char *name, struct err *);
const char *chat_name(const struct chat_family *);
/* first: the reply's head opens a thought; off: REPLY_NO_THOUGHT does something. */
void chat_thinks(const struct chat_family *, int *first, int *off);
const struct chat_family *chat_families(size_t i);   /* i-th family, NULL past the end */

/* The conversation as text, with the byte ranges that came from the template itself (in which control
 * tokens may be recognised).  bos/eos: texts of these tokens ("" where the vocabulary has none).
 * Fails with ERR_USAGE where the family cannot express the conversation (role order). */
struct chat_text {
	struct str text;
	struct span *special; size_t n_special, cap_special;
};
void chat_text_free(struct chat_text *);
int chat_write(const struct chat_family *, const char *bos, const char *eos,
               const struct chat_msg *, size_t n, unsigned reply, struct chat_text *out, struct err *);

/* chat_write + vocab_encode; messages that carry sampled ids keep exactly these. */
int chat_render(const struct chat_family *, const struct vocab *,
                const struct chat_msg *, size_t n, unsigned reply, struct tokens *out, struct err *);

#endif
