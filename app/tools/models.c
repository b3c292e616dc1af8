/* app/tools/models.c - weir models: lists the models on this machine, and models that can be fetched. Also weir models
 * rm, which deletes a model. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/tools/pull.h"
#include "ui/text/text.h"
#include "app/models/models.h"

/* List the partial downloads (NAME.gguf.SUM.part) in weir's cache folder `in`, which is "models" or "encoders". If
 * `out` is NULL, only raise *width to the length of the longest name. Otherwise append the list, with *width as the
 * width of its first column. */
static void list_unfinished(const char *in, struct str *out, size_t *width)
{
	struct str folder = { 0 };
	DIR *dir = user_path(&folder, DIR_CACHE, in, &(struct err){ 0 }) ? NULL : opendir(folder.p);

	for (struct dirent *d; dir && (d = readdir(dir));) {
		size_t n = strlen(d->d_name), tail = sizeof ".gguf.0123456789abcdef.part" - 1;
		const struct known_model *known;
		struct str size = { 0 }, name = { 0 };
		struct stat st;

		if (n <= tail || strcmp(d->d_name + n - 5, ".part") != 0 ||
		    strncmp(d->d_name + n - tail, ".gguf.", 6) != 0 || fstatat(dirfd(dir), d->d_name, &st, 0))
			continue;
		if (!out) {
			*width = n - tail > *width ? n - tail : *width;
			continue;
		}
		human_bytes(&size, (uint64_t)st.st_size);
		str_add(&name, d->d_name, n - tail);
		str_adds(out, "  ");
		table_cell(out, name.p, *width);
		known = known_model_of(name.p);
		str_addf(out, "  %9s  unfinished: %s%s\n", size.p, known ? "weir pull " : "pull it again",
		         known ? known->name : "");
		str_free(&size);
		str_free(&name);
	}
	if (dir)
		closedir(dir);
	str_free(&folder);
}

/* Append the path of the file, with "~" for the home directory. For one of weir's own files, append only the folder,
 * because the list already shows the name. */
static void add_place(struct str *out, const struct model_file *f)
{
	const char *home = getenv("HOME"), *last = strrchr(f->path, '/');
	size_t skip = home ? strlen(home) : 0,
	       n = strcmp(f->from, "weir") || !last ? strlen(f->path) : (size_t)(last - f->path);

	if (skip > 1 && n > skip && !strncmp(f->path, home, skip) && f->path[skip] == '/')
		str_adds(out, "~");
	else
		skip = 0;
	clean_line(f->path + skip, n - skip, out);
}

/* Append a line for each file. A star marks the file whose path is `used`. Returns 1 if one of the files has this path,
 * else 0. */
static int list_files(const struct model_file *file, size_t n, const struct str *used, size_t width, struct str *out)
{
	int listed = 0;

	for (size_t i = 0; i < n; i++) {
		struct str size = { 0 };
		int in_use = used->n && !strcmp(used->p, file[i].path);

		listed |= in_use;
		human_bytes(&size, file[i].bytes);
		str_adds(out, in_use ? "* " : "  ");
		table_cell(out, file[i].name, width);
		str_addf(out, "  %9s  %-12s  ", size.p, file[i].from);
		add_place(out, &file[i]);
		str_adds(out, "\n");
		str_free(&size);
	}
	return listed;
}

int cmd_models(const struct options *o)
{
	struct model_file *file, *encoder;
	struct str s = { 0 }, used = { 0 };
	struct err e = { 0 };
	size_t n = model_files(&file), n_encoder = encoder_files(&encoder), width = 0;
	int rc, listed;

	if (model_path(o, &used, &e) < 0) {
		str_clear(&used);
		if (o->model) {
			model_files_free(file, n);
			model_files_free(encoder, n_encoder);
			return fail(&e);
		}
	}
	e = (struct err){ 0 };
	for (size_t i = 0; i < n; i++)
		width = MAX(strlen(file[i].name), width);
	for (size_t i = 0; i < n_encoder; i++)
		width = MAX(strlen(encoder[i].name), width);
	list_unfinished("models", NULL, &width);
	list_unfinished("encoders", NULL, &width);
	width = MIN(width, 48);
	listed = list_files(file, n, &used, width, &s);
	list_unfinished("models", &s, &width);
	list_unfinished("encoders", &s, &width);
	if (o->model && !listed) {
		str_adds(&s, "* ");
		clean_line(used.p, used.n, &s);
		str_adds(&s, "  (-m, WEIR_MODEL or config)\n");
	}
	if (!s.n && !o->quiet)
		say("no model in the folders of weir, Hugging Face, llama.cpp, LM Studio and Ollama: 'weir pull NAME' fetches one, -m FILE.gguf opens a file");
	if (n_encoder)
		str_adds(&s, "\ntext encoders, for search by meaning (-e NAME):\n");
	str_clear(&used);
	if (encoder_path(o, &used, &(struct err){ 0 }) <= 0)
		str_clear(&used);
	list_files(encoder, n_encoder, &used, width, &s);
	str_adds(&s, s.n ? "\nto fetch, with weir pull NAME:\n" : "to fetch, with weir pull NAME:\n");
	known_models_show(&s, 0, 1, 0);
	known_models_show(&s, 1, 1, 0);
	rc = print_all(s.p, s.n, &e) < 0 ? fail(&e) : 0;
	model_files_free(file, n);
	model_files_free(encoder, n_encoder);
	str_free(&s);
	str_free(&used);
	return rc;
}

