/* engine/lab/lab.h - the door to the engine's laboratory, for weir-lab (app/lab) and tests alone: comparisons of what
 * cache policies select, training of the network of `predict`, training of models.
 *
 * Functions that return int give 0, or -1 with the reason in *err, unless their comment says otherwise. */
#ifndef WEIR_ENGINE_LAB_H
#define WEIR_ENGINE_LAB_H

#include "engine/engine.h"

/* ---- what selection policies would recover of full attention (observe_recovery.c) ---- */

enum { WATCH_MAX = 32 };
/* Watch n selection policies (sift, refresh, ...), WATCH_MAX at most, beside full attention: each selects for every
 * generated token, and the attention on its selection is summed. Results do not change. The timeline has the policy
 * `full` and no tokens yet. Watching ends with a change of policy. While it lasts, the sequence cannot be saved or
 * loaded, and tokens are not drafted. */
int timeline_watch(struct timeline *, const char *const *kv, int n, struct err *);

/* Sums over `steps` generated tokens; divide by steps. A probability is a mean over query heads and layers. Each is
 * the probability on as many KV entries as the policy selects. */
struct recovered {
	double mass;   /* on the policy's selection */
	double oracle; /* on the most probable entries of each KV head */
	double recent; /* on the first 4 and the newest entries */
	/* On sets guessed from earlier tokens, with the token's own entry; sums over `guesses` tokens, which are
	 * fewer than steps: the first generated token after a prefill has no guess. */
	double last_row; /* on the most probable entries of the token before */
	double mean_row; /* on the most probable entries of the mean over the tokens generated since the last prefill */
	int64_t guesses;
	double selected; /* entries that the policy would read, mean over the layers */
	double all;      /* entries that there are, mean over the layers */
	int64_t steps;
};
/* Get the sums of policy i; -1: no such i. */
int timeline_recovery(const struct timeline *, int i, struct recovered *out);

/* Sums by the age of a set, for policies whose sets serve several tokens. Age 0 is the step that selects (the
 * last token of a prefill selects, too), age a is a tokens later; the last class has all later tokens. A layer whose
 * token reads everything and selects nothing is not counted. */
enum { RECOVERY_AGES = 65 };
struct recovered_ages {
	double mass[RECOVERY_AGES]; /* sums of the probability on what was read */
	int64_t n[RECOVERY_AGES];   /* pairs of token and layer in each sum */
};
/* -1: no such i, or its sets serve one token. */
int timeline_recovery_ages(const struct timeline *, int i, struct recovered_ages *out);
struct recovered_layer {
	int64_t tokens;   /* generated tokens for which the layer had a set */
	int64_t selected; /* generated tokens for which the layer selected a new set */
};
int timeline_recovery_layer(const struct timeline *, int i, int32_t layer, struct recovered_layer *out);
/* Sum the similarity of the queries of consecutive generated tokens: cosine[h] is the sum over pairs of tokens of the
 * cosine between query head h's unrotated queries. Return the number of pairs; 0 = no pair, or a layer with a window;
 * -1 = nothing is watched, or no such layer. */
int64_t timeline_query_cosine(const struct timeline *, int32_t layer, double *cosine);

/* ---- training the network of the cache policy `predict` (policies/predictor.h, predictor_train.c) ---- */

/* Keep rows of attention (observe_rows.c) until the timeline is closed or changes its policy: for the `last` tokens
 * of a prefill and each generated token, `most` rows at most, a column for each block of `block` KV entries. The
 * timeline has the policy `full`. Results do not change. */
int timeline_rows_begin(struct timeline *, int32_t block, int32_t last, int32_t most, struct err *);

struct predictor_settings {
	int32_t block, rows; /* KV entries of a block, tokens of the history: settings of the policy */
	int32_t dense;       /* first layers, which `predict` reads whole: they give no examples */
	int32_t crops;       /* examples to train on */
	int32_t epochs;      /* passes over the examples */
	uint64_t seed;
};
struct predictor_trainer;
int predictor_trainer_open(struct predictor_trainer **, struct engine *, const struct predictor_settings *,
                           struct err *);
/* NULL is allowed. */
void predictor_trainer_close(struct predictor_trainer *);
/* Take up to n examples from the timeline's rows, to train on or (held_out = 1) to test with. Return how many were
 * taken. */
