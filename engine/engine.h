/* engine/engine.h - the door to inference: a loaded model, conversations as tokens, a token sequence with its KV
 * cache.
 *
 * struct engine is a loaded model: immutable, shared by threads. struct timeline is one token sequence with its KV
 * cache and its last logits: used by one thread at a time.
 *
 * A caller states what the sequence should be. timeline_sync() computes only the tokens that the cache lacks, and
 * timeline_step() generates. A chat turn, a regenerated answer, an edit, a document and an evaluation are all sync +
 * step.
 *
 * Three more doors lead to the same two structs:
 *     engine_view.h      what a cache holds and what is attended, for panels
 *     engine_snapshot.h  a sequence as bytes, for storing it
 *     lab/lab.h          training and comparisons, for weir-lab alone
 *
 * Functions that return int give 0, or -1 with the reason in *err, unless their comment says otherwise. */
#ifndef WEIR_ENGINE_H
#define WEIR_ENGINE_H

#include "engine/base/base.h"

struct engine;
struct timeline;

/* ---- the model ---- */

struct engine_options {
	const char *model_path;
	const char
		*device;  /* "cpu", "cuda", or "auto" (NULL): CUDA if a device has room for the weights, else the CPU */
	int threads;      /* CPU threads; 0 = one per available core */
	int vocab_only;   /* 1: read metadata and tokenizer only */
	int inspect_only; /* 1: check the whole file, load no weights */
	int plan_only;    /* 1: inspect_only, and timeline_need() works, even if the weights do not fit */
	int check_weights; /* 1: scan all weights for NaN and infinity */
	const char *lora;  /* file of a LoRA adapter, or NULL */
	double lora_scale; /* factor of the adapter's changes */
	const char *pre;   /* pre-tokenizer in place of the file's, or NULL */
	/* chat template in place of the file's, or NULL: a built-in name, one of the file's other templates, or a
	 * path */
	const char *chat_template;
	/* called while weights are loaded, with the bytes so far and of all weights; may be NULL */
	void (*progress)(uint64_t done, uint64_t total, void *ud);
	void *progress_ud;
};

/* Strings belong to the engine. Sentences are "" if there is nothing to say. */
struct engine_info {
	const char *path, *name;  /* name: general.name, else the file name */
	char arch[32], quant[16]; /* quant: the type that holds most weight bytes */
	char device[64];          /* "cpu avx512, 2 threads"; "cuda NVIDIA H100 80GB HBM3, ..." */
	char device_note[200];    /* sentence: why "auto" passed over a device */
	char sampling_note[200];  /* sentence: which sampling key of the file is ignored, and why */
	uint64_t device_total;    /* bytes of the device's own memory; 0 = computes in the system's memory */
	int threads;              /* CPU threads that compute */
	char tokenizer[48];       /* "gpt2/smollm" */
	char template_name[32];   /* name of a built-in template, "jinja-HASH" of another; "" = no usable template */
	char template_error[400]; /* sentence: why the template is unusable */
	int has_template;         /* 1: the file carries a template, usable or not */
	/* properties of the template, 0 or 1: */
	int thinks_first; /* opens <think>: an answer begins with reasoning */
	int takes_system; /* shows a system message; 0: the system prompt belongs in front of the first question */
	int wants_turns;  /* refuses two questions in a row: join them into one message */
	int channels;     /* answers have channels, as gpt-oss's; earlier answers are rendered without reasoning */
	int think_switch; /* knows REPLY_NO_THOUGHT */
	int think_ask;    /* knows REPLY_THOUGHT */
	int asked_thinks_first; /* thinks_first of a REPLY_THOUGHT rendering */
	uint64_t weight_bytes, n_params;
	uint64_t bytes_per_token; /* weight bytes read to decode one token */
	int32_t n_layer, n_embd, n_ff, n_head, n_kv_head, head_dim, n_vocab, ctx_train;
	int32_t n_expert, n_expert_used;               /* experts of a layer, and used per token; 0 = dense */
	int32_t n_kv_head_windowed, head_dim_windowed; /* KV heads of the layers with a window, and their size */
	int32_t n_borrowed;                            /* layers that read the KV entries of earlier layers */
	int32_t window, n_windowed;                    /* sliding window in tokens, and the layers that have it */
	int32_t n_recurrent;                           /* layers with a state of fixed size in place of a KV cache */
	uint64_t state_bytes;                          /* bytes of all these states */
	double rope_base;
	const char *rope_scaling; /* "none", "linear", "yarn", "llama3", "longrope" */
	int tied_output, qkv_bias, qk_norm;
	int32_t bos, eos, eot; /* token ids; -1 = none */
	int add_bos;           /* 1: the file asks for BOS before raw text */
	const char *n_types;   /* "210 Q4_1, 61 F32, 1 Q8_0" */
};

