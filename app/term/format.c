/* app/term/format.c - formats numbers, ages and table cells for people. */
#include "app/term/term.h"
#include "engine/base/utf8.h"

#include <string.h>
#include <time.h>

void human_count(struct str *out, uint64_t n)
{
	str_adds(out, count_text(n).s);
}

void human_bytes(struct str *out, uint64_t n)
{
	static const char *unit[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	double v = (double)n;
	int u = 0;

	while (v >= 1024 && u < 4) {
		v /= 1024;
		u++;
	}
	str_addf(out, u && v < 100 ? "%.1f %s" : "%.0f %s", v, unit[u]);
}

void human_saved(struct str *out, uint64_t bytes, uint64_t packed)
{
	human_bytes(out, bytes);
	if (packed) {
		str_adds(out, ", ");
		human_bytes(out, packed);
	}
	str_adds(out, packed ? " of it near-exact" : bytes ? ", exact" : "");
}

/* Return the length of the UTF-8 character at p, which must be valid. */
static size_t char_bytes(const char *p)
{
	size_t n = 1;

	while (utf8_continues(p[n]))
		n++;
	return n;
}

void table_cell(struct str *out, const char *text, size_t width)
{
	struct str clean = { 0 };
	const char *p;
	size_t used = 0, all;

	clean_line(text, strlen(text), &clean);
	p = str_text(&clean);
	all = text_width(p, clean.n);
	for (size_t n, w; *p; p += n, used += w) {
		n = char_bytes(p);
		w = text_width(p, n);
		if (used + w > (all > width && width > 3 ? width - 3 : width))
			break;
		str_add(out, p, n);
	}
	if (all > width && width > 3) {
		str_adds(out, "...");
		used += 3;
	}
	for (; used < width; used++)
		str_adds(out, " ");
	str_free(&clean);
}

void human_age(struct str *out, int64_t then)
{
	int64_t ago = (int64_t)time(NULL) - then;
	time_t at = (time_t)then;
	struct tm day;

	if (ago < 60)
		str_adds(out, "now");
	else if (ago < 3600)
		str_addf(out, "%d min ago", (int)(ago / 60));
	else if (ago < 48 * 3600)
		str_addf(out, "%d h ago", (int)(ago / 3600));
	else if (ago < 30 * 86400)
		str_addf(out, "%d days ago", (int)(ago / 86400));
	else if (localtime_r(&at, &day))
		str_addf(out, "%04d-%02d-%02d", day.tm_year + 1900, day.tm_mon + 1, day.tm_mday);
}
