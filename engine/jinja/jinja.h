/* engine/jinja/jinja.h (private to engine/) - a bounded interpreter of Jinja2, as far as chat templates use it.
 *
 *   text --jinja_compile()--> tree --jinja_run()--> pieces of text, each with its origin
 *
 * Semantics are those of Jinja2 as the transformers library sets it up: trim_blocks, lstrip_blocks, loop controls, an
 * immutable sandbox, tojson without ASCII escapes, raise_exception, strftime_now, generation blocks. Differences:
 * dictionaries cannot be changed at all, upper and lower know ASCII only, and {% include %}, {% import %}, {% extends
 * %}, {% block %}, {% do %} do not exist.
 *
 * A template is foreign code, so everything it can spend is bounded: steps, depth, memory, output. It can read what it
 * is given and nothing else.
 *
 * Every byte of a string knows whether the template wrote it or which text it was given, through concatenation, slices,
 * replace, split, trim and the rest: a control token is recognised in the template's own bytes alone. */
#ifndef WEIR_JINJA_H
#define WEIR_JINJA_H

#include "engine/base/base.h"

enum {
	JINJA_TEXT_MAX = 1 << 20,     /* bytes of a template */
	JINJA_NEST_MAX = 200,         /* nesting of blocks, and of the operators in an expression */
	JINJA_DEPTH_MAX = 900,        /* nesting at run time, calls of macros included */
	JINJA_STEPS_MAX = 30000000,   /* operations; one on long text counts by its length */
	JINJA_MEMORY_MAX = 256 << 20, /* bytes of values, without the texts given */
	JINJA_OUTPUT_MAX = 64 << 20,  /* bytes of output beyond four times the texts given */
};

struct jinja;

/* Parse a template. ERR_MODEL with its line where the text is no template or uses a statement that is not supported.
 * The result does not change any more: threads may share it. The text is copied. */
int jinja_compile(struct jinja **out, const char *text, size_t n, struct err *);
void jinja_free(struct jinja *);

/* Where bytes come from: the template, or a text given to it by this number; of several texts or changed,
 * JINJA_MIXED. */
enum { JINJA_TEMPLATE = -1, JINJA_MIXED = -2 };

struct jinja_piece {
	const char *p;
	size_t n;
	int32_t from;
};
/* in_parts: its content is not the text but a list of one part, {"type": "text", "text": ...}. */
struct jinja_message {
	const char *role, *text;
	size_t len;
	int in_parts;
};

/* What a chat template is given.  Message i's text has the origin i; its role, bos and eos count as the template's. */
struct jinja_chat {
	const struct jinja_message *m;
	size_t n;
	const char *bos, *eos; /* texts of these tokens, "" for none: bos_token, eos_token */
	int reply;             /* add_generation_prompt */
	int thinking;          /* enable_thinking, thinking: 1, 0; -1: not defined */
};
/* Render: `write` is called with each piece in order; pieces of message texts point into them. -1 and ERR_USAGE where
 * the template refuses the conversation (raise_exception), ERR_MODEL where it fails or exceeds a bound; the message has
 * the line. Pieces may have been written before. */
int jinja_run(const struct jinja *, const struct jinja_chat *, void (*write)(void *ud, const struct jinja_piece *),
              void *ud, struct err *);

#endif
