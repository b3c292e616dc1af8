/* app/term/log.c - keeps the last 200 messages of this run, with their times, for /log.
 *
 * The log is in memory only: it names files and sessions, and a private conversation must leave no trace on the
 * disk. Any thread may add to it. */
#include "app/term/term.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LOG_LINES = 200, LOG_LINE_MOST = 2000 };

static struct {
	pthread_mutex_t lock;
	struct {
		char *text;
		time_t at;
	} line[LOG_LINES];
	size_t n;
} kept = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
};

void log_add(const char *text, size_t n)
{
	size_t at;

	if (!n)
		return;
	if (n > LOG_LINE_MOST)
		n = utf8_complete(text, LOG_LINE_MOST);
	pthread_mutex_lock(&kept.lock);
	at = kept.n++ % LOG_LINES;
	free(kept.line[at].text);
	kept.line[at].text = xstrndup(text, n);
	kept.line[at].at = time(NULL);
	pthread_mutex_unlock(&kept.lock);
}

size_t log_show(size_t last, struct str *out)
{
	size_t there, from;

	pthread_mutex_lock(&kept.lock);
	there = MIN(kept.n, LOG_LINES);
	from = kept.n - MIN(last, there);
	for (size_t i = from; i < kept.n; i++) {
		char clock[16] = "";
		struct tm tm;

		if (localtime_r(&kept.line[i % LOG_LINES].at, &tm))
			strftime(clock, sizeof clock, "%H:%M:%S", &tm);
		str_addf(out, "%s%s  %s", out->n ? "\n" : "", clock, kept.line[i % LOG_LINES].text);
	}
	pthread_mutex_unlock(&kept.lock);
	return there;
}