int engine_open(struct engine **out, const struct engine_options *, struct err *);
/* Close all timelines of the engine before. NULL is allowed. */
void engine_close(struct engine *);
const struct engine_info *engine_info(const struct engine *);

/* Return how many first bytes of a model file hold everything but its weights: 0 = p[0 .. n) is too short to tell; n
 * = the bytes are not a model. A sparse file of these bytes with the full length opens with inspect_only and
 * plan_only. */
uint64_t engine_head_bytes(const void *p, uint64_t n);

/* Names the user can choose from; NULL past the end. */
const char *engine_arch_name(size_t i);
const char *engine_pre_name(size_t i);
const char *engine_template_name(size_t i);

/* ---- the machine ---- */

/* Return which CPU kernels are in use and which are available, as "avx512 (avx512, avx2, c available)". */
const char *engine_cpu_level(void);
/* Measure the bytes per second that `threads` threads read from memory: best of a few passes over `bytes`. */
double engine_bandwidth(int threads, uint64_t bytes);
/* Measure the 8-bit multiply-adds per second of `threads` threads. */
double engine_arithmetic(int threads);
/* Measure the bytes per second, read and written, of copying inside the engine's memory: best of a few passes; 0 = no
 * room for the buffer. */
double engine_copy_bandwidth(struct engine *, uint64_t bytes);
/* Return how many more bytes of memory this process may use: the smallest limit of machine, container and process. */
uint64_t engine_memory_free(void);
/* For a SIGBUS handler: 1 if the address is in a mapped model file or cache file, which was truncated or whose disk
 * failed. The thread may then continue, and its step fails with a sentence. */
int engine_fault(const void *address);
struct engine_gpu {
	char text[160];            /* a line about the device, or why there is none */
	uint64_t available, total; /* bytes of its memory */
};
/* Describe the device of "cuda"; -1: there is none. */
int engine_gpu(struct engine_gpu *);

/* ---- reasoning (token/reasoning_marks.c) ----
 *
 * Models that reason enclose the reasoning in marks, in front of the answer. A mark that is a control token is part
 * of the answer's text all the same. An answer of gpt-oss ("harmony") has one message per channel:
 * "<|channel|>analysis<|message|>REASONING<|end|><|start|>assistant<|channel|>final<|message|>ANSWER". */
struct reasoning_mark {
	const char *open, *close;
};
/* NULL: past the end. */
const struct reasoning_mark *reasoning_mark_at(size_t i);
/* 1 if the mark opens a channel; the answer is in channel "final". */
int reasoning_has_channels(const struct reasoning_mark *);
#define CHANNEL_MARK  "<|channel|>"
#define CHANNEL_TEXT  "<|message|>"
#define CHANNEL_NEXT  "<|start|>"
#define CHANNEL_END   "<|end|>"
#define CHANNEL_FINAL CHANNEL_MARK "final" CHANNEL_TEXT

/* ---- conversations as tokens (template/render.c) ---- */

