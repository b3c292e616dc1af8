/* sessions/fetch/http.c - fetches a web page or a byte range of a file (fetch.h).
 *
 * libcurl could follow redirections by itself. They are followed here instead, to enforce three rules: the token
 * goes only to the server of the request; a request that began encrypted stays encrypted; and a public server
 * cannot redirect to this machine or its private network (address.c). */
#include "sessions/fetch/fetch.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "sessions/fetch/curl.h"
#include "kernels/os.h"

enum {
	CONNECT_SECONDS = 20,
	STALLED_SECONDS = 30,
	REDIRECTIONS_MOST = 8,
	HEAD_SECONDS = 60, /* time limit, in seconds, for the header lines of each request */
	PAGE_MOST = 1 << 20,
	/* PAGE_MOST (bytes) and PAGE_SECONDS limit the body of an answer that is an error or a redirection */
	PAGE_SECONDS = 10,
};

struct transfer {
	const struct http_request *q;
	struct http_reply *r;
	struct err *e;
	size_t head; /* number of bytes of header lines so far */
	size_t page; /* number of bytes of the body so far, if the answer is an error or a redirection */
	/* time at which the request was sent, and time of the last header line; 0 = none was received yet */
	double asked, answered;
	double until; /* deadline of the transfer; 0: none */
	int began;    /* 1: begin() was called */
	int refused;  /* 1: a callback or a limit ended the transfer; *e is set */
	int ended;    /* 1: the body of an error or redirection exceeded PAGE_MOST */
	/* The network distance of the farthest host that has answered so far: this machine, its private network or the
	 * internet. A redirection to a nearer host is refused. */
	enum nearness nearest;
	/* 1: this process has refused the connection, because the host is nearer to this machine than `nearest` */
	int nearer;
};

/* Return the value of the header line if its name is `name`, else NULL. */
static const char *value_of(const char *line, size_t n, const char *name)
{
	size_t k = strlen(name);

	return n > k && line[k] == ':' && !strncasecmp(line, name, k) ? line + k + 1 + strspn(line + k + 1, " \t")
	                                                              : NULL;
}

/* Reset *r for a new answer. Keep linked_sum and linked_size: only the redirecting answer contains them. */
static void reply_begin(struct http_reply *r, int status)
{
	struct http_reply fresh = {
		.status = status, .length = -1, .first = -1, .total = -1, .linked_size = r->linked_size
	};

	memcpy(fresh.linked_sum, r->linked_sum, sizeof fresh.linked_sum);
	*r = fresh;
}

/* Copy a header value up to the end of the line; set `out` to "" if the value does not fit into `cap` bytes. */
static void keep_value(char *out, size_t cap, const char *v)
{
	size_t n = strcspn(v, "\r\n");

	snprintf(out, cap, "%.*s", n < cap ? (int)n : 0, v);
}

/* Set r->next to ADDRESS if a Link header contains <ADDRESS>; rel="next". The header may list several links. */
static void keep_next(struct http_reply *r, const char *v)
{
	while ((v = strchr(v, '<'))) {
		const char *end = strchr(v, '>'), *after;

		if (!end)
			return;
		after = end + strcspn(end, ",<");
		for (const char *p = end; p < after; p++)
			if (!strncasecmp(p, "rel=\"next", 9) || !strncasecmp(p, "rel=next", 8)) {
				if ((size_t)(end - v - 1) < sizeof r->next)
					snprintf(r->next, sizeof r->next, "%.*s", (int)(end - v - 1), v + 1);
				return;
			}
		v = after;
	}
}

/* Set r->linked_sum if the header value is a SHA-256: 64 hexadecimal digits in quotes, with or without W/ (weak ETag)
 * before them. */
static void keep_sum(struct http_reply *r, const char *v)
{
	const char *sum = strchr(v, '"');

	if (sum && strspn(sum + 1, "0123456789abcdef") == 64 && sum[65] == '"')
		snprintf(r->linked_sum, sizeof r->linked_sum, "%.64s", sum + 1);
}

/* Parse a RateLimit header. Example: "resolvers";r=0;t=55 means that 0 requests are left for the next 55 seconds.
 * Returns the seconds to wait; 0 if requests are left. */
static int limit_seconds(const char *v)
{
	const char *left = strstr(v, "r="), *time = strstr(v, "t=");
	long seconds = left && time && strtol(left + 2, NULL, 10) <= 0 ? strtol(time + 2, NULL, 10) : 0;

	return seconds > 0 && seconds < 86400 ? (int)seconds + 1 : 0;
}

