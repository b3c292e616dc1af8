/* sessions/import/url.c - documents by http and https, through libcurl (fetch/curl.c).
 *
 * Limits: size, time, redirections; no protocol but http and https, no credentials, no cookies, no proxy but the user's. */
#include "sessions/import/import.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sessions/fetch/curl.h"

#define CONNECT_SECONDS 15L
#define TOTAL_SECONDS 120L
#define STALLED_SECONDS 20L
#define REDIRECTIONS_MAX 8L

struct reply { char *p; size_t n, cap; const char *why; };

static size_t on_bytes(char *bytes, size_t size, size_t n, void *ud)
{
	struct reply *r = ud;

	n *= size;
	if (n > DOC_BYTES_MAX || r->n + n > DOC_BYTES_MAX) {
		r->why = "is longer than 64 MiB";
		return 0;
	}
	if (r->n + n > r->cap) {
		size_t cap = r->cap ? r->cap : 65536;
		char *p;
		while (cap < r->n + n)
			cap *= 2;
		p = realloc(r->p, cap);
		if (!p) {
			r->why = "does not fit into memory";
			return 0;
		}
		r->p = p;
		r->cap = cap;
	}
	memcpy(r->p + r->n, bytes, n);
	r->n += n;
	return n;
}

int doc_is_address(const char *path)
{
	return !strncasecmp(path, "http://", 7) || !strncasecmp(path, "https://", 8);
}

/* Called while libcurl waits and transfers: not 0 ends the transfer. */
static int on_wait(void *ud, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
	(void)ud, (void)a, (void)b, (void)c, (void)d;
	return import_stopped();
}

/* The last part of the path, or the host. */
static char *url_name(const char *url)
{
	const char *p = strstr(url, "://") + 3, *end = p + strcspn(p, "?#"), *from = end;

	while (end > p && end[-1] == '/')
		end--;
	for (from = end; from > p && from[-1] != '/'; from--)
		;
	return xstrndup(from, (size_t)(end - from));
}

static void set_options(const struct curl_lib *curl, CURL *c, const char *url, struct reply *r, char *error)
{
	curl_set_certificates(curl, c);
	curl->setopt(c, CURLOPT_URL, url);
#if LIBCURL_VERSION_NUM >= 0x075500
	curl->setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
	curl->setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
#else
	curl->setopt(c, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
	curl->setopt(c, CURLOPT_REDIR_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
	curl->setopt(c, CURLOPT_FOLLOWLOCATION, 1L);
	curl->setopt(c, CURLOPT_MAXREDIRS, REDIRECTIONS_MAX);
	curl->setopt(c, CURLOPT_CONNECTTIMEOUT, CONNECT_SECONDS);
	curl->setopt(c, CURLOPT_TIMEOUT, TOTAL_SECONDS);
	curl->setopt(c, CURLOPT_LOW_SPEED_LIMIT, 64L);
	curl->setopt(c, CURLOPT_LOW_SPEED_TIME, STALLED_SECONDS);
	curl->setopt(c, CURLOPT_MAXFILESIZE, (long)DOC_BYTES_MAX);
	if (strstr(curl->version(), "zlib"))
		curl->setopt(c, CURLOPT_ACCEPT_ENCODING, "gzip");
	curl->setopt(c, CURLOPT_USERAGENT, "weir/" WEIR_VERSION);
	curl->setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl->setopt(c, CURLOPT_FAILONERROR, 1L);
	curl->setopt(c, CURLOPT_NOPROGRESS, 0L);
	curl->setopt(c, CURLOPT_XFERINFOFUNCTION, on_wait);
	curl->setopt(c, CURLOPT_WRITEFUNCTION, on_bytes);
	curl->setopt(c, CURLOPT_WRITEDATA, r);
	curl->setopt(c, CURLOPT_ERRORBUFFER, error);
}

static int fetch(const struct curl_lib *curl, CURL *c, const char *url, struct reply *r, struct doc *out, struct err *e)
{
	char error[CURL_ERROR_SIZE] = "", *mime = NULL, *name;
	CURLcode rc;
	int result;

	set_options(curl, c, url, r, error);
	rc = curl->perform(c);
	if (rc == CURLE_ABORTED_BY_CALLBACK)
		return import_refuse_stopped(doc_shown(url), e);
	if (r->why)
		return err_set(e, ERR_DOCUMENT, "document '%.200s' %s", url, r->why);
	if (rc == CURLE_FILESIZE_EXCEEDED)
		return err_set(e, ERR_DOCUMENT, "document '%.200s' is longer than 64 MiB", url);
	if (rc != CURLE_OK)
		return err_set(e, ERR_DOCUMENT, "document '%.200s' cannot be fetched: %.120s", url, error[0] ? error : curl->strerror(rc));
	curl->getinfo(c, CURLINFO_CONTENT_TYPE, &mime);
	name = url_name(url);
	result = document_import(name, mime, r->p ? r->p : "", r->n, out, e);
	free(name);
	return result;
}

int url_document(const char *url, struct doc *out, struct err *e)
{
	struct reply r = {0};
	const struct curl_lib *curl = curl_load(e);
	CURL *c;
	int rc;

	*out = (struct doc){0};
	if (!curl)
		return -1;
	c = curl->init();
	if (!c)
		return err_set(e, ERR_FIT, "no memory for document '%.200s'", url);
	rc = fetch(curl, c, url, &r, out, e);
	curl->cleanup(c);
	free(r.p);
	return rc;
}
