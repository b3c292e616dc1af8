/* engine/engine.h - public interface of the inference engine: models, conversations as tokens, token sequences with a
 * KV cache.
 *
 * struct engine is a loaded model. It is immutable, and threads may share it. struct timeline is one token sequence
 * with its KV cache and its last logits. Only one thread at a time may use it.
 *
 * To compute, the caller passes the whole token sequence to timeline_sync(), which prefills the tokens that the cache
 * lacks. Then each timeline_step() generates one token.
 *
 * Three more headers have functions for these structs: engine_view.h shows what a cache holds and what is attended
 * to; engine_snapshot.h saves and loads a sequence; lab/lab.h, for the program weir-lab only, trains models and
 * compares cache policies.
 *
 * Functions that return int return 0, or -1 with the reason in *err, unless their comment says otherwise. */
#ifndef WEIR_ENGINE_H
#define WEIR_ENGINE_H

#include "engine/base/base.h"

struct engine;
struct timeline;

/* ---- the model ---- */

/* Callbacks that remember, from one run of the program to the next, whether a GPU's results agree with the CPU's. gpu:
 * text that identifies the GPU, its driver, and the versions of weir and of weir's CUDA plugin. */
struct gpu_checks {
	/* Return the stored result for this GPU: 1 = it passed the check; 0 = it failed, with the reason in why; -1 =
	 * no result is stored. */
	int (*find)(const char *gpu, char why[160]);
	/* Store a result. why: the reason for a failure, or NULL if the GPU passed the check. The pointer to this
	 * function may be NULL; results are then not stored. */
	void (*keep)(const char *gpu, const char *why);
};

struct engine_options {
	const char *model_path;
	/* "cpu", "cuda" or "auto". "auto" or NULL means CUDA if a device has room for the weights, otherwise the
	 * CPU. */
	const char *device;
	/* A GPU is used only if it passes a check that its results agree with the CPU's. If the check fails, the CPU
	 * computes, even if device is "cuda", and info.device_note says so. NULL = use the GPU without a check. */
	const struct gpu_checks *gpu_checks;
	int threads;      /* CPU threads; 0 = one per available core */
	int vocab_only;   /* 1: read metadata and tokenizer only */
	int inspect_only; /* 1: check the whole file, load no weights */
	/* 1: load no weights, but open the device; timeline_need() then works */
	int plan_only;
	int check_weights; /* 1: scan all weights for NaN and infinity */
	const char *lora;  /* file of a LoRA adapter, or NULL */
	double lora_scale; /* factor by which the adapter's changes to the weights are multiplied */
	const char *pre;   /* name of the pre-tokenizer to use; NULL = the pre-tokenizer that the model file names */
	/* name of a built-in chat template, name of a template in the model file, or path of a template file. NULL =
	 * the main template of the model file */
	const char *chat_template;
	/* called while weights are loaded: `done` of `total` bytes are loaded; may be NULL */
	void (*progress)(uint64_t done, uint64_t total, void *ud);
	void *progress_ud;
};