enum chat_role { ROLE_SYSTEM, ROLE_USER, ROLE_ASSISTANT };
struct chat_msg {
	enum chat_role role;
	const char *text;
	size_t len;
	/* the tokens of a generated answer; they are rendered verbatim, so that the KV entries still match */
	const int32_t *id;
	size_t n_id;
	const char *role_name; /* a role that only templates know ("tool"); NULL = use `role` */
};
/* The text of a message in a rendered conversation: message bytes from .. from + n are rendered bytes at .. at + n (a
 * template may cut off blanks or reasoning). at = SIZE_MAX: the template omits or changes the text. */
struct text_place {
	size_t at, from, n;
};

/* A rendered conversation. Rendering it again after a change reuses the tokens that both renderings share and
 * tokenizes the difference only. Starts as all zero; belongs to one engine until rendered_free(). */
struct rendered {
	struct tokens id;         /* with BOS if model and template want one */
	uint32_t *end;            /* [id.n] rendered bytes up to the end of each token, ascending */
	struct text_place *place; /* [n_msg] the text of each message */
	size_t n_msg;
	struct rendered_text *text; /* private to the engine */
};
enum render_flags {
	REPLY_HEAD = 1,       /* end with the head of an answer */
	REPLY_NO_THOUGHT = 2, /* ask for an answer without reasoning, if the template can */
	RENDER_OPEN = 4,      /* the last message is unfinished: omit what the template puts after its text */
	REPLY_THOUGHT = 8     /* ask for an answer with reasoning, if the template has the choice */
};
/* Render a conversation; a model without a template gets the texts one after the other. Only the template makes
 * special tokens: the same bytes in a message are plain text. before: an earlier rendering, or NULL. *out, which may
 * be *before, is overwritten; after -1 *out is unchanged. */
int engine_render(const struct engine *, const struct chat_msg *, size_t n, unsigned flags,
                  const struct rendered *before, struct rendered *out, struct err *);
void rendered_free(struct rendered *);
/* Append the rendered text to *out. bos, eos: texts of these tokens; NULL = the model's. */
int engine_render_text(const struct engine *, const struct chat_msg *, size_t n, unsigned flags, const char *bos,
                       const char *eos, struct str *out, struct err *);
/* Return the first token that ends behind byte `byte` of message i's text; SIZE_MAX = that byte is not rendered. */
size_t rendered_token(const struct rendered *, size_t i, size_t byte);
/* Append the first tokens that do not depend on the text of message i from byte `byte` on: a prefix to prefill before
 * that text is known. */
int engine_render_stable(const struct engine *, const struct rendered *, size_t i, size_t byte, struct tokens *out,
                         struct err *);
/* Set *n = tokens of bytes from .. to of message i's text when tokenized alone; -1: these bytes are not rendered. */
int engine_render_count(const struct engine *, const struct rendered *, size_t i, size_t from, size_t to, size_t *n,
                        struct err *);
/* Append text[0 .. n) with its tokens id[0 .. n_id) to the last message, which was rendered with RENDER_OPEN. */
void engine_render_add(const struct engine *, struct rendered *, const char *text, size_t n, const int32_t *id,
                       size_t n_id);

/* ---- tokens ---- */

enum tokenize_flags { TOKENIZE_SPECIAL = 1, TOKENIZE_BOS = 2 };
/* Append the tokens of a text. TOKENIZE_SPECIAL: names of special tokens become these tokens. TOKENIZE_BOS: begin with
 * BOS; with the vocabulary of an encoder: BOS and EOS around the text, as the file says. */
int engine_tokenize(const struct engine *, const char *text, size_t len, unsigned flags, struct tokens *out,
                    struct err *);
/* Copy at most cap bytes of a token, maybe part of a UTF-8 character; return its full length. A control token has 0
 * bytes; with_special: the bytes of its name. */
size_t engine_piece(const struct engine *, int32_t id, int with_special, char *buf, size_t cap);
/* Append the bytes of a token; return how many. */
size_t engine_piece_add(const struct engine *, int32_t id, int with_special, struct str *out);
/* 1 if the token ends an answer. */
int engine_is_end(const struct engine *, int32_t id);
/* Return ln p(id) under these logits, summed in double. */
double engine_logprob(const float *logits, int32_t n_vocab, int32_t id);

