/* app/models/model_files.c - finds the model files on this machine: weir's own, and those of other programs.
 *
 *     weir           $XDG_CACHE_HOME/weir/models/NAME.gguf; text encoders: $XDG_CACHE_HOME/weir/encoders/NAME.gguf
 *     Hugging Face   $HF_HUB_CACHE, $HF_HOME/hub or ~/.cache/huggingface/hub:
 *                    models--ORG--NAME/snapshots/REVISION/FILE.gguf
 *     llama.cpp      $LLAMA_CACHE or ~/.cache/llama.cpp: FILE.gguf
 *     LM Studio      ~/.lmstudio/models/ORG/REPO/FILE.gguf
 *     Ollama         $OLLAMA_MODELS or ~/.ollama/models: the file manifests/HOST/library/NAME/TAG contains the SHA-256 of
 *                    the model, which is the name of its file
 *
 * Folders of other programs are never written. Files are found by name only, and checked when they are opened. */
#include "app/models/models.h"
#include "engine/base/json.h"

#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES_MOST = 2000, DEPTH_MOST = 6, MANIFEST_MOST = 1 << 20, NAMED = 4, PARTS_MOST = 999 };

struct finder {
	struct model_file *file;
	size_t n;
};

static void add_file(struct finder *f, const char *name, size_t n_name, const char *path, uint64_t bytes, int64_t when,
                     const char *from)
{
	struct str clean = { 0 };

	if (f->n == FILES_MOST)
		return;
	clean_line(name, n_name, &clean);
	f->file = xrealloc(f->file, (f->n + 1) * sizeof *f->file);
	f->file[f->n++] = (struct model_file){ .name = clean.p ? clean.p : xcalloc(1, 1),
		                               .path = xstrndup(path, strlen(path)),
		                               .bytes = bytes,
		                               .from = from,
		                               .when = when };
}

/* 1 if the file is a whole model, or the first part of a split one ("NAME-00001-of-00003.gguf"). For a split model, the
 * sizes of the other parts are added to *bytes. */
static int is_first(const char *path, size_t n, uint64_t *bytes)
{
	enum { TAIL = sizeof "-00001-of-00003.gguf" - 1 };
	int no, of, end = 0;

	if (n <= TAIL || sscanf(path + n - TAIL, "-%5d-of-%5d.gguf%n", &no, &of, &end) != 2 || end != TAIL)
		return 1;
	if (no != 1)
		return 0;
	for (int i = 2; i <= of && i <= PARTS_MOST; i++) {
		struct str part = { 0 };
		struct stat st;

		str_addf(&part, "%.*s-%05d-of-%05d.gguf", (int)(n - TAIL), path, i, of);
		if (!stat(part.p, &st))
			*bytes += (uint64_t)st.st_size;
		str_free(&part);
	}
	return 1;
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
	return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* Add every FILE.gguf below a folder. Image encoders of vision models are left out. */
static void add_folder(struct finder *f, const struct str *folder, const char *from)
{
	char *roots[] = { folder->p, NULL };
	FTS *tree = folder->n ? fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, by_name) : NULL;

	for (FTSENT *e; tree && (e = fts_read(tree));) {
		size_t n = e->fts_namelen;
		uint64_t bytes = e->fts_statp ? (uint64_t)e->fts_statp->st_size : 0;

		if (e->fts_info == FTS_D && (e->fts_level >= DEPTH_MOST || (e->fts_level > 0 && e->fts_name[0] == '.')))
			fts_set(tree, e, FTS_SKIP);
		else if (e->fts_info == FTS_F && n > 5 && !strcmp(e->fts_name + n - 5, ".gguf") &&
		         strncmp(e->fts_name, "mmproj", 6) != 0 && is_first(e->fts_path, strlen(e->fts_path), &bytes))
			add_file(f, e->fts_name, n - 5, e->fts_path, bytes, e->fts_statp->st_mtime, from);
	}
	if (tree)
		fts_close(tree);
}

/* Append the value of environment variable `name`, followed by `more`. Returns 1. If the value is not an absolute path,
 * appends nothing and returns 0. */
static int from_env(const char *name, const char *more, struct str *out)
{
	const char *value = getenv(name);

	if (!value || *value != '/')
		return 0;
	str_addf(out, "%s%s", value, more);
	return 1;
}

/* Append the path of the home directory, followed by `more`. */
static void from_home(const char *more, struct str *out)
{
	if (!from_env("HOME", more, out))
		str_clear(out);
}

/* ---- Ollama ---- */

/* Append the path of the model file to which an Ollama manifest refers by its SHA-256. Returns 1; 0 if it refers to
 * none. */
