/* app/chat/notices.c - shows weir's own messages in the front end and writes them to the log. */
#include "app/chat/chat_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void notice(struct chat *c, const char *fmt, ...)
{
	va_list ap;
	char *text = NULL;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	log_add(text, (size_t)n);
	c->front->notice(c, text, (size_t)n);
	free(text);
}

void chat_error(struct chat *c, const struct err *e)
{
	log_add(e->msg, strlen(e->msg));
	c->front->error(c, e);
	if (!c->rc && !c->interactive)
		c->rc = exit_code(e->code);
}

void chat_prefill_progress(int32_t done, int32_t total, void *ud)
{
	struct chat *c = ud;

	c->front->progress(c, "reading", done, total);
}

void chat_model_name(const struct chat *c, struct str *out)
{
	const char *path = c->conv.info->path, *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	size_t n = strlen(name);

	clean_line(name, n > 5 && !strcmp(name + n - 5, ".gguf") ? n - 5 : n, out);
	if (!c->conv.tl)
		str_addf(out, " at %s", c->conv.info->device);
}
