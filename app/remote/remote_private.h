/* app/remote/remote_private.h - declarations shared by the files of app/remote/. */
#ifndef WEIR_REMOTE_PRIVATE_H
#define WEIR_REMOTE_PRIVATE_H

#include "app/remote/remote.h"
#include "app/term/term.h"
#include "sessions/fetch/fetch.h"

enum {
	CONNECT_SECONDS = 10,
	BODY_MOST = 16 << 20,   /* maximum number of bytes of an answer that is not a stream */
	ANSWER_MOST = 16 << 20, /* maximum number of bytes of an answer's text */
	MODELS_MOST = 1000,
	NAME_MOST = 200, /* maximum number of bytes of a model's name */
};

/* The parts of a server's address.
 * - api: the address with its path, as "http://127.0.0.1:8080/v1".
 * - root: api without "/v1", for requests that only llama-server and vLLM understand.
 * - server: the address without path and query, for messages.
 * - query: appended to every request, as "?api-version=1"; it may be secret.
 * - secure: 1 = the scheme is https.
 * - here: 1 = the server is on this machine. */
struct address {
	struct str api, root, server, query;
	int secure, here;
};
int address_read(struct address *, const char *url, struct err *);
void address_free(struct address *);
/* Append the key from the options or the key file. Appends nothing if no key was given. Returns 0, or -1 with ERR_USAGE
 * if the key cannot be read, or must not be sent to this address. */
int key_read(const struct remote_options *, const struct address *, struct str *key, struct err *);

struct remote {
	struct remote_info info;
	struct address at;
	struct str key, model, shown, models;
	int timeout;
	int reached;      /* 1 = the server has answered a request, with any status */
	struct str leads; /* target of the redirection, if the last answer was one */
	int (*stopped)(void);
	struct http_client *client;
	/* for estimates: number of bytes of the last prompt divided by the number of its tokens */
	double bytes_per_token;
	unsigned lacks; /* fields that the server has refused: bits of enum request_field */
	struct answer {
		int open;
		struct sse sse;
		struct chunk chunk;
		struct str in; /* bytes of the body that are not parsed yet */
		int streams;   /* 1 = the body is a stream of events; 0 = it is one JSON value */
		int any;       /* 1 = at least one event has arrived */
		int broken;    /* 1 = the connection failed */
		int thinking;  /* 1 = the text ends within <think> */
		/* `finished` is 1 if the text is complete; `done` is 1 if no more of the body must be read */
		int finished, done;
		enum remote_stop stop;
		struct err late; /* error to report after remote_next() has returned `ready` */
		/* the finish reason, such as "content_filter", if the server has ended the answer early; else empty */
		struct str refused;
		struct str ready; /* text that remote_next() has not returned yet */
		struct str echo;
		/* `echo` is the old text of a continued answer, which the server may send again. `echoed` is the number
		 * of its bytes that have arrived again. */
		size_t echoed;
		size_t bytes; /* number of bytes of the answer's text so far */
		size_t sent;  /* number of bytes of all messages of the request */
		int32_t read; /* number of tokens of the prompt that the server has prefilled */
		struct remote_usage usage;
		void (*waiting)(int32_t done, int32_t total, const char *why, void *ud);
		void *waiting_ud;
	} answer;
};

/* ---- server.c ---- */

/* Send JSON to the address base + path; If `json` is NULL, send a GET request. Returns 0 as soon as the header of the
 * answer was read, or -1. */
int server_send(struct remote *, const struct str *base, const char *path, const struct str *json, struct http_reply *,
                struct err *);
/* Do the same as server_send(), and read the whole answer into *out, at most BODY_MOST bytes. *status receives the HTTP
 * status of the answer. Returns 0, or -1 if there is no answer. */
int server_get(struct remote *, const struct str *base, const char *path, const struct str *json, int *status,
               struct str *out, struct err *);
/* Set *e to the message of an answer with an error status. The message is in its JSON (*chunk), or else in its HTML
 * page. The server's name is added, and the key is removed. Always returns -1. */
int server_refuses(struct remote *, int status, const struct chunk *, const struct str *page, struct err *);
/* Set *e to the error that the server has reported inside a streamed answer. Always returns -1. */
int server_fault(struct remote *, const struct chunk *, struct err *);

/* Do the work of remote_open() on a zeroed struct. After -1, the members that are known by then are set. */
int server_open(struct remote *, const struct remote_options *, struct err *);
/* If the context size is unknown, ask Ollama for it: Ollama reports it only after it has loaded the model. */
void server_ask_context(struct remote *);

/* ---- request.c ---- */

/* Fields of a request that some servers refuse. */
enum request_field {
	FIELD_USAGE = 1,      /* "stream_options"; without it the server may report no usage figures */
	FIELD_MAX_TOKENS = 2, /* "max_tokens"; if it is refused, the limit is sent as "max_completion_tokens" */
	/* the answer's token limit; a server may refuse it if prompt and limit together exceed the context */
	FIELD_LIMIT = 4,
	FIELD_SYSTEM = 8, /* the system message; if it is refused, its text is put before the first question */
};
void request_json(const struct remote *, const struct remote_request *, struct str *out);
void messages_json(const struct remote *, const struct remote_message *, size_t n, struct str *out);

#endif
