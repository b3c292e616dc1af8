/* sessions/fetch/fetch.h - http and https: reads pages and parts of files, and streams answers of servers.
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
	/* Content-Range: first byte of the body within the file, size of the file; -1 = unknown */
	int64_t first, total;
	char type[128]; /* Content-Type as sent; "" = none */
	/* number of Content-Encodings; more than one is refused, since a short answer could expand without end */
	int encodings;
	int retry_after; /* seconds that the server asks to wait; 0 = none */
	int broken;      /* 1 after a failed call: the connection failed, and a retry may succeed */
	int elsewhere;   /* 1: a redirection led to another server than the one of the request */
	/* address of the next page of a list (Link), or target of a redirection (Location); "" = neither */
	char next[1024];
	/* Headers of huggingface.co; "" or -1 if missing.  code, message: why it refused (X-Error-Code and -Message).
	 * linked_sum, linked_size: SHA-256 (hexadecimal) and size of the file that a redirection leads to
	 * (X-Linked-Etag and -Size). */
	char code[32], message[160];
	char linked_sum[65];
	int64_t linked_size;
};
struct http_request {
	const char *url;
	/* bearer token, sent only to the host of url, and only if url is http_is_private(); NULL: none */
	const char *token;
	int packed;          /* 1: accept a compressed answer; Content-Length then counts compressed bytes */
	int seconds;         /* time limit for the whole transfer; 0: none */
	int64_t first, last; /* byte range to fetch, last included; first -1: the whole file; last -1: to the end */
	/* Callbacks for an answer with status 200 or 206: begin() before the first byte (may be NULL), then bytes()
	 * for each block.  Nonzero, with *err set, ends the transfer. */
	int (*begin)(const struct http_reply *, void *ud, struct err *);
	int (*bytes)(const void *p, size_t n, void *ud, struct err *);
	int (*stopped)(void); /* polled while waiting: nonzero ends the transfer with ERR_CANCELLED; may be NULL */
	void *ud;
};
/* Send a GET request and follow redirections.  0: the server answered, with any status.  -1: there was no
 * answer, or it was broken or refused; *r has the headers received so far. */
int http_get(const struct http_request *, struct http_reply *r, struct err *e);
/* 1 if the Content-Type is `type`; parameters are ignored. */
int http_type_is(const struct http_reply *, const char *type);
/* 1 if the address contains a user name, perhaps with a password.  Such an address must not be repeated in
 * messages. */
int http_has_user(const char *url);
/* 1 if the host of the address is this machine: 127.0.0.0/8, [::1] or "localhost". */
int http_is_here(const char *url);
/* 1 if data sent to the address cannot be read on the way: it is encrypted, or stays on this machine. */
int http_is_private(const char *url);

/* ---- streamed answers (fetch/stream.c) ----
 *
 * A client is a connection to one server; it stays open between requests. One request at a time, in one thread.
 * Redirections are not followed: the status reports them. */

enum { HTTP_HEAD_MOST = 64 << 10 }; /* most bytes of header lines */

struct http_client;
struct http_send {
	const char *url;
	const char *token; /* NULL: none */
	const char *json;  /* body of a POST; NULL: GET */
	size_t n_json;
	int no_proxy;         /* 1: ignore proxy settings, because the server is this machine */
	int connect_s;        /* time limit to connect, in seconds */
	double patience_s;    /* first time limit, see http_patience() */
	int (*stopped)(void); /* polled 25 times a second: nonzero ends the request with ERR_CANCELLED; may be NULL */
};
int http_client_open(struct http_client **, struct err *);
void http_client_close(struct http_client *);
/* Send a request and wait for the head of its answer.  0: *r has the status.  -1: r->broken says whether a retry
 * may succeed. */
int http_ask(struct http_client *, const struct http_send *, struct http_reply *r, struct err *);
/* Wait for more of the body and append it to out.  1: bytes were appended.  0: the body has ended.  -1: an error;
 * *broken (may be NULL) = 1 if the connection failed. */
int http_read(struct http_client *, struct str *out, int *broken, struct err *);
/* Set the time limit: the request fails if the current http_ask() or http_read() waits beyond `seconds` from now. */
void http_patience(struct http_client *, double seconds);
/* End the request and discard the unread rest of its answer. */
void http_end(struct http_client *);

#endif
