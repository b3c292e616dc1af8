/* app/tools/pull.c - weir pull: fetches a model from a repository into weir's own folder (pull.h). */
#include "app/tools/pull.h"
#include "app/models/models.h"
#include "engine/engine_machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

struct pull {
	const struct options *o;
	struct hub_repo repo;
	struct hub_model *model;
	size_t n_model;
	const struct hub_model *chosen;
	int encodes;          /* 1 = the model is a text encoder or reranker; its folder is "encoders" */
	struct fetched *file; /* [chosen->n] files of the chosen model */
	int n_open;
	struct str folder;
	struct progress progress;
};

/* Parse the name of a model: "ORG/REPO:QUANT", an address of huggingface.co, or a name of the built-in table. Sets
 * *repo, *revision and *wanted (a quantization or a file name) to strings that the caller frees; NULL = not given.
 * *encodes is set to 1 if the table says that the model is an encoder. */
static int read_name(const char *said, char **repo, char **revision, char **wanted, int *encodes, struct err *e)
{
	static const char *const hosts[] = { "https://huggingface.co/", "http://huggingface.co/", "https://hf.co/",
		                             "huggingface.co/", "hf.co/" };
	const char *endpoint = getenv("HF_ENDPOINT"), *name = said;
	size_t n = endpoint ? strlen(endpoint) : 0, file;

	*repo = *revision = *wanted = NULL;
	if (n && !strncmp(said, endpoint, n) && said[n] == '/')
		name = said + n + 1;
	for (size_t i = 0; name == said && i < LEN(hosts); i++)
		if (!strncasecmp(said, hosts[i], strlen(hosts[i])))
			name = said + strlen(hosts[i]);
	if (name == said && doc_is_address(said))
		return err_set(
			e, ERR_USAGE,
			"'%.120s' is no address of huggingface.co; HF_ENDPOINT names another server that works like it",
			said);
	n = strcspn(name, ":?#");
	if (name[n] == ':' && name[n + 1])
		*wanted = xstrndup(name + n + 1, strlen(name + n + 1));
	if (!memchr(name, '/', n)) {
		char *word = xstrndup(name, n);
		const struct known_model *known = known_model(word, e);

		free(word);
		if (!known)
			return -1;
		*repo = xstrndup(known->repo, strlen(known->repo));
		*encodes = known->encoder;
		if (!*wanted)
			*wanted = xstrndup(known->file, strlen(known->file));
		return 0;
	}
	/* An address may continue after the repository with /tree/REVISION or /blob/REVISION/FOLDER/FILE. */
	file = strcspn(name, "/") + 1;
	file += strcspn(name + file, "/:?#");
	if (name != said && name[file] == '/') {
		const char *last = name + n, *kind = name + file + 1, *of = kind + strcspn(kind, "/:?#");

		if (*of == '/' &&
		    (!strncmp(kind, "tree/", 5) || !strncmp(kind, "blob/", 5) || !strncmp(kind, "resolve/", 8)))
			*revision = xstrndup(of + 1, strcspn(of + 1, "/:?#"));
		while (last[-1] != '/')
			last--;
		if (!*wanted && name + n - last > 5 && !strncasecmp(name + n - 5, ".gguf", 5))
			*wanted = xstrndup(last, (size_t)(name + n - last));
		n = file;
	}
	*repo = xstrndup(name, n);
	return 0;
}

static int pull_choose(struct pull *p, const char *said, struct err *e)
{
	char *repo, *revision, *wanted;
	int rc = read_name(said, &repo, &revision, &wanted, &p->encodes, e);

	if (!rc)
		rc = hub_open(&p->repo, repo, revision, e);
	if (!rc) {
		p->n_model = hub_models(&p->repo, &p->model);
		p->chosen = hub_choose(&p->repo, p->model, p->n_model, wanted, engine_memory_free(), e);
		/* the repository may no longer have the file that the built-in table names: then choose as if the table
		 * named no file */
		if (!p->chosen && !strpbrk(said, "/:"))
			p->chosen = hub_choose(&p->repo, p->model, p->n_model, NULL, engine_memory_free(), e);
		rc = p->chosen ? 0 : -1;
		if (!rc)
			*e = (struct err){ 0 };
	}
	free(repo);
	free(revision);
	free(wanted);
	return rc;
}

