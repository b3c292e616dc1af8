/* engine/engine.h - everything app/ and sessions/ may know about inference.
 *
 * struct engine is a loaded model: immutable, shareable between threads.
 * struct timeline is one token sequence with its KV rows and last logits: one thread at a time.
 * Callers say what the sequence should be; timeline_sync() finds the cheapest way there and
 * timeline_step() continues it.  A chat turn, a retry, an edit, a document and an evaluation are all
 * sync + step. */
#ifndef WEIR_ENGINE_H
#define WEIR_ENGINE_H

#include "engine/base.h"

struct engine;
struct timeline;

/* ---- the model ---- */

struct engine_options {
	const char *model_path;
	const char *device;         /* "cpu", "cuda", or "auto" (NULL): CUDA where there is a device and the weights fit it, else the CPU */
	int threads;                /* 0 = one per available core */
	int vocab_only;             /* metadata and tokenizer only: no weights needed or loaded */
	int inspect_only;           /* everything is checked, no weight is loaded: for looking at a model */
	int check_weights;          /* scan all weights for NaN and infinity */
	const char *pre;            /* pre-tokenizer to use instead of the file's, or NULL */
	const char *chat_template;  /* template family to use instead of the file's, or NULL */
	/* Called while weights are loaded: bytes so far, of all.  NULL: nobody asks. */
	void (*progress)(uint64_t done, uint64_t total, void *ud);
	void *progress_ud;
};

struct engine_info {
	const char *path, *name;            /* name: general.name or the file name */
	char arch[32], quant[16];           /* quant: the type that holds most weight bytes */
	char device[64];                    /* "cpu avx512, 2 threads"; "cuda NVIDIA H100 80GB HBM3, ..." */
	char device_note[200];              /* "auto" found a device and went by: why, as a sentence; "" when there is nothing to say */
	uint64_t device_total;              /* bytes of the device's own memory; 0: it computes in the system's */
	int threads;                        /* CPU threads it computes with */
	char tokenizer[48];                 /* "gpt2/smollm" */
	char template_name[32];             /* "" when there is none or it is unknown */
	char template_error[400];           /* why it is unknown; "" when there is no complaint */
	int has_template;                   /* the file carries one, known or not */
	int thinks_first;                   /* the reply's head opens a thought: an answer begins inside of <think> */
	int think_switch;                   /* REPLY_NO_THOUGHT asks for an answer without one */
	uint64_t weight_bytes, n_params;
	uint64_t bytes_per_token;           /* weight bytes read to decode one token */
	int32_t n_layer, n_embd, n_ff, n_head, n_kv_head, head_dim, n_vocab, ctx_train;
	double rope_base; const char *rope_scaling;   /* "none", "linear", "yarn", "llama3" */
	int tied_output, qkv_bias, qk_norm;
	int32_t bos, eos, eot;              /* -1 = none */
	int add_bos;                        /* the file asks for BOS before raw text */
	const char *n_types;                /* "210 Q4_1, 61 F32, 1 Q8_0" */
};

int  engine_open(struct engine **out, const struct engine_options *, struct err *);
void engine_close(struct engine *);
const struct engine_info *engine_info(const struct engine *);

/* Names the user can choose from, NULL past the end. */
const char *engine_arch_name(size_t i);
const char *engine_pre_name(size_t i);
const char *engine_template_name(size_t i);
/* Recognise a chat template's text: family name, or NULL and why. */
const char *engine_template_detect(const char *text, size_t len, struct err *);
/* What a doctor wants to know: "avx512 (avx512, avx2, c available)". */
const char *engine_cpu_level(void);
/* Bytes a second that `threads` threads read from memory, best of a few passes over `bytes`. */
double engine_bandwidth(int threads, uint64_t bytes);
/* 8-bit multiply-adds a second that they do at most. */
double engine_arithmetic(int threads);
/* Bytes that may still be taken: of the machine, the container and the limits of this process. */
uint64_t engine_memory_free(void);
/* Is there a device for "cuda"?  0, and one line about it with its memory in bytes; -1, and the reason why not. */
struct engine_gpu { char text[160]; uint64_t available, total; };
int engine_gpu(struct engine_gpu *);

