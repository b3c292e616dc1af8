/* sessions/fetch/fetch.h - reads web pages and byte ranges of files over http and https, and streams answers of
 * servers.
 *
 * Functions return 0, or -1 with *err set, unless their comment says otherwise. */
#ifndef WEIR_FETCH_H
#define WEIR_FETCH_H

#include "engine/base/base.h"

int doc_is_address(const char *path); /* 1 if path begins with "http://" or "https://" */

/* ---- http and https (fetch/http.c) ---- */

struct http_reply {
	int status;     /* status code, such as 200 or 404; 0: no answer */
	int64_t length; /* number of bytes of the body; -1 = unknown */
	/* From the header Content-Range; -1: unknown. `first` is the offset in the file of the body's first byte;
	 * `total` is the size of the file. */
	int64_t first, total;
	char type[128]; /* value of the header Content-Type; "" = the answer has none */
	/* number of encodings in the header Content-Encoding; more than 1 is refused, because nested compression can
	 * expand without limit */
	int encodings;
	int retry_after; /* number of seconds that the server asks weir to wait; 0 = it asks for none */
	int broken;      /* 1: the call failed because of the connection; a retry may succeed */
	int elsewhere;   /* 1: the answer comes from another server, to which a redirection led */
	/* A URL: of the next page of a list (header Link), or of the target of a redirection (header Location). "" =
	 * none. */
	char next[1024];
	/* Headers of huggingface.co; "" or -1 if missing. `code` and `message` (X-Error-Code, X-Error-Message) tell why
	 * the server refused. linked_sum and linked_size (X-Linked-Etag, X-Linked-Size) are the hexadecimal SHA-256 and
	 * the size of the file to which a redirection leads. */
	char code[32], message[160];
	char linked_sum[65];
	int64_t linked_size;
};
struct http_request {
	const char *url;
	/* Bearer token; NULL: none. It is sent only to the server of `url`, and only if the connection is encrypted or
	 * the server is this machine. */
	const char *token;
	int packed;  /* 1: accept a gzip answer; the reply's length then counts compressed bytes */
	int seconds; /* time limit for the whole transfer in seconds; 0: no limit */
	/* The byte range [first, last]; both bytes are included. If `first` is -1, the whole file; if `last` is -1, up
	 * to the end of the file. */
	int64_t first, last;
	/* Callbacks for an answer with status 200 or 206. begin() (may be NULL) is called before the first byte,
	 * bytes() for each block. To end the transfer, a callback sets *err and returns nonzero. */
	int (*begin)(const struct http_reply *, void *ud, struct err *);
	int (*bytes)(const void *p, size_t n, void *ud, struct err *);
	/* called repeatedly during the transfer; a nonzero result ends the transfer with ERR_CANCELLED; may be NULL */
	int (*stopped)(void);
	void (*waiting)(void *ud); /* called at least once a second, even while no bytes arrive; may be NULL */
	void *ud;
};
/* Send a GET request and follow redirections. Returns 0 if the server answered, with any status. Returns -1 if there is
 * no answer, if the connection breaks, or if weir refuses the answer or a redirection; *r has the headers received so
 * far. */
int http_get(const struct http_request *, struct http_reply *r, struct err *e);
/* 1 if the Content-Type is `type`; parameters are ignored. */
int http_type_is(const struct http_reply *, const char *type);
/* 1 if the URL contains a user name, perhaps with a password: keep such a URL out of messages. */
int http_has_user(const char *url);
/* 1 if the host of the address is this machine: an address in 127.0.0.0/8, [::1] or "localhost". */
int http_is_here(const char *url);
/* 1 if nobody on the network can read data that are sent to the address, because they are encrypted or stay on this
 * machine. */
int http_is_private(const char *url);

/* ---- streamed answers (fetch/stream.c) ----
 *
 * A client keeps its connection to a server open between requests. It runs one request at a time, in one thread.
 * It does not follow redirections: the status reports them. */

enum { HTTP_HEAD_MOST = 64 << 10 }; /* maximum number of bytes of all header lines */

struct http_client;
struct http_send {
	const char *url;
	const char *token; /* NULL: none */
	const char *json;  /* body of a POST; NULL: GET */
	size_t n_json;
	int no_proxy;      /* 1: ignore proxy settings, because the server is this machine */
	int connect_s;     /* time limit for connecting, in seconds */
	double patience_s; /* seconds until the first deadline; http_patience() sets later ones */
	/* called 25 times a second; a nonzero result ends the request with ERR_CANCELLED; may be NULL */
	int (*stopped)(void);
};
int http_client_open(struct http_client **, struct err *);
void http_client_close(struct http_client *);
/* Send a request and wait for the header lines of its answer. Returns 0 and sets *r. Returns -1 on error; then
 * r->broken is 1 if a retry may succeed. */
int http_ask(struct http_client *, const struct http_send *, struct http_reply *r, struct err *);
/* Wait for bytes of the body and append them to *out. Returns 1 if bytes were appended, 0 if the body has ended, -1 on
 * error. After an error, *broken is 1 if the connection failed; `broken` may be NULL. */
int http_read(struct http_client *, struct str *out, int *broken, struct err *);
/* Set a deadline `seconds` from now. A call of http_ask() or http_read() that still waits then fails. */
void http_patience(struct http_client *, double seconds);
/* End the request and discard the unread rest of its answer. */
void http_end(struct http_client *);

#endif
