/* engine/lab/lab.h - interface for experiments, used by the program weir-lab (app/lab) and tests only: comparing
 * cache policies, training the network of the policy `predict`, training models.
 *
 * Unless its comment says otherwise, a function that returns int returns 0, or -1 with the reason in *err. */
#ifndef WEIR_ENGINE_LAB_H
#define WEIR_ENGINE_LAB_H

#include "engine/engine.h"

/* ---- texts of cache policies (policy_texts.c) ---- */

/* Append the text of a policy with one setting changed. Settings that have their default are omitted. The error is
 * ERR_USAGE if there is no such setting or value. */
int kv_policy_with(const char *text, const char *key, const char *value, struct str *out, struct err *);
/* Whether KV entries can be kept when timeline_switch_kv() changes the policy. */
enum kv_sharing {
	KV_SHARES_NOTHING, /* entries are never kept, because the policy evicts */
	/* entries are kept when a timeline switches from this policy to another one. They are not kept when it
	 * switches to this policy, which must observe a whole prefill. */
	KV_SHARES_AFTER,
	KV_SHARES_BOTH /* entries are kept when a timeline switches to this policy or from it */
};
enum kv_sharing kv_policy_sharing(const char *text);

/* ---- how much of full attention a selection policy would keep (observe_recovery.c) ---- */

enum { WATCH_MAX = 32 };
/* Begin to watch n selection policies (sift, refresh, ...; n at most WATCH_MAX). The sequence is computed with full
 * attention. For each generated token, every watched policy also selects entries, and the probability that falls on the
 * selected entries is summed. The timeline must have the policy `full` and no tokens. While policies are watched, the
 * sequence cannot be saved or loaded, and tokens are not drafted. Watching ends when the timeline's policy changes. */
int timeline_watch(struct timeline *, const char *const *kv, int n, struct err *);

/* Sums over `steps` generated tokens. Divide them by `steps` to get averages. The members `mass`, `oracle` and `recent`
 * are shares of attention on three sets with the same number of KV entries. Each share is the mean over query heads and
 * layers. */
struct recovered {
	double mass; /* share of attention on the entries that the policy selects */
	/* share of attention on the entries with the highest probabilities in each KV head; no other set of the same
	 * size can have a larger share */
	double oracle;
	double recent; /* share of attention on the first 4 entries and the newest entries */
	/* Shares of attention on entries that are guessed from the attention of earlier tokens. A guess has as many
	 * entries as the policy selects, and always includes the token's own entry. These shares are sums over
	 * `guesses` tokens: there is no guess for the first token generated after a prefill. */
	double last_row; /* share of attention on the entries to which the previous token attended most */
	/* share of attention on the entries with the highest mean probability, averaged over all tokens generated since
	 * the last prefill */
	double mean_row;
	int64_t guesses;
	double selected; /* number of entries that the policy would read, mean over the layers */
	double all;      /* number of all entries, mean over the layers */
	int64_t steps;
};
/* Get the sums of watched policy i. Return -1 if there is no policy i. */
int timeline_recovery(const struct timeline *, int i, struct recovered *out);

/* Sums by the age of a selection, for policies that use a selection for several tokens. The age is the number of tokens
 * since the selection was made, by a generated token or by the last token of a prefill. The last element of each array
 * also counts all larger ages. Tokens that read all entries of a layer without selecting are not in the sums of this
 * layer. */
enum { RECOVERY_AGES = 65 };
struct recovered_ages {
	/* [age] sum of the probability that falls on the entries that the policy would read */
	double mass[RECOVERY_AGES];
	int64_t n[RECOVERY_AGES]; /* [age] number of pairs (token, layer) in the sum */
};
/* Get the sums of watched policy i for each age of the selection. Return -1 if there is no such policy, or if it
 * makes a new selection for each token. */
int timeline_recovery_ages(const struct timeline *, int i, struct recovered_ages *out);
/* How often a layer makes a new selection, for policies that use a selection for several tokens. */
struct recovered_layer {
	int64_t tokens;   /* number of generated tokens that used a selection of the layer */
	int64_t selected; /* number of generated tokens that made a new selection in the layer */
};
/* Get the counts of a layer for watched policy i. Return -1 if there is no such policy or layer, or if the policy makes
 * a new selection for each token. */
int timeline_recovery_layer(const struct timeline *, int i, int32_t layer, struct recovered_layer *out);
/* Measure how similar the queries of consecutive generated tokens are in a layer. Set cosine[h] for each query head h
 * to the sum of the cosines between their unrotated queries, over all pairs of consecutive tokens. Return the number of
 * pairs. The number is 0 if there are no pairs yet, or if the layer has a sliding window. Return -1 if nothing is
 * watched, or if there is no such layer. */
int64_t timeline_query_cosine(const struct timeline *, int32_t layer, double *cosine);

/* ---- training the network of the cache policy `predict` (policies/predictor.h, predictor_train.c) ---- */

/* Begin to record attention (observe_rows.c). A row has a token's probabilities, with one column for each block of
 * `block` KV entries. Rows are recorded for the last tokens of a prefill (at most `last`) and for the generated
 * tokens after it, until there are `most` rows. The next prefill replaces all rows. The timeline must have the policy
 * `full`. Recording ends when the timeline is closed or its policy changes. Recording does not change what the
 * timeline computes. */
int timeline_rows_begin(struct timeline *, int32_t block, int32_t last, int32_t most, struct err *);

