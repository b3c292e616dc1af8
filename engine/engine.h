/* engine/engine.h - everything app/ and sessions/ may know about inference.
 *
 * struct engine is a loaded model: immutable, shareable between threads.
 * struct timeline is one token sequence with its KV cache and last logits: one thread at a time.
 * Callers say what the sequence should be; timeline_sync() finds the cheapest way there and
 * timeline_step() continues it.  A chat turn, a regenerated answer, an edit, a document and an evaluation are
 * all sync + step. */
#ifndef WEIR_ENGINE_H
#define WEIR_ENGINE_H

#include "engine/base/base.h"

struct engine;
struct timeline;

/* ---- the model ---- */

struct engine_options {
	const char *model_path;
	/* "cpu", "cuda", or "auto" (NULL): CUDA where there is a device and the weights fit it, else the CPU */
	const char *device;
	int threads;      /* 0 = one per available core */
	int vocab_only;   /* metadata and tokenizer only: no weights needed or loaded */
	int inspect_only; /* check everything, load no weight */
	/* the same, and timeline_need() says what a sequence would take, also where the weights do not fit */
	int plan_only;
	int check_weights; /* scan all weights for NaN and infinity */
	const char *lora;  /* a LoRA adapter's file, or NULL */
	double lora_scale; /* how often its changes count */
	const char *pre;   /* pre-tokenizer to use instead of the file's, or NULL */
	/* to use instead of the file's: a built-in name, one of the file's other templates, or a path; or NULL */
	const char *chat_template;
	/* Called while weights are loaded, with the bytes so far and of all.  May be NULL. */
	void (*progress)(uint64_t done, uint64_t total, void *ud);
	void *progress_ud;
};

struct engine_info {
	const char *path, *name;  /* name: general.name or the file name */
	char arch[32], quant[16]; /* quant: the type that holds most weight bytes */
	char device[64];          /* "cpu avx512, 2 threads"; "cuda NVIDIA H100 80GB HBM3, ..." */
	char device_note[200];    /* why "auto" passed over a device that it found, as a sentence; else "" */
	/* which of the file's keys for sampling is not used, and why, as a sentence; else "" */
	char sampling_note[200];
	uint64_t device_total; /* bytes of the device's own memory; 0: it computes in the system's */
	int threads;           /* CPU threads that compute */
	char tokenizer[48];    /* "gpt2/smollm" */
	/* of a built-in template, "jinja-HASH" for others; "" when there is none or it cannot be used */
	char template_name[32];
	char template_error[400]; /* why the template cannot be used; "" when it can or is absent */
	int has_template;         /* the file carries one, usable or not */
	/* an answer begins with reasoning, inside of <think>, which the template has opened */
	int thinks_first;
	/* the template shows a system message; else the system prompt belongs in front of the first question */
	int takes_system;
	/* the template refuses a question behind a question: both go into one message */
	int wants_turns;
	/* answers have channels, as gpt-oss's; the template wants earlier answers without their reasoning */
	int channels;
	int think_switch; /* the template can ask for an answer without reasoning: REPLY_NO_THOUGHT */
	/* it can ask for reasoning that it does not ask for by itself, REPLY_THOUGHT; thinks_first of that */
	int think_ask, asked_thinks_first;
	uint64_t weight_bytes, n_params;
	uint64_t bytes_per_token; /* weight bytes read to decode one token */
	int32_t n_layer, n_embd, n_ff, n_head, n_kv_head, head_dim, n_vocab, ctx_train;
	int32_t n_expert, n_expert_used;               /* of each layer's feed-forward; 0 and 0: it is dense */
	int32_t n_kv_head_windowed, head_dim_windowed; /* KV heads of the layers with a window, and their size */
	int32_t n_borrowed;                            /* layers that read the KV entries of earlier ones */
	int32_t window, n_windowed;                    /* sliding window in tokens, and the layers that have it */
	int32_t n_recurrent;                           /* layers with a state of fixed size instead of a KV cache */
	uint64_t state_bytes;                          /* of all these states */
	double rope_base;
	const char *rope_scaling; /* "none", "linear", "yarn", "llama3", "longrope" */
	int tied_output, qkv_bias, qk_norm;
	int32_t bos, eos, eot; /* -1 = none */
	int add_bos;           /* the file asks for BOS before raw text */
	const char *n_types;   /* "210 Q4_1, 61 F32, 1 Q8_0" */
};

int engine_open(struct engine **out, const struct engine_options *, struct err *);
void engine_close(struct engine *);
const struct engine_info *engine_info(const struct engine *);

/* How many first bytes of a model file hold all but its weights: 0 while p[0 .. n) is not yet enough; n where the bytes
 * are no model. A file of these bytes, made as long as the whole one, opens with inspect_only and plan_only. */
uint64_t engine_head_bytes(const void *p, uint64_t n);

/* Names the user can choose from, NULL past the end. */
const char *engine_arch_name(size_t i);
const char *engine_pre_name(size_t i);
const char *engine_template_name(size_t i);
/* The CPU kernels in use and those available: "avx512 (avx512, avx2, c available)". */
const char *engine_cpu_level(void);
/* Bytes a second that `threads` threads read from memory, best of a few passes over `bytes`. */
double engine_bandwidth(int threads, uint64_t bytes);
/* 8-bit multiply-adds a second that `threads` threads do at most. */
double engine_arithmetic(int threads);
/* Bytes that this process may still take: the least of what the machine, the container and the process limits leave. */
uint64_t engine_memory_free(void);
/* For a handler of SIGBUS: a page of a model file or of a cache on disk cannot be read any more, because the file was
 * cut short or its disk failed. 1: the address belongs to such a file and the thread may go on; the step fails with a
 * sentence. 0: it does not. */
