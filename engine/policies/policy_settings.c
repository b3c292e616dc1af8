/* engine/policies/policy_settings.c - converts the settings of one cache policy to and from text.
 *
 * To avoid a circular dependency, this file does not use the table of policies (policy.c): the table refers to the
 * policies, and the policies use this file. */
#include "engine/policies/policy.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one setting ---- */

static void *setting_at(const struct policy *par, const struct param *p)
{
	return (unsigned char *)(uintptr_t)par->values + p->off;
}

/* Return the index of the `len` bytes of text in a list such as "a|b|c", or -1. */
static int choice_index(const char *choices, const char *text, size_t len)
{
	int i = 0;

	for (const char *c = choices;; i++) {
		size_t n = strcspn(c, "|");

		if (n == len && !memcmp(c, text, n))
			return i;
		if (!c[n])
			return -1;
		c += n + 1;
	}
}

static int parse_number(const char *text, size_t len, double *out)
{
	char buf[32], *end;

	if (!len || len >= sizeof buf || isspace((unsigned char)*text))
		return -1;
	memcpy(buf, text, len);
	buf[len] = 0;
	*out = strtod(buf, &end);
	return *end || !isfinite(*out) ? -1 : 0;
}

/* Parse a number of entries ("512") or a share of all entries ("1/8"). Return 0, or -1 if it is invalid. */
static int parse_count(const char *text, size_t len, const struct param *p, struct entry_count *out)
{
	const char *slash = memchr(text, '/', len);
	double a, b = 0;

	if (parse_number(text, slash ? (size_t)(slash - text) : len, &a) ||
	    (slash && parse_number(slash + 1, len - (size_t)(slash - text) - 1, &b)))
		return -1;
	*out = (struct entry_count){ 0 };
	if (slash) {
		out->share = a / b;
		return b > 0 && a > 0 && out->share <= 1 ? 0 : -1;
	}
	out->n = (int32_t)a;
	return a >= p->min && a <= p->max && a == floor(a) ? 0 : -1;
}

int param_set(struct policy *par, const struct param *p, const char *text, size_t len)
{
	double x;
	int i;

	switch (p->type) {
	case PARAM_CHOICE:
		if ((i = choice_index(p->choices, text, len)) < 0)
			return -1;
		*(int *)setting_at(par, p) = i;
		return 0;
	case PARAM_COUNT: return parse_count(text, len, p, setting_at(par, p));
	case PARAM_INT:
		if (p->choices ? choice_index(p->choices, text, len) < 0 || parse_number(text, len, &x)
		               : parse_number(text, len, &x) || x < p->min || x > p->max || x != floor(x))
			return -1;
		*(int32_t *)setting_at(par, p) = (int32_t)x;
		return 0;
	case PARAM_ODD:
		if (parse_number(text, len, &x) || x < p->min || x > p->max || x != floor(x) || (int32_t)x % 2 == 0)
			return -1;
		*(int32_t *)setting_at(par, p) = (int32_t)x;
		return 0;
	case PARAM_REAL:
		if (parse_number(text, len, &x) || x < p->min || x > p->max)
			return -1;
		*(double *)setting_at(par, p) = x;
		return 0;
	case PARAM_REMOVED: break;
	}
	return -1;
}

/* Write the shortest text that parses to exactly x. */
static void number_text(double x, char out[32])
{
	for (int digits = 6; digits <= 17; digits++) {
		snprintf(out, 32, "%.*g", digits, x);
		if (strtod(out, NULL) == x)
			return;
	}
}

/* Write a share as "1/N", for example "1/8". If parsing "1/N" does not give exactly this share, write the share itself:
 * "0.9/1". */
static void share_text(double share, char *out, size_t cap)
{
	char part[32];

	number_text(1 / share, part);
	if (1 / strtod(part, NULL) == share) {
		snprintf(out, cap, "1/%s", part);
	} else {
		number_text(share, part);
		snprintf(out, cap, "%s/1", part);
	}
}

