/* sessions/import/url.c - imports documents by http and https (fetch/http.c).
 *
 * Size, time and redirections are limited. Credentials and cookies are never sent. Only a proxy that the user has set
 * is used. */
#include "sessions/import/import_private.h"

#include <stdlib.h>
#include <string.h>

#include "sessions/fetch/curl.h"

enum { TOTAL_SECONDS = 120 };

struct body {
	char *p;
	size_t n, cap;
	char type[sizeof((struct http_reply *)0)->type];
};

int doc_address(const char *said, struct str *url, struct str *shown, struct err *e)
{
	size_t n = strlen(said), host = (size_t)(strstr(said, "://") + 3 - said), from = url->n;

	while (n && said[n - 1] == ' ')
		n--;
	if (http_has_user(said))
		return err_set(
			e, ERR_DOCUMENT,
			"the address of a document has a user name in it; weir sends no passwords to web servers: save the page, and name the file");
	for (size_t i = 0; i < n; i++) {
		if ((unsigned char)said[i] < ' ' || said[i] == 0x7f ||
		    (said[i] == '\\' && i < host + strcspn(said + host, "/?#")))
			return err_set(e, ERR_DOCUMENT,
			               "the address of a document has a character that it cannot have");
		if (said[i] == ' ')
			str_adds(url, "%20");
		else
			str_add(url, said + i, 1);
	}
	str_add(shown, url->p + from, strcspn(url->p + from, "?#"));
	return 0;
}

/* Return the name of the document: the last part of the URL's path, or the host. */
static char *url_name(const char *url)
{
	const char *p = strstr(url, "://") + 3, *end = p + strcspn(p, "?#"), *from = end;

	while (end > p && end[-1] == '/')
		end--;
	for (from = end; from > p && from[-1] != '/'; from--)
		;
	return xstrndup(from, (size_t)(end - from));
}

/* ---- receiving a document ---- */

static int too_long(struct err *e)
{
	return err_set(e, ERR_DOCUMENT, "it is longer than 64 MiB");
}

static int on_begin(const struct http_reply *r, void *ud, struct err *e)
{
	struct body *b = ud;

	memcpy(b->type, r->type, sizeof b->type);
	return r->length > (int64_t)DOC_BYTES_MAX ? too_long(e) : 0;
}

static int on_bytes(const void *bytes, size_t n, void *ud, struct err *e)
{
	struct body *b = ud;

	if (n > DOC_BYTES_MAX || b->n + n > DOC_BYTES_MAX)
		return too_long(e);
	if (b->n + n > b->cap) {
		size_t cap = b->cap ? b->cap : 65536;
		char *p;

		while (cap < b->n + n)
			cap *= 2;
		p = realloc(b->p, cap);
		if (!p)
			return err_set(e, ERR_FIT, "it does not fit into memory");
		b->p = p;
		b->cap = cap;
	}
	memcpy(b->p + b->n, bytes, n);
	b->n += n;
	return 0;
}

static int fetch_body(const char *url, const char *shown, struct body *b, struct err *e)
{
	/* clang-format off */
	struct http_request q = {
		.url = url, .packed = 1, .seconds = TOTAL_SECONDS, .first = -1, .last = -1, .begin = on_begin, .bytes = on_bytes, .stopped = import_stopped, .ud = b,
	};
	/* clang-format on */
	struct http_reply reply;
	struct err why = { 0 };
	size_t origin = http_origin_bytes(url);
	const char *said = why.msg;

	if (!http_get(&q, &reply, &why) && reply.status == 200)
		return 0;
	if (why.code == ERR_CANCELLED)
		return import_refuse_stopped(doc_shown(shown), e);
	if (!why.code)
		return err_set(e, ERR_DOCUMENT, "document '%s' cannot be fetched: the server answers %d",
		               doc_shown(shown), reply.status);
	if (!strncmp(said, url, origin) && !strncmp(said + origin, ": ", 2))
		said += origin + 2;
	return err_set(e, why.code, "document '%s' cannot be fetched: %.180s", doc_shown(shown), said);
}

int url_document(const char *said, struct doc *out, struct err *e)
{
	struct str url = { 0 }, shown = { 0 };
	struct body b = { 0 };
	int rc;

	*out = (struct doc){ 0 };
	rc = doc_address(said, &url, &shown, e);
	if (!rc)
		rc = fetch_body(url.p, shown.p, &b, e);
	if (!rc) {
		char *name = url_name(shown.p);

		rc = document_import(name, b.type[0] ? b.type : NULL, b.p ? b.p : "", b.n, out, e);
		free(name);
	}
	str_free(&url);
	str_free(&shown);
	free(b.p);
	return rc;
}