/* ---- cache policies ---- */

/* Check a policy's text; ERR_USAGE with the reason. */
int kv_policy_check(const char *text, struct err *);
/* Return the name of policy i, the default first, and its help; NULL past the end. */
const char *kv_policy_name(int i, const char **help);
/* Append a description of all policies with their settings. */
void kv_policy_help(struct str *out);
/* Append the policy with all of its settings spelled out. Sessions store this text, because defaults may change. */
void kv_policy_whole(const char *text, struct str *out);
/* Append a policy's text without the settings that older versions had and this one has not. Append those of them
 * that changed what the policy did to *removed, as "every=2, pool=9". */
void kv_policy_current(const char *text, struct str *out, struct str *removed);
/* Append the policy with one setting changed, in its shortest form. ERR_USAGE: it has no such setting or value. */
int kv_policy_with(const char *text, const char *key, const char *value, struct str *out, struct err *);
/* 1 if a sequence under this policy may be longer than its context. */
int kv_policy_endless(const char *text);
/* Which KV entries a change of policy (timeline_switch_kv) keeps. */
enum kv_sharing {
	KV_SHARES_NOTHING, /* none in a change to or from this policy: it evicts */
	/* some in a change from this policy; none in a change to it, because it must observe a whole prefill */
	KV_SHARES_AFTER,
	KV_SHARES_BOTH /* some in a change to or from this policy */
};
enum kv_sharing kv_policy_sharing(const char *text);

/* ---- a sequence ---- */

struct timeline_options {
	int32_t ctx;         /* most tokens in the cache; 0 = the trained context, less if memory is short */
	const char *kv;      /* cache policy, "NAME:key=value,..." (kv_policy_help); NULL = the default */
	const char *kv_type; /* "f16" (NULL), "f32", "bf16" or "q8_0" */
	int32_t batch;       /* tokens of a prefill step; 0 = 512. Does not change results under `full` */
	/* Bytes of memory (on a GPU: of its memory) that the cache may take; 0 = as many as it needs. Further KV
	 * entries go to an unlinked file in the user's cache directory, whose space is reserved on opening; with a
	 * GPU they go to the machine's memory, under a policy that allows it (sift with a key sketch).
	 * Results do not change. */
	uint64_t kv_memory;
	/* In layers without a window, a token of a prompt reads only the blocks of 64 entries that hold this share of
	 * its attention, by an estimate (backend.h: read_blocks); 0 or 1 = all. The blocks do not depend on how the
	 * prompt is cut into steps. Generated tokens follow the policy. Once a bounded stream is full, its tokens
	 * read everything. On the CPU alone, under `auto` and policies that retain everything. */
	float read_share;
};

/* What opening takes, and what the machine has. Bytes unless said otherwise. */
struct timeline_need {
	int32_t ctx;            /* tokens, after defaults */
	int32_t held;           /* tokens in the cache at a time, as timeline_stats() has them of an endless sequence */
	uint64_t kv_bytes;      /* memory of the cache */
	uint64_t scratch_bytes; /* memory of buffers */
	uint64_t disk_bytes;    /* disk space of the cache, if kv_memory is too small */
	uint64_t host_bytes;    /* machine memory of a GPU's cache, if kv_memory is too small */
	uint64_t least_bytes;   /* smallest kv_memory that works, if kv_memory is too small */
	uint64_t free_bytes;    /* free memory, on a GPU of the device */
	uint64_t device_bytes;  /* total memory of the device; 0 if the engine computes in system memory */
	int32_t ctx_fits;       /* largest ctx that fits free_bytes, beside weights that are still to load; 0 = none */
};
/* Compute what opening would take; allocates nothing. */
int timeline_need(const struct engine *, const struct timeline_options *, struct timeline_need *out, struct err *);
/* Fails with ERR_FIT and the numbers (needed, free, which -c fits) before allocating. */
int timeline_open(struct timeline **out, struct engine *, const struct timeline_options *, struct err *);
/* NULL is allowed. */
void timeline_close(struct timeline *);

