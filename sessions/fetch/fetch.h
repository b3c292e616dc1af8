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
	int status;     /* 200, 404, ...; 0: no answer */
	int64_t length; /* bytes of the body; -1 = unknown */
	/* from the header Content-Range; -1: unknown. first: offset of the body's first byte in the file; total: size
	 * of the file */
	int64_t first, total;
	char type[128]; /* Content-Type as sent; "" = none */
	/* number of Content-Encodings; more than 1 is refused, because nested compression can expand without limit */
	int encodings;
	int retry_after; /* seconds that the server asks to wait; 0 = none */
	int broken;      /* 1: the call failed because of the connection; a retry may succeed */
	int elsewhere;   /* 1: the answer comes from another server, to which a redirection led */
	/* "" or a URL: the next page of a list (header Link), or the target of a redirection (header Location) */
	char next[1024];
	/* Headers of huggingface.co; "" or -1 if missing. code and message (X-Error-Code, X-Error-Message): why
	 * the server refused. linked_sum and linked_size (X-Linked-Etag, X-Linked-Size): hexadecimal SHA-256 and
	 * size of the file to which a redirection leads. */
	char code[32], message[160];
	char linked_sum[65];
	int64_t linked_size;
};
struct http_request {
	const char *url;
	/* Bearer token; NULL: none. It is sent only to the server of url, and only if the connection is encrypted or
	 * the server is this machine. */
	const char *token;
	int packed;  /* 1: accept a gzip answer; the reply's length then counts compressed bytes */
	int seconds; /* time limit for the whole transfer; 0: none */
	/* byte range first .. last, inclusive; first = -1: whole file; last = -1: up to the end */
	int64_t first, last;
	/* Callbacks for an answer with status 200 or 206. begin() (may be NULL) is called before the first byte,
	 * bytes() for each block. To end the transfer, they set *err and return nonzero. */
	int (*begin)(const struct http_reply *, void *ud, struct err *);
	int (*bytes)(const void *p, size_t n, void *ud, struct err *);
	int (*stopped)(void);      /* polled while waiting; nonzero ends the transfer with ERR_CANCELLED; may be NULL */
	void (*waiting)(void *ud); /* called at least once a second, also while nothing arrives; may be NULL */
	void *ud;
};
/* Send a GET request and follow redirections. 0: the server answered, with any status. -1: no answer, a broken
 * connection, or an answer or redirection that weir refuses; *r has the headers received so far. */
int http_get(const struct http_request *, struct http_reply *r, struct err *e);
/* 1 if the Content-Type is `type`; parameters are ignored. */
int http_type_is(const struct http_reply *, const char *type);
/* 1 if the URL contains a user name, perhaps with a password: keep such a URL out of messages. */
int http_has_user(const char *url);
/* 1 if the host of the address is this machine: 127.0.0.0/8, [::1] or "localhost". */
int http_is_here(const char *url);
/* 1 if nobody on the network can read data sent to the address: it is encrypted, or stays on this machine. */
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
	int no_proxy;         /* 1: ignore proxy settings, because the server is this machine */
	int connect_s;        /* time limit to connect, in seconds */
	double patience_s;    /* seconds until the first deadline; http_patience() sets later ones */
	int (*stopped)(void); /* polled 25 times a second; nonzero ends the request with ERR_CANCELLED; may be NULL */
};
int http_client_open(struct http_client **, struct err *);
void http_client_close(struct http_client *);
/* Send a request and wait for the header lines of its answer. Returns 0 and sets *r; or -1, and r->broken = 1 if a
 * retry may succeed. */
int http_ask(struct http_client *, const struct http_send *, struct http_reply *r, struct err *);
/* Wait for bytes of the body and append them to *out. 1: bytes were appended. 0: the body has ended. -1: an error;
 * *broken (may be NULL) = 1 if the connection failed. */
int http_read(struct http_client *, struct str *out, int *broken, struct err *);
/* Set a deadline `seconds` from now. A call of http_ask() or http_read() that still waits then fails. */
void http_patience(struct http_client *, double seconds);
/* End the request and discard the unread rest of its answer. */
void http_end(struct http_client *);

#endif