/* Facts about a loaded model. The engine owns the strings. A note or error text is "" if there is none. */
struct engine_info {
	const char *path, *name;  /* name: value of general.name, or the file name if the file has no such value */
	char arch[32], quant[16]; /* quant: the tensor type that takes the largest part of the file's bytes */
	char device[64];          /* for example "cpu avx512, 2 threads" or "cuda NVIDIA H100 80GB HBM3, ..." */
	char device_note[240];    /* why a GPU that was found is not used */
	char sampling_note[200];  /* which sampler setting in the model file is ignored, and why */
	uint64_t device_total;    /* bytes of the GPU's memory; 0 = the device uses system memory */
	int threads;              /* number of CPU threads that compute */
	char tokenizer[48];       /* tokenizer and pre-tokenizer, for example "gpt2/smollm" */
	/* name of a built-in template; for other templates "jinja-HASH", with a hash of the template's text; "" = no
	 * usable template */
	char template_name[32];
	char template_error[400]; /* why the template is unusable */
	int has_template;         /* 1: the file has a template, or chat_template has chosen one; it may be unusable */
	/* properties of the chat template, 0 or 1: */
	int thinks_first; /* the template opens <think>: an answer begins with reasoning */
	/* 1: the template renders system messages; 0: put the system prompt in front of the first question */
	int takes_system;
	int wants_turns; /* 1: the template refuses two questions in a row: join them into one message */
	/* 1: an answer has two channels (gpt-oss), one for reasoning and one for the answer itself. In later prompts
	 * the template omits the reasoning. */
	int channels;
	int think_switch;       /* the template supports REPLY_NO_THOUGHT */
	int think_ask;          /* the template supports REPLY_THOUGHT */
	int asked_thinks_first; /* with REPLY_THOUGHT the template opens <think>, so an answer begins with reasoning */
	uint64_t weight_bytes, n_params;
	uint64_t bytes_per_token; /* weight bytes read to decode one token */
	int32_t n_layer, n_embd, n_ff, n_head, n_kv_head, head_dim, n_vocab, ctx_train;
	/* n_expert: experts in a layer, 0 = the model is dense; n_expert_used: experts used per token */
	int32_t n_expert, n_expert_used;
	/* in layers with a sliding window: number of KV heads, head dimension */
	int32_t n_kv_head_windowed, head_dim_windowed;
	/* number of layers without KV entries of their own; they read the entries of an earlier layer */
	int32_t n_borrowed;
	/* window: length of the sliding window in tokens; n_windowed: number of layers with such a window */
	int32_t window, n_windowed;
	/* number of recurrent layers, which have a state instead of KV entries */
	int32_t n_recurrent;
	uint64_t state_bytes; /* bytes of the states of all recurrent layers */
	double rope_base;
	const char *rope_scaling; /* "none", "linear", "yarn", "llama3", "longrope" */
	int tied_output, qkv_bias, qk_norm;
	int32_t bos, eos, eot; /* token ids; -1 = none */
	int add_bos;           /* 1: the file asks for BOS before raw text */
	const char *n_types;   /* number of tensors of each type, for example "210 Q4_1, 61 F32, 1 Q8_0" */
};

int engine_open(struct engine **out, const struct engine_options *, struct err *);
/* Close the engine. Its timelines must be closed already. NULL is allowed. */
void engine_close(struct engine *);
const struct engine_info *engine_info(const struct engine *);

/* Return the length of a model file's head, which is everything before the weights. p[0 .. n) is the beginning of the
 * file. Return 0 if the head is longer than n bytes; return n if p is not the beginning of a model file. With the head
 * a model can be examined before its weights are downloaded: write the head into a sparse file of the model's full
 * length, and open this file with inspect_only or plan_only. */
uint64_t engine_head_bytes(const void *p, uint64_t n);

/* Return the i-th name of an architecture, a pre-tokenizer or a built-in chat template; NULL past the end. */
const char *engine_arch_name(size_t i);
const char *engine_pre_name(size_t i);
const char *engine_template_name(size_t i);

/* ---- the machine ---- */

/* Return the name of the CPU kernels in use and, in parentheses, of all kernels that this CPU can run: "avx512 (avx512,
 * avx2, c available)". */
const char *engine_cpu_level(void);
/* Tell whether AMX (matrix instructions of x86-64) can be used: "yes" or "no, because ..."; NULL on other
 * processors. */
const char *engine_amx(void);
/* Measure memory bandwidth: the bytes per second that `threads` threads read. The result is the best of a few passes
 * over `bytes` bytes. */
double engine_bandwidth(int threads, uint64_t bytes);
/* Measure the 8-bit multiply-adds per second of `threads` threads. */
double engine_arithmetic(int threads);
/* Measure the speed of copying within the memory of the engine's device: bytes read plus bytes written, per second.
 * bytes: size of the buffer. The result is the best of a few passes, or 0 if there is no device or no memory for the
 * buffer. */