int engine_fault(const void *address);
/* Is there a device for "cuda"?  0, with a line about it and its memory in bytes; -1, with the reason as text. */
struct engine_gpu {
	char text[160];
	uint64_t available, total;
};
int engine_gpu(struct engine_gpu *);

/* Bytes a second, read and written, of copying inside the memory that the engine computes in: best of a few passes; 0
 * without room for the buffer. */
double engine_copy_bandwidth(struct engine *, uint64_t bytes);

/* ---- reasoning (reasoning_marks.c) ----
 *
 * Models that reason put marks around it, in front of the answer. Marks that are control tokens are part of an answer's
 * text all the same. An answer of gpt-oss ("harmony") has a message per channel:
 * "<|channel|>analysis<|message|>REASONING<|end|><|start|>assistant<|channel|>final <|message|>ANSWER"; the reply's
 * head ends in front of the first mark. */
struct reasoning_mark {
	const char *open, *close;
};
/* NULL: past the end. */
const struct reasoning_mark *reasoning_mark_at(size_t i);
/* 1: the mark opens a channel, of which "final" is the answer. */
int reasoning_has_channels(const struct reasoning_mark *);
#define CHANNEL_MARK  "<|channel|>"
#define CHANNEL_TEXT  "<|message|>"
#define CHANNEL_NEXT  "<|start|>"
#define CHANNEL_END   "<|end|>"
#define CHANNEL_FINAL CHANNEL_MARK "final" CHANNEL_TEXT

enum chat_role { ROLE_SYSTEM, ROLE_USER, ROLE_ASSISTANT };
struct chat_msg {
	enum chat_role role;
	const char *text;
	size_t len;
	/* sampled tokens of an answer: used verbatim, so the KV prefix still matches */
	const int32_t *id;
	size_t n_id;
	const char *role_name; /* another role, as templates know it ("tool"); NULL: the one above */
};
/* The text of a message in a rendered conversation: its bytes from .. from + n begin at byte `at` of the rendered text
 * (a template may cut off blanks or reasoning). SIZE_MAX: the template writes none of it, or changes it. */
struct text_place {
	size_t at, from, n;
};

/* A conversation as tokens. It is rendered again after each change: what stands in both renderings keeps its tokens,
 * and only the difference is tokenized. All zero to begin with; of one engine, until rendered_free(). */
struct rendered {
	struct tokens id;         /* BOS included where model and template want one */
	uint32_t *end;            /* [id.n] the byte of the rendered text behind each token, ascending */
	struct text_place *place; /* [n_msg] of each message */
	size_t n_msg;
	struct rendered_text *text; /* the engine's */
};
enum render_flags {
	REPLY_HEAD = 1,       /* with the head of an answer behind the last message */
	REPLY_NO_THOUGHT = 2, /* ask for an answer without reasoning, where the template can */
	RENDER_OPEN = 4,      /* the last message goes on: rendered up to where what follows it shows */
	REPLY_THOUGHT = 8     /* ask for an answer with reasoning, where the template leaves the choice */
};
/* The whole conversation; without a template (a base model) the texts one after the other. Special tokens come from the
 * template only; the same bytes inside text stay plain text. before: an earlier rendering, or NULL. *out (which may be
 * *before) is overwritten; after -1 it is as it was. */
int engine_render(const struct engine *, const struct chat_msg *, size_t n, unsigned flags,
                  const struct rendered *before, struct rendered *out, struct err *);
void rendered_free(struct rendered *);
/* The same as text, appended to *out; bos, eos: the texts of these tokens, or NULL for the model's. */
int engine_render_text(const struct engine *, const struct chat_msg *, size_t n, unsigned flags, const char *bos,
                       const char *eos, struct str *out, struct err *);
/* The first token that ends behind byte `byte` of message i's text; SIZE_MAX: that byte is not there. */
size_t rendered_token(const struct rendered *, size_t i, size_t byte);
/* Append the first tokens that stay the same whatever text stands from byte `byte` of message i on: a prefix that may
 * be cached before the rest is known. */
int engine_render_stable(const struct engine *, const struct rendered *, size_t i, size_t byte, struct tokens *out,
                         struct err *);
/* How many tokens bytes from .. to of message i's text have on their own: *n; -1 where they are not there. */
int engine_render_count(const struct engine *, const struct rendered *, size_t i, size_t from, size_t to, size_t *n,
                        struct err *);
/* The last message was rendered open, and goes on with text[0 .. n), which was tokenized as id[0 .. n_id). */
void engine_render_add(const struct engine *, struct rendered *, const char *text, size_t n, const int32_t *id,
                       size_t n_id);

/* Bytes of text that this process has tokenized so far. */
uint64_t engine_tokenized(void);
enum tokenize_flags { TOKENIZE_SPECIAL = 1, TOKENIZE_BOS = 2 };
int engine_tokenize(const struct engine *, const char *text, size_t len, unsigned flags, struct tokens *out,
                    struct err *);
/* Bytes of one token, maybe part of a UTF-8 character; returns the full length.  Control tokens have none,
 * with_special their name. */
