/* app/remote/remote.h - a model on a server that speaks the OpenAI chat protocol: llama-server, vLLM, SGLang, Ollama,
 * hosted services.
 *
 *     address.c:  the server's address and the key;
 *     server.c:   requests and their errors; the server's program and models;
 *     request.c:  a conversation as the JSON of a request;
 *     events.c:   server-sent events;
 *     chunk.c:    the JSON of one event of an answer;
 *     answer.c:   sending, retrying, and the text of the answer;
 *     count.c:    tokens of a text or a conversation;
 *     probe.c:    the report on a server for weir doctor.
 *
 * The server is not trusted: all sizes are bounded, and redirections are not followed. The key is sent only to the
 * origin of the address, encrypted or on this machine. A struct remote may be used by only one thread. */
#ifndef WEIR_REMOTE_H
#define WEIR_REMOTE_H

#include "engine/base/base.h"
#include "engine/engine_chat.h"

/* 1 if the text is the address of a server: "http://..." or "https://...". */
int remote_is_address(const char *text);

struct remote_options {
	/* address of the server. An address without a path, such as "http://127.0.0.1:8080", gets the path "/v1". An
	 * address with a path, such as "https://host/api/v1", is used unchanged */
	const char *url;
	const char *model; /* name that the server uses for the model; NULL = the server has only one model */
	const char *key;   /* the access key; NULL = none */
	/* file that contains the key, used if key is NULL; only its owner may be able to read it; NULL = none */
	const char *key_file;
	int insecure;         /* 1 = the key may be sent unencrypted to another machine */
	int timeout;          /* seconds without progress after which a request fails */
	int (*stopped)(void); /* callback that is called 25 times a second, and returns 1 to cancel; may be NULL */
};

enum remote_kind { REMOTE_PLAIN, REMOTE_LLAMA, REMOTE_VLLM, REMOTE_SGLANG, REMOTE_OLLAMA };
struct remote_info {
	enum remote_kind kind;
	const char *program; /* name of the server's program: "llama-server", "vLLM", ...; "" = unknown */
	const char *server;  /* the server's address without a path: "http://127.0.0.1:8080" */
	const char *model;   /* name that the server uses for the model, without control characters */
	/* context size in tokens, of the server and of the model's training; 0 = unknown */
	int32_t ctx, ctx_train;
	uint64_t n_params; /* number of the model's parameters; 0 = unknown */
	int counts;        /* 1 = the server counts tokens; 0 = they are estimated */
	int extends;       /* 1 = the server can continue an answer */
	int think_switch;  /* 1 = the server accepts a request to answer without reasoning */
};

struct remote;
/* Ask the server for its program and its models. Returns 0; or -1 with ERR_USAGE (address or key cannot be used),
 * ERR_MODEL (the server does not have the model), ERR_FAIL or ERR_CANCELLED. */
int remote_open(struct remote **, const struct remote_options *, struct err *);
void remote_close(struct remote *);
const struct remote_info *remote_info(const struct remote *);
/* Append the names of all models of the server, one per line. */
void remote_models(const struct remote *, struct str *out);

enum remote_key { REMOTE_KEY_NONE, REMOTE_KEY_ACCEPTED, REMOTE_KEY_REFUSED, REMOTE_KEY_UNKNOWN };
/* What `weir doctor` reports about the server at an address. */
struct remote_report {
	int reached;         /* 1 = something answered at the address */
	int n_models;        /* number of models in the server's list */
	enum remote_key key; /* REMOTE_KEY_NONE: no key was given, and the server needs none */
	struct err why;      /* why the server cannot be used; its code is ERR_NONE if the server can be used */
};
/* Do the same as remote_open(), and also test the key by a chat request. Even after an error, a struct is returned, so
 * that remote_info() shows what is known. NULL is returned only if the address or the key cannot be used. */
struct remote *remote_probe(const struct remote_options *, struct remote_report *);

struct remote_message {
	enum chat_role role;
	const char *text;
	size_t n;
};

