/* app/remote/probe.c - finds out for `weir doctor` which server program runs at an address (remote.h). */
#include "app/remote/remote_private.h"

#include <stdlib.h>
#include <string.h>

/* Test the key by a chat request, because some servers list their models without a key. The request is empty. So a
 * server that accepts the key refuses the request before it loads a model or charges anything. */
static enum remote_key try_key(struct remote *r)
{
	struct str empty = { 0 }, out = { 0 };
	struct err none = { 0 };
	enum remote_key key = REMOTE_KEY_UNKNOWN;
	int status;

	str_adds(&empty, "{}");
	if (!server_get(r, &r->at.api, "/chat/completions", &empty, &status, &out, &none)) {
		if (status == 401 || status == 403)
			key = REMOTE_KEY_REFUSED;
		else if (status < 500 && status != 404 && status != 429 && (status < 300 || status >= 400))
			key = r->key.n ? REMOTE_KEY_ACCEPTED : REMOTE_KEY_NONE;
	}
	http_end(r->client);
	str_free(&empty);
	str_free(&out);
	return key;
}

struct remote *remote_probe(const struct remote_options *o, struct remote_report *report)
{
	struct remote *r = xcalloc(1, sizeof *r);

	*report = (struct remote_report){ .key = REMOTE_KEY_UNKNOWN };
	server_open(r, o, &report->why);
	if (!r->client) {
		remote_close(r);
		return NULL;
	}
	report->reached = r->reached;
	for (size_t i = 0; i < r->models.n; i++)
		report->n_models += !i || r->models.p[i - 1] == '\n';
	if (r->reached)
		report->key = try_key(r);
	return r;
}
