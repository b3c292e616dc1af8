/* app/options/value.c - sets an option from text, and shows its value as text. */
#include "app/options/options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/term/term.h"

static int parse_int(const char *text, double min, double max, int32_t *out)
{
	char *end;
	long long v;

	errno = 0;
	v = strtoll(text, &end, 10);
	if (end == text || *end || errno || (double)v < min || (double)v > max)
		return -1;
	*out = (int32_t)v;
	return 0;
}

/* Parse bytes such as "512M", "1.5G" or "800000". */
static int parse_size(const char *text, uint64_t *out)
{
	static const char units[] = "KMGT";
	const char *unit;
	char *end;
	double v = strtod(text, &end);

	if (end == text || !(v >= 0) || !isfinite(v))
		return -1;
	unit = *end ? strchr(units, *end & ~0x20) : NULL;
	if (unit) {
		v = ldexp(v, 10 * (int)(unit - units + 1));
		end++;
	}
	if (*end || v >= 0x1p63)
		return -1;
	*out = (uint64_t)v;
	return 0;
}

enum sampling_setting option_sampling(const struct option_def *d)
{
	static const size_t at[SAMPLING_SETTINGS] = {
		[SAMPLING_TEMP] = offsetof(struct sampling, temperature),
		[SAMPLING_TOP_K] = offsetof(struct sampling, top_k),
		[SAMPLING_TOP_P] = offsetof(struct sampling, top_p),
		[SAMPLING_MIN_P] = offsetof(struct sampling, min_p),
		[SAMPLING_REPEAT] = offsetof(struct sampling, repeat_penalty),
		[SAMPLING_PRESENCE] = offsetof(struct sampling, presence_penalty),
		[SAMPLING_FREQUENCY] = offsetof(struct sampling, frequency_penalty),
	};
	int i = 0;

	while (i < SAMPLING_SETTINGS && d->off != offsetof(struct options, sampling) + at[i])
		i++;
	return (enum sampling_setting)i;
}

int option_auto(const struct option_def *d)
{
	return option_sampling(d) != SAMPLING_SETTINGS || (d->type == OPT_INT && d->min < 0);
}

static int bad_number(const struct option_def *d, const char *where, const char *value, struct err *e)
{
	const char *or_auto = option_auto(d) ? " or auto" : "";

	if (d->max == INT32_MAX)
		return err_set(e, ERR_USAGE, "%s wants a number from %g up%s, not '%.60s'", where, d->min, or_auto,
		               value);
	return err_set(e, ERR_USAGE, "%s wants a number from %g to %g%s, not '%.60s'", where, d->min, d->max, or_auto,
	               value);
}

/* Record whether the user has set sampling setting number i. If `said` is 0, the user has not, and the setting gets its
 * default again. */
static void sampling_said(struct options *o, enum sampling_setting i, int said)
{
	if (i == SAMPLING_SETTINGS)
		return;
	o->sampling_set = (o->sampling_set & ~(1u << i)) | (unsigned)said << i;
	if (!said)
		sampling_take(&o->sampling, &sampling_default, i);
}

static int set_list(struct int_list *list, const struct option_def *d, const char *where, const char *value,
                    struct err *e)
{
	struct int_list got = { .n = 0 };
	const char *p = value;

	for (;;) {
		size_t n = strcspn(p, ",");
		char item[16];
		if (got.n == LIST_MAX)
			return err_set(e, ERR_USAGE, "%s takes at most %d numbers", where, LIST_MAX);
		snprintf(item, sizeof item, "%.*s", n < sizeof item ? (int)n : 0, p);
		if (parse_int(item, d->min, d->max, &got.v[got.n++]) < 0)
			return err_set(e, ERR_USAGE,
			               "%s wants numbers from %g up with commas between them, not '%.60s'", where,
			               d->min, value);
		if (!p[n])
			break;
		p += n + 1;
	}
	*list = got;
	return 0;
}

char *options_own(struct options *o, const char *text, size_t n)
{
	o->owned = xrealloc(o->owned, (o->n_owned + 1) * sizeof *o->owned);
	return o->owned[o->n_owned++] = xstrndup(text, n);
}

/* Replace "~/" at the beginning of a path by the home directory. The shell does not replace it after "=", in
 * environment variables or in the config file. */
static const char *below_home(struct options *o, const char *path)
{
	const char *home = getenv("HOME");
	struct str s = { 0 };

	if (path[0] != '~' || path[1] != '/' || !home || !*home)
		return path;
	str_adds(&s, home);
	str_adds(&s, path + 1);
	path = options_own(o, s.p, s.n);
	str_free(&s);
	return path;
}

static int set_flag(int *at, const char *where, const char *value, struct err *e)
{
	static const char *const words[][5] = { { "0", "no", "false", "off" }, { "1", "yes", "true", "on" } };

	for (int is = 0; is < 2; is++)
		for (int i = 0; value && words[is][i]; i++)
			if (!strcmp(value, words[is][i])) {
				*at = is;
				return 0;
			}
	if (value)
		return err_set(e, ERR_USAGE, "%s is yes or no, not '%.60s'", where, value);
	*at = 1;
	return 0;
}

static int set_seed(struct options *o, uint64_t *at, const char *where, const char *value, struct err *e)
{
	char *end;
	unsigned long long v;

	errno = 0;
	v = strtoull(value, &end, 10);
	if (end == value || *end || errno || strchr(value, '-'))
		return err_set(e, ERR_USAGE, "%s wants a number from 0 to 18446744073709551615, not '%.60s'", where,
		               value);
	*at = v;
	o->seed_set = 1;
	return 0;
}