size_t engine_piece(const struct engine *, int32_t id, int with_special, char *buf, size_t cap);
/* The same bytes, appended; returns how many. */
size_t engine_piece_add(const struct engine *, int32_t id, int with_special, struct str *out);
int engine_is_end(const struct engine *, int32_t id);

/* log p(id) under these logits, in nats, summed in double. */
double engine_logprob(const float *logits, int32_t n_vocab, int32_t id);

/* ---- a sequence ---- */

struct timeline_options {
	/* tokens it must hold; 0 = what the model was trained for, or less where memory is short */
	int32_t ctx;
	const char *kv;      /* cache policy, "NAME:key=value,..." (kv_policy_help); NULL = the default */
	const char *kv_type; /* "f16" (NULL), "f32", "bf16" or "q8_0" */
	int32_t batch;       /* tokens of a prefill step; 0 = 512.  Under `full` it leaves results as they are */
	/* Bytes of memory that the cache may take, on a device of its memory; 0 = as many as it needs. What exceeds
	 * them lies in a nameless file in the user's cache directory, whose disk space is reserved when the timeline is
	 * opened; beside a device it lies in the machine's memory, under a policy that allows it (sift with every=1 and
	 * a key sketch). Results are the same. */
	uint64_t kv_memory;
	/* Each token of a prompt reads of the tokens before it, in layers without a window, only blocks of 64 whose
	 * attention comes to this share by an estimate (backend.h: read_blocks); 0 or 1: all. Generated tokens read
	 * what the policy says. What a token reads does not depend on how the prompt is cut into steps. Once a bounded
	 * stream is full, its tokens read everything that is there. On the CPU alone, under policies that keep
	 * everything and under `auto`. */
	float read_share;
	/* Selection policies (sift, refresh, ...) to observe beside full attention (kv must be `full` or NULL): for
	 * each generated token timeline_recovery() sums what their selection would have recovered. */
	const char *const *watch;
	int n_watch; /* 32 at most */
};
/* Is that a cache policy?  ERR_USAGE otherwise. */
int kv_policy_check(const char *text, struct err *);
/* The name of policy i, the default first, and its help; NULL after the last. */
const char *kv_policy_name(int i, const char **help);
/* All policies with their settings, as text. */
void kv_policy_help(struct str *out);
/* The same policy with all of its settings spelled out: what sessions store, because defaults may change.  Appends. */
void kv_policy_whole(const char *text, struct str *out);
/* The same policy with one setting changed, in its shortest form. Appends. -1, ERR_USAGE: it has no such setting or not
 * this value. */
int kv_policy_with(const char *text, const char *key, const char *value, struct str *out, struct err *);
/* May a sequence under this policy be longer than its context? */
int kv_policy_endless(const char *text);

/* Does a change between two policies (timeline_switch_kv) keep what was read? */
enum kv_sharing {
	KV_SHARES_NOTHING, /* it evicts: it reads all anew, and all is read anew after it */
	/* it reads all anew, because it observes all of a prefill; others take over what it has read */
	KV_SHARES_AFTER,
	KV_SHARES_BOTH
};
enum kv_sharing kv_policy_sharing(const char *text);

/* What opening would take, and what the machine has: computed, nothing allocated. */
struct timeline_need {
	int32_t ctx; /* after defaults */
	/* tokens that stay in the cache at a time, as timeline_stats() says of a sequence that has no end */
	int32_t held;
	uint64_t kv_bytes, scratch_bytes; /* of memory */
	uint64_t disk_bytes;              /* of disk, where kv_memory leaves no room for all entries; else 0 */
	uint64_t host_bytes;              /* the same of the machine's memory, beside a device */
	uint64_t least_bytes;             /* then: what kv_memory has to allow at least */
	uint64_t free_bytes;              /* of the memory that the engine computes in */
	uint64_t device_bytes;            /* all memory of the device; 0: the engine computes in the system's */
	/* largest ctx that fits free_bytes, beside the weights where they are not loaded; 0 = none */
	int32_t ctx_fits;
};
int timeline_need(const struct engine *, const struct timeline_options *, struct timeline_need *out, struct err *);
/* Fails with ERR_FIT and the numbers (needed, free, which -c would fit) before allocating. */
int timeline_open(struct timeline **out, struct engine *, const struct timeline_options *, struct err *);
void timeline_close(struct timeline *);

typedef void timeline_progress_fn(int32_t done, int32_t total, void *ud);
/* Make the sequence equal to want[0..n), computing only what is missing.  Returns the tokens reused, or -1;
 * after -1 (also after a cancel) it holds a valid, shorter sequence.  A sequence longer than the context is
 * refused whole, with ERR_FIT.  progress may be NULL; it is called between steps. */
int32_t timeline_sync(struct timeline *, const int32_t *want, size_t n, timeline_progress_fn *progress, void *ud,
                      struct err *);

/* Change the cache policy; context and types stay. A sync() must come before the next step: it prefills again what the
 * new policy lacks. Where both policies retain everything, KV entries stay, those of generated tokens with the values
 * that they got under the old policy; to recompute these, sync() to the prompt first. Tokens must be pinned again.
 * After -1 the timeline is as it was. */
int timeline_switch_kv(struct timeline *, const char *kv, struct err *);
/* The logits [n_vocab] after the last token, valid until the next call; NULL unless the last call was a sync(), a step
 * or a stepwise extend() that succeeded. */