/* If another program has already fetched the same file, tell the user and return 1; else return 0. */
static int others_have(const struct pull *p)
{
	struct model_file *file;
	size_t n = model_files(&file);
	int found = 0;

	for (size_t i = 0; i < n && !found; i++)
		if (strcmp(file[i].from, "weir") != 0 && p->chosen->n == 1 && !strcmp(file[i].name, p->chosen->name) &&
		    file[i].bytes == p->chosen->bytes) {
			found = 1;
			if (!p->o->quiet)
				say_once("%s is here already, fetched by %s: 'weir -%c %s' opens it", file[i].name,
				         file[i].from, p->encodes ? 'e' : 'm', file[i].name);
		}
	model_files_free(file, n);
	return found;
}

static int open_files(struct pull *p, struct err *e)
{
	p->file = xcalloc((size_t)p->chosen->n, sizeof *p->file);
	for (int i = 0; i < p->chosen->n; i++) {
		p->n_open++;
		if (fetched_open(&p->file[i], &p->repo, p->chosen->part[i], p->folder.p, &p->progress, e))
			return -1;
		p->file[i].before = i ? p->file[i - 1].before + p->file[i - 1].file->bytes : 0;
		p->file[i].all = p->chosen->bytes;
	}
	return 0;
}

static uint64_t bytes_left(const struct pull *p)
{
	uint64_t n = 0;

	for (int i = 0; i < p->chosen->n; i++)
		n += p->file[i].file->bytes - p->file[i].at;
	return n;
}

static int is_whole(const struct pull *p)
{
	for (int i = 0; i < p->chosen->n; i++)
		if (!p->file[i].whole)
			return 0;
	return 1;
}

static void show_encoder(const struct pull *p, const struct fit *f)
{
	struct str s = { 0 };

	str_addf(&s, "%s: %s, %s%s", p->chosen->name, f->encoder.family, p->chosen->quant,
	         *p->chosen->quant ? ", " : "");
	human_bytes(&s, p->chosen->bytes);
	if (f->encoder.ranks)
		str_adds(&s, ", a reranker");
	else
		str_addf(&s, ", a text encoder with vectors of %d numbers", f->encoder.dims);
	str_adds(&s, f->fits ? "; it fits into the " : "; it does not fit into the ");
	human_bytes(&s, f->memory);
	str_adds(&s, " of free memory");
	say_once("%s", s.p);
	str_free(&s);
}

static void show_fit(const struct pull *p, const struct fit *f)
{
	struct str s = { 0 };

	if (f->encodes) {
		show_encoder(p, f);
		return;
	}

	str_addf(&s, "%s: %s, %s, ", p->chosen->name, f->family, f->quant);
	human_bytes(&s, p->chosen->bytes);
	if (p->chosen->n > 1)
		str_addf(&s, " in %d files", p->chosen->n);
	str_addf(&s, ", trained for %s tokens%s", count_text((uint64_t)f->trained).s,
	         !f->has_template      ? ", no chat template: it continues texts"
	         : f->template_name[0] ? ""
	                               : ", a chat template that weir cannot use");
	say_once("%s", s.p);
	str_clear(&s);
	str_adds(&s, f->fits ? "fits: " : "does not fit: ");
	human_bytes(&s, f->weights);
	str_adds(&s, " + ");
	human_bytes(&s, f->cache);
	str_addf(&s, " cache at %s tokens, of ", count_text((uint64_t)f->ctx).s);
	human_bytes(&s, f->memory);
	str_adds(&s, " free memory");
	if (f->tps > 0)
		str_addf(&s, f->tps < 10 ? "; about %.1f tokens/s here" : "; about %.0f tokens/s here", f->tps);
	say_once("%s", s.p);
	str_free(&s);
}

/* Ask the user whether to fetch the model. Returns 0 for yes. */
static int pull_ask(const struct pull *p, const struct fit *f, struct err *e)
{
	struct str question = { 0 };
	int answer;

	if (p->o->yes)
		return 0;
	if (!isatty(0) || !isatty(2))
		return err_set(e, ERR_USAGE,
		               "nothing was fetched: without a terminal to ask on, 'weir pull --yes NAME' fetches it");
	/* bytes_left() does not count the header, which was fetched already */
	str_adds(&question, "Fetch the rest, ");
	human_bytes(&question, bytes_left(p));
	str_adds(&question, f->fits ? "? [Y/n] " : " anyway? [y/N] ");
	signals_work(0); /* let Ctrl-C end the program while the user is asked */
	answer = terminal_choose(question.p, f->fits ? "yn" : "ny");
	signals_work(1);
	str_free(&question);
	return answer == 'y' ? 0 : err_set(e, ERR_CANCELLED, "not fetched");
}

