/* app/lab/checkpoint.h - for app/lab only: stores finished results in a file, and finds them there in a later run
 * (--resume). */
#ifndef WEIR_EVAL_CHECKPOINT_H
#define WEIR_EVAL_CHECKPOINT_H

#include "app/conversation/conversation.h"
#include "engine/base/json.h"

/* A stored result and its key, a JSON object with all properties that determine the result. Both point into
 * checkpoint.text. */
struct finished {
	struct jv key, result;
};
struct checkpoint {
	const struct options *o;
	int fd;                /* -1: nothing is stored (no --resume) */
	struct str text;       /* content of the file when it was opened */
	struct finished *done; /* [n] results of the file, sorted by key */
	size_t n, cap;
	struct str same; /* members that every key has: model, engine, element type of the KV cache, chunk size */
	/* `taken` is the number of results that were used from the file, `added` the number of results that were
	 * appended to it */
	int64_t taken, added;
};
/* Open the file that --resume names, and report how many results it has. If the file contains anything else than
 * results of an evaluation, refuse it and do not change it. */
int checkpoint_open(struct checkpoint *, const struct options *, struct err *);
void checkpoint_close(struct checkpoint *);
/* Add the model to all keys. Call this before the first checkpoint_key(). */
int checkpoint_model(struct checkpoint *, const struct engine *, struct err *);
/* Begin a key. The caller adds its own members to the JSON object and closes it. */
void checkpoint_key(const struct checkpoint *, const char *task, const char *kv, int32_t ctx, struct str *out);
/* 1 if the file has a result with this key. The caller must validate the result, and then add 1 to `taken`. */
int checkpoint_get(struct checkpoint *, const struct str *key, struct jv *result);
/* Append a result to the file. key and result are JSON objects. Returns 0 or -1. */
int checkpoint_put(struct checkpoint *, const struct str *key, const struct str *result, struct err *);
/* Return a hash of a text or of its tokens, to be used as a member of a key. */
uint64_t checkpoint_hash(const void *bytes, size_t n);

#endif