static int manifest_blob(const char *manifest, const struct str *root, struct str *out)
{
	struct str text = { 0 }, digest = { 0 };
	struct jv layers, it = { 0 }, layer;
	int found = 0;

	if (!read_whole(manifest, MANIFEST_MOST, &text, &(struct err){ 0 })) {
		layers = jv_get(jv_parse(str_text(&text), text.n), "layers");
		while (!found && layers.p && jv_next(layers, &it, NULL)) {
			layer = it;
			str_clear(&digest);
			if (jv_is(jv_get(layer, "mediaType"), "application/vnd.ollama.image.model") &&
			    !jv_text(jv_get(layer, "digest"), &digest) && digest.n == 71 &&
			    !memcmp(digest.p, "sha256:", 7) && strspn(digest.p + 7, "0123456789abcdef") == 64) {
				str_addf(out, "%s/blobs/sha256-%s", root->p, digest.p + 7);
				found = 1;
			}
		}
	}
	str_free(&text);
	str_free(&digest);
	return found;
}

/* Add Ollama's models. The path of a manifest, manifests/HOST/OWNER/NAME/TAG, gives the model's name: "NAME:TAG" if
 * OWNER is "library", else "OWNER/NAME:TAG". */
static void add_ollama(struct finder *f, const struct str *root)
{
	struct str folder = { 0 };
	FTS *tree;

	if (!root->n)
		return;
	str_addf(&folder, "%s/manifests", root->p);
	tree = fts_open((char *[]){ folder.p, NULL }, FTS_PHYSICAL | FTS_NOCHDIR, by_name);
	for (FTSENT *e; tree && (e = fts_read(tree));) {
		struct str blob = { 0 }, name = { 0 };
		const char *owner = e->fts_path + folder.n + 1, *tag = e->fts_name;
		struct stat st;

		if (e->fts_info == FTS_F && e->fts_level == 4 && (owner = strchr(owner, '/')) &&
		    manifest_blob(e->fts_path, root, &blob) && !stat(blob.p, &st)) {
			owner += !strncmp(owner, "/library/", 9) ? 9 : 1;
			str_addf(&name, "%.*s:%s", (int)(strlen(owner) - strlen(tag) - 1), owner, tag);
			add_file(f, name.p, name.n, blob.p, (uint64_t)st.st_size, st.st_mtime, "Ollama");
		}
		str_free(&blob);
		str_free(&name);
	}
	if (tree)
		fts_close(tree);
	str_free(&folder);
}

/* ---- the models of all programs ---- */

size_t model_files(struct model_file **out)
{
	struct finder f = { .n = 0 };
	struct str at = { 0 };

	if (!user_path(&at, DIR_CACHE, "models", NULL))
		add_folder(&f, &at, "weir");
	str_clear(&at);
	if (!from_env("HF_HUB_CACHE", "", &at) && !from_env("HF_HOME", "/hub", &at))
		from_home("/.cache/huggingface/hub", &at);
	add_folder(&f, &at, "Hugging Face");
	str_clear(&at);
	if (!from_env("LLAMA_CACHE", "", &at))
		from_home("/.cache/llama.cpp", &at);
	add_folder(&f, &at, "llama.cpp");
	str_clear(&at);
	from_home("/.lmstudio/models", &at);
	add_folder(&f, &at, "LM Studio");
	str_clear(&at);
	if (!from_env("OLLAMA_MODELS", "", &at))
		from_home("/.ollama/models", &at);
	add_ollama(&f, &at);
	str_free(&at);
	*out = f.file;
	return f.n;
}

/* 1 if a file with this name, without ".gguf", is an encoder's reader: NAME-reader or NAME-reader-en. */
static int names_reader(const char *name)
{
	static const char *const ends[] = { "-reader", "-reader-en" };
	size_t n = strlen(name);

	for (size_t i = 0; i < LEN(ends); i++)
		if (n > strlen(ends[i]) && !strcmp(name + n - strlen(ends[i]), ends[i]))
			return 1;
	return 0;
}

/* Add weir's own encoders, without their readers. */
static void add_encoders(struct finder *f)
{
	struct str at = { 0 };
	size_t kept = 0;

	if (!user_path(&at, DIR_CACHE, "encoders", &(struct err){ 0 }))
		add_folder(f, &at, "weir");
	str_free(&at);
	for (size_t i = 0; i < f->n; i++) {
		if (names_reader(f->file[i].name)) {
			free(f->file[i].name);
			free(f->file[i].path);
		} else {
			f->file[kept++] = f->file[i];
		}
	}
	f->n = kept;
}