void http_head_line(struct http_reply *r, const char *bytes, size_t n)
{
	char line[2048];
	const char *v;
	int end = 0, limit;

	snprintf(line, sizeof line, "%.*s", (int)(n < sizeof line ? n : sizeof line - 1), bytes);
	if (!strncmp(line, "HTTP/", 5)) { /* a new answer begins, for example after "100 Continue" */
		reply_begin(r, (int)strtol(line + strcspn(line, " "), NULL, 10));
	} else if ((v = value_of(line, strlen(line), "Content-Length"))) {
		if (sscanf(v, "%" SCNd64, &r->length) != 1 || r->length < 0)
			r->length = -1;
	} else if ((v = value_of(line, strlen(line), "Content-Encoding"))) {
		for (r->encodings++; (v = strchr(v, ',')); v++)
			r->encodings++;
	} else if ((v = value_of(line, strlen(line), "Content-Range"))) {
		int64_t last;

		if (sscanf(v, "bytes %" SCNd64 "-%" SCNd64 "%n/%" SCNd64, &r->first, &last, &end, &r->total) < 2 ||
		    !end || r->first < 0 || last < r->first)
			r->first = r->total = -1;
		/* huggingface.co sends RateLimit with every answer; its seconds count only if the status is 429 */
	} else if ((v = value_of(line, strlen(line), "RateLimit"))) {
		if (r->status == 429 && (limit = limit_seconds(v)))
			r->retry_after = limit;
	} else if ((v = value_of(line, strlen(line), "Link"))) {
		keep_next(r, v);
	} else if (r->status >= 300 && r->status < 400 && (v = value_of(line, strlen(line), "Location"))) {
		keep_value(r->next, sizeof r->next, v);
	} else if ((v = value_of(line, strlen(line), "X-Error-Code"))) {
		keep_value(r->code, sizeof r->code, v);
	} else if ((v = value_of(line, strlen(line), "X-Error-Message"))) {
		keep_value(r->message, sizeof r->message, v);
	} else if ((v = value_of(line, strlen(line), "X-Linked-Etag"))) {
		keep_sum(r, v);
	} else if ((v = value_of(line, strlen(line), "X-Linked-Size"))) {
		if (sscanf(v, "%" SCNd64, &r->linked_size) != 1 || r->linked_size < 0)
			r->linked_size = -1;
	} else if ((v = value_of(line, strlen(line), "Content-Type"))) {
		snprintf(r->type, sizeof r->type, "%.*s", (int)strcspn(v, "\r\n"), v);
	}
}

int http_type_is(const struct http_reply *r, const char *type)
{
	size_t n = strcspn(r->type, "; \t");

	return n == strlen(type) && !strncasecmp(r->type, type, n);
}

static size_t on_header(char *bytes, size_t size, size_t n, void *ud)
{
	struct transfer *t = ud;

	n *= size;
	t->head += n;
	if (t->head > HTTP_HEAD_MOST) {
		t->refused = 1;
		err_set(t->e, ERR_DOCUMENT, "the answer begins with more than 64 KiB of headers");
		return 0;
	}
	http_head_line(t->r, bytes, n);
	if (t->r->encodings > 1) {
		t->refused = 1;
		err_set(t->e, ERR_DOCUMENT, "the answer is compressed twice");
		return 0;
	}
	t->answered = n && (*bytes == '\r' || *bytes == '\n') && t->r->status >= 200 ? now_seconds() : 0;
	return n;
}

static int has_file(const struct http_reply *r)
{
	return r->status == 200 || r->status == 206;
}

static int is_redirection(const struct http_reply *r)
{
	return r->status >= 301 && r->status <= 308 && r->status != 304;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *ud)
{
	struct transfer *t = ud;

	n *= size;
	if (!has_file(t->r)) { /* drop the body of an error or redirection, but count its bytes */
		t->page += n;
		t->ended = t->page > PAGE_MOST;
		return t->ended ? 0 : n;
	}
	if (!t->began && t->q->begin && t->q->begin(t->r, t->q->ud, t->e)) {
		t->refused = 1;
		return 0;
	}
	t->began = 1;
	if (t->q->bytes(bytes, n, t->q->ud, t->e)) {
		t->refused = 1;
		return 0;
	}
	return n;
}

static int on_wait(void *ud, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
	struct transfer *t = ud;

	(void)a, (void)b, (void)c, (void)d;
	if (t->q->waiting)
		t->q->waiting(t->q->ud);
	if (t->until > 0 && now_seconds() > t->until) {
		t->refused = 1;
		err_set(t->e, ERR_DOCUMENT, "it has not come within %d seconds", t->q->seconds);
	} else if (!t->answered && now_seconds() > t->asked + HEAD_SECONDS) {
		t->refused = t->r->broken = 1;
		err_set(t->e, ERR_DOCUMENT, "the server has not answered within %d seconds", HEAD_SECONDS);
	} else if (t->answered && !has_file(t->r) && now_seconds() > t->answered + PAGE_SECONDS) {
		t->ended = 1;
	}
	return t->refused || t->ended || (t->q->stopped && t->q->stopped());
}