double engine_copy_bandwidth(struct engine *, uint64_t bytes);
/* Return how many more bytes of memory this process can get under the limits of machine, container and process. */
uint64_t engine_memory_free(void);
/* Tell a SIGBUS handler whether the address is in a mapped model file or cache file: 1 = it is. Then the file was
 * truncated, or its disk failed. If the handler returns, the interrupted call continues, and fails with an error. */
int engine_fault(const void *address);
struct engine_gpu {
	char text[160];            /* description of the device, or why there is none */
	uint64_t available, total; /* free and total bytes of the GPU's memory */
	char check[160];           /* why the GPU's check failed; "" = it passed, or was not made */
};
/* Describe the GPU that the device "cuda" would use. Return -1 if there is none; text then says why. If `checks` is not
 * NULL, check the GPU now, even if a result of an earlier check is stored, and store the new result. */
int engine_gpu(struct engine_gpu *, const struct gpu_checks *checks);

/* ---- reasoning (token/reasoning_marks.c) ----
 *
 * Models that reason write the reasoning in front of the answer, between two marks such as <think> and </think>. If a
 * mark is a control token, its name is part of the answer's text.
 *
 * gpt-oss writes reasoning and answer as messages on two channels:
 * "<|channel|>analysis<|message|>REASONING<|end|><|start|>assistant<|channel|>final<|message|>ANSWER". */
struct reasoning_mark {
	const char *open, *close;
};
/* Return the i-th pair of marks; NULL past the end. */
const struct reasoning_mark *reasoning_mark_at(size_t i);
/* 1 if these are the marks of a channel (gpt-oss). The answer itself is then in the channel "final". */
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
	/* the tokens of this text if the model generated it. They are used unchanged, so that their KV entries can be
	 * reused. */
	const int32_t *id;
	size_t n_id;
	const char *role_name; /* a role that only templates know ("tool"), used instead of `role`; NULL = use `role` */
};
/* Where a message's text is in the rendered conversation: n bytes of the text, beginning with byte `from`, are at
 * offset `at` of the conversation. These are not all bytes of the text if the template strips blanks or reasoning. If
 * the template omits or changes the text, `at` is SIZE_MAX. */
struct text_range {
	size_t at, from, n;
};

/* A conversation as tokens, made by engine_render(). Initialise with zeros, free with rendered_free(). The struct
 * belongs to one engine. */
struct rendered {
	/* the tokens; they begin with one BOS if the model file asks for it or the template writes it */
	struct tokens id;
	uint32_t *end;            /* [id.n] length of the rendered text up to the end of each token */
	struct text_range *range; /* [n_msg] where the text of each message is */
	size_t n_msg;
	struct rendered_text *text; /* private to the engine */
};
enum render_flags {
	REPLY_HEAD = 1,       /* append the template's beginning of an answer (the generation prompt) */
	REPLY_NO_THOUGHT = 2, /* ask for an answer without reasoning, if the template supports that */
	RENDER_OPEN = 4,      /* the last message is unfinished: omit the template's text after it */
	REPLY_THOUGHT = 8     /* ask for an answer with reasoning, if the template supports that */
};
/* Render the messages with the chat template, and tokenize the result. Without a template the texts are joined. Only
 * text of the template itself can become special tokens: "<|im_end|>" in a message stays plain text. before: an earlier
 * rendering, whose tokens are reused where both texts are the same; may be NULL. *out is overwritten, and may be the
 * same struct as *before. On error *out is unchanged. */
int engine_render(const struct engine *, const struct chat_msg *, size_t n, unsigned flags,
                  const struct rendered *before, struct rendered *out, struct err *);
void rendered_free(struct rendered *);
/* Append the rendered text to *out. bos, eos: the texts of these tokens for the template; NULL = the model's texts. */
int engine_render_text(const struct engine *, const struct chat_msg *, size_t n, unsigned flags, const char *bos,
                       const char *eos, struct str *out, struct err *);
/* Return the index of the first token that ends after byte `byte` of message i's text; SIZE_MAX = this byte is not
 * rendered. */
