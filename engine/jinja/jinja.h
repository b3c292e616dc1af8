/* engine/jinja/jinja.h (private to engine/) - interprets the part of Jinja2 that chat templates use. jinja_compile()
 * turns a template's text into a tree. jinja_run() turns the tree and a conversation into pieces of text, each with its
 * origin.
 *
 * The language is Jinja2 as the transformers library sets it up, with its options, extra functions and immutable
 * sandbox. There are three differences. Dictionaries cannot be changed at all. The filters and methods `upper` and
 * `lower` change ASCII letters only. The statements include, import, extends, block and do are refused.
 *
 * A template comes with a model, so it may be hostile. Steps, depth, memory and output are bounded, and a template can
 * read only the arguments of jinja_run().
 *
 * Each byte of a string has an origin: the template or one of the messages. The origin stays with the byte through all
 * operations. So the caller can recognise control tokens in the template's own bytes only, and a message cannot inject
 * one. */
#ifndef WEIR_JINJA_H
#define WEIR_JINJA_H

#include "engine/base/base.h"

enum {
	JINJA_TEXT_MAX = 1 << 20,     /* maximum length of a template in bytes */
	JINJA_NEST_MAX = 200,         /* maximum depth of nested blocks, and of operators in an expression */
	JINJA_DEPTH_MAX = 900,        /* maximum depth of nesting at run time, calls of macros included */
	JINJA_STEPS_MAX = 30000000,   /* maximum number of operations; an operation on long text counts as several */
	JINJA_MEMORY_MAX = 256 << 20, /* values may take this many bytes + 4 * the bytes of all messages */
	JINJA_OUTPUT_MAX = 64 << 20,  /* the output may have this many bytes + 4 * the bytes of all messages */
};

struct jinja;

/* Parse a template; its text is copied. On a syntax error or an unsupported statement return -1 with ERR_MODEL and the
 * number of the line. *out never changes, so threads may share it. */
int jinja_compile(struct jinja **out, const char *text, size_t n, struct err *);
void jinja_free(struct jinja *);

/* Origins of bytes. A number i >= 0 stands for the unchanged text of message i. JINJA_TEMPLATE is the template.
 * JINJA_MIXED is text of a message that the template changed, for example with upper(). */
enum { JINJA_TEMPLATE = -1, JINJA_MIXED = -2 };

/* Some bytes of text that have the same origin: all are text of one message, for example, or all are from the
 * template. */
struct jinja_piece {
	const char *p;
	size_t n;
	int32_t from; /* origin of these bytes: index of a message, JINJA_TEMPLATE or JINJA_MIXED */
};
struct jinja_message {
	const char *role, *text;
	size_t len;   /* number of bytes */
	int in_parts; /* 1: content is a list [{"type": "text", "text": ...}]; 0: content is the text */
};

/* The variables of a chat template. The text of message i has the origin i. The texts of role, bos and eos have the
 * origin JINJA_TEMPLATE. */
struct jinja_chat {
	const struct jinja_message *m; /* messages */
	size_t n;
	const char *bos, *eos; /* bos_token and eos_token; "": the model has no such token */
	int reply;             /* value of add_generation_prompt */
	int thinking;          /* value of the variables enable_thinking and thinking; -1: both are undefined */
};
/* Render a conversation and call `write` with each piece of the output, in order. Unchanged message text is not copied:
 * its pieces point into the messages. Return -1 with ERR_USAGE if the template refuses the conversation
 * (raise_exception), and with ERR_MODEL if the template fails or exceeds a bound. The error has the line number in the
 * template. On failure some pieces may already have been written. */
int jinja_run(const struct jinja *, const struct jinja_chat *, void (*write)(void *ud, const struct jinja_piece *),
              void *ud, struct err *);

#endif
