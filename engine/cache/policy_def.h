/* engine/cache/policy_def.h (private to engine/) - what a cache policy is: its settings, its retention, its selector.
 *
 * A policy names a retention (what stays in the cache: retain_*.c) and, where generated tokens read only some of it, a
 * selector (which KV entries are read: policies/select_*.c). Its settings are a struct of its own file, described by a
 * table of struct param; nobody else looks into it. */
#ifndef WEIR_POLICY_DEF_H
#define WEIR_POLICY_DEF_H

#include "engine/engine.h"

/* ---- settings ---- */

enum param_type { PARAM_INT, PARAM_ODD, PARAM_REAL, PARAM_COUNT, PARAM_CHOICE }; /* ODD: an odd PARAM_INT */
struct param {
	const char *key;
	enum param_type type;
	/* into the policy's settings; PARAM_COUNT: of a struct entry_count; PARAM_CHOICE: of an int */
	size_t off;
	double min, max;     /* of a number of any type */
	const char *choices; /* "kv|layer": the index is stored; of a PARAM_INT "2|4|8": the numbers it can be */
	const char *preset;  /* default, as text */
	const char *help;
};

/* A number of KV entries: fixed, or a share of the sequence's length. */
struct entry_count {
	int32_t n;
	double share;
}; /* share > 0: n is unused */
/* Entries of a sequence of that length, at least 1. */
int32_t entry_count_of(struct entry_count, int32_t length);

struct policy_def;
enum { POLICY_VALUES = 128 };
/* A policy with its settings; may be copied. */
struct policy {
	const struct policy_def *def;
	/* the settings struct of the policy's own file; unused bytes are 0 */
	union {
		double align;
		unsigned char values[POLICY_VALUES];
	};
};

struct cache;
struct retention_ops;
struct selector_ops;
struct policy_def {
	const char *name, *help;    /* "cascade"; one line */
	const struct param *params; /* ends with key = NULL */
	/* Set what the text cannot express (recycled is refresh at a fixed stride); may be NULL. */
	void (*preset)(void *values);
	const struct retention_ops *retention;
	/* What generated tokens read of the entries that stay for good; NULL: all of them. The selector gets this
	 * policy's settings. */
	const struct selector_ops *selector;
	int observes_all; /* its selector observes a prefill from the first token on */
	/* Instead of selector: the policy whose selector is used, with its settings; its def is NULL where everything
	 * is read. */
	void (*compose)(const struct policy *, struct policy *selects);
};

#endif
