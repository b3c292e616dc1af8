/* engine/policies/policy.h (private to engine/) - the registry of cache policies: their names, their settings in and
 * out of text.
 *
 * What a policy is: engine/cache/policy_def.h. To add a policy: one file with its struct policy_def, and one line in
 * the table of policy.c. */
#ifndef WEIR_POLICY_H
#define WEIR_POLICY_H

#include "engine/cache/policy_def.h"

extern const struct policy_def policy_sift, policy_refresh; /* `auto` composes them */
extern const struct policy_def *const policies[];           /* ends with NULL; the default first */

/* "NAME[:key=value,...]"; NULL or "" = the default.  ERR_USAGE with the names or keys that there are. */
int policy_parse(struct policy *, const char *text, struct err *);

/* ---- policy_settings.c: one policy, without the table ---- */

/* The policy with the defaults of all its settings. */
void policy_preset(struct policy *, const struct policy_def *);
/* Set one setting to text[0..len).  Returns -1 where it is not what the setting accepts. */
int param_set(struct policy *, const struct param *, const char *text, size_t len);
/* What a setting accepts, for messages and help. */
void param_range(const struct param *, char *out, size_t cap);
/* Copy the settings with these keys ("k|bits") from one policy to another that has them, too. */
void policy_inherit(struct policy *to, const struct policy *from, const char *keys);
/* The canonical text: name and every setting that differs from its default. */
void policy_text(const struct policy *, char *out, size_t cap);
/* Name and all settings, whatever their defaults are: what sessions store.  Appends. */
void policy_whole(const struct policy *, struct str *out);
/* The same in numbers, as snapshots carry it: equal for equal settings only. Changing this form makes every snapshot
 * miss. Appends. */
void policy_identity(const struct policy *, struct str *out);

#endif
