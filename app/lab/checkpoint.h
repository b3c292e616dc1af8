/* app/lab/checkpoint.h - inside app/lab: finished results, stored in a file and found there again (--resume). */
#ifndef WEIR_EVAL_CHECKPOINT_H
#define WEIR_EVAL_CHECKPOINT_H

#include "app/conversation/conversation.h"
#include "engine/base/json.h"

/* A result and its key, a JSON object of everything that decides the result. Both point into the text of the
 * checkpoint. */
struct finished {
	struct jv key, result;
};
struct checkpoint {
	const struct options *o;
	int fd;          /* -1: nothing is stored (no --resume) */
	struct str text; /* the file's bytes at opening */
	struct finished *done;
	size_t n, cap;   /* sorted by key */
	struct str same; /* members that all keys share: model, engine, element type of the cache, chunk */
	int64_t taken, added;
};
/* Open the file that --resume names, and say how many results it has. A file with other content is refused and not
 * changed. */
int checkpoint_open(struct checkpoint *, const struct options *, struct err *);
void checkpoint_close(struct checkpoint *);
/* Note the model that runs; call before the first key. */
int checkpoint_model(struct checkpoint *, const struct engine *, struct err *);
/* Begin a key, an open JSON object; the caller adds its own members and closes it. */
void checkpoint_key(const struct checkpoint *, const char *task, const char *kv, int32_t ctx, struct str *out);
/* 1 if the file has a result with this key. The caller validates the result, then counts it in `taken`. */
int checkpoint_get(struct checkpoint *, const struct str *key, struct jv *result);
/* Append a result to the file. key and result are JSON objects. */
int checkpoint_put(struct checkpoint *, const struct str *key, const struct str *result, struct err *);
/* Hash a text or its tokens, for keys. */
uint64_t checkpoint_hash(const void *bytes, size_t n);

#endif