struct remote_request {
	const struct remote_message *msg;
	size_t n_msg;
	int extends;    /* 1 = the last message is the beginning of the answer, which the server must continue */
	int thought;    /* 1 = ask the server for an answer with reasoning; ignored if info.think_switch is 0 */
	int no_thought; /* 1 = ask the server for an answer without reasoning; ignored if info.think_switch is 0 */
	int32_t most;   /* maximum number of tokens of the answer; -1 = the server's own limit */
	const struct sampling *sampling;
	unsigned said; /* which settings to send: bits 1 << enum sampling_setting */
	int seeded;
	uint64_t seed;
	/* Called until the answer begins; may be NULL. `done` of the `total` prompt tokens are prefilled; `total` is 0
	 * if it is unknown. `why` is the error because of which the request will be sent again; NULL = none. */
	void (*waiting)(int32_t done, int32_t total, const char *why, void *ud);
	void *ud;
};

/* The server's figures about an answer that has ended; -1 = not reported. */
struct remote_usage {
	/* numbers of tokens: of the prompt, of the part of the prompt that the server did not recompute, and of the
	 * answer */
	int32_t prompt, cached, answer;
	double prefill_tps, decode_tps;
};
enum remote_stop { REMOTE_STOP, REMOTE_LENGTH };

/* Send the request, and wait for the first text of the answer or for its end. If the server is busy, is still starting,
 * or closes the connection, retry at growing intervals, for at most half a minute. Returns 0 or -1. ERR_FIT: the
 * request exceeds the context; if the server reports the size of the context, info.ctx is set to it. */
int remote_ask(struct remote *, const struct remote_request *, struct err *);
/* Append the next text of the answer. Returns 1; 0 if the answer has ended, with *stop set to the reason; -1 on error.
 * If the server sends reasoning separately, it comes first, between <think> and </think>. */
int remote_next(struct remote *, struct str *out, enum remote_stop *stop, struct err *);
/* Cancel an answer: close its connection. */
void remote_end(struct remote *);
const struct remote_usage *remote_usage(const struct remote *);

/* remote_count() returns the number of tokens of a text. remote_count_messages() returns the number of tokens of a
 * conversation, with the beginning of its answer. *exact is set to 1 if the server has counted the tokens. It is set to
 * 0 if their number is estimated from the bytes and from earlier prompts, because the server cannot count or the
 * request failed. */
int32_t remote_count(struct remote *, const char *text, size_t n, int *exact);
int32_t remote_count_messages(struct remote *, const struct remote_message *, size_t n, int *exact);

/* ---- server-sent events (events.c) ----
 *
 * The bytes of a stream may be divided between calls of sse_feed() in any way: the events are the same. */

enum { SSE_LINE_MOST = 1 << 20, SSE_EVENT_MOST = 1 << 20 }; /* bytes */
struct sse {
	struct str line, data;
	int has_data; /* 1 = the event has a data: line */
	int cr;       /* 1 = the last byte was a carriage return; if \n follows, it belongs to the same line end */
	int begun;    /* 1 = the first line was read; only this line may begin with a byte order mark */
};
/* Receives the data of an event. Returns 0 to continue. Any other value ends the parsing, and sse_feed() then returns
 * -1. */
typedef int sse_fn(const char *data, size_t n, void *ud, struct err *);
int sse_feed(struct sse *, const char *bytes, size_t n, sse_fn *, void *ud, struct err *);
/* End the stream. A last event is delivered even if the empty line after it is missing. */
int sse_end(struct sse *, sse_fn *, void *ud, struct err *);
void sse_free(struct sse *);

/* ---- a chunk of an answer (chunk.c) ---- */

struct chunk {
	struct str text, thought; /* text and reasoning; chunk_parse() appends to them */
	enum { CHUNK_GOES_ON, CHUNK_STOP, CHUNK_LENGTH, CHUNK_REFUSED } finish;
	struct str why;   /* if finish is CHUNK_REFUSED: the server's word for the reason of the refusal */
	int fault;        /* 1 = the event is an error; the next four members describe it */
	struct str error; /* text of the error */
	int status;       /* number of the error; 0 = none */
	int overflow;     /* 1 = the prompt exceeds the context */
	int32_t ctx;      /* context size in tokens, reported with an overflow; 0 = unknown */
	struct remote_usage usage;
	/* number of prompt tokens that are prefilled so far, and number of all prompt tokens; `total` is 0 if it is
	 * unknown */
	int32_t done, total;
};
void chunk_clear(struct chunk *);
void chunk_free(struct chunk *);
/* Parse one event, or a whole answer. Returns 0, or -1 if it is not JSON. */
int chunk_parse(struct chunk *, const char *json, size_t n);

#endif
