/* engine/encoder/encoder.h (private to engine/) - a loaded encoder. */
#ifndef WEIR_ENCODER_H
#define WEIR_ENCODER_H

#include "engine/encoder.h"
#include "engine/gguf/gguf.h"
#include "engine/token/token.h"
#include "kernels/backend.h"

enum { ENCODER_BATCH = 1024 }; /* maximum number of tokens of a batch, and of a text */

enum pooling { POOL_NONE, POOL_MEAN, POOL_FIRST, POOL_LAST, POOL_RANK }; /* values of the key pooling_type */

/* What distinguishes a family of encoders. */
struct encoder_family {
	const char *name; /* general.architecture, and the beginning of the file's keys */
	enum { PLACE_LEARNED, PLACE_ROPE, PLACE_ALIBI } place; /* how the position of a token is encoded */
	int gated;           /* 1: the feed-forward is down(act(gate) * up); gate and up have no biases */
	enum activation act; /* activation of the gate */
	int biases;          /* 1: q, k, v, out and down have biases */
};

/* Weights and biases of a layer norm, f32 [1][n_embd] each. */
struct encoder_norm {
	struct tensor w, b;
};
/* The adapters of a reader file: one for the vectors of questions, one for reading. */
enum encoder_adapter { ADAPT_QUERY, ADAPT_READ, ADAPTERS, ADAPT_NONE = ADAPTERS };
/* A matrix w [rows][cols] and its bias b, f32 [1][rows]; b has no data if there is no bias. adapter[]: for each LoRA
 * adapter, high [rows][rank] and low [rank][cols], whose product the adapter adds to w. If low.rows = 0, the adapter
 * does not change w. */
struct encoder_linear {
	struct tensor w, b;
	struct {
		struct tensor low, high;
	} adapter[ADAPTERS];
};
struct encoder_layer {
	struct encoder_linear q, k, v, out; /* [n_embd][n_embd] */
	struct encoder_norm attn_norm, ffn_norm;
	struct encoder_linear up, down; /* [n_ff][n_embd], [n_embd][n_ff] */
	struct tensor gate;             /* [n_ff][n_embd], if the family has gates */
};

/* The head of a reranker, in host memory. A text's score is out . tanh(dense x + dense_bias) + out_bias; x is the hidden
 * state of its first token. */
struct encoder_ranker {
	float *dense, *dense_bias, *out, *out_bias; /* [n_embd][n_embd], [n_embd], [n_embd], [1] */
};

/* What is loaded from a reader file (encoder_reader.c), except the parts that belong to layers. */
struct encoder_reader {
	/* a reranker, which reads pairs instead of this encoder, or NULL; with a reranker, the other members are
	 * empty */
	struct encoder *ranker;
	struct gguf *gguf;  /* the reader's adapter file; NULL: none is loaded */
	struct tensor rank; /* f32 [batch][largest rank]: buffer for products with `low` */
	/* [3][n_embd] weights that hidden states are multiplied with. Row 0 is for the log odds that the passage
	 * answers, row 1 for the first token of the answer, row 2 for its last token */
	float *head;
	float bias; /* bias of the log odds */
};

struct encoder {
	struct gguf *gguf;
	struct backend *be;
	struct vocab *vocab; /* tokenizer; NULL = the file has none */
	struct view name;    /* general.name, in the file */
	uint64_t hash;       /* hash of the file */
	const struct encoder_family *family;
	int32_t n_layer, n_embd, n_ff, n_head, n_vocab;
	/* trained: context length of the model in tokens; longest: maximum number of tokens of a text, the smaller of
	 * `trained` and ENCODER_BATCH */
	int32_t trained, longest;
	float eps;
	enum pooling pooling; /* POOL_RANK: the file is a reranker, and `ranker` is its head */
	struct encoder_ranker ranker;
	struct tensor embd; /* [n_vocab][n_embd], read by row */
	/* f32 [longest][n_embd]: embedding of each position, if positions are learned, plus the embedding of the token
	 * type */
	struct tensor position;
	/* cos and sin of RoPE: f32 [longest][head_dim] by position; f32 [batch][head_dim] for the tokens of a batch */
	struct tensor rope, rope_at;
	/* For ALiBi (attend_alibi()). slots: i32 [n_head][batch]; every row is 0, 1, 2, ... distance: f32 [n_head][2 *
	 * longest]: column i is what a head adds to the score of a key that comes i + 1 - longest tokens after the
	 * query. */
	struct tensor slots, distance;
	struct encoder_norm embd_norm;
	struct encoder_layer *layer; /* [n_layer] */
	/* Buffers for a batch of up to `batch` tokens: f32 [batch][n_embd]; hidden: f32 [batch][n_ff]. */
	int32_t batch;
	struct tensor x, q, k, v, attn, hidden;
	struct tensor k_plane, v_plane; /* f16 [n_head * batch][n_embd / n_head] */
	int32_t *id, *at;               /* [batch] token ids and positions of a batch */
	float *host;                    /* [batch][n_embd] hidden states after the last layer */
	struct encoder_reader reader;
};

/* Read the metadata of e->gguf and load its weights to the open backend e->be. Return 0, or -1 with err set. Call
 * encoder_release() in either case. */
int encoder_load(struct encoder *, struct err *);
void encoder_release(struct encoder *);
/* Compute the hidden states e->host [n][n_embd] of n_text texts with n tokens in all, n <= e->batch. Return 0, or -1 on
 * error or when *cancel becomes nonzero. */
int encoder_states(struct encoder *, const struct encoder_text *, int32_t n_text, int32_t n, enum encoder_adapter,
                   const atomic_int *cancel, struct err *);
/* Do what encoder_embed() does, with this adapter. */
int encoder_embed_adapted(struct encoder *, const struct encoder_text *, int32_t n, enum encoder_adapter, float *out,
                          const atomic_int *cancel, struct err *);
/* Return the encoder family of a file, or NULL with the error set. */
const struct encoder_family *encoder_family_of(const struct gguf *, struct err *);
/* Open a file as encoder_open() does. ranks: 1 = the file must be a reranker, 0 = it must not be a reranker, -1 = both
 * are allowed. */
int encoder_open_kind(struct encoder **out, const char *path, const char *device, int threads, int ranks, struct err *);
/* Pool the hidden states x [n][n_embd] of one text into out [n_embd] and scale out to length 1. A zero vector
 * stays zero. */
void encoder_pool(const struct encoder *, const float *x, int32_t n, float *out);
/* Release what encoder_reader_open() has loaded. */
void encoder_reader_release(struct encoder *);

#endif
