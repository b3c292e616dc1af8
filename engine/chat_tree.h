/* engine/chat_tree.h (private to engine/chat_parse.c and engine/chat_skeleton.c) - a template as a tree of blocks. */
#ifndef WEIR_CHAT_TREE_H
#define WEIR_CHAT_TREE_H

#include <string.h>
#include "engine/chat_private.h"

enum { MAX_DEPTH = 48, MAX_NAMES = 200, MAX_NODES = 20000, MAX_TOKENS = 120000 };

enum tok_kind { TOK_NAME, TOK_NUM, TOK_STR, TOK_OP };
struct tok { enum tok_kind kind; size_t off, len; };       /* text in the pool; strings decoded */

enum node_kind { N_OUT, N_IF, N_BRANCH, N_FOR, N_SET, N_SETBLOCK, N_MACRO, N_JUMP };
struct node {
	enum node_kind kind;
	size_t a, b;               /* tokens a .. b: the expression, condition or header */
	int is_text;               /* N_OUT: literal text at off, len; otherwise an expression */
	int is_else;               /* N_BRANCH: else, without a condition */
	size_t off, len;           /* in the pool: literal text; after pruning also the canonical expression or condition */
	size_t name, name_len;     /* in the pool, of N_SET, N_SETBLOCK and N_MACRO: the name that is defined */
	size_t child, next;        /* first child and next sibling: node index + 1, 0 = none */
};

enum state { S_UNKNOWN, S_UNDEF, S_NONE, S_FALSE, S_TRUE, S_EMPTY, S_STRING, S_TEXT /* not empty */, S_ROLE, S_MESSAGE, S_MESSAGES };
struct binding { size_t off, len; enum state state; };

struct skel {
	struct str src;            /* the template, newlines normalised */
	struct str pool;
	struct tok *tok; size_t n_tok, cap_tok;
	struct node *node; size_t n_node, cap_node;
	struct binding env[MAX_NAMES]; size_t n_env;
	int depth;
	struct err *e;
};

/* chat_parse.c: parse a template; the root of the tree is node 1, a N_BRANCH. */
int chat_parse(struct skel *, const char *text, size_t len);
/* Add a node: its index + 1, or 0 with the error set. */
size_t chat_node(struct skel *, enum node_kind);
/* Set the error `why`, whose subject is the template ("it is empty"), and return -1. */
int chat_refuse(struct skel *, const char *why);

static inline const char *at(const struct skel *s, size_t off) { return s->pool.p + off; }
static inline int is_name(unsigned char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}
static inline int bytes_are(const char *p, size_t n, const char *word)
{
	return strlen(word) == n && !memcmp(p, word, n);
}
static inline int tok_is(const struct skel *s, size_t i, const char *word)
{
	return s->tok[i].kind != TOK_STR && bytes_are(at(s, s->tok[i].off), s->tok[i].len, word);
}

#endif