size_t rendered_token(const struct rendered *, size_t i, size_t byte);
/* Append to *out the first tokens of the rendered conversation: all tokens that cannot change if message i's text
 * changes from byte `byte` on. They can be prefilled before these bytes are known. */
int engine_render_stable(const struct engine *, const struct rendered *, size_t i, size_t byte, struct tokens *out,
                         struct err *);
/* Tokenize a part of message i's text, without the text around it, and set *n to the number of tokens. The part
 * begins at byte `from` and ends before byte `to`. Return -1 if it is not rendered. */
int engine_render_count(const struct engine *, const struct rendered *, size_t i, size_t from, size_t to, size_t *n,
                        struct err *);
/* Append text[0 .. n) to the last message. id[0 .. n_id) are the tokens of this text. The conversation must have been
 * rendered with RENDER_OPEN. */
void engine_render_add(const struct engine *, struct rendered *, const char *text, size_t n, const int32_t *id,
                       size_t n_id);

/* ---- tokens ---- */

enum tokenize_flags { TOKENIZE_SPECIAL = 1, TOKENIZE_BOS = 2 };
/* Append the tokens of a text. With the flag TOKENIZE_SPECIAL, names of special tokens in the text become these
 * tokens. With the flag TOKENIZE_BOS, BOS is put in front. For an encoder's vocabulary, BOS is put in front and EOS
 * behind if the model file asks for them. */
int engine_tokenize(const struct engine *, const char *text, size_t len, unsigned flags, struct tokens *out,
                    struct err *);
/* Copy at most cap bytes of the token's text to buf, and return the length of that text in bytes. The text may be a
 * part of a UTF-8 character. The text of a control token is empty, or its name if with_special is 1. */
size_t engine_piece(const struct engine *, int32_t id, int with_special, char *buf, size_t cap);
/* Append the token's text to *out, and return its length in bytes. */
size_t engine_piece_add(const struct engine *, int32_t id, int with_special, struct str *out);
/* 1 if the token ends an answer. */
int engine_is_end(const struct engine *, int32_t id);
/* Return the natural logarithm of the probability of token id in the softmax of these logits. */
double engine_logprob(const float *logits, int32_t n_vocab, int32_t id);

/* ---- cache policies ---- */

/* Check a policy's text. If it is invalid, return -1 with ERR_USAGE and the reason. */
int kv_policy_check(const char *text, struct err *);
/* Check the text of timeline_options.kv_type. If it is invalid, return -1 with the reason. */
int kv_type_check(const char *text, struct err *);
/* Return the name of policy i and set *help; policy 0 is the default. NULL past the end. */
const char *kv_policy_name(int i, const char **help);
/* Append a description of all policies with their settings. */
void kv_policy_help(struct str *out);
/* Append the policy's text with all settings, even settings with default values. Sessions store this text, because
 * defaults may change. */
void kv_policy_whole(const char *text, struct str *out);
/* Append the policy's text without obsolete settings, which only older versions of weir have. The value of an obsolete
 * setting is fixed now. List in *removed the obsolete settings that have another value, for example "every=2,
 * pool=9". */
void kv_policy_current(const char *text, struct str *out, struct str *removed);
/* Append the policy's text with one setting changed; settings that have their default are omitted. ERR_USAGE: no such
 * setting or value. */
int kv_policy_with(const char *text, const char *key, const char *value, struct str *out, struct err *);
/* 1 if the policy evicts KV entries, so that a sequence may be longer than the context. */
int kv_policy_endless(const char *text);
/* Whether KV entries can be kept when timeline_switch_kv() changes the policy. */
enum kv_sharing {
	KV_SHARES_NOTHING, /* entries are never kept, because the policy evicts */
	/* entries are kept when a timeline switches from this policy to another one. They are not kept when it
	 * switches to this policy, which must observe a whole prefill. */
	KV_SHARES_AFTER,
	KV_SHARES_BOTH /* entries are kept when a timeline switches to this policy or from it */
};
enum kv_sharing kv_policy_sharing(const char *text);

/* ---- a sequence ---- */

