/* sessions/fetch/stream.c - requests whose answers are read as they arrive (fetch.h).
 *
 * Uses libcurl's multi interface in the caller's thread. While a request waits for data, stopped() is called every
 * 40 ms. A cancelled request is removed from the multi handle, which closes its connection at once. */
#include "sessions/fetch/fetch.h"

#include <stdlib.h>
#include <string.h>

#include "sessions/fetch/curl.h"

/* GOT_MOST: maximum number of decompressed bytes that wait for http_read(), since compressed data can expand a
 * thousandfold */
enum { LOOK_MS = 40, GOT_MOST = 32 << 20 };

struct http_client {
	const struct curl_lib *curl;
	CURLM *multi; /* handle of libcurl that keeps the connection open between requests */
	CURL *easy;   /* handle of the current request; NULL: none */
	struct curl_slist *header;
	struct http_reply reply;
	struct str url, body, got; /* `got` has the bytes of the body that were received and not returned yet */
	int (*stopped)(void);
	double until;
	double patience; /* argument of the last http_patience() call, for the error message */
	size_t head;     /* number of bytes of header lines so far */
	int head_ended, done;
	int flooded; /* 1: more than GOT_MOST bytes arrived between two polls */
	CURLcode rc;
	char error[CURL_ERROR_SIZE];
};

int http_client_open(struct http_client **out, struct err *e)
{
	const struct curl_lib *curl = curl_load(e);
	struct http_client *c;

	*out = NULL;
	if (!curl)
		return -1;
	c = xcalloc(1, sizeof *c);
	c->curl = curl;
	c->multi = curl->multi_init();
	if (!c->multi) {
		free(c);
		return err_set(e, ERR_FIT, "no memory for a connection");
	}
	*out = c;
	return 0;
}

void http_end(struct http_client *c)
{
	if (c->easy) {
		c->curl->multi_remove(c->multi, c->easy);
		c->curl->cleanup(c->easy);
		c->easy = NULL;
	}
	c->curl->slist_free(c->header);
	c->header = NULL;
	str_clear(&c->got);
}

void http_client_close(struct http_client *c)
{
	if (!c)
		return;
	http_end(c);
	c->curl->multi_cleanup(c->multi);
	str_free(&c->url);
	str_free(&c->body);
	str_free(&c->got);
	free(c);
}

void http_patience(struct http_client *c, double seconds)
{
	c->patience = seconds;
	c->until = now_seconds() + seconds;
}

/* ---- receiving an answer ---- */

static size_t on_header(char *bytes, size_t size, size_t n, void *ud)
{
	struct http_client *c = ud;

	n *= size;
	c->head += n;
	if (c->head > HTTP_HEAD_MOST)
		return 0;
	http_head_line(&c->reply, bytes, n);
	if (c->reply.encodings > 1)
		return 0;
	/* An empty line ends the header lines. After a status below 200, such as 100 Continue, more header lines
	 * follow. */
	c->head_ended = n && (bytes[0] == '\r' || bytes[0] == '\n') && c->reply.status >= 200;
	return n;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *ud)
{
	struct http_client *c = ud;

	n *= size;
	c->flooded = n > GOT_MOST - c->got.n;
	if (c->flooded)
		return 0;
	str_add(&c->got, bytes, n);
	return n;
}

/* ---- a request ---- */

static void set_options(struct http_client *c, const struct http_send *q)
{
	const struct curl_lib *curl = c->curl;

	http_plain_options(curl, c->easy, c->url.p, c->error);
	curl->setopt(c->easy, CURLOPT_CONNECTTIMEOUT, (long)q->connect_s);
	curl->setopt(c->easy, CURLOPT_HEADERFUNCTION, on_header);
	curl->setopt(c->easy, CURLOPT_HEADERDATA, c);
	curl->setopt(c->easy, CURLOPT_WRITEFUNCTION, on_body);
	curl->setopt(c->easy, CURLOPT_WRITEDATA, c);
	if (q->no_proxy)
		curl->setopt(c->easy, CURLOPT_PROXY, "");
	if (q->token) {
		curl->setopt(c->easy, CURLOPT_HTTPAUTH, (long)CURLAUTH_BEARER);
		curl->setopt(c->easy, CURLOPT_XOAUTH2_BEARER, q->token);
	}
	if (q->json) {
		c->header = curl->slist_append(c->header, "Content-Type: application/json");
		c->header = curl->slist_append(c->header, "Accept: text/event-stream, application/json");
		/* An empty "Expect:" makes libcurl send a long body at once. Otherwise libcurl waits up to a second for
		 * the status "100 Continue". */
		c->header = curl->slist_append(c->header, "Expect:");
		curl->setopt(c->easy, CURLOPT_HTTPHEADER, c->header);
		curl->setopt(c->easy, CURLOPT_POSTFIELDS, c->body.p);
		curl->setopt(c->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)c->body.n);
	}
}

static int origin_is(const struct http_client *c)
{
	return (int)http_origin_bytes(c->url.p);
}

/* Wait up to LOOK_MS milliseconds for data, and let libcurl process them. Returns 0, or -1 if the request was stopped
 * or its time is over. */
