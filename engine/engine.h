/* engine/engine.h - public interface of the inference engine: models, tokens, token sequences with a KV cache.
 *
 * struct engine is a loaded model. It is immutable, and threads may share it. struct timeline is one token sequence
 * with its KV cache and its last logits. Only one thread at a time may use it.
 *
 * To compute, the caller passes the whole token sequence to timeline_sync(), which prefills the tokens that the cache
 * lacks. Then each timeline_step() generates one token.
 *
 * More headers belong to the interface: engine_chat.h renders conversations as tokens; engine_view.h shows what a
 * cache holds and what is attended to; engine_snapshot.h saves and loads a sequence; encoder.h turns texts into
 * vectors; engine_machine.h describes and measures the machine; lab/lab.h, for the program weir-lab only, trains
 * models and compares cache policies.
 *
 * Functions that return int return 0, or -1 with the reason in *err, unless their comment says otherwise. */
#ifndef WEIR_ENGINE_H
#define WEIR_ENGINE_H

#include "engine/base/base.h"

struct engine;
struct timeline;

/* ---- the model ---- */

/* Callbacks that remember, from one run of the program to the next, whether a GPU's results agree with the CPU's. `gpu`
 * is a text that identifies the GPU, its driver, and the versions of weir and of weir's CUDA plugin. */
struct gpu_checks {
	/* Return the stored result for this GPU: 1 = the GPU passed the check; 0 = it failed, with the reason in `why`;
	 * -1 = no result is stored. */
	int (*find)(const char *gpu, char why[160]);
	/* Store a result. `why` is the reason for a failure, or NULL if the GPU passed the check. If the pointer to
	 * this function is NULL, results are not stored. */
	void (*keep)(const char *gpu, const char *why);
};

struct engine_options {
	const char *model_path;
	/* "cpu", "cuda" or "auto". "auto" or NULL means CUDA if a device has room for the weights, otherwise the
	 * CPU. */
	const char *device;
	/* A GPU is used only if it passes a check that its results agree with the CPU's. If the check fails, the CPU
	 * computes, even if `device` is "cuda", and info.device_note says so. NULL = use the GPU without a check. */
	const struct gpu_checks *gpu_checks;
	int threads;      /* number of CPU threads; 0 = one per available core */
	int vocab_only;   /* 1: read only the metadata and the tokenizer */
	int inspect_only; /* 1: check the whole file, but load no weights */
	/* 1: load no weights, but open the device, so that timeline_need() can be called */
	int plan_only;
	int check_weights; /* 1: scan all weights for NaN and infinity */
	const char *lora;  /* file of a LoRA adapter, or NULL */
	double lora_scale; /* factor by which the adapter's changes to the weights are multiplied */
	const char *pre;   /* name of the pre-tokenizer to use; NULL = the pre-tokenizer that the model file names */
	/* name of a built-in chat template, name of a template in the model file, or path of a template file. NULL =
	 * the main template of the model file */
	const char *chat_template;
	/* callback while weights are loaded: `done` of `total` bytes are loaded; may be NULL */
	void (*progress)(uint64_t done, uint64_t total, void *ud);
	void *progress_ud;
};