/* Bytes a second (read and written) of copying inside the memory that the engine computes in, best of a few passes; 0 where there is
 * no room for it. */
double engine_copy_bandwidth(struct engine *, uint64_t bytes);

enum chat_role { ROLE_SYSTEM, ROLE_USER, ROLE_ASSISTANT };
struct chat_msg {
	enum chat_role role;
	const char *text; size_t len;
	const int32_t *id; size_t n_id;   /* sampled tokens of an answer: used verbatim, so the KV prefix still matches */
};
/* The whole conversation as tokens, BOS included where model and template want one.  Special tokens come
 * from the template only; the same bytes inside text stay plain text.  Appends to *out.  reply: up to where the answer begins;
 * whether the model is asked to answer without thinking first, where its template has a way to say so. */
enum chat_reply { REPLY_HEAD = 1, REPLY_NO_THOUGHT = 2 };
int engine_render(const struct engine *, const struct chat_msg *, size_t n, unsigned reply,
                  struct tokens *out, struct err *);

enum tokenize_flags { TOKENIZE_SPECIAL = 1, TOKENIZE_BOS = 2 };
int engine_tokenize(const struct engine *, const char *text, size_t len, unsigned flags,
                    struct tokens *out, struct err *);
/* Bytes of one token, maybe half a UTF-8 character; returns the full length.  Control tokens: nothing,
 * or their name when with_special. */
size_t engine_piece(const struct engine *, int32_t id, int with_special, char *buf, size_t cap);
int engine_is_end(const struct engine *, int32_t id);

/* log p(id) under these logits, in nats, summed in double. */
double engine_logprob(const float *logits, int32_t n_vocab, int32_t id);

/* ---- a sequence ---- */

struct timeline_options {
	int32_t ctx;             /* tokens it must hold; 0 = what the model was trained for, or less if memory asks */
	const char *kv;          /* cache policy, "NAME:key=value,..." (kv_policy_help); NULL = the default */
	const char *kv_type;     /* "f16" (NULL), "f32", "bf16" or "q8_0" */
	int32_t batch;           /* tokens computed at once while reading; 0 = 512.  Under `full` results do not depend on it */
	/* Policies that choose rows (sift, refresh, ...) to be watched while everything is attended (kv must be `full` or NULL):
	 * at each generated token it is noted what their choice would have recovered (timeline_recovery). */
	const char *const *watch;
	int n_watch;             /* 32 at most */
};
/* Is that a cache policy?  ERR_USAGE otherwise.  All policies with their settings, as text. */
int  kv_policy_check(const char *text, struct err *);
void kv_policy_help(struct str *out);
/* The same policy with all of its settings, so that it means that under other defaults, too: for what is kept.  Appends. */
void kv_policy_whole(const char *text, struct str *out);
/* May a sequence under it be longer than its context? */
int  kv_policy_endless(const char *text);

/* What opening would take, and what the machine has: computed, nothing allocated. */
struct timeline_need {
	int32_t ctx;                       /* after defaults */
	uint64_t kv_bytes, scratch_bytes;
	uint64_t free_bytes;               /* where the engine computes: of the device, or of the system */
	uint64_t device_bytes;             /* that the device has; 0: it is the system's memory */
	int32_t ctx_fits;                  /* largest ctx that fits free_bytes; 0 = none */
};
int  timeline_need(const struct engine *, const struct timeline_options *, struct timeline_need *out, struct err *);
/* Fails with ERR_FIT and the numbers (needed, free, which -c would fit) before allocating. */
int  timeline_open(struct timeline **out, struct engine *, const struct timeline_options *, struct err *);
void timeline_close(struct timeline *);

typedef void timeline_progress_fn(int32_t done, int32_t total, void *ud);
/* Make the sequence equal to want[0..n), computing only what is not already there.  Returns the tokens
 * reused, or -1; after -1 (also after a cancel) it holds a valid, shorter sequence.  A sequence longer than the
 * context is refused with ERR_FIT, nothing is cut.  progress may be NULL; it is called between chunks. */
int32_t timeline_sync(struct timeline *, const int32_t *want, size_t n,
                      timeline_progress_fn *progress, void *ud, struct err *);

