/* engine/lab/policy_texts.c - texts of cache policies that are compared: with one setting changed, and in which order
 * one timeline can run them. */
#include "engine/lab/lab.h"
#include "engine/cache/cache.h"
#include "engine/policies/policy.h"

#include <string.h>

int kv_policy_with(const char *text, const char *key, const char *value, struct str *out, struct err *err)
{
	struct policy par;
	struct str s = { 0 };
	char shortest[256];
	int rc;

	/* Append the setting. If the text then has the setting twice, policy_parse() uses the later value. */
	str_addf(&s, "%s%c%s=%s", text, strchr(text, ':') ? ',' : ':', key, value);
	rc = policy_parse(&par, s.p, err);
	str_free(&s);
	if (rc)
		return rc;
	policy_text(&par, shortest, sizeof shortest);
	str_adds(out, shortest);
	return 0;
}

enum kv_sharing kv_policy_sharing(const char *text)
{
	struct policy par;

	if (policy_parse(&par, text, NULL) || !par.def->retention->keeps_all)
		return KV_SHARES_NOTHING;
	return par.def->observes_all ? KV_SHARES_AFTER : KV_SHARES_BOTH;
}