struct timeline_options {
	/* tokens that the cache can hold; 0 = the trained context, at most 32768, or less if memory is short */
	int32_t ctx;
	const char *kv; /* cache policy, "NAME:key=value,..." (kv_policy_help); NULL = the default */
	/* element type of keys and values: "f16", "f32", "bf16", "q8_0" or "q4_0"; or one type for each:
	 * "k=q8_0,v=q4_0"; NULL = "f16" */
	const char *kv_type;
	/* tokens per prefill step; 0 = 512. Results under the policy `full` do not depend on it. */
	int32_t batch;
	/* Maximum bytes of memory for the cache (on a GPU: of GPU memory); 0 = no limit. KV entries that exceed the
	 * limit are put in an unlinked file in the user's cache directory, whose disk space is reserved on opening.
	 * With a GPU they are put in system memory instead; only some policies support that, such as sift with a key
	 * sketch. The limit does not change results. */
	uint64_t kv_memory;
	/* A share of attention, or 0. If it is between 0 and 1, a prompt token does not read all entries of layers
	 * without a sliding window. It reads only the blocks of 64 entries that are estimated to get this share of its
	 * attention. 0 or 1: prompt tokens read all entries. The blocks do not depend on the size of prefill steps.
	 * Generated tokens are not affected. Works only on the CPU, under policies that never evict, and under `auto`
	 * before its first eviction. */
	float read_share;
};

/* Memory that opening a timeline takes, and memory that the machine has. Members without a unit are in bytes. */
struct timeline_need {
	int32_t ctx; /* context in tokens, after defaults were applied */
	/* maximum number of tokens whose KV entries the cache holds at a time; a sequence may be longer */
	int32_t held;
	uint64_t kv_bytes;      /* memory for the cache */
	uint64_t scratch_bytes; /* memory needed besides the cache, for activations and the like */
	uint64_t disk_bytes;    /* disk space for entries that exceed kv_memory */
	uint64_t host_bytes;    /* system memory for entries of a GPU's cache that exceed kv_memory */
	uint64_t least_bytes;   /* the smallest sufficient kv_memory, if kv_memory limits the cache */
	uint64_t free_bytes;    /* free memory of the device */
	uint64_t device_bytes;  /* total memory of the GPU; 0 = the engine computes in system memory */
	/* largest ctx whose cache fits into free_bytes, in addition to weights that are not loaded yet; 0 = none */
	int32_t ctx_fits;
};
/* Compute the memory that timeline_open() would take. Nothing is allocated. */
int timeline_need(const struct engine *, const struct timeline_options *, struct timeline_need *out, struct err *);
/* Open an empty sequence. If memory is short: ERR_FIT, and *err says how much is needed, how much is free, and which
 * context would fit. */
int timeline_open(struct timeline **out, struct engine *, const struct timeline_options *, struct err *);
/* NULL is allowed. */
void timeline_close(struct timeline *);

/* Called between the steps of a prefill, when `done` of its `total` tokens are computed. */
typedef void timeline_progress_fn(int32_t done, int32_t total, void *ud);
/* Make the sequence equal to want[0 .. n). The longest common beginning of the current sequence and want[] is reused;
 * all later tokens are computed. Return the number of reused tokens. Return -1 on error or cancel: the sequence is then
 * valid but shorter. ERR_FIT: want[] is longer than the context; nothing is computed. progress may be NULL. */
int32_t timeline_sync(struct timeline *, const int32_t *want, size_t n, timeline_progress_fn *progress, void *ud,
                      struct err *);
/* Change the cache policy. Call timeline_sync() before the next step: it prefills the tokens whose KV entries the new
 * policy cannot reuse. If both policies never evict, all entries are reused, even entries of generated tokens, which
 * were computed under the old policy. (To recompute these, sync to the prompt first.) Pinning is lost: call
 * timeline_pin() again. After -1 the timeline is unchanged. */