static int check_disk(const struct pull *p, struct err *e)
{
	int64_t left = disk_free_bytes(p->file[0].path);
	uint64_t needed = bytes_left(p) + (64u << 20);
	struct str a = { 0 }, b = { 0 };
	int rc = 0;

	if (left >= 0 && needed > (uint64_t)left) {
		human_bytes(&a, needed);
		human_bytes(&b, (uint64_t)left);
		rc = err_set(e, ERR_FIT, "the disk is too full: %s are needed in '%.160s', and %s are free", a.p,
		             p->folder.p, b.p);
	}
	str_free(&a);
	str_free(&b);
	return rc;
}

static int is_default(const struct pull *p)
{
	struct str path = { 0 };
	int same = !p->o->model && !model_path(p->o, &path, &(struct err){ 0 }) && !strcmp(path.p, p->file[0].path);

	str_free(&path);
	return same;
}

static void show_end(const struct pull *p, const struct fit *f, int was_here, int opens_now)
{
	struct str s = { 0 };

	str_addf(&s, "%s is here%s: ", p->chosen->name, was_here ? " already" : "");
	human_bytes(&s, p->chosen->bytes);
	str_adds(&s, ", with the right checksum");
	say_once("%s", s.p);
	if (f->encodes && f->encoder.ranks)
		say_once(
			"named NAME-reader.gguf, beside an encoder NAME.gguf in '%s', it reads for that encoder; named NAME-reader-en.gguf, only English questions",
			p->folder.p);
	else if (f->encodes)
		say_once(
			"'weir -e %s' searches documents with it; a line 'encoder = %s' in ~/.config/weir/config makes it the default",
			p->chosen->name, p->chosen->name);
	else if (!opens_now && is_default(p))
		say_once("'weir' opens it");
	else if (!opens_now)
		say_once("'weir -m %s' opens it; a line 'model = %s' in ~/.config/weir/config makes it the default",
		         p->chosen->name, p->chosen->name);
	str_free(&s);
}

/* Delete the partial files of a model that weir cannot run. */
static void pull_forget(struct pull *p)
{
	for (int i = 0; i < p->n_open; i++)
		if (p->file[i].fd >= 0 && p->file[i].part)
			unlink(p->file[i].part);
}

static void close_files(struct pull *p)
{
	for (int i = 0; i < p->n_open; i++)
		fetched_close(&p->file[i]);
	free(p->file);
	p->file = NULL;
	p->n_open = 0;
}

/* Fetch the headers of the files, and find what the model needs. The files go into the folder "models". If the header
 * shows that the model is an encoder, the headers are fetched again, into "encoders". Returns 0 or -1. */
static int pull_heads(struct pull *p, int opens_now, struct fit *fit, struct err *e)
{
	for (;;) {
		str_clear(&p->folder);
		if (user_path(&p->folder, DIR_CACHE, p->encodes ? "encoders" : "models", e) || open_files(p, e))
			return -1;
		for (int i = 0; i < p->chosen->n; i++)
			if (fetched_head(&p->file[i], e))
				return -1;
		if (fit_find(p->o, p->file, p->chosen->n, p->folder.p, fit, e))
			return -1;
		if (fit->encodes && opens_now)
			return err_set(e, ERR_MODEL,
			               "'%.80s' is an encoder for search by meaning, which nobody can talk to",
			               p->chosen->name);
		if (p->encodes || !fit->encodes)
			return 0;
		pull_forget(p);
		close_files(p);
		p->encodes = 1;
	}
}

/* Fetch the headers, report what the model needs, ask the user, then fetch the weights. */
static int pull_fetch(struct pull *p, int opens_now, struct err *e)
{
	struct fit fit;
	int was_here;

	if (pull_heads(p, opens_now, &fit, e))
		return -1;
	was_here = is_whole(p);
	if (!p->o->quiet)
		show_fit(p, &fit);
	if (bytes_left(p) && (check_disk(p, e) || pull_ask(p, &fit, e)))
		return -1;
	for (int i = 0; i < p->chosen->n; i++)
		if (fetched_rest(&p->file[i], e))
			return -1;
	/* rename the first file last: a model of several files is opened by its first file, so the other files must
	 * have their final names by then */
	for (int i = p->chosen->n - 1; i >= 0; i--)
		if (fetched_name(&p->file[i], e))
			return -1;
	if (!p->o->quiet)
		show_end(p, &fit, was_here, opens_now);
	return 0;
}