/* Called between the steps of a prefill. */
typedef void timeline_progress_fn(int32_t done, int32_t total, void *ud);
/* Make the sequence equal to want[0 .. n); compute only what the cache lacks. Return the tokens reused, or -1: the
 * sequence is then valid and shorter, also after a cancel. ERR_FIT: want[] is longer than the context; nothing is
 * computed. progress may be NULL. */
int32_t timeline_sync(struct timeline *, const int32_t *want, size_t n, timeline_progress_fn *progress, void *ud,
                      struct err *);
/* Change the cache policy; context and types stay. Call timeline_sync() before the next step: it prefills what the
 * new policy lacks. If both policies retain everything, KV entries are kept; those of generated tokens keep the
 * values computed under the old policy (to recompute them, sync to the prompt first). Pinned tokens must be pinned
 * again. After -1 the timeline is unchanged. */
int timeline_switch_kv(struct timeline *, const char *kv, struct err *);
/* Pin the first n tokens (system prompt, documents): they are never evicted, and a bounded stream begins behind them.
 * Call it before the sync() that brings them; that sync prefills again the tokens whose slots change. ERR_FIT: too
 * few slots would be left for the stream. Without effect under policies that have no pinned prefix. */
int timeline_pin(struct timeline *, int32_t n, struct err *);
/* The sequence so far, valid until the next call. */
const int32_t *timeline_tokens(const struct timeline *, size_t *n);
/* The logits [n_vocab] after the last token, valid until the next call; NULL unless the last call was a sync(), a
 * step or a stepwise extend() that succeeded. */
const float *timeline_logits(const struct timeline *);

/* logits [n_vocab]: after the token at index pos, valid during the call. */
typedef void timeline_logits_fn(int32_t pos, const float *logits, void *ud);
/* Append id[0 .. n) and pass the logits after each token to fn (may be NULL). stepwise: decode the tokens one by one
 * as if generated; else prefill them. For evaluation: slower than sync(), which computes the last logits only. */
int timeline_extend(struct timeline *, const int32_t *id, size_t n, int stepwise, timeline_logits_fn *, void *ud,
                    struct err *);

/* ---- sampling ---- */

struct sampling {
	float temperature;  /* 0 = greedy: the likeliest token after the penalties */
	int32_t top_k;      /* 0 = all */
	float top_p, min_p; /* 1 and 0 = off */
	float repeat_penalty, presence_penalty, frequency_penalty; /* 1, 0, 0 = off */
	int32_t repeat_last; /* last tokens of the answer that penalties count; -1 = all */
	int32_t answer; /* index of the answer's first token in the sequence; 0 = penalties count the prompt, too */
	const int32_t *given; /* [n_given] first tokens of the answer, taken without a draw; owned by the caller */
	int32_t n_given;
	uint64_t rng[4]; /* state; sampling_seed() fills it */
};
extern const struct sampling sampling_default;
void sampling_seed(struct sampling *, uint64_t seed);

/* The origin of a sampler setting, the later overriding the earlier (advice.c): the default, the advice of the makers
 * of the model's family, the model file. USER and SERVER are for callers. */
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
	const char *family;                    /* family whose makers gave the advice, or NULL */
};
/* Get the settings for answers without reasoning, or with (reasons = 1): some makers advise different ones. */
void engine_sampling(const struct engine *, int reasons, struct sampling_choice *out);
/* Copy one setting. */
void sampling_take(struct sampling *to, const struct sampling *from, enum sampling_setting);

/* ---- generating ---- */

struct step_out {
	int32_t id;
};
/* Sample the next token and append it. Return 1; 0 if the token ends the turn (it is in *out and not appended); -1
 * with the sequence unchanged: ERR_FIT if the context is full, ERR_CANCELLED, ERR_FAIL on NaN or infinite logits. */
