/* engine/cache/policy_def.h (private to engine/) - what a cache policy is.
 *
 * A policy names a retention (retain_*.c), which decides which entries stay in the cache. It may also name a selector
 * (policies/select_*.c), which decides which of the kept entries a decoded token reads. Its settings are a struct that
 * is defined only in the policy's own file and described by a table of struct param. */
#ifndef WEIR_POLICY_DEF_H
#define WEIR_POLICY_DEF_H

#include "engine/engine.h"

/* ---- settings ---- */

enum param_type { PARAM_INT, PARAM_ODD, PARAM_REAL, PARAM_COUNT, PARAM_CHOICE, PARAM_REMOVED };
/* A setting of a policy. A PARAM_ODD is an odd integer. A PARAM_REMOVED is a setting that only older versions had
 * (macro REMOVED). */
struct param {
	const char *key;
	enum param_type type;
	/* offset of the value in the policy's settings; the value is a struct entry_count for PARAM_COUNT, an int for
	 * PARAM_CHOICE */
	size_t off;
	double min, max; /* allowed range of the value if it is a number */
	/* The allowed values of the setting, separated by "|". For PARAM_CHOICE, for example "kv|layer", the index of
	 * the value is stored, here 0 or 1. For PARAM_INT, for example "2|4|8", the number itself is stored. */
	const char *choices;
	const char *preset; /* default value as text */
	const char *help;
};

/* Declare a setting that only older versions had. Its value is now fixed. preset_ is this value as text, `number` the
 * same value as policy_identity() wrote it. Users cannot set it, and kv_policy_current() removes it from stored texts.
 * policy_identity() still contains the number, so that snapshots of older versions are found. */
#define REMOVED(key_, preset_, number)                                                                                 \
	{                                                                                                              \
		.key = key_, .type = PARAM_REMOVED, .choices = #number, .preset = preset_                              \
	}

/* A number of KV entries. If share > 0, the number is `share` times the sequence's length. Otherwise the number is
 * n. */
struct entry_count {
	int32_t n;
	double share;
};
/* Return the number of entries for a sequence of `length` tokens, at least 1. */
int32_t entry_count_of(struct entry_count, int32_t length);

struct policy_def;
enum { POLICY_VALUES = 128 };
/* A policy and its settings. May be copied. */
struct policy {
	const struct policy_def *def;
	/* the policy's settings: a struct defined in the policy's file, padded with zero bytes */
	union {
		double align;
		unsigned char values[POLICY_VALUES];
	};
};

struct cache;
struct retention_ops;
struct selector_ops;
struct policy_def {
	const char *name, *help;    /* `name` is, for example, "cascade"; `help` is one line of help text */
	const struct param *params; /* terminated by key = NULL */
	/* the settings of the method's authors that differ from the defaults, "key=value,..."; "": no setting differs;
	 * NULL: the policy is not a published method */
	const char *published;
	/* A setting with a value that only older versions accepted, "key=value", or NULL. kv_policy_current() removes it
	 * from stored texts. */
	const char *gone;
	/* Set values that users cannot set: policy `recycled`, for example, is `refresh` with a fixed stride. The
	 * pointer may be NULL. */
	void (*preset)(void *values);
	const struct retention_ops *retention;
	/* selects which of the kept entries a decoded token reads; NULL: a decoded token reads all entries */
	const struct selector_ops *selector;
	int observes_all; /* 1: the selector observes a prefill from the first token on */
	/* Choose the selector by the policy's settings: set *selects to the policy whose selector is used. If compose()
	 * sets selects->def to NULL, decoded tokens read all entries. The member `selector` is used only if the pointer
	 * `compose` is NULL. */
	void (*compose)(const struct policy *, struct policy *selects);
};

#endif