int timeline_switch_kv(struct timeline *, const char *kv, struct err *);
/* Pin the first n tokens (system prompt, documents): they are never evicted. Call it before the timeline_sync() that
 * adds these tokens; if pinning changes the slots of tokens, that sync prefills them again. ERR_FIT: too few slots
 * would be left for other tokens. No effect under policies without a pinned prefix. */
int timeline_pin(struct timeline *, int32_t n, struct err *);
/* Return the tokens of the sequence, valid until the next call. */
const int32_t *timeline_tokens(const struct timeline *, size_t *n);
/* Return the logits [n_vocab] after the last token, valid until the next call; NULL if they are unknown. They are known
 * after timeline_sync(), after timeline_extend(), and after a timeline_step() that returned 0. */
const float *timeline_logits(const struct timeline *);

/* Receives the logits [n_vocab] after the token at index pos. They are valid during the call. */
typedef void timeline_logits_fn(int32_t pos, const float *logits, void *ud);
/* Append the tokens id[0 .. n), and pass the logits after each token to fn (may be NULL). stepwise = 1: decode the
 * tokens one by one, like generated tokens; 0: prefill them. This is for evaluation; it is slower than
 * timeline_sync(), which computes only the last logits. */
int timeline_extend(struct timeline *, const int32_t *id, size_t n, int stepwise, timeline_logits_fn *, void *ud,
                    struct err *);

/* ---- sampling ---- */

struct sampling {
	float temperature;  /* sampling temperature; 0 = greedy: take the token with the largest logit */
	int32_t top_k;      /* number of tokens with the largest logits that can be sampled; 0 = all tokens */
	float top_p, min_p; /* top_p = 1 turns off top-p sampling; min_p = 0 turns off min-p sampling */
	/* repeat_penalty = 1 turns off this penalty; 0 turns off the other two */
	float repeat_penalty, presence_penalty, frequency_penalty;
	/* penalties apply to tokens that occur among the last repeat_last tokens of the answer; -1 = among all its
	 * tokens */
	int32_t repeat_last;
	/* index of the answer's first token in the sequence; 0 = penalties apply to tokens of the prompt, too */
	int32_t answer;
	/* [n_given] tokens that the answer must begin with, taken without sampling; the caller owns them */
	const int32_t *given;
	int32_t n_given;
	uint64_t rng[4]; /* state of the random generator; sampling_seed() sets it */
};
extern const struct sampling sampling_default;
void sampling_seed(struct sampling *, uint64_t seed);

/* Where the value of a sampler setting comes from. A later source overrides an earlier one. SAMPLING_FAMILY is the
 * advice of the makers of the model's family, SAMPLING_FILE the model file (advice.c). Callers of the engine set
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
	const char *family;                    /* family of models whose makers advise the setting, or NULL */
};
/* Get the sampler settings for this model. reasons = 1: the settings for answers with reasoning, for which some makers
 * advise other values. */
void engine_sampling(const struct engine *, int reasons, struct sampling_choice *out);
/* Copy one setting. */
void sampling_take(struct sampling *to, const struct sampling *from, enum sampling_setting);

/* ---- generating ---- */

struct step_out {
	int32_t id;
};
/* Sample the next token and append it. Return 1. Return 0 if the token ends the turn: it is then in *out but not
 * appended. Return -1 on error, with the sequence unchanged: ERR_FIT = the context is full; ERR_CANCELLED; ERR_FAIL =
 * NaN or infinite logits. */
int timeline_step(struct timeline *, struct sampling *, struct step_out *, struct err *);
/* Turn speculative decoding on or off (initially off). When it is on, timeline_step() guesses the next tokens from
 * earlier parts of the sequence, and verifies several of them in one step. It does so only if measured times say that
 * this is faster. Tokens, logits, random draws, cache and snapshots stay the same. */
void timeline_speculate(struct timeline *, int on);
/* End a running step of speculative decoding: commit the KV entries of all tokens that timeline_step() has returned,
 * except the last one. Functions that read the cache end the step themselves; only timeline_stats() does not. */
