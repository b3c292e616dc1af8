/* engine/policies/policy.h (private to engine/) - cache policies by name, and their settings as text.
 *
 * engine/cache/policy_def.h defines what a policy is. To add a policy, write a file with its struct policy_def, and add
 * its name to the table in policy.c. */
#ifndef WEIR_POLICY_H
#define WEIR_POLICY_H

#include "engine/cache/policy_def.h"

extern const struct policy_def policy_sift, policy_refresh; /* policies whose selectors `auto` uses */
extern const struct policy_def *const policies[];           /* terminated by NULL; the first is the default */

/* Parse a policy's text, "NAME" or "NAME:key=value,...". NULL or "" stands for the default policy. Returns 0, or -1
 * with ERR_USAGE. For an unknown name or key, the message lists the valid names or keys. */
int policy_parse(struct policy *, const char *text, struct err *);

/* ---- policy_settings.c: one policy, without the table ---- */

/* Set the policy to def with all settings at their defaults. */
void policy_preset(struct policy *, const struct policy_def *);
/* Set one setting from the `len` bytes of text. Return 0, or -1 if the text is not a valid value. */
int param_set(struct policy *, const struct param *, const char *text, size_t len);
/* Write which values a setting accepts, for messages and help. */
void param_range(const struct param *, char *out, size_t cap);
/* Copy the settings named in keys ("k|bits") from one policy to another one, which must have settings of the same
 * names. */
void policy_inherit(struct policy *to, const struct policy *from, const char *keys);
/* Write the policy's text: its name, and every setting that differs from its default. */
void policy_text(const struct policy *, char *out, size_t cap);
/* Append the name and all settings, even settings with default values. Sessions store this text, because defaults may
 * change. */
void policy_whole(const struct policy *, struct str *out);
/* Append the name and all settings as numbers: equal texts mean equal settings. Saved snapshots are found by this text.
 * If its format changes, older snapshots are no longer found. */
void policy_identity(const struct policy *, struct str *out);

#endif
