/* engine/lab/lab.h - interface for experiments, used by the program weir-lab (app/lab) and tests only: comparing
 * cache policies, training the network of the policy `predict`, training models.
 *
 * Functions that return int return 0, or -1 with the reason in *err, unless their comment says otherwise. */
#ifndef WEIR_ENGINE_LAB_H
#define WEIR_ENGINE_LAB_H

#include "engine/engine.h"

/* ---- how much of full attention a selection policy would keep (observe_recovery.c) ---- */

enum { WATCH_MAX = 32 };
/* Begin to watch n selection policies (sift, refresh, ...; at most WATCH_MAX). The sequence is computed with full
 * attention. For each generated token every watched policy also selects, and the probability on its selection is
 * summed. The timeline must have the policy `full` and no tokens. While policies are watched, the sequence cannot be
 * saved or loaded, and tokens are not drafted. Watching ends when the timeline's policy changes. */
int timeline_watch(struct timeline *, const char *const *kv, int n, struct err *);

/* Sums over `steps` generated tokens (divide by steps for averages). mass, oracle and recent are shares of attention
 * on equally many KV entries, chosen in three ways; each is the mean over query heads and layers. */
struct recovered {
	double mass;   /* share on the entries that the policy selects */
	double oracle; /* share on the entries with the highest probabilities in each KV head: the best possible */
	double recent; /* share on the first 4 entries and the newest ones */
	/* Shares of attention on entries guessed from earlier tokens, together with the token's own entry. Sums over
	 * `guesses` tokens: the first token generated after a prefill has no guess. */
	double last_row; /* share on the entries with the highest probabilities for the previous token */
	/* share on the entries with the highest mean probability over all tokens generated since the last prefill */
	double mean_row;
	int64_t guesses;
	double selected; /* number of entries that the policy would read, mean over the layers */
	double all;      /* number of all entries, mean over the layers */
	int64_t steps;
};
/* Get the sums of watched policy i. Return -1 if there is no such policy. */
int timeline_recovery(const struct timeline *, int i, struct recovered *out);

/* Sums by the age of a selection, for policies that reuse one selection for several tokens. The age is the number of
 * tokens since the token that selected; the last token of a prefill selects, too. The last element also sums all larger
 * ages. A layer is not counted while it reads everything. */
enum { RECOVERY_AGES = 65 };
struct recovered_ages {
	double mass[RECOVERY_AGES]; /* sums of the probability on the entries that would be read */
	int64_t n[RECOVERY_AGES];   /* number of pairs (token, layer) in each sum */
};
/* Get the sums by age of watched policy i. Return -1 if there is no such policy, or if it selects anew for each
 * token. */
int timeline_recovery_ages(const struct timeline *, int i, struct recovered_ages *out);
/* Counts that tell how often a layer selects anew, for policies that reuse one selection for several tokens. */
struct recovered_layer {
	int64_t tokens;   /* number of generated tokens for which the layer had a selection */
	int64_t selected; /* number of generated tokens for which the layer selected anew */
};
/* Get the counts of a layer for watched policy i. Return -1 if there is no such policy or layer, or if the policy
 * selects anew for each token. */
int timeline_recovery_layer(const struct timeline *, int i, int32_t layer, struct recovered_layer *out);
/* Measure how similar the queries of consecutive generated tokens are in a layer. For each query head h, set cosine[h]
 * to a sum over pairs of tokens: the cosine between their unrotated queries. Return the number of pairs; 0 = none yet,
 * or the layer has a sliding window; -1 = nothing is watched, or no such layer. */
int64_t timeline_query_cosine(const struct timeline *, int32_t layer, double *cosine);

/* ---- training the network of the cache policy `predict` (policies/predictor.h, predictor_train.c) ---- */

/* Begin to record attention (observe_rows.c): one row of probabilities for each of the `last` tokens of a prefill and
 * for each generated token, `most` rows at most, with a column for each block of `block` KV entries. The timeline
 * must have the policy `full`. Recording ends when the timeline is closed or its policy changes. It does not change
 * what the timeline computes. */
int timeline_rows_begin(struct timeline *, int32_t block, int32_t last, int32_t most, struct err *);

struct predictor_settings {
	int32_t block, rows; /* KV entries per block, tokens of the history; both are settings of `predict` */
	int32_t dense;       /* number of first layers in which `predict` reads everything; they give no examples */
	int32_t crops;       /* number of examples to train on */
	int32_t epochs;      /* passes over the examples */
	uint64_t seed;
};
struct predictor_trainer;
int predictor_trainer_open(struct predictor_trainer **, struct engine *, const struct predictor_settings *,
                           struct err *);
/* NULL is allowed. */
void predictor_trainer_close(struct predictor_trainer *);
/* Take up to n examples from the rows recorded in a timeline, to train on or (held_out = 1) to test with. Return how
 * many were taken. */