/* Facts about a loaded model. The engine owns the strings. A note or error text is "" if there is none. */
struct engine_info {
	/* `name` is the value of general.name, or the file name if the file has no such value */
	const char *path, *name;
	char arch[32], quant[16]; /* `quant` is the tensor type that takes the largest part of the file's bytes */
	/* description of the device, for example "cpu avx512, 2 threads" or "cuda NVIDIA H100 80GB HBM3, ..." */
	char device[64];
	char device_note[240];   /* why a GPU that was found is not used */
	char sampling_note[200]; /* which sampler setting in the model file is ignored, and why */
	uint64_t device_total;   /* number of bytes of the GPU's memory; 0 = the device uses system memory */
	int threads;             /* number of CPU threads that compute */
	char tokenizer[48];      /* names of tokenizer and pre-tokenizer, for example "gpt2/smollm" */
	/* name of a built-in template. For other templates it is "jinja-HASH", with a hash of the template's text. "" =
	 * there is no usable template */
	char template_name[32];
	char template_error[400]; /* why the template is unusable */
	/* 1: the file has a template, or engine_options.chat_template names one; the template may be unusable */
	int has_template;
	/* Properties of the chat template; each is 0 or 1. */
	int thinks_first; /* the template opens <think>, so an answer begins with reasoning */
	/* 1: the template renders system messages; 0: the caller must put the system prompt in front of the first
	 * question */
	int takes_system;
	/* 1: the template refuses two questions in a row, so the caller must join them into one message */
	int wants_turns;
	/* 1: an answer has two channels (gpt-oss), one for reasoning and one for the answer itself. In later prompts,
	 * the template omits the reasoning. */
	int channels;
	int think_switch;       /* the template supports the flag REPLY_NO_THOUGHT */
	int think_ask;          /* the template supports the flag REPLY_THOUGHT */
	int asked_thinks_first; /* with REPLY_THOUGHT the template opens <think>, so an answer begins with reasoning */
	uint64_t weight_bytes, n_params;
	uint64_t bytes_per_token; /* number of bytes of weights that are read to decode one token */
	int32_t n_layer, n_embd, n_ff, n_head, n_kv_head, head_dim, n_vocab, ctx_train;
	/* n_expert is the number of experts in a layer, 0 = the model is dense; n_expert_used is the number of experts
	 * that are used for a token */
	int32_t n_expert, n_expert_used;
	/* number of KV heads and head dimension of the layers with a sliding window */
	int32_t n_kv_head_windowed, head_dim_windowed;
	/* number of layers without KV entries of their own; they read the entries of an earlier layer */
	int32_t n_borrowed;
	/* `window` is the length of the sliding window in tokens; n_windowed is the number of layers with such a
	 * window */
	int32_t window, n_windowed;
	/* number of recurrent layers, which have a state instead of KV entries */
	int32_t n_recurrent;
	uint64_t state_bytes; /* number of bytes of the states of all recurrent layers */
	double rope_base;
	const char *rope_scaling; /* kind of RoPE scaling: "none", "linear", "yarn", "llama3" or "longrope" */
	int tied_output, qkv_bias, qk_norm;
	int32_t bos, eos, eot; /* ids of these tokens; -1 = the model has no such token */
	int add_bos;           /* 1: the model file asks for BOS before raw text */
	const char *n_types;   /* number of tensors of each type, for example "210 Q4_1, 61 F32, 1 Q8_0" */
};

int engine_open(struct engine **out, const struct engine_options *, struct err *);
/* Close the engine. Its timelines must be closed before. The engine may be NULL. */
void engine_close(struct engine *);
const struct engine_info *engine_info(const struct engine *);

/* Return the length of a model file's head, which is everything before the weights. p[0 .. n) is the beginning of the
 * file. Return 0 if the head is longer than n bytes, and n if these bytes are not the beginning of a model file. With
 * the head, a model can be examined before its weights are downloaded: write the head into a sparse file of the model's
 * full length, and open this file with inspect_only or plan_only. */
uint64_t engine_head_bytes(const void *p, uint64_t n);

/* Return the i-th name of an architecture, of a pre-tokenizer, or of a built-in chat template; NULL if there are
 * fewer. */
const char *engine_arch_name(size_t i);
const char *engine_pre_name(size_t i);
const char *engine_template_name(size_t i);

/* ---- tokens ---- */

enum tokenize_flags { TOKENIZE_SPECIAL = 1, TOKENIZE_BOS = 2 };
/* Append the tokens of a text. With the flag TOKENIZE_SPECIAL, names of special tokens in the text become these
 * tokens. With the flag TOKENIZE_BOS, BOS is put before the text. For an encoder's vocabulary, BOS is put before the
 * text and EOS after it, if the model file asks for them. */
int engine_tokenize(const struct engine *, const char *text, size_t len, unsigned flags, struct tokens *out,
                    struct err *);
/* Copy at most `cap` bytes of the token's text to buf[], and return the length of that text in bytes. The text may be a
 * part of a UTF-8 character. The text of a control token is empty, or its name if with_special is 1. */
size_t engine_piece(const struct engine *, int32_t id, int with_special, char *buf, size_t cap);
/* Append the text of a token to *out, and return the length of this text in bytes. */
size_t engine_piece_add(const struct engine *, int32_t id, int with_special, struct str *out);
/* 1 if the token ends an answer. */
int engine_is_end(const struct engine *, int32_t id);
/* Return the natural logarithm of the probability of token `id` in the softmax of these logits. */
double engine_logprob(const float *logits, int32_t n_vocab, int32_t id);

/* ---- cache policies ---- */

/* Check the text of a policy. If it is invalid, return -1 with ERR_USAGE and the reason. */
int kv_policy_check(const char *text, struct err *);
/* Check the text of timeline_options.kv_type. If it is invalid, return -1 with the reason. */
int kv_type_check(const char *text, struct err *);
/* Return the name of policy number i, and set *help to its description. Policy 0 is the default. Return NULL if there
 * are fewer policies. */