/* Fetch a model, with the messages and questions of weir pull. `name` is a name in the built-in table, or the name of a
 * repository. If `path` is not NULL, append the model's path to *path. */
static int pull_model(const struct options *o, const char *name, struct str *path, struct err *e)
{
	struct pull p = { .o = o };
	struct str at = { 0 };
	int rc;

	progress_init(&p.progress, o->quiet, o->verbose, "fetching", "");
	signals_work(1);
	rc = pull_choose(&p, name, e);
	if (!rc && !path && others_have(&p))
		goto out;
	if (!rc)
		rc = pull_fetch(&p, path != NULL, e);
	if (rc && e->code == ERR_MODEL)
		pull_forget(&p);
	if (rc && e->code == ERR_CANCELLED && p.chosen && p.n_open == p.chosen->n && bytes_left(&p) < p.chosen->bytes) {
		str_addf(&at, "%s: ", e->msg);
		human_bytes(&at, p.chosen->bytes - bytes_left(&p));
		str_adds(&at, " of ");
		human_bytes(&at, p.chosen->bytes);
		err_set(e, ERR_CANCELLED, "%s are here, and the same command continues", at.p);
	}
	if (!rc && path)
		str_adds(path, p.file[0].path);
out:
	signals_work(0);
	close_files(&p);
	hub_models_free(p.model, p.n_model);
	hub_free(&p.repo);
	str_free(&p.folder);
	str_free(&at);
	return rc;
}

/* Read a line that the user types, without blanks at its end. Returns the length of the line; 0 at the end of the
 * input, too. */
static size_t read_answer(char *line, size_t cap)
{
	size_t n = 0;
	char c = 0;

	while (read(0, &c, 1) == 1 && c != '\n')
		if (n + 1 < cap)
			line[n++] = c;
	while (n && (line[n - 1] == ' ' || line[n - 1] == '\r'))
		n--;
	line[n] = 0;
	return n;
}

int pull_offer(const struct options *o, struct str *path, struct err *e)
{
	struct str s = { 0 }, question = { 0 };
	char line[200];
	int most = 0, rc;

	while (known_models[most].name && !known_models[most].encoder)
		most++;
	known_models_show(&s, 0, 0, 1);
	say_once("There is no model on this machine yet.  One of these can be fetched:");
	write_all(2, s.p, s.n);
	str_free(&s);
	str_addf(&question, "Which one: 1 to %d, a name, or ORG/REPO of huggingface.co?  (Enter: none) ", most);
	for (;;) {
		const char *name = line;
		size_t n;

		write_all(2, question.p, question.n);
		n = read_answer(line, sizeof line);
		if (!n) {
			rc = err_set(e, ERR_MODEL,
			             "no model: 'weir pull NAME' fetches one, 'weir -m FILE.gguf' opens a file");
			break;
		}
		*e = (struct err){ 0 };
		if (strspn(line, "0123456789") == n) {
			long no = n < 5 ? strtol(line, NULL, 10) : 0;

			name = no >= 1 && no <= most ? known_models[no - 1].name : NULL;
		}
		rc = name ? pull_model(o, name, path, e)
		          : err_set(e, ERR_USAGE, "there is no model %.20s: 1 to %d are to choose from", line, most);
		if (!rc || e->code == ERR_CANCELLED)
			break;
		say_error(e); /* ask again: another model may work */
	}
	str_free(&question);
	return rc;
}

int cmd_pull(const struct options *o)
{
	struct err e = { 0 };
	struct str s = { 0 };
	int rc;

	if (o->n_file)
		return pull_model(o, o->file[0], NULL, &e) ? fail(&e) : 0;
	known_models_show(&s, 0, 0, 0);
	str_adds(&s, "\ntext encoders, for search by meaning (weir -e):\n");
	known_models_show(&s, 1, 0, 0);
	str_adds(
		&s,
		"\nweir pull NAME fetches one of these; weir pull ORG/REPO[:QUANT] fetches any\nGGUF model of huggingface.co, where the address of its page has ORG/REPO\n");
	rc = print_all(s.p, s.n, &e) ? fail(&e) : 0;
	str_free(&s);
	return rc;
}