/* Open a socket for libcurl, after checking the IP address. Checking the URL is not enough: any host name may
 * resolve to this machine. */
static curl_socket_t on_socket(void *ud, curlsocktype purpose, struct curl_sockaddr *to)
{
	struct transfer *t = ud;

	(void)purpose;
	if (near_address(&to->addr) > t->nearest) {
		t->nearer = 1;
		return CURL_SOCKET_BAD;
	}
	return os_socket(to->family, to->socktype, to->protocol);
}

void http_plain_options(const struct curl_lib *curl, CURL *c, const char *url, char *error)
{
#if LIBCURL_VERSION_NUM >= 0x075500
	curl->setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
#else
	curl->setopt(c, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
	curl_set_certificates(curl, c);
	curl->setopt(c, CURLOPT_URL, url);
	curl->setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
	curl->setopt(c, CURLOPT_USERAGENT, "weir/" WEIR_VERSION);
	/* Ask for an uncompressed answer. With this option set, libcurl also decodes an answer that is compressed
	 * anyway. */
	curl->setopt(c, CURLOPT_ACCEPT_ENCODING, "identity");
	curl->setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl->setopt(c, CURLOPT_ERRORBUFFER, error);
}

static void set_options(const struct curl_lib *curl, CURL *c, struct transfer *t, const char *url, int with_token,
                        char *error)
{
	char range[48];

	http_plain_options(curl, c, url, error);
	curl->setopt(c, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
	curl->setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
	curl->setopt(c, CURLOPT_LOW_SPEED_TIME, (long)STALLED_SECONDS);
	curl->setopt(c, CURLOPT_NOPROGRESS, 0L);
	curl->setopt(c, CURLOPT_XFERINFOFUNCTION, on_wait);
	curl->setopt(c, CURLOPT_XFERINFODATA, t);
	curl->setopt(c, CURLOPT_HEADERFUNCTION, on_header);
	curl->setopt(c, CURLOPT_HEADERDATA, t);
	curl->setopt(c, CURLOPT_WRITEFUNCTION, on_body);
	curl->setopt(c, CURLOPT_WRITEDATA, t);
	if (!near_by_name()) {
		curl->setopt(c, CURLOPT_OPENSOCKETFUNCTION, on_socket);
		curl->setopt(c, CURLOPT_OPENSOCKETDATA, t);
	}
	if (t->q->packed && strstr(curl->version(), "zlib"))
		curl->setopt(c, CURLOPT_ACCEPT_ENCODING, "gzip");
	if (with_token) {
		curl->setopt(c, CURLOPT_HTTPAUTH, (long)CURLAUTH_BEARER);
		curl->setopt(c, CURLOPT_XOAUTH2_BEARER, t->q->token);
	}
	if (t->q->first >= 0) {
		snprintf(range, sizeof range, t->q->last >= 0 ? "%" PRId64 "-%" PRId64 : "%" PRId64 "-", t->q->first,
		         t->q->last);
		curl->setopt(c, CURLOPT_RANGE, range);
	}
}

size_t http_origin_bytes(const char *url)
{
	const char *p = strstr(url, "://");

	return p ? (size_t)(p + 3 - url) + strcspn(p + 3, "/?#") : 0;
}

static int same_origin(const char *a, const char *b)
{
	size_t n = http_origin_bytes(a);

	/* `b` must have no user name: the host of "https://a.example@b.example" is b.example */
	return n && n == http_origin_bytes(b) && !strncasecmp(a, b, n) && !memchr(b, '@', n);
}

int http_is_broken(CURLcode rc)
{
	return rc == CURLE_PARTIAL_FILE || rc == CURLE_RECV_ERROR || rc == CURLE_SEND_ERROR ||
	       rc == CURLE_GOT_NOTHING || rc == CURLE_OPERATION_TIMEDOUT || rc == CURLE_COULDNT_CONNECT ||
	       rc == CURLE_SSL_CONNECT_ERROR || rc == CURLE_WEIRD_SERVER_REPLY || rc == CURLE_HTTP2 ||
	       rc == CURLE_HTTP2_STREAM;
}

/* 1 if the token may be sent to url: the URL has the origin (scheme, host, port) of the request, and is encrypted or
 * on this machine. */
static int token_may_go(const struct http_request *q, const char *url)
{
	return q->token && same_origin(q->url, url) && http_is_private(url);
}

/* Classify the host that has answered: this machine, its private network or the internet. A host may not redirect to a
 * nearer host. */
static enum nearness nearness_of(const struct curl_lib *curl, CURL *c, const char *url)
{
	char *ip = NULL;

	if (near_by_name())
		return near_host(url);
	return curl->getinfo(c, CURLINFO_PRIMARY_IP, &ip) == CURLE_OK && ip ? near_number(ip) : NEAR_PUBLIC;
}

static int refuse_nearer(const char *url, struct err *e)
{
	return err_set(
		e, ERR_DOCUMENT,
		"it is redirected to %.*s, which is this machine or one of its own network; if that is meant, give the address there",
		(int)http_origin_bytes(url), url);
}

/* Send one request, without following redirections. Returns 0 and sets *next to the target of a redirection, or empties
 * it if there is none. Returns -1 on error. */
static int ask_once(const struct curl_lib *curl, struct transfer *t, const char *url, struct str *next)
{
	char error[CURL_ERROR_SIZE] = "", *to = NULL;
	curl_off_t wait = 0; /* number of seconds that Retry-After asks for; libcurl also converts a date */
	CURL *c = curl->init();
	enum nearness near;
	CURLcode rc;
	int result = 0;

	if (!c)
		return err_set(t->e, ERR_FIT, "no memory for a connection");
	reply_begin(t->r, 0);
	t->head = t->page = 0;
	t->answered = 0;
	t->asked = now_seconds();
	set_options(curl, c, t, url, token_may_go(t->q, url), error);
	rc = curl->perform(c);
	near = nearness_of(curl, c, url);
	if (near < t->nearest)
		t->nearest = near;
	if (!t->r->retry_after && curl->getinfo(c, CURLINFO_RETRY_AFTER, &wait) == CURLE_OK && wait > 0)
		t->r->retry_after = wait < INT_MAX ? (int)wait : INT_MAX;
	t->r->elsewhere = !same_origin(t->q->url, url);
	if (t->refused) {
		result = -1; /* *e is set */
	} else if (t->ended && is_redirection(t->r)) {
		result = err_set(t->e, ERR_DOCUMENT, "%.*s redirects with a page that does not end",
		                 (int)http_origin_bytes(url), url);
	} else if (t->ended) {
		; /* this is no error of the function: the status tells the caller what happened */
	} else if (t->nearer && rc != CURLE_OK) {
		result = refuse_nearer(url, t->e);
	} else if (rc == CURLE_ABORTED_BY_CALLBACK) {
		result = err_set(t->e, ERR_CANCELLED, "stopped");
	} else if (rc != CURLE_OK) {
		t->r->broken = http_is_broken(rc);
		result = err_set(t->e, ERR_DOCUMENT, "%.*s: %.160s", (int)http_origin_bytes(url), url,
		                 error[0] ? error : curl->strerror(rc));
	} else if (is_redirection(t->r)) {
		curl->getinfo(c, CURLINFO_REDIRECT_URL, &to);
		if (to)
			str_adds(next, to);
		else
			result = err_set(t->e, ERR_DOCUMENT, "%.*s redirects to nowhere", (int)http_origin_bytes(url),
			                 url);
	}
	curl->cleanup(c);
	return result;
}

int http_get(const struct http_request *q, struct http_reply *r, struct err *e)
{
	const struct curl_lib *curl = curl_load(e);
	struct transfer t = {
		.q = q, .r = r, .e = e, .nearest = NEAR_HERE, .until = q->seconds ? now_seconds() + q->seconds : 0
	};
	struct str url = { 0 }, next = { 0 };
	int rc;

	*r = (struct http_reply){ .length = -1, .first = -1, .total = -1, .linked_size = -1 };
	if (!curl)
		return -1;
	str_adds(&url, q->url);
	for (int i = 0;; i++) {
		str_clear(&next);
		rc = ask_once(curl, &t, url.p, &next);
		if (rc || !next.n)
			break;
		if (i == REDIRECTIONS_MOST)
			rc = err_set(e, ERR_DOCUMENT, "%.*s redirects more than %d times",
			             (int)http_origin_bytes(q->url), q->url, REDIRECTIONS_MOST);
		else if (!doc_is_address(next.p))
			rc = err_set(e, ERR_DOCUMENT, "%.*s redirects to '%.80s', which is no web address",
			             (int)http_origin_bytes(url.p), url.p, next.p);
		else if (http_has_user(next.p))
			rc = err_set(e, ERR_DOCUMENT, "%.*s redirects to an address with a user name in it",
			             (int)http_origin_bytes(url.p), url.p);
		else if (!strncasecmp(q->url, "https:", 6) && strncasecmp(next.p, "https:", 6) != 0)
			rc = err_set(e, ERR_DOCUMENT, "%.*s redirects to an address without encryption, '%.80s'",
			             (int)http_origin_bytes(url.p), url.p, next.p);
		else if (near_by_name() && near_host(next.p) > t.nearest)
			rc = refuse_nearer(next.p, e);
		if (rc)
			break;
		str_clear(&url);
		str_add(&url, next.p, next.n);
	}
	str_free(&url);
	str_free(&next);
	return rc;
}