const char *kv_policy_name(int i, const char **help);
/* Append a description of all policies with their settings. */
void kv_policy_help(struct str *out);
/* Append the text of a policy with all settings, even those that have their default values. Sessions store this text,
 * because defaults may change. */
void kv_policy_whole(const char *text, struct str *out);
/* Append the text of a policy without obsolete settings, which only older versions of weir have. Today each of these
 * settings has a fixed value. List in *removed the obsolete settings with a different value, for example "every=2,
 * pool=9". */
void kv_policy_current(const char *text, struct str *out, struct str *removed);
/* 1 if the policy evicts KV entries, so that a sequence may be longer than the context. */
int kv_policy_endless(const char *text);

/* ---- a sequence ---- */

struct timeline_options {
	/* number of tokens that the cache can hold; 0 = the context for which the model was trained, but at most 32768,
	 * and less if memory is short */
	int32_t ctx;
	const char *kv; /* cache policy, "NAME:key=value,..." (kv_policy_help); NULL = the default */
	/* element type of keys and values: "f16", "f32", "bf16", "q8_0" or "q4_0"; or a type for keys and a type for
	 * values: "k=q8_0,v=q4_0"; NULL = "f16" */
	const char *kv_type;
	/* number of tokens of a prefill step; 0 = 512. Results under the policy `full` do not depend on this number. */
	int32_t batch;
	/* Maximum number of bytes of memory for the cache (on a GPU: of GPU memory); 0 = no limit. KV entries that
	 * exceed the limit are put in an unlinked file in the user's cache directory, whose disk space is reserved on
	 * opening. With a GPU they are put in system memory instead; only some policies support that, such as sift with
	 * a key sketch. The limit does not change results. */
	uint64_t kv_memory;
	/* A share of attention. If it is 0 or 1, prompt tokens read all entries. Otherwise, in layers without a sliding
	 * window, a prompt token reads only the blocks of 64 entries that are estimated to get this share of its
	 * attention. The blocks do not depend on the size of prefill steps. Generated tokens are not affected. Works
	 * only on the CPU, under policies that never evict, and under `auto` before its first eviction. */
	float read_share;
};

/* Memory that opening a timeline takes, and memory that the machine has. Members without a unit are in bytes. */
struct timeline_need {
	int32_t ctx; /* context in tokens, after defaults are applied */
	/* maximum number of tokens whose KV entries the cache holds at a time; a sequence may be longer */
	int32_t held;
	uint64_t kv_bytes;      /* memory for the cache */
	uint64_t scratch_bytes; /* memory that is needed besides the cache, for activations and the like */
	uint64_t disk_bytes;    /* disk space for entries that exceed kv_memory */
	uint64_t host_bytes;    /* system memory for entries of a GPU's cache that exceed kv_memory */
	uint64_t least_bytes;   /* the smallest kv_memory that is sufficient, if kv_memory limits the cache */
	uint64_t free_bytes;    /* free memory of the device */
	uint64_t device_bytes;  /* total memory of the GPU; 0 = the engine computes in system memory */
	/* largest ctx whose cache fits into free_bytes together with the weights that are not loaded yet; 0 = no ctx
	 * fits */
	int32_t ctx_fits;
};
/* Compute the memory that timeline_open() would take. Nothing is allocated. */
int timeline_need(const struct engine *, const struct timeline_options *, struct timeline_need *out, struct err *);
/* Open an empty sequence. If memory is short, the error is ERR_FIT, and *err says how much is needed, how much is free,
 * and which context would fit. */
int timeline_open(struct timeline **out, struct engine *, const struct timeline_options *, struct err *);
/* The timeline may be NULL. */
void timeline_close(struct timeline *);

/* Called between the steps of a prefill, when `done` of its `total` tokens are computed. */
typedef void timeline_progress_fn(int32_t done, int32_t total, void *ud);
/* Make the sequence equal to want[0 .. n). The longest common beginning of the current sequence and want[] is reused;
 * the tokens after it are computed. Return the number of reused tokens. Return -1 on error or cancel: the sequence is
 * then valid but shorter. If want[] is longer than the context, the error is ERR_FIT, and nothing is computed.
 * `progress` may be NULL. */
int32_t timeline_sync(struct timeline *, const int32_t *want, size_t n, timeline_progress_fn *progress, void *ud,
                      struct err *);