const float *timeline_logits(const struct timeline *);

/* Append id[0..n) and pass the logits [n_vocab] after each token to fn; pos is the token's index in the sequence, the
 * logits are valid during that call. stepwise: decode one token at a time, as if each had been generated; else as
 * prefill. For evaluation and inspection: slower than sync, which computes the last logits only. */
typedef void timeline_logits_fn(int32_t pos, const float *logits, void *ud);
int timeline_extend(struct timeline *, const int32_t *id, size_t n, int stepwise, timeline_logits_fn *, void *ud,
                    struct err *);

struct sampling {
	float temperature;  /* 0 = greedy: the likeliest token after the penalties */
	int32_t top_k;      /* 0 = all */
	float top_p, min_p; /* 1 and 0 = off */
	float repeat_penalty, presence_penalty, frequency_penalty; /* 1, 0, 0 = off */
	int32_t repeat_last; /* the last tokens of the answer that penalties count; -1 = all */
	/* index of the answer's first token in the sequence; 0 = the prompt counts, too */
	int32_t answer;
	/* the first tokens of the answer are these, without a draw; the caller's */
	const int32_t *given;
	int32_t n_given;
	uint64_t rng[4]; /* state; sampling_seed() fills it */
};
extern const struct sampling sampling_default;
void sampling_seed(struct sampling *, uint64_t seed);

/* Where settings of the sampler come from, the later above the earlier (advice.c): the defaults above, the advice that
 * the makers of the model's family publish, keys of its file; the last two are for callers, whose user has set it, or
 * whose server decides. */
enum sampling_source { SAMPLING_DEFAULT, SAMPLING_FAMILY, SAMPLING_FILE, SAMPLING_USER, SAMPLING_SERVER };
enum sampling_setting {
	SAMPLING_TEMP,
	SAMPLING_TOP_K,
	SAMPLING_TOP_P,
	SAMPLING_MIN_P,
	SAMPLING_REPEAT,
	SAMPLING_PRESENCE,
	SAMPLING_FREQUENCY,
	SAMPLING_SETTINGS
};
struct sampling_choice {
	struct sampling s;
	unsigned char from[SAMPLING_SETTINGS]; /* enum sampling_source */
	const char *family;                    /* whose advice it is, or NULL */
};
/* reasons: 1 for answers with reasoning, for which some makers advise something else. */
void engine_sampling(const struct engine *, int reasons, struct sampling_choice *out);
/* Copy one setting. */
void sampling_take(struct sampling *to, const struct sampling *from, enum sampling_setting);

struct step_out {
	int32_t id;
};
/* Sample the next token and append it: 1, or 0 when it ends the turn (the end token is in *out, not appended),
 * or -1 with the sequence unchanged: ERR_FIT when the context is full, ERR_CANCELLED, ERR_FAIL on NaN or
 * infinite logits. */
int timeline_step(struct timeline *, struct sampling *, struct step_out *, struct err *);

/* Speculative decoding: 1 = timeline_step() guesses, from earlier occurrences of the newest tokens, which ones follow,
 * and computes several in one step where measured speeds say that it pays. Tokens, logits, draws of the sampler, cache
 * and snapshots stay the same bit for bit. 0 (as after opening): one token a step. */
void timeline_speculate(struct timeline *, int on);
/* Commit the KV entries of all tokens that timeline_step() has returned, but the last one's: what decoding one by one
 * has committed then. Calls that look at the cache do it themselves, except for timeline_stats(). */
int timeline_settle(struct timeline *, struct err *);

/* Drafted tokens: compute id[0 .. n) in one step, each with the bits that decoding it alone would give; none is kept
 * yet. A sampled token whose KV entry is still missing is computed before them. Returns how many of the n were tried, 0
 * or more (the policy limits it), or -1. *logits [tried + 1][n_vocab]: before id[0], after id[0], ...; valid until the
 * next call. */
int32_t timeline_verify(struct timeline *, const int32_t *id, int32_t n, const float **logits, struct err *err);
/* Keep the first n of the tokens that were tried: sequence, cache and logits become what decoding these n tokens one by
 * one would have made them, bit for bit. Any other call rolls all of them back. */
int timeline_accept(struct timeline *, int32_t n, struct err *err);

/* Ask the running call to stop within 100 ms; from any thread or a signal handler.  That call (or the next one,
 * if none is running) returns ERR_CANCELLED, and so do all others until timeline_resume().  A call that waits for
 * another timeline of the same engine stops when that timeline's step is over. */
void timeline_cancel(struct timeline *);
void timeline_resume(struct timeline *);

/* What selection policy i (timeline_options.watch) would have recovered of full attention. Sums over `steps` generated
 * tokens of the probability, mean over query heads and layers, on three sets of KV entries of the same size: those
 * selected by the policy (mass), those of the largest probability per KV head (oracle), the first 4 and the newest
 * (recent). Divide by steps. -1: no such i. */
struct recovered {
	double mass, oracle, recent;
	/* The same for sets guessed from earlier tokens, the token's own entry always among them: the most probable at
	 * the token before (last_row); the most probable on average over the tokens generated since the last prefill
	 * (mean_row). Sums over `guesses` tokens: the first generated token has no token before it. */
	double last_row, mean_row;
	int64_t guesses;
	/* entries that the policy would have read, and all there were: sums of means over the layers */
	double selected, all;
	int64_t steps;
};
int timeline_recovery(const struct timeline *, int i, struct recovered *out);