int timeline_step(struct timeline *, struct sampling *, struct step_out *, struct err *);
/* Turn speculative decoding on or off (off after opening). On: timeline_step() drafts tokens from earlier occurrences
 * of the newest ones and verifies several in one step, if measured speeds say that this is faster. Tokens, logits,
 * draws of the sampler, cache and snapshots do not change. */
void timeline_speculate(struct timeline *, int on);
/* Commit the KV entries of all tokens that timeline_step() has returned, except the last one's, as decoding one by
 * one does. Calls that read the cache settle by themselves, except timeline_stats(). */
int timeline_settle(struct timeline *, struct err *);
/* Stop the running call within 100 ms; callable from any thread or signal handler. That call, or the next one,
 * returns ERR_CANCELLED, and so do all further calls until timeline_resume(). A call that waits for another timeline
 * of the engine stops after that timeline's step. */
void timeline_cancel(struct timeline *);
void timeline_resume(struct timeline *);

/* ---- what a timeline says of itself ---- */

enum { RINGS_MOST = 8 };
/* The rings of a bounded stream (man/weir-cache.7), the newest first. */
struct ring_stats {
	int32_t pinned;             /* first tokens, never evicted */
	int32_t n_ring, ring_slots; /* rings, and slots of each; n_ring 0 = nothing is ever evicted */
	int32_t factor;             /* one of so many tokens that a ring pushes out is offered to the next older ring */
	int32_t fill[RINGS_MOST];   /* tokens in each ring */
	int32_t first[RINGS_MOST], last[RINGS_MOST]; /* oldest and newest token of each ring; -1 = empty */
	int32_t seen;                                /* tokens that entered the cache, with the pinned ones */
	int32_t evicted;                             /* tokens evicted by all pairs of layer and KV head */
	int32_t evicted_in_part;                     /* tokens evicted by some pairs */
	int32_t oldest; /* first token of the stream that any pair still holds; -1 = none */
};
struct timeline_stats {
	int32_t n_tokens, ctx, batch; /* ctx: tokens that the cache holds at most */
	int endless;                  /* 1: the sequence may be longer than ctx, because the cache evicts (rings) */
	struct ring_stats rings;
	uint64_t kv_bytes, scratch_bytes, kv_bytes_per_token;
	uint64_t kv_used_bytes;     /* bytes of the present KV entries, in memory and on disk */
	uint64_t kv_disk_bytes;     /* disk space of the cache (kv_memory); 0 = all of kv_bytes is memory */
	uint64_t kv_host_bytes;     /* machine memory of a GPU's cache (kv_memory) */
	uint64_t kv_resident_bytes; /* most memory that the cache takes at present */
	/* Means over the tokens generated since the last prefill, for a cache on disk or in host memory; -1 =
	 * unknown. Counts of a GPU lag by up to 32 tokens. */
	double kv_fetched; /* bytes read per token: from disk or the page cache; on a GPU from host memory */
	double kv_overlap; /* share of the selected entries that were at hand: selected by the token before, too; on a GPU
	                    * already on the device */
	char kv[128], kv_type[8];
	/* counts and times of the last sync and the steps since: */
	int32_t prefill_tokens, reused_tokens, decode_tokens;
	int32_t drafted,
		accepted; /* tokens that were drafted, and drafted tokens that were kept (timeline_speculate) */
	double prefill_seconds, decode_seconds;
	double policy_seconds; /* part of decode_seconds (timeline_measure) */
};
/* `rings` counts committed tokens (timeline_settle). */
void timeline_stats(const struct timeline *, struct timeline_stats *out);
/* Append the cache policy with all of its settings. */
void timeline_policy(const struct timeline *, struct str *out);
/* Return the cache bytes that one token reads with pos tokens before it: KV entries, and the key sketches or bounds
 * that are scanned. decode: of a generated token; else of a prompt's token. */
uint64_t timeline_read_bytes(const struct timeline *, int32_t pos, int decode);
/* Measure the time of the policy beyond attention and storing: rotating, selecting, summing, moving. Costs a few
 * microseconds a step. Longer attention because the policy observes it counts as attention. */
void timeline_measure(struct timeline *, int on);

#endif