int32_t predictor_trainer_add(struct predictor_trainer *, const struct timeline *, int32_t n, int held_out);
/* Results of tests that select a tenth of the blocks: those with the largest predicted values. `best` is the share of
 * attention on the tenth that gets most attention. The other members are the attention on the selected blocks, as a
 * share of `best`. */
struct predictor_found {
	double net;   /* predicted by the network */
	double last;  /* predicted by the previous token's row */
	double mean;  /* predicted by the mean of all rows of the history */
	double mixed; /* predicted by 0.3 * last + 0.7 * mean */
	double best;  /* no prediction: the blocks are ranked by the attention that they get */
};
struct predictor_epoch {
	/* mean over the examples of the squared error divided by the example's mean square; 0 = before the first
	 * epoch */
	double loss;
	struct predictor_found found; /* results on the held-out examples */
	int best;                     /* 1: found.net is the best one so far */
};
typedef int predictor_progress_fn(int32_t done, int32_t total, void *ud); /* return nonzero to stop */
/* Train for one epoch, then test. The first call does not train: it tests the initial network. */
int predictor_trainer_epoch(struct predictor_trainer *, predictor_progress_fn *, void *ud, struct predictor_epoch *out,
                            struct err *);
/* Store the network of the best epoch in the user's file for this model, block size and number of rows
 * (predictor_file.c), which `predict` reads. Append the file's path. */
int predictor_trainer_save(struct predictor_trainer *, struct str *path, struct err *);

/* ---- training a model (train.h) ---- */

/* The earlier entries that each token of a training window attends to. k = 0: all of them. k > 0: those that generated
 * tokens would read under the cache policy `recycled` with these settings (train_attention.c). */
struct train_mask {
	int32_t k, prefill, stride, pool;
};
/* Parse "full" or "recycled:prefill=N,k=N,stride=N,pool=N". ERR_USAGE: the text is neither. */
int train_mask_parse(const char *text, struct train_mask *out, struct err *);

struct train_settings {
	int32_t context;       /* tokens of a window, a training sequence */
	int32_t batch;         /* windows of a step */
	int32_t fixed;         /* number of first tokens of a window without loss and gradient: a constant prefix */
	int32_t steps, warmup; /* the learning rate rises over `warmup` steps, then falls along a cosine to a tenth */
	double rate;           /* AdamW's learning rate */
	double clip;           /* the gradient of a step is clipped to this norm; 0 = not clipped */
	/* rank of a LoRA adapter for all matrices in the layers; 0 = train all weights instead */
	int32_t rank;
	double alpha; /* alpha of the LoRA adapter */
	struct train_mask mask;
	uint64_t seed; /* random seed of the choice of windows and of the adapter's first weights */
	int threads;
};
struct train_report {
	int32_t step; /* from 1 */
	double loss;  /* mean over the tokens of -ln of their probabilities */
	double rate;  /* learning rate of the step */
	double norm;  /* norm of the gradient before clipping */
};
struct trainer;
/* Open a trainer. The engine must be opened with inspect_only. ERR_MODEL: the model's layers have parts that training
 * does not support. */
int trainer_open(struct trainer **, struct engine *, const struct train_settings *, struct err *);
/* NULL is allowed. */
void trainer_close(struct trainer *);
/* Make one training step on random windows of the text id[0 .. n), where n > context. stopped (may be NULL) is called
 * before each window: if it returns nonzero, the call ends with ERR_CANCELLED, and no step is made. */
int trainer_step(struct trainer *, const int32_t *id, size_t n, int (*stopped)(void), struct train_report *,
                 struct err *);
/* Set *out to the loss of one window under this mask: the sum of -ln of the probabilities of the tokens after the
 * constant prefix. id has context + 1 tokens, because the last one is predicted, too. */
int trainer_loss(struct trainer *, const int32_t *id, const struct train_mask *, double *out, struct err *);
/* Return the number of steps made. */
int32_t trainer_at(const struct trainer *);
/* Store a checkpoint: all that the next step depends on, except the texts. Training that continues from it gives the
 * same bits. The file is replaced atomically. */
int trainer_save(const struct trainer *, const char *path, struct err *);
/* Load a checkpoint. Return 1; 0 = no such file; -1 = it is damaged, or from training with another model or other
 * settings. */
int trainer_load(struct trainer *, const char *path, struct err *);
/* Write the result as a GGUF file: the adapter in llama.cpp's format, or the whole model. Matrices are F16 if `half`,
 * else F32. */
int trainer_write(const struct trainer *, const char *path, int half, struct err *);
/* Check that the file can be written, before hours of training. */
int trainer_can_write(const char *path, struct err *);

#endif