/* The same policy, where its sets serve several tokens, by layers: a layer whose token read everything and selected
 * nothing counts nowhere. mass[a]: sum over `n[a]` pairs of token and layer of the probability on what was read `a`
 * tokens after that layer's last selection (0: in the step that selects; the last token of a prefill selects, too); the
 * last class holds all later ones. -1: no such i, or no such sets. */
enum { RECOVERY_AGES = 65 };
struct recovered_ages {
	double mass[RECOVERY_AGES];
	int64_t n[RECOVERY_AGES];
};
int timeline_recovery_ages(const struct timeline *, int i, struct recovered_ages *out);
/* Of one layer: generated tokens whose layer had a set, and those of them that selected a new one. */
struct recovered_layer {
	int64_t tokens, selected;
};
int timeline_recovery_layer(const struct timeline *, int i, int32_t layer, struct recovered_layer *out);
/* How alike the queries of consecutive generated tokens are: cosine[n_head] is the sum, over the number of pairs that
 * is returned, of the cosine of a head's query, not yet rotated, with that of the token before. 0: no pair, or a layer
 * with a window. -1: nothing is watched. */
int64_t timeline_query_cosine(const struct timeline *, int32_t layer, double *cosine);

/* The sequence so far, valid until the next call. */
const int32_t *timeline_tokens(const struct timeline *, size_t *n);

/* ---- a bounded cache: what it retains and what it evicted ---- */

/* Pin the first n tokens of the sequence (system prompt, documents): they are never evicted, the bounded stream begins
 * after them. Call it before the sync() that brings them; that sync prefills again what lies in other slots. ERR_FIT
 * with the numbers when too few slots are left for the stream. Policies without a pinned prefix ignore it. */
int timeline_pin(struct timeline *, int32_t n, struct err *);

/* In a stream every pair of layer and KV head evicts by itself; a token is evicted when all pairs have evicted its
 * entry. */
enum slot_what { SLOT_ADMITTED, SLOT_MOVED, SLOT_EVICTED };
struct slot_event {
	enum slot_what what;
	int32_t token; /* its index in the sequence */
	int32_t ring;  /* where it went, or was evicted from: 1 = the newest ring, up to RINGS_MOST */
	float share;   /* of the pairs did this in this call */
	float evicted; /* share of the pairs that have evicted it by now */
	float mass;    /* attention mass, mean over the pairs of this event; 0 where none is summed */
};
/* Called after each call that changed slots, in the thread that runs the timeline; events in no order. fn NULL: no
 * events are collected. While everything still fits, tokens are admitted and nothing moves. */
typedef void timeline_evictions_fn(const struct slot_event *, size_t n, void *ud);
void timeline_on_evictions(struct timeline *, timeline_evictions_fn *, void *ud);

enum { RINGS_MOST = 8 };
struct ring_stats {
	int32_t pinned; /* tokens at the start that stay for good */
	/* rings, the newest first, and the slots of each; n_ring 0: nothing is ever evicted */
	int32_t n_ring, ring_slots;
	int32_t factor;           /* of so many tokens that a ring pushes out the next older ring is offered one */
	int32_t fill[RINGS_MOST]; /* tokens in each now */
	/* the oldest and the newest token that any pair holds there; -1 = none */
	int32_t first[RINGS_MOST], last[RINGS_MOST];
	int32_t seen; /* tokens that entered the cache, pinned ones included */
	/* tokens whose entries all pairs have evicted; that some pairs have evicted, but not all */
	int32_t evicted, evicted_in_part;
	int32_t oldest; /* the first token of the stream that any pair still holds; -1 = none */
};

/* ---- looking into the cache, for a panel (view.c) ----
 *
 * For the thread that owns the timeline, between its calls. The first timeline_view() attaches an observer
 * (observe_panel.c), which notes from then on what each generated token selects (sift, quest, refresh, ...; auto's
 * pinned tokens): the first view shows no selection yet. Each view makes the calls that follow measure shares of
 * attention (now, recovered, estimated) in the next few layers, once. */
