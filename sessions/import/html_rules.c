/* sessions/import/html_rules.c - finds the classes and ids that an HTML page's own style sheet hides: simple
 * selectors with display: none. */
#include "sessions/import/import_private.h"

#include <string.h>

/* Ignores white space and case. */
int css_hides(const char *css, size_t n)
{
	char s[256];
	size_t k = 0;

	for (size_t i = 0; i < n && k < sizeof s - 1; i++)
		if ((unsigned char)css[i] > ' ')
			s[k++] = css[i] >= 'A' && css[i] <= 'Z' ? (char)(css[i] + 32) : css[i];
	s[k] = 0;
	return strstr(s, "display:none") || strstr(s, "visibility:hidden") || strstr(s, "font-size:0;") ||
	       strstr(s, "font-size:0px") || (k >= 11 && !strcmp(s + k - 11, "font-size:0"));
}

static int has_rule(const struct html_rules *h, char kind, const char *name, size_t n)
{
	for (int i = 0; i < h->n; i++)
		if (h->rule[i].name[0] == kind && strlen(h->rule[i].name + 1) == n &&
		    !memcmp(h->rule[i].name + 1, name, n))
			return 1;
	return 0;
}

int html_rules_hide(const struct html_rules *h, const char *id, const char *classes)
{
	if (!h->n)
		return 0;
	if (id && has_rule(h, '#', id, strlen(id)))
		return 1;
	for (const char *s = classes; s && *s;) {
		size_t k = strcspn(s, " \t\n\r\f");

		if (k && has_rule(h, '.', s, k))
			return 1;
		s += k + strspn(s + k, " \t\n\r\f");
	}
	return 0;
}

/* Collect the names that rules such as "x, .secret { display: none }" hide. Rules in nested blocks (@media print) are
 * ignored. */
void html_rules_read(struct html_rules *h, struct str *css)
{
	const char *p = str_text(css), *end = p + css->n;

	while (p < end) {
		const char *open = memchr(p, '{', (size_t)(end - p)), *close, *inner;
		if (!open || !(close = memchr(open, '}', (size_t)(end - open))))
			break;
		inner = memchr(open + 1, '{', (size_t)(close - open) - 1);
		if (inner) { /* skip the nested block */
			int level = 1;
			for (p = open + 1; p < end && level; p++)
				level += (*p == '{') - (*p == '}');
			continue;
		}
		if (css_hides(open + 1, (size_t)(close - open) - 1))
			while (p < open && h->n < HTML_RULES) {
				const char *comma = memchr(p, ',', (size_t)(open - p)), *stop = comma ? comma : open;
				size_t n;
				while (p < stop && (unsigned char)*p <= ' ')
					p++;
				while (stop > p && (unsigned char)stop[-1] <= ' ')
					stop--;
				n = (size_t)(stop - p);
				if (n > 1 && n < sizeof h->rule->name && (*p == '.' || *p == '#') &&
				    !memchr(p, ' ', n) && !memchr(p, ':', n) && !memchr(p + 1, '.', n - 1)) {
					memcpy(h->rule[h->n].name, p, n);
					h->rule[h->n++].name[n] = 0;
				}
				p = comma ? comma + 1 : open;
			}
		p = close + 1;
	}
	str_clear(css);
}