int32_t predictor_trainer_add(struct predictor_trainer *, const struct timeline *, int32_t n, int held_out);
/* Test of a prediction: a tenth of the blocks is selected by its largest values. Shares of the attention mass that
 * the best tenth has, except `best`. */
struct predictor_found {
	double net;   /* by the network */
	double last;  /* by the last row */
	double mean;  /* by the mean of the rows */
	double mixed; /* by 0.3 * last + 0.7 * mean */
	double best;  /* by the true row; as a share of all attention */
};
struct predictor_epoch {
	double loss; /* squared error of an example over its own mean square, mean; 0 = before the first epoch */
	struct predictor_found found; /* of the held-out examples */
	int best;                     /* 1: no epoch before found as much */
};
typedef int predictor_progress_fn(int32_t done, int32_t total, void *ud); /* not 0 = stop */
/* Train for one epoch, then test. The first call only tests the network that training begins with. */
int predictor_trainer_epoch(struct predictor_trainer *, predictor_progress_fn *, void *ud, struct predictor_epoch *out,
                            struct err *);
/* Store the network of the best epoch in the user's file for this model, block and number of rows, which `predict`
 * reads. Append the file's path. */
int predictor_trainer_save(struct predictor_trainer *, struct str *path, struct err *);

/* ---- training a model (train.h) ---- */

/* Entries that a token of a window attends to. k = 0: all entries before it. Else the mask of generated tokens under
 * the cache policy `recycled` with these settings (train_attention.c). */
struct train_mask {
	int32_t k, prefill, stride, pool;
};
/* Parse "full" or "recycled:prefill=N,k=N,stride=N,pool=N". ERR_USAGE otherwise. */
int train_mask_parse(const char *text, struct train_mask *out, struct err *);

struct train_settings {
	int32_t context;       /* tokens of a window */
	int32_t batch;         /* windows of a step */
	int32_t fixed;         /* first tokens of a window, a constant prefix: no loss and no gradient */
	int32_t steps, warmup; /* the rate rises over `warmup` steps, then falls along a cosine to a tenth */
	double rate;           /* AdamW's learning rate */
	double clip;           /* largest norm of a step's gradient; 0 = unlimited */
	int32_t rank;          /* rank of a LoRA adapter of all matrices in the layers; 0 = train all weights */
	double alpha;          /* alpha of the LoRA adapter */
	struct train_mask mask;
	uint64_t seed; /* decides the choice of windows and the adapter's first weights */
	int threads;
};
struct train_report {
	int32_t step;
	double loss; /* mean of -ln p */
	double rate;
	double norm; /* norm of the gradient before clipping */
};
struct trainer;
/* The engine was opened with inspect_only, on the CPU. ERR_MODEL: the family has other than plain layers. */
int trainer_open(struct trainer **, struct engine *, const struct train_settings *, struct err *);
/* NULL is allowed. */
void trainer_close(struct trainer *);
/* Make one step on windows of id[0 .. n), where n > context. stopped (may be NULL) is called between windows: not 0
 * ends the call with ERR_CANCELLED, and no step was made. */
int trainer_step(struct trainer *, const int32_t *id, size_t n, int (*stopped)(void), struct train_report *,
                 struct err *);
/* Set *out = the sum of -ln p over the window id[0 .. context] behind its prefix, under this mask. */
int trainer_loss(struct trainer *, const int32_t *id, const struct train_mask *, double *out, struct err *);
/* Return the number of steps made. */
int32_t trainer_at(const struct trainer *);
/* Store a checkpoint: all that the next step depends on, except the texts. Training that continues from it has the
 * same bits. The file is replaced atomically. */
int trainer_save(const struct trainer *, const char *path, struct err *);
/* Load a checkpoint. Return 1; 0 = no such file; -1 = damaged, or of another training. */
int trainer_load(struct trainer *, const char *path, struct err *);
/* Write a GGUF file: the adapter in llama.cpp's format, or the whole model, its matrices as F32, or F16 if `half`. */
int trainer_write(const struct trainer *, const char *path, int half, struct err *);
/* Check that the file can be written, before hours of training. */
int trainer_can_write(const char *path, struct err *);

#endif
