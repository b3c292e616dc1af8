/* sessions/import/url.c - documents by http and https, through libcurl.
 *
 * libcurl is loaded when the first address is read: it brings thirty libraries, which would double the time that weir takes to
 * start.  Limits: size, time, redirections; no protocol but http and https, no credentials, no cookies, no proxy but the user's. */
#include "sessions/import/import.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <curl/curl.h>

#define CONNECT_SECONDS 15L
#define TOTAL_SECONDS 120L
#define STALLED_SECONDS 20L
#define REDIRECTIONS_MAX 8L

/* What is used of libcurl. */
static struct {
	CURLcode (*global_init)(long);
	CURL *(*easy_init)(void);
	CURLcode (*easy_setopt)(CURL *, CURLoption, ...);
	CURLcode (*easy_perform)(CURL *);
	CURLcode (*easy_getinfo)(CURL *, CURLINFO, ...);
	void (*easy_cleanup)(CURL *);
	const char *(*easy_strerror)(CURLcode);
} lib;

static int load(struct err *e)
{
	static const char *const files[] = {"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl.so"};
	static const struct { void *to; const char *name; } symbol[] = {
		{&lib.global_init, "curl_global_init"}, {&lib.easy_init, "curl_easy_init"}, {&lib.easy_setopt, "curl_easy_setopt"},
		{&lib.easy_perform, "curl_easy_perform"}, {&lib.easy_getinfo, "curl_easy_getinfo"},
		{&lib.easy_cleanup, "curl_easy_cleanup"}, {&lib.easy_strerror, "curl_easy_strerror"},
	};
	void *so = NULL;

	if (lib.easy_strerror)
		return 0;
	for (size_t i = 0; i < sizeof files / sizeof *files && !so; i++)
		so = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
	if (!so)
		return err_set(e, ERR_DOCUMENT, "addresses cannot be read: libcurl is not installed");
	for (size_t i = 0; i < sizeof symbol / sizeof *symbol; i++) {
		void *p = dlsym(so, symbol[i].name);
		if (!p)
			return err_set(e, ERR_DOCUMENT, "addresses cannot be read: libcurl lacks %s", symbol[i].name);
		memcpy(symbol[i].to, &p, sizeof p);
	}
	return lib.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ? 0 : err_set(e, ERR_DOCUMENT, "addresses cannot be read: libcurl does not start");
}

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

static void set_options(CURL *c, const char *url, struct reply *r, char *error)
{
	lib.easy_setopt(c, CURLOPT_URL, url);
#if LIBCURL_VERSION_NUM >= 0x075500
	lib.easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
	lib.easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
#else
	lib.easy_setopt(c, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
	lib.easy_setopt(c, CURLOPT_REDIR_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
	lib.easy_setopt(c, CURLOPT_FOLLOWLOCATION, 1L);
	lib.easy_setopt(c, CURLOPT_MAXREDIRS, REDIRECTIONS_MAX);
	lib.easy_setopt(c, CURLOPT_CONNECTTIMEOUT, CONNECT_SECONDS);
	lib.easy_setopt(c, CURLOPT_TIMEOUT, TOTAL_SECONDS);
	lib.easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 64L);
	lib.easy_setopt(c, CURLOPT_LOW_SPEED_TIME, STALLED_SECONDS);
	lib.easy_setopt(c, CURLOPT_MAXFILESIZE, (long)DOC_BYTES_MAX);
	lib.easy_setopt(c, CURLOPT_ACCEPT_ENCODING, "gzip");
	lib.easy_setopt(c, CURLOPT_USERAGENT, "weir/" WEIR_VERSION);
	lib.easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	lib.easy_setopt(c, CURLOPT_FAILONERROR, 1L);
	lib.easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
	lib.easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_wait);
	lib.easy_setopt(c, CURLOPT_WRITEFUNCTION, on_bytes);
	lib.easy_setopt(c, CURLOPT_WRITEDATA, r);
	lib.easy_setopt(c, CURLOPT_ERRORBUFFER, error);
}

static int fetch(CURL *c, const char *url, struct reply *r, struct doc *out, struct err *e)
{
	char error[CURL_ERROR_SIZE] = "", *mime = NULL, *name;
	CURLcode rc;
	int result;

	set_options(c, url, r, error);
	rc = lib.easy_perform(c);
	if (rc == CURLE_ABORTED_BY_CALLBACK)
		return import_refuse_stopped(doc_shown(url), e);
	if (r->why)
		return err_set(e, ERR_DOCUMENT, "document '%.200s' %s", url, r->why);
	if (rc == CURLE_FILESIZE_EXCEEDED)
		return err_set(e, ERR_DOCUMENT, "document '%.200s' is longer than 64 MiB", url);
	if (rc != CURLE_OK)
		return err_set(e, ERR_DOCUMENT, "document '%.200s' cannot be fetched: %.120s", url, error[0] ? error : lib.easy_strerror(rc));
	lib.easy_getinfo(c, CURLINFO_CONTENT_TYPE, &mime);
	name = url_name(url);
	result = document_import(name, mime, r->p ? r->p : "", r->n, out, e);
	free(name);
	return result;
}

int url_document(const char *url, struct doc *out, struct err *e)
{
	struct reply r = {0};
	CURL *c;
	int rc;

	*out = (struct doc){0};
	if (load(e))
		return -1;
	c = lib.easy_init();
	if (!c)
		return err_set(e, ERR_FIT, "no memory for document '%.200s'", url);
	rc = fetch(c, url, &r, out, e);
	lib.easy_cleanup(c);
	free(r.p);
	return rc;
}