/* Go on under another cache policy, with the same context and types.  Rows of tokens that were read stay where both policies
 * keep all rows; what else is needed is read again by the next sync(), which must come before a step.  Generated tokens
 * keep the rows they got: sync() to what was read first where they should not.  What was pinned must be pinned again.  After
 * -1 the timeline is as it was. */
int timeline_switch_kv(struct timeline *, const char *kv, struct err *);
/* The logits [n_vocab] after the last token, valid until the next call; NULL unless a sync(), a step or a stepwise extend() that
 * succeeded came last. */
const float *timeline_logits(const struct timeline *);

/* Append id[0..n) and see the logits [n_vocab] after each of them (valid during the call).  pos is the index of
 * the token in the sequence.  stepwise: one at a time, as if each had been generated.  For evaluation and inspection:
 * slower than sync, which keeps the last only. */
typedef void timeline_logits_fn(int32_t pos, const float *logits, void *ud);
int timeline_extend(struct timeline *, const int32_t *id, size_t n, int stepwise, timeline_logits_fn *, void *ud,
                    struct err *);

struct sampling {
	float temperature;                    /* 0 = greedy: the likeliest token, whatever the rest says */
	int32_t top_k;                        /* 0 = all */
	float top_p, min_p;                   /* 1 and 0 = off */
	float repeat_penalty, presence_penalty, frequency_penalty;   /* 1, 0, 0 = off */
	int32_t repeat_last;                  /* tokens the penalties look back on; -1 = all */
	uint64_t rng[4];                      /* state; sampling_seed() fills it */
};
extern const struct sampling sampling_default;
void sampling_seed(struct sampling *, uint64_t seed);

struct step_out { int32_t id; };
/* Sample the next token and append it: 1, or 0 when it ends the turn (the end token is in *out, not appended),
 * or -1.  ERR_FIT when the context is full (out of room, nothing cut), ERR_CANCELLED, ERR_FAIL on NaN or
 * infinite logits; the sequence stays valid and unchanged. */
int timeline_step(struct timeline *, struct sampling *, struct step_out *, struct err *);

/* Drafted tokens: compute id[0 .. n) in one step, each as if it had been generated alone behind those before it, and keep none yet.  A
 * token that was sampled last and has no entry yet comes first by itself.  Returns how many of the n were tried, 0 or more (under some
 * policies few at a time), or -1.  *logits [tried + 1][n_vocab]: before id[0], after id[0], ...; valid until the next call. */
int32_t timeline_verify(struct timeline *, const int32_t *id, int32_t n, const float **logits, struct err *err);
/* Keep the first n of the tokens that were tried; the sequence, its cache and its logits are what generating these n tokens one by one
 * would have made them, bit for bit.  Any other call instead keeps none. */
int timeline_accept(struct timeline *, int32_t n, struct err *err);

/* Ask the running call to stop within 100 ms; any thread or a signal handler.  The call that is running
 * (or the next one, if none is) returns ERR_CANCELLED.  timeline_resume() withdraws it.  A call that waits for
 * another timeline of the same engine stops when that one has finished its chunk. */
void timeline_cancel(struct timeline *);
void timeline_resume(struct timeline *);

/* What watched policy i would have recovered of full attention: sums over `steps` generated tokens of the probability
 * that lies on the rows it chose, mean over query heads and layers; on the rows of an oracle that reads as many
 * per KV head; on the first 4 and the newest rows, as many together.  Divide by steps.  -1: no such i. */
struct recovered {
	double mass, oracle, recent;
	/* What two guesses would have got, as many rows again, the token's own among them: those that were the most
	 * probable at the token before; and on average over the tokens generated before since something was read.  Sums over
	 * `guesses` tokens: the first one has none before it. */
	double last_row, mean_row;
	int64_t guesses;
	double rows, read;       /* rows it would have read, and rows that there were, mean over the layers */
	int64_t steps;
};
int timeline_recovery(const struct timeline *, int i, struct recovered *out);

/* The sequence so far, valid until the next call. */
const int32_t *timeline_tokens(const struct timeline *, size_t *n);

