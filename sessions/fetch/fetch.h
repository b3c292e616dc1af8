/* sessions/fetch/fetch.h - http and https: pages and parts of files, and answers of servers as they arrive. */
#ifndef WEIR_FETCH_H
#define WEIR_FETCH_H

#include "engine/base/base.h"

int  doc_is_address(const char *path);   /* "http://..." or "https://..." */

/* ---- http and https (fetch/http.c) ---- */

struct http_reply {
	int status;            /* 200, 404, ...; 0: there was no answer */
	int64_t length;        /* bytes that follow, -1 = unknown */
	int64_t first, total;  /* Content-Range: the first byte that follows, bytes of the whole file; -1 = unknown */
	char type[128];        /* Content-Type, as it came; "" = it does not say */
	int encodings;         /* Content-Encoding: how many; more than one is refused, since a short answer could be endless work then */
	int retry_after;       /* seconds that the server asks to wait, 0 = it does not say */
	int broken;            /* after -1: the connection failed, and may succeed another time */
	int elsewhere;         /* another server has answered than the one that was asked, which had redirected to it */
	char next[1024];       /* the address of a list's next page (Link), or where a redirection leads (Location); "" = neither */
	/* What huggingface.co adds, "" or -1 where it is not there: why it refuses (X-Error-Code and -Message), and, with the redirection to a
	 * file's storage, the file's SHA-256 in base 16 and its size (X-Linked-Etag and -Size). */
	char code[32], message[160];
	char linked_sum[65];
	int64_t linked_size;
};
struct http_request {
	const char *url;
	const char *token;     /* sent to the host of url, if that is http_is_private(), and to no other one; NULL: none */
	int packed;            /* the answer may come compressed; its length is that of the compressed bytes then */
	int seconds;           /* after which all must be over; 0: no limit */
	int64_t first, last;   /* the bytes that are wanted; first -1: the whole file; last -1: to the end */
	/* Called with what follows a status of 200 or 206: begin() before the first byte (may be NULL), then bytes().  Not 0, with *e set, ends
	 * the transfer. */
	int (*begin)(const struct http_reply *, void *ud, struct err *);
	int (*bytes)(const void *p, size_t n, void *ud, struct err *);
	int (*stopped)(void);  /* asked while it waits: not 0 ends the transfer with ERR_CANCELLED; may be NULL */
	void *ud;
};
/* 0: the server has answered, whatever its status.  -1: there was no answer, or it was broken off or refused; *r says how far it came. */
int  http_get(const struct http_request *, struct http_reply *r, struct err *e);
/* Is the Content-Type this one, whatever its parameters? */
int  http_type_is(const struct http_reply *, const char *type);
/* Is there a user name in an address, and maybe a password?  Such an address is not repeated in messages. */
int  http_has_user(const char *url);
/* Is the host of an address this machine: 127.0.0.0/8, [::1] or "localhost"? */
int  http_is_here(const char *url);
/* Can nobody on the way read what is sent to an address: by encryption, or since it does not leave this machine? */
int  http_is_private(const char *url);

/* ---- answers that are read as they arrive (fetch/stream.c) ----
 *
 * A client is the connection to one server, which stays open between requests.  One request at a time, in one thread.  No redirection is
 * followed: the status says that there is one. */

enum { HTTP_HEAD_MOST = 64 << 10 };   /* bytes of all header lines */

struct http_client;
struct http_send {
	const char *url;
	const char *token;     /* NULL: none */
	const char *json;      /* the body of a POST; NULL: a GET */
	size_t n_json;
	int no_proxy;          /* the server is this machine: ask it and nobody else */
	int connect_s;         /* seconds to connect */
	double patience_s;     /* seconds until more must have come: http_patience() */
	int (*stopped)(void);  /* asked 25 times a second: not 0 ends the request with ERR_CANCELLED; may be NULL */
};
int  http_client_open(struct http_client **, struct err *);
void http_client_close(struct http_client *);
/* Send a request, and wait for the head of its answer: 0, with its status in *r; -1: *r says whether another try may succeed. */
int  http_ask(struct http_client *, const struct http_send *, struct http_reply *r, struct err *);
/* Wait for more of the answer's body, and append it: 1; 0: it has ended; -1: *broken (may be NULL): the connection failed. */
int  http_read(struct http_client *, struct str *out, int *broken, struct err *);
/* The server has so many seconds from now on; then the request fails. */
void http_patience(struct http_client *, double seconds);
/* The request is over: what was not read of its answer is not wanted. */
void http_end(struct http_client *);

#endif