struct predictor_settings {
	/* `block` is the number of KV entries per block, `rows` the number of tokens of the history. Both are settings
	 * of the policy `predict`. */
	int32_t block, rows;
	/* The policy `predict` reads all entries in the first `dense` layers, so these layers give no examples. */
	int32_t dense;
	int32_t crops;  /* number of examples to train on */
	int32_t epochs; /* number of passes over the examples */
	uint64_t seed;
};
struct predictor_trainer;
int predictor_trainer_open(struct predictor_trainer **, struct engine *, const struct predictor_settings *,
                           struct err *);
/* NULL is allowed. */
void predictor_trainer_close(struct predictor_trainer *);
/* Take up to n examples from the rows recorded in a timeline. If held_out is 1, the examples are for testing, otherwise
 * for training. Return how many examples were taken. */
int32_t predictor_trainer_add(struct predictor_trainer *, const struct timeline *, int32_t n, int held_out);
/* Test results of several ways to select a tenth of the blocks. A result is the share of attention that falls on the
 * selected blocks, divided by `best`, the largest possible share. */
struct predictor_found {
	double net;  /* result of selecting by the network's predictions */
	double last; /* result of selecting by the attention of the previous token */
	double mean; /* result of selecting the blocks with the highest mean attention of all tokens of the history */
	/* result of selecting by 0.3 * the previous token's attention + 0.7 * the mean attention of all tokens of the
	 * history */
	double mixed;
	double best; /* share of attention on the tenth of the blocks with the most attention */
};
struct predictor_epoch {
	/* mean over the examples of the squared error, relative to the mean square of the example's input; 0 before the
	 * first epoch */
	double loss;
	struct predictor_found found; /* results on the held-out examples */
	int best;                     /* 1: found.net is larger than after any earlier epoch */
};
/* called during an epoch; return nonzero to stop it */
typedef int predictor_progress_fn(int32_t done, int32_t total, void *ud);
/* Train for one epoch, then test. The first call does not train: it tests the initial network. */
int predictor_trainer_epoch(struct predictor_trainer *, predictor_progress_fn *, void *ud, struct predictor_epoch *out,
                            struct err *);
/* Store the network of the best epoch in the user's file (predictor_file.c). The policy `predict` reads this file for
 * this model, block size and number of rows. Append the file's path to *path. */
int predictor_trainer_save(struct predictor_trainer *, struct str *path, struct err *);

/* ---- training a model (train.h) ---- */

/* Which earlier entries each token of a training window attends to. If k = 0, it attends to all of them. If k > 0, it
 * attends to the entries that a generated token would read under the cache policy `recycled` with these settings
 * (train_attention.c). */
struct train_mask {
	int32_t k, prefill, stride, pool;
};
/* Parse "full" or "recycled:prefill=N,k=N,stride=N,pool=N". The error is ERR_USAGE if the text is invalid. */
int train_mask_parse(const char *text, struct train_mask *out, struct err *);

struct train_settings {
	int32_t context; /* number of tokens of a window (a training sequence) */
	int32_t batch;   /* number of windows of a training step */
	/* number of tokens at the beginning of a window that are a constant prefix: they have no loss and no
	 * gradient */
	int32_t fixed;
	/* The learning rate rises over `warmup` steps. Then it falls along a cosine, to a tenth at step `steps`. */
	int32_t steps, warmup;
	double rate; /* AdamW's learning rate */
	double clip; /* the gradient of a step is clipped to this norm; 0: it is not clipped */
	/* rank of a LoRA adapter for all matrices in the layers; 0: there is no adapter, and all weights are trained */
	int32_t rank;
	double alpha; /* alpha of the LoRA adapter */
	struct train_mask mask;
	uint64_t seed; /* random seed, which decides which windows are taken, and the adapter's initial weights */
	int threads;
};
struct train_report {
	int32_t step; /* number of the step, counted from 1 */
	double loss;  /* mean of -ln p(token) over the step's tokens after the constant prefix */
	double rate;  /* learning rate of the step */
	double norm;  /* norm of the gradient before clipping */
};
struct trainer;
/* Open a trainer. The engine must be opened with inspect_only. The error is ERR_MODEL if the model's layers have parts
 * that training does not support. */
int trainer_open(struct trainer **, struct engine *, const struct train_settings *, struct err *);
/* NULL is allowed. */
void trainer_close(struct trainer *);
/* Make one training step on random windows of the text, which is the n tokens id[]; n > context. If stopped() is not
 * NULL, it is called before each window. If it returns nonzero, trainer_step() returns ERR_CANCELLED, and the step has
 * no effect. */
int trainer_step(struct trainer *, const int32_t *id, size_t n, int (*stopped)(void), struct train_report *,
                 struct err *);
/* Set *out to the loss of one window under this mask: the sum of -ln p(token) over the tokens after the constant
 * prefix. `id` has context + 1 tokens: the last one is the token after the window, which is predicted, too. */
int trainer_loss(struct trainer *, const int32_t *id, const struct train_mask *, double *out, struct err *);
/* Return the number of steps made so far. */
int32_t trainer_at(const struct trainer *);
/* Store a checkpoint: everything on which the next step depends, except the texts. Training that continues from the
 * checkpoint computes the same bits as uninterrupted training. The file is replaced atomically. */
int trainer_save(const struct trainer *, const char *path, struct err *);
/* Load a checkpoint. Return 1 if it was loaded, and 0 if there is no such file. Return -1 if the file is damaged, or if
 * it is from training with another model or other settings. */
int trainer_load(struct trainer *, const char *path, struct err *);
/* Write the result as a GGUF file: the adapter in llama.cpp's format or, if there is no adapter, the whole model.
 * Matrices are F16 if half = 1, otherwise F32. */
int trainer_write(const struct trainer *, const char *path, int half, struct err *);
/* Check that the file can be written. Call this function before hours of training. */
int trainer_can_write(const char *path, struct err *);

#endif