/* ---- a bounded cache: what it keeps and what has left ---- */

/* The first n tokens of the sequence (system prompt, documents) stay for good and are not part of the bounded stream that
 * follows them.  Call it before the sync() that brings them; tokens that lie where they cannot stay are read again by that
 * sync.  ERR_FIT with the numbers when too little is left for the stream.  Policies that pin nothing ignore it. */
int timeline_pin(struct timeline *, int32_t n, struct err *);

/* In a stream every pair of layer and KV head evicts by itself; a token is evicted when all pairs have evicted its entry. */
enum slot_what { SLOT_ADMITTED, SLOT_MOVED, SLOT_EVICTED };
struct slot_event {
	enum slot_what what;
	int32_t token;           /* its index in the sequence */
	int32_t ring;            /* where it went, or was evicted from: 1 = the newest ring, up to RINGS_MOST */
	float share;             /* of the pairs did this in this call */
	float evicted;           /* share of the pairs that have evicted it by now */
	float score;             /* attention mass, mean over the pairs of this event; 0 where none is summed */
};
/* Called after each call that changed slots, in the thread that runs the timeline; events in no order.  fn NULL: no events are
 * collected.  While everything still fits, tokens are admitted and nothing moves. */
typedef void timeline_evictions_fn(const struct slot_event *, size_t n, void *ud);
void timeline_on_evictions(struct timeline *, timeline_evictions_fn *, void *ud);

enum { RINGS_MOST = 8 };
struct timeline_rows {
	int32_t pinned;             /* tokens at the start that stay for good */
	int32_t n_ring, ring_rows;  /* rings, the newest first, and the tokens that each holds; n_ring 0: nothing ever leaves */
	int32_t factor;             /* each ring is offered to once in so many tokens that fall out of the newer one */
	int32_t fill[RINGS_MOST];   /* tokens in each now */
	int32_t first[RINGS_MOST], last[RINGS_MOST];   /* the oldest and the newest that any pair holds there; -1 = none */
	int32_t seen;               /* tokens that came in, pinned ones included */
	int32_t evicted, evicted_in_part;   /* tokens whose entries all pairs have evicted; that some pairs have evicted, but not all */
	int32_t oldest;             /* the first token of the stream that any pair still holds; -1 = none */
};

/* ---- looking into the cache, for a panel (view.c) ----
 *
 * For whoever owns the timeline, between its calls.  Nothing is computed or kept for it otherwise, with two exceptions: what
 * policies choose for each generated token (sift, quest, refresh, ...; auto's pinned tokens) is remembered from the first
 * timeline_view() on, so that the first one cannot tell it yet; and each view asks the calls that follow to measure shares of
 * attention (now, recovered, estimated) in the next few layers, once. */