enum { VIEW_COLS = 256, VIEW_LAYERS = 128, VIEW_EVICTED = 255 };
enum view_watched {
	VIEW_NONE, /* no heat: attention is not observed */
	VIEW_MASS, /* heat: attention mass of the column's tokens, a running average, where the policy sums it */
	/* the same of the tokens in which it was measured, where everything is read and nothing summed */
	VIEW_MEASURED,
	VIEW_SELECTED /* heat: share of KV heads that read the column's tokens for the last generated token; h2o, h2o+, snapkv:
	                 * for the next one */
};
struct cache_view {
	int32_t n_tokens;      /* of the sequence */
	int32_t cols, per_col; /* column c is tokens c * per_col .. + per_col (the last may have fewer) */
	int32_t pinned;        /* the first tokens, which are never evicted; 0 where nothing ever is */
	/* Share of the pairs of layer and KV head that keep the column's tokens: 255 = all pairs keep all tokens, 0 =
	 * all are evicted. h2o, h2o+ and snapkv retain everything: kept are the tokens that generated ones read until
	 * the next prefill. */
	uint8_t kept[VIEW_COLS];
	/* where most of what is kept lies: 0 pinned (or no rings), 1 .. ring; VIEW_EVICTED: nowhere */
	uint8_t where[VIEW_COLS];
	enum view_watched watched;        /* the meaning of heat for tokens that are not pinned */
	enum view_watched watched_pinned; /* and for pinned ones; a column with both kinds has the larger heat */
	int32_t n_layer;                  /* rows of heat: layers, the first VIEW_LAYERS at most */
	/* 0 = nothing; h > 0 stands for 2^((h - 255) / 32) of the maximum, 1 for that or less. The maximum is 1 for
	 * VIEW_SELECTED; for VIEW_MASS the largest value of any layer behind the first 4 tokens, which would outshine
	 * all others (they stop at 255). */
	uint8_t heat[VIEW_LAYERS][VIEW_COLS];
	float most; /* VIEW_MASS: that maximum (mean over KV heads of the column's sum); else 0 */
	/* Shares of attention mass, a running average over all layers: [0] on pinned tokens (of policies that never
	 * evict: on all), [1] on ring 1, ... They sum to 1 over what is observed; a stream's pinned tokens are not:
	 * share[0] = 0. All 0 where nothing is. */
	float share[1 + RINGS_MOST];
	/* Shares of all attention of the newest tokens in a bounded stream, pinned tokens included: mean over the query
	 * heads of now_layers layers, each as it was measured last (a few layers for each view; 0 = none yet). */
	float now[1 + RINGS_MOST];
	int32_t now_layers;
	float sink; /* part of share[0] on the first 4 tokens, -1 = not known */
	/* KV entries that the last generated token read per KV head, mean over the layers (auto: among the pinned; h2o,
	 * h2o+, snapkv: that the next one will read); 0 = all, -1 = not known. */
	int32_t selected;
	/* layers that selected a set anew for that token; -1 = not known, or the policy has no such sets */
	int32_t refreshed;
	/* similarity of queries that refresh compared last, mean over the layers; -2 = not known */
	float cosine;
	/* Shares of a generated token's attention (auto: of that on pinned tokens), mean over the query heads of the
	 * layers where they have been measured since the last prefill, a few layers for each view; -1 = not known. */
	/* refresh, recycled: on the replaced set, when a layer selected anew; by exact attention */
	float recovered;
	float estimated; /* sift: on the selected entries; as the key sketch estimates it */
	/* sift: entries per KV head that stand for those that are not selected, 0 = none; and one standard error of the
	 * share of attention that they give, 1 - estimated; -1 = not known. */
	int32_t sampled;
	float spread;
	double seconds; /* that making this view took */
};
/* cols: 1 .. VIEW_COLS; shorter sequences get fewer columns. */
void timeline_view(struct timeline *, int32_t cols, struct cache_view *out);
/* The share of pairs that keep each of tokens first .. first + n, one byte each, as kept[]; 0 where there is no
 * token. */
void timeline_kept(struct timeline *, int32_t first, int32_t n, uint8_t *out);

/* Append one token as if it had been generated, and report its attention in one layer (observe_evidence.c): p[i], i
 * from 0 to the token's own index, is the share on token i, mean over the query heads of that KV head (-1: of all of
 * them); -1 = no head read token i. ERR_USAGE when there is no such layer or head. */
int timeline_attention(struct timeline *, int32_t id, int32_t layer, int32_t head, float *p, struct err *);

/* Which tokens an answer rests on (observe_evidence.c). From begin to end (or a change of policy), the last token of
 * each prefill and every generated token attend once more in the third quarter of the layers, odd and even layers in
 * turns. Summed per token that is attended: the squares of its shares of attention, over attending tokens, layers and
 * KV heads (each the mean of its query heads). So sharp attention counts and even attention counts little. Results stay
 * the same. A call that fails may have been counted in part. Each begin starts from 0. */
int timeline_evidence_begin(struct timeline *, struct err *);
void timeline_evidence_end(struct timeline *);
/* The sums of tokens first .. first + n; 0 where there are none. */
void timeline_evidence(struct timeline *, int32_t first, int32_t n, float *out);

/* ---- training the predictor of the cache policy `predict` (predictor.h, predictor_train.c) ---- */

/* From begin to end (or a change of policy) rows of attention are kept, by blocks of so many KV entries: of the `last`
 * tokens of a prefill and of each generated token, up to `most` rows. Under `full`; results stay the same. */
int timeline_rows_begin(struct timeline *, int32_t block, int32_t last, int32_t most, struct err *);
void timeline_rows_end(struct timeline *);

struct predictor_settings {
	int32_t block, rows;   /* KV entries of a block, tokens of the history: as the policy's settings */
	int32_t dense;         /* the first layers, which `predict` reads whole, are no examples */
	int32_t crops, epochs; /* examples to train on, and how often each */
	uint64_t seed;
};
struct predictor_trainer;
int predictor_trainer_open(struct predictor_trainer **, struct engine *, const struct predictor_settings *,
                           struct err *);
void predictor_trainer_close(struct predictor_trainer *);
/* Take up to n examples from the rows that this timeline keeps, to train on or held out. Returns how many there
 * were. */
int32_t predictor_trainer_add(struct predictor_trainer *, const struct timeline *, int32_t n, int held_out);
/* Where a tenth of the blocks is selected by the network, by the last row, by the mean of the rows, by 0.3 times
 * that and 0.7 times this: the share of the attention mass that could be found; best: that mass as a share of all
 * attention. */
