/* app/tools/stored.c - opens the databases for the commands about stored sessions and documents. */
#include "app/tools/tools.h"
#include "app/conversation/conversation.h"

#include "sessions/store/store.h"
#include "sessions/snap/snap.h"

int stored_words(const struct options *o, struct str *out, struct err *e)
{
	if (!o->n_file)
		return err_set(e, ERR_USAGE, "'weir %s' wants words", o->def->name);
	for (int i = 0; i < o->n_file; i++)
		str_addf(out, "%s%s", i ? " " : "", o->file[i]);
	return 0;
}

int stored_run(const struct options *o, int reads, stored_fn *run)
{
	struct store *store = NULL;
	struct snaps *snaps = NULL;
	struct str notice = { 0 }, folder = { 0 };
	struct err e = { 0 };
	int rc;

	if (recognition_folder(&folder))
		str_free(&folder);
	rc = store_open(&store,
	                &(struct store_options){ .read_only = reads, .notice = &notice, .recognised = folder.p }, &e);
	str_free(&folder);
	if (!rc && !reads)
		rc = snaps_open(&snaps, store, &(struct snaps_options){ .budget = 0 }, &notice, &e);
	say_lines(&notice);
	if (!rc)
		rc = run(o, store, snaps, &e);
	if (snaps)
		snaps_close(snaps);
	if (store)
		store_close(store);
	str_free(&notice);
	return rc < 0 ? fail(&e) : rc;
}