enum { VIEW_COLS = 256, VIEW_LAYERS = 128, VIEW_GONE = 255 };
enum view_watched {
	VIEW_NONE,      /* attention is not observed there: no heat */
	VIEW_SCORE,     /* heat: running average of the attention that the column's tokens receive, where scores are kept */
	VIEW_CHOSEN     /* heat: share of KV heads that read the column's tokens for the last generated token; h2o, h2o+, snapkv:
	                 * that will for the next one */
};
struct cache_view {
	int32_t n_tokens;            /* of the sequence */
	int32_t cols, per_col;       /* column c is tokens c * per_col .. + per_col (the last may have fewer) */
	int32_t pinned;              /* the first tokens that stay for good; 0 where nothing ever leaves */
	/* 255 = all pairs of layer and KV head keep all tokens of the column, 0 = all gone; 1 .. 254 between.  h2o, h2o+ and
	 * snapkv keep all rows: gone is what generated tokens will not read until something is read again. */
	uint8_t kept[VIEW_COLS];
	uint8_t where[VIEW_COLS];    /* where most of what is kept lies: 0 pinned (or no rings), 1 .. ring; VIEW_GONE */
	enum view_watched watched;          /* what heat says of tokens that are not pinned */
	enum view_watched watched_pinned;   /* and of those that are; a column of both has the larger heat */
	int32_t n_layer;             /* rows of heat: layers, VIEW_LAYERS at most (then only the first ones) */
	/* 0 = nothing; h > 0 stands for 2^((h - 255) / 32) of the most, 1 for that or less.  The most is 1 where rows are chosen;
	 * elsewhere the largest value of any layer in the columns behind the first 4 tokens, which are left out because they
	 * outshine the others (they stop at 255). */
	uint8_t heat[VIEW_LAYERS][VIEW_COLS];
	float most;                  /* VIEW_SCORE: that value (mean over KV heads of the column's sum); else 0 */
	/* Of attention, running average over all layers: on pinned rows (where nothing leaves, all rows), ring 1, ...  Sums to 1
	 * over what is observed, and a stream's pinned rows are not: share[0] = 0.  All 0 where nothing is. */
	float share[1 + RINGS_MOST];
	/* The same of a bounded stream with the pinned rows, of the newest tokens alone: shares of all attention, mean over the query
	 * heads of now_layers layers, each as it was measured last (a few at each view; 0 = in none yet). */
	float now[1 + RINGS_MOST];
	int32_t now_layers;
	float sink;                  /* part of share[0] on the first 4 tokens, -1 = not known */
	/* Of the last generated token.  Rows it read per KV head, mean over layers (auto: of the pinned ones; h2o, ...: will
	 * read); 0 = all, -1 = not known. */
	int32_t chosen;
	int32_t refreshed;           /* layers whose set was chosen anew for it; -1 = not known, or there are no such sets */
	float cosine;                /* mean over layers of the similarity that refresh last saw in queries; -2 = not known */
	/* Shares of a generated token's attention (auto: of that on pinned tokens), mean over the query heads of the layers where they
	 * have been measured since something was read, a few at each view; -1 = not known. */
	float recovered;             /* refresh, recycled: on what the old set had, when a layer chose anew; as attention is */
	float estimated;             /* sift: on the rows that it chose; as the copy of the keys tells it */
	double seconds;              /* what making this took */
};
/* In so many columns, 1 .. VIEW_COLS, or as many as there are tokens. */
void timeline_view(struct timeline *, int32_t cols, struct cache_view *out);
/* What share of the pairs still keep tokens first .. first + n, one byte each, as kept[]; 0 where there is no token. */
void timeline_kept(const struct timeline *, int32_t first, int32_t n, uint8_t *out);

/* Append one token as if it had been generated, and tell where one layer looked (attention.c): p[i], i from 0 to the token's own
 * index, is the share of its attention on token i, mean over the query heads of that KV head (-1: of all of them); -1 = no head could
 * see it.  ERR_USAGE when there is no such layer or head. */
int timeline_attention(struct timeline *, int32_t id, int32_t layer, int32_t head, float *p, struct err *);

/* Which tokens an answer rests on (attention.c).  From now on it is summed up what those tokens look at that the next one comes from,
 * which are the last of each read and every generated one that gets its row: they attend once more in the third quarter of the layers,
 * in those of odd and of even numbers in turns.  The sum of a token is that of the squares of its shares of attention, over KV heads
 * (each the mean of its query heads), layers and those that looked: a sharp look counts, one that goes everywhere counts little.
 * Changes nothing that is computed.  A call that fails may have been counted in part.  Begins anew with each
 * timeline_evidence_begin(), ends with a change of policy. */
int  timeline_evidence_begin(struct timeline *, struct err *);
void timeline_evidence_end(struct timeline *);
/* The sums of tokens first .. first + n; 0 where there is nothing. */
void timeline_evidence(const struct timeline *, int32_t first, int32_t n, float *out);

/* Bytes of the cache that one token reads with pos tokens before it, under the policy as it is: rows, and copies that are
 * scanned.  decode: it is generated, not read. */
uint64_t timeline_read_bytes(const struct timeline *, int32_t pos, int decode);

/* Measure what the policy takes beyond attention and storing rows: rotating, choosing, scoring, moving.  (What attention
 * takes longer because a policy watches it belongs to attention.)  Costs a few microseconds a step. */
void timeline_measure(struct timeline *, int on);