size_t encoder_files(struct model_file **out)
{
	struct finder f = { .n = 0 };

	add_encoders(&f);
	*out = f.file;
	return f.n;
}

void model_files_free(struct model_file *file, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(file[i].name);
		free(file[i].path);
	}
	free(file);
}

int model_newest(struct str *out)
{
	struct model_file *file, *newest = NULL;
	size_t n = model_files(&file);

	for (size_t i = 0; i < n; i++)
		if (!strcmp(file[i].from, "weir") && (!newest || file[i].when > newest->when))
			newest = &file[i];
	if (newest)
		str_adds(out, newest->path);
	model_files_free(file, n);
	return newest != NULL;
}

/* Rate how well a name matches wanted[0 .. n): 3 = equal; 2 = equal except for upper and lower case; 1 = the name
 * begins with it; 0 = no match. */
static int name_fits(const char *name, const char *wanted, size_t n)
{
	if (strlen(name) == n && !memcmp(name, wanted, n))
		return 3;
	if (strncasecmp(name, wanted, n) != 0)
		return 0;
	return strlen(name) == n ? 2 : 1;
}

/* Find the file of the known model that `wanted` names among file[0 .. n), and append its path; set *e if it is not
 * there. what: as for find_among(). */
static void find_known(const struct model_file *file, size_t n, const char *wanted, const char *what, struct str *out,
                       struct err *e)
{
	const struct known_model *k = known_model(wanted, &(struct err){ 0 });
	const struct model_file *known = k ? known_model_file(k, file, n) : NULL;

	if (k && k->encoder != !strcmp(what, "encoder"))
		k = NULL;
	if (k && known)
		str_adds(out, known->path);
	else if (k)
		err_set(e, ERR_MODEL, "%s '%.80s' is not on this machine; 'weir pull %.80s' fetches it", what, wanted,
		        wanted);
	else
		err_set(e, ERR_MODEL,
		        "there is no file and no %s '%.80s' here; 'weir models' lists those that are, 'weir pull' those to fetch",
		        what, wanted);
}

/* Find the file that `wanted` names among file[0 .. n), and append its path. what: "model" or "encoder", for error
 * messages. Returns 0 or -1. */
static int find_among(const struct model_file *file, size_t n, const char *wanted, const char *what, struct str *out,
                      struct err *e)
{
	size_t len = strlen(wanted), found = 0, chosen = 0;
	struct str names = { 0 };
	int best = 1;

	/* If `wanted` is a path, append it unchanged, even if there is no such file: opening it reports the error. */
	if (!access(wanted, F_OK) || wanted[0] == '/' || wanted[0] == '.' || !len) {
		str_adds(out, wanted);
		return 0;
	}
	if (len > 5 && !strcmp(wanted + len - 5, ".gguf"))
		len -= 5;
	for (size_t i = 0; i < n; i++) {
		int how = name_fits(file[i].name, wanted, len);

		if (how < best)
			continue;
		if (how > best) {
			str_clear(&names);
			found = 0;
		}
		best = how;
		chosen = found++ ? chosen : i;
		if (found <= NAMED)
			str_addf(&names, "%s%.60s", found > 1 ? ", " : "", file[i].name);
	}
	/* If `wanted` is the whole name of several files, take the first one: the list begins with weir's own files. */
	if (found && (found == 1 || best > 1))
		str_adds(out, file[chosen].path);
	else if (found)
		err_set(e, ERR_MODEL, "'%.60s' is the beginning of %zu %ss: %s%s", wanted, found, what, names.p,
		        found > NAMED ? ", ..." : "");
	else
		find_known(file, n, wanted, what, out, e);
	str_free(&names);
	return out->n ? 0 : -1;
}

int model_find(const char *wanted, struct str *out, struct err *e)
{
	struct model_file *file;
	size_t n = model_files(&file);
	int rc = find_among(file, n, wanted, "model", out, e);

	model_files_free(file, n);
	return rc;
}

int encoder_find(const char *wanted, struct str *out, struct err *e)
{
	struct finder f = { .n = 0 };
	struct model_file *others;
	size_t n_others = model_files(&others);
	int rc;

	add_encoders(&f);
	f.file = xrealloc(f.file, (f.n + n_others + 1) * sizeof *f.file);
	if (n_others)
		memcpy(f.file + f.n, others, n_others * sizeof *others);
	free(others);
	rc = find_among(f.file, f.n + n_others, wanted, "encoder", out, e);
	model_files_free(f.file, f.n + n_others);
	return rc;
}