/* ---- weir models rm ---- */

enum { TAIL = sizeof "-00001-of-00002" - 1 };

/* 1 if the file belongs to the model `name`. Such files are NAME.gguf, NAME-0000I-of-0000N.gguf, and the partial
 * download of one of these files (with .SUM.part at the end). */
static int is_of(const char *file, const char *name)
{
	size_t n = strlen(name);
	int no, of, end = 0;

	if (strncmp(file, name, n) != 0)
		return 0;
	file += n;
	if (sscanf(file, "-%5d-of-%5d%n", &no, &of, &end) == 2 && end == TAIL)
		file += end;
	if (strncmp(file, ".gguf", 5) != 0)
		return 0;
	n = strlen(file);
	return n == 5 || (n == 5 + 1 + 16 + 5 && !strcmp(file + n - 5, ".part"));
}

/* Count or delete the files of a model. If `count` is not NULL, *count receives their number; if it is NULL, they are
 * deleted. */
static int each_file(const char *folder, const char *name, int *count, struct err *e)
{
	DIR *dir = opendir(folder);
	int rc = 0;

	for (struct dirent *d; dir && !rc && (d = readdir(dir));) {
		if (!is_of(d->d_name, name))
			continue;
		if (count)
			++*count;
		else if (unlinkat(dirfd(dir), d->d_name, 0))
			rc = err_set(e, ERR_FAIL, "cannot delete '%.100s': %s", d->d_name, strerror(errno));
	}
	if (dir)
		closedir(dir);
	return rc;
}

static int ask_rm(const struct options *o, const char *name, struct err *e)
{
	struct str question = { 0 };
	int answer;

	if (o->yes)
		return 0;
	if (!isatty(0) || !isatty(2))
		return err_set(
			e, ERR_USAGE,
			"nothing was deleted: without a terminal to ask on, 'weir models rm --yes NAME' deletes it");
	str_adds(&question, "Delete ");
	clean_line(name, strlen(name), &question);
	str_adds(&question, "? [y/N] ");
	answer = terminal_choose(question.p, "ny");
	str_free(&question);
	return answer == 'y' ? 0 : err_set(e, ERR_CANCELLED, "nothing was deleted");
}

static int remove_model(const struct options *o, const char *said, struct err *e)
{
	struct str folder = { 0 }, name = { 0 };
	struct model_file *file;
	size_t n = model_files(&file);
	const char *other = NULL;
	int count = 0, rc = -1, no, of, end = 0;

	str_adds(&name, said);
	if (name.n > 5 && !strcmp(name.p + name.n - 5, ".gguf"))
		name.p[name.n -= 5] = 0;
	if (name.n > TAIL && sscanf(name.p + name.n - TAIL, "-%5d-of-%5d%n", &no, &of, &end) == 2 && end == TAIL)
		name.p[name.n -= TAIL] = 0;
	for (size_t i = 0; i < n; i++)
		if (!strcasecmp(file[i].name, name.p) && strcmp(file[i].from, "weir") != 0)
			other = file[i].from;
	for (int i = 0; i < 2 && !count; i++) {
		str_clear(&folder);
		if (user_path(&folder, DIR_CACHE, i ? "encoders" : "models", e))
			goto out;
		if (!strchr(name.p, '/') && name.n)
			each_file(folder.p, name.p, &count, e);
	}
	if (!count && other)
		err_set(e, ERR_USAGE,
		        "'%.80s' was fetched by %s, which has to delete it: weir deletes only its own models", name.p,
		        other);
	else if (!count)
		err_set(e, ERR_USAGE, "weir has no model '%.80s' of its own; 'weir models' lists their whole names",
		        name.p);
	else
		rc = ask_rm(o, name.p, e) || each_file(folder.p, name.p, NULL, e) ? -1 : 0;
	if (!rc && !o->quiet)
		say("%s is deleted", name.p);
out:
	model_files_free(file, n);
	str_free(&folder);
	str_free(&name);
	return rc;
}

int cmd_models_rm(const struct options *o)
{
	struct err e = { 0 };

	if (!o->n_file)
		err_set(&e, ERR_USAGE, "'weir models rm' wants the name of a model; 'weir models' lists them");
	for (int i = 0; i < o->n_file && !e.code; i++)
		remove_model(o, o->file[i], &e);
	return e.code ? fail(&e) : 0;
}