/* ---- saving a sequence, and going on with it bit for bit (snapshot.c) ----
 *
 * What a sequence is falls into rows and a head.  Rows: keys and values of the tokens 0 .. n from the first, all layers
 * together, that stay as they are as long as these tokens do; sequences with the same beginning have the same ones, so
 * they may be cut anywhere and shared.  Head: everything else: token ids, those rows that move (a bounded stream), the
 * policy's state, the last logits.  A timeline with both is what it was: the same logits, and the same tokens after them.
 * Copies of keys are not saved, they are made anew.
 *
 * Rows and heads fit a timeline of the same identity only; who stores them must compare that.  One line may differ, the
 * engine's "kernels": other kernels' rows lie in the same order and are right to rounding; timeline_begun() then says so. */

/* All that decides the bits of rows and logits, but for the weights' own bytes, as lines of text: format, byte order,
 * architecture, hyperparameters, tensors with their types and shapes, tokenizer, instruction set. */
void engine_identity(const struct engine *, struct str *out);
/* The same of a timeline: cache policy, type, batch, and the context where the policy's shape depends on it. */
void timeline_identity(const struct timeline *, struct str *out);
/* The part of it that decides the rows of tokens that were only read (all marks 0): reading attends everything under every
 * policy, so these are the same under all of them. */
void timeline_rows_identity(const struct timeline *, struct str *out);

/* The rows of the first n tokens came from other kernels, which `by` names.  Until they are gone this is a line of both
 * identities, "begun by BY until N": with them the rest has other bits than it would have had without. */
void timeline_begun(struct timeline *, const char *by, size_t n_by, int32_t n);

/* Bytes of one token's rows. */
uint64_t timeline_row_bytes(const struct timeline *);
/* So many tokens from the first have rows of that kind now. */
int32_t timeline_rows_ready(const struct timeline *);
/* What tokens 0 .. n were when they came, one byte each, valid until the next call: rows of equal tokens differ where these
 * differ.  All 0 under a policy whose rows depend on the tokens alone. */
enum token_mark {
	MARK_READ = 0, MARK_GENERATED = 1, MARK_READ_END = 2,
	MARK_STREAM = 4,   /* beside one of these: the first token behind the pinned ones, which are read by choice */
	MARK_MOST = MARK_STREAM + MARK_READ_END
};
const uint8_t *timeline_marks(const struct timeline *, size_t *n);
/* Rows of tokens first .. first + n, timeline_row_bytes() each: [n_layer][K, V][n_kv_head][n]. */
int  timeline_rows_save(struct timeline *, int32_t first, int32_t n, void *out, struct err *);

/* Restoring: rows from the first token on without gaps, then the head, or timeline_adopt().  The first rows (first = 0)
 * empty the timeline; until the end it has no tokens.  After -1 it is empty. */
int  timeline_rows_load(struct timeline *, int32_t first, int32_t n, const void *rows, struct err *);
/* Appends to *out. */
int  timeline_head_save(struct timeline *, struct str *out, struct err *);
/* ERR_FAIL when it is damaged or of another shape than this timeline and the rows that were loaded. */
int  timeline_head_load(struct timeline *, const void *head, size_t n, struct err *);
/* No head: the rows loaded are those of id[0 .. n), which came as marks say.  Returns how many of them the policy can go on
 * from (the rest is read again by the next sync), or -1. */
int32_t timeline_adopt(struct timeline *, const int32_t *id, const uint8_t *marks, size_t n, struct err *);

struct timeline_stats {
	int32_t n_tokens, ctx, batch;      /* ctx: tokens the cache can hold at once */
	int endless;                       /* the sequence may be longer than ctx: the cache is bounded, see rows */
	struct timeline_rows rows;
	uint64_t kv_bytes, scratch_bytes, kv_bytes_per_token;
	char kv[128], kv_type[8];
	/* of the last sync and of the steps since */
	int32_t prefill_tokens, reused_tokens, decode_tokens;
	double prefill_seconds, decode_seconds;
	double policy_seconds;     /* part of decode_seconds, see timeline_measure() */
};
void timeline_stats(const struct timeline *, struct timeline_stats *out);
/* The cache policy with all of its settings, as kv_policy_whole() has them.  Appends. */
void timeline_policy(const struct timeline *, struct str *out);

#endif