static int set_float(float *at, const struct option_def *d, const char *where, const char *value, struct err *e)
{
	char *end;
	double v;

	errno = 0;
	v = strtod(value, &end);
	if (end == value || *end || !isfinite(v) || v < d->min || v > d->max)
		return bad_number(d, where, value, e);
	*at = (float)v;
	return 0;
}

static int set_text(struct options *o, const char **at, const struct option_def *d, const char *where,
                    const char *value, struct err *e)
{
	if (!*value && (d->off == offsetof(struct options, model) || d->off == offsetof(struct options, session)))
		return err_set(e, ERR_USAGE, "%s is empty", where);
	if (d->off == offsetof(struct options, prompt) && strspn(value, " \t\r\n") == strlen(value))
		return err_set(e, ERR_USAGE, "%s has no words: nothing is asked", where);
	*at = strstr(d->arg, "FILE") ? below_home(o, value) : value;
	return 0;
}

static int set_choice(const char **at, const struct option_def *d, const char *where, const char *value, struct err *e)
{
	for (const char *p = d->arg;;) {
		size_t n = strcspn(p, "|");

		if (strlen(value) == n && !memcmp(p, value, n)) {
			*at = value;
			return 0;
		}
		if (!p[n])
			return err_set(e, ERR_USAGE, "%s has no '%.60s'; there is: %s", where, value, d->arg);
		p += n + 1;
	}
}

static int set_checked(const char **at, int (*check)(const char *, struct err *), const char *where, const char *value,
                       struct err *e)
{
	struct err why = { 0 };

	if (check(value, &why) < 0)
		return err_set(e, ERR_USAGE, "%s: %.300s", where, why.msg);
	*at = value;
	return 0;
}

int option_set(struct options *o, const struct option_def *d, const char *where, const char *value, struct err *e)
{
	void *at = (char *)o + d->off;
	enum sampling_setting sampled = option_sampling(d);

	if (option_auto(d) && !strcmp(value, "auto")) {
		if (sampled == SAMPLING_SETTINGS)
			*(int32_t *)at = -1;
		sampling_said(o, sampled, 0);
		return 0;
	}
	switch (d->type) {
	case OPT_FLAG: return set_flag(at, where, value, e);
	case OPT_INT:
		if (parse_int(value, d->min, d->max, at) < 0)
			return bad_number(d, where, value, e);
		sampling_said(o, sampled, 1);
		return 0;
	case OPT_INT_LIST: return set_list(at, d, where, value, e);
	case OPT_SEED: return set_seed(o, at, where, value, e);
	case OPT_SIZE:
		if (parse_size(value, at) < 0)
			return err_set(e, ERR_USAGE, "%s wants bytes, as 512M or 2G, not '%.60s'", where, value);
		return 0;
	case OPT_FLOAT:
		if (set_float(at, d, where, value, e) < 0)
			return -1;
		sampling_said(o, sampled, 1);
		return 0;
	case OPT_TEXT: return set_text(o, at, d, where, value, e);
	case OPT_POLICY: return set_checked(at, kv_policy_check, where, value, e);
	case OPT_KV_TYPE: return set_checked(at, kv_type_check, where, value, e);
	case OPT_CHOICE: return set_choice(at, d, where, value, e);
	}
	return 0;
}

const char *policy_current(struct options *o, const char *where, const char *text)
{
	struct str now = { 0 }, removed = { 0 };

	kv_policy_current(text, &now, &removed);
	if (removed.n && !o->quiet)
		say("%s: %s left out: weir has no such setting any more", where, removed.p);
	text = options_own(o, str_text(&now), now.n);
	str_free(&now);
	str_free(&removed);
	return text;
}

static void show_size(uint64_t bytes, struct str *out)
{
	int unit = 0;

	while (unit < 4 && bytes && !(bytes % 1024)) {
		bytes /= 1024;
		unit++;
	}
	str_addf(out, "%llu%.*s", (unsigned long long)bytes, unit > 0, &" KMGT"[unit]);
}

void option_show(const struct options *o, const struct option_def *d, struct str *out)
{
	const void *at = (const char *)o + d->off;
	enum sampling_setting sampled = option_sampling(d);

	if (sampled == SAMPLING_SETTINGS ? option_auto(d) && *(const int32_t *)at < 0
	                                 : !(o->sampling_set & 1u << sampled)) {
		str_adds(out, "auto");
		return;
	}
	switch (d->type) {
	case OPT_FLAG: str_adds(out, *(const int *)at ? "yes" : "no"); break;
	case OPT_INT: str_addf(out, "%d", *(const int32_t *)at); break;
	case OPT_SEED:
		if (o->seed_set)
			str_addf(out, "%llu", (unsigned long long)*(const uint64_t *)at);
		else
			str_adds(out, "random");
		break;
	case OPT_FLOAT: str_addf(out, "%g", (double)*(const float *)at); break;
	case OPT_SIZE: show_size(*(const uint64_t *)at, out); break;
	case OPT_TEXT:
	case OPT_CHOICE:
	case OPT_POLICY:
	case OPT_KV_TYPE: str_adds(out, *(const char *const *)at ? *(const char *const *)at : ""); break;
	case OPT_INT_LIST:
		for (int i = 0; i < ((const struct int_list *)at)->n; i++)
			str_addf(out, "%s%d", i ? "," : "", ((const struct int_list *)at)->v[i]);
		break;
	}
}