struct predictor_found {
	double net, last, mean, mixed, best;
};
struct predictor_epoch {
	/* mean squared error of the examples, each over its own mean square; 0 before the first epoch */
	double loss;
	struct predictor_found found; /* held-out examples */
	int best;                     /* no epoch before found as much */
};
typedef int predictor_progress_fn(int32_t done, int32_t total, void *ud); /* not 0: stop */
/* The first call trains nothing: it tells what the network finds that training begins with. */
int predictor_trainer_epoch(struct predictor_trainer *, predictor_progress_fn *, void *ud, struct predictor_epoch *out,
                            struct err *);
/* Store the network of the best epoch for this model, block and number of rows, where `predict` finds it. Appends the
 * file's path. */
int predictor_trainer_save(struct predictor_trainer *, struct str *path, struct err *);

/* ---- training a model (train.h) ---- */

/* What tokens of a window attend to. k 0: to all before them. Otherwise the mask of generated tokens under the cache
 * policy `recycled` with these settings: see train_attention.c. */
struct train_mask {
	int32_t k, prefill, stride, pool;
};
/* "full", or "recycled:prefill=N,k=N,stride=N,pool=N".  ERR_USAGE otherwise. */
int train_mask_parse(const char *text, struct train_mask *out, struct err *);

struct train_settings {
	int32_t context, batch; /* tokens of a window; windows of a step */
	/* the first so many tokens of a window are a prefix: no loss, and no gradient goes through them */
	int32_t fixed;
	/* the rate rises over the first `warmup` steps, then falls along a cosine to a tenth */
	int32_t steps, warmup;
	double rate, decay, clip; /* AdamW; the largest norm of a step's gradient, 0: any */
	int32_t rank;             /* of a LoRA adapter of all matrices in the layers; 0: every weight is trained */
	double alpha;
	struct train_mask mask;
	uint64_t seed; /* which windows, and what an adapter begins with */
	int threads;
};
/* loss: mean of -ln p; norm: of the gradient before it was cut */
struct train_report {
	int32_t step;
	double loss, rate, norm;
};
struct trainer;
/* For a model opened with inspect_only, on the CPU.  ERR_MODEL: a family with other than plain layers. */
int trainer_open(struct trainer **, struct engine *, const struct train_settings *, struct err *);
void trainer_close(struct trainer *);
/* One step on windows of id[0 .. n), context + 1 tokens and more. stopped (may be NULL) is asked between windows: not 0
 * ends the call with ERR_CANCELLED, as if it had not been made. */
int trainer_step(struct trainer *, const int32_t *id, size_t n, int (*stopped)(void), struct train_report *,
                 struct err *);
/* Sum of -ln p over the tokens of one window id[0 .. context] behind the prefix, under this mask. */
int trainer_loss(struct trainer *, const int32_t *id, const struct train_mask *, double *out, struct err *);
/* The logits [context][n_vocab] of a window, for tests. */
int trainer_logits(struct trainer *, const int32_t *id, const struct train_mask *, float *out, struct err *);
int32_t trainer_at(const struct trainer *); /* steps made */
/* All that the next step depends on but the texts; an interrupted training goes on with the same bits. A file appears
 * whole or not at all. load: 1; 0: there is no such file; -1: it is damaged, or of another training. */
int trainer_save(const struct trainer *, const char *path, struct err *);
int trainer_load(struct trainer *, const char *path, struct err *);
/* As GGUF: an adapter, as llama.cpp has them, or the whole model, matrices as F32, or F16 where `half`. */
int trainer_write(const struct trainer *, const char *path, int half, struct err *);
/* -1 and a sentence where these two could not write this file: to be known before hours of training. */
int trainer_can_write(const char *path, struct err *);

/* Bytes of the cache that one token reads with pos tokens before it: KV entries, and key sketches or bounds that are
 * scanned. decode: of a generated token; else of a token in a prefill. */
uint64_t timeline_read_bytes(const struct timeline *, int32_t pos, int decode);

/* How much of a generated token's attention (auto: of that on pinned tokens) sift reads: means over the query heads of
 * the layers where this has been measured since the last prefill. */
struct attention_read {
	int known;   /* 0: it was not measured, or the policy is another one */
	float exact; /* share on the selected entries, as the key sketch estimates it */
	/* 1 - exact where a sample stands for all other entries; 0 = there is none, and they are not read */
	float sampled;
	float spread; /* one standard error of what the sample gives, as a share of all attention */
};
void timeline_attention_read(const struct timeline *, struct attention_read *out);
/* Measure it in the next few layers of the next token that is decoded alone: one more scan of the key sketch for
 * each. */
void timeline_attention_read_measure(struct timeline *);

/* Measure the policy's time beyond attention and storing KV entries: rotating, selecting, summing, moving. (What
 * attention takes longer because the policy observes it counts as attention.)  Costs a few microseconds a step. */
void timeline_measure(struct timeline *, int on);

/* ---- snapshots: saving a sequence, and continuing it bit for bit (snapshot.c) ----
 *
 * A snapshot has fixed entries and a head. Fixed entries: the KV entries of tokens 0 .. n that never move: token i
 * stays in slot i until it is evicted. Sequences with the same beginning have the same fixed entries, which may be cut
 * behind any token and shared. Head: everything else: token ids, KV entries that move (a bounded stream), the policy's
 * state, the last logits. A timeline loaded from both has the same logits and generates the same tokens. Key sketches
 * are recomputed after loading.
 *
 * Entries and heads fit only a timeline of the same identity, which whoever stores them must compare. One line may
 * differ, the engine's "kernels": other kernels' entries have the same layout and are equal up to rounding;
 * timeline_begun() then names these kernels. */

