/* app/chat/prompts.c - files of the user's prompt library, and the words that fill their placeholders.
 *
 * A file NAME.md in the folder `prompts` beside the config file defines the command /NAME, which sends the file's text
 * as a message. A file in the folder `roles` is a role (roles.c). Placeholders in the text are filled by the words
 * after the command: {{1}} by the first word, {{name}} by VALUE of the word name=VALUE, and {} by all words. */
#include "app/chat/chat_private.h"
#include "engine/base/utf8.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAME_MOST = 40 };
static const char ending[] = ".md";

/* ---- files ---- */

/* 1 if the name consists of ASCII letters, digits, - and _ only, so that it cannot lead to another folder. */
static int name_ok(const char *name, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!byte_is_alnum(name[i]) && !strchr("-_", name[i]))
			return 0;
	return n > 0 && n <= NAME_MOST;
}

int prompt_folder(const char *folder, struct str *path)
{
	char *slash;

	/* `folder` is beside weir's config folder, not in it, because it may belong to another program */
	if (user_path(path, DIR_CONFIG, "", NULL))
		return -1;
	slash = strrchr(path->p, '/');
	path->n = (size_t)(slash + 1 - path->p);
	str_adds(path, folder);
	return 0;
}

int prompt_file(const char *folder, const char *name, size_t n, struct str *path)
{
	str_clear(path);
	if (!name_ok(name, n) || prompt_folder(folder, path))
		return 0;
	str_addf(path, "/%.*s%s", (int)n, name, ending);
	return !access(path->p, R_OK);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

size_t prompt_names(const char *folder, const char *head, char ***name, size_t count)
{
	struct str path = { 0 }, whole = { 0 };
	DIR *d = prompt_folder(folder, &path) ? NULL : opendir(path.p);

	for (struct dirent *f; d && (f = readdir(d));) {
		size_t n = strlen(f->d_name), end = sizeof ending - 1, i = 0;

		if (n <= end || strcmp(f->d_name + n - end, ending) != 0 || !name_ok(f->d_name, n - end))
			continue;
		str_clear(&whole);
		str_addf(&whole, "%s%.*s", head, (int)(n - end), f->d_name);
		while (i < count && strcmp((*name)[i], whole.p) != 0)
			i++;
		if (i < count)
			continue;
		*name = xrealloc(*name, (count + 1) * sizeof **name);
		(*name)[count++] = xstrndup(whole.p, whole.n);
	}
	if (d)
		closedir(d);
	if (count)
		qsort(*name, count, sizeof **name, by_name);
	str_free(&path);
	str_free(&whole);
	return count;
}

/* ---- placeholders ---- */

/* Set *word to word number i (from 0) of args, without its quotes. Returns 1, or 0 if args has fewer words. */
static int word_at(const char *args, size_t i, struct str *word)
{
	size_t n = strlen(args), at = 0, end;

	for (;; at = end, i--) {
		at += strspn(args + at, " \t\n");
		if (at >= n)
			return 0;
		end = word_end(args, n, at);
		if (!i)
			break;
	}
	{
		char *raw = xstrndup(args + at, end - at);

		str_clear(word);
		unquote(raw, word);
		free(raw);
	}
	return 1;
}

/* Append the value of the placeholder {{name}}. If `name` is a number N, the value is the Nth word of args. Otherwise
 * args must have a word "name=VALUE", and the value is its second part. Returns 0, or -1 if args has no such word. */
static int hole_value(const char *args, const char *name, size_t n, struct str *out)
{
	struct str word = { 0 };
	char digits[8] = "";
	long number;
	int found = 0;

	snprintf(digits, sizeof digits, "%.*s", (int)MIN(n, sizeof digits - 1), name);
	number = number_of(digits);
	if (number && (found = word_at(args, (size_t)number - 1, &word)))
		str_add(out, str_text(&word), word.n);
	for (size_t i = 0; !number && !found && word_at(args, i, &word); i++)
		if (word.n > n && !memcmp(word.p, name, n) && word.p[n] == '=') {
			str_add(out, word.p + n + 1, word.n - n - 1);
			found = 1;
		}
	str_free(&word);
	return found ? 0 : -1;
}

/* 1 if the text begins with a placeholder "{{name}}"; blanks around the name are allowed. *name and *n receive the name
 * and its length. *end receives the length of the whole placeholder. */
static int is_hole(const char *text, const char **name, size_t *n, size_t *end)
{
	size_t i = 2;

	if (text[0] != '{' || text[1] != '{')
		return 0;
	i += strspn(text + i, " ");
	*name = text + i;
	for (*n = 0; byte_is_alnum(text[i + *n]) || (text[i + *n] && strchr("-_", text[i + *n])); ++*n)
		;
	i += *n + strspn(text + i + *n, " ");
	*end = i + 2;
	return *n && text[i] == '}' && text[i + 1] == '}';
}

int prompt_fill(const char *text, const char *args, struct str *out, struct err *e)
{
	int holes = 0;

	while (*text) {
		const char *name;
		size_t n, end;

		if (is_hole(text, &name, &n, &end)) {
			if (hole_value(args, name, n, out) < 0)
				return err_set(e, ERR_USAGE,
				               byte_is_digit(*name) ? "a word is missing for {{%.*s}}"
				                                    : "%.*s=VALUE is missing",
				               (int)MIN(n, 40), name);
			text += end;
			holes = 1;
		} else if (text[0] == '{' && text[1] == '}') {
			str_adds(out, args);
			text += 2;
			holes = 1;
		} else {
			str_add(out, text++, 1);
		}
	}
	return holes;
}

/* ---- prompts that are commands ---- */

static const char prompts[] = "weir/prompts";

int user_prompt_is(const char *word, size_t n)
{
	struct str path = { 0 };
	int there = n > 1 && word[0] == '/' && prompt_file(prompts, word + 1, n - 1, &path);

	str_free(&path);
	return there;
}

int user_prompt_text(const char *word, size_t n, const char *arg, struct str *out, struct err *e)
{
	struct str path = { 0 }, text = { 0 };
	struct err why = { 0 };
	int rc = -1;

	if (n >= 2 && prompt_file(prompts, word + 1, n - 1, &path) && !read_whole(path.p, PROMPT_MOST, &text, e)) {
		while (text.n && strchr(" \t\r\n", text.p[text.n - 1]))
			text.p[--text.n] = 0;
		rc = prompt_fill(str_text(&text), arg, out, &why);
		if (rc < 0)
			err_set(e, why.code, "%.*s: %s", (int)n, word, why.msg);
		else if (text.n && !rc && *arg)
			str_addf(out, "\n\n%s", arg);
		if (rc >= 0)
			rc = out->n ? 0 : err_set(e, ERR_USAGE, "the prompt '%.200s' is empty", path.p);
	}
	str_free(&path);
	str_free(&text);
	return rc;
}

size_t user_prompts(char ***out)
{
	*out = NULL;
	return prompt_names(prompts, "/", out, 0);
}

void user_prompts_free(char **name, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(name[i]);
	free(name);
}