static int wait_for_data(struct http_client *c, struct err *e)
{
	CURLMsg *msg;
	int running, left;
	double wait = c->until - now_seconds();

	if (c->stopped && c->stopped())
		return err_set(e, ERR_CANCELLED, "stopped");
	if (wait <= 0)
		return err_set(e, ERR_FAIL, "%.*s: nothing has come for %.0f seconds", origin_is(c), c->url.p,
		               c->patience);
	c->curl->multi_poll(c->multi, NULL, 0, wait * 1000 < LOOK_MS ? (int)(wait * 1000) + 1 : LOOK_MS, NULL);
	c->curl->multi_perform(c->multi, &running);
	while ((msg = c->curl->multi_info(c->multi, &left)))
		if (msg->msg == CURLMSG_DONE) {
			c->done = 1;
			c->rc = msg->data.result;
		}
	return 0;
}

/* Return advice for a failed connection, to append to the error message; may be "". */
static const char *connection_advice(CURLcode rc, const char *error)
{
	if (rc == CURLE_SSL_CACERT_BADFILE ||
	    (rc == CURLE_PEER_FAILED_VERIFICATION && (strstr(error, "issuer") || strstr(error, "self"))))
		return "; SSL_CERT_FILE names the file with its authority's certificate";
	if (rc == CURLE_SSL_CONNECT_ERROR)
		return "; is it http:// there?";
	if (strstr(error, "response 407"))
		return ": the proxy wants https_proxy=http://NAME:PASSWORD@HOST:PORT";
	return strstr(error, "CONNECT tunnel failed") ? ": the proxy refuses; no_proxy names what is asked without it"
	                                              : "";
}

/* Return the result of the ended transfer: 0, or -1 with *e set. */
static int transfer_result(struct http_client *c, struct err *e)
{
	if (c->rc == CURLE_OK)
		return 0;
	c->reply.broken = http_is_broken(c->rc);
	if (c->head > HTTP_HEAD_MOST)
		return err_set(e, ERR_FAIL, "%.*s: the answer begins with more than 64 KiB of headers", origin_is(c),
		               c->url.p);
	if (c->reply.encodings > 1)
		return err_set(e, ERR_FAIL, "%.*s: the answer is compressed twice", origin_is(c), c->url.p);
	if (c->flooded)
		return err_set(e, ERR_FAIL, "%.*s: the answer is more than 32 MiB at once", origin_is(c), c->url.p);
	if (c->rc == CURLE_PARTIAL_FILE)
		return err_set(e, ERR_FAIL, "%.*s: the connection broke off", origin_is(c), c->url.p);
	return err_set(e, ERR_FAIL, "%.*s: %.160s%s", origin_is(c), c->url.p,
	               c->error[0] ? c->error : c->curl->strerror(c->rc), connection_advice(c->rc, c->error));
}

int http_ask(struct http_client *c, const struct http_send *q, struct http_reply *r, struct err *e)
{
	curl_off_t wait = 0;
	int running, rc = 0;

	http_end(c);
	c->reply = (struct http_reply){ .length = -1, .first = -1, .total = -1 };
	*r = c->reply;
	str_clear(&c->url);
	str_adds(&c->url, q->url);
	str_clear(&c->body);
	str_add(&c->body, q->json ? q->json : "", q->n_json);
	c->stopped = q->stopped;
	c->head = 0;
	c->head_ended = c->done = c->flooded = 0;
	c->rc = CURLE_OK;
	c->error[0] = 0;
	http_patience(c, q->patience_s);
	c->easy = c->curl->init();
	if (!c->easy)
		return err_set(e, ERR_FIT, "no memory for '%.200s'", q->url);
	set_options(c, q);
	c->curl->multi_add(c->multi, c->easy);
	c->curl->multi_perform(c->multi, &running);
	while (!rc && !c->head_ended && !c->done)
		rc = wait_for_data(c, e);
	if (!rc && c->done && !c->head_ended)
		rc = transfer_result(c, e);
	if (!rc && !c->head_ended) {
		c->reply.broken = 1;
		rc = err_set(e, ERR_FAIL, "%.*s: the connection was closed without an answer", origin_is(c), c->url.p);
	}
	/* Retry-After may contain seconds or a date: libcurl parses both. */
	if (!rc && !c->curl->getinfo(c->easy, CURLINFO_RETRY_AFTER, &wait) && wait > 0)
		c->reply.retry_after = wait < 86400 * 365 ? (int)wait : 86400 * 365;
	*r = c->reply;
	if (rc < 0)
		http_end(c);
	return rc;
}

int http_read(struct http_client *c, struct str *out, int *broken, struct err *e)
{
	int rc = 0;

	if (broken)
		*broken = 0;
	if (!c->easy)
		return 0;
	while (!rc && !c->got.n && !c->done)
		rc = wait_for_data(c, e);
	if (!rc && c->got.n) {
		str_add(out, c->got.p, c->got.n);
		str_clear(&c->got);
		return 1;
	}
	if (!rc)
		rc = transfer_result(c, e);
	if (broken)
		*broken = c->reply.broken;
	http_end(c);
	return rc;
}