/* Change the cache policy. Call timeline_sync() before the next step: it prefills the tokens whose KV entries the new
 * policy cannot reuse. If both policies never evict, all entries are reused, even entries of generated tokens, which
 * were computed under the old policy. (To recompute these, sync to the prompt first.) Pinning is lost: call
 * timeline_pin() again. After -1 the timeline is unchanged. */
int timeline_switch_kv(struct timeline *, const char *kv, struct err *);
/* Pin the first n tokens (system prompt, documents): they are never evicted. Call it before the timeline_sync() that
 * adds these tokens; if pinning changes the slots of tokens, timeline_sync() prefills them again. The error is ERR_FIT
 * if too few slots would be left for other tokens. Pinning has no effect under policies without a pinned prefix. */
int timeline_pin(struct timeline *, int32_t n, struct err *);
/* Return the tokens of the sequence, valid until the next call. */
const int32_t *timeline_tokens(const struct timeline *, size_t *n);
/* Return the logits [n_vocab] after the last token, valid until the next call; NULL if they are unknown or cannot be
 * read from the device. They are known after timeline_sync(), after timeline_extend(), and after a timeline_step() that
 * returned 0. */
const float *timeline_logits(struct timeline *);

/* Receives the logits [n_vocab] after the token at index `pos`. The logits are valid during the call. */
typedef void timeline_logits_fn(int32_t pos, const float *logits, void *ud);
/* Append the tokens id[0 .. n), and pass the logits after each token to fn (may be NULL). If `stepwise` is 1, decode
 * the tokens one by one, like generated tokens; if it is 0, prefill them. This function is for evaluation; it is slower
 * than timeline_sync(), which computes only the last logits. */
int timeline_extend(struct timeline *, const int32_t *id, size_t n, int stepwise, timeline_logits_fn *, void *ud,
                    struct err *);

/* ---- sampling ---- */

struct sampling {
	float temperature; /* sampling temperature; 0 = greedy: take the token with the largest logit */
	/* number of tokens from which one is sampled: those with the largest logits; 0 = all tokens */
	int32_t top_k;
	float top_p, min_p; /* top_p = 1 turns off top-p sampling; min_p = 0 turns off min-p sampling */
	/* repeat_penalty = 1 turns off this penalty; 0 turns off the other two */
	float repeat_penalty, presence_penalty, frequency_penalty;
	/* the penalties apply to tokens that occur among the last repeat_last tokens of the answer; -1 = among all its
	 * tokens */
	int32_t repeat_last;
	/* index of the answer's first token in the sequence; 0 = penalties apply to tokens of the prompt, too */
	int32_t answer;
	/* [n_given] tokens that the answer must begin with, taken without sampling; the caller owns them */
	const int32_t *given;
	int32_t n_given;
	uint64_t rng[4]; /* state of the random generator, set by sampling_seed() */
};
extern const struct sampling sampling_default;
void sampling_seed(struct sampling *, uint64_t seed);

/* Where the value of a sampler setting comes from. A later source overrides an earlier one. SAMPLING_FAMILY means the
 * advice of the makers of the model's family, and SAMPLING_FILE the model file (advice.c). Callers of the engine set
 * SAMPLING_USER and SAMPLING_SERVER. */
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
	unsigned char from[SAMPLING_SETTINGS]; /* where each setting comes from (enum sampling_source) */
	/* name of the family of models whose makers advise the setting, or NULL */
	const char *family;
};
/* Get the sampler settings for this model. If `reasons` is 1, get the settings for answers with reasoning, for which
 * some makers advise other values. */
void engine_sampling(const struct engine *, int reasons, struct sampling_choice *out);
/* Copy one setting from *from to *to. */
void sampling_take(struct sampling *to, const struct sampling *from, enum sampling_setting);

/* ---- generating ---- */

struct step_out {
	int32_t id;
};
/* Sample the next token and append it. Return 1. Return 0 if the token ends the turn: it is then in *out but not
 * appended. Return -1 on error, with the sequence unchanged. The error is ERR_FIT if the context is full, ERR_FAIL if a
 * logit is NaN or infinite, or ERR_CANCELLED. */
int timeline_step(struct timeline *, struct sampling *, struct step_out *, struct err *);
/* Turn speculative decoding on or off (initially off). When it is on, timeline_step() guesses the next tokens from
 * earlier parts of the sequence, and verifies several of them in one step. It does so only if measured times say that
 * this is faster. Tokens, logits, random draws, cache and snapshots stay the same. */
