/* app/remote/remote.h - a model on a server that speaks the OpenAI chat protocol: llama-server, vLLM, SGLang, Ollama,
 * hosted ones.
 *
 *     address.c   the server's address and the key: what is sent where
 *     server.c    requests and their errors; what the server is, and the models that it has
 *     request.c   a conversation as the JSON of a request
 *     events.c    server-sent events
 *     chunk.c     the JSON of one event of an answer
 *     answer.c    asking, waiting, trying again, and the answer piece by piece
 *     count.c     tokens of a text or a conversation
 *     probe.c     what weir doctor says of a server
 *
 * The server is not trusted: lines, events, answers and lists have bounds, no redirection is followed, and the key goes
 * to the origin of the address alone, encrypted or to this machine. Nothing here prints. A server belongs to one
 * thread. */
#ifndef WEIR_REMOTE_H
#define WEIR_REMOTE_H

#include "engine/base/base.h"
#include "engine/engine.h"

/* Is it the address of a server, "http://..." or "https://..."? */
int remote_is_address(const char *text);

struct remote_options {
	/* "http://127.0.0.1:8080": "/v1" is understood; with a path ("https://host/api/v1") as it stands */
	const char *url;
	const char *model; /* its name at the server; NULL: the only one that there is */
	const char *key;   /* NULL: none */
	/* where no key is given: a file with it, which only its owner may read; NULL: none */
	const char *key_file;
	int insecure;         /* the key may go to another machine without encryption */
	int timeout;          /* seconds without any progress after which a request fails */
	int (*stopped)(void); /* asked 25 times a second; may be NULL */
};

enum remote_kind { REMOTE_PLAIN, REMOTE_LLAMA, REMOTE_VLLM, REMOTE_SGLANG, REMOTE_OLLAMA };
struct remote_info {
	enum remote_kind kind;
	const char *program;    /* "llama-server", "vLLM", ...; "" = it does not say */
	const char *server;     /* "http://127.0.0.1:8080" */
	const char *model;      /* as the server calls it, cleaned */
	int32_t ctx, ctx_train; /* tokens; 0 = it does not say */
	uint64_t n_params;      /* 0 = it does not say */
	int counts;             /* it counts tokens; else they are estimated */
	int extends;            /* it can go on with an answer */
	int think_switch;       /* it can be asked for an answer without reasoning */
};

struct remote;
/* Ask the server what it is and has. ERR_USAGE: an address or a key that cannot be used; ERR_MODEL: not that model;
 * ERR_FAIL, ERR_CANCELLED. */
int remote_open(struct remote **, const struct remote_options *, struct err *);
void remote_close(struct remote *);
const struct remote_info *remote_info(const struct remote *);
/* The names of all its models, one a line; appended. */
void remote_models(const struct remote *, struct str *out);

/* What there is at an address, for people who look for what is wrong. */
enum remote_key { REMOTE_KEY_NONE, REMOTE_KEY_ACCEPTED, REMOTE_KEY_REFUSED, REMOTE_KEY_UNKNOWN };
struct remote_report {
	int reached;         /* something answered */
	int n_models;        /* in its list */
	enum remote_key key; /* NONE: there is none, and none was asked for */
	struct err why;      /* why it cannot be used; code ERR_NONE: it can */
};
/* As remote_open(), but what is known is there in any case: remote_info() of the result; NULL only where the address or
 * the key cannot be used at all. The key is tried by a question without content, which no model answers. */
struct remote *remote_probe(const struct remote_options *, struct remote_report *);

struct remote_message {
	enum chat_role role;
	const char *text;
	size_t n;
};

struct remote_request {
	const struct remote_message *msg;
	size_t n_msg;
	int extends;    /* the last message is the beginning of the answer */
	int thought;    /* an answer with reasoning, where think_switch says that it can be asked for */
	int no_thought; /* an answer without reasoning, where think_switch says that it can be asked for */
	int32_t most;   /* tokens of the answer; -1 = as the server thinks */
	const struct sampling *sampling;
	unsigned said; /* what of it is sent: 1 << enum sampling_setting */
	int seeded;
	uint64_t seed;
	/* Called while nothing has come yet: tokens of the prompt that are read, where the server says so (total 0: it
	 * does not); why: what it waits for before it tries again, or NULL. May be NULL. */
	void (*waiting)(int32_t done, int32_t total, const char *why, void *ud);
	void *ud;
};

/* What the server says of an answer that has ended, or that ends: -1 = it does not say. */
struct remote_usage {
	int32_t prompt, cached, answer; /* tokens; cached: of the prompt, not computed again */
	double prefill_tps, decode_tps;
};
enum remote_stop { REMOTE_STOP, REMOTE_LENGTH };

/* Send the request, and wait for the first piece of the answer or its end. Before that a server that is busy, starts or
 * has closed the connection is asked again, later and later, for half a minute at most. ERR_FIT: the request is longer
 * than its context; info.ctx is known then, where the server told. */
int remote_ask(struct remote *, const struct remote_request *, struct err *);
/* The next piece of the answer, appended: 1; 0: it has ended, as *stop says; -1. Reasoning that comes beside the text
 * stands before it, between <think> and </think>. */
int remote_next(struct remote *, struct str *out, enum remote_stop *stop, struct err *);
/* Close the connection of an answer that is not wanted any more. */
void remote_end(struct remote *);
const struct remote_usage *remote_usage(const struct remote *);

/* Tokens of a text by itself, or of the conversation with the head of its answer; where the server does not count
 * (*exact 0, also where asking it has failed), an estimate from the bytes and from what earlier prompts had. */
int32_t remote_count(struct remote *, const char *text, size_t n, int *exact);
int32_t remote_count_messages(struct remote *, const struct remote_message *, size_t n, int *exact);

/* ---- server-sent events (events.c) ----
 *
 * A pure function of the bytes so far, however they are cut. */

enum { SSE_LINE_MOST = 1 << 20, SSE_EVENT_MOST = 1 << 20 }; /* bytes */
struct sse {
	struct str line, data;
	int has_data; /* the event has a data: line */
	int cr;       /* the last byte was a carriage return */
	int begun;    /* a byte order mark is no longer expected */
};
/* An event's data; not 0 ends the feeding with -1. */
typedef int sse_fn(const char *data, size_t n, void *ud, struct err *);
int sse_feed(struct sse *, const char *bytes, size_t n, sse_fn *, void *ud, struct err *);
/* The stream has ended: an event that lacks only its empty line counts. */
int sse_end(struct sse *, sse_fn *, void *ud, struct err *);
void sse_free(struct sse *);

/* ---- a chunk of an answer (chunk.c) ---- */

struct chunk {
	struct str text, thought; /* appended */
	enum { CHUNK_GOES_ON, CHUNK_STOP, CHUNK_LENGTH, CHUNK_REFUSED } finish;
	struct str why; /* CHUNK_REFUSED: the server's word for it */
	/* the server names an error: its text; its number; the context is too small: how large it is, 0 = unknown */
	int fault;
	struct str error;
	int status, overflow;
	int32_t ctx;
	struct remote_usage usage;
	int32_t done, total; /* tokens of the prompt that are read; total 0: not told */
};
void chunk_clear(struct chunk *);
void chunk_free(struct chunk *);
/* Of one event, or of a whole answer that is no stream.  -1: it is no JSON. */
int chunk_parse(struct chunk *, const char *json, size_t n);

#endif