static void param_get(const struct policy *par, const struct param *p, char *out, size_t cap)
{
	const struct entry_count *count;
	const char *c = p->choices;
	char number[32];

	switch (p->type) {
	case PARAM_CHOICE:
		for (int i = *(int *)setting_at(par, p); i > 0; i--)
			c += strcspn(c, "|") + 1;
		snprintf(out, cap, "%.*s", (int)strcspn(c, "|"), c);
		break;
	case PARAM_COUNT:
		count = setting_at(par, p);
		if (count->share > 0)
			share_text(count->share, out, cap);
		else
			snprintf(out, cap, "%d", count->n);
		break;
	case PARAM_INT:
	case PARAM_ODD: snprintf(out, cap, "%d", *(int32_t *)setting_at(par, p)); break;
	case PARAM_REAL:
		number_text(*(double *)setting_at(par, p), number);
		snprintf(out, cap, "%s", number);
		break;
	case PARAM_REMOVED: snprintf(out, cap, "%s", p->preset); break;
	}
}

void param_range(const struct param *p, char *out, size_t cap)
{
	if (p->choices)
		snprintf(out, cap, "%s", p->choices);
	else
		snprintf(out, cap, "%.10g to %.10g%s", p->min, p->max,
		         p->type == PARAM_COUNT ? ", or a share as 1/8"
		         : p->type == PARAM_ODD ? ", odd"
		                                : "");
}

/* ---- all settings of a policy ---- */

void policy_preset(struct policy *par, const struct policy_def *d)
{
	memset(par, 0, sizeof *par);
	par->def = d;
	for (const struct param *p = d->params; p->key; p++)
		if (p->type != PARAM_REMOVED)
			param_set(par, p, p->preset, strlen(p->preset));
	if (d->preset)
		d->preset(par->values);
}

void policy_inherit(struct policy *to, const struct policy *from, const char *keys)
{
	char text[40];

	for (const struct param *p = from->def->params; p->key; p++)
		for (const struct param *q = to->def->params; q->key; q++)
			if (!strcmp(p->key, q->key) && choice_index(keys, p->key, strlen(p->key)) >= 0) {
				param_get(from, p, text, sizeof text);
				param_set(to, q, text, strlen(text));
			}
}

void policy_text(const struct policy *par, char *out, size_t cap)
{
	struct policy preset;
	size_t at = (size_t)snprintf(out, cap, "%s", par->def->name);
	char sep = ':', is[40], was[40];

	policy_preset(&preset, par->def);
	for (const struct param *p = par->def->params; p->key && at < cap; p++) {
		param_get(par, p, is, sizeof is);
		param_get(&preset, p, was, sizeof was);
		if (strcmp(is, was)) {
			at += (size_t)snprintf(out + at, cap - at, "%c%s=%s", sep, p->key, is);
			sep = ',';
		}
	}
}

void policy_whole(const struct policy *par, struct str *out)
{
	char sep = ':', is[40];

	str_adds(out, par->def->name);
	for (const struct param *p = par->def->params; p->key; p++) {
		if (p->type == PARAM_REMOVED)
			continue;
		param_get(par, p, is, sizeof is);
		str_addf(out, "%c%s=%s", sep, p->key, is);
		sep = ',';
	}
}

void policy_identity(const struct policy *par, struct str *out)
{
	const struct entry_count *count;

	str_adds(out, par->def->name);
	for (const struct param *p = par->def->params; p->key; p++) {
		str_addf(out, "%c%s=", p == par->def->params ? ':' : ',', p->key);
		switch (p->type) {
		case PARAM_CHOICE: str_addf(out, "%d", *(int *)setting_at(par, p)); break;
		case PARAM_COUNT:
			count = setting_at(par, p);
			str_addf(out, count->share > 0 ? "%a" : "%.0f", count->share > 0 ? count->share : count->n);
			break;
		case PARAM_INT:
		case PARAM_ODD: str_addf(out, "%d", *(int32_t *)setting_at(par, p)); break;
		case PARAM_REAL: str_addf(out, "%a", *(double *)setting_at(par, p)); break;
		case PARAM_REMOVED: str_adds(out, p->choices); break;
		}
	}
}