void timeline_speculate(struct timeline *, int on);
/* End the current step of speculative decoding, if there is one: commit the KV entries of all tokens that
 * timeline_step() has returned, except the last one. Functions that read the cache end the step themselves; only
 * timeline_stats() does not. */
int timeline_settle(struct timeline *, struct err *);
/* Stop the current call within 100 ms. May be called from any thread or signal handler. The current call returns
 * ERR_CANCELLED; if there is no current call, the next call returns it. All later calls return it, too, until
 * timeline_resume(). A call that waits for another timeline of the same engine stops when that timeline's step ends. */
void timeline_cancel(struct timeline *);
void timeline_resume(struct timeline *);

/* ---- statistics of a timeline ---- */

enum { RINGS_MOST = 8 };
/* Under policies that evict, tokens after the pinned ones are kept in rings (ring buffers). The newest tokens are in
 * the first ring. The next rings keep only some of the older tokens (man/weir-cache.7). */
struct ring_stats {
	int32_t pinned; /* number of tokens at the beginning that are never evicted */
	/* `n_ring` is the number of rings, or 0 if the policy never evicts. `ring_slots` is the number of slots of each
	 * ring. */
	int32_t n_ring, ring_slots;
	int32_t factor;           /* the next ring accepts one of each `factor` tokens that leave a ring */
	int32_t fill[RINGS_MOST]; /* number of tokens in each ring */
	/* index of the oldest token, and of the newest token, in each ring; -1 = the ring is empty */
	int32_t first[RINGS_MOST], last[RINGS_MOST];
	int32_t seen;    /* number of tokens that have entered the cache so far, including pinned ones */
	int32_t evicted; /* number of tokens whose entries are evicted in all layers and KV heads */
	/* number of tokens whose entries are evicted in some layers and KV heads, but not in all */
	int32_t evicted_in_part;
	/* index of the oldest token after the pinned ones that still has an entry; -1 = there is none */
	int32_t oldest;
};
struct timeline_stats {
	int32_t n_tokens, ctx, batch; /* `ctx` is the maximum number of tokens in the cache */
	int endless;                  /* 1: the sequence may be longer than ctx, because entries are evicted */
	struct ring_stats rings;
	uint64_t kv_bytes, scratch_bytes, kv_bytes_per_token;
	uint64_t kv_used_bytes;     /* number of bytes of the KV entries in use, in memory and on disk */
	uint64_t kv_disk_bytes;     /* disk space of the cache; 0 = no entries are on disk (see kv_memory) */
	uint64_t kv_host_bytes;     /* system memory that a GPU's cache uses (see kv_memory) */
	uint64_t kv_resident_bytes; /* maximum memory that the open cache takes (on a GPU: GPU memory) */
	/* For a cache with entries on disk or in host memory: means over the tokens generated since the last prefill;
	 * -1 = unknown. On a GPU the newest 32 tokens may be missing from the means. */
	/* number of bytes that are read per token, from disk (or its page cache), or on a GPU from host memory */
	double kv_fetched;
	/* Share of the selected entries that the previous token had selected, too. On a GPU, it is the share that was
	 * already in GPU memory. */
	double kv_overlap;
	char kv[128], kv_type[16];
	/* The following counts and times are those of the last timeline_sync() and of all timeline_step() calls after
	 * it. */
	int32_t prefill_tokens, reused_tokens, decode_tokens;
	/* `drafted` is the number of tokens that speculative decoding has guessed; `accepted` is the number of guesses
	 * that were right */
	int32_t drafted, accepted;
	double prefill_seconds, decode_seconds;
	double policy_seconds; /* the part of decode_seconds that was spent in the cache policy (timeline_measure) */
};
/* Get the statistics. `rings` does not count the tokens of an unfinished step of speculative decoding, which
 * timeline_settle() would commit. */
void timeline_stats(const struct timeline *, struct timeline_stats *out);
/* Append the text of the cache policy, with all settings. */
void timeline_policy(const struct timeline *, struct str *out);
/* Return how many bytes of the cache are read to compute the token at index `pos`: KV entries, and the data that are
 * scanned to select entries. If `decode` is 1, the token is generated; if it is 0, it belongs to a prompt. */
uint64_t timeline_read_bytes(const struct timeline *, int32_t pos, int decode);
/* Turn on the measurement of policy_seconds. This is the time for rotating, selecting, summing attention mass and
 * moving entries, without the attention itself. The measurement costs a few microseconds per step. */
void timeline_measure(struct timeline *, int on);

#endif
