/* engine/policies/policy.c - the table of all cache policies. Finds and parses a policy by its text
 * "NAME:key=value,...", and lists policies for help. */
#include "engine/cache/cache.h"
#include "engine/policies/policy.h"

#include <stdio.h>
#include <string.h>

/* All policies in the order of the help text. The first policy is the default. X(sift) stands for policy_sift. */
#define POLICIES(X)                                                                                                    \
	X(auto)                                                                                                        \
	X(full)                                                                                                        \
	X(sift)                                                                                                        \
	X(refresh)                                                                                                     \
	X(recycled)                                                                                                    \
	X(streaming) X(quest) X(h2o) X(h2o_plus) X(snapkv) X(kvzip) X(predict) X(sink) X(cascade) X(reattention)

#define DECLARE(name) extern const struct policy_def policy_##name;
#define LIST(name)    &policy_##name,
POLICIES(DECLARE)
const struct policy_def *const policies[] = { POLICIES(LIST) NULL };

static const struct policy_def *policy_find(const char *name, size_t len)
{
	for (int i = 0; policies[i]; i++)
		if (strlen(policies[i]->name) == len && !memcmp(policies[i]->name, name, len))
			return policies[i];
	return NULL;
}

static int unknown_policy(const char *name, size_t len, struct err *err)
{
	char known[160] = "";
	size_t at = 0;

	for (int i = 0; policies[i] && at < sizeof known; i++)
		at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", i ? ", " : "", policies[i]->name);
	return err_set(err, ERR_USAGE, "unknown cache policy '%.*s'; there are %s", (int)(MIN(len, 40)), name, known);
}

/* Return the setting named `key`, even if only older versions had it. Return NULL if the policy never had it. */
static const struct param *param_find(const struct policy_def *d, const char *key, size_t len)
{
	for (const struct param *p = d->params; p->key; p++)
		if (strlen(p->key) == len && !memcmp(p->key, key, len))
			return p;
	return NULL;
}

static int unknown_key(const struct policy_def *d, const char *key, size_t len, struct err *err)
{
	char known[160] = "";
	size_t at = 0;
	const struct param *p = param_find(d, key, len);
	int removed = p && p->type == PARAM_REMOVED;

	if (!d->params[0].key)
		return err_set(err, ERR_USAGE, "cache policy '%s' has no settings", d->name);
	for (p = d->params; p->key && at < sizeof known; p++)
		if (p->type != PARAM_REMOVED)
			at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", at ? ", " : "", p->key);
	return err_set(err, ERR_USAGE, "cache policy '%s' has no setting '%.*s'%s; it has %s", d->name,
	               (int)(MIN(len, 40)), key, removed ? " any more" : "", known);
}

/* 1 if only older versions accepted the setting, "key=value" in the `len` bytes of text, or its value. */
static int setting_gone(const struct policy_def *d, const char *text, size_t len)
{
	const struct param *p = param_find(d, text, MIN(strcspn(text, "="), len));

	return (p && p->type == PARAM_REMOVED) || (d->gone && strlen(d->gone) == len && !memcmp(d->gone, text, len));
}

/* Parse one setting, "key=value", from the `len` bytes of text, and set it. */
static int parse_setting(struct policy *par, const char *text, size_t len, struct err *err)
{
	const struct policy_def *d = par->def;
	size_t key = MIN(strcspn(text, "="), len), value = len - MIN(key + 1, len);
	const struct param *p = param_find(d, text, key);
	char range[120];

	if (!p || p->type == PARAM_REMOVED)
		return unknown_key(d, text, key, err);
	if (key == len)
		return err_set(err, ERR_USAGE, "cache policy '%s' wants a value for '%s': %s=...", d->name, p->key,
		               p->key);
	if (!param_set(par, p, text + key + 1, value))
		return 0;
	param_range(p, range, sizeof range);
	return err_set(err, ERR_USAGE, "cache policy '%s' cannot take %s='%.*s' (%s)", d->name, p->key,
	               (int)(MIN(value, 40)), text + key + 1, range);
}

/* Parse "key=value,..." and apply the settings in this order. The word `published` in place of a setting applies the
 * settings of the method's authors (policy_def.published). */
static int parse_settings(struct policy *par, const char *text, struct err *err)
{
	static const char published[] = "published";

	for (const char *at = text; *at; at += *at == ',') {
		size_t len = strcspn(at, ",");
		int preset = par->def->published && len == strlen(published) && !memcmp(at, published, len);

		if (preset ? parse_settings(par, par->def->published, err) : parse_setting(par, at, len, err))
			return -1;
		at += len;
	}
	return 0;
}

int policy_parse(struct policy *par, const char *text, struct err *err)
{
	const struct policy_def *d = policies[0];
	const char *at = text ? text : "";
	size_t len = strcspn(at, ":");

	if (*at && !(d = policy_find(at, len)))
		return unknown_policy(at, len, err);
	policy_preset(par, d);
	return parse_settings(par, at + len + (at[len] == ':'), err);
}

int kv_policy_check(const char *text, struct err *err)
{
	struct policy par;

	return policy_parse(&par, text, err);
}

void kv_policy_whole(const char *text, struct str *out)
{
	struct policy par;

	if (policy_parse(&par, text, NULL))
		str_adds(out, text);
	else
		policy_whole(&par, out);
}

void kv_policy_current(const char *text, struct str *out, struct str *removed)
{
	size_t name = strcspn(text, ":");
	const struct policy_def *d = policy_find(text, name);
	char sep = ':';

	str_add(out, text, name);
	for (const char *at = text + name + (text[name] == ':'); *at; at += *at == ',') {
		size_t len = strcspn(at, ","), key = strcspn(at, "=,");
		const struct param *p = d ? param_find(d, at, key) : NULL;

		if (!d || !setting_gone(d, at, len)) {
			str_addf(out, "%c%.*s", sep, (int)len, at);
			sep = ',';
		} else if (p->type != PARAM_REMOVED || len != key + 1 + strlen(p->preset) ||
		           memcmp(at + key + 1, p->preset, strlen(p->preset))) {
			str_addf(removed, "%s%.*s", removed->n ? ", " : "", (int)len, at);
		}
		at += len;
	}
}

int kv_policy_endless(const char *text)
{
	struct policy par;

	return !policy_parse(&par, text, NULL) && par.def->retention->endless;
}

const char *kv_policy_name(int i, const char **help)
{
	if (!policies[i])
		return NULL;
	*help = policies[i]->help;
	return policies[i]->name;
}

void kv_policy_help(struct str *out)
{
	char range[120];

	for (int i = 0; policies[i]; i++) {
		str_addf(out, "  %-12s %s%s\n", policies[i]->name, policies[i]->help, i ? "" : " (default)");
		for (const struct param *p = policies[i]->params; p->key; p++) {
			if (p->type == PARAM_REMOVED)
				continue;
			param_range(p, range, sizeof range);
			str_addf(out, "      %s=%s  %s (%s)\n", p->key, p->preset, p->help, range);
		}
		if (policies[i]->published && *policies[i]->published)
			str_addf(out, "      published  the settings of its authors: %s\n", policies[i]->published);
	}
}
