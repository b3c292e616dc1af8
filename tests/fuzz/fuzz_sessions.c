/* tests/fuzz/fuzz_sessions.c - libFuzzer target for weir sessions import, app/tools/sessions_import.c: `make fuzz`,
 * then build/fuzz/fuzz_sessions [CORPUS].
 *
 * An imported file is exported, and the export is imported and exported again: the second import must succeed, and both
 * exports must be equal. Each transaction is rolled back. */
#include "app/tools/sessions_import.c"

#include <ftw.h>
#include <unistd.h>

static void must(int ok)
{
	if (!ok)
		abort();
}

static struct store *store;
static char dir[] = "/dev/shm/weir-fuzz-XXXXXX";

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st, (void)type, (void)at;
	return remove(path);
}

static void close_store(void)
{
	store_close(store);
	nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void open_store(void)
{
	struct store_options o = { .dir = dir };
	struct err e = { 0 };

	must(mkdtemp(dir) != NULL && !store_open(&store, &o, &e) && !atexit(close_store));
}

struct trip {
	struct importing x;
	struct str *out;
};

static int import_export(struct store *s, void *arg, struct err *e)
{
	struct trip *t = arg;

	if (import_all(s, &t->x, e)) {
		must(e->msg[0] != 0);
		return -1;
	}
	must(!session_export(s, t->x.session, EXPORT_JSON, message_export_more, t->out, e));
	return err_set(e, ERR_CANCELLED, "rolled back");
}

/* Import a text and export the session to *out. Returns 0 if the text was refused. */
static int travel(const struct str *text, struct str *out)
{
	struct options o = { 0 };
	struct trip t = { .x = { .o = &o, .file = "input", .all = jv_parse(text->p, text->n) }, .out = out };
	struct err e = { 0 };

	str_clear(out);
	if (check_file(&t.x, text, &e))
		return 0;
	must(store_change(store, import_export, &t, &e) < 0);
	free(t.x.message);
	str_free(&t.x.notice);
	return out->n > 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct str text, first, second;

	if (!store)
		open_store();
	str_clear(&text);
	str_add(&text, (const char *)data, size);
	if (travel(&text, &first))
		must(travel(&first, &second) && !strcmp(first.p, second.p));
	return 0;
}