/* All that decides the bits of entries and logits except the weights' own bytes, as lines of text: format, byte order,
 * architecture, hyperparameters, tensors with their types and shapes, tokenizer, instruction set. */
void engine_identity(const struct engine *, struct str *out);
/* The same of a timeline: cache policy, type, batch, and the context where the policy's shape depends on it. */
void timeline_identity(const struct timeline *, struct str *out);
/* The part of timeline_identity() that decides the entries of tokens with mark 0, which were only prefilled: prefill
 * attends everything under every policy, so these entries are equal under all policies. */
void timeline_entries_identity(const struct timeline *, struct str *out);

/* The entries of the first n tokens were computed by other kernels, named by `by`. As long as the sequence has such
 * tokens both identities have the line "begun by BY until N", because later entries depend on them. */
void timeline_begun(struct timeline *, const char *by, size_t n_by, int32_t n);

/* Bytes of one token's fixed entries, in all layers and KV heads; windows 0: in the layers alone that attend to all
 * tokens. */
uint64_t timeline_token_bytes(const struct timeline *, int windows);
/* Tokens from the first on whose fixed entries timeline_entries_save() can give now. */
int32_t timeline_entries_ready(struct timeline *);
/* How tokens 0 .. n were computed, one byte each, valid until the next call: entries of equal tokens differ where these
 * marks differ. All 0 under a policy whose entries depend on the tokens alone, on a backend that computes prompts as it
 * generates (attn_args.prompt). */
enum token_mark {
	/* Prefilled; decoded; the last token of a prefill (of each of its steps, where results depend on the cut into
	 * steps). */
	MARK_READ = 0,
	MARK_GENERATED = 1,
	MARK_READ_END = 2,
	/* added to one of these: the first token behind a pinned prefix that generated tokens read by selection */
	MARK_STREAM = 4,
	MARK_MOST = MARK_STREAM + MARK_READ_END
};
const uint8_t *timeline_marks(struct timeline *, size_t *n);
/* Do layers with a sliding window still hold an entry of tokens first .. first + n? 1 also where no layer has a
 * window. */
int timeline_windows_hold(struct timeline *, int32_t first, int32_t n);
/* Fixed entries of tokens first .. first + n, timeline_token_bytes() each: [n_layer][K, V][n_kv_head][n]; windows 0:
 * without the layers with a sliding window, which have lost the entries of these tokens, or are to lose them by
 * loading. */
int timeline_entries_save(struct timeline *, int32_t first, int32_t n, int windows, void *out, struct err *);

/* Restoring: entries from the first token on without gaps, then the head or timeline_adopt(). The first entries (first
 * = 0) empty the timeline, and it has no tokens until the head or timeline_adopt() gives them. After -1 it is empty. */
int timeline_entries_load(struct timeline *, int32_t first, int32_t n, int windows, const void *entries, struct err *);
/* Appends to *out. */
int timeline_head_save(struct timeline *, struct str *out, struct err *);
/* ERR_FAIL when the head is damaged or of another shape than this timeline and the entries that were loaded. */
int timeline_head_load(struct timeline *, const void *head, size_t n, struct err *);
/* Without a head: the loaded entries belong to id[0 .. n), which were computed as marks say. Returns how many of these
 * tokens the policy can continue from (the next sync prefills the others again), or -1. */
int32_t timeline_adopt(struct timeline *, const int32_t *id, const uint8_t *marks, size_t n, struct err *);

struct timeline_stats {
	int32_t n_tokens, ctx, batch; /* ctx: tokens the cache can hold at once */
	int endless;                  /* the sequence may be longer than ctx: the cache evicts, see rings */
	struct ring_stats rings;
	uint64_t kv_bytes, scratch_bytes, kv_bytes_per_token;
	uint64_t kv_used_bytes; /* the entries that are there now, in memory and on disk */
	/* of disk that kv_memory has the cache take; 0: all is in memory, kv_bytes of it */
	uint64_t kv_disk_bytes;
	uint64_t kv_host_bytes;     /* the same of the machine's memory, beside a device */
	uint64_t kv_resident_bytes; /* of memory that the cache takes now, at most */
	/* Of the tokens generated since the last prefill, -1: not known. Where it takes disk: bytes that one had read
	 * from the disk, on average (what the system's page cache had cost nothing); the share of its selected entries
	 * that the token before it had selected, too. Beside a device, where it takes the machine's memory: bytes that
	 * one had fetched from there; the share of its selected entries that the device had already. These lag behind
	 * by up to 32 tokens. */
	double kv_fetched, kv_overlap;
	char kv[128], kv_type[8];
	/* of the last sync and of the steps since */
	int32_t prefill_tokens, reused_tokens, decode_tokens;
	/* tokens that were computed on a guess, and those of them that were sampled: see timeline_speculate() */
	int32_t drafted, accepted;
	double prefill_seconds, decode_seconds;
	double policy_seconds; /* part of decode_seconds, see timeline_measure() */
};
/* `rings` counts what is committed: see timeline_settle(). */
void timeline_stats(const struct timeline *, struct timeline_stats *out);
/* The cache policy with all of its settings, as kv_policy_whole() has them.  Appends. */
void timeline_policy(const struct timeline *, struct str *out);

#endif