int timeline_settle(struct timeline *, struct err *);
/* Stop the running call within 100 ms. May be called from any thread or signal handler. The running call returns
 * ERR_CANCELLED; if no call is running, the next call does. All later calls return it, too, until timeline_resume(). A
 * call that waits for another timeline of the same engine stops when that timeline's step ends. */
void timeline_cancel(struct timeline *);
void timeline_resume(struct timeline *);

/* ---- statistics of a timeline ---- */

enum { RINGS_MOST = 8 };
/* Under policies that evict, tokens after the pinned ones are kept in rings (ring buffers). The newest tokens are in
 * the first ring. Older tokens are thinned out in the next rings (man/weir-cache.7). */
struct ring_stats {
	int32_t pinned; /* number of first tokens, which are never evicted */
	/* `n_ring` is the number of rings, or 0 if the policy never evicts. `ring_slots` is the number of slots of each
	 * ring. */
	int32_t n_ring, ring_slots;
	int32_t factor;           /* of the tokens that a ring accepts, the next ring accepts one in `factor` */
	int32_t fill[RINGS_MOST]; /* number of tokens in each ring */
	/* index of the oldest and newest token of each ring; -1 = empty */
	int32_t first[RINGS_MOST], last[RINGS_MOST];
	int32_t seen;    /* number of tokens that entered the cache so far, pinned ones included */
	int32_t evicted; /* number of tokens whose entries are evicted in all layers and KV heads */
	/* number of tokens whose entries are evicted in some layers and KV heads, but not in all */
	int32_t evicted_in_part;
	int32_t oldest; /* oldest token after the pinned ones that has an entry left; -1 = none */
};
struct timeline_stats {
	int32_t n_tokens, ctx, batch; /* ctx: maximum number of tokens in the cache */
	int endless;                  /* 1: the sequence may be longer than ctx, because entries are evicted */
	struct ring_stats rings;
	uint64_t kv_bytes, scratch_bytes, kv_bytes_per_token;
	uint64_t kv_used_bytes;     /* bytes of the KV entries in use, in memory and on disk */
	uint64_t kv_disk_bytes;     /* disk space of the cache; 0 = no entries on disk (see kv_memory) */
	uint64_t kv_host_bytes;     /* system memory that a GPU's cache uses (see kv_memory) */
	uint64_t kv_resident_bytes; /* maximum memory that the open cache takes (on a GPU: GPU memory) */
	/* For a cache with entries on disk or in host memory: means over the tokens generated since the last prefill;
	 * -1 = unknown. On a GPU the newest 32 tokens may be missing from the means. */
	double kv_fetched; /* bytes read per token: from disk (or its page cache), or on a GPU from host memory */
	/* Share of the selected entries that the previous token had also selected. On a GPU, it is the share that was
	 * already in GPU memory. */
	double kv_overlap;
	char kv[128], kv_type[16];
	/* The following counts and times are those of the last timeline_sync() and of all timeline_step() calls after
	 * it. */
	int32_t prefill_tokens, reused_tokens, decode_tokens;
	/* drafted: number of tokens guessed by speculative decoding; accepted: number of guesses that were right */
	int32_t drafted, accepted;
	double prefill_seconds, decode_seconds;
	double policy_seconds; /* part of decode_seconds spent in the cache policy (timeline_measure) */
};
/* Get the statistics. `rings` does not count the tokens of an unfinished step of speculative decoding, which
 * timeline_settle() would commit. */
void timeline_stats(const struct timeline *, struct timeline_stats *out);
/* Append the cache policy's text with all settings. */
void timeline_policy(const struct timeline *, struct str *out);
/* Return how many bytes of the cache are read to compute the token at index pos: KV entries, and the data that are
 * scanned to select entries. decode = 1: for a generated token; 0: for a token of a prompt. */
uint64_t timeline_read_bytes(const struct timeline *, int32_t pos, int decode);
/* Turn on the measurement of policy_seconds: the time for rotating, selecting, summing attention mass and moving
 * entries, without the attention itself. Costs a few microseconds per step. */
void timeline_measure(struct timeline *, int on);

#endif
