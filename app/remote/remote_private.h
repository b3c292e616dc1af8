/* app/remote/remote_private.h - inside app/remote/: what its files share. */
#ifndef WEIR_REMOTE_PRIVATE_H
#define WEIR_REMOTE_PRIVATE_H

#include "app/remote/remote.h"
#include "app/term/term.h"
#include "sessions/fetch/fetch.h"

enum {
	CONNECT_SECONDS = 10,
	BODY_MOST = 16 << 20,   /* bytes of an answer that is no stream */
	ANSWER_MOST = 16 << 20, /* bytes of an answer's text */
	MODELS_MOST = 1000,
	NAME_MOST = 200, /* bytes of a model's name */
};

/* Where requests go. api: with the path, as "http://127.0.0.1:8080/v1"; root: without "/v1", for what only llama-server
 * and vLLM have; query: behind every path, as "?api-version=1"; it may be secret. */
struct address {
	struct str api, root, server, query;
	int secure, here;
}; /* here: the server is this machine */
int address_read(struct address *, const char *url, struct err *);
void address_free(struct address *);
/* The key, from the options or the file, appended; ERR_USAGE where it cannot be read or must not go there. */
int key_read(const struct remote_options *, const struct address *, struct str *key, struct err *);

struct remote {
	struct remote_info info;
	struct address at;
	struct str key, model, shown, models;
	int timeout;
	int reached;      /* it has answered something */
	struct str leads; /* where its last answer sends, if that is a redirection */
	int (*stopped)(void);
	struct http_client *client;
	double bytes_per_token; /* of prompts so far */
	unsigned lacks;         /* enum request_field: what it has refused */
	struct answer {
		int open;
		struct sse sse;
		struct chunk chunk;
		struct str in;      /* as it arrives */
		int streams;        /* it comes as events; else as one JSON value */
		int any;            /* an event has come */
		int broken;         /* the connection failed */
		int thinking;       /* the reasoning is open */
		int finished, done; /* the text is complete; no more is expected */
		enum remote_stop stop;
		struct err late;    /* what ends the answer behind the text that is ready */
		struct str refused; /* the server's word for why it cut the answer */
		struct str ready;   /* text that was not handed out yet */
		struct str echo;
		size_t echoed; /* the beginning that is extended; bytes of it that came again */
		size_t bytes;  /* of the text so far */
		size_t sent;   /* bytes of the request's messages */
		int32_t read;  /* tokens of the prompt that are read */
		struct remote_usage usage;
		void (*waiting)(int32_t done, int32_t total, const char *why, void *ud);
		void *waiting_ud;
	} answer;
};

/* ---- server.c ---- */

/* Send JSON (NULL: a GET) to the address + path.  0: the head of the answer is there. */
int server_send(struct remote *, const struct str *base, const char *path, const struct str *json, struct http_reply *,
                struct err *);
/* The same, and the whole answer: *status; bounded.  -1: none came. */
int server_get(struct remote *, const struct str *base, const char *path, const struct str *json, int *status,
               struct str *out, struct err *);
/* What an answer with an error status says, as a sentence with the server's name and without the key: its JSON, or else
 * its page, which may be a gateway's. Returns -1. */
int server_refuses(struct remote *, int status, const struct chunk *, const struct str *page, struct err *);
/* The same of an error within an answer. */
int server_fault(struct remote *, const struct chunk *, struct err *);

/* What remote_open() does, on a zeroed struct; after -1 what is known stays. */
int server_open(struct remote *, const struct remote_options *, struct err *);
/* Ask for the context where it is not known yet: Ollama tells it of a model that is loaded. */
void server_ask_context(struct remote *);

/* ---- request.c ---- */

/* Fields of a request that servers refuse, each for reasons of its own. */
enum request_field {
	FIELD_USAGE = 1,      /* "stream_options": tokens are estimated then */
	FIELD_MAX_TOKENS = 2, /* "max_tokens": it is called "max_completion_tokens" */
	/* a limit that, with the prompt, exceeds the context: the context ends the answer */
	FIELD_LIMIT = 4,
	FIELD_SYSTEM = 8, /* a system message: it goes before the first question */
};
void request_json(const struct remote *, const struct remote_request *, struct str *out);
void messages_json(const struct remote *, const struct remote_message *, size_t n, struct str *out);

#endif
